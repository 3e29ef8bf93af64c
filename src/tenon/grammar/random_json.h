#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include "tenon/json/value.h"

namespace tenon::grammar {

/// For tests: random schemas with every keyword of draft 2020-12, and random instances, from few
/// names and values, so that they match often. The same seed gives the same results.
class RandomJson {
 public:
  explicit RandomJson(std::uint32_t seed) : random_(seed) {}

  json::Value schema();
  json::Value instance() { return value(3); }
  /// `value` with one of its inner values replaced, dropped or added.
  json::Value mutated(const json::Value& value);

  /// A number in [0, count).
  std::size_t pick(std::size_t count) { return random_() % count; }
  bool one_in(std::size_t count) { return pick(count) == 0; }

 private:
  // The place where a schema is written.
  struct Place {
    int depth = 0;          // levels of schemas that may follow
    bool may_refer = true;  // a reference to the definition is not a cycle here
  };
  using Add = void (RandomJson::*)(json::Object&, Place);

  json::Value node(Place place);
  json::Value inner(Place place);  // for the same instance
  json::Value below(Place place);  // for a member or an item
  json::Value value(int depth);
  std::string name();
  json::Array nodes(Place place, bool is_same_instance);
  json::Array names();
  json::Value leaf();

  void add_type(json::Object& schema, Place place);
  void add_values(json::Object& schema, Place place);
  void add_string(json::Object& schema, Place place);
  void add_number(json::Object& schema, Place place);
  void add_items(json::Object& schema, Place place);
  void add_counts_of_items(json::Object& schema, Place place);
  void add_contains(json::Object& schema, Place place);
  void add_properties(json::Object& schema, Place place);
  void add_patterns(json::Object& schema, Place place);
  void add_counts_of_properties(json::Object& schema, Place place);
  void add_dependents(json::Object& schema, Place place);
  void add_unevaluated(json::Object& schema, Place place);
  void add_combination(json::Object& schema, Place place);
  void add_condition(json::Object& schema, Place place);
  void add_reference(json::Object& schema, Place place);

  std::mt19937 random_;
};

/// For tests/e2e/test_masks.py, which compares masks with another validator: adds a line {"schema",
/// "text", "valid"} to the file named by TENON_PROOF_TEXTS, if it is set.
void note_verdict(const json::Value& schema, std::string_view text, bool is_valid);

}  // namespace tenon::grammar
