#include "tenon/chat/loop.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "tenon/json/value.h"

namespace tenon::chat {
namespace {

using message::Loop;
using message::Message;
using message::Role;

// Rounds beyond these make no difference to what is done.
constexpr std::size_t kMostRead = 256;  // answers with calls
constexpr std::uint32_t kRoundsToStop = 3;

// JSON text that is the same for equal values, or the text itself.
std::string canonical(const std::string& arguments) {
  const auto value = json::parse(arguments);
  return value ? json::to_string(*value) : arguments;
}

// The calls of `messages[at]` with their results, as a text that is equal for equal ones.
std::string step_at(const std::vector<Message>& messages, std::size_t at) {
  std::string step;
  const Message& answer = messages[at];
  for (std::size_t i = 0; i < answer.tool_calls.size(); ++i) {
    const message::ToolCall& call = answer.tool_calls[i];
    const Message* result = nullptr;
    for (std::size_t j = at + 1; j < messages.size() && messages[j].role == Role::tool; ++j) {
      const bool is_its = call.id.empty() || messages[j].tool_call_id.empty()
                              ? j - at - 1 == i
                              : messages[j].tool_call_id == call.id;
      if (is_its) result = &messages[j];
    }
    json::append_quoted(step, call.name);
    json::append_quoted(step, canonical(call.arguments));
    if (result != nullptr) json::append_quoted(step, result->text());
  }
  return step;
}

}  // namespace

Loop loop_of(const std::vector<Message>& messages) {
  std::vector<std::string> steps;  // the last one first
  std::string tool;
  for (std::size_t at = messages.size(); at-- > 0 && steps.size() < kMostRead;) {
    if (messages[at].role == Role::user) break;
    if (messages[at].tool_calls.empty()) continue;
    if (tool.empty()) tool = messages[at].tool_calls.back().name;
    steps.push_back(step_at(messages, at));
  }
  for (std::size_t length = 1; length <= kMostSteps && 2 * length <= steps.size(); ++length) {
    std::size_t same = 0;
    while (same + length < steps.size() && steps[same] == steps[same + length]) ++same;
    const std::size_t repeats = 1 + same / length;
    if (repeats > 1) {
      return {.tool = tool,
              .repeats = static_cast<std::uint32_t>(repeats),
              .steps = static_cast<std::uint32_t>(length)};
    }
  }
  return {};
}

std::optional<message::ChatRequest> stopped(const message::ChatRequest& request, const Loop& loop,
                                            message::OnLoop setting) {
  const bool stops = request.on_loop.value_or(setting) == message::OnLoop::stop;
  if (!stops || loop.repeats < kRoundsToStop) return std::nullopt;
  message::ChatRequest quiet = request;
  quiet.tool_choice = {.mode = message::ToolMode::none};
  return quiet;
}

}  // namespace tenon::chat
