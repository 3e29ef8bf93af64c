#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/cancel.h"
#include "tenon/base/expected.h"
#include "tenon/chat/responder.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"
#include "tenon/message/message.h"

/// Conversations of several turns, with tools.
namespace tenon::chat {

/// The result of a tool.
struct ToolResult {
  std::string tool_call_id;
  std::string output;                 ///< Text or JSON. Bytes that are not UTF-8 become U+FFFD.
  bool is_error = false;              ///< The tool failed, and `output` says why.
  bool is_remembered = false;         ///< It is the result of an earlier call (ToolMemory).
  std::chrono::milliseconds took{0};  ///< Since the call was handed over.
};

/// One answer of the model.
struct ConversationTurn {
  std::optional<std::string> content;
  /// Calls that want results. Empty if the answer was cut: then its calls are not in the history.
  std::vector<message::ToolCall> tool_calls;
  std::string reasoning;
  message::Finish finish;
  std::vector<message::Diagnostic> diagnostics;
};

/// Options of one answer. Each may be left out.
struct AskOptions {
  /// Called on the asking thread, for each event as it comes.
  std::function<void(const message::ChatEvent&)> on_event{};
  /// Cancelling it ends the answer soon, with FinishReason::cancelled.
  CancelToken cancel{};
  /// The answer is cancelled at this time.
  std::optional<std::chrono::steady_clock::time_point> deadline{};
  std::vector<message::Tool> more_tools{};  ///< Besides those of the request.
  /// Changes the messages of the request but not the history. May be empty.
  std::function<void(std::vector<message::Message>&)> on_request{};
  std::optional<message::ToolChoice> tool_choice{};  ///< Instead of the request's.
};

/// A conversation with any Responder.
///
///     Conversation talk(model, {.tools = {weather}});
///     auto turn = talk.send_message("How is the weather in Rome?");
///     while (turn && !turn->tool_calls.empty()) {
///       std::vector<ToolResult> results;
///       for (const message::ToolCall& call : turn->tool_calls) {
///         results.push_back({call.id, look_up(call.arguments)});
///       }
///       turn = talk.submit_tool_results(results);
///     }
///
/// A turn that fails changes nothing: the history is what it was, and the same turn may be tried
/// again. Refusals have the codes of Responder's: `invalid_value` (param "messages" or
/// "tool_results"), `context_length_exceeded` beyond the limits of Options, or the model's own. If
/// an answer was cut (`length`, `cancelled`), the history has its text but not its calls.
///
/// A copy is a branch: it shares the messages so far, without copying them, and then goes its own
/// way. One conversation is used by one thread at a time; its branches may be used by several.
class Conversation {
 public:
  struct Options {
    /// What every request has: model, tools, sampling and so on. Its messages are the beginning of
    /// the conversation, for example a system message.
    message::ChatRequest request;
    std::size_t max_messages = 10'000;
    std::size_t max_bytes = std::size_t{64} << 20;  ///< For all texts of the history.
  };

  Conversation(std::shared_ptr<Responder> responder, Options options);
  /// A conversation whose requests have these tools.
  Conversation(std::shared_ptr<Responder> responder, std::vector<message::Tool> tools);

  /// Sends `text` and waits for the answer. Refused while calls wait for results, naming them:
  /// submit those results, or call dismiss_calls().
  [[nodiscard]] Result<ConversationTurn, Refusal> send_message(std::string text,
                                                               const AskOptions& options = {});
  [[nodiscard]] Result<ConversationTurn, Refusal> send_message(message::Message message,
                                                               const AskOptions& options = {});

  /// Sends the results of all calls of the last turn and waits for the answer; no user message
  /// comes in between. They may come in any order; the history has them in the order of the calls.
  /// Refused, naming the ids, if a result belongs to none of the waiting calls, comes twice, or is
  /// missing.
  [[nodiscard]] Result<ConversationTurn, Refusal> submit_tool_results(
      const std::vector<ToolResult>& results, const AskOptions& options = {});

  /// The calls that wait for results, in their order.
  [[nodiscard]] std::vector<message::ToolCall> pending_calls() const;
  /// Gives each waiting call the result `why`, except those that `results` has; the model is not
  /// asked.
  void dismiss_calls(std::string_view why, std::span<const ToolResult> results = {});
  /// Returns to the beginning of the conversation.
  void reset();

  [[nodiscard]] std::vector<message::Message> messages() const;
  [[nodiscard]] std::size_t size() const { return history_.size(); }
  [[nodiscard]] const message::ChatRequest& request() const { return options_->request; }

  /// `{"version": 1, "messages": [...]}`, with messages in the shape of OpenAI's API. Tools and
  /// settings are not included.
  [[nodiscard]] json::Object to_json() const;
  /// The conversation that to_json() wrote. Fails with `unsupported` at another version, with
  /// `limit_exceeded` beyond the limits, and with `invalid`, naming message and member, at anything
  /// that cannot be in a conversation, for example a result without its call.
  [[nodiscard]] static Expected<Conversation> from_json(const json::Value& saved,
                                                        std::shared_ptr<Responder> responder,
                                                        Options options);

 private:
  using Shared = std::shared_ptr<const message::Message>;

  [[nodiscard]] Result<ConversationTurn, Refusal> ask(std::vector<message::Message> added,
                                                      const AskOptions& options);
  [[nodiscard]] Result<std::vector<message::Message>, Refusal> in_order(
      const std::vector<ToolResult>& results) const;
  [[nodiscard]] Result<void, Refusal> check_room(std::span<const message::Message> added) const;
  [[nodiscard]] std::string fault_of(const message::Message& message) const;
  void keep(message::Message message);

  std::shared_ptr<Responder> responder_;
  std::shared_ptr<const Options> options_;
  std::vector<Shared> history_;
  std::size_t bytes_ = 0;  // of all texts in history_
  // The calls that wait for results, by id. Keys and values point into one message of history_.
  std::map<std::string_view, const message::ToolCall*> waiting_;
};

}  // namespace tenon::chat
