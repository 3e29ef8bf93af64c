#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tenon/chat/conversation.h"
#include "tenon/chat/responder.h"
#include "tenon/chat/toolbox.h"
#include "tenon/message/event.h"
#include "tenon/message/message.h"

/// A conversation that runs its tools by itself.
namespace tenon::chat {

struct ConverseOptions {
  /// Called on the thread that converses, for each event of each answer.
  std::function<void(const message::ChatEvent&)> on_event{};
  CancelToken cancel{};
  std::size_t max_rounds = 20;  ///< Answers of the model. For the last one no tool is offered.
  std::size_t max_calls = 256;  ///< Of all answers; for the one after them no tool is offered.
  std::chrono::milliseconds time_limit{0};  ///< Of the whole; 0: none.
  /// Asked on that thread before any call of an answer is made, in their order; with
  /// ToolSet::identity() of its tool, for an approval that is to hold for longer. False: the model
  /// is told that the call was not allowed. Empty: all are.
  std::function<bool(const message::ToolCall&, const std::string& identity)> approve{};
  /// Told on that thread of the result of each of the toolbox's tools, before the model is.
  std::function<void(const message::ToolCall&, const ToolResult&)> on_result{};
  std::shared_ptr<ToolMemory> memory{};  ///< A call that comes again has the result of before.
  /// Answers calls of tools that the toolbox did not offer. Nothing, or empty: the conversation
  /// stops with them.
  std::function<std::optional<ToolResult>(const message::ToolCall&)> other_tools{};
};

struct Report {
  enum class End : std::uint8_t {
    answered,    ///< The last turn is the answer.
    calls_left,  ///< It has calls for which nobody here has results, see `results`.
    cut,         ///< The answer was cut: cancelled, by the time limit, or by the engine's own.
    refused,     ///< See `refusal`.
  };

  End end = End::answered;
  ConversationTurn turn;  ///< The last that came.
  std::size_t rounds = 0;
  bool is_out_of_rounds = false;  ///< No tool was offered for the last answer.
  message::Usage usage;           ///< Of all answers.
  /// What the model has not been told of: of the last turn's calls those that have been made, or
  /// what converse() was given. submit_tool_results() wants them, with what is left.
  std::vector<ToolResult> results;
  std::optional<Refusal> refusal;
};

/// Says `text`, runs the calls of each answer in `tools`, and goes on with their results until an
/// answer has none.
///
///     Report report = converse(talk, "How is the weather in Rome?", tools, {.max_rounds = 8});
///     if (report.end == Report::End::answered) print(*report.turn.content);
///
/// The request's tools are those of the conversation, which have their names first, and of the
/// toolbox, as they are at each round; what was offered is what runs.
/// The conversation's own history stays whole, whatever the end.
[[nodiscard]] Report converse(Conversation& conversation, std::string text, Toolbox& tools,
                              const ConverseOptions& options = {});
[[nodiscard]] Report converse(Conversation& conversation, message::Message message, Toolbox& tools,
                              const ConverseOptions& options = {});
/// Goes on with the results of calls that were left.
[[nodiscard]] Report converse(Conversation& conversation, std::vector<ToolResult> results,
                              Toolbox& tools, const ConverseOptions& options = {});

}  // namespace tenon::chat
