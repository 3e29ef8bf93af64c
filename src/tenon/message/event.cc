#include "tenon/message/event.h"

#include <array>

namespace tenon::message {
namespace {

// In the order of the enumerators. `cancelled` and `error` are not finish reasons of any client
// dialect; they have names for the log.
constexpr std::array<std::string_view, 5> kFinishReasonNames = {"stop", "length", "tool_calls",
                                                                "cancelled", "error"};
constexpr std::array<std::string_view, 5> kGuaranteeNames = {"unenforced", "repaired", "validated",
                                                             "upstream", "masked"};

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  return kFinishReasonNames.at(static_cast<std::size_t>(reason));
}

std::string_view guarantee_name(Guarantee guarantee) {
  return kGuaranteeNames.at(static_cast<std::size_t>(guarantee));
}

Usage& Usage::operator+=(const Usage& other) {
  prompt_tokens += other.prompt_tokens;
  completion_tokens += other.completion_tokens;
  cached_tokens += other.cached_tokens;
  reasoning_tokens += other.reasoning_tokens;
  is_estimated = is_estimated || other.is_estimated;
  return *this;
}

// Events of a server's own tools (ServerCallBegin and so on) add nothing to the message.
void Fold::add(const ChatEvent& event) {
  if (const auto* content = std::get_if<ContentDelta>(&event)) {
    // No content at all is different from an empty one.
    if (!message_.content) message_.content.emplace();
    *message_.content += content->text;
  } else if (const auto* reasoning = std::get_if<ReasoningDelta>(&event)) {
    message_.reasoning += reasoning->text;
  } else if (const auto* begin = std::get_if<CallBegin>(&event)) {
    ToolCall& call = call_at(begin->index);
    call.id = begin->id;
    call.name = begin->name;
  } else if (const auto* arguments = std::get_if<CallArguments>(&event)) {
    call_at(arguments->index).arguments += arguments->text;
  } else if (const auto* end = std::get_if<CallEnd>(&event)) {
    call_at(end->index);
    incomplete_[end->index] = end->incomplete;
  } else if (const auto* wanted = std::get_if<ApprovalsWanted>(&event)) {
    for (const ApprovalsWanted::Call& one : wanted->calls) {
      const auto index = static_cast<std::uint32_t>(message_.tool_calls.size());
      call_at(index) = one.call;
      incomplete_[index] = false;
    }
  } else if (const auto* diagnostic = std::get_if<Diagnostic>(&event)) {
    diagnostics_.push_back(*diagnostic);
  } else if (const auto* finish = std::get_if<Finish>(&event)) {
    finish_ = *finish;
  }
}

// A call counts as incomplete until its end has come.
ToolCall& Fold::call_at(std::uint32_t index) {
  if (index >= message_.tool_calls.size()) {
    message_.tool_calls.resize(std::size_t{index} + 1);
    incomplete_.resize(std::size_t{index} + 1, true);
  }
  return message_.tool_calls[index];
}

}  // namespace tenon::message
