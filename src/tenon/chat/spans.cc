#include "tenon/chat/spans.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/json/value.h"

// Attributes of spans for answers, by the semantic conventions of OpenTelemetry for generative AI
// (`gen_ai.*`); our own begin with `tenon.`. There are three kinds of spans: an answer of a model
// (start_in_span), a request that runs tools (agent_span), and a run of a tool (tool_span). Texts
// of messages are attributes only where the operator allows contents (takes_contents).

namespace tenon::chat {
namespace {

using json::Array;
using json::Object;
using json::Value;
using message::ChatRequest;
using message::FinishReason;
using message::Message;
using trace::Span;
using trace::SpanKind;

// A longer attribute is left out, since JSON cannot be cut.
constexpr std::size_t kMaxContent = std::size_t{256} << 10;

void set_content(Span& span, std::string_view key, const Value& value) {
  std::string text = json::to_string(value);
  if (text.size() <= kMaxContent) {
    span.set(key, text);
  } else {
    span.set("tenon.contents_left_out", true);
  }
}

// The arguments as JSON; as a string if the model has written no JSON.
Value arguments_of(const std::string& text) {
  auto parsed = json::parse(text);
  return parsed ? *std::move(parsed) : Value(text);
}

// A message as the conventions' schema of `gen_ai.input.messages` has it.
Object span_message(const Message& message) {
  Array parts;
  if (!message.reasoning.empty()) {
    parts.emplace_back(Object{{"type", "reasoning"}, {"content", message.reasoning}});
  }
  const std::string text = message.text();
  if (message.role == message::Role::tool) {
    parts.emplace_back(
        Object{{"type", "tool_call_response"}, {"id", message.tool_call_id}, {"response", text}});
  } else if (!text.empty()) {
    parts.emplace_back(Object{{"type", "text"}, {"content", text}});
  }
  for (const message::ToolCall& call : message.tool_calls) {
    parts.emplace_back(Object{{"type", "tool_call"},
                              {"id", call.id},
                              {"name", call.name},
                              {"arguments", arguments_of(call.arguments)}});
  }
  return {{"role", message::role_name(message.role)}, {"parts", std::move(parts)}};
}

// The messages and tools of a request. A continuation has no messages: its text counts as one.
void set_input(const ChatRequest& request, Span& span) {
  Array messages;
  for (const Message& message : request.messages) messages.emplace_back(span_message(message));
  if (request.continuation) {
    Array parts{Object{{"type", "text"}, {"content", request.continuation->text}}};
    messages.emplace_back(Object{{"role", "user"}, {"parts", std::move(parts)}});
  }
  set_content(span, "gen_ai.input.messages", std::move(messages));
  if (request.tools.empty()) return;
  Array tools;
  for (const message::Tool& tool : request.tools) {
    tools.emplace_back(Object{{"type", "function"},
                              {"name", tool.name},
                              {"description", tool.description},
                              {"parameters", tool.parameters}});
  }
  set_content(span, "gen_ai.tool.definitions", std::move(tools));
}

// The conventions have an attribute only for what the client has set.
template <class Number>
void set_if(Span& span, std::string_view key, const std::optional<Number>& value) {
  if (!value) return;
  if constexpr (std::is_floating_point_v<Number>) {
    span.set(key, static_cast<double>(*value));
  } else {
    span.set(key, static_cast<std::int64_t>(*value));
  }
}

void set_request(const ChatRequest& request, Span& span) {
  const message::Sampling& sampling = request.sampling;
  set_if(span, "gen_ai.request.max_tokens", request.max_tokens);
  set_if(span, "gen_ai.request.temperature", sampling.temperature);
  set_if(span, "gen_ai.request.top_p", sampling.top_p);
  // The conventions have top_k as a floating-point number.
  if (sampling.top_k) span.set("gen_ai.request.top_k", static_cast<double>(*sampling.top_k));
  set_if(span, "gen_ai.request.seed", sampling.seed);
  set_if(span, "gen_ai.request.presence_penalty", sampling.presence_penalty);
  set_if(span, "gen_ai.request.frequency_penalty", sampling.frequency_penalty);
  if (!request.stop.empty() && span.takes_contents()) {
    span.set("gen_ai.request.stop_sequences", request.stop);
  }
  if (request.response_format.kind == message::ResponseFormat::Kind::json) {
    span.set("gen_ai.output.type", "json");
  }
}

// 0 may mean that an upstream has not told the count, so it is no attribute.
void set_count(Span& span, std::string_view key, std::uint32_t count) {
  if (count > 0) span.set(key, std::int64_t{count});
}

void set_usage(const message::Usage& usage, Span& span) {
  set_count(span, "gen_ai.usage.input_tokens", usage.prompt_tokens);
  set_count(span, "gen_ai.usage.output_tokens", usage.completion_tokens);
  set_count(span, "gen_ai.usage.cache_read.input_tokens", usage.cached_tokens);
  set_count(span, "gen_ai.usage.reasoning.output_tokens", usage.reasoning_tokens);
}

void set_end(const message::Finish& finish, Span& span) {
  if (!span) return;
  span.set("gen_ai.response.finish_reasons",
           std::vector<std::string>{std::string(message::finish_reason_name(finish.reason))});
  set_usage(finish.usage, span);
  if (finish.reason == FinishReason::cancelled) span.fail("cancelled");
  if (finish.reason != FinishReason::error) return;
  // The message may have words of a model or of a server.
  span.fail(errc_name(finish.error.code),
            span.takes_contents() ? finish.error.message : std::string());
}

/// Sees one answer on its way.
class AnswerSpan final : public message::ChatSinkBefore {
 public:
  AnswerSpan(Span span, const std::shared_ptr<message::ChatSink>& sink)
      : ChatSinkBefore(sink), sink_(sink), span_(std::move(span)), keeps_(span_.takes_contents()) {}
  AnswerSpan(const AnswerSpan&) = delete;
  AnswerSpan& operator=(const AnswerSpan&) = delete;
  // An answer that is dropped before its Finish was cancelled.
  ~AnswerSpan() override {
    if (span_ && span_.text("error.type").empty()) span_.fail("cancelled");
  }

  Span& span() { return span_; }

  void on_event(const message::ChatEvent& event,
                const std::vector<message::TokenLogprob>& logprobs) override {
    // Only contents need the whole answer; otherwise nothing of it is copied.
    if (keeps_) fold_.add(event);
    const auto* const finish = std::get_if<message::Finish>(&event);
    if (finish == nullptr) {
      if (!has_begun_ && !std::holds_alternative<message::Diagnostic>(event)) note_first();
      return sink_->on_event(event, logprobs);
    }
    end(*finish);
    // The sink may own this object, so it is released after the last event.
    const auto sink = std::move(sink_);
    sink->on_event(event, logprobs);
  }

 private:
  void note_first() {
    has_begun_ = true;
    const std::chrono::duration<double> after = std::chrono::steady_clock::now() - begun_;
    span_.set("gen_ai.response.time_to_first_chunk", after.count());
  }
  void end(const message::Finish& finish) {
    if (!finish.format.empty()) {
      span_.set("tenon.guarantee", message::guarantee_name(finish.guarantee));
      span_.set("tenon.format", finish.format);
    }
    if (keeps_) {
      Object message = span_message(fold_.message());
      message.set("finish_reason", message::finish_reason_name(finish.reason));
      set_content(span_, "gen_ai.output.messages", Array{std::move(message)});
    }
    set_end(finish, span_);
    span_.end();
  }

  std::shared_ptr<message::ChatSink> sink_;  // null after the last event
  Span span_;
  const bool keeps_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  bool has_begun_ = false;
  message::Fold fold_;
};

}  // namespace

Result<std::unique_ptr<Answer>, Refusal> start_in_span(
    const ChatRequest& request, const Answerer& answerer, std::shared_ptr<message::ChatSink> sink,
    const std::function<
        Result<std::unique_ptr<Answer>, Refusal>(std::shared_ptr<message::ChatSink>)>& start) {
  const std::string_view operation = request.continuation ? "text_completion" : "chat";
  Span span(std::string(operation) + " " + std::string(answerer.model),
            answerer.is_remote ? SpanKind::client : SpanKind::internal);
  if (!span) return start(std::move(sink));
  span.set("gen_ai.operation.name", operation);
  span.set("gen_ai.provider.name", answerer.is_remote ? answerer.engine : "tenon");
  span.set("gen_ai.request.model", answerer.model);
  span.set("gen_ai.response.model", answerer.model);
  set_request(request, span);
  if (span.takes_contents()) set_input(request, span);
  // The span may end, on another thread, before start() returns: what is within it has a copy.
  const trace::Context within = span.context();
  const trace::Scope scope(within);
  const auto watched = std::make_shared<AnswerSpan>(std::move(span), sink);
  auto started = start(watched);
  // A refused answer has no events, so no other thread has the span.
  if (!started) watched->span().fail(errc_name(started.error().error.code));
  return started;
}

Span agent_span(std::string_view name) {
  Span span("invoke_agent " + std::string(name), SpanKind::internal);
  if (!span) return span;
  span.set("gen_ai.operation.name", "invoke_agent");
  span.set("gen_ai.provider.name", "tenon");
  span.set("gen_ai.agent.name", name);
  span.set("gen_ai.request.model", name);
  return span;
}

void end_agent_span(Span& span, const message::Finish& finish) {
  set_end(finish, span);
  span.end();
}

Span tool_span(std::string_view name, std::string_view description, std::string_view call_id,
               std::string_view arguments) {
  Span span("execute_tool " + std::string(name), SpanKind::internal);
  if (!span) return span;
  span.set("gen_ai.operation.name", "execute_tool");
  span.set("gen_ai.tool.name", name);
  span.set("gen_ai.tool.type", "function");
  if (!call_id.empty()) span.set("gen_ai.tool.call.id", call_id);
  if (!description.empty()) span.set("gen_ai.tool.description", description.substr(0, 1024));
  if (span.takes_contents() && arguments.size() <= kMaxContent) {
    span.set("gen_ai.tool.call.arguments", arguments);
  }
  return span;
}

}  // namespace tenon::chat
