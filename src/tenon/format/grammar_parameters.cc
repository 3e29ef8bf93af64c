// Each parameter is the format's pattern with key and value filled in (parameter). If the pattern
// says the type of a value, each type has its own way; otherwise the value is text, JSON or, where
// the format has elements, again a list of such parameters (element).

#include "tenon/format/grammar_parameters.h"

#include <algorithm>

#include "tenon/format/entities.h"
#include "tenon/format/json_filter.h"
#include "tenon/grammar/front/parameter_style.h"

namespace tenon::format {

NodeId ParameterGrammar::parameters() {
  check_schema();
  return parameters_of(of_->parameters, 0);
}

// The members of an object, each as a parameter.
NodeId ParameterGrammar::parameters_of(const json::Value& reference, int depth) {
  const json::Value& schema = of_->schemas.of(reference);
  const json::Object properties = writable_properties(schema, depth);
  if (properties.empty() && !is_open(schema)) return rules_.literal("");
  if (properties.empty() && !syntax().item.empty()) {
    const NodeId any = elements_of(schema, depth);
    return grammar::count_of(schema, "minProperties").value_or(0) > 0 ? any : optional(any);
  }
  if (properties.empty()) return others_of(schema, depth, 0);
  return members(properties, required_names(schema), "", [&](const json::Member& property) {
    const std::string& key = property.key;
    const NodeId name = rules_.literal(syntax().entities ? with_entities(key) : key);
    return parameter(name, key, property.value, depth);
  });
}

// Members whose names the schema does not declare: at least `least`.
NodeId ParameterGrammar::others_of(const json::Value& schema, int depth, std::uint32_t least) {
  const json::Value* const others = schema.find("additionalProperties");
  const json::Value any = json::Object{};
  const NodeId one = parameter(name_node(), std::nullopt, others != nullptr ? *others : any, depth);
  return rules_.repeat(one, std::max(grammar::count_of(schema, "minProperties").value_or(0), least),
                       grammar::count_of(schema, "maxProperties").value_or(node::kUnbounded));
}

// The same as elements, of which there is at least one.
NodeId ParameterGrammar::elements_of(const json::Value& schema, int depth) {
  const json::Value* const others = schema.find("additionalProperties");
  const bool is_any = others == nullptr || others->if_object() == nullptr;
  return is_any ? any_elements() : others_of(schema, depth, 1);
}

// `name`: its key, if there is only one.
NodeId ParameterGrammar::parameter(NodeId key, const std::optional<std::string>& name,
                                   const json::Value& schema, int depth) {
  if (is_nothing(schema)) return rules_.choice({});
  // If a ${type} says what kind a value is, each kind has its own way.
  const Piece* const type = type_slot();
  const bool tells = type != nullptr;
  const bool tells_all = tells && type->text.ends_with("|*");
  const Types types = types_of(schema, of_->parameters);
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

// `types`: the value's types; kText: it is written unchanged. `is_one_type`: the schema allows
// only these.
NodeId ParameterGrammar::parameter(NodeId key, const std::optional<std::string>& name,
                                   const json::Value& schema, Types types, int depth,
                                   bool is_one_type) {
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

// A value that is not text, of one type or (0) of any. If elements are nested, references to one
// place of the schema become one rule; otherwise a tree would be written out.
NodeId ParameterGrammar::other_value(const json::Value& reference, Types type, int depth) {
  const auto written = [&] {
    return type != 0 ? raw_value(of_type(reference, type), depth, false)
                     : raw_value(reference, depth, true);
  };
  const json::Value& schema = of_->schemas.of(reference);
  if (&schema == &reference || syntax().item.empty()) return written();
  const auto [known, is_new] = of_->elements.try_emplace({&schema, type});
  if (is_new) {
    known->second = rules_.declare("element-" + std::to_string(of_->elements.size()));
    rules_.define(known->second, written());
  }
  return rules_.add(node::Rule{known->second});
}

// A value that is written as JSON; or unchanged, if its type is open and it is listed; or as
// elements, if its members are known. `may_be_empty`: a value without elements is empty.
NodeId ParameterGrammar::raw_value(const json::Value& reference, int depth, bool may_be_empty) {
  const json::Value& schema = of_->schemas.of(reference);
  auto values = listed_values(schema);
  if (!values || (types_of(schema, of_->parameters) & kText) == 0) {
    return syntax().item.empty() || values ? in_notation(reference, depth)
                                           : element(schema, depth, may_be_empty);
  }
  keep_writable(*values, value_stop(std::nullopt));
  const bool is_mixed = types_of(schema, of_->parameters) != kText && type_slot() == nullptr;
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
NodeId ParameterGrammar::in_notation(const json::Value& reference, int depth) {
  const NodeId as_json = json_of_part(reference);
  if (syntax().notation != Notation::python) return as_json;
  style_ = ValueStyle::python();
  return rules_.choice({as_json, value(of_->kept_parts.emplace_back(reference), depth)});
}

NodeId ParameterGrammar::element(const json::Value& schema, int depth, bool may_be_empty) {
  const Types types = types_of(schema, of_->parameters);
  if (types == kObject && depth < kMaxDepth && !properties_of(schema).empty()) {
    return rules_.choice({parameters_of(schema, depth + 1), json_of_part(schema)});
  }
  if (types == kObject && depth < kMaxDepth && is_open(schema)) {
    const bool may_have_none =
        may_be_empty && grammar::count_of(schema, "minProperties").value_or(0) == 0;
    const NodeId elements = elements_of(schema, depth + 1);
    return rules_.choice({may_have_none ? optional(elements) : elements, json_of_part(schema)});
  }
  const json::Value* const items = item_schema(&schema, of_->parameters);
  const bool is_tuple = schema.find("prefixItems") != nullptr;  // JSON says which item is which
  if (types == kArray && depth < kMaxDepth && !is_tuple) {
    const std::string& name = syntax().item;
    const NodeId item = items != nullptr ? parameter(rules_.literal(name), name, *items, depth + 1)
                                         : any_element(rules_.literal(name));
    const std::uint32_t min = grammar::count_of(schema, "minItems").value_or(0);
    return rules_.choice(
        {separated(item, "", may_be_empty ? min : std::max(1U, min),
                   grammar::count_of(schema, "maxItems").value_or(node::kUnbounded)),
         json_of_part(schema)});
  }
  return json_of_part(schema);
}

// Elements without a schema: at least one, each with text or such elements inside.
NodeId ParameterGrammar::any_elements() {
  if (!any_elements_) {
    any_elements_ = rules_.declare("any-elements");
    rules_.define(*any_elements_, rules_.repeat(any_element(name_node()), 1, node::kUnbounded));
  }
  return rules_.add(node::Rule{*any_elements_});
}

// Text up to the next opening marker, or elements again: any tree.
NodeId ParameterGrammar::any_element(NodeId key) {
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

}  // namespace tenon::format
