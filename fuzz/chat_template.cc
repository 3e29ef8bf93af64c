#include "tenon/prompt/chat_template.h"

#include <string>

#include "fuzz.h"

#include "tenon/prompt/shape.h"

namespace {

using namespace tenon;

prompt::Capabilities capabilities_of(std::uint32_t bits) {
  const auto next = [&bits] {
    const bool bit = (bits & 1) != 0;
    bits >>= 1;
    return bit;
  };
  prompt::Capabilities c;
  for (bool* member : {&c.string_content,  &c.list_content,      &c.system,
                       &c.several_systems, &c.middle_system,     &c.developer,
                       &c.alternation,     &c.assistant_first,   &c.tools,
                       &c.calls,           &c.null_beside_calls, &c.parallel_calls,
                       &c.tool_results,    &c.result_names,      &c.absent_ids,
                       &c.null_tools,      &c.bare_tools,        &c.bare_properties,
                       &c.type_lists,      &c.untyped,           &c.orphan_results}) {
    *member = next();
  }
  c.arguments = static_cast<prompt::Arguments>(bits % 4);
  c.ids = static_cast<prompt::IdForm>(bits / 4 % 3);
  c.nested = static_cast<prompt::SchemaForm>(bits / 12 % 4);
  return c;
}

}  // namespace

/// Any JSON as a conversation, shaped for any capabilities, and rendered by any template: all end
/// in a value or an error, and shaping gives the same twice.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  std::uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) bits = bits << 8 | data[i];
  const std::string_view input = fuzz::text_of(data + 4, size - 4);
  // The template stands behind a zero byte.
  const std::size_t cut = std::min(input.find('\0'), input.size());
  const Expected<json::Value> parsed = json::parse(input.substr(0, cut));
  if (!parsed || parsed->if_object() == nullptr) return 0;
  json::Object first = *parsed->if_object();
  json::Object second = first;
  const prompt::Capabilities capabilities = capabilities_of(bits);
  const prompt::Shaping shaping = prompt::shape(first, capabilities);
  const prompt::Shaping again = prompt::shape(second, capabilities);
  fuzz::promise(again.log == shaping.log && again.ids == shaping.ids && first == second,
                "the same twice");

  if (cut == input.size()) return 0;
  const auto compiled = prompt::ChatTemplate::compile(input.substr(cut + 1), {.name = "t"});
  if (!compiled) return 0;
  const auto prompt = (*compiled)->render_context(*parsed->if_object(), {.now_unix_s = 1});
  fuzz::promise(prompt.has_value() || prompt.error().message.starts_with("t"),
                "errors have a name");
  return 0;
}
