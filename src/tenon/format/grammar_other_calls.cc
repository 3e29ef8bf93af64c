// The beginnings of other forms are many, and each tool would follow each of them. So the text
// before a call and the first characters of the beginning are one lexeme for each place and
// beginning; forms with the same keys share their objects (object_of_other); and what follows a
// name is made when that name has been read (later), from a copy of what is needed for it (Kept).

#include "tenon/format/grammar_other_calls.h"

#include <algorithm>
#include <map>

namespace tenon::format {

namespace {

// As kWord (grammar_text.cc), short and without a backtick.
constexpr const char* kShortWord = R"(([!#-')-;=?-Z\\-_a-z|~]{0,23}[!#-')-+\-/-;=?-Z\\-_a-z|~])?)";

}  // namespace

// What the later part needs after this builder has been destroyed.
struct OtherCallGrammar::Kept {
  Kept(const Format& of, const std::vector<const Tool*>& all, const Known& known,
       const ToolGrammarOptions& how)
      : format(of.weak_from_this().lock()), options(how) {
    if (format == nullptr) format = std::make_shared<const Format>(of);
    for (const Tool* tool : all) {
      tools.push_back({.name = tool->name,
                       .parameters = tool->parameters,
                       .strict = tool->strict,
                       .grammar = tool->grammar});
      const auto found = known.find(tool);
      schemas.push_back(found == known.end() ? nullptr : found->second);
    }
  }
  [[nodiscard]] Expected<std::shared_ptr<const Rules>> make(
      std::size_t syntax, const std::function<NodeId(OtherCallGrammar&)>& part) const {
    std::vector<const Tool*> all;
    Known known;
    for (std::size_t i = 0; i < tools.size(); ++i) {
      all.push_back(&tools[i]);
      if (schemas[i] != nullptr) known.emplace(&tools[i], schemas[i]);
    }
    OtherCallGrammar builder(*format, std::move(all), std::move(known), options);
    builder.begin_other(format->syntaxes[syntax]);
    builder.rules_.set_root(part(builder));
    // A tool that the form cannot write is called in another form.
    if (builder.error_) return Unexpected(Error{Errc::unsatisfiable, builder.error_->message});
    return std::make_shared<const Rules>(std::move(builder.rules_));
  }

  std::shared_ptr<const Format> format;
  std::vector<Tool> tools;
  std::vector<Known::mapped_type> schemas;  // null where none is known
  ToolGrammarOptions options;
};

// Ways to answer with calls in other forms, or with `before` alone. The text before a call and
// the call's beginning are one lexeme, out of which few tokens lead; otherwise each token of a
// text would have to be checked as one that ends before a call. All other parts follow `before`.
// `is_covered`: see node::Lexeme.
std::vector<NodeId> OtherCallGrammar::calls_of_others(NodeId before, bool is_covered) {
  std::vector<NodeId> ways;
  const Syntax* const own = syntax_;
  for (const Lead::Place place : kPlaces) {
    // What follows the beginnings, by beginning and rank: after a call the parser reads no calls
    // of a later rank.
    std::map<std::string, std::map<std::size_t, std::vector<NodeId>>> rests;
    for_each_other(place, [&](const Syntax& each) {
      begin_other(each);
      const std::string first = first_literal(each.open.empty() ? each.call : each.open);
      // Control tokens do not occur in text, so it is the own form.
      if (has_control(first)) return;
      const bool is_opener = first.starts_with('<') || first.starts_with('[');
      const std::string begin = first.empty() ? "{" : is_opener ? first.substr(0, 1) : first;
      rests[begin][each.rank].push_back(section_of_other(begin));
    });
    for (auto& [begin, ranks] : rests) {
      const NodeId begun =
          rules_.sequence({rules_.add(node::Both{{before, lead(place)}}), rules_.literal(begin)});
      const NodeId lead_in = rules_.add(node::Lexeme{begun, is_covered});
      std::vector<NodeId> sections;
      for (auto& [rank, forms] : ranks) {
        const NodeId rest = rules_.choice(std::move(forms));
        if (!options_.parallel) {
          sections.push_back(rest);
          continue;
        }
        const NodeId more = rules_.sequence({spaces(), rules_.literal(begin), rest});
        // See space_before_end().
        sections.push_back(rules_.sequence({rest, any_number(more), spaces()}));
      }
      ways.push_back(rules_.sequence({lead_in, rules_.choice(std::move(sections))}));
    }
  }
  syntax_ = own;
  json_ = options_.json;
  return ways;
}

// After `begin`, which has been read.
NodeId OtherCallGrammar::section_of_other(const std::string& begin) {
  if (syntax().open.empty()) return call_of_other(begin);
  const NodeId one = call_of_other({});
  NodeId all = one;
  if (options_.parallel && syntax().several) {
    all = rules_.sequence({one, any_number(rules_.sequence({loosely(syntax().separator), one}))});
  }
  return rules_.sequence(
      {loosely(syntax().open, begin), spaces(), all, spaces(), loosely(syntax().close)});
}

// `begin`: the part of it that has been read.
NodeId OtherCallGrammar::call_of_other(const std::string& begin) {
  const Pattern& pattern = syntax().call;
  const auto object = std::ranges::find(pattern, Piece::Kind::object, &Piece::kind);
  if (object == pattern.end()) return call_by_heart(begin);
  const bool is_bare = object == pattern.begin();
  const NodeId whole = is_bare && !begin.empty()
                           ? object_of_other()
                           : rules_.sequence({rules_.literal("{"), object_of_other()});
  return rules_.sequence({loosely(Pattern(pattern.begin(), object), begin), whole,
                          loosely(Pattern(std::next(object), pattern.end()))});
}

// After its brace. It is the same for all forms whose objects have the same keys.
NodeId OtherCallGrammar::object_of_other() {
  const ObjectKeys& keys = syntax().object;
  for (const auto& [known, node] : objects_) {
    if (known->name == keys.name && known->arguments == keys.arguments && known->id == keys.id &&
        known->wrapper == keys.wrapper && known->name_is_key == keys.name_is_key) {
      return node;
    }
  }
  const NodeId made = make_object_of_other(keys);
  objects_.emplace_back(&keys, made);
  return made;
}

NodeId OtherCallGrammar::make_object_of_other(const ObjectKeys& keys) {
  const NodeId colon = rules_.sequence({spaces(), rules_.literal(":"), spaces()});
  const NodeId comma = rules_.sequence({spaces(), rules_.literal(","), spaces()});
  const NodeId open = rules_.sequence({rules_.literal("{"), spaces()});
  const NodeId close = rules_.sequence({spaces(), rules_.literal("}")});
  // No key comes twice, and there is at most one id; otherwise the parser finds no call.
  const NodeId type = optional(
      rules_.sequence({rules_.literal("\"type\""), colon, rules_.literal("\"function\""), comma}));
  std::optional<NodeId> with_id;
  if (!keys.id.empty()) {
    const NodeId id = rules_.sequence({spelled(keys.id, false), colon, quoted_id(), comma});
    with_id = rules_.choice({rules_.sequence({type, id}), rules_.sequence({id, type})});
  }
  const NodeId before = with_id ? rules_.choice({type, *with_id}) : type;
  const auto named = [&](bool is_wrapped) {
    const NodeId rest = later("\"", [is_wrapped](OtherCallGrammar& builder) {
      return builder.object_of_other_from_name(is_wrapped);
    });
    return rules_.sequence({spelled(keys.name, false), colon, rest});
  };
  std::vector<NodeId> ways{rules_.sequence({before, named(false)})};
  if (!keys.wrapper.empty()) {
    const NodeId wrapper = rules_.sequence({spelled(keys.wrapper, false), colon, open});
    const NodeId rest = rules_.sequence({named(true), close});
    ways.push_back(rules_.sequence({type, wrapper, before, rest}));
    if (with_id) ways.push_back(rules_.sequence({*with_id, wrapper, type, rest}));
  }
  return rules_.sequence({spaces(), rules_.choice(std::move(ways))});
}

// After the quote that begins the name, up to the brace that ends the object.
NodeId OtherCallGrammar::object_of_other_from_name(bool is_wrapped) {
  const ObjectKeys& keys = syntax().object;
  const NodeId close = rules_.sequence({spaces(), rules_.literal("}")});
  const NodeId between =
      rules_.sequence({spaces(), rules_.literal(","), spaces(),
                       spelled(is_wrapped ? wrapped_arguments(keys) : keys.arguments, false),
                       spaces(), rules_.literal(":"), spaces()});
  std::vector<NodeId> ways;
  for_each_tool([&] {
    ways.push_back(rules_.sequence(
        {rules_.literal(json::quoted(tool_->name).substr(1)), between, json_arguments(), close}));
  });
  return rules_.choice(std::move(ways));
}

// The same for a form with the name outside of JSON, whose pattern continues with `rest`. What
// follows a tool's name is made when the name has come.
NodeId OtherCallGrammar::named_of_other(const Pattern& rest) {
  std::vector<NodeId> ways;
  for_each_tool([&] {
    auto piece = rest.begin();
    while (piece->kind == Piece::Kind::space) ++piece;
    const bool is_literal = piece->kind == Piece::Kind::literal;
    const Pattern behind(is_literal ? std::next(piece) : piece, rest.end());
    const NodeId body = later(is_literal ? piece->text : "(",
                              [behind, name = tool_->name](OtherCallGrammar& builder) {
                                return builder.body_of_other(name, behind);
                              });
    ways.push_back(rules_.sequence({rules_.literal(tool_->name), body}));
  });
  return rules_.choice(std::move(ways));
}

NodeId OtherCallGrammar::body_of_other(const std::string& name, const Pattern& pattern) {
  NodeId body = rules_.choice({});
  for_each_tool([&] {
    if (tool_->name != name) return;
    const bool is_python = pattern.front().kind == Piece::Kind::keywords;
    body = is_python ? keywords(/*is_behind_paren=*/true) : filled(pattern);
  });
  return body;
}

// `first`, followed by what `make` writes with a builder that is at the same syntax.
NodeId OtherCallGrammar::later(std::string first, std::function<NodeId(OtherCallGrammar&)> make) {
  if (kept_ == nullptr) kept_ = std::make_shared<const Kept>(format_, tools_, known_, options_);
  const auto at = static_cast<std::size_t>(syntax_ - format_.syntaxes.data());
  return rules_.add(node::Later{
      std::move(first),
      [kept = kept_, at, make = std::move(make)]() -> Expected<std::shared_ptr<const Rules>> {
        return kept->make(at, make);
      }});
}

void OtherCallGrammar::begin_other(const Syntax& syntax) {
  syntax_ = &syntax;
  json_.whitespace = JsonOptions::Whitespace::any;
  json_.max_whitespace = kMaxSpaces;
}

// A pattern without slots other than words, in a form that models write by heart: with any white
// space between its parts, and beside parts that are not the first or the last of the form.
// `begin` of the first part has been read.
NodeId OtherCallGrammar::loosely(const Pattern& pattern, std::string_view begin) {
  std::vector<NodeId> parts;
  const auto is_space = [](const Piece& piece) { return piece.kind == Piece::Kind::space; };
  for (auto piece = pattern.begin(); piece != pattern.end(); ++piece) {
    if (piece->kind == Piece::Kind::word) {
      parts.push_back(rules_.add(node::Pattern{kShortWord}));
    } else if (piece->kind == Piece::Kind::space) {
      // An attribute must follow white space.
      const auto next = std::next(piece);
      if (next != pattern.end() && next->text.ends_with("=\"")) {
        parts.push_back(rules_.add(node::Pattern{R"([ \t\r\n])"}));
      }
      parts.push_back(spaces());
    } else {
      const bool follows = piece != pattern.begin() && !is_space(*std::prev(piece));
      if (follows) parts.push_back(spaces());
      const bool is_begun = piece == pattern.begin() && !begin.empty();
      parts.push_back(is_begun ? rules_.literal(piece->text.substr(begin.size()))
                               : marker(piece->text));
    }
  }
  return rules_.sequence(std::move(parts));
}

// A call in another form. `begin`: the part that has been read.
NodeId OtherCallGrammar::call_by_heart(std::string_view begin) {
  const Pattern& pattern = syntax().call;
  const auto first = std::ranges::find_if(pattern, is_filled);
  const auto behind = slots_end(pattern);
  const Pattern rest(std::next(first), behind);
  const bool is_python = rest.size() == 1 && rest.front().kind == Piece::Kind::keywords;
  if (is_python && !python_call_) python_call_ = named_of_other(rest);
  return rules_.sequence({loosely(Pattern(pattern.begin(), first), begin),
                          is_python ? *python_call_ : named_of_other(rest),
                          loosely(Pattern(behind, pattern.end()))});
}

}  // namespace tenon::format
