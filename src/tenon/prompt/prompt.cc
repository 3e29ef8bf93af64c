#include "tenon/prompt/prompt.h"

#include <utility>

#include "tenon/prompt/shape.h"

namespace tenon::prompt {
namespace {

jinja::RenderOptions render_options(const PromptOptions& options) {
  jinja::RenderOptions result;
  result.now_unix_s = options.now_unix_s;
  return result;
}

Expected<Prompt> render_with(const jinja::Template& chat_template, const json::Object& context,
                             const PromptOptions& options) {
  Expected<jinja::Rendered> rendered = chat_template.render(context, render_options(options));
  if (!rendered) return Unexpected(std::move(rendered).error());
  Prompt prompt;
  prompt.text = std::move(rendered->text);
  prompt.spans = std::move(rendered->spans);
  return prompt;
}

json::Object call_json(const message::ToolCall& call) {
  // Nearly every template wants an object here. Text that is no JSON object stays text.
  Expected<json::Value> arguments = json::parse(call.arguments);
  json::Object function;
  function["name"] = call.name;
  if (arguments && arguments->if_object() != nullptr) {
    function["arguments"] = *std::move(arguments);
  } else {
    function["arguments"] = call.arguments;
  }
  json::Object result;
  if (!call.id.empty()) result["id"] = call.id;
  result["type"] = "function";
  result["function"] = std::move(function);
  return result;
}

json::Value content_json(const message::Message& message) {
  if (message.content) return *message.content;
  if (message.parts.empty()) return nullptr;
  json::Array parts;
  for (const message::ContentPart& part : message.parts) {
    if (part.type != "text" && !part.raw.is_null()) {
      parts.push_back(part.raw);
      continue;
    }
    parts.emplace_back(json::Object{{"type", part.type}, {"text", part.text}});
  }
  return parts;
}

}  // namespace

json::Value to_template_json(const message::Message& message) {
  json::Object result;
  result["role"] = message::role_name(message.role);
  result["content"] = content_json(message);
  if (!message.reasoning.empty()) {
    // transformers gives it under both names; templates read the one they know.
    result["reasoning_content"] = message.reasoning;
    result["thinking"] = message.reasoning;
  }
  if (!message.tool_calls.empty()) {
    json::Array calls;
    for (const message::ToolCall& call : message.tool_calls) calls.emplace_back(call_json(call));
    result["tool_calls"] = std::move(calls);
  }
  if (!message.tool_call_id.empty()) result["tool_call_id"] = message.tool_call_id;
  if (!message.name.empty()) result["name"] = message.name;
  for (const json::Member& member : message.extra) {
    if (!result.contains(member.key)) result[member.key] = member.value;
  }
  return result;
}

json::Value to_template_json(const message::Tool& tool) {
  if (tool.raw.if_object() != nullptr) return tool.raw;
  json::Object function;
  function["name"] = tool.name;
  function["description"] = tool.description;
  function["parameters"] = tool.parameters.is_null()
                               ? json::Object{{"type", "object"}, {"properties", json::Object{}}}
                               : tool.parameters;
  if (tool.strict) function["strict"] = *tool.strict;
  return json::Object{{"type", "function"}, {"function", std::move(function)}};
}

Expected<Prompt> render(const jinja::Template& chat_template, const message::ChatRequest& request,
                        const PromptOptions& options) {
  json::Object context;
  json::Array messages;
  for (const message::Message& message : request.messages) {
    messages.push_back(to_template_json(message));
  }
  context["messages"] = std::move(messages);
  if (request.tools.empty()) {
    context["tools"] = nullptr;
  } else {
    json::Array tools;
    for (const message::Tool& tool : request.tools) tools.push_back(to_template_json(tool));
    context["tools"] = std::move(tools);
  }
  context["documents"] = nullptr;
  context["add_generation_prompt"] = options.add_generation_prompt;
  if (!options.bos_token.empty()) context["bos_token"] = options.bos_token;
  if (!options.eos_token.empty()) context["eos_token"] = options.eos_token;
  // The control tokens are the model's: what a client sends under their names is not taken.
  for (const json::Member& member : request.template_kwargs) {
    if (member.key != "bos_token" && member.key != "eos_token") context[member.key] = member.value;
  }
  std::vector<std::string> shaping;
  if (options.shape) shape(context, shaping);
  Expected<Prompt> prompt = render_with(chat_template, context, options);
  if (prompt) prompt->shaping = std::move(shaping);
  return prompt;
}

Expected<Prompt> render_context(const jinja::Template& chat_template, json::Object context,
                                const PromptOptions& options) {
  if (!context.contains("tools")) context["tools"] = nullptr;
  if (!context.contains("documents")) context["documents"] = nullptr;
  return render_with(chat_template, context, options);
}

Status tokenize(const vocab::Tokenizer& tokenizer, const Prompt& prompt,
                std::vector<vocab::TokenId>& ids) {
  const std::size_t first = ids.size();
  for (const jinja::Span& span : prompt.spans) {
    const std::string_view text =
        std::string_view(prompt.text).substr(span.begin, span.end - span.begin);
    const vocab::Controls controls = span.is_data ? vocab::Controls::off : vocab::Controls::on;
    if (Status status = tokenizer.encode(text, controls, span.begin == 0, ids); !status) {
      return status;
    }
  }
  const std::optional<vocab::TokenId> bos = tokenizer.bos();
  const bool begins_with_bos = bos && ids.size() > first && ids[first] == *bos;
  if (bos && tokenizer.adds_bos() && !begins_with_bos) {
    ids.insert(ids.begin() + static_cast<std::ptrdiff_t>(first), *bos);
  }
  return {};
}

}  // namespace tenon::prompt
