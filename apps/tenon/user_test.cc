#include "user.h"

#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::app {
namespace {

json::Value form(std::string_view properties, std::string_view more = "") {
  return *json::parse(R"({"message": "Which?", "requestedSchema": {"type": "object", )" +
                      std::string(more) + R"("properties": )" + std::string(properties) + "}}");
}

constexpr std::string_view kSize =
    R"({"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Medium"]})";
constexpr std::string_view kColour =
    R"({"type": "string", "oneOf": [{"const": "#f00", "title": "Red"}, {"const": "#0f0"}]})";
constexpr std::string_view kToppings =
    R"({"type": "array", "items": {"anyOf": [{"const": "t1", "title": "Cheese"},
                                             {"const": "t2", "title": "Ham"}]}})";
constexpr std::string_view kSwapped =
    R"({"type": "string", "enum": ["a", "b"], "enumNames": ["b", "a"]})";

std::string member(std::string_view schema) {
  return R"({"x": )" + std::string(schema) + "}";
}

struct FormRow {
  std::string_view name;
  std::string_view schema;  // of the member x
  std::string_view line;    // what the user writes, or gives as a text
  std::string_view value;   // of x in the answer, as JSON
};

const FormRow kFormChoices[] = {
    {"EnumByValue", kSize, "m", R"("m")"},
    {"EnumByTitle", kSize, "Medium", R"("m")"},
    {"ConstByValue", kColour, "#f00", R"("#f00")"},
    {"ConstByTitle", kColour, "Red", R"("#f00")"},
    {"ConstWithoutTitle", kColour, "#0f0", R"("#0f0")"},
    {"ValuesGoBeforeTitles", kSwapped, "a", R"("a")"},
    {"NumbersByTitle", R"({"type": "integer", "enum": [1, 2], "enumNames": ["One", "Two"]})", "Two",
     "2"},
};

TEST(AskUser, TakesValuesAndTitlesOfChoices) {
  for (const FormRow& row : kFormChoices) {
    std::deque<std::string> lines = {"y", std::string(row.line)};
    const auto answer =
        ask_user("pizza", form(member(row.schema)), [&](std::string_view, std::string& line) {
          if (lines.empty()) return false;
          line = lines.front();
          lines.pop_front();
          return true;
        });
    ASSERT_TRUE(answer) << row.name;
    EXPECT_EQ(json::to_string(*answer->find("x")), row.value) << row.name;
  }
}

TEST(AskUser, ShowsTheTitlesOfChoices) {
  struct Shown {
    std::string_view schema;
    std::string_view prompt;
  };
  const Shown rows[] = {
      {kSize, "  x (s = Small, m = Medium): "},
      {kColour, "  x (#f00 = Red, #0f0): "},
      {kToppings, "  x (t1 = Cheese, t2 = Ham, several with commas between them): "},
      {R"({"type": "string", "enum": ["a", "b"], "enumNames": ["a"], "default": "b"})",
       "  x (a, b) [b]: "},
  };
  for (const Shown& row : rows) {
    std::string prompts;
    (void)ask_user("pizza", form(member(row.schema)),
                   [&](std::string_view prompt, std::string& line) {
                     const bool is_first = prompts.empty();
                     prompts += prompt;
                     line = "y";
                     return is_first;
                   });
    EXPECT_EQ(prompts.substr(prompts.find("  x")), row.prompt);
  }
}

TEST(AskUser, TakesSeveralTitles) {
  std::deque<std::string> lines = {"y", "Ham, t1"};
  const auto answer =
      ask_user("pizza", form(member(kToppings)), [&](std::string_view, std::string& line) {
        line = lines.front();
        lines.pop_front();
        return true;
      });
  ASSERT_TRUE(answer);
  EXPECT_EQ(json::to_string(*answer->find("x")), R"(["t2","t1"])");
}

TEST(AnswerForm, TakesValuesAndTitlesOfChoices) {
  for (const FormRow& row : kFormChoices) {
    const auto answer =
        answer_form({{"x", json::Value(row.line)}, {"other", 1}}, form(member(row.schema)));
    if (!answer) {
      ADD_FAILURE() << row.name << ": " << answer.error().message;
      continue;
    }
    EXPECT_EQ(json::to_string(*answer), R"({"x":)" + std::string(row.value) + "}") << row.name;
  }
}

TEST(AnswerForm, IsCheckedByTheSchema) {
  struct AnswerRow {
    std::string_view given;
    std::string_view properties;
    std::string_view more;
    std::string_view answer;  // or what is told behind a '!'
  };
  const AnswerRow rows[] = {
      {R"({})", R"({"n": {"type": "integer", "default": 2}})", "", R"({"n":2})"},
      {R"({"n": 3})", R"({"n": {"type": "integer", "default": 2}})", "", R"({"n":3})"},
      {R"({"n": "x"})", R"({"n": {"type": "integer"}})", "", "!/n is a string"},
      {R"({"x": "l"})", R"({"x": {"enum": ["s", "m"]}})", "", "!/x is \"l\""},
      {R"({"x": ["Ham", "Tofu"]})", R"({"x": {"type": "array", "items": {"enum": ["Ham"]}}})", "",
       "!/x/1 is \"Tofu\""},
      {R"({"x": "l"})", R"({"x": {"oneOf": [{"const": "s", "title": "Small"}, {"const": "m"}]}})",
       "", "!/x is \"l\", must be one of s = Small, m"},
      {R"({"x": "zz", "n": "q"})",
       R"({"x": {"anyOf": [{"const": "a"}, {"type": "string"}]}, "n": {"type": "integer"}})", "",
       "!/n is a string"},
      {R"({})", R"({"name": {"type": "string"}})", R"("required": ["name"], )",
       "!the value has no member \"name\""},
      {R"({"a": 1})", "{}", "", "{}"},
  };
  for (const AnswerRow& row : rows) {
    const auto answer =
        answer_form(*json::parse(row.given)->if_object(), form(row.properties, row.more));
    const std::string told = answer ? json::to_string(*answer) : "!" + answer.error().message;
    EXPECT_EQ(told.substr(0, row.answer.size()), row.answer);
  }
  EXPECT_EQ(json::to_string(*answer_form({{"a", 1}}, json::Object{{"message", "Well?"}})), "{}");
}

}  // namespace
}  // namespace tenon::app
