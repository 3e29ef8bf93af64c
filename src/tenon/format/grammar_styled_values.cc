// Values that have brackets and separators of their own, in Python's notation or another one. Each
// place of the schema to which something refers becomes a rule (referred), so that schemas that
// contain themselves end. Members come in the schema's order or, if there are few, in every order
// (in_any_order).

#include "tenon/format/grammar_styled_values.h"

#include <algorithm>

#include "tenon/grammar/front/parameter_style.h"

namespace tenon::format {

// `is_behind_paren`: the parenthesis has been read.
NodeId StyledValueGrammar::keywords(bool is_behind_paren) {
  check_schema();
  style_ = ValueStyle::python();
  const json::Value& schema = of_->schemas.of(of_->parameters);
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

// Where the model's template writes values as JSON (Notation::json), both ways are allowed.
NodeId StyledValueGrammar::keyword_value(const json::Value& schema) {
  const NodeId as_python = value(schema, 0);
  if (syntax().notation != Notation::json || is_nothing(schema)) return as_python;
  return rules_.choice({as_python, json_of_part(schema)});
}

NodeId StyledValueGrammar::members_object() {
  check_schema();
  style_ = ValueStyle::members(syntax().string_quote);
  return object(of_->schemas.of(of_->parameters), 0);
}

// Built from the last part to the first. `first` is what may come from part i on while nothing has
// come, so without a separator before it; `more` is the same behind another part. Linear in the
// number of parts.
NodeId StyledValueGrammar::in_order(const std::vector<NodeId>& parts, const std::vector<bool>& must,
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

NodeId StyledValueGrammar::in_any_order(const std::vector<NodeId>& parts,
                                        const std::vector<bool>& must, std::string_view separator) {
  const std::size_t all = std::size_t{1} << parts.size();
  std::vector<NodeId> after(all);  // by the set of parts that have come
  // From the full set down, so that after[seen | bit] exists. Six parts give 64 sets and not 720
  // orders.
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

// `min` to `max` items: "a, b, c".
NodeId StyledValueGrammar::separated(NodeId item, std::string_view separator, std::uint32_t min,
                                     std::uint32_t max) {
  if (max == 0) return rules_.literal("");
  const NodeId more = rules_.sequence({rules_.literal(std::string(separator)), item});
  const NodeId list = rules_.sequence(
      {item, rules_.repeat(more, min > 0 ? min - 1 : 0, max == node::kUnbounded ? max : max - 1)});
  return min > 0 ? list : optional(list);
}

// A value in `style_`. References to one place of the schema are one rule.
NodeId StyledValueGrammar::value(const json::Value& reference, int depth) {
  const json::Value& schema = of_->schemas.of(reference);
  return &schema == &reference ? plain_value(schema, depth) : referred(schema, depth);
}

// `schema` lives as long as schemas_.
NodeId StyledValueGrammar::referred(const json::Value& schema, int depth) {
  const auto [known, is_new] = of_->referred.try_emplace(&schema);
  if (is_new) {
    known->second = rules_.declare("value-" + std::to_string(of_->referred.size()));
    // Declared before it is defined, so that a schema that contains itself finds its rule.
    rules_.define(known->second, plain_value(schema, depth + 1));
  }
  return rules_.add(node::Rule{known->second});
}

NodeId StyledValueGrammar::plain_value(const json::Value& schema, int depth) {
  if (is_nothing(schema)) return rules_.choice({});
  // `true` and what is too deep: any value.
  if (depth >= kMaxDepth || schema.if_object() == nullptr) return any_value();
  if (auto values = listed_values(schema)) {
    keep_writable(*values, style_.quote);
    std::vector<NodeId> ways;
    for (const json::Value& one : *values) ways.push_back(written(one));
    return rules_.choice(std::move(ways));
  }
  const Types types = types_of(schema, of_->parameters);
  // A value that is only a text or a number is constrained by everything that the schema says.
  if (types == kText || types == kNumber) return value_of_type(schema, types, depth);
  if (const auto parts = of_->schemas.ways(schema); parts.front() != &schema) {
    std::vector<NodeId> ways;
    for (const json::Value* const part : parts)
      ways.push_back(referred(of_->schemas.of(*part), depth));
    return rules_.choice(std::move(ways));
  }
  if (types == kAnyType) return any_value();
  std::vector<NodeId> ways;
  for (const Types one : {kText, kNumber, kBoolean, kNull, kArray, kObject}) {
    if ((types & one) != 0) ways.push_back(value_of_type(of_type(schema, one), one, depth));
  }
  return rules_.choice(std::move(ways));
}

// A text is written between the style's quotes, in JSON's, or (Python) also in apostrophes; a
// number is always JSON's.
NodeId StyledValueGrammar::value_of_type(const json::Value& schema, Types type, int depth) {
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
NodeId StyledValueGrammar::items(const json::Value& schema, int depth) {
  const json::Value* others = schema.find("items");
  const json::Value* list = schema.find("prefixItems");
  if (list == nullptr && others != nullptr && others->if_array() != nullptr) {  // until draft 7
    list = std::exchange(others, schema.find("additionalItems"));
  }
  const json::Array none;
  const json::Array& first =
      list != nullptr && list->if_array() != nullptr ? *list->if_array() : none;
  const auto min = grammar::count_of(schema, "minItems").value_or(0);
  auto max = grammar::count_of(schema, "maxItems").value_or(node::kUnbounded);
  const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(first.size(), max));
  if (others != nullptr && is_nothing(*others)) max = count;
  if (min > max) return rules_.choice({});
  const NodeId other = others != nullptr ? value(*others, depth) : any_value();
  if (count == 0) return separated(other, style_.separator, min, max);
  const NodeId separator = rules_.literal(std::string(style_.separator));
  NodeId rest = rules_.repeat(rules_.sequence({separator, other}), min > count ? min - count : 0,
                              max == node::kUnbounded ? max : max - count);
  // From the last place to the first; a place beyond minItems may be absent, with all behind it.
  for (std::uint32_t i = count; i-- > 0;) {
    const NodeId before = i > 0 ? separator : rules_.literal("");
    rest = rules_.sequence({before, value(first[i], depth), rest});
    if (i >= min) rest = optional(rest);
  }
  return rest;
}

// Members whose names the schema does not declare.
NodeId StyledValueGrammar::pairs(NodeId key, std::string_view colon, const json::Value& schema,
                                 int depth) {
  const json::Value* const others = schema.find("additionalProperties");
  const NodeId pair = rules_.sequence({key, rules_.literal(std::string(colon)),
                                       others != nullptr ? value(*others, depth) : any_value()});
  return separated(pair, style_.separator, grammar::count_of(schema, "minProperties").value_or(0),
                   grammar::count_of(schema, "maxProperties").value_or(node::kUnbounded));
}

NodeId StyledValueGrammar::any_text() {
  if (!style_.quote.empty()) return quoted(json::Object{});
  if (!style_.has_single_quotes) return any_string();
  return rules_.choice({any_string(), single_quoted(json::Object{})});
}

// A bare key cannot hold every byte, so with bare keys only properties that the parser reads back
// may come.
NodeId StyledValueGrammar::object(const json::Value& schema, int depth) {
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
NodeId StyledValueGrammar::written(const json::Value& value) {
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

NodeId StyledValueGrammar::written_key(const std::string& key) {
  return is_bare_key(key, style_) ? rules_.literal(key) : written_text(key);
}

NodeId StyledValueGrammar::written_text(const std::string& text) {
  const std::string quote(style_.quote);
  if (quote.empty()) {
    const NodeId as_json = rules_.literal(json::quoted(text));
    const bool is_plain = std::ranges::none_of(
        text, [](char c) { return c == '\'' || c == '\\' || static_cast<unsigned char>(c) < ' '; });
    if (!style_.has_single_quotes || !is_plain) return as_json;
    return rules_.choice({as_json, rules_.literal("'" + text + "'")});
  }
  return rules_.sequence({marker(quote), rules_.literal(text), marker(quote)});
}

NodeId StyledValueGrammar::quoted(const json::Value& schema) {
  const std::string quote(style_.quote);
  return rules_.sequence({marker(quote), raw_text(schema, quote), marker(quote)});
}

// A string without apostrophes as Python's repr writes it. If a schema requires more than the
// type it has no escapes, so that length and pattern apply to the text itself.
NodeId StyledValueGrammar::single_quoted(const json::Value& schema) {
  const bool is_any = !grammar::count_of(schema, "minLength") &&
                      !grammar::count_of(schema, "maxLength") && schema.find("pattern") == nullptr;
  const NodeId body =
      is_any ? rules_.add(node::Pattern{R"((?:[^'\\\x00-\x1f]|\\['"\\ntr])*)"})
             : both(language_of(schema, "'"), rules_.add(node::Pattern{R"([^'\\\x00-\x1f]*)"}));
  return bracketed("'", body, "'");
}

bool StyledValueGrammar::says_length_and_pattern_only(const json::Value& schema) {
  constexpr std::string_view kPlain[] = {"type",      "title",    "description",
                                         "default",   "examples", "minLength",
                                         "maxLength", "pattern",  "$comment"};
  const json::Object* const members = schema.if_object();
  return members != nullptr && std::ranges::all_of(*members, [&](const json::Member& member) {
           return std::ranges::find(kPlain, member.key) != std::end(kPlain);
         });
}

NodeId StyledValueGrammar::any_value() {
  if (!any_value_) {
    any_value_ = rules_.declare("any-value");
    const NodeId self = rules_.add(node::Rule{*any_value_});
    rules_.define(
        *any_value_,
        rules_.choice({any_text(), json(json::Object{{"type", "number"}}),
                       either(style_.yes, style_.no), rules_.literal(std::string(style_.null)),
                       bracketed("[", separated(self, style_.separator, 0, node::kUnbounded), "]"),
                       any_object()}));
  }
  return rules_.add(node::Rule{*any_value_});
}

NodeId StyledValueGrammar::any_object() {
  const NodeId value = any_value_ ? rules_.add(node::Rule{*any_value_}) : any_value();
  const NodeId pair =
      rules_.sequence({any_key(), rules_.literal(std::string(style_.colon)), value});
  return bracketed("{", separated(pair, style_.separator, 0, node::kUnbounded), "}");
}

}  // namespace tenon::format
