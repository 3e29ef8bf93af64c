#include "tenon/chat/conversation.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <variant>

#include "tenon/base/utf8.h"
#include "tenon/chat/event_queue.h"
#include "tenon/message/build.h"

namespace tenon::chat {
namespace {

using message::FinishReason;
using message::Message;
using message::Role;
using message::ToolCall;

constexpr int kVersion = 1;  // of to_json()

Failure<Refusal> refused(std::string message, std::string param) {
  return Failure<Refusal>({.error = {Errc::invalid, std::move(message)},
                           .param = std::move(param),
                           .code = "invalid_value"});
}

// What a message counts towards Options::max_bytes: its texts, not the objects that hold them.
std::size_t bytes_of(const Message& message) {
  std::size_t bytes = message.content.value_or("").size() + message.reasoning.size() +
                      message.tool_call_id.size() + message.name.size();
  for (const message::ContentPart& part : message.parts) {
    bytes += part.raw.is_null() ? part.text.size() : json::to_string(part.raw).size();
  }
  for (const ToolCall& call : message.tool_calls) {
    bytes += call.id.size() + call.name.size() + call.arguments.size();
  }
  if (!message.extra.empty()) bytes += json::to_string(json::Value(message.extra)).size();
  return bytes;
}

// `"call_1" (read), "call_2" (write)`, for errors.
std::string ids_of(const std::vector<ToolCall>& calls) {
  std::string ids;
  for (const ToolCall& call : calls) {
    ids += (ids.empty() ? "" : ", ") + json::quoted(call.id) + " (" + call.name + ")";
  }
  return ids;
}

Message result_message(const ToolCall& call, const ToolResult& result) {
  Message message = message::tool_result(call, utf8::sanitized(result.output));
  if (result.is_error) message.extra.set("is_error", true);
  return message;
}

// Calls of an answer that was cut or cancelled are left out: they may be incomplete, and no result
// could be given for them.
ConversationTurn turn_of(const message::Fold& fold) {
  const bool wants_results = fold.finish().reason == FinishReason::tool_calls;
  ConversationTurn turn{.content = fold.message().content,
                        .reasoning = fold.message().reasoning,
                        .finish = fold.finish(),
                        .diagnostics = fold.diagnostics()};
  if (wants_results) turn.tool_calls = fold.message().tool_calls;
  return turn;
}

// The turn as a message, as later turns see it.
Message message_of(const ConversationTurn& turn) {
  Message message{.role = Role::assistant,
                  .content = turn.content,
                  .reasoning = turn.reasoning,
                  .tool_calls = turn.tool_calls};
  // Many templates cannot render an answer without content.
  if (!message.content && message.tool_calls.empty()) message.content = "";
  return message;
}

}  // namespace

Conversation::Conversation(std::shared_ptr<Responder> responder, Options options)
    : responder_(std::move(responder)),
      options_(std::make_shared<const Options>(std::move(options))) {
  reset();
}

Conversation::Conversation(std::shared_ptr<Responder> responder, std::vector<message::Tool> tools)
    : Conversation(std::move(responder), Options{.request = {.tools = std::move(tools)}}) {}

void Conversation::reset() {
  history_.clear();
  bytes_ = 0;
  waiting_.clear();
  for (const Message& message : options_->request.messages) keep(message);
}

// Appends a message. waiting_ has the calls of the last assistant message without a result, with
// pointers into the history, whose messages are shared and never move. A message that is no result
// ends the wait.
void Conversation::keep(Message message) {
  bytes_ += bytes_of(message);
  message.role == Role::tool ? (void)waiting_.erase(message.tool_call_id) : waiting_.clear();
  history_.push_back(std::make_shared<const Message>(std::move(message)));
  for (const ToolCall& call : history_.back()->tool_calls) waiting_.emplace(call.id, &call);
}

// What is wrong with adding `message` to the history, as a sentence; "": nothing.
std::string Conversation::fault_of(const Message& message) const {
  if (message.role == Role::tool) {
    return waiting_.contains(message.tool_call_id)
               ? ""
               : "no call before it waits for the result of " + json::quoted(message.tool_call_id);
  }
  if (!waiting_.empty()) return "results are missing before it: of " + ids_of(pending_calls());
  if (!message.tool_calls.empty() && message.role != Role::assistant) {
    return "only an assistant makes calls";
  }
  std::set<std::string_view> ids;
  for (const ToolCall& call : message.tool_calls) {
    if (call.id.empty() || !ids.insert(call.id).second) {
      return "the call id " + json::quoted(call.id) + " does not tell calls apart";
    }
  }
  return "";
}

std::vector<Message> Conversation::messages() const {
  std::vector<Message> messages;
  messages.reserve(history_.size());
  for (const Shared& message : history_) messages.push_back(*message);
  return messages;
}

std::vector<ToolCall> Conversation::pending_calls() const {
  std::vector<const ToolCall*> calls;
  calls.reserve(waiting_.size());
  for (const auto& [id, call] : waiting_) calls.push_back(call);
  std::ranges::sort(calls);  // by address, since all are in one array
  std::vector<ToolCall> pending;
  pending.reserve(calls.size());
  for (const ToolCall* const call : calls) pending.push_back(*call);
  return pending;
}

// Gives every call that waits a result, since nothing else may follow calls: one of `results`, or
// `why` as an error.
void Conversation::dismiss_calls(std::string_view why, std::span<const ToolResult> results) {
  for (const ToolCall& call : pending_calls()) {
    const auto known = std::ranges::find(results, call.id, &ToolResult::tool_call_id);
    keep(result_message(call, known != results.end()
                                  ? *known
                                  : ToolResult{.output = std::string(why), .is_error = true}));
  }
}

// Checked before anything is sent, so that a message that does not fit leaves the conversation as
// it was.
Result<void, Refusal> Conversation::check_room(std::span<const Message> added) const {
  std::size_t bytes = bytes_;
  for (const Message& message : added) bytes += bytes_of(message);
  const std::size_t count = history_.size() + added.size();
  if (count <= options_->max_messages && bytes <= options_->max_bytes) return {};
  const bool is_long = count > options_->max_messages;
  const std::string told = is_long ? std::to_string(count) + " messages, but may have " +
                                         std::to_string(options_->max_messages)
                                   : std::to_string(bytes) + " bytes, but may have " +
                                         std::to_string(options_->max_bytes);
  return Failure<Refusal>({.error = {Errc::limit_exceeded, "the conversation would have " + told},
                           .param = "messages",
                           .code = "context_length_exceeded"});
}

// Nothing is kept before the answer has ended without an error: after a failure or a refusal the
// same message can be sent again. Events are handed out on the caller's thread, which also looks at
// the deadline and at cancellation every 20 ms.
Result<ConversationTurn, Refusal> Conversation::ask(std::vector<Message> added,
                                                    const AskOptions& options) {
  constexpr std::chrono::milliseconds kMoment{20};
  if (auto room = check_room(added); !room) return Failure<Refusal>(std::move(room.error()));
  message::ChatRequest request = options_->request;
  request.prompt_token_ids.clear();  // they are those of one turn
  request.previous_token_ids.clear();
  request.messages = messages();
  request.messages.insert(request.messages.end(), added.begin(), added.end());
  request.tools.insert(request.tools.end(), options.more_tools.begin(), options.more_tools.end());
  if (options.tool_choice) request.tool_choice = *options.tool_choice;
  if (options.on_request) options.on_request(request.messages);

  const auto queue = std::make_shared<EventQueue>();
  auto answer = responder_->start(request, queue);
  if (!answer) return Failure<Refusal>(std::move(answer.error()));
  message::Fold fold;
  for (bool is_over = false; !is_over;) {
    const bool is_late = options.deadline && std::chrono::steady_clock::now() >= *options.deadline;
    // Goes on until Finish all the same, which says how much was made before.
    if (is_late || options.cancel.is_cancelled()) (*answer)->cancel();
    for (const message::ChatEvent& event : queue->wait(kMoment)) {
      fold.add(event);
      if (options.on_event) options.on_event(event);
      is_over = std::holds_alternative<message::Finish>(event);
    }
  }
  if (fold.finish().reason == FinishReason::error) {
    return Failure<Refusal>(refusal_of(fold.finish().error, "messages"));
  }
  ConversationTurn turn = turn_of(fold);
  for (Message& message : added) keep(std::move(message));
  keep(message_of(turn));
  return turn;
}

Result<ConversationTurn, Refusal> Conversation::send_message(std::string text,
                                                             const AskOptions& options) {
  return send_message(message::user(std::move(text)), options);
}

Result<ConversationTurn, Refusal> Conversation::send_message(Message message,
                                                             const AskOptions& options) {
  if (message.role == Role::tool) {
    return refused("results of tools are given to submit_tool_results()", "messages");
  }
  if (const auto fault = fault_of(message); !fault.empty()) {
    return refused("the message does not fit: " + fault, "messages");
  }
  std::vector<Message> added;
  added.push_back(std::move(message));
  return ask(std::move(added), options);
}

// Results come in any order and go into the prompt in the order of the calls, as models were
// trained. All must be there at once, because a model that sees some of its calls without results
// makes them again.
Result<std::vector<Message>, Refusal> Conversation::in_order(
    const std::vector<ToolResult>& results) const {
  const std::vector<ToolCall> pending = pending_calls();
  std::map<std::string_view, const ToolResult*> by_id;
  for (const ToolResult& result : results) {
    const std::string id = json::quoted(result.tool_call_id);
    if (!waiting_.contains(result.tool_call_id)) {
      return refused("no call waits for the result of " + id +
                         (pending.empty() ? "" : "; these do: " + ids_of(pending)),
                     "tool_results");
    }
    if (!by_id.emplace(result.tool_call_id, &result).second) {
      return refused("the result of " + id + " is there twice", "tool_results");
    }
  }
  std::vector<Message> messages;
  std::vector<ToolCall> missing;
  for (const ToolCall& call : pending) {
    const auto result = by_id.find(call.id);
    if (result == by_id.end()) {
      missing.push_back(call);
    } else {
      messages.push_back(result_message(call, *result->second));
    }
  }
  if (!missing.empty())
    return refused("results are missing: of " + ids_of(missing), "tool_results");
  if (messages.empty()) return refused("no call waits for a result", "tool_results");
  return messages;
}

Result<ConversationTurn, Refusal> Conversation::submit_tool_results(
    const std::vector<ToolResult>& results, const AskOptions& options) {
  auto messages = in_order(results);
  if (!messages) return Failure<Refusal>(std::move(messages.error()));
  return ask(*std::move(messages), options);
}

json::Object Conversation::to_json() const {
  json::Array messages;
  messages.reserve(history_.size());
  for (const Shared& message : history_) messages.emplace_back(message::to_json(*message));
  return {{"version", kVersion}, {"messages", std::move(messages)}};
}

// A saved conversation may come from elsewhere, so it passes the same checks as one that is built
// message by message.
Expected<Conversation> Conversation::from_json(const json::Value& saved,
                                               std::shared_ptr<Responder> responder,
                                               Options options) {
  const auto wrong = [](Errc code, std::string message) {
    return Unexpected(Error{code, "the conversation: " + std::move(message)});
  };
  const json::Value* const version = saved.find("version");
  if (version == nullptr) return wrong(Errc::invalid, "it has no version");
  if (*version != json::Value(kVersion)) {
    return wrong(Errc::unsupported, "version " + json::to_string(*version) + " is not known; " +
                                        std::to_string(kVersion) + " is");
  }
  const json::Value* const list = saved.find("messages");
  if (list == nullptr || list->if_array() == nullptr) {
    return wrong(Errc::invalid, "messages must be an array");
  }
  const json::Array& messages = *list->if_array();
  if (messages.size() > options.max_messages) {
    return wrong(Errc::limit_exceeded, "it has " + std::to_string(messages.size()) +
                                           " messages, but may have " +
                                           std::to_string(options.max_messages));
  }
  // The saved messages have those of the options already.
  Conversation conversation(std::move(responder), std::move(options));
  conversation.history_.clear();
  conversation.bytes_ = 0;
  conversation.waiting_.clear();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string at = "messages[" + std::to_string(i) + "]: ";
    auto message = message::message_from_json(messages[i]);
    if (!message) return wrong(Errc::invalid, at + message.error().message);
    if (auto room = conversation.check_room({&*message, 1}); !room) {
      return wrong(Errc::limit_exceeded, at + room.error().error.message);
    }
    const auto fault = conversation.fault_of(*message);
    if (!fault.empty()) return wrong(Errc::invalid, at + fault);
    conversation.keep(*std::move(message));
  }
  return conversation;
}

}  // namespace tenon::chat
