#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "tenon/base/span.h"
#include "tenon/chat/responder.h"

/// Spans of answers, by OpenTelemetry's GenAI semantic conventions
/// (github.com/open-telemetry/semantic-conventions-genai).
namespace tenon::chat {

/// What answers.
struct Answerer {
  std::string_view model;
  std::string_view engine;  ///< Capabilities::kind
  bool is_remote = false;
};

/// `start(sink)`, within the span of one output of a model (`chat MODEL`), which ends with the
/// answer's last event. Without a sink for spans this is `start(sink)` alone.
[[nodiscard]] Result<std::unique_ptr<Answer>, Refusal> start_in_span(
    const message::ChatRequest& request, const Answerer& answerer,
    std::shared_ptr<message::ChatSink> sink,
    const std::function<
        Result<std::unique_ptr<Answer>, Refusal>(std::shared_ptr<message::ChatSink>)>& start);

/// The span of a loop of answers, and of what they have run (`invoke_agent NAME`).
[[nodiscard]] trace::Span agent_span(std::string_view name);
/// Its end.
void end_agent_span(trace::Span& span, const message::Finish& finish);

/// The span of a tool's run (`execute_tool NAME`).
[[nodiscard]] trace::Span tool_span(std::string_view name, std::string_view description,
                                    std::string_view call_id, std::string_view arguments);

}  // namespace tenon::chat
