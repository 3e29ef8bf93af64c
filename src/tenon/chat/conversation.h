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

/// What a tool said.
struct ToolResult {
  std::string tool_call_id;
  std::string output;          ///< Text or JSON. Bytes that are not UTF-8 become U+FFFD.
  bool is_error = false;       ///< The tool failed, and `output` says why.
  bool is_remembered = false;  ///< It is that of an earlier call (ToolMemory).
};

/// One answer of the model.
struct ConversationTurn {
  std::optional<std::string> content;
  /// What wants results. Empty where the answer was cut: its calls are in no history then.
  std::vector<message::ToolCall> tool_calls;
  std::string reasoning;
  message::Finish finish;
  std::vector<message::Diagnostic> diagnostics;
};

/// What holds for one answer. Each may be left out.
struct AskOptions {
  /// Called on the thread that asks, for each event as it comes.
  std::function<void(const message::ChatEvent&)> on_event{};
  /// Ends the answer soon after it is cancelled: FinishReason::cancelled.
  CancelToken cancel{};
  /// The answer is cancelled then.
  std::optional<std::chrono::steady_clock::time_point> deadline{};
  std::vector<message::Tool> more_tools{};  ///< Beside those of the request.
  /// Changes the messages of the request; the history stays as it is. Empty: nothing does.
  std::function<void(std::vector<message::Message>&)> on_request{};
  std::optional<message::ToolChoice> tool_choice{};  ///< Instead of the request's.
};

/// A conversation with anything that answers requests.
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
/// A turn that fails changes nothing: the history is what it was, and the same may be tried again.
/// What is refused has the codes of Responder's refusals: `invalid_value` (param "messages" or
/// "tool_results"), `context_length_exceeded` beyond the limits of Options, or the model's own.
/// Of an answer that was cut (`length`, `cancelled`) the history has the text, not the calls.
///
/// A copy is a branch. It shares the messages so far, of which nothing is copied, and goes its own
/// way. One conversation is used by one thread at a time; branches of one may be used by several.
class Conversation {
 public:
  struct Options {
    /// What every request has: model, tools, sampling... Its messages are how the conversation
    /// begins: a system message, say.
    message::ChatRequest request;
    std::size_t max_messages = 10'000;
    std::size_t max_bytes = std::size_t{64} << 20;  ///< Of all texts of the history.
  };

  Conversation(std::shared_ptr<Responder> responder, Options options);
  /// One with these tools.
  Conversation(std::shared_ptr<Responder> responder, std::vector<message::Tool> tools);

  /// Says `text` and waits for the answer. Refused, naming the calls, while some wait for
  /// results: submit those, or dismiss_calls().
  [[nodiscard]] Result<ConversationTurn, Refusal> send_message(std::string text,
                                                               const AskOptions& options = {});
  [[nodiscard]] Result<ConversationTurn, Refusal> send_message(message::Message message,
                                                               const AskOptions& options = {});

  /// Gives the results of all calls of the last turn and waits for the answer; there is no user's
  /// message between. They may come in any order, and stand in the history in that of the calls.
  /// Refused, naming the ids, where a result belongs to none of the calls (or to one that has its
  /// result), comes twice, or is missing.
  [[nodiscard]] Result<ConversationTurn, Refusal> submit_tool_results(
      const std::vector<ToolResult>& results, const AskOptions& options = {});

  /// The calls that wait for results, in their order.
  [[nodiscard]] std::vector<message::ToolCall> pending_calls() const;
  /// Each of them has `why` as its result, but for those of `results`; the model is not asked.
  void dismiss_calls(std::string_view why, std::span<const ToolResult> results = {});
  /// Back to how it began.
  void reset();

  [[nodiscard]] std::vector<message::Message> messages() const;
  [[nodiscard]] std::size_t size() const { return history_.size(); }
  [[nodiscard]] const message::ChatRequest& request() const { return options_->request; }

  /// `{"version": 1, "messages": [...]}`, messages in the shape of OpenAI's API. Tools and settings
  /// are the caller's to keep.
  [[nodiscard]] json::Object to_json() const;
  /// The conversation that to_json() wrote. Fails with `unsupported` at another version, with
  /// `limit_exceeded` beyond the limits, and with `invalid`, naming message and member, at anything
  /// that no conversation is: results of calls that nobody made among it.
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
  std::size_t bytes_ = 0;  // of history_
  // The calls that wait for results, by id: of one message of history_, into which these point.
  std::map<std::string_view, const message::ToolCall*> waiting_;
};

}  // namespace tenon::chat
