#include "tenon/chat/requested.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tenon/chat/quoted_calls.h"
#include "tenon/format/asked.h"
#include "tenon/repair/rules.h"
#include "tenon/schema/schema.h"

namespace tenon::chat {

using message::ChatRequest;
using message::ToolMode;

Failure<Refusal> refuse(Errc code, std::string message, std::string param,
                        std::string stable_code) {
  return Failure<Refusal>({.error = {code, std::move(message)},
                           .param = std::move(param),
                           .code = std::move(stable_code)});
}

bool offers_tools(const ChatRequest& request) {
  return !request.tools.empty() && request.tool_choice.mode != ToolMode::none;
}

std::vector<const message::Tool*> callable_tools(const ChatRequest& request) {
  std::vector<const message::Tool*> tools;
  if (!offers_tools(request)) return tools;
  const std::vector<std::string>& allowed = request.tool_choice.allowed;
  for (const message::Tool& tool : request.tools) {
    if (allowed.empty() || std::find(allowed.begin(), allowed.end(), tool.name) != allowed.end()) {
      tools.push_back(&tool);
    }
  }
  return tools;
}

Result<void, Refusal> check_schemas(const ChatRequest& request) {
  for (const message::Tool* tool : callable_tools(request)) {
    if (tool->parameters.is_null()) continue;
    const auto schema = schema::Schema::compile(tool->parameters);
    if (schema || schema.error().code != Errc::invalid) continue;
    const auto at = static_cast<std::size_t>(tool - request.tools.data());
    return refuse(Errc::invalid, "tool '" + tool->name + "': " + schema.error().message,
                  "tools[" + std::to_string(at) + "].function.parameters", "invalid_value");
  }
  return {};
}

namespace {

// Without a schema any object is valid.
Expected<std::shared_ptr<const schema::Schema>> response_schema(const ChatRequest& request) {
  const json::Value& schema = request.response_format.schema;
  return schema::Schema::compile(schema.is_null() ? json::Object{{"type", "object"}} : schema);
}

}  // namespace

Result<void, Refusal> check_response_schema(const ChatRequest& request) {
  const auto schema = response_schema(request);
  if (schema || schema.error().code != Errc::invalid) return {};
  return refuse(Errc::invalid, "response_format: " + schema.error().message, "response_format",
                "invalid_value");
}

namespace {

// What looks like a call in a tool's result may be quoted in the answer.
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

}  // namespace

// What stands in the question is quoted by an answer to it.
OtherForms other_forms(const ChatRequest& request) {
  constexpr std::size_t kMostAsked = std::size_t{1} << 20U;
  if (!offers_tools(request) || request.tool_choice.mode != ToolMode::automatic) {
    return OtherForms::anywhere;
  }
  std::vector<std::string> names;
  for (const message::Tool* tool : callable_tools(request)) names.push_back(tool->name);
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

OtherForms masked_other_forms(const ChatRequest& request, bool where_required) {
  const ToolMode mode = request.tool_choice.mode;
  const bool takes_them =
      offers_tools(request) && !request.continuation &&
      (mode == ToolMode::automatic || (mode == ToolMode::required && where_required)) &&
      request.response_format.kind == message::ResponseFormat::Kind::text;
  return takes_them ? other_forms(request) : OtherForms::nowhere;
}

bool repairs_arguments(const ChatRequest& request, const ModelOptions& options) {
  return options.repair_rules != nullptr && request.normalize.value_or(options.normalize);
}

std::unique_ptr<CallCheck> make_check(const ChatRequest& request, const ModelOptions& options,
                                      std::shared_ptr<CompiledSchemas> schemas) {
  std::vector<std::string> texts;
  for (const message::Tool* tool : callable_tools(request)) {
    if (tool->grammar) texts.push_back(tool->name);
  }
  return std::make_unique<CallCheck>(
      repairs_arguments(request, options) ? options.repair_rules : nullptr, std::move(texts),
      std::move(schemas));
}

void take_request(const ChatRequest& request, const ModelOptions& options, bool is_constrained,
                  TurnOptions& turn) {
  turn.stop = request.stop;
  turn.turn_begins = options.turn_begins;
  if (request.logprobs) turn.logprobs = static_cast<std::uint32_t>(request.top_logprobs);
  turn.parallel_tool_calls = request.parallel_tool_calls;
  using Kind = message::ResponseFormat::Kind;
  turn.has_response_format = request.response_format.kind != Kind::text;
  // The rest of an answer with a prefill is not JSON by itself.
  if (request.response_format.kind == Kind::json && !is_constrained && request.prefill.empty()) {
    if (auto schema = response_schema(request)) turn.text_schema = *std::move(schema);
  }
  const bool has_schemas = turn.parse.schemas.size() > 0;
  for (const message::Tool* tool : callable_tools(request)) {
    turn.parse.tools.push_back(tool->name);
    if (!has_schemas) turn.parse.schemas.push_back(tool->parameters);
  }
  turn.parse.id_prefix = request.call_id_prefix;
  if (is_constrained || turn.parse.tools.empty()) return;
  turn.parse.any_tool = options.on_unknown_tool == UnknownTool::forward;
  if (options.on_unknown_tool == UnknownTool::repair && repairs_arguments(request, options)) {
    turn.parse.corrected_name = [names = turn.parse.tools](const std::string& name) {
      const std::string* const meant = repair::misspelt(name, names);
      return meant != nullptr ? *meant : std::string();
    };
  }
}

namespace {

class TurnAnswer final : public Answer {
 public:
  TurnAnswer(std::shared_ptr<Turn> turn, std::size_t prompt_tokens)
      : turn_(std::move(turn)), prompt_tokens_(static_cast<std::uint32_t>(prompt_tokens)) {}
  ~TurnAnswer() override { turn_->run().detach(); }
  TurnAnswer(const TurnAnswer&) = delete;
  TurnAnswer& operator=(const TurnAnswer&) = delete;

  void cancel() override { turn_->run().cancel(); }
  void pause() override { turn_->run().set_paused(true); }
  void resume() override { turn_->run().set_paused(false); }
  [[nodiscard]] std::uint32_t prompt_tokens() const override { return prompt_tokens_; }

 private:
  std::shared_ptr<Turn> turn_;
  const std::uint32_t prompt_tokens_;
};

}  // namespace

std::unique_ptr<Answer> answer_of(std::shared_ptr<Turn> turn, std::size_t prompt_tokens) {
  return std::make_unique<TurnAnswer>(std::move(turn), prompt_tokens);
}

}  // namespace tenon::chat
