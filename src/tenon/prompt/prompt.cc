#include "tenon/prompt/prompt.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

// From a request to token ids in three steps. template_context() makes the variables of the
// template, with everything that clients may have sent beside what we know. render_context()
// renders it; each byte of the text is then known to come from the template or from data
// (jinja::Span). tokenize() makes ids of the spans so that only the template's text can become
// control tokens, while the text between two control tokens is tokenised as one, as the model saw
// it in training.
namespace tenon::prompt {
namespace {

json::Object call_json(const message::ToolCall& call) {
  json::Object result;
  if (!call.id.empty()) result["id"] = call.id;
  result["type"] = "function";
  result["function"] = json::Object{{"name", call.name}, {"arguments", call.arguments}};
  return result;
}

// null if there is neither text nor a part, as beside calls.
json::Value content_json(const message::Message& message) {
  if (message.content) return *message.content;
  if (message.parts.empty()) return nullptr;
  json::Array parts;
  for (const message::ContentPart& part : message.parts) {
    if (!part.raw.is_null()) {
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
    // transformers gives it under both names, and each template reads the one that it knows.
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
  // Unknown members reach the template, but do not replace known ones.
  for (const json::Member& member : message.extra) {
    if (!result.contains(member.key)) result[member.key] = member.value;
  }
  return result;
}

json::Value to_template_json(const message::Tool& tool) {
  // A tool that came from a client reaches the template as it was written.
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

json::Object template_context(const message::ChatRequest& request, const PromptOptions& options) {
  json::Object context;
  json::Array messages;
  for (const message::Message& message : request.messages) {
    messages.push_back(to_template_json(message));
  }
  context["messages"] = std::move(messages);
  if (request.tools.empty()) {
    // transformers passes None for both, and templates test for it.
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
  // The two tokens would count as the template's text, so a client may not set them.
  for (const json::Member& member : request.template_kwargs) {
    if (member.key != "bos_token" && member.key != "eos_token") context[member.key] = member.value;
  }
  return context;
}

namespace {

// The roles of messages in protocols and in models' templates. Templates make markers of them
// (`<|observation|>`), so no other word may count as the template's text.
constexpr std::string_view kRoles[] = {
    "system",      "developer", "user",        "assistant",     "tool",
    "tools",       "function",  "model",       "human",         "observation",
    "environment", "ipython",   "tool_result", "tool_response", "function result",
    "tool_call",   "tool_calls"};

// The data that counts as the template's text: the role of each message, if it is one of kRoles.
std::unordered_set<const json::Value*> roles_in(const json::Object& context) {
  std::unordered_set<const json::Value*> roles;
  const json::Value* messages = context.find("messages");
  if (messages == nullptr || messages->if_array() == nullptr) return roles;
  for (const json::Value& message : *messages->if_array()) {
    const json::Value* role = message.find("role");
    const std::string* word = role == nullptr ? nullptr : role->if_string();
    if (word != nullptr && std::ranges::find(kRoles, *word) != std::end(kRoles)) roles.insert(role);
  }
  return roles;
}

}  // namespace

Expected<Prompt> render_context(const jinja::Template& chat_template, json::Object context,
                                const PromptOptions& options) {
  jinja::RenderOptions rendering;
  rendering.now_unix_s = options.now_unix_s;
  return render_context(chat_template, std::move(context), rendering);
}

Expected<Prompt> render_context(const jinja::Template& chat_template, json::Object context,
                                jinja::RenderOptions options) {
  // For contexts that callers have made themselves.
  if (!context.contains("tools")) context["tools"] = nullptr;
  if (!context.contains("documents")) context["documents"] = nullptr;
  options.own_values = roles_in(context);
  Expected<jinja::Rendered> rendered = chat_template.render(context, options);
  if (!rendered) return Unexpected(std::move(rendered).error());
  Prompt prompt;
  prompt.text = std::move(rendered->text);
  prompt.spans = std::move(rendered->spans);
  return prompt;
}

namespace {

using Ids = std::vector<vocab::TokenId>;

constexpr std::string_view kBlank = " \t\r\n";

// The parts of a template span around its control tokens. `head` and `tail` are without the white
// space that some control tokens swallow beside them.
struct Parts {
  std::string_view head;  // before the first control token
  std::span<const vocab::TokenId> middle;
  std::string_view tail;  // after the last one
};

// Splits `text`, whose tokens are `ids` with control tokens on, at least one of them. The tokens
// must spell the text byte by byte, with two exceptions: a control token may swallow white space
// beside it, and the tokenizer may put a space before text that begins the span or follows a
// control token. Empty if they do not: the tokenizer has changed the text, so the place of a token
// in it is unknown.
std::optional<Parts> split_at_controls(const vocab::Tokenizer& tokenizer, std::string_view text,
                                       const Ids& ids) {
  std::optional<std::size_t> first;  // control token
  std::size_t last = 0;
  // Places in `text`; `at` is where the next token begins.
  std::size_t head_end = 0;
  std::size_t tail_begin = 0;
  std::size_t at = 0;
  bool is_apart = true;  // this token is the first, or follows a control token
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::string_view bytes = tokenizer.bytes(ids[i]);
    const bool is_control = tokenizer.is_control(ids[i]);
    std::size_t begin = at;
    // The token does not stand here. Beside a control token that has two reasons: the tokenizer has
    // put a space before the word, or the control token has taken white space.
    if (!text.substr(at).starts_with(bytes) && (is_apart || is_control)) {
      if (!is_control && bytes.starts_with(' ') && text.substr(at).starts_with(bytes.substr(1))) {
        bytes.remove_prefix(1);
      } else {
        begin = std::min(text.find_first_not_of(kBlank, at), text.size());
      }
    }
    if (!text.substr(begin).starts_with(bytes)) return std::nullopt;
    if (is_control) {
      if (!first) head_end = at;
      first = first.value_or(i);
      last = i;
    } else if (is_apart) {
      tail_begin = begin;
    }
    at = begin + bytes.size();
    is_apart = is_control;
  }
  // The last token is a control token, which may have taken white space behind it.
  if (is_apart) {
    at = std::min(text.find_first_not_of(kBlank, at), text.size());
    tail_begin = at;
  }
  if (!first || at != text.size()) return std::nullopt;
  return Parts{text.substr(0, head_end), std::span(ids).subspan(*first, last + 1 - *first),
               text.substr(tail_begin)};
}

}  // namespace

// Only a template span can hold control tokens. All that lies between two of them is tokenised as
// one text, even if template and data meet in it, because the model was trained on tokens that
// reach across such borders.
Status tokenize(const vocab::Tokenizer& tokenizer, const Prompt& prompt,
                std::vector<vocab::TokenId>& ids) {
  const std::size_t first = ids.size();
  // Text without control tokens that is gathered until one comes, and where it begins in the
  // prompt.
  std::string plain;
  std::size_t plain_begin = 0;
  const auto add = [&](std::string_view text, std::size_t begin) {
    if (plain.empty()) plain_begin = begin;
    plain += text;
  };
  const auto flush = [&]() -> Status {
    if (plain.empty()) return {};
    // Off: this text may be a user's, and no control token may come out of it.
    Status done = tokenizer.encode(plain, vocab::Controls::off, plain_begin == 0, ids);
    plain.clear();
    return done;
  };

  for (const jinja::Span& span : prompt.spans) {
    const std::string_view text =
        std::string_view(prompt.text).substr(span.begin, span.end - span.begin);
    if (span.is_data) {
      add(text, span.begin);
      continue;
    }
    Ids written;
    Status done = tokenizer.encode(text, vocab::Controls::on, span.begin == 0, written);
    if (!done) return done;
    const bool has_control = std::any_of(written.begin(), written.end(),
                                         [&](auto id) { return tokenizer.is_control(id); });
    if (!has_control) {
      add(text, span.begin);
    } else if (const auto parts = split_at_controls(tokenizer, text, written)) {
      add(parts->head, span.begin);
      if (done = flush(); !done) return done;
      ids.insert(ids.end(), parts->middle.begin(), parts->middle.end());
      add(parts->tail, span.end);
    } else {
      // Its tokens are used as they are; only joining with the text beside them is lost.
      if (done = flush(); !done) return done;
      ids.insert(ids.end(), written.begin(), written.end());
    }
  }
  if (Status done = flush(); !done) return done;

  const std::optional<vocab::TokenId> bos = tokenizer.bos();
  // Many templates write the token themselves; two of them would be one too many.
  const bool begins_with_bos = bos && ids.size() > first && ids[first] == *bos;
  if (bos && tokenizer.adds_bos() && !begins_with_bos) {
    ids.insert(ids.begin() + static_cast<std::ptrdiff_t>(first), *bos);
  }
  return {};
}

}  // namespace tenon::prompt
