#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "tenon/chat/responder.h"
#include "tenon/chat/toolbox.h"

namespace tenon::chat {

struct ServerToolsOptions {
  bool remembers = false;  ///< A call that comes again in a request has the result of before.
  std::size_t max_rounds =
      10;  ///< Answers of the model to one request. The last has no such tools.
  std::size_t max_calls = 256;  ///< To one request; the answer after them has no such tools.
  std::chrono::milliseconds time_limit{0};  ///< After which no further one is begun; 0: none.
};

/// `inner`, with the tools of `tools` beside those of each request: it runs calls of them by itself
/// and goes on with their results, until there is an answer or a call of a tool of the client's.
///
///     model = with_server_tools(std::move(model), std::move(tools));
///
/// The client sees one answer: the texts of all rounds, a blank line between them, and the calls of
/// its own tools; the usage is that of all rounds, and a Diagnostic tells of each call: "ran_tool",
/// "remembered_tool" or "tool_failed". Where an answer has calls of both kinds, those of the
/// client's tools are handed out and the others are not run (Diagnostic "left_call"), since the
/// client's next request could not have their results: the model may make them again.
///
/// A client's tool has its name before one of the server's. `tool_choice` holds for the tools of
/// both; where it is `none`, or names tools, which can only be the client's, the answer is
/// `inner`'s alone, as it is of a continuation or a prefill, and of a response format that the
/// engine does not take beside tools. Thread-safe, as every Model.
[[nodiscard]] std::shared_ptr<Model> with_server_tools(std::shared_ptr<Model> inner,
                                                       std::shared_ptr<Toolbox> tools,
                                                       const ServerToolsOptions& options = {});

}  // namespace tenon::chat
