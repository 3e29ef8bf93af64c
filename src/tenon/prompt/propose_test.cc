#include "tenon/prompt/propose.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tenon/prompt/reference_for_test.h"

namespace tenon::prompt {
namespace {

// How a template of this test writes a call `c`. Everything around it is the same in all of them.
std::string chat(std::string_view before, std::string_view call, std::string_view between,
                 std::string_view after) {
  return "{%- for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% if m.tool_calls %}" +
         std::string(before) + "{% for c in m.tool_calls %}" + std::string(call) +
         "{% if not loop.last %}" + std::string(between) + "{% endif %}{% endfor %}" +
         std::string(after) +
         "{% endif %}<|im_end|>\n{% endfor %}"
         "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
}

constexpr std::string_view kName = "{{ c.function.name }}";
constexpr std::string_view kJson = "{{ c.function.arguments | tojson }}";

struct ProposeRow {
  std::string_view name;
  std::string chat_template;
  std::string_view definition;  // a part of it, or of the error
};

const ProposeRow kProposeRows[] = {
    {"AnObject",
     chat("",
          "<act>{\"tool\": \"" + std::string(kName) + "\", \"input\": " + std::string(kJson) +
              "}</act>",
          "{{ '\\n' }}", ""),
     "call = \"<act>${object}</act>\"\nseparator = \"\\n\"\n"
     "object = { name = [\"tool\"], arguments = [\"input\"] }\n"},
    {"AnArray",
     chat("<acts>[",
          "{\"name\": \"" + std::string(kName) + "\", \"arguments\": " + std::string(kJson) +
              ", \"id\": \"{{ c.id }}\"}",
          ", ", "]</acts>"),
     "open = \"<acts>[\"\ncall = \"${object}\"\nseparator = \", \"\nclose = \"]</acts>\"\n"
     "object = { name = [\"name\"], arguments = [\"arguments\"], id = [\"id\"], writes_id = true "
     "}"},
    {"ANameAndJson",
     chat("<acts>", "<act>" + std::string(kName) + "<args>" + std::string(kJson) + "</act>", "",
          "</acts>"),
     "open = \"<acts>\"\ncall = \"<act>${name}<args>${arguments}</act>\"\nclose = \"</acts>\"\n"},
    {"Parameters",
     chat("",
          "<act name=\"" + std::string(kName) +
              "\">{% for k, v in c.function.arguments.items() %}<arg key=\"{{ k }}\">"
              "{{ v if v is string else v | tojson }}</arg>{% endfor %}</act>",
          "", ""),
     "call = \"<act name=\\\"${name}\\\">${parameters}</act>\"\n"
     "parameter = \"<arg key=\\\"${key}\\\">${value}</arg>\"\n"},
    {"ParametersWithTypes",
     chat("",
          "<act name=\"" + std::string(kName) +
              "\">{% for k, v in c.function.arguments.items() %}<arg key=\"{{ k }}\" "
              "type=\"{{ 'text' if v is string else 'json' }}\">"
              "{{ v if v is string else v | tojson }}</arg>{% endfor %}</act>",
          "", ""),
     "type=\\\"${type:text|json}\\\">${value}"},
    {"OneCallAtATime",
     "{%- for m in messages %}[{{ m.role }}]{% if m.tool_calls %}{% if m.tool_calls | length > 1 %}"
     "{{ raise_exception('one') }}{% endif %}!act {{ m.tool_calls[0].function.name }} "
     "{{ m.tool_calls[0].function.arguments | tojson }};{% else %}{{ m.content }};{% endif %}"
     "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}",
     "parallel = false\n\n[[syntax]]\ncall = \"!act ${name} ${arguments}\"\n"},
    {"NoCalls", "{%- for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}",
     "the template writes no calls into history"},
    {"ValuesAlone",
     chat("",
          "<act>" + std::string(kName) +
              "{% for k, v in c.function.arguments.items() %}|{{ v }}{% endfor %}</act>",
          "", ""),
     "the arguments are neither a JSON object"},
};

class Propose : public testing::TestWithParam<ProposeRow> {};

TEST_P(Propose, SaysHowTheTemplateWritesCalls) {
  const auto chat_template = ChatTemplate::compile(GetParam().chat_template);
  ASSERT_TRUE(chat_template) << chat_template.error().message;
  const auto proposed = propose(**chat_template, "Mine (7B)");
  if (proposed) {
    EXPECT_NE(proposed->find("name = \"mine__7b_\"\n"), std::string::npos);
  }
  const std::string text = proposed ? *proposed : proposed.error().message;
  EXPECT_NE(text.find(GetParam().definition), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(Rows, Propose, testing::ValuesIn(kProposeRows),
                         [](const auto& test) { return std::string(test.param.name); });

class ProposeAll : public testing::TestWithParam<Data> {};

TEST_P(ProposeAll, DefinesMostRealFormats) {
  if (!is_there(GetParam())) GTEST_SKIP() << why_skipped(GetParam());
  const auto templates = reference_templates(GetParam());
  std::size_t written = 0;
  std::size_t proposed = 0;
  for (const auto& [name, reference] : templates) {
    const auto chat_template = ChatTemplate::compile(
        reference.source,
        {.name = name,
         .bos_token = reference.bos_token.empty() ? "<s>" : reference.bos_token,
         .eos_token = reference.eos_token.empty() ? "</s>" : reference.eos_token});
    if (!chat_template || !(*chat_template)->capabilities().calls) continue;
    ++written;
    const auto definition = propose(**chat_template, name);
    proposed += definition ? 1U : 0U;
  }
  EXPECT_GE(written, GetParam() == Data::own ? 10U : 76U);
  EXPECT_GE(proposed, GetParam() == Data::own ? 8U : 64U);
}

INSTANTIATE_TEST_SUITE_P(Sets, ProposeAll, testing::Values(Data::own, Data::large),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace tenon::prompt
