#include "tenon/engine/llama/rpc.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <thread>

#include <ggml-rpc.h>

#include "tenon/engine/llama/libllama.h"
#include "tenon/engine/llama/rpc_worker.h"

namespace tenon::engine {
namespace {

/// A function of the RPC backend, if libllama was built with one.
template <class Function>
Expected<Function*> rpc_function(const char* name) {
  start_libllama();
  ggml_backend_reg_t backend = ggml_backend_reg_by_name("RPC");
  void* const address =
      backend == nullptr ? nullptr : ggml_backend_reg_get_proc_address(backend, name);
  if (address == nullptr) {
    return Unexpected(Error{Errc::unsupported,
                            "libllama was built without its RPC backend: build llama-cpp-python "
                            "with CMAKE_ARGS=-DGGML_RPC=on"});
  }
  return reinterpret_cast<Function*>(address);
}

// "10.0.0.2:50052" and "[fe80::1]:50052" pass, "10.0.0.2" and ":50052" do not.
Status check_endpoint(const std::string& endpoint) {
  const std::size_t colon = endpoint.rfind(':');
  const std::string port = colon == std::string::npos ? "" : endpoint.substr(colon + 1);
  const bool is_number = !port.empty() && port.size() <= 5 &&
                         port.find_first_not_of("0123456789") == std::string::npos;
  if (is_number && colon > 0 && std::stoi(port) >= 1 && std::stoi(port) <= 65'535) return {};
  return Unexpected(
      Error{Errc::invalid, "'" + endpoint + "' is no address of an RPC worker: write host:port"});
}

}  // namespace

Expected<std::vector<ggml_backend_dev_t>> rpc_devices(const std::vector<std::string>& endpoints) {
  const auto add =
      rpc_function<decltype(ggml_backend_rpc_add_server)>("ggml_backend_rpc_add_server");
  if (!add) return Unexpected(add.error());
  std::vector<ggml_backend_dev_t> devices;
  for (const std::string& endpoint : endpoints) {
    if (Status checked = check_endpoint(endpoint); !checked) return Unexpected(checked.error());
    const LlamaGuard guard;
    ggml_backend_reg_t worker = nullptr;
    try {
      worker = (*add)(endpoint.c_str());
    } catch (const std::exception&) {  // reported below
    }
    const std::size_t count = worker == nullptr ? 0 : ggml_backend_reg_dev_count(worker);
    if (count == 0) {
      return Unexpected(Error{Errc::unavailable, "no RPC worker answers at " + endpoint +
                                                     ": is `tenon worker` running there?"});
    }
    for (std::size_t i = 0; i < count; ++i) {
      devices.push_back(ggml_backend_reg_dev_get(worker, i));
    }
  }
  return devices;
}

Status run_rpc_worker(const std::string& endpoint, int threads) {
  const auto serve =
      rpc_function<decltype(ggml_backend_rpc_start_server)>("ggml_backend_rpc_start_server");
  if (!serve) return Unexpected(serve.error());
  if (Status checked = check_endpoint(endpoint); !checked) return checked;
  // The worker's accelerators, or else its processor.
  std::vector<ggml_backend_dev_t> devices;
  for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) {
    ggml_backend_dev_t device = ggml_backend_dev_get(i);
    if (ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_CPU) devices.push_back(device);
  }
  if (devices.empty()) {
    devices.push_back(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
  }
  const auto cores = std::max(1U, std::thread::hardware_concurrency());
  const LlamaGuard guard;
  try {
    // Returns only if it cannot listen; else it serves until the process ends.
    (*serve)(endpoint.c_str(), /*cache_dir=*/nullptr,
             threads > 0 ? static_cast<std::size_t>(threads) : cores, devices.size(),
             devices.data());
  } catch (const std::exception& error) {
    return Unexpected(Error{Errc::unavailable, error.what()});
  }
  return Unexpected(
      Error{Errc::unavailable,
            "cannot listen at " + endpoint +
                (guard.first_error().empty() ? "" : " (" + guard.first_error() + ")")});
}

}  // namespace tenon::engine
