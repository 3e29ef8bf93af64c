#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include <llama.h>

/// Makes libllama safe to call: its messages go to our log, and failed assertions become exceptions
/// where the caller asks for it. For sources of this folder only.
namespace tenon::engine {

struct FreeModel {
  void operator()(llama_model* model) const { llama_model_free(model); }
};
struct FreeContext {
  void operator()(llama_context* context) const { llama_free(context); }
};
using ModelPtr = std::unique_ptr<llama_model, FreeModel>;
using ContextPtr = std::unique_ptr<llama_context, FreeContext>;

/// A failed assertion of libllama, which would otherwise have ended the process.
class LlamaAborted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Starts libllama once per process. Thread-safe.
void start_libllama();

/// While one lives on this thread, a failed assertion of libllama throws LlamaAborted instead of
/// ending the process, and error messages are kept. The objects in use must not be used afterwards.
///
/// ggml calls its abort callback, which may not return, before it aborts; C frames are crossed by
/// the unwinder because the x86-64 and AArch64 ABIs have unwind tables for C as well.
class LlamaGuard {
 public:
  LlamaGuard();
  ~LlamaGuard();
  LlamaGuard(const LlamaGuard&) = delete;
  LlamaGuard& operator=(const LlamaGuard&) = delete;

  /// The first error message of libllama on this thread since the guard was made, or "". Later ones
  /// only repeat in general words that something failed.
  [[nodiscard]] const std::string& first_error() const { return first_error_; }
  void keep_error(std::string_view line) {
    if (first_error_.empty()) first_error_ = line;
  }

 private:
  LlamaGuard* outer_;
  std::string first_error_;
};

}  // namespace tenon::engine
