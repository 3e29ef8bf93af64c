#include "tenon/batch/describe_format.h"

#include <gtest/gtest.h>

#include "tenon/format/definition.h"
#include "tenon/format/registry.h"

namespace tenon::batch {
namespace {

TEST(Describe, ShowsEveryFormatInEveryDialect) {
  for (const auto& format : format::all()) {
    if (format->syntaxes.empty()) continue;  // another test's
    for (const char* dialect : {"gbnf", "ebnf", "lark"}) {
      const auto shown = describe(*format, dialect);
      ASSERT_TRUE(shown) << format::info(*format).name << " in " << dialect << ": "
                         << shown.error().message;
      EXPECT_NE(shown->find("grammar")->if_string()->find("city"), std::string::npos)
          << format::info(*format).name << " in " << dialect;
    }
  }
}

TEST(Describe, ShowsWhatAModelWrites) {
  const auto shown = describe(*format::find("hermes"), "gbnf");
  ASSERT_TRUE(shown);
  EXPECT_EQ(*shown->find("call"),
            "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\", "
            "\"days\": 3}}\n</tool_call>");
  EXPECT_NE(shown->find("calls")->if_string()->find("Rome"), std::string::npos);
  EXPECT_NE(shown->find("definition")->if_string()->find("name = \"hermes\""), std::string::npos);
}

TEST(Describe, ShowsADefinitionWithoutCalls) {
  const auto format = format::compile("name = 'text_only'\ncontent = { drop = ['<end>'] }", "t");
  ASSERT_TRUE(format) << format.error().message;
  const auto shown = describe(**format, "gbnf");
  ASSERT_TRUE(shown) << shown.error().message;
  EXPECT_NE(shown->find("definition")->if_string()->find("<end>"), std::string::npos);
  EXPECT_EQ(shown->find("call"), nullptr);
  EXPECT_EQ(shown->find("grammar"), nullptr);
}

TEST(Describe, KnowsNoOtherDialect) {
  const auto shown = describe(*format::find("hermes"), "yacc");
  ASSERT_FALSE(shown);
  EXPECT_EQ(shown.error().message, "to: must be one of gbnf, ebnf, lark, json-schema");
}

}  // namespace
}  // namespace tenon::batch
