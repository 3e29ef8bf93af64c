#include "tenon/base/log.h"

#include <atomic>
#include <exception>
#include <string>

namespace tenon::log {
namespace {

void write_nothing(Level /*level*/, std::string_view /*message*/) {}

std::atomic<Sink> current_sink{write_nothing};
std::atomic<Level> least_level{Level::error};
std::atomic<bool> shows_contents{true};
thread_local std::string_view current_id;  // a view of what About was given

}  // namespace

void set_sink(Sink sink, Level least) {
  current_sink.store(sink == nullptr ? write_nothing : sink, std::memory_order_release);
  least_level.store(least, std::memory_order_release);
}

bool is_on(Level level) {
  return level >= least_level.load(std::memory_order_acquire);
}

void write(Level level, std::string_view message) noexcept try {
  if (!is_on(level)) return;
  // Without an id, no memory is allocated.
  const Sink sink = current_sink.load(std::memory_order_acquire);
  if (current_id.empty()) return sink(level, message);
  std::string line(current_id);
  line += ' ';
  line += message;
  sink(level, line);
} catch (const std::exception&) {  // the caller may already be short of memory
  return;
}

void set_contents(bool are_shown) {
  shows_contents.store(are_shown, std::memory_order_release);
}

std::string_view content(std::string_view text) {
  return shows_contents.load(std::memory_order_acquire) ? text : "***";
}

About::About(std::string_view id) : outer_(current_id) {
  current_id = id;
}

About::~About() {
  current_id = outer_;
}

std::string_view about() {
  return current_id;
}

}  // namespace tenon::log
