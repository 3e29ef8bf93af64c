// Properties of repair over random schemas and arguments: where the text is cut makes no
// difference; valid arguments stay valid; nothing that the model wrote is lost, except the type of
// a repaired value; repairing twice is the same as once.
#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/repair/repair_for_test.h"

namespace tenon::repair {
namespace {

using json::Value;

// Small schemas, and arguments that nearly fit them.
class Cases {
 public:
  explicit Cases(unsigned seed) : dice_(seed) {}

  Value schema(int depth) {
    switch (dice_() % (depth > 0 ? 10 : 6)) {
      case 0:
        return json::Object{{"type", "string"}};
      case 1:
        return json::Object{{"type", "integer"}};
      case 2:
        return json::Object{{"type", "boolean"}, {"default", true}};
      case 3:
        return json::Object{{"type", json::Array{"number", "null"}}};
      case 4:
        return json::Object{{"enum", json::Array{1, "a", false}}};
      case 5:
        return json::Object{};
      case 6:
        return json::Object{{"type", "array"}, {"items", schema(depth - 1)}};
      case 7:
        return json::Object{{"anyOf", json::Array{schema(depth - 1), schema(depth - 1)}}};
      default:
        return object(depth);
    }
  }

  Value object(int depth) {
    json::Object properties;
    json::Array required;
    for (const char* key : {"file_path", "cmd", "n", "maxLines"}) {
      if (dice_() % 2 == 0) properties.set(key, schema(depth - 1));
      if (dice_() % 3 == 0) required.emplace_back(key);
    }
    json::Object made{{"type", "object"}, {"properties", std::move(properties)}};
    if (!required.empty()) made.set("required", std::move(required));
    if (dice_() % 3 == 0) made.set("additionalProperties", false);
    return made;
  }

  Value value(int depth) {
    switch (dice_() % (depth > 0 ? 12 : 9)) {
      case 0:
        return "a";
      case 1:
        return "true";
      case 2:
        return "5";
      case 3:
        return 5;
      case 4:
        return json::Number{"1.0"};
      case 5:
        return true;
      case 6:
        return nullptr;
      case 7:
        return R"({"n": "1"})";
      case 8:
        return "[1, \"2\"]";
      case 9: {
        json::Array items;
        for (std::size_t i = dice_() % 4; i > 0; --i) items.push_back(value(depth - 1));
        return items;
      }
      default:
        return arguments(depth);
    }
  }

  Value arguments(int depth) {
    json::Object members;
    for (const char* key :
         {"filePath", "file_path", "file", "cmd", "command", "n", "N", "max_lines"}) {
      if (dice_() % 4 == 0) members.set(key, value(depth - 1));
    }
    return members;
  }

  std::string text_of(const Value& value) {
    json::DumpsOptions options{.ensure_ascii = false, .keep_numbers = true};
    if (dice_() % 3 == 0) options.indent = 1;
    return dice_() % 3 == 0 ? json::to_string(value) : json::dumps(value, options);
  }

  std::size_t roll(std::size_t sides) { return dice_() % sides; }

 private:
  std::mt19937 dice_;
};

// Whether `repaired` has all values of `written`, perhaps with other types.
bool keeps(const Value& written, const Value& repaired) {
  const json::Object* before = written.if_object();
  const json::Object* after = repaired.if_object();
  if (before == nullptr || after == nullptr) return true;
  if (after->size() < before->size()) return false;
  for (const auto& [key, value] : *before) {
    const Value* same = after->find(key);
    if (same != nullptr && !keeps(value, *same)) return false;
  }
  return true;
}

TEST(ArgumentRepairerProof, RandomCallsAreRepairedTheSameHoweverTheyAreCut) {
  Cases cases(7);
  const std::size_t rounds = is_long_test() ? 100'000 : 1'000;
  std::size_t repaired_calls = 0;
  std::size_t made_valid = 0;
  for (std::size_t i = 0; i < rounds; ++i) {
    const Value source = cases.object(3);
    const ToolForTest tool(i % 3 == 0 ? "write" : "any", source);
    const Value written = cases.arguments(3);
    const std::string text = cases.text_of(written);
    const std::string where = "schema " + json::to_string(source) + "\n arguments " + text;

    const Repaired whole = repair_arguments(tool.get(), text, text.size());
    const Repaired pieces = repair_arguments(tool.get(), text, 1 + cases.roll(5));
    ASSERT_EQ(whole, pieces) << where;
    const auto value = json::parse(whole.text);
    ASSERT_TRUE(value) << where << "\n repaired " << whole.text;
    const bool was_valid = tool.schema().is_valid(written).value_or(false);
    const bool is_valid = tool.schema().is_valid(*value).value_or(false);
    ASSERT_TRUE(is_valid || !was_valid) << where << "\n repaired " << whole.text;
    if (whole.repairs.empty()) {
      ASSERT_EQ(*value, written) << where << "\n repaired " << whole.text;
    } else {
      ++repaired_calls;
      made_valid += !was_valid && is_valid ? 1U : 0U;
    }
    ASSERT_TRUE(keeps(written, *value)) << where << "\n repaired " << whole.text;
    ASSERT_EQ(*json::parse(repair_arguments(tool.get(), whole.text, whole.text.size()).text),
              *value)
        << where;
  }
  EXPECT_GT(repaired_calls, rounds / 10);
  EXPECT_GT(made_valid, rounds / 50);
}

}  // namespace
}  // namespace tenon::repair
