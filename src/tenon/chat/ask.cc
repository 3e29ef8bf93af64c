#include "tenon/chat/ask.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tenon/chat/quoted_calls.h"
#include "tenon/format/asked.h"
#include "tenon/repair/rules.h"
#include "tenon/schema/schema.h"

// What a request asks for, decided once (Ask), and what follows from it for the turn
// (take_request). The largest decision is whether calls in other forms than the format's are taken
// for calls (other_forms_of): an answer to "show me an example of a tool call" must not run one.

namespace tenon::chat {
namespace {

using message::ChatRequest;
using message::ToolMode;

bool is_offering(const ChatRequest& request) {
  return !request.tools.empty() && request.tool_choice.mode != ToolMode::none;
}

std::vector<const message::Tool*> callable_tools(const ChatRequest& request) {
  std::vector<const message::Tool*> tools;
  if (!is_offering(request)) return tools;
  const std::vector<std::string>& allowed = request.tool_choice.allowed;
  for (const message::Tool& tool : request.tools) {
    if (allowed.empty() || std::find(allowed.begin(), allowed.end(), tool.name) != allowed.end()) {
      tools.push_back(&tool);
    }
  }
  return tools;
}

// What looks like a call in a tool's result may be quoted in the answer, so such text must not be
// run. Only the latest results are searched.
bool is_call_in_result(const ChatRequest& request, const std::vector<std::string>& names) {
  std::size_t left = std::size_t{1} << 20U;  // bytes of the latest results that are searched
  for (auto one = request.messages.rbegin(); one != request.messages.rend() && left > 0; ++one) {
    if (one->role != message::Role::tool) continue;
    const std::string text = one->text().substr(0, left);
    left -= text.size();
    if (shows_call(text, names)) return true;
  }
  return false;
}

// What stands in the question is quoted by an answer to it. Where a call is demanded, any form
// counts. Where the user names a tool and speaks of a program or a document, a call counts only
// before all words (format/asked.h).
OtherForms other_forms_of(const ChatRequest& request,
                          const std::vector<const message::Tool*>& tools) {
  constexpr std::size_t kMostAsked = std::size_t{1} << 20U;
  if (!is_offering(request) || request.tool_choice.mode != ToolMode::automatic) {
    return OtherForms::anywhere;
  }
  std::vector<std::string> names;
  for (const message::Tool* tool : tools) names.push_back(tool->name);
  if (is_call_in_result(request, names)) return OtherForms::nowhere;
  const auto last = std::ranges::find(request.messages.rbegin(), request.messages.rend(),
                                      message::Role::user, &message::Message::role);
  if (last == request.messages.rend()) return OtherForms::anywhere;
  const std::string text = last->text();
  const format::Asked asked = format::asked_for(text, names);
  if (asked == format::Asked::to_show_calls || shows_call(text.substr(0, kMostAsked), names)) {
    return OtherForms::nowhere;
  }
  return asked == format::Asked::of_tools ? OtherForms::first : OtherForms::anywhere;
}

bool repairs_arguments(const ChatRequest& request, const ModelOptions& options) {
  return options.repair_rules != nullptr && request.normalize.value_or(options.normalize);
}

// Without a schema any object is valid.
Expected<std::shared_ptr<const schema::Schema>> response_schema(const ChatRequest& request) {
  const json::Value& schema = request.response_format.schema;
  return schema::Schema::compile(schema.is_null() ? json::Object{{"type", "object"}} : schema);
}

}  // namespace

Ask::Ask(const ChatRequest& request_, const ModelOptions& options)
    : request(request_),
      tools(callable_tools(request)),
      offers_tools(is_offering(request)),
      demands_call(offers_tools && request.tool_choice.mode == ToolMode::required),
      text_kind(request.response_format.kind),
      other_forms(other_forms_of(request, tools)),
      repairs(repairs_arguments(request, options)),
      max_tokens(request.max_tokens.value_or(options.default_max_tokens)),
      max_reasoning_tokens(request.max_reasoning_tokens ? request.max_reasoning_tokens
                                                        : options.max_reasoning_tokens),
      max_calls(request.max_calls.value_or(options.max_calls)) {}

OtherForms Ask::masked_other_forms(bool where_required) const {
  const bool takes_them =
      offers_tools && !request.continuation && (!demands_call || where_required) && is_any_text();
  return takes_them ? other_forms : OtherForms::nowhere;
}

message::Diagnostic reasoning_unlimited(const std::string& engine) {
  return {"reasoning_unlimited",
          "the engine '" + engine + "' cannot limit the tokens of the model's reasoning"};
}

// For engines without grammars, whose tools are not compiled before the answer: a schema that is
// invalid is refused all the same; one that is beyond our limits is not.
Result<void, Refusal> check_schemas(const Ask& ask) {
  for (const message::Tool* tool : ask.tools) {
    if (tool->parameters.is_null()) continue;
    const auto schema = schema::Schema::compile(tool->parameters);
    if (schema || schema.error().code != Errc::invalid) continue;
    const auto at = static_cast<std::size_t>(tool - ask.request.tools.data());
    return refuse(Errc::invalid, "tool '" + tool->name + "': " + schema.error().message,
                  "tools[" + std::to_string(at) + "].function.parameters", "invalid_value");
  }
  return {};
}

Result<void, Refusal> check_response_schema(const Ask& ask) {
  const auto schema = response_schema(ask.request);
  if (schema || schema.error().code != Errc::invalid) return {};
  return refuse_field(Errc::invalid, "response_format", ": " + schema.error().message,
                      "invalid_value");
}

std::unique_ptr<CallCheck> make_check(const Ask& ask, const ModelOptions& options,
                                      std::shared_ptr<CompiledSchemas> schemas) {
  std::vector<std::string> texts;
  for (const message::Tool* tool : ask.tools) {
    if (tool->grammar) texts.push_back(tool->name);
  }
  return std::make_unique<CallCheck>(ask.repairs ? options.repair_rules : nullptr, std::move(texts),
                                     std::move(schemas));
}

void take_request(const Ask& ask, const ModelOptions& options, bool is_constrained,
                  TurnOptions& turn) {
  const ChatRequest& request = ask.request;
  turn.stop = request.stop;
  turn.turn_begins = options.turn_begins;
  if (request.logprobs) turn.logprobs = static_cast<std::uint32_t>(request.top_logprobs);
  turn.parallel_tool_calls = request.parallel_tool_calls;
  turn.max_calls = ask.max_calls;
  turn.has_response_format = !ask.is_any_text();
  // The rest of an answer with a prefill is not JSON by itself.
  if (ask.is_json() && !is_constrained && request.prefill.empty()) {
    if (auto schema = response_schema(request)) turn.text_schema = *std::move(schema);
  }
  const bool has_schemas = turn.parse.schemas.size() > 0;
  for (const message::Tool* tool : ask.tools) {
    turn.parse.tools.push_back(tool->name);
    if (!has_schemas) turn.parse.schemas.push_back(tool->parameters);
  }
  turn.parse.id_prefix = request.call_id_prefix;
  if (is_constrained || turn.parse.tools.empty()) return;
  turn.parse.any_tool = options.on_unknown_tool == UnknownTool::forward;
  if (options.on_unknown_tool == UnknownTool::repair && ask.repairs) {
    turn.parse.corrected_name = [names = turn.parse.tools](const std::string& name) {
      const std::string* const meant = repair::misspelt(name, names);
      return meant != nullptr ? *meant : std::string();
    };
  }
}

}  // namespace tenon::chat
