#pragma once

#include <string>

#include "tenon/base/expected.h"

namespace tenon::engine {

/// Computes layers, on this machine's devices, for the process that names `endpoint` ("host:port")
/// in LlamaOptions::rpc. Serves one process after the other, and returns only if it cannot listen.
///
/// The protocol is libllama's: it is neither encrypted nor authenticated, and anyone who reaches
/// the port can make this process read and write memory as they like. Use it on a closed network
/// only.
[[nodiscard]] Status run_rpc_worker(const std::string& endpoint, int threads);

}  // namespace tenon::engine
