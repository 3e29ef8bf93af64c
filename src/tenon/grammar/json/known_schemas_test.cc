#include "tenon/grammar/json/known_schemas.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::grammar {
namespace {

constexpr std::size_t kRoom = std::size_t{1} << 20U;

json::Value known_schema(const std::string& text) {
  return *json::parse(text);
}

TEST(KnownSchemas, AreFoundByTextAndByTheOptionsThatMatter) {
  const json::Value source = known_schema(R"({"type": "object", "properties": {"a": true}})");
  KnownSchemas known(kRoom);
  EXPECT_EQ(known.find(source, {}), nullptr);
  Machine machine;
  ASSERT_TRUE(known.add(machine, source, {}));
  ASSERT_NE(known.find(source, {}), nullptr);
  EXPECT_TRUE(known.find(source, {})->may_wait);
  EXPECT_NE(known.find(source, {.property_order = JsonOptions::PropertyOrder::schema,
                                .whitespace = JsonOptions::Whitespace::pretty}),
            nullptr);
  EXPECT_EQ(known.find(source, {.plain_integers = true}), nullptr);
  EXPECT_EQ(known.find(source, {.declared_only = true}), nullptr);
  EXPECT_EQ(known.find(source, {.lenient = true}), nullptr);
  EXPECT_EQ(known.find(source, {.unicode_escapes = UnicodeEscapes::controls}), nullptr);
  EXPECT_EQ(known.find(known_schema(R"({"type": "object"})"), {}), nullptr);
}

TEST(KnownSchemas, AreThoseThatWereTaken) {
  KnownSchemas known(kRoom);
  Machine machine;
  for (const char* refused : {R"({"type": "objects"})", R"({"type": "string", "maxLength": -1})",
                              R"({"enum": [1], "type": "string"})"}) {
    const json::Value source = known_schema(refused);
    EXPECT_FALSE(known.add(machine, source, {})) << refused;
    EXPECT_EQ(known.find(source, {}), nullptr) << refused;
  }
}

TEST(KnownSchemas, RememberWhatIsLeftOut) {
  const json::Value source = known_schema(R"({"type": "integer", "maximum": 1e999})");
  KnownSchemas known(kRoom);
  Machine machine;
  const auto added = known.add(machine, source, {.lenient = true});
  ASSERT_TRUE(added) << added.error().message;
  EXPECT_EQ((*added)->relaxed.size(), 1U);
  EXPECT_EQ(known.find(source, {.lenient = true}), *added);
}

TEST(KnownSchemas, ThatAreDearDoNotWait) {
  std::string branches;
  for (int i = 0; i < 6; ++i) {
    const std::string name = "a" + std::to_string(i);
    branches +=
        (i > 0 ? "," : "") + std::string(R"({"patternProperties": {"^)") + name +
        R"(": {"minimum": 1}, "_id$": {"type": "integer"}}, "minProperties": 2, "required": [")" +
        name + "\"]}";
  }
  const json::Value source = known_schema(R"({"oneOf": [)" + branches + "]}");
  KnownSchemas known(kRoom);
  Machine machine;
  ASSERT_TRUE(known.add(machine, source, {}));
  EXPECT_FALSE(known.find(source, {})->may_wait);
}

TEST(KnownSchemas, HaveALimit) {
  KnownSchemas known(100);
  const json::Value source = known_schema(R"({"type": "string"})");
  Machine machine;
  ASSERT_TRUE(known.add(machine, source, {}));
  EXPECT_EQ(known.find(source, {}), nullptr);
}

}  // namespace
}  // namespace tenon::grammar
