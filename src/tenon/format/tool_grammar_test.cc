#include "tenon/format/tool_grammar.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/format/answers_for_test.h"
#include "tenon/format/definition.h"
#include "tenon/format/outcome_for_test.h"
#include "tenon/format/registry.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/vocab/byte_tokenizer.h"
#include "tenon/vocab/vocab.h"

namespace tenon::format {
namespace {

using message::Tool;
using message::ToolCall;
using message::ToolChoice;
using message::ToolMode;

constexpr std::string_view kWeather = R"({
  "type": "object",
  "properties": {
    "city": {"type": "string"},
    "days": {"type": "integer", "minimum": 1, "maximum": 9},
    "unit": {"enum": ["C", "F"], "type": "string"},
    "wind": {"type": "boolean"},
    "hours": {"type": "array", "items": {"type": "integer"}},
    "at": {"type": "object", "properties": {"lat": {"type": "number"}, "is_sea": {"type": "boolean"}},
           "required": ["lat"]}
  },
  "required": ["city"]
})";

std::vector<Tool> all_tools() {
  return {{.name = "weather", .parameters = *json::parse(kWeather)},
          {.name = "now"},
          {.name = "weather_map", .parameters = *json::parse(R"({"type": "object"})")}};
}

// Those that have a way to write calls; another test registers one that has none.
std::vector<std::shared_ptr<const Format>> all_writable() {
  auto formats = all();
  std::erase_if(formats, [](const auto& format) { return format->syntaxes.empty(); });
  return formats;
}

std::string rendered(const Format& format,
                     const std::vector<std::pair<std::string, std::string>>& calls) {
  std::vector<ToolCall> list;
  list.reserve(calls.size());
  for (const auto& [name, arguments] : calls) {
    list.push_back({.id = "call00001", .name = name, .arguments = arguments});
  }
  const auto text = render_calls(format, list);
  EXPECT_TRUE(text) << format.info.name;
  return *text;
}

bool has_bit(const std::vector<std::uint32_t>& mask, vocab::TokenId token) {
  const auto id = static_cast<std::uint32_t>(token);
  return (mask[id / 32] >> id % 32 & 1U) != 0;
}

// Inside a call the next token does not end the turn, except for a marker that ends both the call
// and the turn.
TEST(ToolGrammar, NoTurnEndsInsideACall) {
  ParseOptions options;
  for (const Tool& tool : all_tools()) {
    options.tools.push_back(tool.name);
    options.schemas.push_back(tool.parameters);
  }
  std::size_t with_stops = 0;
  for (const auto& format : all_writable()) {
    SCOPED_TRACE(format->info.name);
    const Answers answers(*format, {.mode = ToolMode::required}, true, true, all_tools());
    const vocab::Tokenizer& tokenizer = answers.tokenizer();
    std::vector<vocab::TokenId> ends = ends_of(*format, tokenizer);
    if (!ends.empty()) ++with_stops;
    ends.push_back(*tokenizer.eos());
    const std::string text =
        rendered(*format, {{"weather", R"({"city": "a <b> </s>", "days": 3})"}});
    std::vector<vocab::TokenId> ids;
    ASSERT_TRUE(tokenizer.encode(text, vocab::Controls::on, true, ids));
    grammar::Matcher matcher = answers.matcher();
    std::vector<std::uint32_t> mask(grammar::mask_words(tokenizer.size()));
    std::string so_far;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ASSERT_TRUE(matcher.fill_mask(mask)) << so_far;
      for (const vocab::TokenId end : ends) {
        const bool is_of_call = end == ids[i] && i + 1 == ids.size();
        EXPECT_EQ(has_bit(mask, end), matcher.is_accepting() || is_of_call)
            << tokenizer.bytes(end) << " behind " << so_far;
      }
      if (matcher.is_accepting()) {
        StreamParser parser(format, options);
        EXPECT_EQ(outcome_of(events_of(parser, so_far, so_far.size())).incomplete,
                  std::vector<bool>{false})
            << so_far;
      }
      ASSERT_TRUE(matcher.accept(ids[i])) << so_far;
      so_far += tokenizer.bytes(ids[i]);
    }
    EXPECT_TRUE(matcher.is_accepting());
  }
  EXPECT_GT(with_stops, 5U);
}

// The grammar allows what the renderer writes, for every format and with its markers as tokens and
// as text. It does not allow what the schemas refuse.
TEST(ToolGrammar, EveryFormatTakesRightCallsOnly) {
  const std::pair<std::string, std::string> rights[] = {
      {"weather", R"({"city": "Rome"})"},
      {"weather", R"({"city": "a \"b\" ä", "days": 3, "unit": "F", "wind": true})"},
      {"weather", R"({"city": "", "hours": [1, 2], "at": {"lat": 1.5, "is_sea": false}})"},
      {"weather", R"({"city": "Rome", "hours": [], "at": {"lat": -1}})"},
      {"weather", R"({"at": {"is_sea": true, "lat": 0}, "city": "Rome"})"},
      {"now", "{}"},
      {"weather_map", R"({"x": 1, "y": "b"})"},
  };
  const std::pair<std::string, std::string> wrongs[] = {
      {"forecast", R"({"city": "Rome"})"},                 // no such tool
      {"weather", R"({"days": 3})"},                       // no city
      {"weather", R"({"city": "Rome", "days": 10})"},      // too many
      {"weather", R"({"city": "Rome", "days": "soon"})"},  // no number
      {"weather", R"({"city": "Rome", "unit": "K"})"},     // not listed
      {"weather", R"({"city": "Rome", "wind": "much"})"},
      {"weather", R"({"city": "Rome", "hours": ["x"]})"},
      {"weather", R"({"city": "Rome", "at": {"is_sea": true}})"},
  };
  for (const auto& format : all_writable()) {
    for (const bool has_controls : {true, false}) {
      const Answers answers(*format, {.mode = ToolMode::required}, has_controls, true, all_tools());
      const std::string label = format->info.name + (has_controls ? " with tokens: " : ": ");
      for (const auto& call : rights) {
        const std::string text = rendered(*format, {call});
        EXPECT_TRUE(answers.hold(text)) << label << text;
        EXPECT_FALSE(answers.hold(text.substr(0, text.size() / 2))) << label << text;
        // Words are reasoning where the answer begins inside.
        EXPECT_EQ(answers.hold("words" + text), format->reasoning_starts_open) << label << text;
      }
      for (const auto& call : wrongs) {
        const std::string text = rendered(*format, {call});
        EXPECT_FALSE(answers.hold(text)) << label << text;
      }
      const std::string two = rendered(*format, {rights[0], rights[1]});
      EXPECT_EQ(answers.hold(two), format->info.parallel) << label << two;
      EXPECT_FALSE(answers.hold("")) << label;
    }
  }
}

// JSON as the forms of that layout have it.
std::string laid_out(const std::string& text, Layout layout) {
  if (layout == Layout::asked) return text;
  const json::Value value = *json::parse(text);
  return layout == Layout::compact ? json::to_string(value) : json::dumps(value, {.indent = 4});
}

// Models write a format's calls in several forms, each of which is a sentence.
TEST(ToolGrammar, EveryFormIsTaken) {
  const std::vector<ToolCall> one{
      {.id = "call00001", .name = "weather", .arguments = R"({"city": "Rome", "days": 3})"}};
  std::vector<ToolCall> two = one;
  two.push_back(
      {.id = "call00002", .name = "weather", .arguments = R"({"city": "Oslo", "days": 1})"});
  std::size_t forms = 0;
  for (const auto& format : all_writable()) {
    for (const bool has_controls : {true, false}) {
      SCOPED_TRACE(format->info.name);
      const Answers answers(*format, {.mode = ToolMode::required}, has_controls, true, all_tools());
      for (const Syntax& form : format->forms) {
        ++forms;
        for (auto calls : {one, two}) {
          if (calls.size() > 1 && !format->info.parallel) continue;
          for (ToolCall& call : calls) call.arguments = laid_out(call.arguments, form.layout);
          auto text = *render_calls_in(*format, form, calls, {});
          EXPECT_TRUE(answers.hold(text)) << text;
          if (!form.before.empty()) text = form.before + format->prompt_end + text;
          text += form.behind;
          EXPECT_TRUE(answers.hold(text)) << text;
        }
      }
    }
  }
  EXPECT_GE(forms, 40U);
}

// What stands around the calls that must come, where no template says it.
TEST(ToolGrammar, WhiteSpaceAroundCalls) {
  struct Row {
    std::string_view format;
    std::string_view text;
    bool is_taken;
  };
  const Row rows[] = {
      {"hermes", " <tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n\n", true},
      {"hermes", "   <tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>", false},
      {"hermes", "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n\n\n", false},
      {"apriel", "<tool_calls>[{\"name\": \"now\", \"arguments\": {}}]</tool_calls>\n", true},
      {"mistral_v11", "\n[TOOL_CALLS]now[ARGS]{}", true},
      {"functionary_v2", " now\n<|content|>{}", false},  // a name would be another
      {"functionary_v2", "now\n<|content|>{}\n", true},
      {"lfm2", "<|tool_call_start|>[weather(city='a \"b\"')]<|tool_call_end|>", true},
      {"lfm2", "<|tool_call_start|>[weather(city='it\\'s')]<|tool_call_end|>", true},
      {"lfm2", "<|tool_call_start|>[weather(city=\"it's\", unit='F')]<|tool_call_end|>", true},
      {"lfm2", "<|tool_call_start|>[weather(city='it's')]<|tool_call_end|>", false},
      {"lfm2", "<|tool_call_start|>[weather(city='a\", unit='F')]<|tool_call_end|>", false},
      {"lfm2", "<|tool_call_start|>[weather(city='a', unit='K')]<|tool_call_end|>", false},
  };
  for (const Row& row : rows) {
    const Answers answers(*find(row.format), {.mode = ToolMode::required}, true, true, all_tools());
    EXPECT_EQ(answers.hold(std::string(row.text)), row.is_taken) << row.text;
  }
}

TEST(ToolGrammar, Choices) {
  struct Row {
    const char* name;
    const char* format;
    ToolChoice choice;
    bool parallel;
    std::vector<std::string> yes;
    std::vector<std::string> no;
  };
  const std::string now = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  const std::string message =
      "<|content_invoke_tool_json|>{\"name\": \"now\", \"args\": {}}<|end_message|>";
  const std::string bare = "{\"name\": \"now\", \"parameters\": {}}";
  const Row rows[] = {
      {"Automatic",
       "hermes",
       {},
       true,
       {"", "words", now, "words " + now, now + "\n" + now, "words " + now + "\n"},
       {"<tool_call>", now + "words", std::string("a\0b", 3)}},
      {"Required",
       "hermes",
       {.mode = ToolMode::required},
       true,
       {now, now + "\n" + now, now + "\n"},
       {"", "words", now + "\n\n\n"}},
      {"None", "hermes", {.mode = ToolMode::none}, true, {"", "words"}, {now}},
      {"One", "hermes", {.mode = ToolMode::required}, false, {now}, {now + "\n" + now, now + "\n"}},
      {"Named",
       "hermes",
       {.mode = ToolMode::required, .allowed = {"weather"}},
       true,
       {"<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"x\"}}\n</tool_call>"},
       {now}},
      {"Reasoning",
       "hermes",
       {.mode = ToolMode::required},
       true,
       {"<think>hm</think>\n\n" + now, "<think></think>" + now},
       {"<think>" + now, "<think>hm</think>"}},
      {"MessageAfterReasoning",
       "inkling",
       {},
       true,
       {"<|content_thinking|>hm<|end_message|><|message_model|><|content_text|>hi<|end_message|>",
        "<|content_thinking|>hm<|end_message|><|message_model|>" + message,
        "<|content_text|>hi<|end_message|><|message_model|>" + message},
       {"<|content_thinking|>hm" + message}},
      {"BareAutomatic",
       "llama3_json",
       {},
       true,
       {"", "words {", " words", bare, " {}", "[1]", "words " + bare, "words {\"name\": \"x\"}"},
       {"{\"name\": \"x\"}", " {\"name\": ", "words {\"name\": \"now\"}"}},
      {"ListsAreNoCalls",
       "llama4_pythonic",
       {},
       true,
       {"", "- [x] done", "[1, 2]", "[now](now)", "[nowhere()]", "[now()]", "words [now(), now()]"},
       {"[now(1)]", "[ now(1)]", "[[now(]"}},
      {"WordsAreNoCalls",
       "react",
       {},
       true,
       {"Action: none", "Action: now\n", "Action: now\nAction Input: {}\n",
        "Thought: so\nAction: now\nAction Input: {}\n"},
       {"Action: now\nAction Input: words", "Action:now Action Input:"}},
      {"NamesOfModulesAreNoCalls",
       "phi4_mini",
       {},
       true,
       {"import functools", "functools[1]", "functools[{\"name\": \"now\", \"arguments\": {}}]"},
       {"functools[{\"name\": \"now\", \"arguments\": 1}]"}},
      {"ManyNames", "llama4_pythonic", {}, true, {"words", "[1, 2]", "[now()]"}, {"[nowhere()]"}},
  };
  for (const Row& row : rows) {
    std::vector<Tool> tools = all_tools();
    if (row.name == std::string_view("ManyNames")) {
      for (int i = 0; i < 100; ++i)
        tools.push_back({.name = std::string(50, 'x') + std::to_string(i)});
    }
    const Answers answers(*find(row.format), row.choice, true, row.parallel, tools);
    for (const std::string& text : row.yes)
      EXPECT_TRUE(answers.hold(text)) << row.name << ": " << text;
    for (const std::string& text : row.no)
      EXPECT_FALSE(answers.hold(text)) << row.name << ": " << text;
  }
}

// White space that separates calls may be the last that a model writes: else it would be held to
// one more call.
TEST(ToolGrammar, TheSpaceBetweenCallsMayComeBeforeTheEnd) {
  const std::vector<Tool> tools = all_tools();
  ParseOptions options;
  for (const Tool& tool : tools) {
    options.tools.push_back(tool.name);
    options.schemas.push_back(tool.parameters);
  }
  const std::pair<std::string, std::string> now{"now", "{}"};
  std::size_t with_space = 0;
  for (const auto& format : all_writable()) {
    if (!format->info.parallel) continue;
    SCOPED_TRACE(format->info.name);
    const Syntax& own = format->syntaxes.front();
    const bool has_space = !own.separator.empty() && own.separator.front().text.starts_with('\n');
    if (!own.several || !own.close.empty() || !has_space) continue;
    ++with_space;
    const std::string one = rendered(*format, {now});
    const std::string text = one + "\n";
    for (const ToolMode mode : {ToolMode::required, ToolMode::automatic}) {
      EXPECT_TRUE(Answers(*format, {.mode = mode}, true, true, tools).hold(text)) << text;
      EXPECT_FALSE(Answers(*format, {.mode = mode}, true, false, tools).hold(text)) << text;
    }
    EXPECT_EQ(parse(format, text, options), parse(format, one, options)) << text;
  }
  EXPECT_GT(with_space, 10U);
}

// Nor is a call taken for text whose key or name is spelled in another way.
TEST(ToolGrammar, SpellingsOfNamesAreHeld) {
  const std::vector<Tool> tools{{.name = "get/it", .parameters = *json::parse(kWeather)}};
  const ParseOptions options{.tools = {"get/it"}, .schemas = {*json::parse(kWeather)}};
  const std::pair<std::string_view, std::string_view> spellings[] = {
      {"\"name\"", R"("n\u0061me")"},
      {"\"name\"", R"("\u006E\u0061\u006d\u0065")"},
      {"\"get/it\"", R"("get\/it")"},
      {"\"get/it\"", R"("g\u0065t/it")"},
      {"\"get/it\"", R"("get\u002Fit")"},
      {"\"get/it\"", R"("g\u0065t\u002f\u0069t")"},
      {"\"name\": \"", "\"name\"\n\n: \""},
      {"{\"", "{\n\n \""},
      {"\"name\"", "'name'"},
      {"\"get/it\"", "'get/it'"},
  };
  std::size_t calls = 0;
  for (const auto& format : all_writable()) {
    const Answers answers(*format, {}, false, true, tools);
    for (const Syntax& syntax : format->syntaxes) {
      Format one = *format;
      one.syntaxes = {syntax};
      const std::string call = rendered(one, {{"get/it", R"({"days": 10})"}});
      for (const auto& [from, to] : spellings) {
        const std::size_t at = call.find(from);
        if (at == std::string::npos) continue;
        const std::string spelled = std::string(call).replace(at, from.size(), to);
        for (const std::string& text : {spelled, "words\n" + spelled, "\n\n" + spelled}) {
          StreamParser parser(format, options);
          if (outcome_of(events_of(parser, text, text.size(), false)).calls.empty()) continue;
          ++calls;
          EXPECT_FALSE(answers.hold(text)) << format->info.name << ": " << text;
        }
      }
    }
    // JSON is no call because it has escapes.
    if (!answers.hold(R"(So: {"who": "x"})")) continue;
    EXPECT_TRUE(answers.hold(R"(So: {"who": "Jos\u00e9", "path": "C:\\x", "name": "\"b\"\n"})"))
        << format->info.name;
  }
  EXPECT_GT(calls, 200U);
}

// Where the prompt ends with what begins a call, what follows is one by its name.
TEST(ToolGrammar, CallsBehindThePromptAreNoText) {
  const std::vector<Tool> tools{{.name = "get", .parameters = *json::parse(kWeather)}};
  const ParseOptions options{.tools = {"get"}, .schemas = {*json::parse(kWeather)}};
  std::size_t calls = 0;
  for (const auto& format : all_writable()) {
    if (format->prompt_end.empty()) continue;
    const Answers answers(*format, {}, false, true, tools);
    const std::string call = rendered(*format, {{"get", R"({"days": 10})"}});
    for (const char* const space : {"", "\n", " ", "\n\n", " \t\n"}) {
      const std::string text = space + call;
      StreamParser parser(format, options);
      if (outcome_of(events_of(parser, text, text.size(), false)).calls.empty()) continue;
      ++calls;
      EXPECT_FALSE(answers.hold(text)) << format->info.name << ": " << text;
    }
  }
  EXPECT_GT(calls, 5U);
  const Answers answers(*find("glm4"), {}, false, true, tools);
  EXPECT_TRUE(answers.hold("\nget"));
  EXPECT_TRUE(answers.hold("\nget it\n{}"));
}

// The grammar begins reasoning where the parser does: a call in it does not count.
TEST(ToolGrammar, ReasoningIsNoText) {
  const ParseOptions options{.tools = {"now"}};
  for (const auto& format : all_writable()) {
    if (format->reasoning_open.empty()) continue;
    const std::string call = rendered(*format, {{"now", "{}"}});
    const Answers answers(*format, {}, false, true, all_tools());
    const std::string& open = format->reasoning_open.front();
    const std::string& close = format->reasoning_close.front();
    for (const std::string& text :
         {"\n" + open + "y\n" + call, open + "x" + close + open + "y\n" + call,
          "\n\n" + open + "x" + close + "\n" + open + "y" + call, close + open + "y" + call,
          open + "y\n" + call}) {
      StreamParser parser(format, options);
      const Outcome outcome = outcome_of(events_of(parser, text, text.size(), false));
      if (!outcome.calls.empty()) continue;
      EXPECT_FALSE(answers.hold(text) && !format->call_ends_reasoning)
          << format->info.name << ": " << text;
    }
    if (!format->content_open.empty() || !format->between.empty()) continue;
    EXPECT_TRUE(answers.hold("\n" + open + "y" + close + "\n\nwords")) << format->info.name;
    EXPECT_EQ(answers.hold("words " + open + " words"),
              !format->reasoning_starts_open && !format->reasoning_anywhere)
        << format->info.name;
  }
}

// Reasoning whose end is also the end of the model's turn: no call could come behind it.
TEST(ToolGrammar, ReasoningThatEndsTheTurnIsNotOffered) {
  for (const std::string close : {"</think>", "<|the end|>\\n"}) {
    const auto format = compile("name = 't'\n[reasoning]\nopen = ['/muse']\nclose = [\"" + close +
                                    "\"]\n[[syntax]]\ncall = '<c>${object}</c>'",
                                "t");
    ASSERT_TRUE(format) << format.error().message;
    const Answers answers(**format, {.mode = ToolMode::required}, true, true, all_tools());
    grammar::Matcher matcher = answers.matcher();
    EXPECT_EQ(matcher.accept_bytes("/muse"), close == "</think>") << close;
    EXPECT_TRUE(answers.hold(R"(<c>{"name": "now", "arguments": {}}</c>)")) << close;
  }
}

// What the parser reads as a call stands in no free text, in whichever of the format's syntaxes.
TEST(ToolGrammar, EveryCallInTextIsHeldToItsSchema) {
  const ToolCall wrong{.id = "call00001", .name = "weather", .arguments = R"({"days": 10})"};
  const ParseOptions options{.tools = {"weather"}, .schemas = {*json::parse(kWeather)}};
  for (const auto& format : all_writable()) {
    const Answers answers(*format, {}, false, true, all_tools());
    for (const Syntax& syntax : format->syntaxes) {
      Format one = *format;
      one.syntaxes = {syntax};
      const auto call = render_calls(one, {wrong});
      ASSERT_TRUE(call) << format->info.name;
      for (const std::string& text : {*call, "words " + *call, "words\n\n" + *call}) {
        StreamParser parser(format, options);
        if (outcome_of(events_of(parser, text, text.size(), false)).calls.empty()) continue;
        EXPECT_FALSE(answers.hold(text)) << format->info.name << ": " << text;
      }
    }
  }
}

// Where the prompt has opened the reasoning the answer goes on in it, as the parser reads it.
TEST(ToolGrammar, ReasoningThatThePromptHasOpened) {
  for (const auto& format : all_writable()) {
    if (format->reasoning_open.empty()) continue;
    const std::string& label = format->info.name;
    const std::string open = format->reasoning_open.front();
    const std::string close = format->reasoning_close.front();
    std::string between;
    for (const Piece& piece : format->between) between += piece.text;
    const std::string call = rendered(*format, {{"now", "{}"}});
    const auto holds = [&](const ToolChoice& choice, std::string prompt_tail, std::string text) {
      return Answers(*format, choice, true, true, all_tools(), std::move(prompt_tail)).hold(text);
    };
    const ToolChoice demanded{.mode = ToolMode::required};
    const std::string opened = "words" + open + "\n";
    EXPECT_TRUE(holds(demanded, opened, "hm" + close + between + call)) << label;
    EXPECT_FALSE(holds(demanded, opened, "hm" + close)) << label;
    EXPECT_FALSE(holds({.mode = ToolMode::none}, opened, "hm")) << label;
    EXPECT_FALSE(holds({.mode = ToolMode::none}, opened, "hm" + call)) << label;
    EXPECT_TRUE(holds(demanded, opened + close, call)) << label;
    // A call in the reasoning is one just where the parser finds it.
    ParseOptions options{.tools = {"now"}, .prompt_tail = opened};
    const Outcome outcome = parse(format, "hm" + call, options);
    EXPECT_EQ(holds(demanded, opened, "hm" + call), outcome.calls.size() == 1) << label;
    EXPECT_EQ(holds(demanded, opened, call), outcome.calls.size() == 1) << label;
  }
}

// At the limit nothing but the section's end may come. A token of this vocabulary is a byte.
TEST(ToolGrammar, ReasoningEndsAtItsLimit) {
  constexpr std::uint32_t kMost = 5;
  std::size_t begun = 0;
  for (const auto& format : all_writable()) {
    if (format->reasoning_open.empty() || format->reasoning_close.empty()) continue;
    const std::string& label = format->info.name;
    const std::string open = format->reasoning_open.front();
    const std::string close = format->reasoning_close.front();
    std::string between;
    for (const Piece& piece : format->between) between += piece.text;
    const std::string call = rendered(*format, {{"now", "{}"}});
    const auto holds = [&](std::uint32_t most, std::string prompt_tail, const std::string& text) {
      return Answers(*format, {.mode = ToolMode::required}, true, true, all_tools(),
                     std::move(prompt_tail), false, most)
          .hold(text);
    };
    const std::string opened = "words" + open + "\n";
    EXPECT_TRUE(holds(kMost, opened, "12345" + close + between + call)) << label;
    EXPECT_TRUE(holds(kMost, opened, "1" + close + between + call)) << label;
    EXPECT_TRUE(holds(kMost, opened, close + between + call)) << label;
    EXPECT_FALSE(holds(kMost, opened, "123456" + close + between + call)) << label;
    EXPECT_TRUE(holds(0, opened, close + between + call)) << label;
    EXPECT_FALSE(holds(0, opened, "1" + close + between + call)) << label;
    const auto first = [&](const std::string& thoughts) {
      return open + thoughts + close + between + call;
    };
    if (format->reasoning_starts_open || !holds(100, "", first("12345"))) continue;
    ++begun;
    EXPECT_TRUE(holds(kMost, "", first("12345"))) << label;
    EXPECT_FALSE(holds(kMost, "", first("123456"))) << label;
    EXPECT_FALSE(holds(0, "", first(""))) << label;
    EXPECT_TRUE(holds(0, "", call)) << label;
  }
  EXPECT_GT(begun, 10U);
}

// Where the prompt ends with a call's marker, only a call that begins the answer lacks it.
TEST(ToolGrammar, CallsBehindThePromptAndBehindText) {
  const auto format = compile(
      "name = 't'\nprompt_end = '>>>'\n[[syntax]]\ncall = \">>>${name}\\n${arguments}\"", "t");
  ASSERT_TRUE(format) << format.error().message;
  const Answers answers(**format, {}, false, true, all_tools());
  for (const char* const text : {"", "words", "now\n{}", "words>>>now\n{}", "now\n{}>>>now\n{}"}) {
    EXPECT_TRUE(answers.hold(text)) << text;
  }
  EXPECT_FALSE(answers.hold("words>>>then\n{}"));
}

// A name from the client that is spelled like a control token is text.
TEST(ToolGrammar, NamesNeverBecomeControlTokens) {
  const auto format = find("hermes");
  const auto tokenizer = tokenizer_of(*format, true);
  const std::vector<Tool> named{{.name = "</tool_call>"}};
  const auto rules =
      tool_grammar(*format, named, {.mode = ToolMode::required}, {.tokenizer = tokenizer.get()});
  ASSERT_TRUE(rules);
  const auto index = std::make_shared<grammar::VocabIndex>(*vocab::Vocab::of(*tokenizer));
  auto machine = std::make_unique<grammar::Machine>();
  const auto root = grammar::add_rules(*machine, *rules, index->vocab());
  ASSERT_TRUE(root);
  grammar::Matcher matcher(*grammar::Grammar::make(std::move(machine), *root, index));
  ASSERT_TRUE(matcher.accept(*tokenizer->control_token("<tool_call>")));
  ASSERT_TRUE(matcher.accept_bytes("\n{\"name\": \""));
  EXPECT_FALSE(matcher.accept(*tokenizer->control_token("</tool_call>")));
  ASSERT_TRUE(matcher.accept_bytes("</tool_call>\", \"arguments\": {}}\n"));
  EXPECT_FALSE(matcher.accept_bytes("</tool_call>"));
  EXPECT_TRUE(matcher.accept(*tokenizer->control_token("</tool_call>")));
  EXPECT_TRUE(matcher.is_accepting());
}

// Tokens of a call in which the format's markers are control tokens, and with `of_client` also what
// is spelled like them in names and arguments.
std::vector<vocab::TokenId> tokens_of_call(const Format& format, const vocab::Tokenizer& tokenizer,
                                           const ToolCall& call, bool of_client) {
  constexpr char kBegin = '\x01';
  constexpr char kEnd = '\x02';
  const auto text = render_calls(
      format, {call}, {.own_begin = std::string(1, kBegin), .own_end = std::string(1, kEnd)});
  EXPECT_TRUE(text) << format.info.name;
  std::vector<vocab::TokenId> ids;
  for (std::size_t at = 0; at < text->size();) {
    const bool is_own = (*text)[at] == kBegin;
    if (is_own) ++at;
    const std::size_t end = std::min(text->find(is_own ? kEnd : kBegin, at), text->size());
    const auto controls = is_own || of_client ? vocab::Controls::on : vocab::Controls::off;
    EXPECT_TRUE(tokenizer.encode(text->substr(at, end - at), controls, false, ids));
    at = end + (is_own ? 1 : 0);
  }
  return ids;
}

// Nor does anything else of the client's, wherever the schema has it.
TEST(ToolGrammar, SchemasNeverBecomeControlTokens) {
  const std::pair<std::string_view, std::string_view> rows[] = {
      {R"({"enum": ["x", "$"]})", R"("$")"},
      {R"({"enum": ["a $", "x"]})", R"("a $")"},
      {R"({"enum": [["x"], ["a", "$"]]})", R"(["a", "$"])"},
      {R"({"enum": [1, {"$": 1}]})", R"({"$": 1})"},
      {R"({"enum": [{"a": ["$ b"]}, 1]})", R"({"a": ["$ b"]})"},
      {R"({"type": "object", "properties": {"$": {"type": "integer"}}})", R"({"$": 1})"},
      {R"({"type": "array", "items": {"enum": ["$", "x"]}})", R"(["x", "$"])"},
      {R"({"type": "array", "items": {"type": "object", "properties": {"$": {}}}})",
       R"([{"$": 1}])"},
  };
  constexpr std::string_view kOfNoFormat = "<|the end|>";
  const auto with = [](std::string_view row, std::string_view control) {
    std::string text(row);
    const std::string quoted = json::quoted(control);
    for (std::size_t at = 0; (at = text.find('$', at)) != std::string::npos; at += quoted.size()) {
      text.replace(at, 1, quoted, 1, quoted.size() - 2);
    }
    return text;
  };
  for (const auto& format : all_writable()) {
    const bool has_elements = !format->syntaxes.front().item.empty();  // in the place of JSON
    const auto tokenizer = tokenizer_of(*format, true);
    for (std::size_t id = 256; id < tokenizer->size(); ++id) {
      const std::string_view control = tokenizer->bytes(static_cast<vocab::TokenId>(id));
      std::vector<Tool> tools;
      std::vector<ToolCall> calls;
      for (const auto& [schema, value] : rows) {
        const std::string name = "f" + std::to_string(tools.size());
        tools.push_back({.name = name,
                         .parameters = *json::parse(R"({"required": ["e"], "properties": {"e": )" +
                                                    with(schema, control) + "}}")});
        calls.push_back({.id = "call00001",
                         .name = name,
                         .arguments = R"({"e": )" + with(value, control) + "}"});
      }
      const Answers answers(*format, {.mode = ToolMode::required}, true, true, tools);
      for (const ToolCall& call : calls) {
        const auto holds = [&](bool of_client) {
          grammar::Matcher matcher = answers.matcher();
          const auto ids = tokens_of_call(*format, *tokenizer, call, of_client);
          return std::ranges::all_of(ids, [&](auto one) { return matcher.accept(one); }) &&
                 matcher.is_accepting();
        };
        EXPECT_FALSE(holds(true)) << format->info.name << ": " << call.arguments;
        if (control != kOfNoFormat || has_elements) continue;
        EXPECT_TRUE(holds(false)) << format->info.name << ": " << call.arguments;
      }
    }
  }
}

// An optional argument that nothing fits is left out, whatever the format.
TEST(ToolGrammar, AnArgumentThatNothingFits) {
  const std::vector<Tool> tools{
      {.name = "f",
       .parameters = *json::parse(R"({"type": "object", "required": ["a"], "properties":
         {"a": {"type": "string"}, "b": {"type": "integer", "enum": ["1", "any"]},
          "c": {"type": "string", "minLength": 3, "maxLength": 2},
          "d": {"type": "array", "minItems": 3, "maxItems": 2}}})")}};
  for (const auto& format : all_writable()) {
    const Answers answers(*format, {.mode = ToolMode::required}, true, true, tools);
    EXPECT_TRUE(answers.hold(rendered(*format, {{"f", R"({"a": "x"})"}}))) << format->info.name;
    for (const char* const wrong :
         {R"({"a": "x", "b": "any"})", R"({"a": "x", "c": "yy"})", R"({"a": "x", "d": [1, 2]})"}) {
      EXPECT_FALSE(answers.hold(rendered(*format, {{"f", wrong}}))) << format->info.name << wrong;
    }
  }
}

TEST(ToolGrammar, TypesAndClosedObjectsHoldInEveryFormat) {
  const std::vector<Tool> tools{
      {.name = "typed", .parameters = *json::parse(R"({"type": "object", "properties":
         {"n": {"type": ["integer", "null"]}, "l": {"type": ["array", "boolean"]}}})")},
      {.name = "closed",
       .parameters =
           *json::parse(R"({"type": "object", "properties": {}, "additionalProperties": false})")}};
  const std::pair<std::string, std::string> rights[] = {
      {"typed", R"({"n": 5, "l": []})"}, {"typed", R"({"n": null, "l": true})"}, {"closed", "{}"}};
  const std::pair<std::string, std::string> wrongs[] = {{"typed", R"({"n": "words"})"},
                                                        {"typed", R"({"n": [1]})"},
                                                        {"typed", R"({"l": null})"},
                                                        {"closed", R"({"x": 1})"}};
  for (const auto& format : all_writable()) {
    const Answers answers(*format, {.mode = ToolMode::required}, true, true, tools);
    for (const auto& call : rights) {
      const std::string text = rendered(*format, {call});
      EXPECT_TRUE(answers.hold(text)) << format->info.name << ": " << text;
    }
    for (const auto& call : wrongs) {
      const std::string text = rendered(*format, {call});
      EXPECT_FALSE(answers.hold(text)) << format->info.name << ": " << text;
    }
  }
}

// What is only required is written like what is declared, as the schema has it for other names.
TEST(ToolGrammar, RequiredNamesThatAreNotDeclared) {
  const std::vector<Tool> tools{
      {.name = "typed", .parameters = *json::parse(R"({"type": "object", "required": ["a", "b"],
         "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "integer"}})")},
      {.name = "open", .parameters = *json::parse(R"({"type": "object", "required": ["x"]})")},
      {.name = "inner", .parameters = *json::parse(R"({"type": "object", "properties":
         {"o": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["b"]}}})")},
      {.name = "barred",
       .parameters = *json::parse(R"({"type": "object", "properties": {"x": false, "y": {}}})")}};
  const std::pair<std::string, std::string> rights[] = {
      {"typed", R"({"a": 1, "b": 2})"},
      {"open", R"({"x": "words"})"},
      {"inner", "{}"},
      {"inner", R"({"o": {"a": 1, "b": [true]}})"},
      {"barred", R"({"y": 1})"}};
  const std::pair<std::string, std::string> wrongs[] = {{"typed", R"({"a": 1})"},
                                                        {"typed", R"({"a": 1, "b": "words"})"},
                                                        {"open", "{}"},
                                                        {"inner", R"({"o": {"a": 1}})"},
                                                        {"barred", R"({"x": 1})"},
                                                        {"barred", R"({"x": "words"})"}};
  for (const auto& format : all_writable()) {
    const Answers answers(*format, {.mode = ToolMode::required}, true, true, tools);
    for (const auto& call : rights) {
      const std::string text = rendered(*format, {call});
      EXPECT_TRUE(answers.hold(text)) << format->info.name << ": " << text;
    }
    for (const auto& call : wrongs) {
      const std::string text = rendered(*format, {call});
      EXPECT_FALSE(answers.hold(text)) << format->info.name << ": " << text;
    }
  }
}

// What the grammar lets through is read again, whatever a parameter is called: a name that a format
// cannot write comes in no call of it, and is refused where it must.
TEST(ToolGrammar, NamesThatAFormatCannotWrite) {
  std::size_t refused = 0;
  for (const std::string_view name :
       {"x y", "x-y",   "$select", "@type", "filter[x]", "a/b", "a:b", "a=b",
        "a,b", "класс", "1a",      "a.b",   "a\"b",      "a&b", "a<b", "a>b",
        "",    "None",  "a)b",     "<",     "a\nb",      "{"}) {
    json::Object properties{{std::string(name), json::Object{{"type", "string"}}},
                            {"z", json::Object{{"type", "integer"}}}};
    const json::Value optional = json::Object{
        {"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
    json::Value required = optional;
    (*required.if_object())["required"] = json::Array{std::string(name)};
    const std::string with =
        json::dumps(json::Object{{std::string(name), "words"}, {"z", 1}}, {.ensure_ascii = false});
    for (const auto& format : all_writable()) {
      if (is_exact(*format)) continue;  // keys are JSON's
      SCOPED_TRACE(format->info.name + ": " + std::string(name));
      const std::vector<Tool> must{{.name = "f", .parameters = required}};
      const std::vector<Tool> may{{.name = "f", .parameters = optional}};
      const ToolChoice choice{.mode = ToolMode::required};
      const std::string text = rendered(*format, {{"f", with}});
      const auto rules = tool_grammar(*format, must, choice, {});
      if (rules) {
        EXPECT_TRUE(Answers(*format, choice, true, true, must).hold(text)) << text;
        StreamParser parser(format, {.tools = {"f"}, .schemas = {optional}});
        const Outcome outcome = outcome_of(events_of(parser, text, text.size()));
        ASSERT_EQ(outcome.calls.size(), 1U) << text;
        EXPECT_EQ(json::parse(outcome.calls[0].second), json::parse(with)) << text;
      } else {
        ++refused;
        EXPECT_EQ(rules.error().code, Errc::invalid);
        EXPECT_EQ(rules.error().message, "tool 'f': the parameter " + json::quoted(name) +
                                             " cannot be written in the format '" +
                                             format->info.name +
                                             "': its name would not be read as it stands");
        const Answers answers(*format, choice, true, true, may);
        EXPECT_FALSE(answers.hold(text)) << text;
        EXPECT_TRUE(answers.hold(rendered(*format, {{"f", R"({"z": 1})"}})));
      }
    }
  }
  EXPECT_GT(refused, 0U);
}

TEST(ToolGrammar, ReferencesWithinASchema) {
  const std::vector<Tool> with_reference{
      {.name = "f", .parameters = *json::parse(R"({"type": "object", "required": ["a"],
         "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}})")}};
  for (const char* const name : {"hermes", "qwen3_coder"}) {
    const auto rules = tool_grammar(*find(name), with_reference, {.mode = ToolMode::required}, {});
    ASSERT_TRUE(rules) << name << ": " << rules.error().message;
  }
}

// As the template of minimax_m3 writes them; the parser reads what the grammar allows.
TEST(ToolGrammar, ElementsWithoutElements) {
  const auto format = find("minimax_m3");
  const auto schema = json::parse(R"({"properties": {"o": {"type": "object"},
    "l": {"type": "array", "items": {"type": "array", "items": {}}}, "n": {"type": "array", "items": {}, "minItems": 1}}})");
  const auto map = json::parse(R"({"additionalProperties": {"enum": [7]}})");
  const std::vector<Tool> tools{
      {.name = "f", .parameters = *schema}, {.name = "open"}, {.name = "map", .parameters = *map}};
  const Answers answers(*format, {.mode = ToolMode::required}, false, true, tools);
  const auto call = [](const std::string& name, std::string_view inside) {
    std::string elements;
    for (const char byte : inside) {
      if (byte == '<') elements += "]<]minimax[>[";
      elements += byte;
    }
    return "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"" + name + "\">" + elements +
           "]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>";
  };
  const struct {
    std::string name;
    std::string inside;
    std::string arguments;  // empty: no sentence
  } rows[] = {
      {"f", "<o></o><l></l>", R"({"o": {}, "l": []})"},
      {"f", "<l><item></item></l>", R"({"l": [[]]})"},
      {"f", "<n></n>", ""},
      {"open", "<a>x</a><b><c>1</c></b>", R"({"a": "x", "b": {"c": 1}})"},
      {"open", "<a>x<b></a>", ""},
      {"map", "<a>7</b><c>7</a>", R"({"a": 7, "c": 7})"},
      {"map", "<a>x</a>", ""},
      {"open", "<a>x<b>y</b></a>", ""},
  };
  for (const auto& row : rows) {
    const std::string text = call(row.name, row.inside);
    EXPECT_EQ(answers.hold(text), !row.arguments.empty()) << text;
    if (row.arguments.empty()) continue;
    const ParseOptions options{.tools = {"f", "open", "map"}, .schemas = {*schema, {}, *map}};
    const Outcome outcome = parse(format, text, options);
    ASSERT_EQ(outcome.calls.size(), 1U) << text;
    EXPECT_EQ(outcome.calls[0].second, row.arguments) << text;
  }
}

// Wherever the reference leads, and also round in a circle, in every format.
TEST(ToolGrammar, ReferencesLeadAnywhereInTheSchema) {
  const std::vector<Tool> tools{
      {.name = "sibling", .parameters = *json::parse(R"({"type": "object", "required": ["b"],
         "properties": {"a": {"type": "object", "properties": {"x": {"type": "integer"}},
                              "required": ["x"], "additionalProperties": false},
                        "b": {"$ref": "#/properties/a"}}})")},
      {.name = "itself", .parameters = *json::parse(R"({"type": "object", "required": ["n"],
         "properties": {"c": {"type": "array", "items": {"$ref": "#"}}, "n": {"type": "integer"}},
         "additionalProperties": false})")},
      {.name = "tree", .parameters = *json::parse(R"({"type": "object",
         "properties": {"t": {"$ref": "#/$defs/t"}},
         "$defs": {"t": {"type": "object", "properties": {
           "l": {"$ref": "#/$defs/t"}, "r": {"$ref": "#/$defs/t"}, "n": {"type": "integer"}}}}})")},
      {.name = "untyped", .parameters = *json::parse(R"({"type": "object",
         "properties": {"t": {"$ref": "#/$defs/t"}},
         "$defs": {"t": {"properties": {
           "l": {"$ref": "#/$defs/t"}, "r": {"$ref": "#/$defs/t"}, "n": {"type": "integer"}}}}})")},
      {.name = "whole", .parameters = *json::parse(R"({"$ref": "#/$defs/all", "$defs": {"all":
         {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
          "additionalProperties": false}}})")},
  };
  const std::pair<std::string, std::string> rights[] = {
      {"sibling", R"({"b": {"x": 1}})"},
      {"whole", R"({"a": 1})"},
      {"itself", R"({"c": [{"n": 1}], "n": 2})"},
      {"itself", R"({"c": [{"c": [{"n": 3}], "n": 1}], "n": 2})"},
      {"tree", R"({"t": {"l": {"r": {"n": 1}}, "n": 2}})"},
      {"untyped", R"({"t": {"l": {"r": {"n": 1}}, "n": 2}})"}};
  const std::pair<std::string, std::string> wrongs[] = {
      {"sibling", R"({"b": {"x": "words"}})"},
      {"whole", "{}"},
      {"whole", R"({"a": "words"})"},
      {"whole", R"({"a": 1, "b": 2})"},
      {"itself", R"({"c": [{"c": []}], "n": 2})"},
      {"tree", R"({"t": {"l": {"r": {"n": "words"}}, "n": 2}})"}};
  for (const auto& format : all_writable()) {
    const Answers answers(*format, {.mode = ToolMode::required}, true, true, tools);
    for (const auto& call : rights) {
      const std::string text = rendered(*format, {call});
      EXPECT_TRUE(answers.hold(text)) << format->info.name << ": " << text;
    }
    for (const auto& call : wrongs) {
      const std::string text = rendered(*format, {call});
      EXPECT_FALSE(answers.hold(text)) << format->info.name << ": " << text;
    }
  }
}

// Arguments that a tool takes and those that it does not, in every format.
struct ArgumentsRow {
  const char* name;
  std::string_view schema;
  std::vector<std::string> yes;
  std::vector<std::string> no;
};

class Arguments : public ::testing::TestWithParam<ArgumentsRow> {};

TEST_P(Arguments, HoldInEveryFormat) {
  const ArgumentsRow& row = GetParam();
  const std::vector<Tool> tools{{.name = "f", .parameters = *json::parse(row.schema)}};
  for (const auto& format : all_writable()) {
    const Answers answers(*format, {.mode = ToolMode::required}, true, true, tools);
    for (const std::string& arguments : row.yes) {
      const std::string text = rendered(*format, {{"f", arguments}});
      EXPECT_TRUE(answers.hold(text)) << format->info.name << ": " << text;
    }
    for (const std::string& arguments : row.no) {
      const std::string text = rendered(*format, {{"f", arguments}});
      EXPECT_FALSE(answers.hold(text)) << format->info.name << ": " << text;
    }
  }
}

const ArgumentsRow kBesideReferences[] = {
    {"TextBesideAReference",
     R"({"properties": {"a": {"$ref": "#/$defs/t", "maxLength": 3}},
         "$defs": {"t": {"type": "string", "minLength": 2}}})",
     {R"({"a": "xy"})", R"({"a": "xyz"})", "{}"},
     {R"({"a": "x"})", R"({"a": "xyzw"})"}},
    {"ListBesideAReference",
     R"({"properties": {"a": {"$ref": "#/$defs/t", "enum": ["x", "y"]}},
         "$defs": {"t": {"enum": ["y", "z"]}}})",
     {R"({"a": "y"})"},
     {R"({"a": "x"})", R"({"a": "z"})"}},
    {"TypeBesideAReference",
     R"({"properties": {"a": {"$ref": "#/$defs/t", "type": ["integer", "string"]}},
         "$defs": {"t": {"type": ["number", "boolean"]}}})",
     {R"({"a": 5})"},
     {R"({"a": true})", R"({"a": 1.5})", R"({"a": "x"})"}},
    {"ItemsBesideAReference",
     R"({"properties": {"a": {"$ref": "#/$defs/t", "maxItems": 1}},
         "$defs": {"t": {"type": "array", "items": {"type": "integer"}}}})",
     {R"({"a": [1]})"},
     {R"({"a": [1, 2]})", R"({"a": [true]})"}},
    {"MembersBesideAReference",
     R"({"properties": {"o": {"$ref": "#/$defs/t", "required": ["b"],
                              "properties": {"b": {"maxLength": 2}}}},
         "$defs": {"t": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
                         "required": ["a"]}}})",
     {R"({"o": {"a": 1, "b": "x"}})"},
     {R"({"o": {"a": 1}})", R"({"o": {"b": "x"}})", R"({"o": {"a": 1, "b": "xyz"}})"}},
    {"ArgumentsBesideAReference",
     R"({"$ref": "#/$defs/t", "required": ["b"],
         "$defs": {"t": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
                         "required": ["a"]}}})",
     {R"({"a": 1, "b": "x"})"},
     {R"({"a": 1})", R"({"b": "x"})"}},
    {"AllOf",
     R"({"properties": {"a": {"allOf": [{"$ref": "#/$defs/t"}, {"pattern": "^x"}, {"pattern": "y$"}]}},
         "$defs": {"t": {"type": "string", "maxLength": 4}}})",
     {R"({"a": "xy"})", R"({"a": "xzzy"})"},
     {R"({"a": "x"})", R"({"a": "y"})", R"({"a": "xzzzy"})"}},
    {"AllOfTheArguments",
     R"({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                   {"properties": {"b": {"type": "string"}}, "required": ["b"]}]})",
     {R"({"a": 1, "b": "x"})"},
     {R"({"a": 1})", R"({"b": "x"})", R"({"a": "x", "b": "x"})"}},
    {"TreeWithSomethingBesideItsReferences",
     R"({"properties": {"t": {"$ref": "#/$defs/t", "minProperties": 1}},
         "$defs": {"t": {"type": "object", "additionalProperties": false, "properties": {
           "l": {"$ref": "#/$defs/t", "required": ["n"]}, "r": {"$ref": "#/$defs/t", "required": ["n"]},
           "n": {"type": "integer"}}}}})",
     {R"({"t": {"l": {"n": 1}, "n": 2}})", R"({"t": {"l": {"r": {"n": 1}, "n": 3}}})"},
     {R"({"t": {"l": {"r": {"n": 1}}}})", R"({"t": {"l": {"n": "x"}}})"}},
};
const ArgumentsRow kControls[] = {
    {"ControlCharacters",
     R"({"properties": {"a": {"type": "string"}, "b": {"type": "string", "maxLength": 9}}})",
     {R"({"a": "x\u0001\u001b\u007fy"})", R"({"b": "x\u0001\u001b\u007fy"})"},
     {R"({"a": "x\u0000y"})", R"({"b": "x\u0000y"})"}},
};
const ArgumentsRow kUnions[] = {
    {"LengthInAnyOf",
     R"({"properties": {"a": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "integer"}]}}})",
     {R"({"a": "xyz"})", R"({"a": 123456})"},
     {R"({"a": "xyzw"})", R"({"a": true})"}},
    {"LengthBesideAnyOf",
     R"({"properties": {"a": {"maxLength": 3, "anyOf": [{"type": "string", "minLength": 2}, {"type": "null"}]}}})",
     {R"({"a": "xyz"})", R"({"a": null})"},
     {R"({"a": "xyzw"})", R"({"a": "x"})"}},
    {"ListsInAnyOf",
     R"({"properties": {"a": {"anyOf": [{"enum": ["x", "y"]}, {"const": "z"}, {"type": "null"}]}}})",
     {R"({"a": "x"})", R"({"a": "z"})", R"({"a": null})"},
     {R"({"a": "w"})"}},
    {"PatternsInAnyOf",
     R"({"properties": {"a": {"type": "string", "anyOf": [{"pattern": "^x"}, {"pattern": "^y"}]}}})",
     {R"({"a": "xa"})", R"({"a": "ya"})"},
     {R"({"a": "za"})"}},
    {"PatternsInOneOf",
     R"({"properties": {"a": {"type": "string", "oneOf": [{"pattern": "^x"}, {"pattern": "y$"}]}}})",
     {R"({"a": "xa"})", R"({"a": "ay"})"},
     {R"({"a": "xy"})", R"({"a": "za"})"}},
    {"BoundsOfNumbersInAnyOf",
     R"({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 10}]}}})",
     {R"({"a": "x"})", R"({"a": 10})"},
     {R"({"a": 9})"}},
    {"UnionsInAnyOf",
     R"({"properties": {"a": {"anyOf": [{"anyOf": [{"type": "string", "maxLength": 1}]}, {"$ref": "#/$defs/t"}]}},
         "$defs": {"t": {"oneOf": [{"const": "abc"}, {"type": "boolean"}]}}})",
     {R"({"a": "x"})", R"({"a": "abc"})", R"({"a": true})"},
     {R"({"a": "xy"})"}},
    {"UnionsThatHoldThemselves",
     R"({"properties": {"a": {"$ref": "#/$defs/t"}},
         "$defs": {"t": {"minLength": 1, "anyOf": [
           {"type": "array", "items": {"$ref": "#/$defs/t"}}, {"type": "string", "maxLength": 2},
           {"type": "array", "items": {"$ref": "#/$defs/t"}, "maxItems": 1}]}}})",
     {R"({"a": ["x", ["y"]]})"},
     {R"({"a": ["xyz"]})", R"({"a": [["xyz"]]})", R"({"a": [[""]]})"}},
    {"ListOfConstantsInOneOf",
     R"({"properties": {"a": {"oneOf": [{"const": "x"}, {"const": "y"}, {"const": 5}]}}})",
     {R"({"a": "x"})", R"({"a": 5})"},
     {R"({"a": "z"})", R"({"a": 6})"}},
    {"ItemsInAnyOf",
     R"({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]}}})",
     {R"({"a": "[draft]"})", R"({"a": [1, 2]})"},
     {R"({"a": ["x"]})"}},
};
const ArgumentsRow kMaps[] = {
    {"MapOfListed",
     R"({"required": ["o"], "properties": {"o": {"type": "object", "additionalProperties": {"enum": [7]}}}})",
     {R"({"o": {"a": 7}})", R"({"o": {}})", R"({"o": {"a": 7, "b": 7}})"},
     {R"({"o": {"a": -3.8}})", R"({"o": {"a": 7, "b": true}})"}},
    {"MapOfIntegers",
     R"({"properties": {"o": {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 2}}})",
     {R"({"o": {"a": 1}})", R"({"o": {"a": 1, "b": -2}})"},
     {R"({"o": {"a": true}})", R"({"o": {"a": "x"}})", R"({"o": {"a": 1, "b": 2, "c": 3}})",
      R"({"o": {}})"}},
    {"MapOfMaps",
     R"({"properties": {"o": {"type": "object", "additionalProperties":
         {"type": "object", "additionalProperties": {"type": "boolean"}}}}})",
     {R"({"o": {"a": {"b": true}}})"},
     {R"({"o": {"a": {"b": 1}}})", R"({"o": {"a": 1}})"}},
    {"MapThatHoldsItself",
     R"({"properties": {"o": {"$ref": "#/$defs/m"}},
         "$defs": {"m": {"type": "object", "additionalProperties": {"$ref": "#/$defs/m"}}}})",
     {R"({"o": {"a": {"b": {}, "c": {"d": {}}}}})"},
     {R"({"o": {"a": {"b": {}, "c": {"d": true}}}})"}},
    {"ArgumentsAreAMap",
     R"({"additionalProperties": {"type": "integer"}})",
     {"{}", R"({"a": 1})", R"({"a": 1, "b": 2})"},
     {R"({"a": "x"})", R"({"a": true})"}},
    {"ItemsAreMaps",
     R"({"properties": {"l": {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "integer"}}}}})",
     {R"({"l": [{"a": 1}]})"},
     {R"({"l": [{"a": true}]})"}},
};
const ArgumentsRow kTuples[] = {
    {"Closed",
     R"({"required": ["t"], "properties": {"t": {"type": "array", "prefixItems": [{"type": "integer"}, {"enum": ["C", "F"]}],
         "items": false, "minItems": 2}}})",
     {R"({"t": [1, "C"]})"},
     {R"({"t": [1]})", R"({"t": []})", R"({"t": ["C", 1]})", R"({"t": [1, "K"]})",
      R"({"t": [1, "C", 2]})"}},
    {"Open",
     R"({"properties": {"t": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}],
         "items": {"type": "null"}, "maxItems": 3}}})",
     {R"({"t": []})", R"({"t": [1]})", R"({"t": [1, true]})", R"({"t": [1, true, null]})"},
     {R"({"t": [true]})", R"({"t": [1, true, 2]})", R"({"t": [1, true, null, null]})"}},
    {"OfAtLeastThree",
     R"({"properties": {"t": {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "boolean"}, "minItems": 3}}})",
     {R"({"t": [1, true, false]})"},
     {R"({"t": [1, true]})", R"({"t": [1, 1, 1]})"}},
    {"AsUntilDraft7",
     R"({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"t": {"type": "array",
         "items": [{"type": "integer"}, {"type": "boolean"}], "additionalItems": false}}})",
     {R"({"t": [1, true]})", R"({"t": [1]})"},
     {R"({"t": [true]})", R"({"t": [1, true, 2]})"}},
};
// Formats that write an array's items one by one write these as JSON.
class Tuples : public ::testing::TestWithParam<ArgumentsRow> {};

TEST_P(Tuples, HoldInEveryFormat) {
  const ArgumentsRow& row = GetParam();
  const std::vector<Tool> tools{{.name = "f", .parameters = *json::parse(row.schema)}};
  for (const auto& format : all_writable()) {
    if (!format->syntaxes.front().item.empty()) continue;
    const Answers answers(*format, {.mode = ToolMode::required}, true, true, tools);
    for (const std::string& arguments : row.yes) {
      const std::string text = rendered(*format, {{"f", arguments}});
      EXPECT_TRUE(answers.hold(text)) << format->info.name << ": " << text;
    }
    for (const std::string& arguments : row.no) {
      const std::string text = rendered(*format, {{"f", arguments}});
      EXPECT_FALSE(answers.hold(text)) << format->info.name << ": " << text;
    }
  }
}

std::string row_name(const ::testing::TestParamInfo<ArgumentsRow>& test) {
  return test.param.name;
}
INSTANTIATE_TEST_SUITE_P(BesideReferences, Arguments, ::testing::ValuesIn(kBesideReferences),
                         row_name);
INSTANTIATE_TEST_SUITE_P(WithControls, Arguments, ::testing::ValuesIn(kControls), row_name);
INSTANTIATE_TEST_SUITE_P(OfMaps, Arguments, ::testing::ValuesIn(kMaps), row_name);
INSTANTIATE_TEST_SUITE_P(OfItems, Tuples, ::testing::ValuesIn(kTuples), row_name);
INSTANTIATE_TEST_SUITE_P(InUnions, Arguments, ::testing::ValuesIn(kUnions), row_name);

// A listed value that the format would read as something else is not offered.
TEST(ToolGrammar, ListedValuesThatTheFormatCannotWrite) {
  struct Row {
    const char* format;
    std::string_view schema;
    std::vector<std::string> yes;
    std::vector<std::string> no;
  };
  const Row rows[] = {
      {"functiongemma", R"({"enum": ["a<escape>b", "c"]})", {R"("c")"}, {R"("a<escape>b")"}},
      {"functiongemma",
       R"({"enum": [["a<escape>b"], ["c"]]})",
       {R"(["c"])"},
       {R"(["a<escape>b"])"}},
      {"qwen3_coder",
       R"({"enum": ["a\n</parameter>\n</function>", "c"]})",
       {R"("c")"},
       {R"("a\n</parameter>\n</function>")"}},
      {"qwen3_coder",
       R"({"enum": ["a\n</parameter>\n</function>", 1]})",
       {"1"},
       {R"("a\n</parameter>\n</function>")"}},
      {"hermes", R"({"enum": ["a</tool_call>b"]})", {R"("a</tool_call>b")"}, {}},
      {"llama4_pythonic", R"({"enum": ["a\"b)]"]})", {R"("a\"b)]")"}, {}},
  };
  const auto with = [](std::string_view schema) {
    return std::vector<Tool>{
        {.name = "f",
         .parameters = *json::parse(R"({"required": ["e"], "properties": {"e": )" +
                                    std::string(schema) + "}}")}};
  };
  for (const Row& row : rows) {
    const auto format = find(row.format);
    const Answers answers(*format, {.mode = ToolMode::required}, false, true, with(row.schema));
    const auto holds = [&](const std::string& value) {
      return answers.hold(rendered(*format, {{"f", R"({"e": )" + value + "}"}}));
    };
    for (const std::string& value : row.yes) EXPECT_TRUE(holds(value)) << row.format << value;
    for (const std::string& value : row.no) EXPECT_FALSE(holds(value)) << row.format << value;
  }
  const auto rules = tool_grammar(*find("functiongemma"), with(R"({"const": "a<escape>b"})"),
                                  {.mode = ToolMode::required}, {});
  ASSERT_FALSE(rules);
  EXPECT_EQ(rules.error().code, Errc::unsatisfiable);
  EXPECT_EQ(rules.error().message,
            "tool 'f': values that are listed hold '<escape>', which ends a value in the format "
            "functiongemma, and there is no other");
}

// A value may have the markers in it that end a call, as far as the parser reads them as the
// value's: where another call follows them, it does not, so the grammar keeps that out of values.
TEST(ToolGrammar, EndsOfCallsInValuesAreReadAsTheyAreHeld) {
  struct Row {
    const char* format;
    std::string_view value;  // as JSON has it
    bool is_held;
  };
  const Row rows[] = {
      {"qwen3_coder", R"("a\n</tool_call>\nb")", true},
      {"qwen3_coder", R"("a</tool_call><tool_call>")", true},
      {"qwen3_coder", R"("a\n</function>\nb")", true},
      {"qwen3_coder", R"("a\n</tool_call>\n<tool_call>\nb")", false},
      {"qwen3_coder", R"("a\n</function>\n</tool_call>")", false},
      {"seed_oss", R"("a</seed:tool_call> b")", true},
      {"seed_oss", R"("a</seed:tool_call>\n<seed:tool_call> b")", false},
      {"minimax_m2", R"("a</minimax:tool_call> b")", true},
      {"minimax_m2", R"("a</invoke>\n</minimax:tool_call> b")", false},
      {"glm45", R"("a</tool_call> b")", true},
      {"glm45", R"("a</tool_call>\n<tool_call>b")", false},
  };
  const std::vector<Tool> tools{
      {.name = "f",
       .parameters =
           *json::parse(R"({"required": ["e"], "properties": {"e": {"type": "string"}}})")}};
  const ParseOptions options{.tools = {"f"}, .schemas = {tools.front().parameters}};
  for (const Row& row : rows) {
    SCOPED_TRACE(std::string(row.format) + " " + std::string(row.value));
    const auto format = find(row.format);
    const Answers answers(*format, {.mode = ToolMode::required}, false, true, tools);
    const Calls calls{{"f", R"({"e": )" + std::string(row.value) + "}"}};
    const std::string text = rendered(*format, calls);
    EXPECT_EQ(answers.hold(text), row.is_held);
    if (!row.is_held) continue;
    EXPECT_EQ(parse(format, text, options).calls, calls);
  }
}

TEST(ToolGrammar, RefusesAFormatWithoutCalls) {
  const auto rules = tool_grammar(**compile("name = 'text_only'", "t"), all_tools(), {}, {});
  ASSERT_FALSE(rules);
  EXPECT_EQ(rules.error().code, Errc::unsupported);
  EXPECT_EQ(rules.error().message, "text_only has no way to write a call: no [[syntax]]");
}

}  // namespace
}  // namespace tenon::format
