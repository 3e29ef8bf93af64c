// Tool calling in C++, without an engine: a format of one's own, the prompt, and the answer read as
// it comes. docs/adding-a-format.md, "In C++", goes through it.
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/format/format.h"
#include "tenon/format/registry.h"
#include "tenon/format/tool_parser.h"
#include "tenon/json/value.h"
#include "tenon/prompt/chat_template.h"

namespace {

using tenon::Expected;
using tenon::Status;

constexpr std::string_view kFormat = R"(
name = "act"
aliases = ["act-7b"]

[[syntax]]
call = "<act>\n${object}\n</act>"
separator = "\n"
object = { name = ["tool"], arguments = ["input"] }

[result]
result = "<result of=${name}>${content}</result>"
)";

// This model's template knows no tools.
constexpr std::string_view kTemplate =
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}";

int fail(const tenon::Error& error) {
  std::cerr << error.message << '\n';
  return 1;
}

}  // namespace

int main() {
  // A format is registered while the program runs, under its name and aliases.
  const auto compiled = tenon::format::compile(kFormat, "act.toml");
  if (!compiled) return fail(compiled.error());
  if (const Status added = tenon::format::register_format(*compiled); !added) {
    return fail(added.error());
  }
  const auto format = tenon::format::named("act-7b");
  if (!format) return fail(format.error());

  // Which tools there are.
  const Expected<tenon::json::Value> schema = tenon::json::parse(
      R"({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})");
  if (!schema) return fail(schema.error());
  const std::vector<tenon::message::Tool> tools = {
      {.name = "get_weather", .description = "The weather in a city.", .parameters = *schema}};

  // The prompt: by the template where it can, else by the format.
  const auto chat_template = tenon::prompt::ChatTemplate::compile(kTemplate, {.format = *format});
  if (!chat_template) return fail(chat_template.error());
  std::vector<tenon::message::Message> messages = {
      {.role = tenon::message::Role::user, .content = "What is the weather in Paris?"}};
  auto prompt = (*chat_template)->format_with_tools(messages, tools);
  if (!prompt) return fail(prompt.error());
  std::cout << "native: " << ((*chat_template)->has_native_support() ? "yes" : "no") << '\n'
            << prompt->text << "\n\n";

  // The answer, cut as the engine likes.
  tenon::format::ToolParser parser(*format, {.tools = {"get_weather"}, .schemas = {*schema}});
  tenon::message::Message answer{.role = tenon::message::Role::assistant};
  for (const std::string_view piece : {"Let me see. <ac", "t>\n{\"tool\": \"get_weat", "her\", ",
                                       "\"input\": {\"city\": \"Par", "is\"}}\n</act>"}) {
    for (const tenon::message::ToolCall& call : parser.feed(piece)) {
      std::cout << "call: " << call.name << ' ' << call.arguments << '\n';
      answer.tool_calls.push_back(call);
    }
  }
  answer.content = parser.finish().text;
  parser.reset();  // for the next answer
  std::cout << "text: " << *answer.content << "\n\n";

  // The next turn.
  messages.push_back(answer);
  messages.push_back({.role = tenon::message::Role::tool,
                      .content = "sunny, 21 degrees",
                      .tool_call_id = answer.tool_calls.at(0).id});
  prompt = (*chat_template)->format_with_tools(messages, tools);
  if (!prompt) return fail(prompt.error());
  std::cout << prompt->text.substr(prompt->text.find("[assistant]")) << '\n';
  return 0;
}
