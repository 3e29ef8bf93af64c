#include "tenon/api/context_edits.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace tenon::api {
namespace {

using message::ChatRequest;
using message::Message;
using message::Role;

constexpr std::string_view kCleared = "[cleared to save context]";

// An upper bound of the prompt's tokens, but for what its template adds.
std::uint64_t bytes_in(const ChatRequest& request) {
  std::uint64_t bytes = 0;
  for (const Message& message : request.messages) {
    bytes += message.text().size() + message.reasoning.size();
    for (const message::ToolCall& call : message.tool_calls) {
      bytes += call.name.size() + call.arguments.size();
    }
  }
  for (const message::Tool& tool : request.tools) bytes += json::to_string(tool.raw).size();
  return bytes;
}

bool names(const std::vector<std::string>& list, const std::string& name) {
  return std::ranges::find(list, name) != list.end();
}

// The call that a result is of: the last one before it with its id.
message::ToolCall* call_of(ChatRequest& request, std::size_t result) {
  for (std::size_t i = result; i-- > 0;) {
    for (message::ToolCall& call : request.messages[i].tool_calls) {
      if (call.id == request.messages[result].tool_call_id) return &call;
    }
  }
  return nullptr;
}

// How many uses went.
std::uint64_t clear_uses(const ContextEdit& edit, ChatRequest& request) {
  std::vector<std::size_t> results;
  for (std::size_t i = 0; i < request.messages.size(); ++i) {
    if (request.messages[i].role != Role::tool) continue;
    const message::ToolCall* call = call_of(request, i);
    if (call == nullptr || !names(edit.excluded, call->name)) results.push_back(i);
  }
  const std::uint64_t kept = std::min<std::uint64_t>(edit.keep, results.size());
  results.resize(results.size() - static_cast<std::size_t>(kept));
  std::uint64_t cleared = 0;
  for (const std::size_t at : results) {
    Message& result = request.messages[at];
    if (result.content == kCleared) continue;
    result.content = kCleared;
    result.parts.clear();
    ++cleared;
    message::ToolCall* call = call_of(request, at);
    const bool goes_too =
        call != nullptr && (edit.clears_all_inputs || names(edit.input_tools, call->name));
    if (goes_too) call->arguments = "{}";
  }
  return cleared;
}

// How many turns lost their thinking. A turn ends with what a user says; results are part of it.
std::uint64_t clear_thinking(const ContextEdit& edit, ChatRequest& request) {
  if (edit.keeps_all) return 0;
  std::uint64_t turns = 0;
  std::uint64_t cleared = 0;
  bool is_counted = false;  // this turn
  for (std::size_t i = request.messages.size(); i-- > 0;) {
    Message& message = request.messages[i];
    if (message.role == Role::user) is_counted = false;
    if (message.reasoning.empty()) continue;
    if (!std::exchange(is_counted, true)) ++turns;
    if (turns <= edit.keep) continue;
    message.reasoning.clear();
    cleared = turns - edit.keep;
  }
  return cleared;
}

std::uint64_t uses_in(const ChatRequest& request) {
  const auto is_result = [](const Message& message) { return message.role == Role::tool; };
  return static_cast<std::uint64_t>(std::ranges::count_if(request.messages, is_result));
}

}  // namespace

std::uint64_t guessed_tokens(const ChatRequest& request) {
  return bytes_in(request) / 4;
}

json::Array apply_edits(const std::vector<ContextEdit>& edits, ChatRequest& request,
                        const CountTokens& count) {
  json::Array applied;
  std::optional<std::uint64_t> tokens;  // of the prompt as it is now
  const auto counted = [&] {
    if (!tokens) tokens = count(request);
    return *tokens;
  };
  for (const ContextEdit& edit : edits) {
    const bool is_of_uses = edit.kind == ContextEdit::Kind::tool_uses;
    if (is_of_uses && edit.triggers_by_uses && uses_in(request) <= edit.trigger) continue;
    if (is_of_uses && !edit.triggers_by_uses) {
      // A template may double it; a small request is not counted for an edit that is far away.
      constexpr std::uint64_t kOfTemplates = 4096;
      if (2 * bytes_in(request) + kOfTemplates <= edit.trigger) continue;
      if (counted() <= edit.trigger) continue;
    }
    ChatRequest edited = request;
    const std::uint64_t cleared =
        is_of_uses ? clear_uses(edit, edited) : clear_thinking(edit, edited);
    if (cleared == 0) continue;
    const std::uint64_t before = counted();
    const std::uint64_t after = count(edited);
    const std::uint64_t saved = before > after ? before - after : 0;
    if (saved < edit.at_least_tokens) continue;
    request = std::move(edited);
    tokens = after;
    applied.emplace_back(
        json::Object{{"type", edit.type},
                     {is_of_uses ? "cleared_tool_uses" : "cleared_thinking_turns", cleared},
                     {"cleared_input_tokens", saved}});
  }
  return applied;
}

}  // namespace tenon::api
