#include "tenon/prompt/chat_template.h"

#include <algorithm>
#include <utility>

#include "tenon/base/ids.h"
#include "tenon/format/registry.h"
#include "tenon/format/tool_parser.h"
#include "tenon/format/written_form.h"
#include "tenon/prompt/call_probe.h"
#include "tenon/prompt/shape.h"

// A chat template with the format of its model: which way calls, results and tools are written is
// decided once, in the constructor, and used for each prompt. A prompt is rendered natively, with
// what the template cannot express rewritten (shape.cc); if the template fails nevertheless, other
// ways are tried in turn (render_otherwise).
namespace tenon::prompt {

ChatTemplate::ChatTemplate(std::string source, std::shared_ptr<const jinja::Template> compiled,
                           const Options& options)
    : source_(std::move(source)),
      compiled_(std::move(compiled)),
      tokens_{.bos_token = options.bos_token, .eos_token = options.eos_token},
      capabilities_(probe(*compiled_, options.bos_token, options.eos_token)),
      format_(options.format) {
  if (format_ == nullptr) {
    // If the template writes no tools, the clues from outside (such as the model's name) do not
    // count.
    format_ = detect(capabilities_.tools ? options.clues : format::Clues{}).format;
  }
  is_generic_ = format_ == nullptr && options.generic_fallback;
  // A model that has learnt no format gets one that is described to it in words.
  if (is_generic_) format_ = format::fallback();
  if (!is_generic_ && format_ != nullptr && capabilities_.calls) {
    // The template may write the format's calls with other white space; samples show which.
    format_ = format::as_written(format_, form_samples(*compiled_, capabilities_, tokens_));
  }
  const std::string* role = format_ == nullptr ? nullptr : format::result_role(*format_);
  if (role == nullptr) return;
  // The template must not put its own markers around results that the format writes.
  const bool is_native = *role == "tool" && capabilities_.tool_results;
  const bool is_written =
      !is_native && writes_role(*compiled_, *role, options.bos_token, options.eos_token);
  result_role_ = is_written ? *role : "user";
}

Expected<std::shared_ptr<const ChatTemplate>> ChatTemplate::compile(std::string_view source,
                                                                    const Options& options) {
  auto compiled =
      jinja::Template::compile(source, {.name = options.name, .superset = options.superset});
  if (!compiled) return Unexpected(std::move(compiled).error());
  return std::shared_ptr<const ChatTemplate>(
      new ChatTemplate(std::string(source), *std::move(compiled), options));
}

// The capabilities that shaping uses. The fallback's example tells the model how to call, so the
// model must not see another way of the template's beside it.
Capabilities ChatTemplate::capabilities_for(const json::Object& context) const {
  Capabilities capabilities = capabilities_;
  const json::Value* tools = context.find("tools");
  const json::Array* offered = tools == nullptr ? nullptr : tools->if_array();
  if (is_generic_ && offered != nullptr && !offered->empty()) {
    capabilities.tools = capabilities.calls = capabilities.parallel_calls = false;
    capabilities.tool_results = capabilities.orphan_results = false;
  }
  return capabilities;
}

Expected<Prompt> ChatTemplate::render(const message::ChatRequest& request,
                                      const PromptOptions& options) const {
  return render_context(template_context(request, options), options);
}

Expected<Prompt> ChatTemplate::render_context(json::Object context,
                                              const PromptOptions& options) const {
  if (!options.shape) return prompt::render_context(*compiled_, std::move(context), options);
  Expected<Prompt> prompt = render_shaped(context, options, capabilities_for(context));
  // A limit would be reached in the other ways, too.
  if (prompt || prompt.error().code == Errc::limit_exceeded) return prompt;
  if (auto other = render_otherwise(context, options)) return *std::move(other);
  return prompt;
}

namespace {

// Puts an empty user message behind the system's messages.
bool put_empty_user(json::Object& context) {
  json::Value* messages = context.find("messages");
  json::Array* list = messages == nullptr ? nullptr : messages->if_array();
  if (list == nullptr) return false;
  const auto first = std::ranges::find_if(*list, [](const json::Value& message) {
    const json::Value* role = message.find("role");
    return role == nullptr || (*role != json::Value("system") && *role != json::Value("developer"));
  });
  list->insert(first, json::Object{{"role", "user"}, {"content", ""}});
  return true;
}

}  // namespace

// For conversations that the template refuses in ways that the probes have not found.
std::optional<Prompt> ChatTemplate::render_otherwise(const json::Object& context,
                                                     const PromptOptions& options) const {
  const Capabilities native = capabilities_for(context);
  Capabilities text = native;
  text.calls = text.parallel_calls = text.tool_results = text.orphan_results = false;
  // A template that concatenates a token which the model lacks fails; empty text helps.
  json::Object with_tokens = context;
  bool lacks_tokens = false;
  for (const char* token : {"bos_token", "eos_token"}) {
    if (with_tokens.contains(token)) continue;
    with_tokens.set(token, "");
    lacks_tokens = true;
  }
  struct Way {
    bool is_text;    // calls and results
    bool adds_user;  // without text
  };
  // From the least change to the greatest.
  for (const Way way : {Way{false, false}, {false, true}, {true, true}, {true, false}}) {
    // The first way differs from what has failed only by the tokens.
    const bool is_new = way.is_text || way.adds_user || lacks_tokens;
    if (!is_new || (way.is_text && format_ == nullptr)) continue;
    json::Object other = with_tokens;
    if (way.adds_user && !put_empty_user(other)) continue;
    auto prompt = render_shaped(std::move(other), options, way.is_text ? text : native);
    if (!prompt) continue;
    std::string done;  // for the log
    if (!way.is_text && !way.adds_user) done = "bos_token empty, which the model does not have";
    if (way.adds_user) done = "an empty user message in front";
    if (way.is_text) done += (done.empty() ? "" : ", ") + std::string("calls and results as text");
    prompt->shaping.push_back(done + ", since the template refuses the conversation otherwise");
    return *std::move(prompt);
  }
  return std::nullopt;
}

Expected<Prompt> ChatTemplate::render_shaped(json::Object context, const PromptOptions& options,
                                             const Capabilities& capabilities) const {
  // The quotes around the format's markers cannot be guessed, so no data contains them.
  const std::string quote = random_id("tenon");
  const Writer writer{.format = format_.get(),
                      .shows_call = is_generic_,
                      .result_role = result_role_,
                      .own_begin = quote + "(",
                      .own_end = ")" + quote};
  Shaping shaping = shape(context, capabilities, writer);
  jinja::RenderOptions rendering;
  rendering.now_unix_s = options.now_unix_s;
  rendering.own_begin = writer.own_begin;
  rendering.own_end = writer.own_end;
  Expected<Prompt> prompt =
      prompt::render_context(*compiled_, std::move(context), std::move(rendering));
  if (prompt) {
    prompt->shaping = std::move(shaping.log);
    prompt->ids = std::move(shaping.ids);
  }
  return prompt;
}

std::optional<format::CallSample> ChatTemplate::write_turn(std::vector<message::ToolCall> calls,
                                                           std::string_view content) const {
  return prompt::write_turn(*compiled_, capabilities_, tokens_, std::move(calls), content);
}

format::Detection ChatTemplate::detect(format::Clues clues) const {
  clues.samples = call_samples(*compiled_, capabilities_, tokens_);
  clues.chat_template = source_;
  return format::detect(clues);
}

Expected<Prompt> ChatTemplate::format_with_tools(const std::vector<message::Message>& messages,
                                                 const std::vector<message::Tool>& tools,
                                                 const message::ToolChoice& tool_choice) const {
  message::ChatRequest request{.messages = messages, .tool_choice = tool_choice};
  if (tool_choice.mode != message::ToolMode::none) request.tools = tools;
  return render(request, tokens_);
}

Expected<std::vector<message::ToolCall>> ChatTemplate::parse_tool_calls(
    std::string_view output, const std::vector<message::Tool>& tools) const {
  if (format_ == nullptr) {
    return Unexpected(Error{Errc::unsupported, "model does not support tool calling"});
  }
  // Without a list of tools, any name is accepted.
  format::ParseOptions options{.any_tool = tools.empty()};
  for (const message::Tool& tool : tools) {
    options.tools.push_back(tool.name);
    options.schemas.push_back(tool.parameters);
  }
  format::ToolParser parser(format_, std::move(options));
  parser.feed(output);
  return parser.finish().calls;
}

std::string_view plain_template() {
  return "{%- for message in messages %}"
         "{{- message.role + ': ' + message.content + '\\n\\n' }}"
         "{%- endfor %}"
         "{%- if add_generation_prompt %}{{- 'assistant:' }}{%- endif %}";
}

std::vector<std::string> plain_template_turns() {
  return {"\n\nuser:", "\n\nassistant:", "\n\nsystem:", "\n\ntool:"};
}

}  // namespace tenon::prompt
