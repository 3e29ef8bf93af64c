#include "tenon/grammar/number_scanner.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "tenon/base/budget.h"
#include "tenon/grammar/int_map.h"
#include "tenon/json/decimal.h"
#include "tenon/schema/numbers.h"

namespace tenon::grammar {

namespace {

using json::compare;
using json::Decimal;
using json::decimal_of;

__extension__ using Wide = __int128;

constexpr std::size_t kMaxTextLength = 400;    // of one number
constexpr std::size_t kMaxExponentDigits = 3;  // beyond doubles anyway
constexpr std::int64_t kMostExponent = 999;
constexpr int kMaxScale = 18;  // of fixed-point arithmetic
constexpr Wide kMaxFixed = Wide{1} << 120;

enum class Part : std::uint8_t {
  begin,     // nothing, or "-"
  zero,      // "0"
  whole,     // "12"
  point,     // "12."
  fraction,  // "12.5"
  e,         // "1e"
  e_sign,    // "1e-"
  exponent,  // "1e-5"
};

struct Prefix {
  Part part = Part::begin;
  bool negative = false;
  std::string_view whole;     // digits before the point
  std::string_view fraction;  // after it
  bool exponent_negative = false;
  std::string_view exponent;
};

Prefix parse(std::string_view text) {
  Prefix p;
  std::size_t i = 0;
  const auto digits = [&] {
    const std::size_t from = i;
    while (i < text.size() && text[i] >= '0' && text[i] <= '9') ++i;
    return text.substr(from, i - from);
  };
  if (i < text.size() && text[i] == '-') {
    p.negative = true;
    ++i;
  }
  p.whole = digits();
  if (!p.whole.empty()) p.part = p.whole == "0" ? Part::zero : Part::whole;
  if (i < text.size() && text[i] == '.') {
    ++i;
    p.fraction = digits();
    p.part = p.fraction.empty() ? Part::point : Part::fraction;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    p.part = Part::e;
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) {
      p.exponent_negative = text[i] == '-';
      p.part = Part::e_sign;
      ++i;
    }
    p.exponent = digits();
    if (!p.exponent.empty()) p.part = Part::exponent;
  }
  return p;
}

bool is_whole_number(Part part) {
  return part == Part::zero || part == Part::whole || part == Part::fraction ||
         part == Part::exponent;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// The part after `c`, by the grammar of JSON numbers and of our spellings; nothing if it refuses.
std::optional<Part> next_part(const Prefix& p, char c, bool with_exponents) {
  const bool has_nonzero_digit = p.whole.size() == 1 && p.whole != "0";
  switch (p.part) {
    case Part::begin:
      if (c == '-' && !p.negative) return Part::begin;
      if (c == '0') return Part::zero;
      if (is_digit(c)) return Part::whole;
      return std::nullopt;
    case Part::zero:
      return c == '.' ? std::optional(Part::point) : std::nullopt;
    case Part::whole:
      if (is_digit(c)) return Part::whole;
      if (c == '.') return Part::point;
      break;
    case Part::point:
      return is_digit(c) ? std::optional(Part::fraction) : std::nullopt;
    case Part::fraction:
      if (is_digit(c)) return Part::fraction;
      break;
    case Part::e:
      if (c == '-' || c == '+') return Part::e_sign;
      [[fallthrough]];
    case Part::e_sign:
      return is_digit(c) ? std::optional(Part::exponent) : std::nullopt;
    case Part::exponent:
      return is_digit(c) && p.exponent.size() < kMaxExponentDigits ? std::optional(Part::exponent)
                                                                   : std::nullopt;
  }
  if ((c == 'e' || c == 'E') && with_exponents && has_nonzero_digit) return Part::e;
  return std::nullopt;
}

// ---- Fixed-point numbers: integers in units of 10^-scale --------------------------------------

std::optional<Wide> fixed(const Decimal& value, int scale) {
  Wide result = 0;
  const std::int64_t shift = value.exponent + scale;
  if (shift < 0 || shift > 2 * kMaxScale) {
    if (value.is_zero()) return 0;
    return std::nullopt;
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (result > kMaxFixed / 10) return std::nullopt;
    result = result * 10 + (value.digit(i) - '0');
  }
  for (std::int64_t i = 0; i < shift; ++i) {
    if (result > kMaxFixed / 10) return std::nullopt;
    result *= 10;
  }
  return value.negative ? -result : result;
}

Wide gcd(Wide a, Wide b) {
  while (b != 0) a = std::exchange(b, a % b);
  return a;
}

// The least multiple of `step` that is at least `value`.
Wide multiple_from(Wide value, Wide step) {
  const Wide quotient = value / step;
  const Wide floor = value % step < 0 ? quotient - 1 : quotient;
  return floor * step == value ? value : (floor + 1) * step;
}

class NumberScanner final : public Scanner {
 public:
  explicit NumberScanner(NumberSet set) : set_(std::move(set)) {
    is_free_ = !set_.minimum && !set_.maximum && set_.no_multiples.empty() &&
               set_.excluded.empty() &&
               std::ranges::all_of(set_.multiples, [](const auto& m) { return m == "1"; });
    prepare();
    start_ = intern("");
    if (is_empty() || !is_live("")) start_ = kDead;
  }

  State start() override { return start_; }

  State step(State state, std::uint8_t byte) override {
    const std::uint64_t memo = std::uint64_t{state} << 8U | byte;
    const State known = steps_.find(memo);
    if (known != IntMap::kNone) return known == kRefused ? kDead : known;
    const State next = compute(state, static_cast<char>(byte));
    steps_.insert(memo, next == kDead ? kRefused : next);
    return next;
  }

  bool is_accepting(State state) const override { return accepting_[state]; }
  bool is_final(State) const override { return false; }
  std::optional<vocab::ByteClasses> classes(State) override { return std::nullopt; }

 private:
  static constexpr State kRefused = 0xFFFFFFFE;

  [[nodiscard]] bool is_empty() const {
    if (!set_.minimum || !set_.maximum) return false;
    const auto order = compare(decimal_of(set_.minimum->value), decimal_of(set_.maximum->value));
    return order > 0 || (order == 0 && !set_.contains(set_.minimum->value));
  }

  State compute(State state, char c) {
    const std::string text = texts_[state];
    const Prefix prefix = parse(text);
    const auto part = next_part(prefix, c, set_.multiples.empty());
    if (!part || text.size() + 1 > kMaxTextLength) return kDead;
    if (set_.integers_are_spelled && *part == Part::point) return kDead;
    std::string next = text + c;
    if (is_free_) next = representative(next, *part);
    return is_live(next) ? intern(next) : kDead;
  }

  // Where the value does not matter, one text stands for all of its shape: the machine then has a
  // handful of states.
  static std::string representative(const std::string& text, Part part) {
    const Prefix p = parse(text);
    switch (part) {
      case Part::begin:
        return text;
      case Part::zero:
        return "0";
      case Part::whole:
        return p.whole.size() == 1 ? "1" : "11";
      case Part::point:
        return p.whole.size() == 1 && p.whole != "0" ? "1." : "0.";
      case Part::fraction:
        // Of integers only zeros may follow the point.
        return (p.whole.size() == 1 && p.whole != "0" ? "1." : "0.") +
               std::string(p.fraction.find_first_not_of('0') == std::string_view::npos ? "0" : "1");
      case Part::e:
        return "1e";
      case Part::e_sign:
        return "1e-";
      case Part::exponent:
        return "1e-" + std::string(p.exponent.size(), '1');
    }
    return text;
  }

  State intern(const std::string& text) {
    const auto [place, is_new] = ids_.try_emplace(text, static_cast<State>(texts_.size()));
    if (is_new) {
      texts_.push_back(text);
      accepting_.push_back(is_whole_number(parse(text).part) && set_.contains(text));
    }
    return place->second;
  }

  // ---- Whether a prefix can lead into the set --------------------------------------------------

  // Bounds and the common step of all multiples in units of 10^-scale_, where they fit.
  void prepare() {
    std::int64_t lowest = 0;
    const auto see = [&](const std::string& text) {
      lowest = std::min(lowest, decimal_of(text).exponent);
    };
    for (const std::string& m : set_.multiples) see(m);
    if (set_.minimum) see(set_.minimum->value);
    if (set_.maximum) see(set_.maximum->value);
    if (lowest < -kMaxScale) return;
    scale_ = static_cast<int>(-lowest);
    if (set_.minimum && !(low_ = fixed(decimal_of(set_.minimum->value), scale_))) return;
    if (set_.maximum && !(high_ = fixed(decimal_of(set_.maximum->value), scale_))) return;
    for (const std::string& m : set_.multiples) {
      const auto value = fixed(decimal_of(m), scale_);
      if (!value) return;
      const Wide common = *value / gcd(step_, *value);
      if (step_ > kMaxFixed / common) return;
      step_ *= common;
    }
    if (set_.multiples.empty()) step_ = 0;
    fits_ = true;
  }

  // Whether the set may hold a number of [from, to), or (-to, -from] if negative, both in decimals
  // of 10^exponent. Where fixed-point numbers do not do, the answer is yes.
  bool meets(bool negative, std::string_view from, std::string_view to,
             std::int64_t exponent) const {
    const std::string suffix = "e" + std::to_string(exponent);
    const std::string near = std::string(from) + suffix;
    const std::string far = std::string(to) + suffix;
    return negative ? overlaps("-" + far, true, "-" + near, false)
                    : overlaps(near, false, far, true);
  }

  bool overlaps(const std::string& low, bool low_open, const std::string& high,
                bool high_open) const {
    const Decimal from = decimal_of(low);
    const Decimal to = decimal_of(high);
    if (set_.maximum) {
      const auto order = compare(from, decimal_of(set_.maximum->value));
      if (order > 0 || (order == 0 && (low_open || set_.maximum->exclusive))) return false;
    }
    if (set_.minimum) {
      const auto order = compare(to, decimal_of(set_.minimum->value));
      if (order < 0 || (order == 0 && (high_open || set_.minimum->exclusive))) return false;
    }
    return !fits_ || step_ == 0 || has_multiple(from, low_open, to, high_open);
  }

  bool has_multiple(const Decimal& low, bool low_open, const Decimal& high, bool high_open) const {
    // Ends that lie between two units are rounded inwards, to units.
    const auto units = [&](const Decimal& value, bool up, bool& open) -> std::optional<Wide> {
      if (value.is_zero() || value.exponent + scale_ >= 0) return fixed(value, scale_);
      const int finer = static_cast<int>(std::min<std::int64_t>(-value.exponent, kMaxScale + 1));
      if (finer > kMaxScale) return std::nullopt;
      const auto fine = fixed(value, finer);
      if (!fine) return std::nullopt;
      Wide unit = 1;
      for (int i = scale_; i < finer; ++i) unit *= 10;
      const Wide rounded = up ? multiple_from(*fine, unit) : -multiple_from(-*fine, unit);
      if (rounded != *fine) open = false;
      return rounded / unit;
    };
    std::optional<Wide> from = units(low, true, low_open);
    std::optional<Wide> to = units(high, false, high_open);
    if (!from || !to) return true;
    if (low_open) ++*from;
    if (high_open) --*to;
    if (low_) *from = std::max(*from, set_.minimum->exclusive ? *low_ + 1 : *low_);
    if (high_) *to = std::min(*to, set_.maximum->exclusive ? *high_ - 1 : *high_);
    return *from <= *to && multiple_from(*from, step_) <= *to;
  }

  bool is_live(const std::string& text) const {
    const Prefix p = parse(text);
    if (is_free_) {
      // Integers: after the point zeros only.
      return set_.multiples.empty() || p.fraction.find_first_not_of('0') == std::string_view::npos;
    }
    switch (p.part) {
      case Part::begin:
        return begin_is_live(p.negative);
      case Part::zero:
      case Part::point:
      case Part::fraction:
      case Part::whole:
        return decimals_are_live(p);
      case Part::e:
      case Part::e_sign:
      case Part::exponent:
        return exponent_is_live(p);
    }
    return false;
  }

  bool begin_is_live(bool negative) const {
    if (negative) {
      if (set_.minimum && compare(decimal_of(set_.minimum->value), decimal_of("0")) > 0)
        return false;
      for (char c = '0'; c <= '9'; ++c) {
        if (decimals_are_live(parse(std::string{'-', c}))) return true;
      }
      return false;
    }
    for (char c = '0'; c <= '9'; ++c) {
      if (decimals_are_live(parse(std::string(1, c)))) return true;
    }
    return begin_is_live(true);
  }

  // `digits` + 1 in its last place.
  static std::string successor(std::string digits) {
    std::size_t i = digits.size();
    while (i > 0 && digits[i - 1] == '9') digits[--i] = '0';
    if (i == 0) return "1" + digits;
    ++digits[i - 1];
    return digits;
  }

  bool decimals_are_live(const Prefix& p) const {
    const std::string digits = std::string(p.whole) + std::string(p.fraction);
    // A leading zero is not written: "0123" stands for its value below.
    const std::string trimmed = trim(digits);
    const std::string above = successor(trimmed);
    const auto exponent = -static_cast<std::int64_t>(p.fraction.size());
    if (meets(p.negative, trimmed, above, exponent)) return true;
    if (p.part == Part::whole) {
      const auto most = static_cast<std::int64_t>(kMaxTextLength - p.whole.size());
      for (std::int64_t k = 1; k <= most; ++k) {
        if (meets(p.negative, trimmed, above, k)) return true;
        if (is_beyond(p.negative, trimmed, k)) break;
      }
    }
    return may_have_exponent(p) && scaled_is_live(p, trimmed, above);
  }

  static std::string trim(const std::string& digits) {
    const std::size_t first = digits.find_first_not_of('0');
    return first == std::string::npos ? "0" : digits.substr(first);
  }

  // prefix * 10^k lies beyond the bound that growing numbers run into.
  bool is_beyond(bool negative, const std::string& digits, std::int64_t k) const {
    const auto& bound = negative ? set_.minimum : set_.maximum;
    if (!bound) return false;
    const std::string value = (negative ? "-" : "") + digits + "e" + std::to_string(k);
    const auto order = compare(decimal_of(value), decimal_of(bound->value));
    return negative ? order < 0 : order > 0;
  }

  bool may_have_exponent(const Prefix& p) const {
    return set_.multiples.empty() && p.whole.size() == 1 && p.whole != "0";
  }

  // Some prefix * 10^e. Powers of ten that lie whole within the bounds are all alike, so only those
  // around each bound and the outermost ones are tried.
  bool scaled_is_live(const Prefix& p, const std::string& digits, const std::string& above) const {
    const auto size = static_cast<std::int64_t>(p.fraction.size());
    const std::int64_t top = static_cast<std::int64_t>(digits.size()) - 1 - size;
    std::vector<std::int64_t> tried{-kMostExponent, kMostExponent};
    for (const auto& bound : {set_.minimum, set_.maximum}) {
      if (!bound) continue;
      const Decimal value = decimal_of(bound->value);
      const std::int64_t power = value.exponent + static_cast<std::int64_t>(value.size()) - 1;
      for (std::int64_t e = power - top - 2; e <= power - top + 2; ++e) {
        if (e >= -kMostExponent && e <= kMostExponent) tried.push_back(e);
      }
    }
    return std::ranges::any_of(
        tried, [&](std::int64_t e) { return meets(p.negative, digits, above, e - size); });
  }

  bool exponent_is_live(const Prefix& p) const {
    const std::string digits = trim(std::string(p.whole) + std::string(p.fraction));
    const auto size = static_cast<std::int64_t>(p.fraction.size());
    const auto fits = [&](std::int64_t magnitude, bool negative) {
      const std::string value = (p.negative ? "-" : "") + digits + "e" +
                                std::to_string((negative ? -magnitude : magnitude) - size);
      return set_.contains(value);
    };
    std::int64_t begun = 0;
    std::from_chars(p.exponent.data(), p.exponent.data() + p.exponent.size(), begun);
    std::int64_t width = 1;
    for (std::size_t used = p.exponent.size(); used <= kMaxExponentDigits; ++used, width *= 10) {
      for (std::int64_t m = begun * width; m < (begun + 1) * width && m <= kMostExponent; ++m) {
        if (fits(m, p.exponent_negative)) return true;
        if (p.part == Part::e && fits(m, true)) return true;
      }
    }
    return false;
  }

  NumberSet set_;
  bool is_free_ = false;
  bool fits_ = false;  // the four below are the set's bounds and step
  int scale_ = 0;
  std::optional<Wide> low_;
  std::optional<Wide> high_;
  Wide step_ = 1;

  State start_ = 0;
  std::vector<std::string> texts_;  // by state
  std::vector<bool> accepting_;
  std::unordered_map<std::string, State> ids_;
  IntMap steps_;
};

bool is_multiple(const Decimal& value, const std::string& step) {
  Budget budget("number", {.max_steps = 1'000'000});
  return schema::is_multiple_of(value, decimal_of(step), budget) && !budget.is_spent();
}

}  // namespace

bool NumberSet::contains(const std::string& text) const {
  const Decimal value = decimal_of(text);
  if (minimum) {
    const auto order = compare(value, decimal_of(minimum->value));
    if (order < 0 || (order == 0 && minimum->exclusive)) return false;
  }
  if (maximum) {
    const auto order = compare(value, decimal_of(maximum->value));
    if (order > 0 || (order == 0 && maximum->exclusive)) return false;
  }
  return std::ranges::all_of(multiples, [&](const auto& m) { return is_multiple(value, m); }) &&
         std::ranges::none_of(no_multiples, [&](const auto& m) { return is_multiple(value, m); }) &&
         std::ranges::none_of(excluded,
                              [&](const auto& e) { return compare(value, decimal_of(e)) == 0; });
}

std::shared_ptr<Scanner> make_number_scanner(NumberSet set) {
  return std::make_shared<NumberScanner>(std::move(set));
}

}  // namespace tenon::grammar
