#include "tenon/api/context_edits.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

// What is taken out of a conversation that has become too long
//
// This file serves two: Anthropic's `context_management` (apply_edits), which empties old results
// of tools and old reasoning, and `truncation: auto` of Responses (drop_oldest), which leaves whole
// messages out. Both keep calls and results together, because a template or an upstream may refuse
// a result without its call. Counting the tokens of a prompt costs most here, so each function
// counts as seldom as it can.

namespace tenon::api {
namespace {

using message::ChatRequest;
using message::Message;
using message::Role;

constexpr std::string_view kCleared = "[cleared to save context]";

// An upper bound of the prompt's tokens, without what the template adds.
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

using Names = std::set<std::string_view>;

Names as_set(const std::vector<std::string>& names) {
  return {names.begin(), names.end()};
}

// A result, and its call: the last one before it with the same id, or null. Ids may be used twice
// in a long conversation.
struct Use {
  Message* result = nullptr;
  message::ToolCall* call = nullptr;
};

std::vector<Use> uses_of(ChatRequest& request) {
  std::vector<Use> uses;
  std::unordered_map<std::string_view, message::ToolCall*> calls;
  for (Message& message : request.messages) {
    for (message::ToolCall& call : message.tool_calls) calls[call.id] = &call;
    if (message.role != Role::tool) continue;
    const auto known = calls.find(message.tool_call_id);
    uses.push_back({&message, known == calls.end() ? nullptr : known->second});
  }
  return uses;
}

// Empties the results of old uses, and their inputs if the edit says so; the newest `keep` stay,
// and so do those of excluded tools, which do not count. Returns how many uses were cleared.
// Results that were cleared by an earlier request are not counted again.
std::uint64_t clear_uses(const ContextEdit& edit, ChatRequest& request) {
  const Names excluded = as_set(edit.excluded);
  const Names input_tools = as_set(edit.input_tools);
  std::vector<Use> uses = uses_of(request);
  std::erase_if(uses, [&](const Use& use) {
    return use.call != nullptr && excluded.contains(use.call->name);
  });
  const std::uint64_t kept = std::min<std::uint64_t>(edit.keep, uses.size());
  uses.resize(uses.size() - static_cast<std::size_t>(kept));
  std::uint64_t cleared = 0;
  for (const auto& [result, call] : uses) {
    if (result->content == kCleared) continue;
    result->content = kCleared;
    result->parts.clear();
    ++cleared;
    const bool goes_too =
        call != nullptr && (edit.clears_all_inputs || input_tools.contains(call->name));
    if (goes_too) call->arguments = "{}";
  }
  return cleared;
}

// Returns how many turns lost their reasoning. A turn ends at a user's text; results belong to it.
std::uint64_t clear_thinking(const ContextEdit& edit, ChatRequest& request) {
  if (edit.keeps_all) return 0;
  std::uint64_t turns = 0;
  std::uint64_t cleared = 0;
  bool is_counted = false;  // the present turn
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

// If it fits without some parts, it fits without more, so a binary search finds how few must go.
// Each call of fits() tokenises the whole prompt.
std::size_t drop_oldest(ChatRequest& request,
                        const std::function<bool(const ChatRequest& request)>& fits) {
  const std::vector<Message>& all = request.messages;
  std::size_t asked = all.size();  // the user's last text
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].role == Role::user) asked = i;
  }
  std::vector<std::vector<std::size_t>> parts;  // those that may go, oldest first
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].role == Role::system || all[i].role == Role::developer || i == asked) continue;
    const bool is_result = all[i].role == Role::tool && !parts.empty();
    if (!is_result) parts.emplace_back();
    parts.back().push_back(i);
  }
  // The last part, for example a call and its results that the answer goes on from, must stay.
  const bool ends_with_part =
      !parts.empty() && (asked == all.size() || parts.back().front() > asked);
  const std::size_t may_go = parts.size() - (ends_with_part ? 1 : 0);
  if (may_go == 0) return 0;
  const auto without = [&](std::size_t count) {
    std::vector<bool> goes(all.size(), false);
    for (std::size_t i = 0; i < count; ++i) {
      for (const std::size_t at : parts[i]) goes[at] = true;
    }
    ChatRequest rest = request;
    rest.messages.clear();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!goes[i]) rest.messages.push_back(all[i]);
    }
    return rest;
  };
  std::size_t least = 1;
  std::size_t most = may_go;
  if (!fits(without(most))) return 0;
  while (least < most) {
    const std::size_t middle = least + (most - least) / 2;
    if (fits(without(middle))) {
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  const std::size_t before = all.size();
  request = without(most);
  return before - request.messages.size();
}

json::Array apply_edits(const std::vector<ContextEdit>& edits, ChatRequest& request,
                        const CountTokens& count) {
  json::Array applied;
  std::optional<std::uint64_t> tokens;  // of the prompt in its present state
  const auto counted = [&] {
    if (!tokens) tokens = count(request);
    return *tokens;
  };
  for (const ContextEdit& edit : edits) {
    const bool is_of_uses = edit.kind == ContextEdit::Kind::tool_uses;
    if (is_of_uses && edit.triggers_by_uses && uses_in(request) <= edit.trigger) continue;
    if (is_of_uses && !edit.triggers_by_uses) {
      // A template may double the size. A request far below the trigger is not tokenised for it.
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
