#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/format/registry.h"
#include "tenon/jinja/template.h"
#include "tenon/prompt/chat_template.h"
#include "tenon/prompt/prompt.h"
#include "tenon/prompt/reference_for_test.h"

/// Compares what templates render for conversations with transformers, and checks that no byte of a
/// conversation counts as the template's. Runs over our own templates, and over the large set of
/// real ones.
namespace tenon::prompt {
namespace {

struct Source {
  std::shared_ptr<const jinja::Template> compiled;  // null: does not compile
  std::shared_ptr<const ChatTemplate> chat;
  json::Object tokens;
};

class Goldens : public testing::TestWithParam<Data> {
 protected:
  void SetUp() override {
    if (!is_there(GetParam())) GTEST_SKIP() << why_skipped(GetParam());
  }

  /// A set's templates and conversations. Hundreds of templates are compiled once for all tests.
  struct References {
    std::map<std::string, Source> sources;
    std::map<std::string, json::Object> conversations;
  };
  static const References& references() {
    static std::map<Data, References> made;
    const auto [found, is_new] = made.try_emplace(GetParam());
    if (!is_new || !is_there(GetParam())) return found->second;
    for (const auto& [name, reference] : reference_templates(GetParam())) {
      Source source;
      const auto compiled = jinja::Template::compile(reference.source);
      if (compiled) source.compiled = *compiled;
      const ChatTemplate::Options options{
          .name = name, .bos_token = reference.bos_token, .eos_token = reference.eos_token};
      if (auto chat = ChatTemplate::compile(reference.source, options)) source.chat = *chat;
      if (!reference.bos_token.empty()) source.tokens["bos_token"] = reference.bos_token;
      if (!reference.eos_token.empty()) source.tokens["eos_token"] = reference.eos_token;
      found->second.sources[name] = std::move(source);
    }
    found->second.conversations = reference_conversations(GetParam());
    return found->second;
  }

  /// How many there must be at least, in our own set and in the large one.
  static std::size_t least(std::size_t own, std::size_t large) {
    return GetParam() == Data::own ? own : large;
  }

  [[nodiscard]] json::Object context_of(const Source& source,
                                        const std::string& conversation) const {
    json::Object context = conversations_.at(conversation);
    for (const json::Member& token : source.tokens) context[token.key] = token.value;
    return context;
  }

  const std::map<std::string, Source>& sources_ = references().sources;
  const std::map<std::string, json::Object>& conversations_ = references().conversations;
  PromptOptions options_{.now_unix_s = 1795176000};  // 2026-11-20 12:00:00
};

TEST_P(Goldens, AreRenderedToTheByte) {
  std::size_t count = 0;
  for (const json::Value& golden : reference_rows(GetParam(), "templates/goldens_public.jsonl")) {
    ++count;
    const std::string& name = *golden.find("template")->if_string();
    const std::string& conversation = *golden.find("conv")->if_string();
    const Source& source = sources_.at(name);
    const bool renders = *golden.find("ok")->if_bool();
    if (!source.compiled) {
      EXPECT_FALSE(renders) << name << " does not compile";
      continue;
    }
    const auto prompt =
        render_context(*source.compiled, context_of(source, conversation), options_);
    ASSERT_EQ(prompt.has_value(), renders)
        << name << " over " << conversation << ": " << (prompt ? "" : prompt.error().message);
    if (renders) {
      ASSERT_EQ(prompt->text, *golden.find("output")->if_string())
          << name << " over " << conversation;
    }
  }
  EXPECT_GT(count, least(300, 10'000));
}

// The default limits have room: every template that renders needs at most a fiftieth of them.
TEST_P(Goldens, AreFarFromTheLimits) {
  const jinja::RenderOptions usual;
  const jinja::RenderOptions few{.max_steps = usual.max_steps / 50,
                                 .max_output_bytes = usual.max_output_bytes / 50,
                                 .max_allocated_bytes = usual.max_allocated_bytes / 50,
                                 .max_call_depth = usual.max_call_depth / 10,
                                 .now_unix_s = options_.now_unix_s};
  std::size_t number = 0;
  for (const auto& [name, source] : sources_) {
    if (!source.compiled) continue;
    for (const auto& [id, unused] : conversations_) {
      if (!is_long_test() && number++ % 4 != 0) continue;
      const auto rendered = source.compiled->render(context_of(source, id), few);
      EXPECT_TRUE(rendered || rendered.error().code != Errc::limit_exceeded)
          << name << " over " << id << ": " << rendered.error().message;
    }
  }
}

// Puts U+E000, which no template contains, behind every string of a conversation that is not a
// keyword.
constexpr std::string_view kMark = "\xEE\x80\x80";

void mark(json::Value& value, std::string_view key) {
  if (std::string* text = value.if_string()) {
    if (key != "role" && key != "type") text->append(kMark);
  } else if (json::Array* array = value.if_array()) {
    for (json::Value& item : *array) mark(item, key);
  } else if (json::Object* object = value.if_object()) {
    const json::Object before = *object;
    for (const json::Member& member : before) mark(*object->find(member.key), member.key);
  }
}

TEST_P(Goldens, NoByteOfTheConversationCountsAsTheTemplates) {
  std::size_t marks = 0;
  for (const auto& [name, source] : sources_) {
    if (!source.compiled) continue;
    for (const auto& [id, conversation] : conversations_) {
      json::Object context = conversation;
      for (const json::Member& member : conversation) {
        mark(*context.find(member.key), member.key);
      }
      for (const json::Member& token : source.tokens) context[token.key] = token.value;
      const auto prompt = render_context(*source.compiled, std::move(context), options_);
      if (!prompt) continue;
      for (const jinja::Span& span : prompt->spans) {
        const bool is_marked =
            std::string_view(prompt->text).substr(span.begin, span.end - span.begin).find(kMark) !=
            std::string_view::npos;
        marks += is_marked;
        ASSERT_TRUE(span.is_data || !is_marked) << name << " over " << id << " at " << span.begin;
      }
    }
  }
  EXPECT_GT(marks, least(800, 10'000));
}

// --- shaping

// The capabilities of each template are those that the reference found. Names are left out where
// the reference tried `content: null`, or looked only for an error.
TEST_P(Goldens, CapabilitiesAreThoseOfTheReference) {
  std::size_t wrong = 0;
  std::size_t count = 0;
  for (const json::Value& row : reference_rows(GetParam(), "templates/format_of_template.jsonl")) {
    const auto source = sources_.find(*row.find("template")->if_string());
    if (source == sources_.end() || !source->second.chat) continue;
    const Capabilities& found = source->second.chat->capabilities();
    const std::pair<const char*, bool> facts[] = {
        {"supports_tools", found.tools},
        {"supports_calls_in_history", found.calls},
        {"supports_parallel", found.parallel_calls},
        {"supports_system", found.system},
        {"thinking_switch", found.thinking_switch},
    };
    for (const auto& [name, is_found] : facts) {
      ++count;
      const bool differs = is_found != *row.find(name)->if_bool();
      wrong += differs;
      if (differs) std::cout << source->first << ": " << name << " is " << is_found << '\n';
    }
  }
  EXPECT_GT(count, least(60, 800));
  // Four are Kimi K2, which needs the superset that the reference lacks; idefics3 and three
  // Granites have other names for the switch.
  EXPECT_LE(wrong, least(0, 8));
}

json::Object cut_off(const json::Object& context, std::size_t messages) {
  json::Object begun = context;
  json::Array& list = *begun.find("messages")->if_array();
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(messages), list.end());
  begun["add_generation_prompt"] = false;
  return begun;
}

// If a template lets a prompt begin with the prompt of the turn before, shaping does not change
// that. Nearly every conversation has a prompt.
TEST_P(Goldens, ShapedTurnsBeginAsTheTurnBefore) {
  std::size_t turns = 0;
  std::size_t kept = 0;
  std::size_t refused = 0;
  std::map<std::string, std::size_t> broken;
  std::size_t number = 0;
  for (const auto& [name, source] : sources_) {
    if (!source.chat) continue;
    for (const auto& [id, unused] : conversations_) {
      if (!is_long_test() && GetParam() == Data::large && number++ % 4 != 0) continue;
      const json::Object whole = context_of(source, id);
      const json::Array& messages = *whole.find("messages")->if_array();
      PromptOptions plain = options_;
      plain.shape = false;
      for (std::size_t at = messages.size(); at-- > 1;) {
        const json::Value* role = messages[at].find("role");
        if (role == nullptr || *role != json::Value("assistant")) continue;
        const auto starts_so = [&](const PromptOptions& options) -> std::optional<bool> {
          const auto before = source.chat->render_context(cut_off(whole, at), options);
          const auto after = source.chat->render_context(cut_off(whole, messages.size()), options);
          if (!before || !after) return std::nullopt;
          return after->text.starts_with(before->text);
        };
        const auto shaped = starts_so(options_);
        ++turns;
        refused += !shaped.has_value();
        kept += shaped.value_or(false);
        if (shaped && !*shaped && starts_so(plain).value_or(false)) ++broken[name];
        break;  // one turn of each conversation
      }
    }
  }
  EXPECT_GT(turns, least(150, is_long_test() ? 9'000 : 2'000));
  EXPECT_GT(kept, turns * 9 / 10);
  EXPECT_LT(refused, turns / 30);
  // These templates write a message in a way that depends on later messages.
  broken.erase("hfjs-meta-llama-Llama-Guard-3-11B-Vision");
  broken.erase("gguf-deepseek-r1-8b");
  broken.erase("lc-deepseek-ai-DeepSeek-R1-Distill-Llama-8B");
  EXPECT_TRUE(broken.empty()) << testing::PrintToString(broken);
}

TEST_P(Goldens, TheRuleOfLlama31) {
  const Source& source = sources_.at(
      GetParam() == Data::own ? "headers-one-call" : "lc-meta-llama-Llama-3.1-8B-Instruct");
  json::Object context = context_of(source, "par_two");
  const auto prompt = source.chat->render_context(context, options_);
  ASSERT_TRUE(prompt) << prompt.error().message;
  const json::Array& messages = *context.find("messages")->if_array();
  const std::string merged =
      "<|start_header_id|>user<|end_header_id|>\n\nTool 'get_weather' returned: " +
      *messages[2].find("content")->if_string() +
      "\nTool 'get_weather' returned: " + *messages[3].find("content")->if_string() + "<|eot_id|>";
  EXPECT_NE(prompt->text.find(merged), std::string::npos) << prompt->text;
  EXPECT_EQ(prompt->text.find("ipython<|end_header_id|>"), std::string::npos);
  // A single call stays native.
  const auto single = source.chat->render_context(context_of(source, "call_single"), options_);
  ASSERT_TRUE(single);
  EXPECT_NE(single->text.find("<|start_header_id|>ipython<|end_header_id|>"), std::string::npos);
}

// --- tools for every model

// Which families of models support tools themselves, and which learn calls from the prompt
// (docs/templates.md). CodeLlama has Llama 2's template.
TEST_P(Goldens, TheModelMatrix) {
  struct Row {
    std::string_view family;
    std::string_view name;  // of a template
    bool is_native;
  };
  const std::vector<Row> own = {
      {"calls as JSON between tags", "chatml-tools", true},
      {"one call behind a header", "headers-one-call", true},
      {"calls in brackets", "inst-brackets", true},
      {"system in brackets", "inst-system", false},
      {"no system", "turns-model", false},
      {"nothing but roles", "chatml-plain", false},
  };
  const std::vector<Row> large = {
      {"Llama 3.1+", "lc-meta-llama-Llama-3.1-8B-Instruct", true},
      {"Llama 3.2", "lc-meta-llama-Llama-3.2-3B-Instruct", true},
      {"Llama 3.0 and earlier", "gguf-llama3-8b", false},
      {"Llama 2 and CodeLlama", "gguf-llama2-7b", false},
      {"Mistral 7B+", "lc-mistralai-Mistral-Nemo-Instruct-2407", true},
      {"Mistral before tools", "cjz-mistral-instruct", false},
      {"Qwen 2.5+", "lc-Qwen-Qwen2.5-7B-Instruct", true},
      {"Qwen 2", "gguf-qwen2-0.5b", false},
      {"Custom", "olli-chatml-8", false},
  };
  for (const Row& row : GetParam() == Data::own ? own : large) {
    SCOPED_TRACE(row.family);
    const auto found = sources_.find(std::string(row.name));
    ASSERT_NE(found, sources_.end()) << row.name;
    const ChatTemplate& chat = *found->second.chat;
    EXPECT_EQ(chat.has_native_support(), row.is_native);
    ASSERT_NE(chat.format(), nullptr);
    EXPECT_EQ(chat.format() == format::fallback(), !row.is_native);
  }
}

// With every template the model reads the tool, the calls (if more than one call is allowed) and
// their results.
TEST_P(Goldens, NothingOfAToolTurnIsLost) {
  json::Value messages = *json::parse(
      R"([{"role": "user", "content": "how is it?"},)"
      R"({"role": "assistant", "content": "", "tool_calls": [)"
      R"({"id": "call00001", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Parisville"}}},)"
      R"({"id": "call00002", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Romeburg"}}}]},)"
      R"({"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": "sunnyish"},)"
      R"({"role": "tool", "tool_call_id": "call00002", "name": "get_weather", "content": "rainyish"}])");
  const json::Value tools = *json::parse(
      R"([{"type": "function", "function": {"name": "get_weather", "description": "Says how it is",)"
      R"( "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "where"}}, "required": ["city"]}}}])");
  std::map<std::string, std::string> lost;
  std::size_t taught = 0;
  // Some templates leave out text beside calls, but none leaves out the calls.
  for (const std::string_view said : {"", "Let me see."}) {
    messages.if_array()->at(1).if_object()->set("content", said);
    for (const auto& [name, source] : sources_) {
      if (!source.chat) continue;
      json::Object context{
          {"messages", messages}, {"tools", tools}, {"add_generation_prompt", true}};
      for (const json::Member& token : source.tokens) context[token.key] = token.value;
      const auto prompt = source.chat->render_context(std::move(context), options_);
      if (!prompt) {
        lost[name] = prompt.error().message;
        continue;
      }
      taught += !source.chat->has_native_support();
      const Capabilities& can = source.chat->capabilities();
      const bool takes_one = can.calls && !can.parallel_calls && source.chat->has_native_support();
      for (const std::string_view word : {"get_weather", "sunnyish", "rainyish"}) {
        if (prompt->text.find(word) == std::string::npos) lost[name] += std::string(word) + " ";
      }
      for (const std::string_view word : {"Parisville", "Romeburg"}) {
        if (!takes_one && prompt->text.find(word) == std::string::npos)
          lost[name] += std::string(word) + " ";
      }
    }
  }
  EXPECT_GE(taught, least(6, 50));
  // Templates that judge conversations and do not write assistant messages, and templates that
  // expect tools under another name.
  for (const char* name :
       {"gguf-granite3-guardian-2b", "gguf-shieldgemma-27b", "gguf-firefunction-v2-70b",
        "lc-fireworks-ai-llama-3-firefunction-v2", "hfjs-fireworks-ai-firefunction-v1"}) {
    lost.erase(name);
  }
  EXPECT_TRUE(lost.empty()) << testing::PrintToString(lost);
}

// Histories as clients send them: none fails, and their text is in the prompt.
TEST_P(Goldens, HistoriesThatClientsSendReachTheModel) {
  struct HistoryCase {
    std::string_view name;
    std::string_view messages;  // CALL, OTHER, RESULT and AGAIN stand for the messages below
    std::vector<std::string> words;
  };
  const std::pair<std::string_view, std::string_view> parts[] = {
      {"CALL",
       R"({"role": "assistant", "content": "", "tool_calls": [{"id": "call_k1", "type": "function", "function": {"name": "find_book", "arguments": "{\"title\": \"Emma\"}"}}]})"},
      {"OTHER",
       R"({"role": "assistant", "content": "", "tool_calls": [{"id": "call_k2", "type": "function", "function": {"name": "find_book", "arguments": "{\"title\": \"Ivanhoe\"}"}}]})"},
      {"RESULT", R"({"role": "tool", "tool_call_id": "call_k1", "content": "resultone"})"},
      {"AGAIN", R"({"role": "tool", "tool_call_id": "call_k2", "content": "resulttwo"})"},
      {"QUESTION", R"({"role": "user", "content": "questionone"})"},
      {"NEXT", R"({"role": "user", "content": "questiontwo"})"},
      {"ANSWER", R"({"role": "assistant", "content": "answerone"})"},
      {"EMPTY", R"({"role": "assistant", "content": ""})"},
      {"SYSTEM", R"({"role": "system", "content": "systemone"})"},
      {"GONE", R"({"role": "tool", "tool_call_id": "call_gone_17", "content": "resultgone"})"},
      {"TOOLISH", R"({"role": "user", "content": "<tool_response>\nresultone\n</tool_response>"})"},
  };
  const HistoryCase cases[] = {
      {"TextThenCalls",
       "QUESTION, ANSWER, CALL, RESULT, NEXT",
       {"questionone", "answerone", "resultone", "questiontwo"}},
      {"TextBetweenRounds",
       "QUESTION, CALL, RESULT, ANSWER, OTHER, AGAIN, ANSWER, NEXT",
       {"resultone", "answerone", "resulttwo", "questiontwo"}},
      {"ACallWithoutResult", "QUESTION, CALL, NEXT", {"questionone", "questiontwo"}},
      {"ACallThatIsAnsweredInWords",
       "QUESTION, CALL, ANSWER, NEXT",
       {"questionone", "answerone", "questiontwo"}},
      {"ASystemMessageBeforeTheResult",
       "QUESTION, CALL, SYSTEM, RESULT, NEXT",
       {"systemone", "resultone", "questiontwo"}},
      {"AQuestionBeforeTheResult",
       "QUESTION, CALL, NEXT, RESULT, ANSWER, QUESTION",
       {"questionone", "questiontwo", "resultone", "answerone"}},
      {"AnEmptyAnswer", "QUESTION, EMPTY, NEXT", {"questionone", "questiontwo"}},
      {"AnEmptyAnswerToResults",
       "QUESTION, CALL, RESULT, EMPTY, NEXT",
       {"resultone", "questiontwo"}},
      {"NoUserButCalls", "SYSTEM, CALL, RESULT", {"systemone", "resultone"}},
      {"TheSystemAlone", "SYSTEM", {"systemone"}},
      {"AUserLikeAResult", "SYSTEM, TOOLISH, ANSWER, QUESTION", {"systemone", "resultone"}},
      {"AResultOfNoCall", "QUESTION, GONE, NEXT", {"questionone", "resultgone", "questiontwo"}},
      {"AResultOfNoCallFirst", "GONE, ANSWER, NEXT", {"resultgone", "answerone", "questiontwo"}},
      {"AResultOfNoCallAfterAnother",
       "QUESTION, CALL, RESULT, GONE, NEXT",
       {"resultone", "resultgone", "questiontwo"}},
      {"ACallAfterACall",
       "QUESTION, CALL, OTHER, RESULT, AGAIN, NEXT",
       {"resultone", "resulttwo", "questiontwo"}},
      {"TheAssistantFirst", "ANSWER, QUESTION", {"answerone", "questionone"}},
      {"TwoOfEach", "QUESTION, NEXT, ANSWER, ANSWER, QUESTION", {"questiontwo", "answerone"}},
  };
  const json::Value tools = *json::parse(
      R"([{"type": "function", "function": {"name": "find_book", "description": "Finds it",)"
      R"( "parameters": {"type": "object", "properties": {"title": {"type": "string", "description": "what"}}, "required": ["title"]}}}])");
  std::map<std::string, std::string> lost;
  std::size_t cells = 0;
  for (const HistoryCase& row : cases) {
    std::string text = "[" + std::string(row.messages) + "]";
    for (const auto& [word, message] : parts) {
      for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos;) {
        text.replace(at, word.size(), message);
        at += message.size();
      }
    }
    const auto messages = json::parse(text);
    ASSERT_TRUE(messages) << row.name << ": " << text;
    std::size_t number = 0;
    for (const auto& [name, source] : sources_) {
      // All templates of the large set take seconds.
      if (GetParam() == Data::large && !is_long_test() && number++ % 5 != 0) continue;
      if (!source.chat) continue;
      json::Object context{
          {"messages", *messages}, {"tools", tools}, {"add_generation_prompt", true}};
      for (const json::Member& token : source.tokens) context[token.key] = token.value;
      const auto prompt = source.chat->render_context(std::move(context), options_);
      ++cells;
      std::string& missing = lost[name];
      if (!prompt) missing += std::string(row.name) + ": " + prompt.error().message + "; ";
      for (const std::string& word : row.words) {
        if (prompt && prompt->text.find(word) == std::string::npos) {
          missing += std::string(row.name) + ": " + word + "; ";
        }
      }
    }
  }
  std::erase_if(lost, [](const auto& entry) { return entry.second.empty(); });
  std::cout << sources_.size() << " templates, " << std::size(cases) << " histories, " << cells
            << " prompts; something is lost in " << lost.size() << " templates\n";
  // As above: templates that judge, and templates with tools under another name.
  for (const char* name :
       {"gguf-granite3-guardian-2b", "gguf-shieldgemma-27b", "gguf-firefunction-v2-70b",
        "lc-fireworks-ai-llama-3-firefunction-v2", "hfjs-fireworks-ai-firefunction-v1"}) {
    lost.erase(name);
  }
  EXPECT_TRUE(lost.empty()) << testing::PrintToString(lost);
}

INSTANTIATE_TEST_SUITE_P(Sets, Goldens, testing::Values(Data::own, Data::large),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace tenon::prompt
