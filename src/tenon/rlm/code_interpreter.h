#pragma once

#include <memory>

#include "tenon/chat/code_run.h"
#include "tenon/rlm/host.h"

namespace tenon::rlm {

/// Runs code of any model in the sandbox of recursive models (docs/sandbox.md): each job in a
/// worker of its own, on a thread of `host`, which HostOptions::max_runs limits. The code finds the
/// functions of its tools and none that asks a model. `random` gives the same numbers each time.
///
/// After Host::close() each job fails.
[[nodiscard]] std::shared_ptr<chat::CodeInterpreter> make_code_interpreter(
    std::shared_ptr<Host> host);

}  // namespace tenon::rlm
