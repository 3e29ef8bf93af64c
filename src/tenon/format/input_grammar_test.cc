#include "tenon/format/input_grammar.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/format/answers_for_test.h"
#include "tenon/format/definition.h"
#include "tenon/format/outcome_for_test.h"
#include "tenon/format/registry.h"
#include "tenon/format/tool_grammar.h"

namespace tenon::format {
namespace {

using message::TextGrammar;
using message::Tool;
using message::ToolMode;

struct InputGrammarRow {
  const char* name;
  std::optional<TextGrammar> grammar;
  std::vector<std::string> yes;
  std::vector<std::string> no;
};

TextGrammar lark(std::string definition) {
  return {TextGrammar::Syntax::lark, std::move(definition)};
}
TextGrammar regex(std::string definition) {
  return {TextGrammar::Syntax::regex, std::move(definition)};
}

std::vector<InputGrammarRow> rows() {
  return {
      {"Text", std::nullopt, {"", "a \"b\" \\ ä", "x < 3 && y > \"2\""}, {}},
      {"Regex",
       regex(R"(^(?P<day>\d{1,2})\.\s?(?:March|"May")$)"),
       {"1. March", "31.\"May\"", "7.\tMarch"},
       {"", "1 March", "131. March", "1. March "}},
      {"NoMatchOfAPart", regex("b+"), {"b", "bbb"}, {"ab", "ba", ""}},
      {"Lines", regex(R"([a-z]+(\n[a-z\\]+)*)"), {"a", "a\nb\\\nc"}, {"a\n", "A"}},
      {"Lark",
       lark("start: \"say \" WORD (\", \" WORD)*\nWORD: /[a-z<>\"]+/"),
       {"say a", "say <b>, \"c\""},
       {"say", "say a,b", "say A"}},
      {"Operators",
       lark("start: N (OP N)*\nN: /[0-9]+/\nOP: \"<\" | \"</\" | \">=\"\n%ignore \" \""),
       {"1 < 2", "1 </ 2>=3"},
       {"1 <", "< 1", "1 > 2"}},
      {"Nested",
       lark(R"x(start: "(" start ")" | start "\\" start | "<" "/"? W ">" | W | "\"" /[^"]*/ "\""
W: /[a-z]+/)x"),
       {"a", "((\"\n\"))", "(\"<b>\"\\(c))\\</d>"},
       {"", "(a", "\"a", "a\\", "<a"}},
  };
}

std::string rendered(const Format& format, const std::string& name, const std::string& input) {
  const auto text = render_calls(
      format, {{.id = "call00001", .name = name, .arguments = message::arguments_of(input)}});
  EXPECT_TRUE(text) << format.info.name;
  return *text;
}

// The input of the one call that the parser finds.
std::string input_in(const std::shared_ptr<const Format>& format, const std::string& text,
                     const std::vector<Tool>& tools) {
  ParseOptions options;
  for (const Tool& tool : tools) {
    options.tools.push_back(tool.name);
    options.schemas.push_back(tool.parameters);
  }
  StreamParser parser(format, options);
  const Outcome outcome = outcome_of(events_of(parser, text, text.size()));
  if (outcome.calls.size() != 1) return "no call in " + text;
  const auto arguments = json::parse(outcome.calls[0].second);
  const json::Value* const input = arguments ? arguments->find("input") : nullptr;
  return input != nullptr && input->if_string() != nullptr ? *input->if_string() : "no input";
}

// In JSON, Python and raw text, with markers as tokens and as text.
TEST(InputGrammar, EveryFormatHoldsTheTextToTheGrammar) {
  std::vector<Tool> tools;
  for (const InputGrammarRow& row : rows())
    tools.push_back(message::custom_tool(row.name, "", row.grammar));
  Sample sample(2);  // each format in one of the two ways
  for (const auto& format : all()) {
    if (format->syntaxes.empty()) continue;
    SCOPED_TRACE(format->info.name);
    for (const bool has_controls : {true, false}) {
      if (!sample.takes_next()) continue;
      const Answers answers(*format, {.mode = ToolMode::required}, has_controls, true, tools);
      for (const InputGrammarRow& row : rows()) {
        SCOPED_TRACE(row.name);
        for (const std::string& input : row.yes) {
          const std::string text = rendered(*format, row.name, input);
          EXPECT_TRUE(answers.hold(text)) << text;
          if (has_controls) continue;
          EXPECT_EQ(input_in(format, text, tools), input) << text;
        }
        for (const std::string& input : row.no) {
          const std::string text = rendered(*format, row.name, input);
          EXPECT_FALSE(answers.hold(text)) << text;
        }
      }
    }
  }
}

TEST(InputGrammar, NamesThePlaceOfWhatIsWrong) {
  const struct {
    const char* name;
    TextGrammar grammar;
    Errc code;
    const char* message;
  } wrong[] = {
      {"LarkUndefined", lark("start: \"a\"\n  | other"), Errc::invalid,
       "line 2, column 5: 'other' is not defined; add `other: ...`, or import it"},
      {"LarkSchema", lark("start: %json {}"), Errc::unsupported,
       "%json cannot be part of a text's grammar"},
      {"LarkToken", lark("start: <|end|>"), Errc::unsupported,
       "a token cannot be part of a text's grammar"},
      {"RegexOpen", regex("(a"), Errc::invalid, "pattern: a group is not closed at byte 2"},
      {"RegexBackReference", regex(R"((a)\1)"), Errc::unsupported,
       "pattern: a back reference at byte 4"},
  };
  for (const auto& row : wrong) {
    SCOPED_TRACE(row.name);
    const auto rules = read_input_grammar(row.grammar);
    ASSERT_FALSE(rules);
    EXPECT_EQ(rules.error().code, row.code);
    EXPECT_EQ(rules.error().message, row.message);
  }
}

}  // namespace
}  // namespace tenon::format
