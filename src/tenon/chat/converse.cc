#include "tenon/chat/converse.h"

#include <utility>

#include "tenon/message/build.h"

namespace tenon::chat {
namespace {

using Clock = std::chrono::steady_clock;
using message::ToolCall;

// One run of converse(): answers and calls in turns, until an answer has no calls, a call has no
// result, or a limit is reached.
class Loop {
 public:
  Loop(Conversation& conversation, Toolbox& tools, const ConverseOptions& options)
      : conversation_(conversation),
        tools_(tools),
        options_(options),
        limits_({.cancel = options.cancel,
                 .memory = options.memory,
                 .on_question = options.on_question}) {
    if (options.time_limit.count() > 0) limits_.deadline = Clock::now() + options.time_limit;
  }

  Report say(message::Message message) {
    return go_on(take(conversation_.send_message(std::move(message), next_options())));
  }
  Report tell(std::vector<ToolResult> results) {
    report_.results = std::move(results);
    return go_on(take(submit()));
  }

 private:
  Report go_on(bool has_calls) {
    while (has_calls && answer_calls()) has_calls = take(submit());
    return std::move(report_);
  }

  Result<ConversationTurn, Refusal> submit() {
    return conversation_.submit_tool_results(report_.results, next_options());
  }

  // Tools are asked for before each answer, since sources may have others by now. The last answer
  // that the limits allow gets no tools, so that it is a text.
  AskOptions next_options() {
    offered_ = tools_.tools(limits_).beside(conversation_.request().tools);
    AskOptions options{.on_event = options_.on_event,
                       .cancel = limits_.cancel,
                       .more_tools = offered_.list(),
                       .on_request = [this](std::vector<message::Message>& messages) {
                         offered_.add_instructions(messages);
                       }};
    if (limits_.deadline != Clock::time_point::max()) options.deadline = limits_.deadline;
    // The client's choice holds for the first answer only.
    if (report_.rounds > 0) options.tool_choice.emplace();
    report_.is_out_of_rounds =
        report_.rounds + 1 >= options_.max_rounds || run_ >= options_.max_calls;
    if (report_.is_out_of_rounds) options.tool_choice = {.mode = message::ToolMode::none};
    return options;
  }

  // Returns false at the end of the conversation.
  bool take(Result<ConversationTurn, Refusal> turn) {
    if (!turn) {
      report_.end = Report::End::refused;
      report_.refusal = std::move(turn.error());
      return false;
    }
    report_.results.clear();
    report_.turn = *std::move(turn);
    ++report_.rounds;
    report_.usage += report_.turn.finish.usage;
    const message::FinishReason reason = report_.turn.finish.reason;
    const bool is_cut =
        reason == message::FinishReason::cancelled || reason == message::FinishReason::length;
    if (is_cut) report_.end = Report::End::cut;
    return !is_cut && !report_.turn.tool_calls.empty();
  }

  // Returns false if some calls have no result.
  bool answer_calls() {
    std::vector<ToolCall> ours;
    for (const ToolCall& call : report_.turn.tool_calls) {
      if (!offered_.has(call.name)) {
        auto result = options_.other_tools ? options_.other_tools(call) : std::nullopt;
        if (result) keep(call, *std::move(result));
      } else if (options_.approve && !options_.approve(call, offered_.identity(call.name))) {
        tell_and_keep(call, {.output = "Error: the user did not allow this call. Nothing was run",
                             .is_error = true});
      } else {
        ours.push_back(call);
      }
    }
    run_ += ours.size();
    std::vector<ToolResult> results = tools_.run(offered_, ours, limits_);
    // The results need not be in the order of the calls: the conversation puts them in order.
    for (std::size_t i = 0; i < ours.size(); ++i) tell_and_keep(ours[i], std::move(results[i]));
    const bool are_all = report_.results.size() == report_.turn.tool_calls.size();
    if (!are_all) report_.end = Report::End::calls_left;
    return are_all;
  }

  void tell_and_keep(const ToolCall& call, ToolResult result) {
    result.tool_call_id = call.id;
    if (options_.on_result) options_.on_result(call, result);
    keep(call, std::move(result));
  }
  void keep(const ToolCall& call, ToolResult result) {
    result.tool_call_id = call.id;
    report_.results.push_back(std::move(result));
  }

  Conversation& conversation_;
  Toolbox& tools_;
  const ConverseOptions& options_;
  ToolContext limits_;
  ToolSet offered_;      // for the last answer
  std::size_t run_ = 0;  // how many calls of the toolbox's tools were run
  Report report_;
};

}  // namespace

Report converse(Conversation& conversation, std::string text, Toolbox& tools,
                const ConverseOptions& options) {
  return converse(conversation, message::user(std::move(text)), tools, options);
}

Report converse(Conversation& conversation, message::Message message, Toolbox& tools,
                const ConverseOptions& options) {
  return Loop(conversation, tools, options).say(std::move(message));
}

Report converse(Conversation& conversation, std::vector<ToolResult> results, Toolbox& tools,
                const ConverseOptions& options) {
  return Loop(conversation, tools, options).tell(std::move(results));
}

}  // namespace tenon::chat
