#include "tenon/format/tool_grammar.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tenon/base/log.h"
#include "tenon/format/definition.h"
#include "tenon/format/entities.h"
#include "tenon/format/input_grammar.h"
#include "tenon/format/json_filter.h"
#include "tenon/format/read_back.h"
#include "tenon/format/schema_types.h"
#include "tenon/format/value_style.h"
#include "tenon/format/whole_schemas.h"
#include "tenon/grammar/rules/spell.h"
#include "tenon/json/value.h"
#include "tenon/regex/byte_set.h"
#include "tenon/regex/code_points.h"
#include "tenon/schema/schema.h"

namespace tenon::format {
namespace {

// The word of a piece `word`, such as that of a fence, as the parser reads it: of ASCII, without
// brackets and quotes (after a name, a parenthesis would begin a Python call), and no end of a
// sentence. The short one has no backtick.
constexpr const char* kWord = R"(([!#-')-;=?-Z\\-z|~]*[!#-')-+\-/-;=?-Z\\-z|~])?)";
constexpr const char* kShortWord = R"(([!#-')-;=?-Z\\-_a-z|~]{0,23}[!#-')-+\-/-;=?-Z\\-_a-z|~])?)";

namespace node = grammar::node;
using grammar::JsonOptions;
using grammar::NodeId;
using grammar::Rules;
using message::Tool;
// Builds the grammar of an answer from a format and tools: the counterpart of StreamParser. Builder
// turns the same patterns into nodes of grammar::Rules: literals become markers (control tokens, if
// the model has them), slots become names, ids and arguments.
//
// Text must be text for the parser too. So free_text() is text without the markers that begin a
// call, and where only a tool's name makes a call, without that name in any notation (opening,
// named_member, with_escapes).
//
// JSON arguments are one node, the tool's schema. Arguments written one by one are built from the
// schema as JSON (parameters_of, parameter, value): each member becomes a parameter, in order or in
// every order that is small enough, and a value that is not JSON is a language of texts without the
// marker that ends it. WholeSchemas joins what references and allOf say of one value.
//
// A format with fallbacks has calls of other forms beside its own. The text before such a call and
// the call's beginning are one lexeme, so that a mask need not look at each token as a possible end
// of text; what follows is made only when a name has come (later, Kept). Forms that models write by
// heart differ in white space and order; calls with the same slots share their rules (Alike,
// Family).
using message::ToolMode;

// The object may have members that the schema does not declare.
bool is_open(const json::Value& schema) {
  const json::Value* const others = schema.find("additionalProperties");
  return others == nullptr || others->if_bool() == nullptr || *others->if_bool();
}

std::vector<std::string_view> required_names(const json::Value& schema) {
  std::vector<std::string_view> names;
  const json::Value* const list = schema.find("required");
  if (list == nullptr || list->if_array() == nullptr) return names;
  for (const json::Value& item : *list->if_array()) {
    if (item.if_string() != nullptr) names.push_back(*item.if_string());
  }
  return names;
}

// The properties that can be written one by one: those that the schema declares, and those that it
// only requires, whose values must fit what it says of other names.
json::Object properties_of(const json::Value& schema) {
  json::Object properties;
  const json::Value* const declared = schema.find("properties");
  if (declared != nullptr && declared->if_object() != nullptr) properties = *declared->if_object();
  const json::Value* others = schema.find("additionalProperties");
  if (schema.find("patternProperties") != nullptr) others = nullptr;
  for (const std::string_view name : required_names(schema)) {
    if (properties.contains(name)) continue;
    properties[name] = others != nullptr ? *others : json::Value(true);
  }
  return properties;
}

// True for the schema `false`.
bool is_nothing(const json::Value& schema) {
  return schema.if_bool() != nullptr && !*schema.if_bool();
}

std::optional<std::uint32_t> bound(const json::Value& schema, std::string_view keyword) {
  const json::Value* const value = schema.find(keyword);
  const auto number = value == nullptr || value->if_number() == nullptr
                          ? std::nullopt
                          : value->if_number()->to_int64();
  if (!number || *number < 0 || *number >= node::kUnbounded) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

class Builder {
  static constexpr int kMaxDepth = 50;

 public:
  Builder(const Format& format, std::vector<const Tool*> tools, const ToolGrammarOptions& options)
      : format_(format),
        tools_(std::move(tools)),
        options_(options),
        syntax_(format.syntaxes.empty() ? nullptr : &format.syntaxes.front()),
        json_(options.json) {}

  Expected<Rules> build(ToolMode mode) {
    NodeId answer = 0;
    if (mode == ToolMode::none) {
      answer = content();
    } else if (mode == ToolMode::required) {
      answer = calls_in_any_form();
    } else {
      answer = text_or_calls();
    }
    rules_.set_root(with_reasoning(answer, mode));
    if (error_) return Unexpected(*error_);
    return std::move(rules_);
  }

 private:
  // ---- Text and markers -------------------------------------------------------------------------

  // The model's turn ends inside the marker, so nothing can come behind it.
  [[nodiscard]] bool ends_turn(std::string_view marker) const {
    std::vector<vocab::TokenId> ids;
    const vocab::Tokenizer* const tokenizer = options_.tokenizer;
    return tokenizer != nullptr && tokenizer->encode(marker, vocab::Controls::on, false, ids) &&
           std::ranges::any_of(ids, [&](vocab::TokenId id) {
             return tokenizer->is_control(id) && tokenizer->ends_generation(id);
           });
  }
  // A text of the definition; parts that are control tokens of the model are read as tokens.
  NodeId marker(std::string_view text) {
    std::vector<vocab::TokenId> ids;
    const vocab::Tokenizer* const tokenizer = options_.tokenizer;
    if (tokenizer == nullptr || !tokenizer->encode(text, vocab::Controls::on, false, ids)) {
      return rules_.literal(std::string(text));
    }
    std::vector<NodeId> parts;
    std::string plain;
    const auto end_plain = [&] {
      if (!plain.empty()) parts.push_back(rules_.literal(std::exchange(plain, {})));
    };
    // By the text, because a tokenizer may add a space of its own.
    for (const vocab::TokenId id : ids) {
      if (!tokenizer->is_control(id)) continue;
      const std::string_view name = tokenizer->bytes(id);
      const std::size_t at = text.find(name);
      if (at == std::string_view::npos) continue;
      plain += text.substr(0, at);
      text.remove_prefix(at + name.size());
      end_plain();
      const auto number = static_cast<std::uint32_t>(id);
      parts.push_back(rules_.add(node::Token{{}, {{number, number}}, false}));
    }
    plain += text;
    end_plain();
    return rules_.sequence(std::move(parts));
  }

  NodeId optional(NodeId part) { return rules_.repeat(part, 0, 1); }
  NodeId any_number(NodeId part) { return rules_.repeat(part, 0, node::kUnbounded); }
  // Without NUL, which JSON strings cannot contain either.
  NodeId text_until(std::vector<std::string> stops) {
    stops.emplace_back(1, '\0');
    return rules_.add(node::Text{std::move(stops)});
  }

  // The text with which `pattern` begins, after white space; empty: a slot.
  static std::string first_literal(const Pattern& pattern) {
    for (const Piece& piece : pattern) {
      if (piece.kind == Piece::Kind::literal) return piece.text;
      if (piece.kind != Piece::Kind::space) break;
    }
    return {};
  }

  /// The current syntax: the format's own, or a fallback's.
  const Syntax& syntax() const { return *syntax_; }
  bool is_own() const { return syntax_->rank == 0; }
  static std::string trigger_of(const Syntax& syntax) {
    return first_literal(syntax.open.empty() ? syntax.call : syntax.open);
  }
  // The beginnings of calls in every syntax of the format's own that is read.
  std::vector<std::string> triggers() const {
    std::vector<std::string> all;
    for (const Syntax& each : format_.syntaxes) {
      if (each.rank > 0 || each.needs_tools) continue;
      if (std::string first = trigger_of(each); !first.empty()) all.push_back(std::move(first));
      if (each.section_optional) {
        if (std::string first = first_literal(each.call); !first.empty()) {
          all.push_back(std::move(first));
        }
      }
    }
    return all;
  }

  // Text never contains the beginning of a message's head.
  void add_heads(std::vector<std::string>& stops) const {
    if (format_.head.end.empty()) return;
    stops.insert(stops.end(), format_.head.begin.begin(), format_.head.begin.end());
    if (std::string between = first_literal(format_.between); !between.empty()) {
      stops.push_back(std::move(between));
    }
  }

  // A text that does not occur by chance: a model that writes it is meant to continue with a call.
  static bool is_mark(std::string_view literal) {
    constexpr std::size_t kLeast = 4;
    return literal.size() >= kLeast && literal.find_first_of("<>[]{}|") != std::string_view::npos;
  }
  // The text is constrained (JSON or a grammar), and is not just any text without calls.
  bool holds_text() const {
    return options_.content != nullptr || options_.content_grammar != nullptr;
  }
  // Text that the parser reads as text: no call of any syntax begins in it. A call begins with a
  // mark, or, if that is only a word or a bracket, with everything before a tool's name and the
  // name.
  NodeId free_text() {
    if (free_text_) return *free_text_;
    if (options_.content != nullptr) {
      free_text_ = rules_.add(node::Json{options_.content, options_.json});
      return *free_text_;
    }
    if (options_.content_grammar != nullptr) {
      const auto copy =
          grammar::add_spelled(rules_, *options_.content_grammar, grammar::Spelling::copied);
      if (!copy) fail(copy.error());
      free_text_ = copy ? *copy : 0;
      return *free_text_;
    }
    std::vector<std::string> stops = format_.content_close;
    if (format_.reasoning_anywhere) {
      stops.insert(stops.end(), format_.reasoning_open.begin(), format_.reasoning_open.end());
    }
    add_heads(stops);
    std::vector<NodeId> openings;
    const bool is_framed = !format_.content_open.empty() || !format_.prompt_end.empty();
    const auto bar = [&](const Syntax& each, const Pattern& pattern) {
      const std::string first = first_literal(pattern);
      // After other words no head begins so.
      if (std::ranges::find(format_.head.begin_first, first) != format_.head.begin_first.end()) {
        return;
      }
      if (is_mark(first) || (is_framed && &each == &syntax())) {
        stops.push_back(first);
      } else if (!tools_.empty()) {
        openings.push_back(opening(each, pattern));
      }
    };
    for (const Syntax& each : format_.syntaxes) {
      if (each.rank > 0) continue;
      Pattern first = each.open;
      first.insert(first.end(), each.call.begin(), each.call.end());
      bar(each, first);
      if (each.section_optional) bar(each, each.call);
    }
    std::erase(stops, "");
    NodeId text = text_until(std::move(stops));
    if (!openings.empty()) {
      const NodeId any = rules_.add(node::Text{});
      const NodeId opened = rules_.sequence({any, rules_.choice(std::move(openings)), anything()});
      text = both(text, rules_.add(node::Complement{opened}));
    }
    free_text_ = without_reasoning(without(text, openings_of_others()));
    return *free_text_;
  }

  // ---- Calls in other forms ---------------------------------------------------------------------

  static constexpr Lead::Place kPlaces[] = {Lead::Place::anywhere, Lead::Place::line,
                                            Lead::Place::sentence};

  // Texts after which a call in another form may begin; lead.h is the parser's side of it.
  NodeId lead(Lead::Place place) {
    const NodeId any = rules_.add(node::Text{Lead::stops()});
    if (options_.others_first) place = Lead::Place::first;
    return rules_.add(node::Both{{any, rules_.add(node::Pattern{Lead::unquoted()}),
                                  rules_.add(node::Pattern{Lead::pattern_of(place)})}});
  }
  template <class F>
  void for_each_other(Lead::Place place, F f) {
    for (const Syntax& each : format_.syntaxes) {
      if (each.rank > 0 && each.place == place) f(each);
    }
  }
  // The text up to where it can only be a call in another form. The part that the forms share after
  // their beginnings is written once, because it consists mostly of names.
  std::vector<NodeId> openings_of_others() {
    if (tools_.empty()) return {};
    std::map<std::string, Openings> groups;
    for (const Lead::Place place : kPlaces) {
      std::map<std::string, std::vector<NodeId>> here;
      for_each_other(place, [&](const Syntax& each) {
        Pattern first = each.open;
        first.insert(first.end(), each.call.begin(), each.call.end());
        add_opening(each, first, groups, here);
        if (each.section_optional) add_opening(each, each.call, groups, here);
      });
      for (auto& [group, beginnings] : here) {
        groups[group].beginnings.push_back(
            rules_.sequence({lead(place), rules_.choice(std::move(beginnings))}));
      }
    }
    std::vector<NodeId> barred;
    for (auto& [name, group] : groups) {
      barred.push_back(rules_.sequence({rules_.choice(std::move(group.beginnings)), group.rest}));
    }
    return barred;
  }
  struct Openings {
    std::vector<NodeId> beginnings;  // with the text before them
    NodeId rest = 0;
  };
  // `here`: the beginnings at one place, by groups.
  void add_opening(const Syntax& syntax, const Pattern& pattern,
                   std::map<std::string, Openings>& groups,
                   std::map<std::string, std::vector<NodeId>>& here) {
    std::vector<NodeId> parts;
    auto piece = pattern.begin();
    for (; piece != pattern.end(); ++piece) {
      // White space before a marker, as the parser accepts it; not before the first part.
      if (!parts.empty()) parts.push_back(any_space());
      if (piece->kind == Piece::Kind::word) {
        parts.push_back(rules_.add(node::Pattern{kWord}));
      } else if (piece->kind == Piece::Kind::literal) {
        parts.push_back(rules_.literal(piece->text));
        if (parts.size() == 1 && !syntax.needs_tools && is_tag(piece->text)) break;
      } else if (piece->kind != Piece::Kind::space) {
        break;
      }
    }
    const std::string group = group_of(syntax, pattern, piece);
    Openings& openings = groups.try_emplace(group).first->second;
    if (openings.beginnings.empty() && !here.contains(group)) {
      openings.rest = opening_rest(syntax, pattern, piece);
    }
    here[group].push_back(rules_.sequence(std::move(parts)));
  }
  // A text that is nothing else: it is a control token in other models.
  static bool is_tag(std::string_view text) { return text.starts_with('<') && text.ends_with('>'); }
  // Forms of one group continue in the same way from `piece` on.
  static std::string group_of(const Syntax& syntax, const Pattern& pattern,
                              Pattern::const_iterator piece) {
    std::string group;
    if (piece == pattern.end() || piece->kind == Piece::Kind::literal) return group;
    if (piece->kind == Piece::Kind::object) {
      for (const auto* keys : {&syntax.object.name, &syntax.object.arguments, &syntax.object.id,
                               &syntax.object.wrapper}) {
        for (const std::string& key : *keys) group += key + ',';
        group += ';';
      }
      return group;
    }
    for (; piece != pattern.end(); ++piece) {
      if (piece->kind == Piece::Kind::space) continue;
      group += std::to_string(static_cast<int>(piece->kind)) + piece->text;
      if (piece->kind != Piece::Kind::name) break;
    }
    return group;
  }
  NodeId opening_rest(const Syntax& syntax, const Pattern& pattern, Pattern::const_iterator piece) {
    std::vector<NodeId> parts;
    if (piece == pattern.end() || piece->kind == Piece::Kind::literal) return rules_.literal("");
    if (piece->kind == Piece::Kind::object) return object_opening(syntax.object);
    for (; piece != pattern.end(); ++piece) {
      if (!parts.empty()) parts.push_back(any_space());
      if (piece->kind == Piece::Kind::name) {
        parts.push_back(known_name(""));
        continue;
      }
      if (piece->kind == Piece::Kind::space) continue;
      if (piece->kind == Piece::Kind::literal) {
        parts.push_back(rules_.literal(piece->text));
      } else if (piece->kind == Piece::Kind::keywords) {
        parts.push_back(rules_.add(node::Pattern{kFirstKeyword}));
      } else {
        parts.push_back(rules_.literal("{"));
      }
      break;
    }
    return rules_.sequence(std::move(parts));
  }
  static constexpr const char* kFirstKeyword =
      R"(\([ \t\r\n]*(?:\)|[^\s="'(){}\[\],]+[ \t\r\n]*=))";
  // An object up to the arguments of a tool: with only a name it may be a description of one.
  NodeId object_opening(const ObjectKeys& keys) {
    const NodeId space = any_space();
    const NodeId colon = rules_.sequence({space, rules_.literal(":"), space});
    const NodeId comma = rules_.sequence({space, rules_.literal(","), space});
    const NodeId text = rules_.add(node::Pattern{R"("(?:[^"\\]|\\[\s\S])*")"});
    std::vector<std::string> heads = keys.id;
    heads.emplace_back("type");
    const NodeId before = any_number(rules_.sequence({spelled(heads, true), colon, text, comma}));
    std::vector<std::string_view> names;
    for (const Tool* tool : tools_) names.push_back(tool->name);
    const NodeId name = rules_.choice(
        options_.bars_escapes ? std::vector<NodeId>{known_name("\""), with_escapes(names)}
                              : std::vector<NodeId>{known_name("\"")});
    const auto named = [&](const std::vector<std::string>& arguments) {
      return rules_.sequence({spelled(keys.name, true), colon, name, comma,
                              spelled(arguments, true), space, rules_.literal(":")});
    };
    const NodeId brace = rules_.sequence({rules_.literal("{"), space});
    std::vector<NodeId> ways{named(keys.arguments)};
    if (!keys.wrapper.empty()) {
      ways.push_back(rules_.sequence(
          {spelled(keys.wrapper, true), colon, brace, before, named(wrapped_arguments(keys))}));
    }
    return rules_.sequence({brace, before, rules_.choice(std::move(ways))});
  }
  // Keys between quotes, unchanged and, with `loosely`, in every notation with escapes.
  NodeId spelled(const std::vector<std::string>& keys, bool loosely) {
    std::vector<NodeId> ways;
    for (const std::string& key : keys) ways.push_back(rules_.literal(json::quoted(key)));
    if (loosely && options_.bars_escapes) {
      ways.push_back(with_escapes(std::vector<std::string_view>(keys.begin(), keys.end())));
    }
    return rules_.choice(std::move(ways));
  }

  // If a call is required and may have another form, the model can choose: a model that is forced
  // into a form that it does not write by itself may not find an end.
  NodeId calls_in_any_form() {
    const NodeId own = calls(Where::must_begin);
    const bool is_framed = !format_.content_open.empty() || !format_.prompt_end.empty();
    if (!options_.required_in_any_form || !format_.has_gated || is_framed) return own;
    std::vector<NodeId> ways =
        calls_of_others(rules_.add(node::Pattern{"[ \\t\\n\\r]{0,20}"}), /*is_covered=*/false);
    ways.insert(ways.begin(), own);
    return rules_.choice(std::move(ways));
  }

  // Ways to answer with calls in other forms, or with `before` alone. The text before a call and
  // the call's beginning are one lexeme, out of which few tokens lead; otherwise each token of a
  // text would have to be checked as one that ends before a call. All other parts follow `before`.
  // `is_covered`: see node::Lexeme.
  std::vector<NodeId> calls_of_others(NodeId before, bool is_covered) {
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
  NodeId section_of_other(const std::string& begin) {
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
  NodeId call_of_other(const std::string& begin) {
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
  NodeId object_of_other() {
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
  NodeId make_object_of_other(const ObjectKeys& keys) {
    const NodeId colon = rules_.sequence({spaces(), rules_.literal(":"), spaces()});
    const NodeId comma = rules_.sequence({spaces(), rules_.literal(","), spaces()});
    const NodeId open = rules_.sequence({rules_.literal("{"), spaces()});
    const NodeId close = rules_.sequence({spaces(), rules_.literal("}")});
    // No key comes twice, and there is at most one id; otherwise the parser finds no call.
    const NodeId type = optional(rules_.sequence(
        {rules_.literal("\"type\""), colon, rules_.literal("\"function\""), comma}));
    std::optional<NodeId> with_id;
    if (!keys.id.empty()) {
      const NodeId id = rules_.sequence({spelled(keys.id, false), colon, quoted_id(), comma});
      with_id = rules_.choice({rules_.sequence({type, id}), rules_.sequence({id, type})});
    }
    const NodeId before = with_id ? rules_.choice({type, *with_id}) : type;
    const auto named = [&](bool is_wrapped) {
      const NodeId rest = later("\"", [is_wrapped](Builder& builder) {
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
  NodeId object_of_other_from_name(bool is_wrapped) {
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
  NodeId named_of_other(const Pattern& rest) {
    std::vector<NodeId> ways;
    for_each_tool([&] {
      auto piece = rest.begin();
      while (piece->kind == Piece::Kind::space) ++piece;
      const bool is_literal = piece->kind == Piece::Kind::literal;
      const Pattern behind(is_literal ? std::next(piece) : piece, rest.end());
      const NodeId body =
          later(is_literal ? piece->text : "(", [behind, name = tool_->name](Builder& builder) {
            return builder.body_of_other(name, behind);
          });
      ways.push_back(rules_.sequence({rules_.literal(tool_->name), body}));
    });
    return rules_.choice(std::move(ways));
  }
  NodeId body_of_other(const std::string& name, const Pattern& pattern) {
    NodeId body = rules_.choice({});
    for_each_tool([&] {
      if (tool_->name != name) return;
      const bool is_python = pattern.front().kind == Piece::Kind::keywords;
      body = is_python ? keywords(/*is_behind_paren=*/true) : filled(pattern);
    });
    return body;
  }
  // `first`, followed by what `make` writes with a builder that is at the same syntax.
  NodeId later(std::string first, std::function<NodeId(Builder&)> make) {
    if (kept_ == nullptr) kept_ = std::make_shared<const Kept>(format_, tools_, options_);
    const auto at = static_cast<std::size_t>(syntax_ - format_.syntaxes.data());
    return rules_.add(node::Later{
        std::move(first),
        [kept = kept_, at, make = std::move(make)]() -> Expected<std::shared_ptr<const Rules>> {
          return kept->make(at, make);
        }});
  }
  // What the later part needs after this builder has been destroyed.
  struct Kept {
    Kept(const Format& of, const std::vector<const Tool*>& all, const ToolGrammarOptions& how)
        : format(of.weak_from_this().lock()), options(how) {
      if (format == nullptr) format = std::make_shared<const Format>(of);
      for (const Tool* tool : all) {
        tools.push_back({.name = tool->name,
                         .parameters = tool->parameters,
                         .strict = tool->strict,
                         .grammar = tool->grammar});
      }
    }
    [[nodiscard]] Expected<std::shared_ptr<const Rules>> make(
        std::size_t syntax, const std::function<NodeId(Builder&)>& part) const {
      std::vector<const Tool*> all;
      for (const Tool& tool : tools) all.push_back(&tool);
      Builder builder(*format, std::move(all), options);
      builder.begin_other(format->syntaxes[syntax]);
      builder.rules_.set_root(part(builder));
      // A tool that the form cannot write is called in another form.
      if (builder.error_) return Unexpected(Error{Errc::unsatisfiable, builder.error_->message});
      return std::make_shared<const Rules>(std::move(builder.rules_));
    }

    std::shared_ptr<const Format> format;
    std::vector<Tool> tools;
    ToolGrammarOptions options;
  };
  void begin_other(const Syntax& syntax) {
    syntax_ = &syntax;
    json_.whitespace = JsonOptions::Whitespace::any;
    json_.max_whitespace = kMaxSpaces;
  }
  // The white space that may be written around the parts of a form.
  static constexpr std::uint32_t kMaxSpaces = 40;
  NodeId spaces() {
    if (!spaces_) {
      spaces_ = rules_.add(node::Pattern{"[ \\t\\r\\n]{0," + std::to_string(kMaxSpaces) + "}"});
    }
    return *spaces_;
  }
  // A pattern without slots other than words, in a form that models write by heart: with any white
  // space between its parts, and beside parts that are not the first or the last of the form.
  // `begin` of the first part has been read.
  NodeId loosely(const Pattern& pattern, std::string_view begin = {}) {
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

  // ---- Text -------------------------------------------------------------------------------------

  // Reasoning begins only if no words have come since the last marker. Openers that are control
  // tokens do not occur in text.
  NodeId without_reasoning(NodeId text) {
    if (format_.reasoning_anywhere) return text;  // free_text() stops there
    std::vector<NodeId> openers;
    for (const std::string& open : format_.reasoning_open) {
      if (!has_control(open)) openers.push_back(rules_.literal(open));
    }
    if (openers.empty()) return text;
    std::vector<NodeId> before{rules_.literal("")};
    for (const std::string& close : format_.reasoning_close) {
      before.push_back(rules_.sequence({any_space(), rules_.literal(close)}));
    }
    for (const std::string& drop : format_.drop) {
      before.push_back(rules_.sequence({rules_.add(node::Text{}), rules_.literal(drop)}));
    }
    return without(text, {rules_.sequence({rules_.choice(std::move(before)), any_space(),
                                           rules_.choice(std::move(openers))})});
  }
  bool has_control(std::string_view text) const {
    std::vector<vocab::TokenId> ids;
    const vocab::Tokenizer* const tokenizer = options_.tokenizer;
    return tokenizer != nullptr && tokenizer->encode(text, vocab::Controls::on, false, ids) &&
           std::ranges::any_of(ids, [&](vocab::TokenId id) { return tokenizer->is_control(id); });
  }
  // What texts of `pattern` have in common up to the name of a tool and the text after it, in every
  // notation that the parser accepts.
  NodeId opening(const Syntax& syntax, const Pattern& pattern) {
    const NodeId space = any_space();
    std::vector<NodeId> parts;
    bool is_named = false;
    for (const Piece& piece : pattern) {
      switch (piece.kind) {
        case Piece::Kind::space:
          continue;
        case Piece::Kind::literal:
          parts.insert(parts.end(), {space, rules_.literal(piece.text)});
          if (is_named) break;
          continue;
        case Piece::Kind::name:
          parts.insert(parts.end(), {space, known_name("")});
          is_named = true;
          continue;
        case Piece::Kind::keywords:
          parts.insert(parts.end(), {space, rules_.literal("(")});
          break;
        case Piece::Kind::members:
        case Piece::Kind::arguments:
          parts.insert(parts.end(), {space, rules_.literal("{")});
          break;
        case Piece::Kind::word:
          parts.insert(parts.end(), {space, rules_.add(node::Pattern{kWord})});
          continue;
        case Piece::Kind::object:
          return named_member(syntax.object);
        default:
          break;
      }
      break;
    }
    return parts.empty() ? rules_.choice({}) : rules_.sequence(std::move(parts));
  }
  static std::string within(std::string_view quote, std::string_view text) {
    return std::string(quote).append(text).append(quote);
  }
  // One of the names that may be called, between quotes. If they are too many for one automaton,
  // any name counts as one.
  NodeId known_name(std::string_view quote) {
    constexpr std::size_t kMaxBytes = 4000;
    std::size_t size = 0;
    std::vector<NodeId> ways;
    for (const Tool* tool : tools_) {
      size += tool->name.size();
      ways.push_back(
          rules_.literal(quote == "\"" ? json::quoted(tool->name) : within(quote, tool->name)));
    }
    if (size > kMaxBytes) {
      const std::string bare = R"([^\s(){}\[\]"]+)";
      const std::string quoted = "[^" + std::string(quote) + "]+";
      return rules_.add(node::Pattern{quote.empty() ? bare : within(quote, quoted)});
    }
    return rules_.choice(std::move(ways));
  }
  // The member of an object that names a tool, at any place among the others and in any notation of
  // key and name.
  NodeId named_member(const ObjectKeys& keys) {
    const NodeId colon = rules_.sequence({any_space(), rules_.literal(":"), any_space()});
    std::vector<std::string_view> names;
    for (const Tool* tool : tools_) names.push_back(tool->name);
    std::vector<NodeId> spellings{known_name("\""), known_name("'")};
    std::vector<NodeId> ways;
    if (options_.bars_escapes) {
      spellings.push_back(with_escapes(names));
      ways.push_back(
          with_escapes(std::vector<std::string_view>(keys.name.begin(), keys.name.end())));
    }
    const NodeId name = rules_.choice(std::move(spellings));
    if (keys.name_is_key) return rules_.sequence({name, colon});
    for (const std::string& key : keys.name) {
      ways.push_back(rules_.literal(json::quoted(key)));
      ways.push_back(rules_.literal(within("'", key)));
    }
    return rules_.sequence({rules_.choice(std::move(ways)), colon, name});
  }
  // JSON strings that write a character of `texts` with an unnecessary escape, so they may be one
  // of these texts in another notation. An exact automaton would need every character in all its
  // notations, which is too large.
  NodeId with_escapes(const std::vector<std::string_view>& texts) {
    std::string used;
    for (const std::string_view text : texts) used += text;
    std::ranges::sort(used);
    used.erase(std::unique(used.begin(), used.end()), used.end());
    std::string escapes;
    for (const char character : used) {
      const bool is_plain = character >= ' ' && character <= '~';
      escapes += (escapes.empty() ? "" : "|") + (is_plain ? escape_of(character) : kAnyEscape);
      if (character == '/') escapes += "|/";
    }
    const std::string any = R"((?:[^"\\]|\\[\s\S])*)";
    return rules_.add(node::Pattern{"\"" + any + R"(\\(?:)" + escapes + ")" + any + "\""});
  }
  static inline const std::string kAnyEscape = "u[0-9A-Fa-f]{4}";
  // The escapes of an ASCII character, as a pattern, after the backslash.
  static std::string escape_of(char character) {
    constexpr std::string_view kHex = "0123456789abcdef";
    const auto code = static_cast<unsigned char>(character);
    const char last = kHex[code % 16];
    const std::string digit =
        last > '9' ? std::string{'[', last, static_cast<char>(last - 32), ']'} : std::string{last};
    return std::string("u00") + kHex[code / 16] + digit;
  }
  NodeId any_space() { return rules_.add(node::Pattern{"[ \\t\\r\\n]*"}); }
  NodeId both(NodeId one, NodeId other) {
    return rules_.add(node::Lexeme{rules_.add(node::Both{{one, other}})});
  }

  // Text in the format's frame for it.
  NodeId content() {
    if (format_.content_open.empty()) return free_text();
    std::vector<NodeId> messages;
    for (const bool is_first : {true, false}) {
      std::vector<NodeId> openers;
      for (const std::string& open : format_.content_open) {
        openers.push_back(marker(is_first ? behind_prompt(open) : open));
      }
      std::vector<NodeId> closers;
      for (const std::string& close : format_.content_close) closers.push_back(marker(close));
      NodeId end = rules_.literal("");
      if (!closers.empty()) end = optional(rules_.sequence({rules_.choice(closers), between()}));
      const NodeId text = is_first ? first_text() : free_text();
      messages.push_back(rules_.sequence({rules_.choice(std::move(openers)), text, end}));
    }
    if (holds_text()) return messages[0];
    return rules_.sequence({messages[0], any_number(messages[1])});
  }
  NodeId between() {
    return format_.between.empty() ? rules_.literal("") : optional(plain(format_.between));
  }
  // `text` without the part with which the prompt ends.
  std::string behind_prompt(const std::string& text) const {
    const std::string& end = format_.prompt_end;
    return !end.empty() && text.starts_with(end) ? text.substr(end.size()) : text;
  }

  NodeId text_or_calls() {
    if (holds_text()) return rules_.choice({content(), calls(Where::may_begin)});
    const bool is_framed = !format_.content_open.empty();
    const NodeId behind_text = calls(Where::behind);
    const NodeId before = is_framed ? content() : text_before_call();
    NodeId text = rules_.sequence({before, optional(behind_text)});
    if (format_.has_gated) {
      // See anything() for why `before` is dead at once.
      std::vector<NodeId> ways = calls_of_others(before, options_.tokenizer != nullptr);
      ways.insert(ways.begin(), text);
      text = rules_.choice(std::move(ways));
    }
    if (!format_.prompt_end.empty()) return rules_.choice({text, calls(Where::may_begin)});
    return is_framed ? rules_.choice({text, behind_text}) : text;
  }
  // Text at the beginning of an answer: without anything that the parser takes for more than text
  // there.
  NodeId first_text() {
    std::vector<NodeId> barred;
    if (!holds_text()) add_calls_behind_prompt(barred);
    return without(free_text(), std::move(barred));
  }
  NodeId without(NodeId text, std::vector<NodeId> barred) {
    if (barred.empty()) return text;
    return both(text, rules_.add(node::Complement{
                          rules_.sequence({rules_.choice(std::move(barred)), anything()})}));
  }
  // Any bytes, also invalid characters. So after an excluded text the state is dead at once,
  // without a search. Grammars that are printed have characters only.
  NodeId anything() {
    if (options_.tokenizer == nullptr) return rules_.add(node::Text{});
    return any_number(rules_.add(node::Bytes{regex::ByteSet::all()}));
  }
  // If the prompt ends with the beginning of a call, only the name distinguishes it from text.
  void add_calls_behind_prompt(std::vector<NodeId>& openings) {
    const bool is_behind_words = std::ranges::any_of(format_.content_open, [&](const auto& open) {
      return behind_prompt(open).find_first_not_of(" \t\r\n") != std::string::npos;
    });
    if (format_.prompt_end.empty() || tools_.empty() || is_behind_words) return;
    for (const Syntax& each : format_.syntaxes) {
      Pattern pattern = each.open;
      pattern.insert(pattern.end(), each.call.begin(), each.call.end());
      std::string& first = pattern.front().text;
      if (!first.starts_with(format_.prompt_end)) continue;
      first = behind_prompt(first);
      openings.push_back(opening(each, pattern));
    }
  }
  // An answer that begins like an object with a name is a call and not text.
  NodeId text_before_call() {
    const Pattern& pattern = syntax().open.empty() ? syntax().call : syntax().open;
    const ObjectKeys& keys = syntax().object;
    std::vector<NodeId> barred;
    if (pattern.front().kind == Piece::Kind::object && !keys.name_is_key) {
      const std::string& name = keys.name.front();
      barred.push_back(rules_.sequence({any_space(), rules_.literal("{"), any_space(),
                                        rules_.choice({rules_.literal(json::quoted(name)),
                                                       rules_.literal(within("'", name))})}));
    }
    return without(first_text(), std::move(barred));
  }

  // Tokens are counted as wholes, so that none reaches from the reasoning into what closes it.
  NodeId limited_reasoning(NodeId text) {
    if (!options_.max_reasoning_tokens) return text;
    const NodeId none = rules_.literal("");
    if (*options_.max_reasoning_tokens == 0) return none;
    return rules_.choice({none, rules_.add(node::Tokens{rules_.add(node::Lexeme{text}),
                                                        *options_.max_reasoning_tokens})});
  }

  NodeId with_reasoning(NodeId answer, ToolMode mode) {
    if (!has_reasoning_section(format_)) return answer;
    // What ends the reasoning for the parser is not part of it.
    std::vector<std::string> stops = format_.reasoning_close;
    stops.insert(stops.end(), format_.content_open.begin(), format_.content_open.end());
    if (format_.call_ends_reasoning) {
      const std::vector<std::string> starts = triggers();
      stops.insert(stops.end(), starts.begin(), starts.end());
    }
    add_heads(stops);
    const NodeId body = limited_reasoning(text_until(std::move(stops)));
    const NodeId space = rules_.add(node::Pattern{"[ \\t\\n\\r]{0,20}"});
    // The end of the prompt comes before each message; otherwise a name would be text there.
    const NodeId head = format_.prompt_end.empty() ? between() : plain(format_.between);
    const NodeId close = rules_.sequence({marker(format_.reasoning_close.front()), space, head});
    if (!starts_in_reasoning(format_, options_.prompt_tail)) {
      const bool may_think = options_.reasoning && options_.max_reasoning_tokens != 0U;
      if (!may_think || ends_turn(format_.reasoning_close.front())) return answer;
      const bool is_text_first = mode == ToolMode::automatic && !holds_text();
      // The same white space as before a call; otherwise the model would be led away from calling.
      const bool is_call_first = mode == ToolMode::required && !format_.has_known_edges;
      const NodeId before = is_text_first   ? space
                            : is_call_first ? edge_space()
                                            : rules_.literal("");
      const NodeId open = marker(format_.reasoning_open.front());
      return rules_.sequence({optional(rules_.sequence({before, open, body, close})), answer});
    }
    const NodeId closed = rules_.sequence({close, answer});
    const bool may_call = format_.call_ends_reasoning && mode != ToolMode::none;
    return rules_.sequence(
        {body, may_call ? rules_.choice({closed, calls(Where::behind)}) : closed});
  }

  // ---- Calls ------------------------------------------------------------------------------------

  // The slots of calls, and the forms with these slots, which differ only in the text around them.
  struct Alike {
    Pattern slots;
    std::vector<const Syntax*> forms;
    NodeId filled = 0;
  };
  // Calls that may follow each other: the text between two of them and after the last is the same.
  struct Family {
    std::vector<std::string> betweens;
    std::vector<std::string> ends;
    std::vector<Alike> alike;
  };

  // Where calls stand: they begin the answer after the prompt's end, and must or may do so; or
  // something comes before them.
  enum class Where : std::uint8_t { must_begin, may_begin, behind };

  // Calls in the format's forms.
  NodeId calls(Where where) {
    std::vector<NodeId> ways;
    for (Family& family : families()) ways.push_back(calls_of(family, where));
    return rules_.choice(std::move(ways));
  }
  std::vector<Family> families() {
    std::vector<Alike> groups;
    add_form(groups, format_.syntaxes.front());
    for (const Syntax& form : format_.forms) add_form(groups, form);
    std::vector<Family> all;
    for (Alike& group : groups) {
      std::vector<std::string> betweens;
      std::vector<std::string> ends;
      for (const Syntax* const form : group.forms) {
        const std::string tail = parts_of(form->call).tail;
        add_new(betweens, tail + text_of(form->separator));
        add_new(ends, tail + text_of(form->close));
        add_new(ends, tail + space_before_end(*form) + text_of(form->close));
        if (!form->behind.empty()) add_new(ends, tail + text_of(form->close) + form->behind);
      }
      const auto same = std::ranges::find_if(all, [&](const Family& family) {
        return family.betweens == betweens && family.ends == ends;
      });
      if (same != all.end()) {
        same->alike.push_back(std::move(group));
      } else {
        all.push_back({std::move(betweens), std::move(ends), {std::move(group)}});
      }
    }
    return all;
  }
  void add_form(std::vector<Alike>& groups, const Syntax& form) {
    if (tools_.size() > kMostBehindArguments && names_behind_arguments(form.call)) return;
    Pattern slots = parts_of(form.call).slots;
    for (Alike& group : groups) {
      if (group.slots != slots || !is_filled_alike(*group.forms.front(), form)) continue;
      group.forms.push_back(&form);
      return;
    }
    groups.push_back({std::move(slots), {&form}});
  }
  static bool is_filled_alike(const Syntax& a, const Syntax& b) {
    return a.parameter == b.parameter && a.string_quote == b.string_quote && a.item == b.item &&
           a.entities == b.entities && a.layout == b.layout && a.notation == b.notation &&
           a.object == b.object;
  }
  // Until the name has come, the arguments of all tools are read in parallel.
  static constexpr std::size_t kMostBehindArguments = 32;
  static bool names_behind_arguments(const Pattern& call) {
    const auto body = std::ranges::find(call, Piece::Kind::arguments, &Piece::kind);
    return std::find_if(body, call.end(), [](const Piece& piece) {
             return piece.kind == Piece::Kind::name;
           }) != call.end();
  }
  static void add_new(std::vector<std::string>& texts, std::string text) {
    if (std::ranges::find(texts, text) == texts.end()) texts.push_back(std::move(text));
  }

  NodeId calls_of(Family& family, Where where) {
    const bool is_behind_prompt = where != Where::behind && !format_.prompt_end.empty();
    std::vector<NodeId> first;
    std::vector<NodeId> next;
    bool several = options_.parallel && format_.info.parallel;
    for (Alike& group : family.alike) {
      begin_form(*group.forms.front());
      group.filled = call_slots(group.slots);
      std::vector<std::string> begins;
      std::vector<std::string> heads;
      for (const Syntax* const form : group.forms) {
        several = several && form->several;
        const std::string head = parts_of(form->call).head;
        const std::string begin = text_of(form->open) + head;
        add_new(heads, head);
        add_new(begins, is_behind_prompt ? behind_prompt(begin) : begin);
        if (where != Where::behind && !form->before.empty()) add_new(begins, form->before + begin);
      }
      first.push_back(rules_.sequence({any_marker(begins), group.filled}));
      next.push_back(rules_.sequence({any_marker(heads), group.filled}));
    }
    begin_form(format_.syntaxes.front());
    NodeId all = rules_.choice(std::move(first));
    if (several) {
      const NodeId more =
          rules_.sequence({any_marker(family.betweens), rules_.choice(std::move(next))});
      all = rules_.sequence({all, any_number(more)});
    }
    std::vector<NodeId> parts{all, any_marker(family.ends)};
    if (!format_.has_known_edges) {
      const bool is_name_first = !format_.prompt_end.empty();
      if (where == Where::must_begin && !is_name_first) parts.insert(parts.begin(), edge_space());
      if (several) parts.push_back(edge_space());
    }
    return rules_.sequence(std::move(parts));
  }
  void begin_form(const Syntax& form) {
    syntax_ = &form;
    json_ = options_.json;
    if (form.layout == Layout::compact) json_.whitespace = JsonOptions::Whitespace::compact;
    if (form.layout != Layout::any) return;
    json_.whitespace = JsonOptions::Whitespace::any;
    json_.max_whitespace = kMaxSpaces;  // a line break, and four spaces for each level
  }
  // White space around calls, if it is not known what the model's template writes there.
  NodeId edge_space() { return rules_.add(node::Pattern{"[ \\n]{0,2}"}); }
  NodeId any_marker(const std::vector<std::string>& texts) {
    std::vector<NodeId> ways;
    for (const std::string& text : texts) ways.push_back(marker(text));
    return rules_.choice(std::move(ways));
  }
  // The white space between calls may also come after the last one: many models write a line break
  // after each call and then their end token; otherwise they would be forced to make one more call,
  // again and again.
  std::string space_before_end(const Syntax& form) const {
    if (!options_.parallel || !format_.info.parallel || !form.several) return {};
    if (!format_.has_known_edges && form.close.empty()) return {};  // edge_space() includes it
    const std::string separator = text_of(form.separator);
    const std::string space = separator.substr(0, separator.find_first_not_of(" \t\r\n"));
    return text_of(form.close).starts_with(space) ? std::string() : space;
  }

  // The text of a pattern without slots.
  static std::string text_of(const Pattern& pattern) {
    std::string text;
    for (const Piece& piece : pattern) text += piece.text;
    return text;
  }
  NodeId plain(const Pattern& pattern) { return marker(text_of(pattern)); }

  // A call's pattern in three parts: up to the first slot, the slots with the text between them,
  // and the rest.
  struct CallParts {
    std::string head;
    Pattern slots;
    std::string tail;
  };
  static bool is_filled(const Piece& piece) {
    return piece.kind != Piece::Kind::literal && piece.kind != Piece::Kind::space &&
           piece.kind != Piece::Kind::skip && piece.kind != Piece::Kind::word;
  }
  static Pattern::const_iterator slots_end(const Pattern& call) {
    return std::find_if(call.rbegin(), call.rend(), is_filled).base();
  }
  static CallParts parts_of(const Pattern& call) {
    const auto first = std::ranges::find_if(call, is_filled);
    const auto behind = slots_end(call);
    CallParts parts{text_of(Pattern(call.begin(), first)), Pattern(first, behind),
                    text_of(Pattern(behind, call.end()))};
    // The closing characters of a written-out object belong to it, so that forms end alike.
    const std::size_t closing = std::min(parts.tail.find_first_not_of("\"}"), parts.tail.size());
    if (closing > 0) {
      parts.slots.push_back({Piece::Kind::literal, parts.tail.substr(0, closing)});
      parts.tail.erase(0, closing);
    }
    return parts;
  }
  // Parts that tools share come once, so that tools are distinguished where they differ.
  NodeId call_slots(const Pattern& slots) {
    std::vector<NodeId> parts;
    if (slots.front().kind == Piece::Kind::object) parts.push_back(object_before_name());
    std::vector<NodeId> ways;
    for_each_tool([&] { ways.push_back(filled(slots)); });
    parts.push_back(rules_.choice(std::move(ways)));
    return rules_.sequence(std::move(parts));
  }
  // A call in another form. `begin`: the part that has been read.
  NodeId call_by_heart(std::string_view begin) {
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
  // Calls f for each tool, with tool_ and its schema set. A tool that another form cannot write has
  // no call in it.
  template <class F>
  void for_each_tool(F f) {
    for (const Tool* tool : tools_) {
      if (error_) break;
      tool_ = tool;
      parameters_ =
          tool->parameters.if_object() != nullptr ? tool->parameters : json::Value(json::Object{});
      if (parameters_.find("type") == nullptr) (*parameters_.if_object())["type"] = "object";
      schemas_.emplace(parameters_);
      referred_.clear();
      elements_.clear();
      kept_parts_.clear();
      f();
    }
  }

  // `pattern` for the current tool.
  NodeId filled(const Pattern& pattern) {
    std::vector<NodeId> parts;
    std::string text;
    const auto end_text = [&] {
      if (!text.empty()) parts.push_back(marker(std::exchange(text, {})));
    };
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      const Piece& piece = pattern[i];
      switch (piece.kind) {
        case Piece::Kind::space:
          if (!is_own()) break;
          [[fallthrough]];
        case Piece::Kind::literal:
        case Piece::Kind::skip:
        case Piece::Kind::word:
          text += piece.text;
          continue;
        default:
          break;
      }
      end_text();
      switch (piece.kind) {
        case Piece::Kind::space:
          parts.push_back(spaces());
          break;
        case Piece::Kind::name:
        case Piece::Kind::again:
          parts.push_back(
              rules_.literal(syntax().entities ? with_entities(tool_->name) : tool_->name));
          break;
        case Piece::Kind::id:
          parts.push_back(id());
          break;
        case Piece::Kind::arguments:
          parts.push_back(json_arguments());
          break;
        case Piece::Kind::object:
          if (i > 0) parts.push_back(object_before_name());  // otherwise all tools share it
          parts.push_back(object_from_name());
          break;
        case Piece::Kind::keywords:
          parts.push_back(keywords());
          break;
        case Piece::Kind::members:
          parts.push_back(members_object());
          break;
        case Piece::Kind::index:
          parts.push_back(rules_.add(node::Pattern{"[0-9]{1,9}"}));
          break;
        case Piece::Kind::parameters:
          parts.push_back(parameters());
          break;
        default:
          break;  // of a parameter only; the definition has been checked
      }
    }
    end_text();
    return rules_.sequence(std::move(parts));
  }

  NodeId plain_id() { return rules_.add(node::Pattern{"[A-Za-z0-9_.:-]{1,64}"}); }
  NodeId quoted_id() {
    return rules_.sequence({rules_.literal("\""), plain_id(), rules_.literal("\"")});
  }
  NodeId id() {
    const IdRule& rule = format_.id;
    if (!rule.holds_name) return plain_id();
    const NodeId number = rules_.add(node::Pattern{"[0-9]{1,9}"});
    return rules_.sequence(
        {marker(rule.name_before), rules_.literal(tool_->name), marker(rule.name_after), number});
  }

  // ---- JSON -------------------------------------------------------------------------------------

  void fail(const Error& error) {
    if (error_) return;
    const std::string where = tool_ != nullptr ? "tool '" + tool_->name + "': " : "";
    error_ = Error{error.code, where + error.message};
  }

  // For arguments that are not read with the schema itself.
  void check_schema() {
    if (const auto schema = schema::Schema::compile(parameters_); !schema) fail(schema.error());
  }
  using Compiled = Expected<std::shared_ptr<const schema::Schema>>;

  NodeId json(const json::Value& source) { return json_of(schema::Schema::compile(source)); }
  // The JSON of a part of the tool's schema, whose references lead into the whole schema.
  NodeId json_of_part(const json::Value& part) { return json_of(compiled_part(part)); }
  NodeId json_of(Compiled schema) {
    if (schema) return rules_.add(node::Json{std::move(*schema), json_});
    fail(schema.error());
    return 0;
  }
  Compiled compiled_part(const json::Value& part) {
    json::Value whole = referring_to_all(part);
    const json::Value* const dialect = parameters_.find("$schema");
    json::Object* const object = whole.if_object();
    if (dialect != nullptr && object != nullptr) (*object)["$schema"] = *dialect;
    const json::Object documents{{std::string(kWhole), parameters_}};
    return schema::Schema::compile(whole, {.documents = &documents});
  }
  // The address by which a part refers to the whole schema of its tool's parameters.
  static constexpr std::string_view kWhole = "urn:tenon:parameters";
  static json::Value referring_to_all(const json::Value& part) {
    if (const json::Array* const items = part.if_array()) {
      json::Array referring;
      for (const json::Value& item : *items) referring.push_back(referring_to_all(item));
      return referring;
    }
    const json::Object* const members = part.if_object();
    if (members == nullptr) return part;
    json::Object referring;
    for (const json::Member& member : *members) {
      const std::string* const text = member.value.if_string();
      const bool is_reference = member.key == "$ref" && text != nullptr && text->starts_with('#');
      referring[member.key] =
          is_reference ? json::Value(std::string(kWhole) + *text) : referring_to_all(member.value);
    }
    return referring;
  }

  NodeId space_within() {
    if (json_.whitespace != JsonOptions::Whitespace::any) return rules_.literal("");
    return rules_.add(
        node::Pattern{"[ \\t\\n\\r]{0," + std::to_string(json_.max_whitespace) + "}"});
  }
  // The space after a comma or a colon.
  NodeId space_after() {
    const bool is_spaced = json_.whitespace == JsonOptions::Whitespace::spaced;
    return is_spaced ? rules_.literal(" ") : space_within();
  }
  // A key, before the value of a member.
  NodeId key(std::string_view name) {
    return rules_.sequence(
        {rules_.literal(json::quoted(name)), space_within(), rules_.literal(":"), space_after()});
  }
  NodeId comma() { return rules_.sequence({space_within(), rules_.literal(","), space_after()}); }
  NodeId any_string() { return json(json::Object{{"type", "string"}}); }
  // One node for each tool and way to write JSON, however many forms use it.
  NodeId json_arguments() {
    const auto [known, is_new] =
        json_arguments_.try_emplace({tool_, is_own(), json_.whitespace}, 0);
    if (is_new) known->second = tool_->grammar ? input_object() : json(parameters_);
    return known->second;
  }

  // ---- The text of a custom tool ----------------------------------------------------------------

  // The grammar of a custom tool constrains its one parameter, in every notation.
  NodeId input(grammar::Spelling spelling) {
    const auto grammar = read_input_grammar(*tool_->grammar);
    const auto root =
        grammar ? grammar::add_spelled(rules_, *grammar, spelling) : Unexpected(grammar.error());
    if (root) return *root;
    fail(root.error());
    return 0;
  }
  NodeId input_string() { return bracketed("\"", input(grammar::Spelling::in_json), "\""); }
  NodeId input_object() {
    return rules_.sequence({rules_.literal("{"), space_within(), key(message::kInput),
                            input_string(), space_within(), rules_.literal("}")});
  }

  // An object that contains name and arguments, up to the name.
  NodeId object_before_name() {
    const ObjectKeys& keys = syntax().object;
    std::vector<NodeId> parts{rules_.literal("{"), space_within()};
    if (keys.writes_id && keys.id_first) {
      parts.insert(parts.end(), {key(keys.id.front()), quoted_id(), comma()});
    }
    if (!keys.name_is_key) parts.push_back(key(keys.name.front()));
    return rules_.sequence(std::move(parts));
  }
  NodeId object_from_name() {
    const ObjectKeys& keys = syntax().object;
    std::vector<NodeId> parts;
    if (keys.name_is_key) {
      parts = {key(tool_->name), json_arguments()};
    } else {
      parts = {rules_.literal(json::quoted(tool_->name)), comma(), key(keys.arguments.front()),
               json_arguments()};
      if (keys.writes_id && !keys.id_first) {
        parts.insert(parts.end(), {comma(), key(keys.id.front()), quoted_id()});
      }
    }
    parts.insert(parts.end(), {space_within(), rules_.literal("}")});
    return rules_.sequence(std::move(parts));
  }

  // ---- Parameters one by one --------------------------------------------------------------------

  NodeId parameters() {
    check_schema();
    return parameters_of(parameters_, 0);
  }
  // Whether the format can write a parameter with that name so that its parser reads it back: keys
  // that are not JSON end at certain bytes. It is tried together with a second parameter.
  bool can_write(const std::string& name) {
    constexpr std::size_t kPlain = 64;
    const auto is_plain = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '.' || c == '-';
    };
    if (!name.empty() && name.size() <= kPlain && std::ranges::all_of(name, is_plain)) return true;
    const auto [known, is_new] = can_write_.try_emplace({syntax_, name});
    if (!is_new) return known->second;
    const std::string other = name == "b" ? "c" : "b";
    const json::Object types{{name, json::Object{{"type", "string"}}},
                             {other, json::Object{{"type", "integer"}}}};
    const Tool tool{.name = "f", .parameters = json::Object{{"properties", types}}};
    const message::ToolCall call{
        .id = "call00001",
        .name = tool.name,
        .arguments = json::to_string(json::Object{{name, "x y"}, {other, 1}})};
    known->second = write_and_read(format_, syntax(), std::span(&tool, 1), {call}).is_read;
    return known->second;
  }
  // Properties that the format cannot write never come, as if their schema were `false`.
  json::Object writable_properties(const json::Value& schema, int depth) {
    const json::Object declared = properties_of(schema);
    json::Object properties = declared;
    for (const json::Member& property : declared) {
      if (is_nothing(property.value) || can_write(property.key)) continue;
      properties[property.key] = false;
      const auto required = required_names(schema);
      const bool is_needed =
          depth == 0 && std::ranges::find(required, property.key) != required.end();
      const std::string what = "the parameter " + json::quoted(property.key) +
                               " cannot be written in the format '" + format_.info.name +
                               "': its name would not be read as it stands";
      if (is_needed) {
        fail({Errc::invalid, what});
      } else if (is_own()) {
        log::warn("tool '" + std::string(log::content(tool_->name)) +
                  "': " + std::string(log::content(what)) + "; calls come without it");
      }
    }
    return properties;
  }

  // The members of an object, each as a parameter.
  NodeId parameters_of(const json::Value& reference, int depth) {
    const json::Value& schema = schemas_->of(reference);
    const json::Object properties = writable_properties(schema, depth);
    if (properties.empty() && !is_open(schema)) return rules_.literal("");
    if (properties.empty() && !syntax().item.empty()) {
      const NodeId any = elements_of(schema, depth);
      return bound(schema, "minProperties").value_or(0) > 0 ? any : optional(any);
    }
    if (properties.empty()) return others_of(schema, depth, 0);
    return members(properties, required_names(schema), "", [&](const json::Member& property) {
      const std::string& key = property.key;
      const NodeId name = rules_.literal(syntax().entities ? with_entities(key) : key);
      return parameter(name, key, property.value, depth);
    });
  }
  // Members whose names the schema does not declare: at least `least`.
  NodeId others_of(const json::Value& schema, int depth, std::uint32_t least) {
    const json::Value* const others = schema.find("additionalProperties");
    const json::Value any = json::Object{};
    const NodeId one =
        parameter(name_node(), std::nullopt, others != nullptr ? *others : any, depth);
    return rules_.repeat(one, std::max(bound(schema, "minProperties").value_or(0), least),
                         bound(schema, "maxProperties").value_or(node::kUnbounded));
  }
  // The same as elements, of which there is at least one.
  NodeId elements_of(const json::Value& schema, int depth) {
    const json::Value* const others = schema.find("additionalProperties");
    const bool is_any = others == nullptr || others->if_object() == nullptr;
    return is_any ? any_elements() : others_of(schema, depth, 1);
  }
  NodeId name_node() { return rules_.add(node::Pattern{std::string(kElementName)}); }

  // `name`: its key, if there is only one.
  NodeId parameter(NodeId key, const std::optional<std::string>& name, const json::Value& schema,
                   int depth) {
    if (is_nothing(schema)) return rules_.choice({});
    // If a ${type} says what kind a value is, each kind has its own way.
    const Piece* const type = type_slot();
    const bool tells = type != nullptr;
    const bool tells_all = tells && type->text.ends_with("|*");
    const Types types = types_of(schema, parameters_);
    const bool may_be_text = (types & kText) != 0;
    const bool may_be_other = types != kText;
    std::vector<NodeId> ways;
    if (may_be_text && (tells || !may_be_other || !is_listed(schema))) {
      ways.push_back(parameter(key, name, schema, kText, depth));
    }
    if (may_be_other && (may_be_text ? !tells && is_listed(schema) : !tells_all)) {
      ways.push_back(parameter(key, name, schema, types, depth));
    } else if (may_be_other) {
      // If nothing says the type, text would be enough, except for bounds and the markers of
      // elements.
      const Types elements = syntax().item.empty() ? 0 : kArray | kObject;
      const Types others = tells ? kAnyType : told_by_look(schema) | (types & elements);
      for (const Types one : {kNumber, kBoolean, kNull, kArray, kObject}) {
        if ((types & others & one) != 0) {
          ways.push_back(parameter(key, name, schema, one, depth, true));
        }
      }
    }
    return rules_.choice(std::move(ways));
  }
  bool is_listed(const json::Value& schema) {
    return listed_values(schemas_->of(schema)).has_value();
  }
  // The values that the schema lists, if it does, as far as they fit the schema.
  std::optional<json::Array> listed_values(const json::Value& schema) {
    json::Array values;
    if (const json::Value* const value = schema.find("const")) {
      values.push_back(*value);
    } else {
      const json::Value* list = schema.find("enum");
      if (list == nullptr) list = schema.find("enum_values");
      if (list == nullptr || list->if_array() == nullptr) return std::nullopt;
      values = *list->if_array();
    }
    if (const auto compiled = compiled_part(schema)) {
      std::erase_if(values, [&](const json::Value& value) {
        const Expected<bool> fits = (*compiled)->is_valid(value);
        return fits && !*fits;
      });
    }
    return values;
  }
  // Removes the values that would be read as something else, because `mark` ends them.
  void keep_writable(json::Array& values, std::string_view mark) {
    if (mark.empty() || values.empty()) return;
    if (std::erase_if(values, [&](const json::Value& one) { return holds(one, mark); }) == 0)
      return;
    const std::string why = "values that are listed hold '" + std::string(mark) +
                            "', which ends a value in the format " + format_.info.name;
    if (values.empty()) fail({Errc::unsatisfiable, why + ", and there is no other"});
    log::warn("tool '" + std::string(log::content(tool_->name)) +
              "': " + std::string(log::content(why)) + ": they are left out");
  }
  // Whether a text in `value` contains `mark`.
  static bool holds(const json::Value& value, std::string_view mark) {
    if (const std::string* const text = value.if_string()) return text->find(mark) != text->npos;
    if (const json::Array* const items = value.if_array()) {
      return std::ranges::any_of(*items,
                                 [mark](const json::Value& item) { return holds(item, mark); });
    }
    const json::Object* const members = value.if_object();
    return members != nullptr && std::ranges::any_of(*members, [mark](const json::Member& member) {
             return member.key.find(mark) != std::string::npos || holds(member.value, mark);
           });
  }

  // `types`: the value's types; kText: it is written unchanged. `is_one_type`: the schema allows
  // only these.
  NodeId parameter(NodeId key, const std::optional<std::string>& name, const json::Value& schema,
                   Types types, int depth, bool is_one_type = false) {
    const Pattern& pattern = syntax().parameter;
    std::vector<NodeId> parts;
    std::string text;
    const auto end_text = [&] {
      if (!text.empty()) parts.push_back(marker(std::exchange(text, {})));
    };
    for (const Piece& piece : pattern) {
      if (piece.kind == Piece::Kind::type) {
        const std::size_t bar = piece.text.find('|');
        const std::string_view other = std::string_view(piece.text).substr(bar + 1);
        text += types == kText ? std::string_view(piece.text).substr(0, bar)
                : other == "*" ? name_of(types)
                               : other;
      } else if (piece.kind == Piece::Kind::key) {
        end_text();
        parts.push_back(key);
      } else if (piece.kind == Piece::Kind::value) {
        end_text();
        parts.push_back(types == kText ? raw_text(schema, value_stop(name))
                                       : other_value(schema, is_one_type ? types : 0, depth));
      } else {
        text += piece.text;
      }
    }
    end_text();
    return rules_.sequence(std::move(parts));
  }
  // The text that ends a value.
  std::string value_stop(const std::optional<std::string>& name) {
    const Pattern& pattern = syntax().parameter;
    auto piece =
        std::ranges::find_if(pattern, [](const Piece& p) { return p.kind == Piece::Kind::value; });
    std::string stop;
    for (++piece; piece != pattern.end(); ++piece) {
      if (piece->kind == Piece::Kind::space && !stop.empty()) break;
      if (piece->kind == Piece::Kind::key && !name) break;
      if (piece->kind == Piece::Kind::literal) stop += piece->text;
      if (piece->kind == Piece::Kind::key) stop += syntax().entities ? with_entities(*name) : *name;
    }
    return stop;
  }

  // Text unchanged, up to `stop`.
  NodeId raw_text(const json::Value& reference, const std::string& stop) {
    const NodeId language = language_of(reference, stop);
    const Types others = told_by_look(reference);
    if (others == 0) return is_lexeme(language) ? rules_.add(node::Lexeme{language}) : language;
    const NodeId plain = both(language, rules_.add(node::Complement{readable_as(others)}));
    // In quotes "12" and 12 are different. Lists and objects are left out, because they may contain
    // `stop`.
    const NodeId word = rules_.add(node::Pattern{R"([^\s"\\[\]{}<>]+)"});
    const NodeId quote = rules_.literal("\"");
    return rules_.choice({plain, rules_.sequence({quote, both(language, word), quote})});
  }
  bool is_lexeme(NodeId id) const {
    const grammar::Node& node = rules_.node(id);
    const auto* const choice = std::get_if<node::Choice>(&node);
    return std::holds_alternative<node::Both>(node) ||
           (choice != nullptr &&
            std::ranges::any_of(choice->parts, [this](NodeId part) { return is_lexeme(part); }));
  }
  // The types other than text that a value may have, if only its form decides and the schema
  // requires more than types; otherwise it does not matter how it is read.
  Types told_by_look(const json::Value& schema) {
    const Types types = types_of(schema, parameters_);
    const bool is_mixed = (types & kText) != 0 && types != kText;
    const bool matters = is_mixed && type_slot() == nullptr && !is_listed(schema) &&
                         schemas_->says_more_than_type(schema);
    return matters ? types & static_cast<Types>(~kText) : 0;
  }
  const Piece* type_slot() const {
    const Pattern& pattern = syntax().parameter;
    const auto slot = std::ranges::find(pattern, Piece::Kind::type, &Piece::kind);
    return slot != pattern.end() ? &*slot : nullptr;
  }
  // Texts that the parser reads as JSON of these types, or might.
  NodeId readable_as(Types types) {
    std::string ways;
    const auto add = [&](Types type, const char* way) {
      if ((types & type) != 0) ways += (ways.empty() ? "" : "|") + std::string(way);
    };
    add(kNumber, R"(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)");
    add(kBoolean, "true|false|True|False");
    add(kNull, "null|None");
    add(kArray, R"(\[\s*[\]\[{"'\dtfnTFN-][\s\S]*)");
    add(kObject, R"(\{\s*["'}][\s\S]*)");
    add(kAnyType, R"("[\s\S]*")");  // a text in quotes
    return rules_.add(node::Pattern{"\\s*(?:" + ways + ")\\s*"});
  }
  // The same as part of a lexeme.
  NodeId language_of(const json::Value& reference, const std::string& stop) {
    const json::Value& schema = schemas_->of(reference);
    const std::vector<const json::Value*> parts = schemas_->ways(schema);
    constexpr std::size_t kMaxUnions = 1'000;  // unions may contain themselves
    if (parts.front() == &schema || ++unions_ > kMaxUnions)
      return language_of_strings(schema, stop);
    std::vector<NodeId> ways;
    for (const json::Value* const part : parts) {
      if ((types_of(*part, parameters_) & kText) == 0) continue;
      ways.push_back(language_of(*part, stop));
    }
    if (schema.find("anyOf") == nullptr) ways = each_alone(ways);
    return rules_.choice(std::move(ways));
  }
  // For `oneOf`: values that fit exactly one way. If there are many ways, a value may fit several;
  // lists of constants have no texts in common anyway.
  std::vector<NodeId> each_alone(const std::vector<NodeId>& ways) {
    constexpr std::size_t kFew = 8;
    if (ways.size() < 2 || ways.size() > kFew) return ways;
    std::vector<NodeId> alone;
    for (std::size_t i = 0; i < ways.size(); ++i) {
      std::vector<NodeId> others = ways;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      const NodeId other = rules_.add(node::Complement{rules_.choice(std::move(others))});
      alone.push_back(rules_.add(node::Both{{ways[i], other}}));
    }
    return alone;
  }
  // A text that ends at `stop`, without the other texts that end a value: the next parameter and
  // the end of the call.
  NodeId text_of_value(const std::string& stop) {
    std::vector<std::string> stops;
    if (!stop.empty()) stops.push_back(stop);
    if (!syntax().guard.empty()) stops.push_back(syntax().guard);
    const Pattern& pattern = syntax().parameter;
    const auto value = std::ranges::find(pattern, Piece::Kind::value, &Piece::kind);
    if (!syntax().parameter_end_optional || value == pattern.end()) return text_until(stops);
    // A tool's own grammar meets the stops, and can count with few bytes of them only.
    if (tool_->grammar) return text_until(stops);
    const bool has_lines = std::next(value)->kind == Piece::Kind::space;
    const std::string line = has_lines ? "\n" : "";
    constexpr std::size_t kFew = 32;
    const json::Object properties = properties_of(parameters_);
    const bool is_few = properties.size() <= kFew;
    for (const json::Member& property : properties) {
      std::string head = line;
      bool has_key = false;
      for (auto piece = pattern.begin(); piece != value; ++piece) {
        if (piece->kind == Piece::Kind::key && !is_few) break;
        head += piece->kind == Piece::Kind::key ? property.key : piece->text;
        if (has_key) break;
        has_key = piece->kind == Piece::Kind::key;
      }
      stops.push_back(std::move(head));
      if (!is_few) break;
    }
    for (const std::string& end : syntax().value_breaks) stops.push_back(line + end);
    auto piece = std::ranges::find(syntax().call, Piece::Kind::parameters, &Piece::kind);
    while (piece->kind != Piece::Kind::literal) ++piece;
    const std::string end = piece->text;
    const NodeId text = text_until(stops);
    const auto key = std::find_if(value, pattern.end(),
                                  [](const Piece& p) { return p.kind == Piece::Kind::key; });
    if (key == pattern.end()) return text;
    // An end marker with another key.
    const NodeId wrong =
        rules_.sequence({rules_.add(node::Text{}), rules_.literal(std::prev(key)->text),
                         rules_.add(node::Pattern{R"([A-Za-z0-9_.\-\u{80}-\u{10FFFF}]+)"}),
                         rules_.literal(std::next(key)->text + end), anything()});
    return rules_.add(node::Both{{text, rules_.add(node::Complement{wrong})}});
  }
  NodeId language_of_strings(const json::Value& schema, const std::string& stop) {
    if (auto values = listed_values(schema)) {
      std::erase_if(*values, [](const json::Value& value) { return value.if_string() == nullptr; });
      keep_writable(*values, stop);
      std::vector<NodeId> ways;
      for (const json::Value& value : *values) {
        ways.push_back(rules_.literal(*value.if_string()));
      }
      return rules_.choice(std::move(ways));
    }
    const NodeId text = text_of_value(stop);
    if (tool_->grammar) return rules_.add(node::Both{{text, input(grammar::Spelling::plain)}});
    std::vector<NodeId> all{text};
    const auto min = bound(schema, "minLength");
    const auto max = bound(schema, "maxLength");
    if (min || max) {
      const NodeId any = rules_.add(node::Characters{regex::CodePointSet::all()});
      all.push_back(rules_.repeat(any, min.value_or(0), max.value_or(node::kUnbounded)));
    }
    const auto add_pattern = [&](const json::Value& part) {
      const json::Value* const pattern = part.find("pattern");
      if (pattern == nullptr || pattern->if_string() == nullptr) return;
      all.push_back(
          rules_.add(node::Pattern{"[\\s\\S]*(?:" + *pattern->if_string() + ")[\\s\\S]*"}));
    };
    add_pattern(schema);
    if (const json::Value* const others = schema.find("allOf"); others && others->if_array()) {
      for (const json::Value& part : *others->if_array()) add_pattern(part);
    }
    return all.size() == 1 ? text : rules_.add(node::Both{std::move(all)});
  }

  // A value that is not text, of one type or (0) of any. If elements are nested, references to one
  // place of the schema become one rule; otherwise a tree would be written out.
  NodeId other_value(const json::Value& reference, Types type, int depth) {
    const auto written = [&] {
      return type != 0 ? raw_value(of_type(reference, type), depth, false)
                       : raw_value(reference, depth, true);
    };
    const json::Value& schema = schemas_->of(reference);
    if (&schema == &reference || syntax().item.empty()) return written();
    const auto [known, is_new] = elements_.try_emplace({&schema, type});
    if (is_new) {
      known->second = rules_.declare("element-" + std::to_string(elements_.size()));
      rules_.define(known->second, written());
    }
    return rules_.add(node::Rule{known->second});
  }
  // A value that is written as JSON; or unchanged, if its type is open and it is listed; or as
  // elements, if its members are known. `may_be_empty`: a value without elements is empty.
  NodeId raw_value(const json::Value& reference, int depth, bool may_be_empty) {
    const json::Value& schema = schemas_->of(reference);
    auto values = listed_values(schema);
    if (!values || (types_of(schema, parameters_) & kText) == 0) {
      return syntax().item.empty() || values ? in_notation(reference, depth)
                                             : element(schema, depth, may_be_empty);
    }
    keep_writable(*values, value_stop(std::nullopt));
    const bool is_mixed = types_of(schema, parameters_) != kText && type_slot() == nullptr;
    std::vector<NodeId> ways;
    for (const json::Value& value : *values) {
      const std::string* const text = value.if_string();
      const bool is_quoted = text != nullptr && is_mixed && whole_json(*text);
      ways.push_back(
          rules_.literal(text != nullptr && !is_quoted
                             ? *text
                             : json::dumps(value, {.ensure_ascii = false, .keep_numbers = true})));
    }
    return rules_.choice(std::move(ways));
  }
  // As JSON, and in Python's notation where the model's template writes that.
  NodeId in_notation(const json::Value& reference, int depth) {
    const NodeId as_json = json_of_part(reference);
    if (syntax().notation != Notation::python) return as_json;
    style_ = ValueStyle::python();
    return rules_.choice({as_json, value(kept_parts_.emplace_back(reference), depth)});
  }
  NodeId element(const json::Value& schema, int depth, bool may_be_empty) {
    const Types types = types_of(schema, parameters_);
    if (types == kObject && depth < kMaxDepth && !properties_of(schema).empty()) {
      return rules_.choice({parameters_of(schema, depth + 1), json_of_part(schema)});
    }
    if (types == kObject && depth < kMaxDepth && is_open(schema)) {
      const bool may_have_none = may_be_empty && bound(schema, "minProperties").value_or(0) == 0;
      const NodeId elements = elements_of(schema, depth + 1);
      return rules_.choice({may_have_none ? optional(elements) : elements, json_of_part(schema)});
    }
    const json::Value* const items = item_schema(&schema, parameters_);
    const bool is_tuple = schema.find("prefixItems") != nullptr;  // JSON says which item is which
    if (types == kArray && depth < kMaxDepth && !is_tuple) {
      const std::string& name = syntax().item;
      const NodeId item = items != nullptr
                              ? parameter(rules_.literal(name), name, *items, depth + 1)
                              : any_element(rules_.literal(name));
      const std::uint32_t min = bound(schema, "minItems").value_or(0);
      return rules_.choice({separated(item, "", may_be_empty ? min : std::max(1U, min),
                                      bound(schema, "maxItems").value_or(node::kUnbounded)),
                            json_of_part(schema)});
    }
    return json_of_part(schema);
  }
  // Elements without a schema: at least one, each with text or such elements inside.
  NodeId any_elements() {
    if (!any_elements_) {
      any_elements_ = rules_.declare("any-elements");
      rules_.define(*any_elements_, rules_.repeat(any_element(name_node()), 1, node::kUnbounded));
    }
    return rules_.add(node::Rule{*any_elements_});
  }
  NodeId any_element(NodeId key) {
    std::vector<std::string> stops{syntax().parameter.front().text};
    if (!syntax().guard.empty()) stops.push_back(syntax().guard);
    std::vector<NodeId> parts;
    for (const Piece& piece : syntax().parameter) {
      if (piece.kind == Piece::Kind::key) {
        parts.push_back(key);
      } else if (piece.kind == Piece::Kind::value) {
        parts.push_back(rules_.choice({text_until(stops), any_elements()}));
      } else {
        parts.push_back(marker(piece.text));
      }
    }
    return rules_.sequence(std::move(parts));
  }

  // ---- Python and other ways to write values ----------------------------------------------------

  // `is_behind_paren`: the parenthesis has been read.
  NodeId keywords(bool is_behind_paren = false) {
    check_schema();
    style_ = ValueStyle::python();
    const json::Value& schema = schemas_->of(parameters_);
    const json::Object properties = writable_properties(schema, 0);
    const bool is_compact = syntax().layout == Layout::compact;
    NodeId list = 0;
    if (properties.empty()) {
      list = is_open(schema) ? pairs(name_node(), "=", schema, 0) : rules_.literal("");
    } else {
      list = members(properties, required_names(schema), is_compact ? "," : style_.separator,
                     [&](const json::Member& property) {
                       return rules_.sequence(
                           {rules_.literal(property.key + "="), keyword_value(property.value)});
                     });
    }
    return rules_.sequence({rules_.literal(is_behind_paren ? "" : "("), list, rules_.literal(")")});
  }
  NodeId keyword_value(const json::Value& schema) {
    const NodeId as_python = value(schema, 0);
    if (syntax().notation != Notation::json || is_nothing(schema)) return as_python;
    return rules_.choice({as_python, json_of_part(schema)});
  }
  NodeId members_object() {
    check_schema();
    style_ = ValueStyle::members(syntax().string_quote);
    return object(schemas_->of(parameters_), 0);
  }

  // The properties of an object, with a separator between those that are there: in their order, or
  // in any order if the options say so and the orders are few enough to write down.
  template <class F>
  NodeId members(const json::Object& properties, const std::vector<std::string_view>& required,
                 std::string_view separator, F member_of) {
    std::vector<NodeId> parts;
    std::vector<bool> must;
    for (const json::Member& property : properties) {
      parts.push_back(is_nothing(property.value) ? rules_.choice({}) : member_of(property));
      must.push_back(std::ranges::find(required, property.key) != required.end());
    }
    constexpr std::size_t kFew = 6;
    const bool any_order = options_.json.property_order == JsonOptions::PropertyOrder::any;
    return any_order && parts.size() <= kFew ? in_any_order(parts, must, separator)
                                             : in_order(parts, must, separator);
  }
  NodeId in_order(const std::vector<NodeId>& parts, const std::vector<bool>& must,
                  std::string_view separator) {
    NodeId first = rules_.literal("");  // what may come if nothing has come yet
    NodeId more = first;                // and after something
    for (std::size_t i = parts.size(); i-- > 0;) {
      const NodeId next = rules_.sequence({rules_.literal(std::string(separator)), parts[i]});
      const NodeId here = rules_.sequence({parts[i], more});
      first = must[i] ? here : rules_.choice({here, first});
      more = rules_.sequence({must[i] ? next : optional(next), more});
    }
    return first;
  }
  NodeId in_any_order(const std::vector<NodeId>& parts, const std::vector<bool>& must,
                      std::string_view separator) {
    const std::size_t all = std::size_t{1} << parts.size();
    std::vector<NodeId> after(all);  // by the set of parts that have come
    for (std::size_t seen = all; seen-- > 0;) {
      std::vector<NodeId> ways;
      bool may_end = true;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::size_t bit = std::size_t{1} << i;
        if ((seen & bit) != 0) continue;
        if (must[i]) may_end = false;
        const NodeId before = rules_.literal(std::string(seen == 0 ? "" : separator));
        ways.push_back(rules_.sequence({before, parts[i], after[seen | bit]}));
      }
      if (may_end) ways.push_back(rules_.literal(""));
      after[seen] = rules_.choice(std::move(ways));
    }
    return after[0];
  }
  NodeId separated(NodeId item, std::string_view separator, std::uint32_t min, std::uint32_t max) {
    if (max == 0) return rules_.literal("");
    const NodeId more = rules_.sequence({rules_.literal(std::string(separator)), item});
    const NodeId list =
        rules_.sequence({item, rules_.repeat(more, min > 0 ? min - 1 : 0,
                                             max == node::kUnbounded ? max : max - 1)});
    return min > 0 ? list : optional(list);
  }

  // A value in `style_`. References to one place of the schema are one rule.
  NodeId value(const json::Value& reference, int depth) {
    const json::Value& schema = schemas_->of(reference);
    return &schema == &reference ? plain_value(schema, depth) : referred(schema, depth);
  }
  // `schema` lives as long as schemas_.
  NodeId referred(const json::Value& schema, int depth) {
    const auto [known, is_new] = referred_.try_emplace(&schema);
    if (is_new) {
      known->second = rules_.declare("value-" + std::to_string(referred_.size()));
      rules_.define(known->second, plain_value(schema, depth + 1));
    }
    return rules_.add(node::Rule{known->second});
  }
  NodeId plain_value(const json::Value& schema, int depth) {
    if (is_nothing(schema)) return rules_.choice({});
    if (depth >= kMaxDepth || schema.if_object() == nullptr) return any_value();
    if (auto values = listed_values(schema)) {
      keep_writable(*values, style_.quote);
      std::vector<NodeId> ways;
      for (const json::Value& one : *values) ways.push_back(written(one));
      return rules_.choice(std::move(ways));
    }
    const Types types = types_of(schema, parameters_);
    // A value that is only a text or a number is constrained by everything that the schema says.
    if (types == kText || types == kNumber) return value_of_type(schema, types, depth);
    if (const auto parts = schemas_->ways(schema); parts.front() != &schema) {
      std::vector<NodeId> ways;
      for (const json::Value* const part : parts)
        ways.push_back(referred(schemas_->of(*part), depth));
      return rules_.choice(std::move(ways));
    }
    if (types == kAnyType) return any_value();
    std::vector<NodeId> ways;
    for (const Types one : {kText, kNumber, kBoolean, kNull, kArray, kObject}) {
      if ((types & one) != 0) ways.push_back(value_of_type(of_type(schema, one), one, depth));
    }
    return rules_.choice(std::move(ways));
  }
  NodeId value_of_type(const json::Value& schema, Types type, int depth) {
    switch (type) {
      case kText:
        if (!style_.quote.empty()) return quoted(schema);
        if (tool_->grammar) return input_string();
        if (!style_.has_single_quotes || !says_length_and_pattern_only(schema)) {
          return json_of_part(schema);
        }
        return rules_.choice({json_of_part(schema), single_quoted(schema)});
      case kBoolean:
        return either(style_.yes, style_.no);
      case kNull:
        return rules_.literal(std::string(style_.null));
      case kArray:
        return bracketed("[", items(schema, depth + 1), "]");
      case kObject:
        return object(schema, depth);
      default:
        return json_of_part(schema);
    }
  }
  // The content of an array's brackets: first the items for which the schema has a place each.
  NodeId items(const json::Value& schema, int depth) {
    const json::Value* others = schema.find("items");
    const json::Value* list = schema.find("prefixItems");
    if (list == nullptr && others != nullptr && others->if_array() != nullptr) {  // until draft 7
      list = std::exchange(others, schema.find("additionalItems"));
    }
    const json::Array none;
    const json::Array& first =
        list != nullptr && list->if_array() != nullptr ? *list->if_array() : none;
    const auto min = bound(schema, "minItems").value_or(0);
    auto max = bound(schema, "maxItems").value_or(node::kUnbounded);
    const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(first.size(), max));
    if (others != nullptr && is_nothing(*others)) max = count;
    if (min > max) return rules_.choice({});
    const NodeId other = others != nullptr ? value(*others, depth) : any_value();
    if (count == 0) return separated(other, style_.separator, min, max);
    const NodeId separator = rules_.literal(std::string(style_.separator));
    NodeId rest = rules_.repeat(rules_.sequence({separator, other}), min > count ? min - count : 0,
                                max == node::kUnbounded ? max : max - count);
    for (std::uint32_t i = count; i-- > 0;) {
      const NodeId before = i > 0 ? separator : rules_.literal("");
      rest = rules_.sequence({before, value(first[i], depth), rest});
      if (i >= min) rest = optional(rest);
    }
    return rest;
  }
  // Members whose names the schema does not declare.
  NodeId pairs(NodeId key, std::string_view colon, const json::Value& schema, int depth) {
    const json::Value* const others = schema.find("additionalProperties");
    const NodeId pair = rules_.sequence({key, rules_.literal(std::string(colon)),
                                         others != nullptr ? value(*others, depth) : any_value()});
    return separated(pair, style_.separator, bound(schema, "minProperties").value_or(0),
                     bound(schema, "maxProperties").value_or(node::kUnbounded));
  }
  NodeId any_key() { return style_.has_bare_keys ? name_node() : any_text(); }
  NodeId any_text() {
    if (!style_.quote.empty()) return quoted(json::Object{});
    if (!style_.has_single_quotes) return any_string();
    return rules_.choice({any_string(), single_quoted(json::Object{})});
  }
  NodeId object(const json::Value& schema, int depth) {
    const json::Object properties =
        style_.has_bare_keys ? writable_properties(schema, depth) : properties_of(schema);
    if (properties.empty()) {
      if (!is_open(schema)) return rules_.literal("{}");
      return bracketed("{", pairs(any_key(), style_.colon, schema, depth + 1), "}");
    }
    const NodeId body = members(properties, required_names(schema), style_.separator,
                                [&](const json::Member& property) {
                                  return rules_.sequence({written_key(property.key),
                                                          rules_.literal(std::string(style_.colon)),
                                                          value(property.value, depth + 1)});
                                });
    return bracketed("{", body, "}");
  }
  // The client's texts, as append_value() and append_key() write them: only the style's quotes in
  // them are markers.
  NodeId written(const json::Value& value) {
    std::vector<NodeId> parts;
    const auto add = [&](std::string_view text) {
      parts.push_back(rules_.literal(std::string(text)));
    };
    std::string_view separator;
    if (const json::Array* const items = value.if_array()) {
      add("[");
      for (const json::Value& item : *items) {
        add(std::exchange(separator, style_.separator));
        parts.push_back(written(item));
      }
      add("]");
    } else if (const json::Object* const members = value.if_object()) {
      add("{");
      for (const json::Member& member : *members) {
        add(std::exchange(separator, style_.separator));
        parts.push_back(written_key(member.key));
        add(style_.colon);
        parts.push_back(written(member.value));
      }
      add("}");
    } else if (value.if_string() != nullptr) {
      return written_text(*value.if_string());
    } else {
      std::string text;
      append_value(text, value, style_);
      add(text);
    }
    return rules_.sequence(std::move(parts));
  }
  NodeId written_key(const std::string& key) {
    return is_bare_key(key, style_) ? rules_.literal(key) : written_text(key);
  }
  NodeId written_text(const std::string& text) {
    const std::string quote(style_.quote);
    if (quote.empty()) {
      const NodeId as_json = rules_.literal(json::quoted(text));
      const bool is_plain = std::ranges::none_of(text, [](char c) {
        return c == '\'' || c == '\\' || static_cast<unsigned char>(c) < ' ';
      });
      if (!style_.has_single_quotes || !is_plain) return as_json;
      return rules_.choice({as_json, rules_.literal("'" + text + "'")});
    }
    return rules_.sequence({marker(quote), rules_.literal(text), marker(quote)});
  }
  NodeId quoted(const json::Value& schema) {
    const std::string quote(style_.quote);
    return rules_.sequence({marker(quote), raw_text(schema, quote), marker(quote)});
  }
  // A string without apostrophes as Python's repr writes it. If a schema requires more than the
  // type it has no escapes, so that length and pattern apply to the text itself.
  NodeId single_quoted(const json::Value& schema) {
    const bool is_any = !bound(schema, "minLength") && !bound(schema, "maxLength") &&
                        schema.find("pattern") == nullptr;
    const NodeId body =
        is_any ? rules_.add(node::Pattern{R"((?:[^'\\\x00-\x1f]|\\['"\\ntr])*)"})
               : both(language_of(schema, "'"), rules_.add(node::Pattern{R"([^'\\\x00-\x1f]*)"}));
    return bracketed("'", body, "'");
  }
  static bool says_length_and_pattern_only(const json::Value& schema) {
    constexpr std::string_view kPlain[] = {"type",      "title",    "description",
                                           "default",   "examples", "minLength",
                                           "maxLength", "pattern",  "$comment"};
    const json::Object* const members = schema.if_object();
    return members != nullptr && std::ranges::all_of(*members, [&](const json::Member& member) {
             return std::ranges::find(kPlain, member.key) != std::end(kPlain);
           });
  }
  NodeId bracketed(const char* open, NodeId body, const char* close) {
    return rules_.sequence({rules_.literal(open), body, rules_.literal(close)});
  }
  NodeId either(std::string_view a, std::string_view b) {
    return rules_.choice({rules_.literal(std::string(a)), rules_.literal(std::string(b))});
  }

  NodeId any_value() {
    if (!any_value_) {
      any_value_ = rules_.declare("any-value");
      const NodeId self = rules_.add(node::Rule{*any_value_});
      rules_.define(
          *any_value_,
          rules_.choice(
              {any_text(), json(json::Object{{"type", "number"}}), either(style_.yes, style_.no),
               rules_.literal(std::string(style_.null)),
               bracketed("[", separated(self, style_.separator, 0, node::kUnbounded), "]"),
               any_object()}));
    }
    return rules_.add(node::Rule{*any_value_});
  }
  NodeId any_object() {
    const NodeId value = any_value_ ? rules_.add(node::Rule{*any_value_}) : any_value();
    const NodeId pair =
        rules_.sequence({any_key(), rules_.literal(std::string(style_.colon)), value});
    return bracketed("{", separated(pair, style_.separator, 0, node::kUnbounded), "}");
  }

  // ---- Types ------------------------------------------------------------------------------------

  static std::string_view name_of(Types type) {
    switch (type) {
      case kText:
        return "string";
      case kNull:
        return "null";
      case kBoolean:
        return "boolean";
      case kArray:
        return "array";
      case kObject:
        return "object";
      default:
        return "number";
    }
  }
  // `schema` for values of this type only.
  json::Value of_type(const json::Value& reference, Types type) {
    json::Value one = schemas_->of(reference);
    if (one.if_object() == nullptr) one = json::Object{};
    const json::Value* const named = one.find("type");
    const auto is_named = [named](std::string_view name) {
      if (named == nullptr) return false;
      if (named->if_string() != nullptr) return *named->if_string() == name;
      return named->if_array() != nullptr &&
             std::ranges::any_of(*named->if_array(), [name](const json::Value& item) {
               return item.if_string() != nullptr && *item.if_string() == name;
             });
    };
    const bool is_integer = type == kNumber && is_named("integer") && !is_named("number");
    (*one.if_object())["type"] = std::string(is_integer ? "integer" : name_of(type));
    return one;
  }

  const Format& format_;
  std::vector<const Tool*> tools_;
  const ToolGrammarOptions& options_;
  const Syntax* syntax_;  // null: the format writes no calls
  JsonOptions json_;      // of the current syntax
  Rules rules_;
  // By own form or not, and by the white space in which forms differ.
  std::map<std::tuple<const Tool*, bool, JsonOptions::Whitespace>, NodeId> json_arguments_;
  std::vector<std::pair<const ObjectKeys*, NodeId>> objects_;  // of other forms
  std::optional<NodeId> spaces_;
  std::optional<NodeId> python_call_;  // of other forms
  std::shared_ptr<const Kept> kept_;
  const Tool* tool_ = nullptr;           // the current tool
  json::Value parameters_;               // its schema
  std::optional<WholeSchemas> schemas_;  // of parameters_
  ValueStyle style_;                     // of values that are not written as JSON
  std::deque<json::Value> kept_parts_;   // of parameters_, which rules are made of
  std::optional<NodeId> free_text_;
  std::map<const json::Value*, grammar::RuleId> referred_;  // by place in parameters_
  std::map<std::pair<const json::Value*, Types>, grammar::RuleId> elements_;
  std::size_t unions_ = 0;  // number of unions that were searched for texts
  // For names with unusual characters.
  std::map<std::pair<const Syntax*, std::string>, bool> can_write_;
  std::optional<grammar::RuleId> any_value_;
  std::optional<grammar::RuleId> any_elements_;
  std::optional<Error> error_;
};

}  // namespace

Expected<Rules> tool_grammar(const Format& format, std::span<const Tool> tools,
                             const message::ToolChoice& choice, const ToolGrammarOptions& options) {
  if (!writes_calls(format) && choice.mode != ToolMode::none) {
    return Unexpected(
        Error{Errc::unsupported, format.info.name + " has no way to write a call: no [[syntax]]"});
  }
  std::vector<const Tool*> chosen;
  for (const Tool& tool : tools) {
    const bool is_allowed = choice.allowed.empty() ||
                            std::ranges::find(choice.allowed, tool.name) != choice.allowed.end();
    if (is_allowed) chosen.push_back(&tool);
  }
  if (chosen.empty() && choice.mode != ToolMode::none) {
    return Unexpected(Error{Errc::invalid, "there is no tool to call"});
  }
  return Builder(format, std::move(chosen), options).build(choice.mode);
}

bool writes_calls(const Format& format) {
  return !format.syntaxes.empty();
}

bool has_reasoning_section(const Format& format) {
  return !format.reasoning_open.empty() && !format.reasoning_close.empty();
}

bool is_exact(const Format& format) {
  return !format.syntaxes.empty() &&
         std::ranges::any_of(format.syntaxes.front().call, [](const Piece& piece) {
           return piece.kind == Piece::Kind::arguments || piece.kind == Piece::Kind::object;
         });
}

}  // namespace tenon::format
