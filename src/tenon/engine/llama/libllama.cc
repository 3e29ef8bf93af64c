#include "tenon/engine/llama/libllama.h"

#include <mutex>
#include <string_view>

#include "tenon/base/log.h"

namespace tenon::engine {

namespace {

thread_local LlamaGuard* guard = nullptr;
thread_local std::string line;  // libllama writes lines in pieces
thread_local ggml_log_level line_level = GGML_LOG_LEVEL_NONE;

}  // namespace

void keep_error(const std::string& text) {
  if (guard != nullptr) guard->last_error_ = text;
}

namespace {

/// Warnings of libllama are for those who convert models; they all go to the debug level.
void on_log(ggml_log_level level, const char* text, void* /*user*/) {
  if (level != GGML_LOG_LEVEL_CONT) line_level = level;
  for (const char c : std::string_view(text)) {
    if (c != '\n') {
      if (line.size() < 4096) line.push_back(c);
      continue;
    }
    if (line.find_first_not_of(" .") != std::string::npos) {
      if (line_level == GGML_LOG_LEVEL_ERROR) keep_error(line);
      if (log::is_on(log::Level::debug)) log::debug("libllama: " + line);
    }
    line.clear();
  }
}

void on_abort(const char* message) {
  if (guard != nullptr) throw LlamaAborted(message);
  log::error(std::string("libllama: ") + message);  // and ggml aborts when this returns
}

}  // namespace

void start_libllama() {
  static std::once_flag once;
  std::call_once(once, [] {
    llama_log_set(on_log, nullptr);
    ggml_set_abort_callback(on_abort);
    llama_backend_init();
  });
}

LlamaGuard::LlamaGuard() : outer_(guard) {
  line.clear();
  guard = this;
}

LlamaGuard::~LlamaGuard() { guard = outer_; }

}  // namespace tenon::engine
