#include "tenon/json/members.h"

#include <string_view>

#include <gtest/gtest.h>

namespace tenon::json {
namespace {

TEST(Members, AreReadOrTakenForNothing) {
  const struct {
    std::string_view value;
    std::string_view text;
    std::int64_t number;
    bool flag;
  } rows[] = {{R"({"a": "x"})", "x", 0, false},
              {R"({"a": 7})", "", 7, false},
              {R"({"a": 7.5})", "", 0, false},
              {R"({"a": true})", "", 0, true},
              {R"({"a": null})", "", 0, false},
              {"{}", "", 0, false},
              {"[1]", "", 0, false},
              {R"({"b": "x"})", "", 0, false}};
  for (const auto& row : rows) {
    const Value value = *parse(row.value);
    EXPECT_EQ(text_in(value, "a"), row.text) << row.value;
    EXPECT_EQ(number_in(value, "a"), row.number) << row.value;
    EXPECT_EQ(flag_in(value, "a"), row.flag) << row.value;
    if (value.if_object() == nullptr) continue;
    EXPECT_EQ(text_in(*value.if_object(), "a"), row.text) << row.value;
  }
}

}  // namespace
}  // namespace tenon::json
