#pragma once

#include <string>

#include "tenon/base/expected.h"

namespace tenon::engine {

/// Computes layers for the process that names `endpoint` ("host:port") in LlamaOptions::rpc, on
/// this machine's devices. Serves one process after the other, and returns only where it cannot
/// listen.
///
/// The protocol is libllama's: neither encrypted nor authenticated, and whoever reaches the port
/// can make this process read and write what it likes. It belongs on a closed network.
[[nodiscard]] Status run_rpc_worker(const std::string& endpoint, int threads);

}  // namespace tenon::engine
