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
constexpr std::size_t kMostRead = 256;   // answers with calls
constexpr std::size_t kMostCalls = 256;  // in one answer
constexpr std::uint32_t kRoundsToStop = 3;

// JSON text without white space, with sorted members; or the text itself.
std::string canonical(const std::string& arguments) {
  const auto value = json::parse(arguments);
  return value ? json::dumps(*value, {.sort_keys = true, .keep_numbers = true}) : arguments;
}

// The calls of `messages[at]` with their results, as a text that is equal for equal ones; "" if
// there are too many calls.
std::string step_at(const std::vector<Message>& messages, std::size_t at) {
  const std::vector<message::ToolCall>& calls = messages[at].tool_calls;
  if (calls.size() > kMostCalls) return {};
  std::vector<const Message*> results;
  for (std::size_t i = at + 1; i < messages.size() && messages[i].role == Role::tool; ++i) {
    if (results.size() == kMostCalls) return {};
    results.push_back(&messages[i]);
  }
  std::string step;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto by_id = std::ranges::find(results, calls[i].id, &Message::tool_call_id);
    // A result belongs to the call with its id; without ids, to the call in the same place.
    const bool has_id = !calls[i].id.empty() && by_id != results.end();
    const Message* const result = has_id ? *by_id : i < results.size() ? results[i] : nullptr;
    json::append_quoted(step, calls[i].name);
    json::append_quoted(step, canonical(calls[i].arguments));
    if (result != nullptr) json::append_quoted(step, result->text());
  }
  return step;
}

// A user's message right behind results is a reminder that an agent adds to them.
bool begins_turn(const std::vector<Message>& messages, std::size_t at) {
  return messages[at].role == Role::user && (at == 0 || messages[at - 1].role != Role::tool);
}

}  // namespace

Loop loop_of(const std::vector<Message>& messages) {
  std::vector<std::string> steps;  // the last one first
  std::string tool;
  for (std::size_t at = messages.size(); at-- > 0 && steps.size() < kMostRead;) {
    if (begins_turn(messages, at)) break;
    if (messages[at].tool_calls.empty()) continue;
    if (tool.empty()) tool = messages[at].tool_calls.back().name;
    steps.push_back(step_at(messages, at));
    if (steps.back().empty()) break;
  }
  for (std::size_t length = 1; length <= kMostSteps && 2 * length <= steps.size(); ++length) {
    // `steps` is compared with itself, shifted by `length`. The shortest period counts: a call that
    // repeats alone is a loop of one step, not of two.
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
