#include "tenon/api/prompt_prints.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "tenon/json/value.h"

namespace tenon::api {
namespace {

using message::Message;
using message::Role;

// Adds texts to a part, each apart from the next.
class PartMaker {
 public:
  explicit PartMaker(PromptPrint::Part& part) : part_(part) {}
  void add(std::string_view text) {
    add_hash(std::hash<std::string_view>()(text));
    part_.bytes += text.size();
  }
  void add_hash(std::uint64_t hash) {
    // The golden ratio's bits, as in SplitMix64: the order of the texts counts.
    part_.hash = (part_.hash ^ hash) * 0x9e3779b97f4a7c15ULL;
    part_.hash ^= part_.hash >> 32U;
  }

 private:
  PromptPrint::Part& part_;
};

void add_message(const Message& message, PromptPrint::Part& part) {
  PartMaker made(part);
  made.add_hash(static_cast<std::uint64_t>(message.role));
  made.add(message.text());
  made.add(message.reasoning);
  made.add(message.name);
  made.add(message.tool_call_id);
  made.add_hash(message.tool_calls.size());
  for (const message::ToolCall& call : message.tool_calls) {
    made.add(call.name);
    made.add(call.arguments);
  }
}

// What a prompt spends on the parts behind the first `kept` messages, in tokens.
std::uint64_t tokens_behind(const PromptPrint& print, std::uint64_t tokens, std::uint64_t kept) {
  const std::uint64_t all = std::accumulate(
      print.messages.begin(), print.messages.end(), print.tools.bytes + print.system.bytes,
      [](std::uint64_t sum, const PromptPrint::Part& part) { return sum + part.bytes; });
  if (all == 0) return tokens;
  const double share = static_cast<double>(all - std::min(all, kept)) / static_cast<double>(all);
  return static_cast<std::uint64_t>(share * static_cast<double>(tokens));
}

}  // namespace

PromptPrint print_of(const message::ChatRequest& request) {
  PromptPrint print{.model = request.model, .tools = {}, .system = {}, .messages = {}};
  PartMaker tools(print.tools);
  for (const message::Tool& tool : request.tools) {
    tools.add(tool.name);
    tools.add(tool.description);
    tools.add(json::to_string(tool.parameters));
  }
  // What a template is told besides, as whether the model shall think, stands at the beginning of
  // most prompts.
  PartMaker(print.system)
      .add_hash(std::hash<std::string>()(json::to_string(json::Value(request.template_kwargs))));
  bool has_begun = false;
  for (const Message& message : request.messages) {
    has_begun = has_begun || message.role != Role::system;
    add_message(message, has_begun ? print.messages.emplace_back() : print.system);
  }
  return print;
}

std::string PromptPrints::key_of(std::string_view owner, std::string_view id) {
  // An owner's name has no space.
  return std::string(owner) + ' ' + std::string(id);
}

void PromptPrints::keep(std::string_view owner, std::string_view id, PromptPrint print,
                        std::uint64_t tokens) {
  const std::size_t messages = print.messages.size();
  if (messages > kMostMessages) return;
  std::string key = key_of(owner, id);
  const std::lock_guard lock(mutex_);
  if (!kept_.try_emplace(key, Kept{std::move(print), tokens}).second) return;
  order_.push_back(std::move(key));
  messages_ += messages;
  while (order_.size() > kMostAnswers || messages_ > kMostMessages) {
    const auto oldest = kept_.find(order_.front());
    messages_ -= oldest->second.print.messages.size();
    kept_.erase(oldest);
    order_.pop_front();
  }
}

std::optional<CacheMiss> PromptPrints::compare(std::string_view owner, std::string_view id,
                                               const PromptPrint& now) const {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(key_of(owner, id));
  if (found == kept_.end()) return CacheMiss{"previous_message_not_found", std::nullopt};
  const auto& [before, tokens] = found->second;
  const auto miss = [&](std::string_view type, std::uint64_t kept) {
    return CacheMiss{type, tokens_behind(before, tokens, kept)};
  };
  if (now.model != before.model) return miss("model_changed", 0);
  if (now.tools != before.tools) return miss("tools_changed", 0);
  std::uint64_t kept = before.tools.bytes;
  if (now.system != before.system) return miss("system_changed", kept);
  kept += before.system.bytes;
  for (std::size_t i = 0; i < before.messages.size(); ++i) {
    if (i >= now.messages.size() || now.messages[i] != before.messages[i]) {
      return miss("messages_changed", kept);
    }
    kept += before.messages[i].bytes;
  }
  return std::nullopt;
}

}  // namespace tenon::api
