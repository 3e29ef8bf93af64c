#include "fetch_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <mutex>
#include <string_view>

#include "progress_line.h"
#include "terminal.h"
#include <unistd.h>

// How a fetch is shown on stderr. A terminal has one line that is overwritten ten times a second,
// and removed before another line is printed; anything else gets a line every ten seconds.

namespace tenon::app {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = hub::Event::Kind;

// "4:07", "1:02:03".
std::string shown_time(double seconds) {
  if (!(seconds < 360'000)) return "over 100 h";
  const auto whole = static_cast<long>(std::ceil(seconds));
  std::array<char, 32> text{};
  if (whole < 3600) {
    std::snprintf(text.data(), text.size(), "%ld:%02ld", whole / 60, whole % 60);
  } else {
    std::snprintf(text.data(), text.size(), "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60,
                  whole % 60);
  }
  return text.data();
}

std::string name_of(const hub::Event& event) {
  std::string name = printable(event.file, false);
  if (event.count > 1) {
    name += " (" + std::to_string(event.number) + " of " + std::to_string(event.count) + ")";
  }
  return name;
}

class FetchView {
 public:
  FetchView() : is_terminal_(isatty(STDERR_FILENO) == 1) {}
  FetchView(const FetchView&) = delete;
  FetchView& operator=(const FetchView&) = delete;
  ~FetchView() { clear(); }

  void show(const hub::Event& event) {
    const std::lock_guard lock(mutex_);
    const Clock::time_point now = Clock::now();
    switch (event.kind) {
      case Kind::begin:
        begin_ = last_ = now;
        had_ = event.have;
        if (!is_terminal_) {
          say(name_of(event) + ": " + shown_size(event.size) +
              (event.have > 0 ? ", " + shown_size(event.have) + " are here already" : ""));
        }
        break;
      case Kind::bytes:
        had_ = std::min(had_, event.have);  // the fetch may have started over
        if (event.have < event.size && now - last_ < (is_terminal_ ? kMoment : kLine)) break;
        if (event.have == event.size && !is_terminal_) break;
        last_ = now;
        draw(fetch_line(event, event.have - had_, now - begin_,
                        is_terminal_ ? line_width() : std::size_t{200}));
        break;
      case Kind::wait:
        say((event.file.empty() ? "" : name_of(event) + ": ") + printable(event.what, false));
        break;
      case Kind::done:
        say(name_of(event) + ": here, its hash is right");
        break;
      case Kind::found:
        say(name_of(event) + ": was here already");
        break;
    }
  }

 private:
  static constexpr Clock::duration kMoment = std::chrono::milliseconds(100);
  static constexpr Clock::duration kLine = std::chrono::seconds(10);

  void clear() {
    if (std::exchange(is_drawn_, false)) std::cerr << "\r\033[K" << std::flush;
  }
  void say(const std::string& line) {
    clear();
    std::cerr << line << std::endl;
  }
  void draw(const std::string& line) {
    if (!is_terminal_) return say(line);
    is_drawn_ = true;
    std::cerr << '\r' << line << "\033[K" << std::flush;
  }

  std::mutex mutex_;
  const bool is_terminal_;
  bool is_drawn_ = false;
  Clock::time_point begin_;
  Clock::time_point last_;
  std::uint64_t had_ = 0;  // bytes that were here when it began
};

}  // namespace

// Three digits: "999 B", "1.00 kB", "12.3 MB", "456 GB". The bounds are those at which rounding
// would give a fourth digit.
std::string shown_size(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 6> kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
  auto size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; size >= 999.5 && unit + 1 < kUnits.size(); ++unit) size /= 1000;
  std::array<char, 32> text{};
  const int digits = unit == 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  std::snprintf(text.data(), text.size(), "%.*f ", digits, size);
  return text.data() + std::string(kUnits[unit]);
}

// "model.gguf  [####      ]  40 %  1.20 GB of 3.00 GB  11.0 MB/s  2:44 left". The bar goes first if
// there is little room, then the name.
std::string fetch_line(const hub::Event& event, std::uint64_t fresh, std::chrono::nanoseconds since,
                       std::size_t width) {
  constexpr std::size_t kWidest = 20;
  constexpr std::size_t kLeast = 5;
  const double seconds = std::chrono::duration<double>(since).count();
  const double rate = seconds > 0 ? static_cast<double>(fresh) / seconds : 0;
  const std::uint64_t percent =
      event.size == 0 ? 100
                      : static_cast<std::uint64_t>(100.0 * static_cast<double>(event.have) /
                                                   static_cast<double>(event.size));
  std::string told =
      std::to_string(percent) + " %  " + shown_size(event.have) + " of " + shown_size(event.size);
  if (rate >= 1) {
    told += "  " + shown_size(static_cast<std::uint64_t>(rate)) + "/s";
    if (event.have < event.size) {
      told += "  " + shown_time(static_cast<double>(event.size - event.have) / rate) + " left";
    }
  }
  const std::string name = name_of(event);
  if (name.size() + told.size() + 2 > width) return told.substr(0, width);
  const std::size_t room = width - name.size() - told.size() - 2;
  if (room < kLeast + 4) return name + "  " + told;
  const std::size_t cells = std::min(room - 4, kWidest);
  const std::size_t full = cells * std::min<std::uint64_t>(percent, 100) / 100;
  return name + "  [" + std::string(full, '#') + std::string(cells - full, ' ') + "]  " + told;
}

hub::Progress fetch_view() {
  return [view = std::make_shared<FetchView>()](const hub::Event& event) { view->show(event); };
}

}  // namespace tenon::app
