#include "tenon/engine/llama/libllama.h"

#include <array>
#include <cstddef>
#include <mutex>

#include "tenon/base/log.h"

namespace tenon::engine {

namespace {

// libllama writes lines in pieces. This is an array and not a std::string, because an engine that
// is destroyed at the end of the process still logs after thread-local destructors have run.
struct Line {
  std::array<char, 2048> text;
  std::size_t size;
  ggml_log_level level;
};
thread_local Line line = {};
thread_local LlamaGuard* guard = nullptr;

/// libllama's warnings are for people who convert models, so everything goes to the debug level.
void end_line(std::string_view text) {
  if (text.find_first_not_of(" .") == std::string_view::npos) return;
  if (line.level == GGML_LOG_LEVEL_ERROR && guard != nullptr) guard->keep_error(text);
  if (log::is_on(log::Level::debug)) log::debug("libllama: " + std::string(text));
}

// A line that is longer than the array loses its end.
void on_log(ggml_log_level level, const char* text, void* /*user*/) {
  if (level != GGML_LOG_LEVEL_CONT) line.level = level;
  for (const char c : std::string_view(text)) {
    if (c == '\n') {
      end_line({line.text.data(), line.size});
      line.size = 0;
    } else if (line.size < line.text.size()) {
      line.text[line.size++] = c;
    }
  }
}

// Without a guard no caller of ours is prepared, and the process ends as ggml intends.
void on_abort(const char* message) {
  if (guard != nullptr) throw LlamaAborted(message);
  log::error(std::string("libllama: ") + message);  // ggml aborts when this function returns
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

// Half a line of an earlier call is dropped.
LlamaGuard::LlamaGuard() : outer_(guard) {
  line.size = 0;
  guard = this;
}

LlamaGuard::~LlamaGuard() {
  guard = outer_;
}

}  // namespace tenon::engine
