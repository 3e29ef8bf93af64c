#include "tenon/prompt/call_probe.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tenon/prompt/chat_template.h"
#include "tenon/prompt/reference_for_test.h"

namespace tenon::prompt {
namespace {

// Templates of each kind: which text is the turn with calls, and which is the frame of every turn.
constexpr std::string_view kTagged =
    "{%- for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.tool_calls %}{% for c in m.tool_calls %}"
    "<tool_call>\n{{ c.function | tojson }}\n</tool_call>{{ '' if loop.last else '\n' }}"
    "{% endfor %}{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
// The prompt begins a section that the turn does not begin, so the first difference lies inside a
// marker.
constexpr std::string_view kThinking =
    "{%- for m in messages %}<|{{ m.role }}|>"
    "{% if m.tool_calls %}{% for c in m.tool_calls %}"
    "<tool>{{ c.function.name }} {{ c.function.arguments | tojson }}</tool>"
    "{% endfor %}{% else %}{{ m.content }}{% endif %}<|end|>{% endfor %}"
    "{%- if add_generation_prompt %}<|assistant|><think>{% endif %}";
constexpr std::string_view kCallProbeOneCall =
    "{%- for m in messages %}[{{ m.role }}]"
    "{% if m.tool_calls %}{% if m.tool_calls | length > 1 %}{{ raise_exception('one') }}{% endif %}"
    "call {{ m.tool_calls[0].function.name }}{{ m.tool_calls[0].function.arguments | tojson }}"
    "{% else %}{{ m.content }}{% endif %}{{ eos_token }}{% endfor %}";
constexpr std::string_view kWithResults =
    "{%- if messages[-1].tool_calls %}{{ raise_exception('results are missing') }}{% endif %}"
    "{%- for m in messages %}<{{ m.role }}>"
    "{% for c in m.tool_calls or [] %}!{{ c.function.name }}{{ c.function.arguments | tojson }}"
    "{% endfor %}{{ m.content }}{% endfor %}";
constexpr std::string_view kNoCalls =
    "{%- for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
constexpr std::string_view kLong =
    "{%- for m in messages %}<{{ m.role }}>{% for c in m.tool_calls or [] %}"
    "{{ '{' * 16384 }}{{ c.function.name }}{{ c.function.arguments | tojson }}"
    "{% endfor %}{{ m.content }}{% endfor %}";
constexpr std::string_view kTextArguments =
    "{%- for m in messages %}<{{ m.role }}>{% for c in m.tool_calls or [] %}"
    "{{ '@' + c.function.name + c.function.arguments }}{% endfor %}{{ m.content }}{% endfor %}";

constexpr std::string_view kToolsLast =
    "{% for m in messages %}{% for c in m.tool_calls %}[CALL]{{ c.function.name }}"
    "{{ c.function.arguments | tojson }}{% endfor %}"
    "{% if loop.last and tools and not m.tool_calls %}[TOOLS]{{ tools | tojson }}[/TOOLS]{% endif "
    "%}"
    "{% if m.role == 'user' %}[USER]{{ m.content }}[/USER]{% else %}{{ m.content }}{% endif %}"
    "{% endfor %}";

struct CallProbeRow {
  std::string_view name;
  std::string_view chat_template;
  std::vector<std::string> samples;  // of call_samples
};

const CallProbeRow kCallProbeRows[] = {
    {"WithoutTheFrame",
     kTagged,
     {"<tool_call>\n{\"name\": \"probetool\", \"arguments\": {\"probekey\": \"probevalue\"}}\n"
      "</tool_call>",
      "<tool_call>\n{\"name\": \"probetool\", \"arguments\": {\"probekey\": \"probevalue\"}}\n"
      "</tool_call>\n<tool_call>\n{\"name\": \"probeother\", \"arguments\": "
      "{\"probekey\": \"probesecond\", \"probelast\": \"probe third\"}}\n</tool_call>"}},
    {"NeverFromTheMiddleOfAMarker",
     kThinking,
     {"<tool>probetool {\"probekey\": \"probevalue\"}</tool>",
      "<tool>probetool {\"probekey\": \"probevalue\"}</tool>"
      "<tool>probeother {\"probekey\": \"probesecond\", \"probelast\": \"probe third\"}</tool>"}},
    {"OneCall", kCallProbeOneCall, {"[assistant]call probetool{\"probekey\": \"probevalue\"}"}},
    {"CallsThatNeedResults",
     kWithResults,
     {"<assistant>!probetool{\"probekey\": \"probevalue\"}<tool>proberesult",
      "<assistant>!probetool{\"probekey\": \"probevalue\"}!probeother{\"probekey\": "
      "\"probesecond\", "
      "\"probelast\": \"probe third\"}<tool>proberesult<tool>proberesult"}},
    {"ToolsBesideTheLastMessageAlone",
     kToolsLast,
     {"[CALL]probetool{\"probekey\": \"probevalue\"}",
      "[CALL]probetool{\"probekey\": \"probevalue\"}"
      "[CALL]probeother{\"probekey\": \"probesecond\", \"probelast\": \"probe third\"}"}},
    {"NoCalls", kNoCalls, {}},
    {"LongTurns", kLong, {}},
    {"TextArguments",
     kTextArguments,
     {"<assistant>@probetool{\"probekey\": \"probevalue\"}",
      "<assistant>@probetool{\"probekey\": \"probevalue\"}"
      "@probeother{\"probekey\": \"probesecond\", \"probelast\": \"probe third\"}"}},
};

class CallSamples : public testing::TestWithParam<CallProbeRow> {};

TEST_P(CallSamples, AreWhatTheModelWouldWrite) {
  const PromptOptions tokens{.bos_token = "<s>", .eos_token = "</s>"};
  const auto chat_template = jinja::Template::compile(GetParam().chat_template, {});
  ASSERT_TRUE(chat_template) << chat_template.error().message;
  const Capabilities found = probe(**chat_template, tokens.bos_token, tokens.eos_token);
  std::vector<std::string> texts;
  for (const auto& sample : call_samples(**chat_template, found, tokens)) {
    texts.push_back(sample.text);
  }
  EXPECT_EQ(texts, GetParam().samples);
}

INSTANTIATE_TEST_SUITE_P(Rows, CallSamples, testing::ValuesIn(kCallProbeRows),
                         [](const auto& test) { return std::string(test.param.name); });

class DetectFormat : public testing::TestWithParam<Data> {};

// The format of every template that writes calls is found.
TEST_P(DetectFormat, GoesByRenderedCalls) {
  if (!is_there(GetParam())) GTEST_SKIP() << why_skipped(GetParam());
  const auto templates = reference_templates(GetParam());
  std::size_t by_call = 0;
  for (const json::Value& row : reference_rows(GetParam(), "templates/format_of_template.jsonl")) {
    const std::string& name = *row.find("template")->if_string();
    const auto& reference = templates.at(name);
    const auto chat_template = ChatTemplate::compile(
        reference.source,
        {.name = name,
         .bos_token = reference.bos_token.empty() ? "<s>" : reference.bos_token,
         .eos_token = reference.eos_token.empty() ? "</s>" : reference.eos_token});
    if (!chat_template) continue;
    const format::Detection found = (*chat_template)->detect();
    const bool has_format = *row.find("format") != json::Value("none");
    if (!has_format) {
      EXPECT_EQ(found.format, nullptr) << name << ": " << found.evidence;
    }
    if (*row.find("decided_by") != json::Value("rendered")) continue;
    EXPECT_EQ(found.by, format::DecidedBy::call) << name << ": " << found.evidence;
    if (GetParam() == Data::own) {  // the large set has other names
      ASSERT_NE(found.format, nullptr) << name;
      EXPECT_EQ(json::Value(format::info(*found.format).name), *row.find("format")) << name;
    }
    by_call += found.by == format::DecidedBy::call ? 1U : 0U;
  }
  EXPECT_GE(by_call, GetParam() == Data::own ? 10U : 72U);
}

INSTANTIATE_TEST_SUITE_P(Sets, DetectFormat, testing::Values(Data::own, Data::large),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace tenon::prompt
