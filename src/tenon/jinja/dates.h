#pragma once

#include <cstdint>
#include <ctime>
#include <optional>

#include "tenon/jinja/value.h"

namespace tenon::jinja {

class Runtime;

/// The time of a rendering. The system's clock is read once, so that two parts of a prompt have the
/// same day.
class Clock {
 public:
  /// Seconds since 1970, in UTC; 0: the system's clock, in the local time zone.
  explicit Clock(std::int64_t unix_s) : unix_s_(unix_s) {}

  [[nodiscard]] std::int64_t unix_s();
  /// Nothing if the time is out of range.
  [[nodiscard]] std::optional<std::tm> now();

 private:
  std::int64_t unix_s_;
  bool is_local_ = false;  // unix_s_ was read from the clock
};

/// datetime.now().strftime(format) in the C locale.
[[nodiscard]] Value formatted_now(Runtime& rt, const Value& format);

}  // namespace tenon::jinja
