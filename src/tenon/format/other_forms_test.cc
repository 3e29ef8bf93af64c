// Calls in other forms than the model's own, as the parser reads them and as the mask holds them:
// one language. What stands before a call decides whether it is one (lead.h), and the two agree on
// it.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/format/answers_for_test.h"
#include "tenon/format/asked.h"
#include "tenon/format/definition.h"
#include "tenon/format/fallbacks.h"
#include "tenon/format/format.h"
#include "tenon/format/lead.h"
#include "tenon/format/outcome_for_test.h"
#include "tenon/format/registry.h"
#include "tenon/format/stream_parser.h"
#include "tenon/json/value.h"
#include "tenon/regex/regex.h"
#include "tenon/schema/schema.h"

namespace tenon::format {
namespace {

using message::Tool;
using message::ToolCall;

std::vector<Tool> two_tools() {
  return {
      {.name = "weather",
       .parameters = *json::parse(
           R"({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "hours": {"type": "array", "items": {"type": "integer"}}}, "required": ["city"]})")},
      {.name = "now", .parameters = *json::parse(R"({"type": "object", "properties": {}})")}};
}

ParseOptions options_of(const std::vector<Tool>& tools) {
  ParseOptions options;
  for (const Tool& tool : tools) {
    options.tools.push_back(tool.name);
    options.schemas.push_back(tool.parameters);
  }
  return options;
}

std::shared_ptr<const Format> held(const Format& own) {
  return with_fallbacks(own, Fallbacks::all, AnswerMode::held);
}

// Formats whose answers masks hold with calls in other forms.
std::vector<std::shared_ptr<const Format>> held_formats() {
  std::vector<std::shared_ptr<const Format>> formats;
  for (const auto& own : all()) {
    if (own->syntaxes.empty() || own->reasoning_starts_open) continue;
    auto format = held(*own);
    if (format->has_gated) formats.push_back(std::move(format));
  }
  return formats;
}

Lead lead_of(std::string_view text) {
  Lead lead;
  lead.feed(text);
  return lead;
}

// The form begins with a marker of the format's own.
bool is_of_own(const Format& format, const Syntax& syntax) {
  return std::ranges::any_of(format.syntaxes, [&](const Syntax& own) {
    return own.rank == 0 && own.first.literals.shares(syntax.first.literals & format.strong);
  });
}

// The beginning of a call of the format's own stands in `text`.
bool has_own_call(const Format& format, std::string_view text) {
  return std::ranges::any_of(format.syntaxes, [&](const Syntax& own) {
    const Piece& first = (own.open.empty() ? own.call : own.open).front();
    return own.rank == 0 && !own.needs_tools && first.kind == Piece::Kind::literal &&
           text.find(first.text) != std::string_view::npos;
  });
}

// How many bytes of `text` a mask lets through.
std::size_t bytes_held(const Answers& answers, std::string_view text) {
  grammar::Matcher matcher = answers.matcher();
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!matcher.accept_bytes(text.substr(at, 1))) return at;
  }
  return text.size();
}

constexpr std::string_view kLeads[] = {"",
                                       "\n",
                                       "Let me check.\n\n",
                                       "I will call the tool:\n",
                                       "Sure. ",
                                       "For example:\n",
                                       "```sh\nls\n```\n",
                                       "Use `",
                                       "The set {a} is:\n",
                                       "say \"",
                                       "words "};

// Each form behind each lead: a call where the lead admits it, to the byte as it was written, and
// text to the byte where it does not; a mask agrees.
TEST(OtherForms, AreCallsWhereTheLeadAdmitsThem) {
  const std::vector<Tool> tools = two_tools();
  const ToolCall right{
      .id = "call00001", .name = "weather", .arguments = R"({"city": "Rome", "days": 3})"};
  std::size_t forms = 0;
  std::size_t calls = 0;
  std::size_t texts = 0;
  for (const char* const name : {"hermes", "mistral_v11", "llama3_json", "deepseek_v3"}) {
    const auto format = held(*find(name));
    ASSERT_TRUE(format->has_gated) << name;
    const Answers answers(*format, {}, false, true, tools);
    StreamParser parser(format, options_of(tools));
    for (const Syntax& syntax : format->syntaxes) {
      if (syntax.rank == 0) continue;
      ++forms;
      const std::string call = *render_calls_in(*format, syntax, {right}, {.tools = tools});
      for (const std::string_view lead : kLeads) {
        const std::string text = std::string(lead) + call;
        SCOPED_TRACE(std::string(name) + ": " + text);
        parser.reset();
        const Outcome outcome = outcome_of(events_of(parser, text, text.size()));
        // A marker of the format's own stands in no text.
        if (is_of_own(*format, syntax) && !lead_of(lead).admits(syntax.place)) continue;
        if (lead_of(lead).admits(syntax.place)) {
          ++calls;
          ASSERT_EQ(outcome.calls.size(), 1U);
          EXPECT_EQ(outcome.calls[0].first, right.name);
          EXPECT_EQ(*json::parse(outcome.calls[0].second), *json::parse(right.arguments));
          EXPECT_TRUE(answers.hold(text));
        } else if (outcome.calls.empty() && !has_own_call(*format, text)) {
          // Another form may read what is inside.
          ++texts;
          EXPECT_EQ(outcome.content, text);
          EXPECT_EQ(bytes_held(answers, text), text.size());
        }
      }
    }
  }
  EXPECT_GT(forms, 100U);
  EXPECT_GT(calls, 500U);
  EXPECT_GT(texts, 300U);
}

// Where a call must come the model chooses the form: any of them at the beginning, and no text
// before it or behind.
TEST(OtherForms, MayBeThatOfACallThatMustCome) {
  const std::vector<Tool> tools = two_tools();
  const ToolCall right{
      .id = "call00001", .name = "weather", .arguments = R"({"city": "Rome", "days": 3})"};
  std::size_t forms = 0;
  for (const char* const name : {"hermes", "mistral_v11", "llama3_json", "deepseek_v3"}) {
    const auto format = held(*find(name));
    const Answers answers(*format, {.mode = message::ToolMode::required}, false, true, tools);
    StreamParser parser(format, options_of(tools));
    for (const Syntax& syntax : format->syntaxes) {
      if (is_of_own(*format, syntax)) continue;
      ++forms;
      const std::string call = *render_calls_in(*format, syntax, {right}, {.tools = tools});
      SCOPED_TRACE(std::string(name) + ": " + call);
      EXPECT_TRUE(answers.hold(call));
      EXPECT_TRUE(answers.hold(call + "\n"));
      parser.reset();
      const std::string with_end = call + "\n";
      const Outcome outcome = outcome_of(events_of(parser, with_end, with_end.size()));
      EXPECT_EQ(outcome.calls.size(), 1U);
      EXPECT_EQ(outcome.content, "");
      EXPECT_FALSE(answers.hold("Sure: " + call));
      EXPECT_FALSE(answers.hold(call + "\nThat was it."));
    }
    struct Row {
      std::string_view text;
      bool is_held;
    };
    for (const auto& [text, is_held] : {
             Row{R"({"id": "a1", "name": "now", "arguments": {}})", true},
             Row{R"({"type": "function", "id": "a1", "name": "now", "arguments": {}})", true},
             Row{R"({"id": "a1", "type": "function", "name": "now", "arguments": {}})", true},
             Row{R"({"id": "a1", "id": "a2", "name": "now", "arguments": {}})", false},
             Row{R"({"id": "a1", "function": {"name": "now", "arguments": {}}})", true},
             Row{R"({"function": {"id": "a1", "name": "now", "arguments": {}}})", true},
             Row{R"({"id": "a1", "function": {"id": "a2", "name": "now", "arguments": {}}})",
                 false},
         }) {
      parser.reset();
      const Outcome outcome = outcome_of(events_of(parser, text, text.size()));
      EXPECT_EQ(answers.hold(text), is_held) << name << ": " << text;
      EXPECT_TRUE(!is_held || outcome.calls.size() == 1) << name << ": " << text;
    }
    EXPECT_FALSE(answers.hold("```json\n{\"name\": \"nobody\", \"arguments\": {}}\n```"));
    EXPECT_FALSE(answers.hold(""));
  }
  EXPECT_GT(forms, 50U);
}

// The format has it as one of its own that it does not write, which no mask offers.
bool borrows(const Format& format, const Syntax& syntax) {
  return std::ranges::any_of(format.syntaxes, [&](const Syntax& own) {
    return own.rank == 0 && &own != &format.syntaxes.front() &&
           own.first.literals.shares(syntax.first.literals & format.strong);
  });
}

// A call told of in words; some formats read it as one of their own, which they do not write.
TEST(OtherForms, CallsToldOfInWordsAreHeld) {
  const std::vector<Tool> tools = two_tools();
  for (const char* const name : {"hermes", "mistral_v11", "llama3_json", "qwen3_coder"}) {
    const auto format = held(*find(name));
    const Answers answers(*format, {}, false, true, tools);
    StreamParser parser(format, options_of(tools));
    for (const std::string lead : {"", "Let me see. "}) {
      const std::string text = lead + R"([Calling tool: weather({"city": "Rome"})])";
      SCOPED_TRACE(std::string(name) + ": " + text);
      EXPECT_TRUE(answers.hold(text));
      const Outcome outcome = outcome_of(events_of(parser, text, text.size()));
      parser.reset();
      EXPECT_EQ(outcome.calls, (Calls{{"weather", R"({"city": "Rome"})"}}));
      const std::string wrong = lead + R"([Calling tool: weather({"city": 7)";
      EXPECT_EQ(bytes_held(answers, wrong + "})]"), wrong.size() - 1);
    }
  }
}

// From where a call can be nothing else it is held: what its schema refuses does not come through.
TEST(OtherForms, SpoiltArgumentsAreRefusedWhereTheyAreWrong) {
  const std::vector<Tool> tools = two_tools();
  struct Spoilt {
    const char* arguments;
    const char* wrong;  // what begins with the byte that is refused
  };
  const Spoilt spoilt[] = {{R"({"city": 7})", "7"},
                           {R"({"days": 3})", "}"},
                           {R"({"city": "Rome", "days": true})", "true"},
                           {R"({"city": "Rome", "hours": ["x"]})", "\"x"}};
  std::size_t count = 0;
  std::size_t number = 0;
  for (const auto& format : held_formats()) {
    if (!is_long_test() && number++ % 8 != 0) continue;
    const Answers answers(*format, {}, false, true, tools);
    for (const Syntax& syntax : format->syntaxes) {
      const bool is_json = std::ranges::any_of(syntax.call, [](const Piece& piece) {
        return piece.kind == Piece::Kind::object || piece.kind == Piece::Kind::arguments;
      });
      if (syntax.rank == 0 || !is_json) continue;
      for (const Spoilt& each : spoilt) {
        const std::string text = *render_calls_in(
            *format, syntax, {{.id = "call00001", .name = "weather", .arguments = each.arguments}},
            {});
        const std::size_t begin = text.find(each.arguments);
        const std::size_t wrong = text.find(each.wrong, begin);
        if (borrows(*format, syntax)) continue;
        EXPECT_EQ(bytes_held(answers, text), wrong) << format->info.name << ": " << text;
        ++count;
      }
    }
  }
  EXPECT_GT(count, 400U);
}

// Random mixtures of all that forms consist of. What a mask lets through has no call that its
// schema refuses, in whatever way the parser reads it.
TEST(OtherForms, NoTextOfAMaskHasACallThatItDidNotHold) {
  const std::vector<Tool> tools = two_tools();
  const auto schema = *schema::Schema::compile(tools[0].parameters);
  const std::string_view kParts[] = {"```",
                                     "json",
                                     "python",
                                     "\n",
                                     "\n",
                                     " ",
                                     "{",
                                     "}",
                                     "[",
                                     "]",
                                     ",",
                                     ":",
                                     ". ",
                                     "word",
                                     "\"name\"",
                                     "\"weather\"",
                                     "\"now\"",
                                     "\"arguments\"",
                                     "\"parameters\"",
                                     "\"type\"",
                                     "\"function\"",
                                     "{\"city\": \"Rome\"}",
                                     "{\"city\": 7}",
                                     "{}",
                                     "{\"name\": \"weather\", \"arguments\": ",
                                     "{\"name\": \"now\", \"arguments\": {}}",
                                     "<tools>",
                                     "</tools>",
                                     "<json>",
                                     "</json>",
                                     "<function=weather>",
                                     "</function>",
                                     "weather(",
                                     "city=",
                                     "city=7)",
                                     "print(",
                                     ")",
                                     ")]",
                                     "[Calling tool: ",
                                     "<tool_call>",
                                     "</tool_call>",
                                     "{\"tool_calls\": [",
                                     "For example",
                                     "`",
                                     "\"id\": \"a1\", ",
                                     "<think>",
                                     "</think>",
                                     "{\"\\u006eame\": \"weather\", "};
  std::mt19937 dice(20261128);
  std::size_t accepted = 0;
  std::size_t calls = 0;
  for (const char* const name : {"hermes", "llama3_json", "mistral_v11", "generic_xml"}) {
    const auto format = held(*find(name));
    const Answers answers(*format, {}, false, true, tools);
    StreamParser parser(format, options_of(tools));
    for (int i = 0; i < (is_long_test() ? 20'000 : 1'500); ++i) {
      std::string text;
      for (std::size_t n = 1 + dice() % 14; n > 0; --n) text += kParts[dice() % std::size(kParts)];
      // As much of it as a mask lets through: that is what a model could have written.
      text.resize(bytes_held(answers, text));
      ++accepted;
      parser.reset();
      const Outcome outcome = outcome_of(events_of(parser, text, text.size() + 1, true));
      for (std::size_t c = 0; c < outcome.calls.size(); ++c) {
        ++calls;
        if (outcome.incomplete[c] || outcome.calls[c].first != "weather") continue;
        const auto value = json::parse(outcome.calls[c].second);
        ASSERT_TRUE(value) << name << ": " << text;
        EXPECT_TRUE(*schema->is_valid(*value)) << name << ": " << text;
      }
      if (!answers.hold(text)) continue;
      EXPECT_EQ(std::ranges::count(outcome.incomplete, true), 0) << name << ": " << text;
    }
  }
  EXPECT_GT(accepted, 1'000U);
  EXPECT_GT(calls, 100U);
}

// The parser's side of the lead and the grammar's say the same of every text.
TEST(Lead, IsItsPattern) {
  const std::string_view kParts[] = {"a",    " ",
                                     "\n",   "\t",
                                     "\r",   ".",
                                     ":",    "!",
                                     "?",    "`",
                                     "\"",   "'",
                                     "{",    "}",
                                     ",",    ";",
                                     "```",  "example",
                                     "ex",   "ample",
                                     "E.g.", "such as",
                                     "：",   "。",
                                     "é",    "For instance",
                                     "-",    "* ",
                                     ".com", "s"};
  std::mt19937 dice(7);
  std::size_t admitted = 0;
  const auto unquoted = regex::Regex::compile("^" + std::string(Lead::unquoted()) + "$");
  ASSERT_TRUE(unquoted);
  for (const Lead::Place place :
       {Lead::Place::first, Lead::Place::anywhere, Lead::Place::line, Lead::Place::sentence}) {
    const auto pattern =
        regex::Regex::compile("^(?:" + std::string(Lead::pattern_of(place)) + ")$");
    ASSERT_TRUE(pattern) << pattern.error().message;
    for (int i = 0; i < 3'000; ++i) {
      std::string text;
      for (std::size_t n = dice() % 8; n > 0; --n) text += kParts[dice() % std::size(kParts)];
      const bool has_stop = std::ranges::any_of(Lead::stops(), [&](const std::string& stop) {
        return text.find(stop) != std::string::npos;
      });
      const bool fits =
          *(*pattern)->contains_match(text) && *(*unquoted)->contains_match(text) && !has_stop;
      EXPECT_EQ(lead_of(text).admits(place), fits) << static_cast<int>(place) << ": " << text;
      admitted += fits;
    }
  }
  EXPECT_GT(admitted, 500U);
}

TEST(AskedFor, ByWhatTheUserSays) {
  constexpr Asked kCalls = Asked::for_calls;
  constexpr Asked kTools = Asked::of_tools;
  constexpr Asked kShow = Asked::to_show_calls;
  struct Row {
    std::string_view request;
    Asked asked;
  };
  const Row rows[] = {
      {"What's the weather in Paris?", kCalls},
      {"Mail bob@example.com that I'm late, please.", kCalls},
      {"Fetch the income statement in JSON format.", kCalls},
      {"Show me the JSON that you would send to call get_weather.", kShow},
      {"Don't call anything. What would you do?", kShow},
      {"Generate a payload for calling the weather.", kShow},
      {"Don't call it, just write it down.", kShow},
      {"Give me an example of a tool call.", kShow},
      {"How does get_weather work?", kTools},
      {"How does the weather work?", kCalls},
      {"How do I call get_weather?", kShow},
      {"Write a unit test for get_weather.", kShow},
      {"The unit test of get_weather fails.", kTools},
      {"Write a test. Then get the weather.", kCalls},
      {"Which tools do you have?", kShow},
      {"What format do you write function calls in?", kShow},
      {"Explain photosynthesis.", kCalls},
      {"Show me how a call of get_weather looks.", kShow},
      {"What is the format of a weather call?", kShow},
      {"Don't run anything, just show the JSON you would use for Paris.", kShow},
      {"Don't run the tests, get the weather.", kCalls},
      {"Gib mir ein Beispiel für get_weather.", kShow},
      {"给我一个 get_weather 的示例", kShow},
      {"Покажи пример get_weather", kShow},
      {"Was ist das Wetter in Rom?", kCalls},
      {"What are your functions?", kShow},
      {"What are your plans? Use the weather tool.", kCalls},
      {"Write a system prompt for a weather agent.", kShow},
      {"Describe the API of this module.", kShow},
      {"Search the web for tool calling benchmarks.", kTools},
      {"Describe the weather in Rome.", kCalls},
      {"Use get_weather for the script that I write.", kTools},
      {"Use get_weather and put it into docs/guide.md.", kCalls},
      {"Use get_weather for example.com.", kCalls},
      {"Show an example: get_weather.", kShow},
      {"", kCalls},
  };
  const std::vector<std::string> tools = {"get_weather", "weather"};
  for (const Row& row : rows) {
    EXPECT_EQ(asked_for(row.request, tools), row.asked) << row.request;
  }
}

// Asked for a program or a document, an answer that is nothing but a call is one, and a call behind
// words is not.
TEST(OtherForms, CountOnlyFirstIfTheUserMayWantText) {
  const std::string call =
      "```json\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n```";
  const std::string bare = R"({"name": "weather", "arguments": {"city": "Rome"}})";
  const std::vector<Tool> tools = two_tools();
  struct Row {
    std::string text;
    std::size_t calls;
  };
  const Row rows[] = {
      {call, 1},
      {"\n " + bare, 1},
      {bare + "\n" + bare, 2},
      {"<tools>" + bare + "</tools>", 1},
      {"Here it is:\n" + call, 0},
      {"Here it is: " + bare, 0},
      {"Here it is: <tools>" + bare + "</tools>", 0},
      {"Here it is:\n<tool_call>\n" + bare + "\n</tool_call>", 1},  // the model's own form
  };
  const auto own = find("hermes");
  const auto held_format = held(*own);
  const Answers answers(*held_format, {}, false, true, tools, {}, /*others_first=*/true);
  ParseOptions options = options_of(tools);
  options.others_first = true;
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text);
    EXPECT_TRUE(answers.hold(row.text));
    for (const auto& format : {with_fallbacks(*own), held_format}) {
      StreamParser parser(format, options);
      EXPECT_EQ(outcome_of(events_of(parser, row.text, 1)).calls.size(), row.calls);
    }
  }
  // At the beginning a call is held to its schema, behind words it is text.
  const std::string spoilt = R"({"name": "weather", "arguments": {"city": 7}})";
  EXPECT_FALSE(answers.hold(spoilt));
  EXPECT_TRUE(answers.hold("Like this: " + spoilt));
}

// Answers that are calls and answers that are not. Two hands wrote two halves each, of which one
// was not looked at while the rules were made. The third and the fourth batch came later. The
// rules follow some of what they found, and for the rest the test only keeps them from getting
// worse; their first readings are in docs/formats-evidence.md.
struct Score {
  double right = 0;
  double wrong = 0;
  double missed = 0;
};

TEST(OtherForms, LabelledAnswersAreReadRight) {
  std::ifstream file(TENON_SOURCE_DIR "/tests/samples/other_forms.jsonl");
  ASSERT_TRUE(file);
  std::map<std::string, std::vector<Tool>> tools;
  std::map<std::pair<std::string, std::string>, Score> scores;  // by half and way
  std::map<std::pair<std::string, bool>, std::shared_ptr<const Answers>> masks;
  const auto own = find("hermes");
  const auto free_format = with_fallbacks(*own);
  const auto held_format = held(*own);
  std::size_t count = 0;
  for (std::string line; std::getline(file, line);) {
    const json::Value row = *json::parse(line);
    const auto text_of = [&row](const char* key) { return *row.find(key)->if_string(); };
    const std::string set = text_of("tools");
    if (const json::Value* const defined = row.find("define")) {
      for (const json::Value& one : *defined->if_array()) {
        tools[set].push_back(
            {.name = *one.find("name")->if_string(), .parameters = *one.find("parameters")});
      }
      continue;
    }
    ++count;
    ParseOptions options = options_of(tools[set]);
    const Asked asked = asked_for(text_of("request"), options.tools);
    const bool is_about = asked == Asked::to_show_calls;
    options.others_first = asked == Asked::of_tools;
    auto& mask = masks[{set, options.others_first}];
    if (mask == nullptr) {
      mask = std::make_shared<Answers>(*held_format, message::ToolChoice{}, false, true, tools[set],
                                       std::string(), options.others_first);
    }
    Calls wanted;
    for (const json::Value& call : *row.find("calls")->if_array()) {
      wanted.emplace_back(*call.find("name")->if_string(),
                          json::to_string(*call.find("arguments")));
    }
    const std::string text = text_of("text");
    for (const bool is_held : {false, true}) {
      StreamParser parser(is_about ? own : is_held ? held_format : free_format, options);
      Calls found;
      for (const auto& [name, arguments] :
           outcome_of(events_of(parser, text, text.size() + 1)).calls) {
        const auto value = json::parse(arguments);
        found.emplace_back(name, value ? json::to_string(*value) : arguments);
      }
      const bool is_seen = text_of("half") != "third" && text_of("half") != "fourth";
      Score& score = scores[{text_of("half"), is_held ? "masked" : "free"}];
      const bool is_right = found == wanted;
      if (is_right && !wanted.empty()) ++score.right;
      if (!is_right && !found.empty()) ++score.wrong;
      if (!is_right && !wanted.empty()) ++score.missed;
      if (!is_right && text_of("half").ends_with("dev")) {
        ADD_FAILURE() << (is_held ? "masked: " : "free: ") << text_of("id") << ": " << text;
      }
      // Text goes through the mask as it is.
      if (is_held && is_seen && wanted.empty() && !is_about) {
        EXPECT_EQ(bytes_held(*mask, text), text.size()) << text_of("id") << ": " << text;
      }
    }
  }
  EXPECT_GE(count, 300U);
  struct Floor {
    double precision;
    double recall;
  };
  const std::map<std::string, Floor> floors = {{"third", {.precision = 0.67, .recall = 0.89}},
                                               {"fourth", {.precision = 0.95, .recall = 0.98}}};
  constexpr Floor kSeen{.precision = 0.995, .recall = 0.99};
  std::map<std::pair<std::string, std::string>, Score> totals;  // by batch and way
  for (const auto& [key, score] : scores) {
    std::cout << key.first << ", " << key.second << ": " << score.right << " right, " << score.wrong
              << " wrong, " << score.missed << " missed\n";
    Score& total = totals[{floors.contains(key.first) ? key.first : "seen", key.second}];
    total.right += score.right;
    total.wrong += score.wrong;
    total.missed += score.missed;
  }
  for (const auto& [key, total] : totals) {
    const auto floor = floors.find(key.first);
    const auto [precision, recall] = floor == floors.end() ? kSeen : floor->second;
    EXPECT_GE(total.right / (total.right + total.wrong), precision) << key.first << key.second;
    EXPECT_GE(total.right / (total.right + total.missed), recall) << key.first << key.second;
  }
}

}  // namespace
}  // namespace tenon::format
