#include "tenon/base/log.h"

#include <atomic>

namespace tenon::log {
namespace {

void write_nothing(Level /*level*/, std::string_view /*message*/) {}

std::atomic<Sink> current_sink{write_nothing};
std::atomic<Level> least_level{Level::error};

}  // namespace

void set_sink(Sink sink, Level least) {
  current_sink.store(sink == nullptr ? write_nothing : sink, std::memory_order_release);
  least_level.store(least, std::memory_order_release);
}

bool is_on(Level level) {
  return level >= least_level.load(std::memory_order_acquire);
}

void write(Level level, std::string_view message) {
  if (is_on(level)) current_sink.load(std::memory_order_acquire)(level, message);
}

}  // namespace tenon::log
