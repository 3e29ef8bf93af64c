#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tenon/chat/responder.h"
#include "tenon/rlm/host.h"
#include "tenon/rlm/run.h"

namespace tenon::rlm {

struct RecursiveOptions {
  std::string name;
  std::vector<std::string> aliases;
  std::string root;  ///< Name of the model that leads; "": requests name both, as "root:sub".
  std::string sub;   ///< Of the model that sub-calls ask; "": the root.
  RunLimits limits;  ///< Of requests that say nothing.
  RunLimits most;    ///< What requests may ask for; 0 is no limit where it is none in `limits`.
  std::string trajectory_dir;  ///< Folder where each session gets a file of its events; "": none.
  bool unsafe_local = false;   ///< Runs where nothing keeps its code in.
  bool logs_turns = false;     ///< What the root model says and runs is logged.
  /// Told of all that happens in runs, from several threads.
  Trace::Listener listener;
};

/// A recursive model: to its clients a model like others, but with contexts of any length. What
/// they send as context is never part of a prompt: it is a variable in a Python sandbox, and the
/// root model reads it by code and by questions to the sub-model (docs/rlm.md).
///
/// The rules of an answer. It is one ContentDelta, or calls of the request's tools without content;
/// then the session pauses, and goes on with a request that brings results of these calls, told by
/// their ids, from the same owner. Its usage is the sum of all that was asked since the session
/// began or went on. It is refused where no thread is free (engine_busy), and for what only a
/// single turn can do: `stop`, `logprobs`, a response format, a continuation. Thread-safe.
[[nodiscard]] std::shared_ptr<chat::Model> make_recursive_model(RecursiveOptions options,
                                                                std::shared_ptr<Host> host);

/// Reads `rlm` of a request into `limits`. Fails with the refusal to be told.
[[nodiscard]] Result<RunLimits, chat::Refusal> request_limits(const json::Value& rlm,
                                                              const RecursiveOptions& options);

}  // namespace tenon::rlm
