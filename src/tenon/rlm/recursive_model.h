#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tenon/chat/model.h"
#include "tenon/rlm/host.h"
#include "tenon/rlm/run.h"

namespace tenon::rlm {

struct RecursiveOptions {
  std::string name;
  std::vector<std::string> aliases;
  std::string root;  ///< Name of the root model; "": requests name both models, as "root:sub".
  std::string sub;   ///< Name of the model for sub-calls; "": the root model.
  RunLimits limits;  ///< For requests without limits of their own.
  RunLimits most;    ///< The most that requests may ask for; 0 means no limit if `limits` has none
                     ///< either.
  std::string trajectory_dir;  ///< The folder for the files of events, one per session; "": no
                               ///< files.
  bool unsafe_local = false;   ///< Also runs if nothing confines its code.
  bool logs_turns = false;     ///< Logs what the root model writes and runs.
  /// Receives all events of runs, from several threads.
  Trace::Listener listener;
};

/// A recursive model: for clients it is like any other model, but its context may have any length.
/// The context that they send is never part of a prompt. It is a variable in a Python sandbox, and
/// the root model reads it with code and with questions to the sub-model (docs/rlm.md).
///
/// An answer is one ContentDelta, or calls of the request's tools without content. After calls the
/// session pauses. It goes on with a request of the same owner that brings results of these calls,
/// which are recognised by their ids. The usage is the sum of everything that was asked since the
/// session began or went on. With `rlm.keep` the session also stays after the answer, and a request
/// that names it (`rlm.session`) asks another question about the same context and variables. A
/// request is refused if no thread is free (engine_busy), and if it has
/// a field that only a single turn can obey: `stop`, `logprobs`, a response format, a continuation.
/// Thread-safe.
[[nodiscard]] std::shared_ptr<chat::Model> make_recursive_model(RecursiveOptions options,
                                                                std::shared_ptr<Host> host);

/// Reads `rlm` of a request into `limits`. Fails with the refusal for the client.
[[nodiscard]] Result<RunLimits, chat::Refusal> request_limits(const json::Value& rlm,
                                                              const RecursiveOptions& options);

}  // namespace tenon::rlm
