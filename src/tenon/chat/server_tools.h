#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tenon/chat/audit.h"
#include "tenon/chat/code_run.h"
#include "tenon/chat/model.h"
#include "tenon/chat/tool_search.h"
#include "tenon/chat/toolbox.h"

namespace tenon::chat {

struct ServerToolsOptions {
  bool remembers = false;  ///< A call that comes again in a request gets its earlier result.
  std::size_t max_rounds =
      10;  ///< Answers of the model to one request. The last one gets none of these tools.
  std::size_t max_calls = 256;  ///< In one request; the answer after them gets none of these tools.
  std::chrono::milliseconds time_limit{0};  ///< After it no further answer is begun; 0: no limit.
  /// Which calls of the toolbox's tools wait for the client's approval. The lists have names as
  /// models see them, or as their servers have them.
  message::Approvals approvals{};
  ToolSearchOptions search{};  ///< Which tools are searched for instead of listed.
  bool hosts = false;          ///< Requests may name servers of tools (ChatRequest::servers).
  std::string version{"0"};    ///< Our own, which those servers are told.
  std::shared_ptr<AuditLog> audit{};        ///< Null: calls are not written down.
  std::shared_ptr<CodeInterpreter> code{};  ///< Null: models run no code (ChatRequest::code).
  CodeLimits code_limits{};
  /// Tools of the toolbox that code may call, too, named as in `approvals`. Those whose calls wait
  /// for an approval never are.
  std::vector<std::string> code_calls{};
};

/// Those of `names` that no tool of `tools` has, neither as models see it nor as its server has it:
/// in a list of message::Approvals they have no effect.
[[nodiscard]] std::vector<std::string> names_of_no_tool(const std::vector<std::string>& names,
                                                        const ToolSet& tools);
/// Those of `names` that a tool of `tools` has whose calls wait for an approval.
[[nodiscard]] std::vector<std::string> names_that_wait(const std::vector<std::string>& names,
                                                       const ToolSet& tools,
                                                       const message::Approvals& approvals);

/// `inner`, with the tools of `tools` added to those of each request. It runs calls of them itself
/// and goes on with their results, until there is an answer or a call of one of the client's tools.
///
///     model = with_server_tools(std::move(model), std::move(tools));
///
/// The client sees one answer: the texts of all rounds, separated by blank lines, and the calls of
/// its own tools; the usage is that of all rounds. A Diagnostic reports each call: "ran_tool",
/// "remembered_tool" or "tool_failed". If an answer has calls of both kinds, those of the client's
/// tools are passed on and the others are not run (Diagnostic "left_call"), since the client's next
/// request could not contain their results; the model may make them again.
///
/// Tools of servers that the request names (ChatRequest::servers) are added as well, if `hosts`
/// says so. The client sees their calls as ServerCallBegin and so on, and so it does those of the
/// toolbox's tools if some of these wait for approvals. A server that does not answer takes only
/// its tools (ServerTools::error, and Diagnostic "server_without_tools").
///
/// A call that waits for the client's approval ends the answer (ApprovalsWanted), once the other
/// calls of the answer have been run. The next request has the call in its messages, and the
/// client's decision beside them; the call is then run before the model is asked. A call without a
/// decision, or with a refusal, has a result that says so. If the client cannot be asked, the call
/// is not run.
///
/// Tools may be searched for (ToolSearch): then `tool_search` is one more tool of the server's, and
/// the tools that it finds are added for the rounds behind it.
///
/// A request may let the model write code (ChatRequest::code), if `code` is set: then one more tool
/// runs it (CodeRun). Tools with Tool::for_code are functions of the code, and those without
/// Tool::for_model are offered in no other way. The client sees calls of that tool as
/// ServerCallBegin and so on, with kCodeServer, and those of all of the server's. Where code calls
/// the client's tools, the answer ends with these calls (CallBegin::code_id); the next request has
/// them in ChatRequest::code_calls, and the call of the code without a result in its messages.
///
/// If a client's tool has the name of a server's, the client's is used. `tool_choice` holds for the
/// tools of both. The answer is `inner`'s alone if tool_choice is `none` or names tools, which can
/// only be the client's; for a continuation or a prefill; and with a response format that the
/// engine does not accept beside tools. Thread-safe, as every Model.
[[nodiscard]] std::shared_ptr<Model> with_server_tools(std::shared_ptr<Model> inner,
                                                       std::shared_ptr<Toolbox> tools,
                                                       const ServerToolsOptions& options = {});

}  // namespace tenon::chat
