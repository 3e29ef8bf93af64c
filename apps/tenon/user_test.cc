#include "user.h"

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

// Gives these lines, and then the end of the input.
ReadLine lines_of(std::deque<std::string> lines) {
  return [lines = std::move(lines)](std::string_view, std::string& line) mutable {
    if (lines.empty()) return false;
    line = lines.front();
    lines.pop_front();
    return true;
  };
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
    const auto answer =
        ask_user("pizza", form(member(row.schema)), lines_of({"y", std::string(row.line)}));
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
      {R"({"type": "integer", "minimum": 1, "maximum": 5, "description": "how many"})",
       "  x (how many; 1 to 5): "},
      {R"({"type": "number", "minimum": 0.5})", "  x (at least 0.5): "},
      {R"({"type": "string", "maxLength": 9})", "  x (at most 9 characters): "},
      {R"({"type": "string", "format": "date"})", "  x (a date like 2026-01-31): "},
      {R"({"type": "string", "format": "uuid"})", "  x (uuid): "},
      {R"({"type": "array", "minItems": 1, "maxItems": 2, "items": {"enum": ["a", "b"]}})",
       "  x (a, b, several with commas between them; 1 to 2 of them): "},
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
  const auto answer = ask_user("pizza", form(member(kToppings)), lines_of({"y", "Ham, t1"}));
  ASSERT_TRUE(answer);
  EXPECT_EQ(json::to_string(*answer->find("x")), R"(["t2","t1"])");
}

TEST(AskUser, AsksForAMemberUntilItFits) {
  struct AgainRow {
    std::string_view name;
    std::string_view schema;        // of the member x, which is required
    std::deque<std::string> lines;  // for x
    std::string_view value;         // "": no answer, since the input has ended
  };
  const AgainRow rows[] = {
      {"Limit", R"({"type": "integer", "minimum": 1, "maximum": 5})", {"9", "many", "5"}, "5"},
      {"Length", R"({"type": "string", "minLength": 2})", {"a", "ab"}, R"("ab")"},
      {"Choice", kSize, {"l", "m"}, R"("m")"},
      {"Boolean", R"({"type": "boolean"})", {"perhaps", "yes"}, "true"},
      {"Required", R"({"type": "string"})", {"", "a"}, R"("a")"},
      {"Email",
       R"({"type": "string", "format": "email"})",
       {"ada", "a@b.example"},
       R"("a@b.example")"},
      {"Uri", R"({"type": "string", "format": "uri"})", {"no uri", "urn:a"}, R"("urn:a")"},
      {"Date",
       R"({"type": "string", "format": "date"})",
       {"2026-02-30", "2026-02-28"},
       R"("2026-02-28")"},
      {"DateTime",
       R"({"type": "string", "format": "date-time"})",
       {"2026-02-28", "2026-02-28T01:02:03Z"},
       R"("2026-02-28T01:02:03Z")"},
      {"FormatThatIsNotKnown", R"({"type": "string", "format": "shoe"})", {"42"}, R"("42")"},
      {"FaultyDefault", R"({"type": "integer", "default": "a"})", {"", "1"}, "1"},
      {"EndOfInput", R"({"type": "integer"})", {"a"}, ""},
  };
  for (const AgainRow& row : rows) {
    std::deque<std::string> lines = row.lines;
    lines.push_front("y");
    const auto answer =
        ask_user("pizza", form(member(row.schema), R"("required": ["x"], )"), lines_of(lines));
    EXPECT_EQ(answer ? json::to_string(*answer->find("x")) : "", row.value) << row.name;
  }
}

TEST(AskUser, MayHaveARuleForTheWholeForm) {
  const json::Value asked = form(member(R"({"type": "string"})"), R"("minProperties": 1, )");
  const auto answer = ask_user("pizza", asked, lines_of({"yes", "", "y", "a"}));
  ASSERT_TRUE(answer);
  EXPECT_EQ(json::to_string(*answer), R"({"x":"a"})");
  EXPECT_FALSE(ask_user("pizza", asked, lines_of({"y", "", "y", "", "y", "", "y", "a"})));
}

TEST(AddressesIn, AnAddressEndsBeforePunctuation) {
  struct AddressRow {
    std::string_view line;
    std::vector<std::string> addresses;
  };
  const AddressRow rows[] = {
      {"See @a:b", {"a:b"}},
      {"@a:b.txt. And\t@c:d, then @e:f?", {"a:b.txt", "c:d", "e:f"}},
      {"(@a:b) [@a:c] \"@a:d\", '@a:e'! `@a:f`; (\"@a:g\").",
       {"a:b", "a:c", "a:d", "a:e", "a:f", "a:g"}},
      {"@a:x://h/p?q=1#f/ @a::", {"a:x://h/p?q=1#f/", "a"}},
      {"me@a:b @ @. () \"", {}},
      {"", {}},
  };
  for (const AddressRow& row : rows) EXPECT_EQ(addresses_in(row.line), row.addresses) << row.line;
}

TEST(AskWord, AsksUntilAWordIsWritten) {
  struct WordRow {
    std::deque<std::string> lines;
    std::string_view word;
  };
  const WordRow rows[] = {
      {{"y"}, "yes"},
      {{"yes"}, "yes"},
      {{"n"}, "no"},
      {{"a"}, "always"},
      {{"", "Y es", "x", "always"}, "always"},
      {{"abort"}, ""},
      {{}, ""},
  };
  for (const WordRow& row : rows) {
    EXPECT_EQ(ask_word("go?", {"yes", "no", "always"}, lines_of(row.lines)), row.word);
  }
  std::string shown;
  (void)ask_word("go?", {"yes", "no", "always"}, [&shown](std::string_view prompt, std::string&) {
    shown = prompt;
    return false;
  });
  EXPECT_EQ(shown, "go? [y]es, [n]o, [a]lways: ");
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
      {R"({"x": "ada"})", R"({"x": {"type": "string", "format": "email"}})", "", "!/x is \"ada\""},
      {R"({"x": "2026-01-31"})", R"({"x": {"type": "string", "format": "date"}})", "",
       R"({"x":"2026-01-31"})"},
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
