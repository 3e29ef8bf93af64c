#include "tenon/prompt/prompt.h"

#include <random>
#include <sstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "tenon/format/registry.h"
#include "tenon/prompt/chat_template.h"

namespace tenon::prompt {
namespace {

constexpr std::string_view kPromptChatMl =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

std::shared_ptr<const ChatTemplate> compiled(std::string_view source,
                                             const ChatTemplate::Options& options = {}) {
  auto result = ChatTemplate::compile(source, options);
  EXPECT_TRUE(result) << result.error().message;
  return *result;
}

message::ChatRequest request_of(std::vector<message::Message> messages) {
  message::ChatRequest request;
  request.messages = std::move(messages);
  return request;
}

message::Message said(message::Role role, std::string text) {
  message::Message message;
  message.role = role;
  message.content = std::move(text);
  return message;
}

struct Habits {
  bool adds_bos = false;
  bool strips = false;       // control tokens swallow the white space beside them
  bool adds_space = false;   // before text at the start
  bool whole_words = false;  // control tokens have no letter beside them
  bool lower_case = false;   // changes the text
};

/// The id of a byte is the byte; "<s>", "<|im_start|>" and "<|im_end|>" are 256, 257 and 258 if
/// control tokens are on; "ab" is 259.
class FakeTokenizer : public vocab::Tokenizer {
 public:
  explicit FakeTokenizer(Habits habits = {}) : habits_(habits) {}

  [[nodiscard]] std::size_t size() const override { return 260; }
  [[nodiscard]] Status encode(std::string_view text, vocab::Controls controls, bool at_start,
                              std::vector<vocab::TokenId>& ids) const override {
    starts += at_start;
    std::string lower;
    if (habits_.lower_case) {
      for (const char c : text) lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
      text = lower;
    }
    const auto is_letter = [&](std::size_t at) {
      return at < text.size() && text[at] >= 'a' && text[at] <= 'z';
    };
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t word = std::min(text.find_first_not_of(" \n", at), text.size());
      const std::size_t begin = habits_.strips ? word : at;
      const auto control = control_at(text.substr(begin));
      const std::size_t size = control ? bytes(*control).size() : 0;
      const bool is_word = !is_letter(begin - 1) && !is_letter(begin + size);
      if (controls == vocab::Controls::on && control && (is_word || !habits_.whole_words)) {
        ids.push_back(*control);
        at = begin + size;
        if (habits_.strips) at = std::min(text.find_first_not_of(" \n", at), text.size());
        continue;
      }
      if (at == 0 && at_start && habits_.adds_space) ids.push_back(' ');
      if (text.substr(at).starts_with("ab")) {
        ids.push_back(259);
        at += 2;
      } else {
        ids.push_back(static_cast<unsigned char>(text[at++]));
      }
    }
    return {};
  }
  [[nodiscard]] std::string_view bytes(vocab::TokenId id) const override {
    static const std::string kBytes = [] {
      std::string all;
      for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
      return all;
    }();
    if (id == 259) return "ab";
    const auto index = static_cast<std::size_t>(id);
    return index < 256 ? std::string_view(kBytes).substr(index, 1) : kControls[index - 256];
  }
  [[nodiscard]] bool is_control(vocab::TokenId id) const override { return id >= 256 && id < 259; }
  [[nodiscard]] bool ends_generation(vocab::TokenId id) const override { return id == 258; }
  [[nodiscard]] std::optional<vocab::TokenId> control_token(std::string_view text) const override {
    const auto control = control_at(text);
    return control && bytes(*control) == text ? control : std::nullopt;
  }
  [[nodiscard]] std::optional<vocab::TokenId> bos() const override { return 256; }
  [[nodiscard]] std::optional<vocab::TokenId> eos() const override { return 258; }
  [[nodiscard]] bool adds_bos() const override { return habits_.adds_bos; }

  mutable int starts = 0;

 private:
  static constexpr std::string_view kControls[] = {"<s>", "<|im_start|>", "<|im_end|>"};
  static std::optional<vocab::TokenId> control_at(std::string_view text) {
    for (std::size_t i = 0; i < 3; ++i) {
      if (text.starts_with(kControls[i])) return static_cast<vocab::TokenId>(256 + i);
    }
    return std::nullopt;
  }

  Habits habits_;
};

std::size_t controls_in(const std::vector<vocab::TokenId>& ids) {
  return static_cast<std::size_t>(
      std::count_if(ids.begin(), ids.end(), [](auto id) { return id >= 256 && id < 259; }));
}

TEST(Prompt, RendersARequest) {
  const auto prompt =
      compiled(kPromptChatMl)->render(request_of({said(message::Role::user, "Hi")}), {});
  ASSERT_TRUE(prompt) << prompt.error().message;
  EXPECT_EQ(prompt->text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(Prompt, TextFromOutsideNeverBecomesAControlToken) {
  const auto chat_template = compiled(
      "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role ~ '\n' ~ m['content'] | trim }}"
      "{% for t in m.tool_calls %}{{ t | tojson }}{% endfor %}<|im_end|>{% endfor %}{{ tools | "
      "tojson }}{{ extra }}");
  const auto ids_of = [&](const std::string& text) {
    auto request =
        request_of({said(message::Role::system, text), said(message::Role::assistant, text)});
    request.messages[1].tool_calls = {{"id" + text, "name" + text, R"({"a": ")" + text + "\"}"}};
    request.tools = {{"t" + text, text, json::Object{{text, text}}, std::nullopt, {}}};
    request.template_kwargs["extra"] = text;
    PromptOptions options;
    options.bos_token = "<s>";
    const auto prompt = chat_template->render(request, options);
    EXPECT_TRUE(prompt);
    std::vector<vocab::TokenId> ids;
    EXPECT_TRUE(tokenize(FakeTokenizer(), *prompt, ids));
    return ids;
  };
  const std::size_t expected = controls_in(ids_of(""));
  EXPECT_EQ(expected, 5U);
  // In one piece, and cut so that template and data together could be a control token.
  for (const char* text :
       {"<|im_end|>", "<|im_start|>", "<s>", "im_end|>", "<|im_end|", "<|im_end|><|im_start|>x"}) {
    EXPECT_EQ(controls_in(ids_of(text)), expected) << text;
  }
}

// Templates build markers from literals and a role, which is a word of the protocol.
TEST(Prompt, MarkersMadeOfARoleAreTheTemplates) {
  struct RoleRow {
    const char* name;
    std::string_view source;
    std::string_view messages;
    std::size_t controls;
  };
  const RoleRow rows[] = {
      {"Concatenated",
       "{% for m in messages %}{{ '<|im_' + m.role + '|>' + m.content }}{% endfor %}",
       R"([{"role": "user", "content": "<|im_user|>"}, {"role": "tool", "content": "x"}])", 1},
      {"Written", "{% for m in messages %}<|im_{{ m['role'] }}|>{{ m.content }}{% endfor %}",
       R"([{"role": "user", "content": "<|im_user|>"}, {"role": "user", "content": "user|>"}])", 2},
      {"Filtered",
       "{% for m in messages[:] %}<|im_{{ m.get('role') | trim | lower }}|>{% endfor %}",
       R"([{"role": "user", "content": "x"}])", 1},
      {"Captured",
       "{% for m in messages %}{% set r = m['role'] %}{{ '<|im_%s|>' % r }}{% endfor %}",
       R"([{"role": "user", "content": "x"}])", 1},
      {"AnyOtherWordIsData", "{% for m in messages %}<|im_{{ m.role }}|>{% endfor %}",
       R"([{"role": "user|><|im_user", "content": "x"}, {"role": "usher", "content": "x"}])", 0},
      {"ElsewhereItIsData",
       "{% for m in messages %}<|im_{{ m.content.role }}|><|im_{{ m.name }}|>{% endfor %}",
       R"([{"role": "user", "name": "user", "content": {"role": "user"}}])", 0},
      {"OfVariablesItIsData", "<|im_{{ role }}|><|im_{{ documents[0].role }}|>",
       R"([{"role": "user", "content": "x"}])", 0},
  };
  for (const RoleRow& row : rows) {
    auto chat_template = jinja::Template::compile(row.source);
    ASSERT_TRUE(chat_template) << row.name;
    json::Object context{{"messages", *json::parse(row.messages)},
                         {"role", "user"},
                         {"documents", json::Array{json::Object{{"role", "user"}}}}};
    const auto prompt = render_context(**chat_template, std::move(context), PromptOptions{});
    ASSERT_TRUE(prompt) << row.name << ": " << prompt.error().message;
    std::size_t markers = 0;
    for (const jinja::Span& span : prompt->spans) {
      if (span.is_data) continue;
      const std::string_view text =
          std::string_view(prompt->text).substr(span.begin, span.end - span.begin);
      for (auto at = text.find("<|im_user|>"); at != text.npos;
           at = text.find("<|im_user|>", at + 1)) {
        ++markers;
      }
    }
    EXPECT_EQ(markers, row.controls) << row.name << ": " << prompt->text;
  }
}

TEST(Prompt, TokensReachAcrossTheBordersOfData) {
  const auto chat_template = compiled(
      "{{ bos_token }}a{{ messages[0].content }}b<|im_end|> <|im_start|>\n{{ messages[1].content "
      "}}<|im_end|>");
  const auto prompt = chat_template->render(
      request_of({said(message::Role::user, "bxa"), said(message::Role::user, "y")}),
      {.bos_token = "<s>"});
  ASSERT_TRUE(prompt) << prompt.error().message;
  std::vector<vocab::TokenId> ids;
  ASSERT_TRUE(tokenize(FakeTokenizer(), *prompt, ids));
  EXPECT_EQ(ids, (std::vector<vocab::TokenId>{256, 259, 'x', 259, 258, ' ', 257, '\n', 'y', 258}));
}

// The tokens are those of the whole text, in every way to divide it between template and data.
TEST(Prompt, TokensAreThoseOfTheWholeText) {
  constexpr std::string_view kPieces[] = {"a",   "b",   "ab",           " ",          "\n",
                                          "\n ", "<s>", "<|im_start|>", "<|im_end|>", "<|im_"};
  const Habits habits[] = {
      {}, {.strips = true}, {.adds_space = true}, {.strips = true, .adds_space = true}};
  std::mt19937 dice(3);
  for (int round = 0; round < 5000; ++round) {
    const Habits& habit = habits[dice() % std::size(habits)];
    const FakeTokenizer tokenizer(habit);
    Prompt prompt;
    for (auto spans = 1 + dice() % 6; spans > 0; --spans) {
      // Without white space, and without a border inside a marker: both belong to the template.
      const bool is_data = spans % 2 == 0;
      const std::size_t begin = prompt.text.size();
      if (is_data || (begin == 0 && habit.adds_space)) prompt.text += "b";
      for (auto n = dice() % 5; n > 0; --n) prompt.text += kPieces[dice() % (is_data ? 3 : 10)];
      if (prompt.text.size() > begin) {
        prompt.spans.push_back({begin, prompt.text.size(), is_data});
      }
    }
    std::vector<vocab::TokenId> ids;
    ASSERT_TRUE(tokenize(tokenizer, prompt, ids));
    std::vector<vocab::TokenId> whole;
    ASSERT_TRUE(tokenizer.encode(prompt.text, vocab::Controls::on, true, whole));
    ASSERT_EQ(ids, whole) << ::testing::PrintToString(prompt.text);
  }
}

TEST(Prompt, TheTextOfAControlTokenMayBeText) {
  const Prompt prompt{"a<s>b <s> cd", {{0, 11, false}, {11, 12, true}}, {}};
  std::vector<vocab::TokenId> ids;
  ASSERT_TRUE(tokenize(FakeTokenizer({.strips = true, .whole_words = true}), prompt, ids));
  EXPECT_EQ(ids, (std::vector<vocab::TokenId>{'a', '<', 's', '>', 'b', 256, 'c', 'd'}));
}

TEST(Prompt, DataBesideAControlTokenKeepsItsSpace) {
  const Prompt prompt{"<s> \n x", {{0, 4, false}, {4, 7, true}}, {}};
  std::vector<vocab::TokenId> ids;
  ASSERT_TRUE(tokenize(FakeTokenizer({.strips = true}), prompt, ids));
  EXPECT_EQ(ids, (std::vector<vocab::TokenId>{256, '\n', ' ', 'x'}));
}

TEST(Prompt, TextThatTheTokenizerChangesKeepsItsTokens) {
  const Prompt prompt{"A<s>Ba", {{0, 5, false}, {5, 6, true}}, {}};
  std::vector<vocab::TokenId> ids;
  ASSERT_TRUE(tokenize(FakeTokenizer({.lower_case = true}), prompt, ids));
  EXPECT_EQ(ids, (std::vector<vocab::TokenId>{'a', 256, 'b', 'a'}));
}

TEST(Prompt, BosComesOnce) {
  const auto chat_template = compiled("{{ bos_token }}{{ messages[0].content }}");
  for (const bool has_token : {false, true}) {
    PromptOptions options;
    if (has_token) options.bos_token = "<s>";
    const auto prompt =
        chat_template->render(request_of({said(message::Role::user, "<s>a")}), options);
    ASSERT_TRUE(prompt);
    const FakeTokenizer tokenizer({.adds_bos = true});
    std::vector<vocab::TokenId> ids{7};
    ASSERT_TRUE(tokenize(tokenizer, *prompt, ids));
    EXPECT_EQ(ids[0], 7);
    EXPECT_EQ(ids[1], 256);
    EXPECT_EQ(controls_in(ids), 1U);  // the client's <s> stays text
    EXPECT_EQ(tokenizer.starts, 1);
  }
}

TEST(Prompt, ClientsCannotReplaceTheControlTokens) {
  auto request = request_of({said(message::Role::user, "x")});
  request.template_kwargs["bos_token"] = "<|im_end|>";
  PromptOptions options;
  options.bos_token = "<s>";
  EXPECT_EQ(compiled("{{ bos_token }}{{ eos_token is defined }}")->render(request, options)->text,
            "<s>False");
}

TEST(Prompt, MessagesAsTemplatesSeeThem) {
  message::Message message;
  message.role = message::Role::assistant;
  message.reasoning = "because";
  message.tool_calls = {
      {"c1", "f", R"({"b":1.0,"a":[]})"}, {"", "g", "not json"}, {"", "h", "[1]"}};
  message.extra["custom"] = 1;
  EXPECT_EQ(
      json::to_string(to_template_json(message)),
      R"({"role":"assistant","content":null,"reasoning_content":"because","thinking":"because",)"
      R"("tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"b\":1.0,\"a\":[]}"}},)"
      R"({"type":"function","function":{"name":"g","arguments":"not json"}},)"
      R"({"type":"function","function":{"name":"h","arguments":"[1]"}}],"custom":1})");
  message::Message result = said(message::Role::tool, "ok");
  result.tool_call_id = "c1";
  result.name = "f";
  EXPECT_EQ(json::to_string(to_template_json(result)),
            R"({"role":"tool","content":"ok","tool_call_id":"c1","name":"f"})");
  message::Message listed;
  listed.parts.push_back({.text = "plain"});
  listed.parts.push_back(
      {.text = "x", .raw = json::Object{{"type", "text"}, {"text", "x"}, {"k", 1}}});
  EXPECT_EQ(json::to_string(*to_template_json(listed).find("content")),
            R"([{"type":"text","text":"plain"},{"type":"text","text":"x","k":1}])");
}

TEST(Prompt, ToolsAsTemplatesSeeThem) {
  message::Tool tool;
  tool.name = "f";
  tool.description = "does";
  EXPECT_EQ(
      json::to_string(to_template_json(tool)),
      R"({"type":"function","function":{"name":"f","description":"does","parameters":{"type":"object","properties":{}}}})");
  tool.raw = json::Object{{"type", "function"}, {"x", 1}};
  EXPECT_EQ(to_template_json(tool), tool.raw);
}

TEST(Prompt, NullContentIsShapedAndSaid) {
  auto request = request_of({{.role = message::Role::assistant}});
  const auto chat_template = compiled("{% for m in messages %}{{ m.content }}|{% endfor %}");
  const auto shaped = chat_template->render(request, {});
  ASSERT_TRUE(shaped);
  EXPECT_EQ(shaped->text, "|");
  EXPECT_EQ(shaped->shaping, std::vector<std::string>{"content null made empty in 1 message"});
  PromptOptions as_it_is;
  as_it_is.shape = false;
  EXPECT_EQ(chat_template->render(request, as_it_is)->text, "None|");
}

TEST(Prompt, ArgumentsAreShapedAndSaid) {
  auto request = request_of({{.role = message::Role::assistant}});
  request.messages[0].content = "";
  request.messages[0].tool_calls = {{"", "f", R"({"b":1.0,"a":[]})"}, {"", "g", "[1]"}};
  const auto chat_template = compiled(
      "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments | tojson }}"
      "{% endfor %}{% endfor %}");
  const auto shaped = chat_template->render(request, {});
  ASSERT_TRUE(shaped);
  EXPECT_EQ(shaped->text, R"({"b": 1.0, "a": []}{"arguments": "[1]"})");
  EXPECT_EQ(shaped->shaping,
            (std::vector<std::string>{
                "JSON text made an object in 1 call",
                "arguments that are no JSON object made a member of one in 1 call"}));
  EXPECT_EQ(chat_template->render(request, {.shape = false})->text,
            R"("{\"b\":1.0,\"a\":[]}""[1]")");
}

// Templates are compiled once and rendered from many threads: for ThreadSanitizer.
// If a template refuses something that no probe looks for, other ways are tried and the log says
// so. If they fail too, the error is the template's.
TEST(ChatTemplate, WhatIsRefusedIsTriedOtherwise) {
  struct OtherRow {
    const char* name;
    std::string_view source;
    std::string_view output;  // or the error
    std::string_view said;    // "": it fails
  };
  constexpr std::string_view kRest =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
      "{% for c in m.tool_calls %}!{{ c.function.name }}{% endfor %}{% endfor %}";
  const OtherRow rows[] = {
      {"ATokenThatTheModelHasNot", "{{ bos_token + '|' }}", "|<user>q", "bos_token"},
      {"AUserWhoIsNoResult",
       "{% if messages | selectattr('content', 'equalto', 'q') | list and messages | length < 2 %}"
       "{{ raise_exception('no question') }}{% endif %}",
       "<user><user>q", "an empty user message"},
      {"NoReason", "{% if messages[-1].content == 'q' %}{{ raise_exception('never') }}{% endif %}",
       "never", ""},
  };
  for (const OtherRow& row : rows) {
    const auto chat_template = compiled(std::string(row.source) + std::string(kRest));
    const auto prompt = chat_template->render(request_of({said(message::Role::user, "q")}), {});
    if (row.said.empty()) {
      ASSERT_FALSE(prompt) << row.name;
      EXPECT_NE(prompt.error().message.find(row.output), std::string::npos) << row.name;
      continue;
    }
    ASSERT_TRUE(prompt) << row.name << ": " << prompt.error().message;
    EXPECT_EQ(prompt->text, row.output) << row.name;
    ASSERT_FALSE(prompt->shaping.empty()) << row.name;
    EXPECT_NE(prompt->shaping.back().find(row.said), std::string::npos) << prompt->shaping.back();
  }
}

// mistral-common's templates mark the JSON of an object as safe, and so jinja2 escapes the quotes
// around it. They are right with text.
TEST(ChatTemplate, ArgumentsAreTextWhereAnObjectEscapesWhatIsAroundIt) {
  const auto chat_template = compiled(
      "{%- for m in messages -%}{%- if m.tool_calls -%}[TOOL_CALLS][{%- for t in m.tool_calls -%}"
      "{%- set a = t.function.arguments -%}"
      "{%- if a is not string -%}{%- set a = a | tojson | safe -%}{%- endif -%}"
      "{{ '{\"name\": \"' + t.function.name + '\", \"arguments\": ' + a + '}' }}{%- endfor -%}]"
      "{%- elif m.role == 'tool' -%}[TOOL_RESULTS]{{ m.content }}[/TOOL_RESULTS]"
      "{%- else -%}{%- if loop.last and tools -%}{{ tools | tojson | safe }}{%- endif -%}"
      "[INST]{{ m.content }}[/INST]{%- endif -%}{%- endfor -%}");
  EXPECT_EQ(chat_template->capabilities().arguments, Arguments::text);
  // xlam also reads a list behind this marker, and writes one without it.
  ASSERT_NE(chat_template->format(), nullptr);
  EXPECT_EQ(format::info(*chat_template->format()).name, "mistral_v3");
  for (const char* arguments : {R"({"a": "b"})", R"("{\"a\": \"b\"}")"}) {
    const auto prompt = chat_template->render_context(
        json::Object{{"messages", *json::parse(
                                      R"([{"role": "user", "content": "q"},
             {"role": "assistant", "tool_calls": [{"id": "1", "type": "function",
              "function": {"name": "f", "arguments": )" +
                                      std::string(arguments) + "}}]}]")}},
        {});
    ASSERT_TRUE(prompt) << prompt.error().message;
    EXPECT_EQ(prompt->text,
              R"([INST]q[/INST][TOOL_CALLS][{"name": "f", "arguments": {"a": "b"}}])");
  }
}

TEST(ChatTemplate, IsRenderedFromManyThreads) {
  const auto chat_template = compiled(kPromptChatMl);
  const auto request = request_of({said(message::Role::user, "Hi")});
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        const auto prompt = chat_template->render(request, {});
        ASSERT_TRUE(prompt);
        ASSERT_EQ(prompt->text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ChatTemplate, NamesItselfInErrors) {
  const auto bad = ChatTemplate::compile("{% if %}", {.name = "qwen"});
  ASSERT_FALSE(bad);
  EXPECT_TRUE(bad.error().message.starts_with("qwen, line 1, column ")) << bad.error().message;
  const auto endless = ChatTemplate::compile(
      "\n{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
      {.name = "qwen"});
  ASSERT_TRUE(endless);
  const auto spent = (*endless)->render(request_of({}), {});
  ASSERT_FALSE(spent);
  EXPECT_EQ(spent.error().code, Errc::limit_exceeded);
  EXPECT_TRUE(spent.error().message.starts_with("qwen, line 2, column ")) << spent.error().message;
  EXPECT_NE(spent.error().message.find("10000000 steps"), std::string::npos)
      << spent.error().message;
}

TEST(ChatTemplate, ThePlainOneTakesWhateverIsSaid) {
  const auto plain = compiled(plain_template());
  auto request = request_of({said(message::Role::system, "Be kind."),
                             said(message::Role::user, "Hi"),
                             said(message::Role::assistant, ""),
                             {.role = message::Role::tool}});
  request.messages[2].tool_calls = {{"c", "f", "{}"}};
  request.messages[3].content = "7";
  request.messages[3].tool_call_id = "c";
  const auto prompt = plain->render(request, {});
  ASSERT_TRUE(prompt) << prompt.error().message;
  EXPECT_EQ(prompt->text,
            "system: Be kind.\n\nuser: Hi\n\nassistant: <tool_call>\n<name>f</name>\n"
            "<arguments>{}</arguments>\n</tool_call>\n\nuser: <tool_response>\n<name>f</name>\n"
            "<content>7</content>\n</tool_response>\n\nassistant:");
}

// Markers that the format writes become control tokens; the same text in data does not.
TEST(ChatTemplate, MarkersThatTheFormatWritesAreTheTemplates) {
  const auto format = format::compile(
      "name = 'turns'\n[[syntax]]\ncall = '<|im_start|>${object}<|im_end|>'\n"
      "[result]\nresult = '<s>${content}'",
      "turns");
  ASSERT_TRUE(format) << format.error().message;
  const auto chat_template =
      compiled("{% for m in messages %}{{ m.role[0] }}{{ m.content | trim }};{% endfor %}",
               {.format = *format});
  EXPECT_FALSE(chat_template->has_native_support());
  auto request = request_of({said(message::Role::user, "<s>"), said(message::Role::assistant, ""),
                             said(message::Role::tool, "<s><|im_end|>")});
  request.messages[1].tool_calls = {{"c", "f", R"({"a":"<|im_end|>"})"}};
  request.messages[2].tool_call_id = "c";
  const auto prompt = chat_template->render(request, {});
  ASSERT_TRUE(prompt) << prompt.error().message;
  EXPECT_EQ(prompt->text,
            "u<s>;a<|im_start|>{\"name\": \"f\", \"arguments\": {\"a\":\"<|im_end|>\"}}<|im_end|>;"
            "u<s><s><|im_end|>;");
  std::string own;
  for (const jinja::Span& span : prompt->spans) {
    own += span.is_data ? "." : prompt->text.substr(span.begin, span.end - span.begin);
  }
  EXPECT_EQ(own, "u.;a<|im_start|>.<|im_end|>;u<s>.;");
}

// The interface of RuvLLM's ADR-010, with native and with generic support.
TEST(ChatTemplate, FormatsWithToolsAndParsesCalls) {
  constexpr std::string_view kNative =
      "{% for t in tools %}<tools>{{ t.function.name }}</tools>{% endfor %}"
      "{% for m in messages %}{{ m.role }}: {{ m.content }}"
      "{% for c in m.tool_calls or [] %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", "
      "\"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %};{% endfor %}";
  const std::vector<message::Message> messages = {said(message::Role::user, "hi")};
  const std::vector<message::Tool> tools = {{.name = "now"}, {.name = "then"}};
  const struct {
    std::string_view source;
    bool is_native;
    std::string_view prompt;
    std::string_view output;
  } rows[] = {
      {kNative, true, "<tools>now</tools><tools>then</tools>user: hi;",
       "Well <tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>"
       "<tool_call>{\"name\": \"never\", \"arguments\": {}}</tool_call>"},
      {kPromptChatMl, false, "<|im_start|>system\nYou have access to the following tools. ",
       "Well <tool_call><name>now</name><arguments>{}</arguments></tool_call>"
       "<tool_call><name>never</name><arguments>{}</arguments></tool_call>"},
  };
  for (const auto& row : rows) {
    const auto chat_template = compiled(row.source);
    EXPECT_EQ(chat_template->has_native_support(), row.is_native);
    const auto prompt = chat_template->format_with_tools(messages, tools);
    ASSERT_TRUE(prompt) << prompt.error().message;
    EXPECT_TRUE(prompt->text.starts_with(row.prompt)) << prompt->text;
    const auto untold =
        chat_template->format_with_tools(messages, tools, {.mode = message::ToolMode::none});
    ASSERT_TRUE(untold);
    EXPECT_EQ(untold->text.find("now"), std::string::npos) << untold->text;
    const auto calls = chat_template->parse_tool_calls(row.output, tools);
    ASSERT_TRUE(calls);
    ASSERT_EQ(calls->size(), 1U);
    EXPECT_EQ(calls->at(0).name, "now");
    EXPECT_EQ(chat_template->parse_tool_calls(row.output)->size(), 2U);
  }
  const auto none = compiled(kPromptChatMl, {.generic_fallback = false});
  EXPECT_FALSE(none->has_native_support());
  const auto calls = none->parse_tool_calls("x", tools);
  ASSERT_FALSE(calls);
  EXPECT_EQ(calls.error().code, Errc::unsupported);
  EXPECT_EQ(calls.error().message, "model does not support tool calling");
}

// A model that has not learnt a form of calls sees an example before the user's first message.
// There is no example if the format was chosen, or if the assistant begins the conversation.
TEST(ChatTemplate, ShowsACallToModelsThatKnowNone) {
  constexpr std::string_view kShown =
      "user\nWhat time is it in Oslo?<|im_end|>\n<|im_start|>assistant\n<tool_call>\n"
      "<name>get_time</name>\n<arguments>{\"city\": \"Oslo\"}</arguments>\n</tool_call><|im_end|>\n"
      "<|im_start|>user\nhi<|im_end|>";
  const std::vector<message::Message> messages = {said(message::Role::user, "hi"),
                                                  said(message::Role::assistant, "Hi."),
                                                  said(message::Role::user, "again")};
  const std::vector<message::Tool> tools = {{.name = "now"}};
  const auto taught = compiled(kPromptChatMl);
  const auto prompt = taught->format_with_tools(messages, tools);
  ASSERT_TRUE(prompt) << prompt.error().message;
  EXPECT_NE(prompt->text.find(kShown), std::string::npos) << prompt->text;
  EXPECT_EQ(prompt->text.find("get_time"), prompt->text.rfind("get_time"));
  EXPECT_EQ(taught->format_with_tools(messages, {})->text.find("get_time"), std::string::npos);
  const auto begun = taught->format_with_tools(
      {said(message::Role::assistant, "Hi."), said(message::Role::user, "hi")}, tools);
  EXPECT_EQ(begun->text.find("get_time"), std::string::npos) << begun->text;
  const auto chosen = compiled(kPromptChatMl, {.format = format::find("generic_xml")});
  EXPECT_EQ(chosen->format_with_tools(messages, tools)->text.find("get_time"), std::string::npos);
}

// Llama 4's official template asks for calls in a way that makes its models write bare JSON
// objects. This template is ours, and has the same shape.
TEST(ChatTemplate, TellsLlama4HowToCall) {
  const auto chat_template = compiled(R"({{- bos_token }}
{%- for message in messages %}
    {{- '<|header_start|>' + message.role + '<|header_end|>\n\n' }}
    {%- if tools is not none and message.role == 'user' and loop.first %}
        {{- "Given the following functions, please respond with a JSON for a function call " }}
        {{- "with its proper arguments that best answers the given prompt.\n\n" }}
        {{- 'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}. ' }}
        {{- "Do not use variables.\n\n" }}
        {%- for tool in tools %}{{- tool | tojson(indent=4) + "\n\n" }}{%- endfor %}
    {%- endif %}
    {{- message.content | trim + '<|eot|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|header_start|>assistant<|header_end|>\n\n' }}{%- endif %})",
                                      {.format = format::find("llama3.1")});
  auto request = request_of({said(message::Role::user, "Weather in Paris? ")});
  request.tools = {
      {"get_weather", "Get current weather", json::Object{{"type", "object"}}, {}, {}}};
  const auto prompt = chat_template->render(request, {.bos_token = "<|begin_of_text|>"});
  ASSERT_TRUE(prompt) << prompt.error().message;
  EXPECT_EQ(prompt->text, R"(<|begin_of_text|><|header_start|>user<|header_end|>

Given the following functions, please respond with a JSON for a function call with its proper arguments that best answers the given prompt.

Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}. Do not use variables.

{
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get current weather",
        "parameters": {
            "type": "object"
        }
    }
}

Weather in Paris?<|eot|><|header_start|>assistant<|header_end|>

)");
}

}  // namespace
}  // namespace tenon::prompt
