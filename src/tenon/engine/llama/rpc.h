#pragma once

#include <string>
#include <vector>

#include <ggml-backend.h>

#include "tenon/base/expected.h"

/// A model's layers on other machines, by libllama's RPC backend. For sources of this folder only.
namespace tenon::engine {

/// The devices of the workers at `endpoints` ("host:port"), in order. Waits for each to answer.
/// Fails with `unavailable` if one does not, with `unsupported` if libllama has no RPC backend.
[[nodiscard]] Expected<std::vector<ggml_backend_dev_t>> rpc_devices(
    const std::vector<std::string>& endpoints);

}  // namespace tenon::engine
