#include "progress_line.h"

#include <iostream>

#include <sys/ioctl.h>
#include <unistd.h>

namespace tenon::app {

std::size_t line_width() {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  const bool is_known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return (is_known ? size.ws_col : kUsual) - 1;
}

ProgressLine::ProgressLine() : is_terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (is_terminal_) std::cerr << "\r\033[K" << std::flush;
}

bool ProgressLine::is_due(bool at_once) {
  constexpr std::chrono::milliseconds kMoment{100};
  constexpr std::chrono::seconds kWhile{30};
  const Clock::time_point now = Clock::now();
  const bool is_due = is_terminal_ ? at_once || now - last_ >= kMoment : now - last_ >= kWhile;
  if (is_due) last_ = now;
  return is_due;
}

void ProgressLine::show(const std::string& line) {
  if (is_terminal_) {
    std::cerr << '\r' << line << "\033[K" << std::flush;
  } else {
    std::cerr << line << std::endl;
  }
}

}  // namespace tenon::app
