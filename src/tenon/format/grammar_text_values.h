#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/format/grammar_json.h"
#include "tenon/format/schema_types.h"
#include "tenon/json/value.h"

/// Values that are written without quotes, up to the text that ends them. Their language is a part
/// of what the schema says of texts: lists, lengths, patterns, and the ways of a union.
namespace tenon::format {

/// The object may have members that the schema does not declare.
bool is_open(const json::Value& schema);
std::vector<std::string_view> required_names(const json::Value& schema);
/// The properties that can be written one by one: those that the schema declares, and those that it
/// only requires, whose values must fit what it says of other names.
json::Object properties_of(const json::Value& schema);
/// True for the schema `false`.
bool is_nothing(const json::Value& schema);

class TextValueGrammar : protected JsonGrammar {
 public:
  using JsonGrammar::JsonGrammar;

 protected:
  bool can_write(const std::string& name);
  json::Object writable_properties(const json::Value& schema, int depth);
  bool is_listed(const json::Value& schema);
  std::optional<json::Array> listed_values(const json::Value& schema);
  void keep_writable(json::Array& values, std::string_view mark);
  static bool holds(const json::Value& value, std::string_view mark);
  std::string value_stop(const std::optional<std::string>& name);
  NodeId raw_text(const json::Value& reference, const std::string& stop);
  bool is_lexeme(NodeId id) const;
  Types told_by_look(const json::Value& schema);
  const Piece* type_slot() const;
  NodeId readable_as(Types types);
  NodeId language_of(const json::Value& reference, const std::string& stop);
  std::vector<NodeId> each_alone(const std::vector<NodeId>& ways);
  NodeId text_of_value(const std::string& stop);
  NodeId language_of_strings(const json::Value& schema, const std::string& stop);
  static std::string_view name_of(Types type);
  json::Value of_type(const json::Value& reference, Types type);

  std::size_t unions_ = 0;  // number of unions that were searched for texts
  // For names with unusual characters.
  std::map<std::pair<const Syntax*, std::string>, bool> can_write_;
};

}  // namespace tenon::format
