#pragma once

#include <cstdint>
#include <string_view>

/// Where log lines go. Layers write here; the application decides what to do with them.
namespace tenon::log {

enum class Level : std::uint8_t { trace, debug, info, warn, error };

/// Receives whole messages without a line end. Called from any thread, perhaps at the same time.
using Sink = void (*)(Level level, std::string_view message);

/// Replaces the sink (the first one writes nothing) and the level below which nothing is sent.
void set_sink(Sink sink, Level least);
[[nodiscard]] bool is_on(Level level);
/// A line that cannot be written, for example for lack of memory, is dropped.
void write(Level level, std::string_view message) noexcept;

/// Whether lines may contain content: names and values from clients and models. True at first.
void set_contents(bool are_shown);
/// `text`, or "***" if lines may not contain content. A view of `text` or of a constant.
[[nodiscard]] std::string_view content(std::string_view text);

/// While it lives, every line of this thread begins with the id of the request that it is about.
///
///     const log::About about(id);        // "" says nothing
///     log::warn("a value was repaired");  // "req_1 a value was repaired"
///
/// `id` must outlive the object. An inner About replaces the outer one until it is destroyed.
class About {
 public:
  explicit About(std::string_view id);
  ~About();
  About(const About&) = delete;
  About& operator=(const About&) = delete;

 private:
  const std::string_view outer_;
};
/// The id of this thread's innermost About; "" without one. A view of what About was given.
[[nodiscard]] std::string_view about();

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
