// Text must be text for the parser too. free_text() is any text without the markers that begin a
// call. Where only a tool's name makes a call (a bare object, a bracket), the text may have the
// marker but not the marker with the name, in any notation of keys and names that the parser reads
// (opening, named_member, with_escapes).
//
// Other forms are barred in the same way, but only where they may begin (lead). All forms that go
// on alike after their beginnings share that part (group_of), since it consists mostly of names and
// would otherwise be written dozens of times.
//
// A barred text is followed by anything(), so that the automaton is dead as soon as it has come:
// masks then need no search for whether the text can still be saved.

#include "tenon/format/grammar_text.h"

#include <algorithm>

#include "tenon/grammar/rules/spell.h"
#include "tenon/json/value.h"

namespace tenon::format {

namespace {

// The word of a piece `word`, such as that of a fence, as the parser reads it: of ASCII, without
// brackets and quotes (after a name, a parenthesis would begin a Python call), and no end of a
// sentence.
constexpr const char* kWord = R"(([!#-')-;=?-Z\\-z|~]*[!#-')-+\-/-;=?-Z\\-z|~])?)";

}  // namespace

std::string TextGrammar::trigger_of(const Syntax& syntax) {
  return first_literal(syntax.open.empty() ? syntax.call : syntax.open);
}

// The beginnings of calls in every syntax of the format's own that is read.
std::vector<std::string> TextGrammar::triggers() const {
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
void TextGrammar::add_heads(std::vector<std::string>& stops) const {
  if (format_.head.end.empty()) return;
  stops.insert(stops.end(), format_.head.begin.begin(), format_.head.begin.end());
  if (std::string between = first_literal(format_.between); !between.empty()) {
    stops.push_back(std::move(between));
  }
}

// A text that does not occur by chance: a model that writes it is meant to continue with a call.
bool TextGrammar::is_mark(std::string_view literal) {
  constexpr std::size_t kLeast = 4;
  return literal.size() >= kLeast && literal.find_first_of("<>[]{}|") != std::string_view::npos;
}

// The text is constrained (JSON or a grammar), and is not just any text without calls.
bool TextGrammar::holds_text() const {
  return options_.content != nullptr || options_.content_grammar != nullptr;
}

// Text that the parser reads as text: no call of any syntax begins in it. A call begins with a
// mark, or, if that is only a word or a bracket, with everything before a tool's name and the
// name.
NodeId TextGrammar::free_text() {
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

// Texts after which a call in another form may begin; lead.h is the parser's side of it.
NodeId TextGrammar::lead(Lead::Place place) {
  const NodeId any = rules_.add(node::Text{Lead::stops()});
  if (options_.others_first) place = Lead::Place::first;
  return rules_.add(node::Both{{any, rules_.add(node::Pattern{Lead::unquoted()}),
                                rules_.add(node::Pattern{Lead::pattern_of(place)})}});
}

// The text up to where it can only be a call in another form. The part that the forms share after
// their beginnings is written once, because it consists mostly of names.
std::vector<NodeId> TextGrammar::openings_of_others() {
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

// `here`: the beginnings at one place, by groups.
void TextGrammar::add_opening(const Syntax& syntax, const Pattern& pattern,
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

// Forms of one group continue in the same way from `piece` on.
std::string TextGrammar::group_of(const Syntax& syntax, const Pattern& pattern,
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

// From `piece` on, up to where it is certain that a call has begun: the name and what follows it,
// or an object up to its arguments. A form that begins with a tag needs nothing more.
NodeId TextGrammar::opening_rest(const Syntax& syntax, const Pattern& pattern,
                                 Pattern::const_iterator piece) {
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

// An object up to the arguments of a tool: with only a name it may be a description of one.
NodeId TextGrammar::object_opening(const ObjectKeys& keys) {
  const NodeId space = any_space();
  const NodeId colon = rules_.sequence({space, rules_.literal(":"), space});
  const NodeId comma = rules_.sequence({space, rules_.literal(","), space});
  const NodeId text = rules_.add(node::Pattern{R"("(?:[^"\\]|\\[\s\S])*")"});
  std::vector<std::string> heads = keys.id;
  heads.emplace_back("type");
  const NodeId before = any_number(rules_.sequence({spelled(heads, true), colon, text, comma}));
  std::vector<std::string_view> names;
  for (const Tool* tool : tools_) names.push_back(tool->name);
  const NodeId name = rules_.choice(options_.bars_escapes
                                        ? std::vector<NodeId>{known_name("\""), with_escapes(names)}
                                        : std::vector<NodeId>{known_name("\"")});
  const auto named = [&](const std::vector<std::string>& arguments) {
    return rules_.sequence({spelled(keys.name, true), colon, name, comma, spelled(arguments, true),
                            space, rules_.literal(":")});
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
NodeId TextGrammar::spelled(const std::vector<std::string>& keys, bool loosely) {
  std::vector<NodeId> ways;
  for (const std::string& key : keys) ways.push_back(rules_.literal(json::quoted(key)));
  if (loosely && options_.bars_escapes) {
    ways.push_back(with_escapes(std::vector<std::string_view>(keys.begin(), keys.end())));
  }
  return rules_.choice(std::move(ways));
}

// Reasoning begins only if no words have come since the last marker. Openers that are control
// tokens do not occur in text.
NodeId TextGrammar::without_reasoning(NodeId text) {
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

// What texts of `pattern` have in common up to the name of a tool and the text after it, in every
// notation that the parser accepts.
NodeId TextGrammar::opening(const Syntax& syntax, const Pattern& pattern) {
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

// One of the names that may be called, between quotes. If they are too many for one automaton,
// any name counts as one.
NodeId TextGrammar::known_name(std::string_view quote) {
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
NodeId TextGrammar::named_member(const ObjectKeys& keys) {
  const NodeId colon = rules_.sequence({any_space(), rules_.literal(":"), any_space()});
  std::vector<std::string_view> names;
  for (const Tool* tool : tools_) names.push_back(tool->name);
  std::vector<NodeId> spellings{known_name("\""), known_name("'")};
  std::vector<NodeId> ways;
  if (options_.bars_escapes) {
    spellings.push_back(with_escapes(names));
    ways.push_back(with_escapes(std::vector<std::string_view>(keys.name.begin(), keys.name.end())));
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
NodeId TextGrammar::with_escapes(const std::vector<std::string_view>& texts) {
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

// The escapes of an ASCII character, as a pattern, after the backslash.
std::string TextGrammar::escape_of(char character) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const auto code = static_cast<unsigned char>(character);
  const char last = kHex[code % 16];
  const std::string digit =
      last > '9' ? std::string{'[', last, static_cast<char>(last - 32), ']'} : std::string{last};
  return std::string("u00") + kHex[code / 16] + digit;
}

// Text in the format's frame for it.
NodeId TextGrammar::content() {
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

NodeId TextGrammar::between() {
  return format_.between.empty() ? rules_.literal("") : optional(plain(format_.between));
}

// Text at the beginning of an answer: without anything that the parser takes for more than text
// there.
NodeId TextGrammar::first_text() {
  std::vector<NodeId> barred;
  if (!holds_text()) add_calls_behind_prompt(barred);
  return without(free_text(), std::move(barred));
}

// If the prompt ends with the beginning of a call, only the name distinguishes it from text.
void TextGrammar::add_calls_behind_prompt(std::vector<NodeId>& openings) {
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
NodeId TextGrammar::text_before_call() {
  const Pattern& pattern = syntax().open.empty() ? syntax().call : syntax().open;
  const ObjectKeys& keys = syntax().object;
  std::vector<NodeId> barred;
  if (pattern.front().kind == Piece::Kind::object && !keys.name_is_key) {
    const std::string& name = keys.name.front();
    barred.push_back(rules_.sequence(
        {any_space(), rules_.literal("{"), any_space(),
         rules_.choice({rules_.literal(json::quoted(name)), rules_.literal(within("'", name))})}));
  }
  return without(first_text(), std::move(barred));
}

// Tokens are counted as wholes, so that none reaches from the reasoning into what closes it.
NodeId TextGrammar::limited_reasoning(NodeId text) {
  if (!options_.max_reasoning_tokens) return text;
  const NodeId none = rules_.literal("");
  if (*options_.max_reasoning_tokens == 0) return none;
  return rules_.choice({none, rules_.add(node::Tokens{rules_.add(node::Lexeme{text}),
                                                      *options_.max_reasoning_tokens})});
}

}  // namespace tenon::format
