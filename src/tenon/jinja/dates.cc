#include "tenon/jinja/dates.h"

#include <chrono>
#include <string>
#include <string_view>

#include "tenon/jinja/runtime.h"

/// strftime_now: datetime.now().strftime(format) in the C locale. A time given by the caller is
/// read as UTC, the system's clock in the local time zone, as in Python.
namespace tenon::jinja {
namespace {

constexpr std::string_view kDays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                      "Thursday", "Friday", "Saturday"};
constexpr std::string_view kMonths[] = {"January",   "February", "March",    "April",
                                        "May",       "June",     "July",     "August",
                                        "September", "October",  "November", "December"};

// The flags are glibc's: "-" without padding, "_" with spaces, "0" with zeros. `pad` is the field's
// own.
std::string padded(int value, int width, char pad, char flag) {
  std::string digits = std::to_string(value);
  if (flag == '-') return digits;
  const char fill = flag == '_' ? ' ' : flag == '0' ? '0' : pad;
  if (digits.size() < static_cast<std::size_t>(width)) {
    digits.insert(0, static_cast<std::size_t>(width) - digits.size(), fill);
  }
  return digits;
}

// ISO 8601 year and week. Weeks begin on Monday, and a week belongs to the year of its Thursday.
void iso_week(const std::tm& time, int& year, int& week) {
  const int weekday = (time.tm_wday + 6) % 7;  // Monday is 0
  year = time.tm_year + 1900;
  week = (time.tm_yday - weekday + 10) / 7;
  // A year has 53 weeks if it ends on a Thursday, or the year before ended on a Wednesday.
  const auto weeks_in = [](int y) {
    const auto p = [](int x) { return (x + x / 4 - x / 100 + x / 400) % 7; };
    return p(y) == 4 || p(y - 1) == 3 ? 53 : 52;
  };
  if (week < 1) {
    --year;
    week = weeks_in(year);
  } else if (week > weeks_in(year)) {
    ++year;
    week = 1;
  }
}

// Writes each field itself and not through strftime(), which depends on the locale of the process.
class DateWriter {
 public:
  DateWriter(const std::tm& time, std::int64_t unix_s) : time_(time), unix_s_(unix_s) {}

  std::string write(std::string_view format) {
    std::string out;
    for (std::size_t at = 0; at < format.size(); ++at) {
      // A '%' at the end is text.
      if (format[at] != '%' || at + 1 >= format.size()) {
        out += format[at];
        continue;
      }
      const std::size_t begin = at++;
      // glibc's flags. '#' is read and has no effect.
      char flag = '\0';
      if (std::string_view("-_0^#").find(format[at]) != std::string_view::npos &&
          at + 1 < format.size()) {
        flag = format[at++];
      }
      std::string piece;
      // A field that is not known stays as it is written, as in glibc.
      if (!field(format[at], flag, piece)) piece = format.substr(begin, at + 1 - begin);
      if (flag == '^') {
        for (char& c : piece) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
      }
      out += piece;
    }
    return out;
  }

 private:
  bool field(char kind, char flag, std::string& out) const {
    int iso_year = 0;
    int week = 0;
    const int hour12 = time_.tm_hour % 12 == 0 ? 12 : time_.tm_hour % 12;
    switch (kind) {
      case 'Y':
        out = std::to_string(time_.tm_year + 1900);
        return true;
      case 'y':
        out = padded(time_.tm_year % 100, 2, '0', flag);
        return true;
      case 'C':
        out = padded((time_.tm_year + 1900) / 100, 2, '0', flag);
        return true;
      case 'm':
        out = padded(time_.tm_mon + 1, 2, '0', flag);
        return true;
      case 'd':
        out = padded(time_.tm_mday, 2, '0', flag);
        return true;
      case 'e':
        out = padded(time_.tm_mday, 2, ' ', flag);
        return true;
      case 'H':
        out = padded(time_.tm_hour, 2, '0', flag);
        return true;
      case 'k':
        out = padded(time_.tm_hour, 2, ' ', flag);
        return true;
      case 'I':
        out = padded(hour12, 2, '0', flag);
        return true;
      case 'l':
        out = padded(hour12, 2, ' ', flag);
        return true;
      case 'M':
        out = padded(time_.tm_min, 2, '0', flag);
        return true;
      case 'S':
        out = padded(time_.tm_sec, 2, '0', flag);
        return true;
      case 'f':
        // The clock of a rendering has whole seconds.
        out = "000000";
        return true;
      case 'j':
        out = padded(time_.tm_yday + 1, 3, '0', flag);
        return true;
      case 'U':
        // Weeks begin on Sunday (U) or Monday (W); days before the first one are week 0.
        out = padded((time_.tm_yday + 7 - time_.tm_wday) / 7, 2, '0', flag);
        return true;
      case 'W':
        out = padded((time_.tm_yday + 7 - (time_.tm_wday + 6) % 7) / 7, 2, '0', flag);
        return true;
      case 'w':
        out = std::to_string(time_.tm_wday);
        return true;
      case 'u':
        out = std::to_string(time_.tm_wday == 0 ? 7 : time_.tm_wday);
        return true;
      case 'V':
        iso_week(time_, iso_year, week);
        out = padded(week, 2, '0', flag);
        return true;
      case 'G':
      case 'g':
        iso_week(time_, iso_year, week);
        out = kind == 'G' ? std::to_string(iso_year) : padded(iso_year % 100, 2, '0', flag);
        return true;
      case 'A':
        out = kDays[time_.tm_wday];
        return true;
      case 'a':
        out = kDays[time_.tm_wday].substr(0, 3);
        return true;
      case 'B':
        out = kMonths[time_.tm_mon];
        return true;
      case 'b':
      case 'h':
        out = kMonths[time_.tm_mon].substr(0, 3);
        return true;
      case 'p':
        out = time_.tm_hour < 12 ? "AM" : "PM";
        return true;
      case 'P':
        out = time_.tm_hour < 12 ? "am" : "pm";
        return true;
      case 's':
        out = std::to_string(unix_s_);
        return true;
      case 'z':
      case 'Z':
        return true;  // Python's naive times have no zone
      case 'n':
        out = "\n";
        return true;
      case 't':
        out = "\t";
        return true;
      case '%':
        out = "%";
        return true;
      case 'D':
      case 'x':
        out = composed("%m/%d/%y");
        return true;
      case 'F':
        out = composed("%Y-%m-%d");
        return true;
      case 'T':
      case 'X':
        out = composed("%H:%M:%S");
        return true;
      case 'R':
        out = composed("%H:%M");
        return true;
      case 'r':
        out = composed("%I:%M:%S %p");
        return true;
      case 'c':
        out = composed("%a %b %e %H:%M:%S %Y");
        return true;
      default:
        return false;
    }
  }
  [[nodiscard]] std::string composed(std::string_view format) const {
    return DateWriter(time_, unix_s_).write(format);
  }

  std::tm time_;
  std::int64_t unix_s_;
};

}  // namespace

std::int64_t Clock::unix_s() {
  // 0: the caller gave no time. The clock is read once, so all dates in a prompt agree.
  if (unix_s_ == 0) {
    unix_s_ = std::chrono::duration_cast<std::chrono::seconds>(
                  std::chrono::system_clock::now().time_since_epoch())
                  .count();
    is_local_ = true;
  }
  return unix_s_;
}

std::optional<std::tm> Clock::now() {
  const std::time_t seconds = unix_s();
  std::tm time{};
  if ((is_local_ ? localtime_r(&seconds, &time) : gmtime_r(&seconds, &time)) == nullptr) {
    return std::nullopt;
  }
  return time;
}

Value formatted_now(Runtime& rt, const Value& format) {
  if (!format.is_string()) {
    rt.type_error("strftime() argument 1 must be str, not " + std::string(type_name(format)));
  }
  const Text pattern = rt.text_of(format);
  const std::string_view text = pattern.bytes;
  rt.charge(text.size());
  if (text.size() > std::size_t{1} << 16) rt.fail_limit("a date format is longer than 65536 bytes");
  const std::optional<std::tm> time = rt.clock().now();
  if (!time) rt.value_error("the time is out of range");
  // If the pattern is part template and part data, the whole result counts as data.
  return rt.string_copy(DateWriter(*time, rt.clock().unix_s()).write(text),
                        pattern.is_data || pattern.runs != nullptr);
}

}  // namespace tenon::jinja
