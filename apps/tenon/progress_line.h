#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace tenon::app {

/// The columns that a line on the terminal at stderr may have, one less than there are, since a
/// line as wide as the terminal would wrap. 79 if that is not known.
[[nodiscard]] std::size_t line_width();

/// Says on stderr how far a command is: on a terminal one line that is overwritten, and removed at
/// the end; anywhere else a line every half a minute. For one thread at a time.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  [[nodiscard]] bool is_terminal() const { return is_terminal_; }
  /// Whether it is time for a line: ten times a second on a terminal, where `at_once` does not
  /// wait.
  [[nodiscard]] bool is_due(bool at_once = false);
  void show(const std::string& line);

 private:
  using Clock = std::chrono::steady_clock;

  const bool is_terminal_;
  Clock::time_point last_ = Clock::now();
};

}  // namespace tenon::app
