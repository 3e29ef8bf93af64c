#include "tenon/prompt/chat_template.h"

#include <utility>

#include "tenon/prompt/shape.h"

namespace tenon::prompt {

ChatTemplate::ChatTemplate(std::string source, std::shared_ptr<const jinja::Template> compiled,
                           Capabilities capabilities)
    : source_(std::move(source)),
      compiled_(std::move(compiled)),
      capabilities_(std::move(capabilities)) {}

Expected<std::shared_ptr<const ChatTemplate>> ChatTemplate::compile(std::string_view source,
                                                                    const Options& options) {
  auto compiled =
      jinja::Template::compile(source, {.name = options.name, .superset = options.superset});
  if (!compiled) return Unexpected(std::move(compiled).error());
  Capabilities found = probe(**compiled, options.bos_token, options.eos_token);
  return std::shared_ptr<const ChatTemplate>(
      new ChatTemplate(std::string(source), *std::move(compiled), std::move(found)));
}

Expected<Prompt> ChatTemplate::render(const message::ChatRequest& request,
                                      const PromptOptions& options) const {
  return render_context(template_context(request, options), options);
}

Expected<Prompt> ChatTemplate::render_context(json::Object context,
                                              const PromptOptions& options) const {
  Shaping shaping;
  if (options.shape) shaping = shape(context, capabilities_);
  Expected<Prompt> prompt = prompt::render_context(*compiled_, std::move(context), options);
  if (prompt) {
    prompt->shaping = std::move(shaping.log);
    prompt->ids = std::move(shaping.ids);
  }
  return prompt;
}

std::string_view plain_template() {
  return "{%- for message in messages %}"
         "{{- message.role + ': ' + message.content + '\\n\\n' }}"
         "{%- endfor %}"
         "{%- if add_generation_prompt %}{{- 'assistant:' }}{%- endif %}";
}

}  // namespace tenon::prompt
