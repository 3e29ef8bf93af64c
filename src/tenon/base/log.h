#pragma once

#include <cstdint>
#include <string_view>

/// Where log lines go. Layers write here; the application decides what becomes of them.
namespace tenon::log {

enum class Level : std::uint8_t { trace, debug, info, warn, error };

/// Receives whole messages without a line end. Called from any thread, perhaps at the same time.
using Sink = void (*)(Level level, std::string_view message);

/// Replaces the sink (the first one writes nothing) and the level below which nothing is sent.
void set_sink(Sink sink, Level least);
[[nodiscard]] bool is_on(Level level);
void write(Level level, std::string_view message);

inline void debug(std::string_view message) {
  write(Level::debug, message);
}
inline void info(std::string_view message) {
  write(Level::info, message);
}
inline void warn(std::string_view message) {
  write(Level::warn, message);
}
inline void error(std::string_view message) {
  write(Level::error, message);
}

}  // namespace tenon::log
