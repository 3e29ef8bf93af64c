#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tenon/chat/conversation.h"
#include "tenon/chat/refusal.h"
#include "tenon/chat/toolbox.h"
#include "tenon/message/event.h"
#include "tenon/message/message.h"

/// A conversation that runs its tools itself.
namespace tenon::chat {

struct ConverseOptions {
  /// Called on the calling thread, for each event of each answer.
  std::function<void(const message::ChatEvent&)> on_event{};
  CancelToken cancel{};
  std::size_t max_rounds = 20;  ///< Answers of the model. No tool is offered for the last one.
  std::size_t max_calls = 256;  ///< In all answers; no tool is offered for the one after them.
  std::chrono::milliseconds time_limit{0};  ///< For the whole conversation; 0: no limit.
  /// Called on that thread before any call of an answer is run, for each in order, with
  /// ToolSet::identity() of its tool, for approvals that are to last. False: the model is told that
  /// the call was not allowed. Empty: all calls are allowed.
  std::function<bool(const message::ToolCall&, const std::string& identity)> approve{};
  /// Called on that thread with the result of each of the toolbox's tools, before the model gets
  /// it.
  std::function<void(const message::ToolCall&, const ToolResult&)> on_result{};
  /// As in ToolContext.
  std::function<std::optional<json::Object>(const std::string& server, const json::Value& params)>
      on_question{};
  std::shared_ptr<ToolMemory> memory{};  ///< A call that comes again gets its earlier result.
  /// Answers calls of tools that are not the toolbox's. If it returns no value, or is empty, the
  /// conversation stops with those calls.
  std::function<std::optional<ToolResult>(const message::ToolCall&)> other_tools{};
};

struct Report {
  enum class End : std::uint8_t {
    answered,    ///< The last turn is the answer.
    calls_left,  ///< It has calls for which there are no results here, see `results`.
    cut,         ///< The answer was cut: cancelled, by the time limit, or by the engine's own.
    refused,     ///< See `refusal`.
  };

  End end = End::answered;
  ConversationTurn turn;  ///< The last one.
  std::size_t rounds = 0;
  bool is_out_of_rounds = false;  ///< No tool was offered for the last answer.
  message::Usage usage;           ///< The sum over all answers.
  /// Results that the model has not got: those of the last turn's calls that were run, or those
  /// that converse() was given. Pass them to submit_tool_results(), with the missing ones.
  std::vector<ToolResult> results;
  std::optional<Refusal> refusal;
};

/// Sends `text`, runs the calls of each answer with `tools`, and goes on with their results until
/// an answer has no calls.
///
///     Report report = converse(talk, "How is the weather in Rome?", tools, {.max_rounds = 8});
///     if (report.end == Report::End::answered) print(*report.turn.content);
///
/// The tools of a request are those of the conversation, which have priority if a name clashes, and
/// those of the toolbox at that time. A call runs the tool that was offered under its name.
/// The conversation's own history stays whole, whatever the end.
[[nodiscard]] Report converse(Conversation& conversation, std::string text, Toolbox& tools,
                              const ConverseOptions& options = {});
[[nodiscard]] Report converse(Conversation& conversation, message::Message message, Toolbox& tools,
                              const ConverseOptions& options = {});
/// Goes on with the results of calls that were left over.
[[nodiscard]] Report converse(Conversation& conversation, std::vector<ToolResult> results,
                              Toolbox& tools, const ConverseOptions& options = {});

}  // namespace tenon::chat
