// A value without quotes ends where its end marker begins, so its language is the schema's texts
// without that marker (text_of_value). If the schema also allows numbers or other types and says
// more of them than their type, texts that the parser would read as such are left out and written
// in quotes (raw_text).

#include "tenon/format/grammar_text_values.h"

#include <algorithm>
#include <span>

#include "tenon/base/log.h"
#include "tenon/format/entities.h"
#include "tenon/format/read_back.h"
#include "tenon/grammar/front/parameter_style.h"
#include "tenon/regex/code_points.h"

namespace tenon::format {

// Absent, true and a schema all leave it open; only `false` closes it.
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

json::Object properties_of(const json::Value& schema) {
  json::Object properties;
  const json::Value* const declared = schema.find("properties");
  if (declared != nullptr && declared->if_object() != nullptr) properties = *declared->if_object();
  const json::Value* others = schema.find("additionalProperties");
  // A name may match a pattern, and then `additionalProperties` does not apply to it.
  if (schema.find("patternProperties") != nullptr) others = nullptr;
  for (const std::string_view name : required_names(schema)) {
    if (properties.contains(name)) continue;
    properties[name] = others != nullptr ? *others : json::Value(true);
  }
  return properties;
}

bool is_nothing(const json::Value& schema) {
  return schema.if_bool() != nullptr && !*schema.if_bool();
}

// Whether the format can write a parameter with that name so that its parser reads it back: keys
// that are not JSON end at certain bytes. It is tried together with a second parameter.
bool TextValueGrammar::can_write(const std::string& name) {
  constexpr std::size_t kPlain = 64;
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  };
  if (!name.empty() && name.size() <= kPlain && std::ranges::all_of(name, is_plain)) return true;
  // Two calls are rendered and parsed for an unusual name, so the answer is kept.
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
json::Object TextValueGrammar::writable_properties(const json::Value& schema, int depth) {
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

bool TextValueGrammar::is_listed(const json::Value& schema) {
  return listed_values(of_->schemas.of(schema)).has_value();
}

// The values that the schema lists, if it does, as far as they fit the schema.
std::optional<json::Array> TextValueGrammar::listed_values(const json::Value& schema) {
  json::Array values;
  if (const json::Value* const value = schema.find("const")) {
    values.push_back(*value);
  } else {
    const json::Value* list = schema.find("enum");
    // `enum_values` means `enum` here as it does in schema.h.
    if (list == nullptr) list = schema.find("enum_values");
    if (list == nullptr || list->if_array() == nullptr) return std::nullopt;
    values = *list->if_array();
  }
  // A listed value that other keywords forbid must not be offered: {"enum": ["a", "bb"],
  // "minLength": 2} leaves "bb".
  if (const auto compiled = compiled_part(schema)) {
    std::erase_if(values, [&](const json::Value& value) {
      const Expected<bool> fits = (*compiled)->is_valid(value);
      return fits && !*fits;
    });
  }
  return values;
}

// Removes the values that would be read as something else, because `mark` ends them.
void TextValueGrammar::keep_writable(json::Array& values, std::string_view mark) {
  if (mark.empty() || values.empty()) return;
  if (std::erase_if(values, [&](const json::Value& one) { return holds(one, mark); }) == 0) return;
  const std::string why = "values that are listed hold '" + std::string(mark) +
                          "', which ends a value in the format " + format_.info.name;
  if (values.empty()) fail({Errc::unsatisfiable, why + ", and there is no other"});
  log::warn("tool '" + std::string(log::content(tool_->name)) +
            "': " + std::string(log::content(why)) + ": they are left out");
}

// Whether a text in `value` contains `mark`.
bool TextValueGrammar::holds(const json::Value& value, std::string_view mark) {
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

// The text that ends a value.
// For "<parameter=${key}>\n${value}\n</parameter>\n" it is "\n</parameter>": white space behind a
// literal does not belong to it.
std::string TextValueGrammar::value_stop(const std::optional<std::string>& name) {
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
NodeId TextValueGrammar::raw_text(const json::Value& reference, const std::string& stop) {
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

// Complements and intersections are only allowed within a lexeme, which is compiled as one
// automaton.
bool TextValueGrammar::is_lexeme(NodeId id) const {
  const grammar::Node& node = rules_.node(id);
  const auto* const choice = std::get_if<node::Choice>(&node);
  return std::holds_alternative<node::Both>(node) ||
         (choice != nullptr &&
          std::ranges::any_of(choice->parts, [this](NodeId part) { return is_lexeme(part); }));
}

// The types other than text that a value may have, if only its form decides and the schema
// requires more than types; otherwise it does not matter how it is read.
Types TextValueGrammar::told_by_look(const json::Value& schema) {
  const Types types = types_of(schema, of_->parameters);
  const bool is_mixed = (types & kText) != 0 && types != kText;
  const bool matters = is_mixed && type_slot() == nullptr && !is_listed(schema) &&
                       of_->schemas.says_more_than_type(schema);
  return matters ? types & static_cast<Types>(~kText) : 0;
}

const Piece* TextValueGrammar::type_slot() const {
  const Pattern& pattern = syntax().parameter;
  const auto slot = std::ranges::find(pattern, Piece::Kind::type, &Piece::kind);
  return slot != pattern.end() ? &*slot : nullptr;
}

// Texts that the parser reads as JSON of these types, or might.
NodeId TextValueGrammar::readable_as(Types types) {
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
NodeId TextValueGrammar::language_of(const json::Value& reference, const std::string& stop) {
  const json::Value& schema = of_->schemas.of(reference);
  const std::vector<const json::Value*> parts = of_->schemas.ways(schema);
  constexpr std::size_t kMaxUnions = 1'000;  // unions may contain themselves
  if (parts.front() == &schema || ++unions_ > kMaxUnions) return language_of_strings(schema, stop);
  std::vector<NodeId> ways;
  for (const json::Value* const part : parts) {
    if ((types_of(*part, of_->parameters) & kText) == 0) continue;
    ways.push_back(language_of(*part, stop));
  }
  if (schema.find("anyOf") == nullptr) ways = each_alone(ways);
  return rules_.choice(std::move(ways));
}

// For `oneOf`: values that fit exactly one way. If there are many ways, a value may fit several;
// lists of constants have no texts in common anyway.
std::vector<NodeId> TextValueGrammar::each_alone(const std::vector<NodeId>& ways) {
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
NodeId TextValueGrammar::text_of_value(const std::string& stop) {
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
  const json::Object properties = properties_of(of_->parameters);
  const bool is_few = properties.size() <= kFew;
  // The beginning of each parameter of the tool ends a value as the parser reads it, so no value
  // may contain one. With many parameters only the common part before the key is forbidden.
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
  const auto key =
      std::find_if(value, pattern.end(), [](const Piece& p) { return p.kind == Piece::Kind::key; });
  if (key == pattern.end()) return text;
  // An end marker with another key.
  const NodeId wrong =
      rules_.sequence({rules_.add(node::Text{}), rules_.literal(std::prev(key)->text),
                       rules_.add(node::Pattern{R"([A-Za-z0-9_.\-\u{80}-\u{10FFFF}]+)"}),
                       rules_.literal(std::next(key)->text + end), anything()});
  return rules_.add(node::Both{{text, rules_.add(node::Complement{wrong})}});
}

NodeId TextValueGrammar::language_of_strings(const json::Value& schema, const std::string& stop) {
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
  const auto min = grammar::count_of(schema, "minLength");
  const auto max = grammar::count_of(schema, "maxLength");
  if (min || max) {
    const NodeId any = rules_.add(node::Characters{regex::CodePointSet::all()});
    all.push_back(rules_.repeat(any, min.value_or(0), max.value_or(node::kUnbounded)));
  }
  const auto add_pattern = [&](const json::Value& part) {
    const json::Value* const pattern = part.find("pattern");
    if (pattern == nullptr || pattern->if_string() == nullptr) return;
    // JSON Schema's patterns are not anchored.
    all.push_back(rules_.add(node::Pattern{"[\\s\\S]*(?:" + *pattern->if_string() + ")[\\s\\S]*"}));
  };
  add_pattern(schema);
  if (const json::Value* const others = schema.find("allOf"); others && others->if_array()) {
    for (const json::Value& part : *others->if_array()) add_pattern(part);
  }
  return all.size() == 1 ? text : rules_.add(node::Both{std::move(all)});
}

std::string_view TextValueGrammar::name_of(Types type) {
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
json::Value TextValueGrammar::of_type(const json::Value& reference, Types type) {
  json::Value one = of_->schemas.of(reference);
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

}  // namespace tenon::format
