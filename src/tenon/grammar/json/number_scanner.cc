#include "tenon/grammar/json/number_scanner.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <limits>
#include <map>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <boost/multiprecision/cpp_int.hpp>

#include "tenon/base/budget.h"
#include "tenon/grammar/json/number_trie.h"
#include "tenon/grammar/machine/int_map.h"
#include "tenon/json/decimal.h"
#include "tenon/schema/numbers.h"

namespace tenon::grammar {
// Reads the numbers of a set, byte by byte, and refuses a prefix as soon as no number of the set
// begins with it. That is decided by arithmetic on the prefix: a prefix in decimals leads to
// intervals (p, p + 1 unit) at each further digit, and with an exponent to p * 10^e; the questions
// are whether such an interval meets the bounds and holds a multiple of the steps (count_decimals,
// count_scaled).
//
// There would be as many states as prefixes, so prefixes that are alike share a state. How a number
// compares with a bound is decided by the first digit in which they differ; after that only the
// remainder by the common multiple of the steps matters, and how many digits have been written
// (settle, remainder_key).
//
// Numbers that are excluded later (items that must differ) are no part of the set. They are tries
// of texts (number_trie.h), one for decimals and one for each digit string with exponents. A state
// is a base state with the part of these tries that the prefix can still become, and is dead if no
// more numbers can follow than are excluded (is_live). So excluding one more number makes only the
// states on the way to it anew.

namespace {

using json::compare;
using json::Decimal;
using json::decimal_of;

using Integer = boost::multiprecision::cpp_int;

constexpr std::size_t kMaxTextLength = 400;  // of one number
// The number of digits of numbers whose set does not need more. Without a limit a weak model under
// a mask would write digits without end. Doubles are written with at most so many digits (RFC 8259,
// section 6).
constexpr std::size_t kUsualWhole = 21;
constexpr std::size_t kUsualFraction = 17;
constexpr std::size_t kUsualZeros = 6;         // at the beginning of a fraction, in addition
constexpr std::size_t kUnboundedDigits = 190;  // of each part; together they fit into a text
constexpr std::size_t kMaxExponentDigits = 3;  // that is beyond doubles
constexpr std::int64_t kMostExponent = 999;
constexpr std::int64_t kMaxPlaces = 380;  // of a bound or a step
constexpr unsigned kMaxStepBits = 4096;   // of the common multiple of all steps
// The limit for all steps that numbers must not be multiples of, together: each prefix is divided
// by all of them.
constexpr std::size_t kMaxNoStepBits = 4096;
constexpr std::uint64_t kMostRemainders = 1'000'000;
constexpr std::uint64_t kManyValues = 100'000;
// A step that is not a multiple of any of `no_multiples` leaves gaps, but short ones.
constexpr std::size_t kMaxGap = 1000;

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

// Whether a number may end behind this part.
bool is_whole_number(Part part) {
  return part == Part::zero || part == Part::whole || part == Part::fraction ||
         part == Part::exponent;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// The part after `c`, by the grammar of JSON numbers and of the notations allowed here; nothing if
// `c` is refused.
std::optional<Part> next_part(const Prefix& p, char c, bool with_exponents) {
  // Only one digit other than zero before the point may have an exponent: 15e2 is written 1.5e3.
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

// ---- Numbers as integers in units of 10^-scale --------------------------------------------------

Integer power_of_ten(std::int64_t exponent) {
  return boost::multiprecision::pow(Integer(10), static_cast<unsigned>(exponent));
}

Integer digits_of(const Decimal& value) {
  std::string digits;
  for (std::size_t i = 0; i < value.size(); ++i) digits += value.digit(i);
  return digits.empty() ? Integer(0) : Integer(digits);
}

Integer floor_divided(const Integer& value, const Integer& by) {
  const Integer quotient = value / by;
  return quotient * by > value ? Integer(quotient - 1) : quotient;
}
Integer ceiling_divided(const Integer& value, const Integer& by) {
  return -floor_divided(-value, by);
}

// Rounded if `value` lies between two units.
Integer units(const Decimal& value, std::int64_t scale, bool round_up) {
  Integer digits = digits_of(value);
  if (value.negative) digits = -digits;
  const std::int64_t shift = value.exponent + scale;
  if (digits == 0 || shift >= 0)
    return digits == 0 ? digits : Integer(digits * power_of_ten(shift));
  const Integer unit = power_of_ten(-shift);
  return round_up ? ceiling_divided(digits, unit) : floor_divided(digits, unit);
}

// An end of an interval. It owns its text, so it must not be moved.
struct End {
  End(std::string of, bool is_open_end)
      : text(std::move(of)), value(decimal_of(text)), is_open(is_open_end) {}
  End(const End&) = delete;

  std::string text;
  Decimal value;
  bool is_open;
};

bool is_less(const Decimal& a, const Decimal& b) {
  return compare(a, b) < 0;
}

// Equal for equal sets, without the excluded numbers.
std::string describe(const NumberSet& set) {
  std::string text = set.integers_are_spelled ? "integers spelled;" : "numbers;";
  if (!set.is_bounded) text += "unbounded;";
  for (const auto* bound : {&set.minimum, &set.maximum}) {
    if (*bound) text += (*bound)->value + ((*bound)->exclusive ? "x" : "");
    text += ';';
  }
  for (const auto* list : {&set.multiples, &set.no_multiples}) {
    for (const std::string& value : *list) text += value + ',';
    text += ';';
  }
  if (set.values) {
    text += "values";
    for (const std::string& value : *set.values) text += ',' + value;
  }
  return text + ';';
}

// The sign of an exponent ('-' or none) and its digits so far.
struct ExponentSoFar {
  std::array<char, kMaxExponentDigits + 1> text{};
  std::size_t size = 0;
  auto operator<=>(const ExponentSoFar&) const = default;

  [[nodiscard]] bool is_negative() const { return size > 0 && text[0] == '-'; }
  [[nodiscard]] std::string_view digits() const {
    return std::string_view(text.data(), size).substr(is_negative() ? 1 : 0);
  }
  void read(char c) {
    if (is_digit(c) || c == '-') text[size++] = c;
  }
  [[nodiscard]] std::int64_t value() const {
    std::int64_t magnitude = 0;
    for (const char digit : digits()) magnitude = magnitude * 10 + (digit - '0');
    return is_negative() ? -magnitude : magnitude;
  }
  // Whether more digits can make it `exponent`, which may have leading zeros.
  [[nodiscard]] bool leads_to(std::int64_t exponent, bool may_have_sign) const {
    if (is_negative() ? exponent > 0 : exponent < 0 && !may_have_sign) return false;
    std::string spelled = std::to_string(exponent < 0 ? -exponent : exponent);
    for (; spelled.size() <= kMaxExponentDigits; spelled.insert(0, 1, '0')) {
      if (spelled.starts_with(digits())) return true;
    }
    return false;
  }
};

// A state is a state of the set itself, with the excluded numbers that may still come there. If no
// excluded number begins with the text so far, it is the state of the set.
class OneNumberScanner final : public NumberScanner {
 public:
  explicit OneNumberScanner(NumberSet set) : set_(std::move(set)) {
    const std::vector<std::string> excluded = std::exchange(set_.excluded, {});
    const regex::Fingerprint of_set = regex::fingerprint_of(describe(set_));
    description_ = std::to_string(of_set.high) + ' ' + std::to_string(of_set.low) + ' ';
    prepare();
    start_base_ = intern("", {});
    Roots whole;
    for (const std::string& number : excluded) whole = without(whole, number);
    less_.push_back(whole);
    less_ids_.emplace(whole, kWhole);
  }

  Less without(Less less, const std::string& number) override {
    const Roots roots = without(less_[less], number);
    const auto [place, is_new] = less_ids_.try_emplace(roots, static_cast<Less>(less_.size()));
    constexpr std::size_t kLessBytes = 2 * sizeof(Roots) + 48;
    if (is_new) {
      less_.push_back(roots);
      bytes_ += kLessBytes;
    }
    return place->second;
  }
  State start_of(Less less) override {
    if (start_base_ == kDead) return kDead;
    return intern(Place{.base = start_base_,
                        .decimals = less_[less].decimals,
                        .mantissas = less_[less].mantissas,
                        .exponent = {}});
  }
  State start() override { return start_of(kWhole); }

  State step(State state, std::uint8_t byte) override {
    if (!is_of_number(static_cast<char>(byte))) return kDead;
    const std::uint64_t memo = std::uint64_t{state} << 8U | byte;
    const State known = steps_.find(memo);
    if (known != IntMap::kNone) return known == kRefused ? kDead : known;
    const std::optional<Place> place = next(places_[state], static_cast<char>(byte));
    const State after = place ? intern(*place) : kDead;
    steps_.insert(memo, after == kDead ? kRefused : after);
    return after;
  }

  bool is_accepting(State state) const override {
    const Place& place = places_[state];
    if (!accepting_[place.base]) return false;
    if (parts_[place.base] != Part::exponent) return trie_.ends_of(place.decimals).empty();
    return !std::ranges::binary_search(trie_.ends_of(place.mantissas),
                                       static_cast<NumberTrie::End>(place.exponent.value()));
  }
  bool is_final(State) const override { return false; }
  std::optional<vocab::ByteClasses> classes(State) override { return std::nullopt; }
  Border border(State) const override { return Border::alphabet; }
  regex::ByteSet alphabet() const override {
    regex::ByteSet bytes = regex::ByteSet::range('0', '9');
    for (const char c : {'+', '-', '.', 'e', 'E'}) bytes.insert(static_cast<std::uint8_t>(c));
    return bytes;
  }
  // A set that excludes many numbers is rarely met again.
  Ways ways(State state, std::uint32_t /*longest*/, bool /*may_guess*/) override {
    constexpr std::uint64_t kMostOfKey = 64;
    const Place& place = places_[state];
    regex::Fingerprint key;
    if (trie_.count(place.decimals) + trie_.count(place.mantissas) <= kMostOfKey) {
      std::string described = description_ + keys_[place.base];
      for (const NumberTrie::Node node : {place.decimals, place.mantissas}) {
        if (!is_near(place)) break;
        const regex::Fingerprint& set = trie_.fingerprint(node);
        described += ' ' + std::to_string(set.high) + ' ' + std::to_string(set.low);
      }
      described.append(place.exponent.text.data(), place.exponent.size);
      key = regex::fingerprint_of(described);
    }
    const Way way{.key = key, .state = state, .instead = {}};
    return {.inside = way, .whole = way, .exact = key};
  }
  std::size_t memory_bytes() const override {
    return bytes_ + steps_.memory_bytes() + base_steps_.memory_bytes() + trie_.memory_bytes();
  }

 private:
  static constexpr State kRefused = 0xFFFFFFFE;
  static constexpr std::uint64_t kEndless = ~std::uint64_t{0};

  using Base = std::uint32_t;  // a state of the set itself

  // The excluded numbers, by their decimals ("12.5", "-300") and by their digits with an exponent
  // ("-3"), where the ends are the exponents. After "0." there are no such digits.
  struct Roots {
    NumberTrie::Node decimals = NumberTrie::kEmpty;
    NumberTrie::Node mantissas = NumberTrie::kEmpty;
    auto operator<=>(const Roots&) const = default;
  };
  // A prefix, and the rests of the excluded numbers that begin with it.
  struct Place {
    Base base = 0;
    NumberTrie::Node decimals = NumberTrie::kEmpty;
    NumberTrie::Node mantissas = NumberTrie::kEmpty;
    ExponentSoFar exponent;
    auto operator<=>(const Place&) const = default;
  };
  static bool is_near(const Place& place) {
    return place.decimals != NumberTrie::kEmpty || place.mantissas != NumberTrie::kEmpty;
  }
  static bool is_of_number(char c) {
    return is_digit(c) || c == '+' || c == '-' || c == '.' || c == 'e' || c == 'E';
  }

  // ---- Numbers that are left out ---------------------------------------------------------------

  // Adds a number to those that are left out, in both notations: 1250 is the decimals "1250", and
  // the digits "125" with the exponent 3 at their end. Zero has a sign in addition.
  [[nodiscard]] Roots without(Roots roots, const std::string& number) {
    if (is_empty_ || !contains(number)) return roots;
    const Decimal value = decimal_of(number);
    if (value.is_zero()) {
      for (const char* zero : {"0", "-0"}) roots.decimals = trie_.with(roots.decimals, zero, 0);
      return roots;
    }
    const std::string sign = value.negative ? "-" : "";
    std::string digits;
    for (std::size_t i = 0; i < value.size(); ++i) digits += value.digit(i);
    const std::int64_t power = power_of(value);
    if (set_.multiples.empty() && power >= -kMostExponent && power <= kMostExponent) {
      roots.mantissas =
          trie_.with(roots.mantissas, sign + digits, static_cast<NumberTrie::End>(power));
    }
    const auto most = static_cast<std::int64_t>(kMaxTextLength);
    if (power >= most || power <= -most) return roots;  // decimals are not written so long
    if (power < 0) digits.insert(0, static_cast<std::size_t>(-power), '0');
    const std::size_t whole = power < 0 ? 1 : static_cast<std::size_t>(power) + 1;
    if (digits.size() < whole) digits.resize(whole, '0');
    if (digits.size() > whole) digits.insert(whole, 1, '.');
    roots.decimals = trie_.with(roots.decimals, sign + digits, 0);
    return roots;
  }

  // The place after `c`; nothing if no number of the set begins so. It may be that all such numbers
  // are excluded.
  std::optional<Place> next(const Place& at, char c) {
    const Base base = step_of_base(at.base, c);
    if (base == kDead) return std::nullopt;
    Place to{.base = base};
    if (!is_near(at)) return to;
    const Part part = parts_[base];
    switch (part) {
      case Part::begin:
      case Part::zero:
        to.decimals = trie_.after(at.decimals, c);
        to.mantissas = trie_.after(at.mantissas, c);
        break;
      case Part::whole:
        // With two digits before the point no exponent can follow.
        to.decimals = trie_.after(at.decimals, c);
        if (parts_[at.base] == Part::begin) to.mantissas = trie_.after(at.mantissas, c);
        break;
      case Part::point:
        to.decimals = trie_.after_or_here(at.decimals, c);
        to.mantissas = at.mantissas;
        break;
      case Part::fraction:
        to.decimals = after_digit(at.decimals, c);
        to.mantissas = after_digit(at.mantissas, c);
        break;
      case Part::e:
      case Part::e_sign:
      case Part::exponent:
        to.exponent = at.exponent;
        to.exponent.read(c);
        to.mantissas = trie_.here(at.mantissas, [&](NumberTrie::End exponent) {
          return to.exponent.leads_to(exponent, part == Part::e);
        });
        // The exponent was only kept for the numbers that are left out.
        if (!is_near(to)) to.exponent = {};
        break;
    }
    return to;
  }
  // Zeros at the end of a fraction mean nothing.
  NumberTrie::Node after_digit(NumberTrie::Node set, char digit) {
    return digit == '0' ? trie_.after_or_here(set, digit) : trie_.after(set, digit);
  }

  // kDead if everything that can follow is excluded.
  State intern(const Place& place) {
    if (const auto known = ids_.find(place); known != ids_.end()) return known->second;
    if (is_near(place) && !is_live(place)) return kDead;
    const auto state = static_cast<State>(places_.size());
    places_.push_back(place);
    constexpr std::size_t kStateBytes = sizeof(Place) * 2 + 56;
    bytes_ += kStateBytes;
    ids_.emplace(place, state);
    return state;
  }

  // Whether more numbers of the set can follow than are excluded.
  bool is_live(const Place& place) {
    switch (parts_[place.base]) {
      case Part::begin:
        return std::ranges::any_of(std::string_view("0123456789-"), [&](char c) {
          const std::optional<Place> to = next(place, c);
          return to && (!is_near(*to) || is_live(*to));
        });
      case Part::zero:
      case Part::whole:
      case Part::point:
      case Part::fraction:
        return has_more(decimals_after_, place.base, trie_.count(place.decimals)) ||
               has_more(scaled_after_, place.base, trie_.count(place.mantissas));
      case Part::e:
      case Part::e_sign:
      case Part::exponent: {
        Prefix p = parse(texts_[place.base]);
        p.exponent = place.exponent.digits();
        p.exponent_negative = place.exponent.is_negative();
        return exponent_is_live(p, trie_.ends_of(place.mantissas));
      }
    }
    return false;
  }

  // The exact or the least number of numbers that can follow a state of the set.
  struct Following {
    std::uint64_t count = 0;
    bool is_all = false;
  };
  using FollowingByBase = std::unordered_map<Base, Following>;

  // Whether more than `count` can follow, in decimals or with an exponent.
  bool has_more(FollowingByBase& known, Base base, std::uint64_t count) {
    Following& following = known[base];
    if (following.count > count) return true;
    if (following.is_all) return false;
    // Counted up to a power of two, so that one more excluded number rarely counts anew.
    const std::uint64_t most = std::bit_ceil(count + 1);
    const Prefix p = parse(texts_[base]);
    following.count = &known == &decimals_after_ ? count_decimals(p, written_[base], most)
                                                 : count_scaled(p, written_[base], most);
    following.is_all = following.count < most;
    return following.count > count;
  }

  // ---- The set itself --------------------------------------------------------------------------

  Base step_of_base(Base base, char c) {
    const std::uint64_t memo = std::uint64_t{base} << 8U | static_cast<std::uint8_t>(c);
    const Base known = base_steps_.find(memo);
    if (known != IntMap::kNone) return known == kRefused ? kDead : known;
    const Base next = compute(base, c);
    base_steps_.insert(memo, next == kDead ? kRefused : next);
    return next;
  }

  // The number of digits written so far in the current part, which a prefix that stands for many
  // others does not show: those before the point, or those of the fraction and its leading zeros.
  struct Written {
    std::size_t digits = 0;
    std::size_t zeros = 0;
  };

  // Nothing: so many digits are not allowed.
  [[nodiscard]] std::optional<Written> written_after(Base base, Part part, char c) const {
    Written written = written_[base];
    switch (part) {
      case Part::zero:
      case Part::whole:
        if (++written.digits > most_whole_digits_) return std::nullopt;
        return written;
      case Part::point:
        return Written{};
      case Part::fraction:
        if (c == '0' && written.digits == 0 && written.zeros < most_zeros_ &&
            parse(texts_[base]).whole == "0") {
          ++written.zeros;
        } else if (++written.digits > most_places_) {
          return std::nullopt;
        }
        return written;
      default:
        return Written{};
    }
  }

  Base compute(Base base, char c) {
    const std::string text = texts_[base];
    const Prefix prefix = parse(text);
    const auto part = next_part(prefix, c, set_.multiples.empty());
    if (!part || text.size() + 1 > kMaxTextLength) return kDead;
    if (set_.integers_are_spelled && *part == Part::point) return kDead;
    const std::optional<Written> written = written_after(base, *part, c);
    return written ? intern(text + c, *written) : kDead;
  }

  // kDead if nothing can follow.
  Base intern(const std::string& text, Written written) {
    if (modulus_ != 0 && !set_.multiples.empty() && has_too_many_places(text)) return kDead;
    // The key says what matters of a prefix, and prefixes with equal keys are one state. `shown` is
    // the text that stands for all of them in later questions; where remainders matter it is a text
    // that was read, since its digits have the remainder.
    std::string key = representative(text);
    const std::string shown = modulus_ == 0 ? key : text;
    if (modulus_ != 0) key += remainder_key(text);
    key += ' ' + std::to_string(written.digits) + ' ' + std::to_string(written.zeros);
    if (const auto known = base_ids_.find(key); known != base_ids_.end()) return known->second;
    // Dead prefixes are never states, so every state can be completed.
    if (!is_live(shown, written)) return kDead;
    const auto base = static_cast<Base>(texts_.size());
    texts_.push_back(shown);
    written_.push_back(written);
    parts_.push_back(parse(shown).part);
    accepting_.push_back(is_whole_number(parts_.back()) && contains(shown));
    keys_.push_back(key);
    constexpr std::size_t kBaseBytes = 150;  // in addition to the texts
    bytes_ += kBaseBytes + shown.size() + 2 * key.size();
    base_ids_.emplace(std::move(key), base);
    return base;
  }

  // True for digits other than zero at places where multiples of the steps have none.
  [[nodiscard]] bool has_too_many_places(const std::string& text) const {
    const std::string_view fraction = parse(text).fraction;
    const std::size_t places = std::min(static_cast<std::size_t>(scale_), fraction.size());
    return fraction.find_first_not_of('0', places) != std::string_view::npos;
  }

  // What matters for the steps: the remainder of the prefix. How the prefix compares with the
  // bounds is kept separately.
  [[nodiscard]] std::string remainder_key(const std::string& text) const {
    const Prefix p = parse(text);
    auto places = static_cast<std::size_t>(scale_);
    if (may_have_exponent(p)) {
      // An exponent may make all digits count, except zeros at the end. The number is a multiple
      // only if its last other digit comes to stand at a place of the steps, and then the remainder
      // of these digits decides.
      places = p.fraction.find_last_not_of('0') + 1;
      return '#' + std::to_string(places) + "#e" + std::to_string(remainder(p, places));
    }
    // With digits other than zero at further places, it is no multiple.
    if (has_too_many_places(text)) return "#no";
    return '#' + std::to_string(std::min(p.fraction.size(), places + 1)) + '#' +
           std::to_string(remainder(p, places));
  }
  [[nodiscard]] std::uint64_t remainder(const Prefix& p, std::size_t places) const {
    std::uint64_t rest = 0;
    for (const std::string_view digits : {p.whole, p.fraction.substr(0, places)}) {
      for (const char digit : digits)
        rest = (rest * 10 + static_cast<unsigned>(digit - '0')) % modulus_;
    }
    return rest;
  }

  void prepare() {
    prepare_values();
    prepare_breakpoints();
    prepare_digits();
    for (const std::vector<std::string>* list : {&set_.multiples, &set_.no_multiples}) {
      for (const std::string& m : *list) scale_ = std::max(scale_, -decimal_of(m).exponent);
    }
    if (set_.values) return;
    step_ = 1;
    for (const std::string& m : set_.multiples) {
      step_ = boost::multiprecision::lcm(step_, units(decimal_of(m), scale_, false));
    }
    for (const std::string& m : set_.no_multiples) {
      no_steps_.push_back(units(decimal_of(m), scale_, false));
      // Every multiple of the step is one of these, too.
      if (!set_.multiples.empty() && step_ % no_steps_.back() == 0) is_empty_ = true;
    }
    step_power_ = static_cast<std::int64_t>(step_.str().size()) - 1 - scale_;
    prepare_modulus();
  }

  // Two prefixes with the same remainders by all steps are equivalent.
  void prepare_modulus() {
    const auto is_one = [](const std::string& m) { return m == "1"; };
    if (set_.no_multiples.empty() && std::ranges::all_of(set_.multiples, is_one)) return;
    Integer common = step_;
    for (const Integer& step : no_steps_) {
      if (common > kMostRemainders) break;
      common = boost::multiprecision::lcm(common, step);
    }
    if (common > 0 && common <= kMostRemainders) {
      modulus_ = static_cast<std::uint64_t>(common);
    } else {
      merges_ = false;
    }
  }

  // As many digits as any bound or step has, and some more, so that there is a number between two
  // bounds, and between a bound and the next multiple.
  void prepare_digits() {
    if (set_.values) {
      most_whole_digits_ = kMaxTextLength;
      return;
    }
    constexpr std::int64_t kMore = 2;
    most_whole_digits_ = set_.is_bounded ? kUsualWhole : kUnboundedDigits;
    most_places_ = set_.is_bounded ? kUsualFraction : kUnboundedDigits;
    most_zeros_ = kUsualZeros;
    std::int64_t whole = 0;
    std::int64_t places = 0;
    const auto look_at = [&](const Decimal& value) {
      if (value.is_zero()) return;
      whole = std::max(whole, power_of(value) + 1);
      places = std::max({places, -value.exponent, static_cast<std::int64_t>(value.size())});
    };
    for (const auto& bound : {set_.minimum, set_.maximum}) {
      if (bound) look_at(decimal_of(bound->value));
    }
    std::int64_t steps = 0;  // of a common multiple
    for (const auto* list : {&set_.multiples, &set_.no_multiples}) {
      for (const std::string& step : *list) {
        look_at(decimal_of(step));
        steps += std::max<std::int64_t>(power_of(decimal_of(step)) + 1, 0);
      }
    }
    // A longer text is not read, so longer numbers need not be looked for.
    whole = std::min(std::max(whole, steps), static_cast<std::int64_t>(kMaxTextLength) - kMore);
    if (whole >= static_cast<std::int64_t>(most_whole_digits_)) {
      most_whole_digits_ = static_cast<std::size_t>(whole + kMore);
    }
    most_places_ = std::max(most_places_, static_cast<std::size_t>(places + kMore));
  }

  // With a list of values nothing else matters.
  void prepare_values() {
    if (!set_.values) return;
    NumberSet rest = set_;
    rest.values.reset();
    std::erase_if(*set_.values, [&](const std::string& value) { return !rest.contains(value); });
    std::ranges::sort(*set_.values, [](const std::string& a, const std::string& b) {
      return is_less(decimal_of(a), decimal_of(b));
    });
    most_places_ = 0;
    for (const std::string& value : *set_.values) {
      const Decimal decimal = decimal_of(value);
      values_.push_back(decimal);
      most_places_ = std::max(most_places_, parse(value).fraction.size());
      if (decimal.is_zero()) continue;
      powers_.push_back(power_of(decimal));
      // In decimals, and with an exponent.
      const auto places = static_cast<std::size_t>(std::max<std::int64_t>(-decimal.exponent, 0));
      most_places_ = std::max({most_places_, places, decimal.size() - 1});
    }
    ++most_places_;  // "1.0" and "1.50" too
    std::ranges::sort(powers_);
    powers_.erase(std::unique(powers_.begin(), powers_.end()), powers_.end());
    is_empty_ = values_.empty();
    if (is_empty_) return;
    set_.minimum = NumberSet::Bound{set_.values->front()};
    set_.maximum = NumberSet::Bound{set_.values->back()};
  }

  // The power of ten of the first digit.
  static std::int64_t power_of(const Decimal& value) {
    return value.exponent + static_cast<std::int64_t>(value.size()) - 1;
  }

  [[nodiscard]] bool contains(const std::string& text) const {
    const Decimal value = decimal_of(text);
    if (set_.values) return std::ranges::binary_search(values_, value, is_less);
    return set_.holds_rules(text);
  }

  // ---- Prefixes that are alike -----------------------------------------------------------------
  // How a number compares with a bound is decided by the first digit in which they differ. So
  // digits after that one no longer matter, and of that digit only its place among the bounds'
  // digits matters. One prefix stands for all that are equivalent, and there are few.

  struct Breakpoint {
    bool negative, is_zero;
    std::string digits;  // without the point, from the first one of the whole part on
    std::size_t whole;   // how many are before the point
    std::string significant;
  };

  void prepare_breakpoints() {
    merges_ = !set_.values;
    if (!merges_) return;
    if (set_.minimum) add_breakpoint(set_.minimum->value);
    if (set_.maximum) add_breakpoint(set_.maximum->value);
  }

  void add_breakpoint(const std::string& text) {
    const Decimal value = decimal_of(text);
    std::string digits;
    for (std::size_t i = 0; i < value.size(); ++i) digits += value.digit(i);
    Breakpoint point{value.negative, value.is_zero(), digits, 1, digits};
    const std::int64_t power = value.is_zero() ? 0 : power_of(value);
    if (power < 0) {
      point.digits.insert(0, static_cast<std::size_t>(-power), '0');
    } else {
      point.whole = static_cast<std::size_t>(power) + 1;
      if (point.digits.size() < point.whole) point.digits.resize(point.whole, '0');
    }
    most_whole_ = std::max(most_whole_, point.whole);
    breakpoints_.push_back(std::move(point));
  }

  // The digits of the breakpoints that `p` may still equal.
  [[nodiscard]] std::vector<std::string_view> beside(const Prefix& p) const {
    const bool goes_on = p.part == Part::whole;
    std::vector<std::string_view> result;
    for (const Breakpoint& point : breakpoints_) {
      if (point.negative != p.negative && !point.is_zero) continue;
      const bool is_as_long =
          goes_on ? point.whole >= p.whole.size() : point.whole == p.whole.size();
      if (is_as_long) result.emplace_back(point.digits);
      if (may_have_exponent(p) && !point.is_zero) result.emplace_back(point.significant);
    }
    return result;
  }

  // One prefix for all that are alike. With the bound 250, "31", "37" and "49" are "30": they are
  // greater than 25, and how much greater does not matter.
  [[nodiscard]] std::string representative(const std::string& text) const {
    if (!merges_) return text;
    Prefix p = parse(text);
    // A fraction that integers cannot have is kept, because it is refused.
    const bool is_refused = modulus_ == 0 && !set_.multiples.empty() &&
                            p.fraction.find_first_not_of('0') != std::string_view::npos;
    if (p.whole.empty() || is_refused) return text;
    const std::string exponent(text.substr(std::min(text.find_first_of("eE"), text.size())));
    std::string digits = std::string(p.whole);
    // Longer than every bound: only that it is longer matters.
    if (p.part == Part::whole && digits.size() > most_whole_ + 1) {
      digits.resize(std::max<std::size_t>(most_whole_ + 1, 2));
      p.whole = digits;
    }
    const std::size_t whole = digits.size();
    digits += p.fraction;
    const std::vector<std::string_view> points = beside(p);
    const bool has_point = text.find('.') != std::string::npos;
    settle(digits, whole, points);
    std::string result = (p.negative ? "-" : "") + digits.substr(0, whole);
    if (has_point) result += '.';
    if (!p.fraction.empty()) result += digits.size() > whole ? digits.substr(whole) : "0";
    if (breakpoints_.empty() && modulus_ == 0 && p.part == Part::exponent) {
      return result + "e-" + std::string(p.exponent.size(), '1');
    }
    return result + exponent;
  }

  // Replaces the first digit that differs from all points by the least digit of its kind, and drops
  // the digits after it; those of the whole part become zeros.
  static void settle(std::string& digits, std::size_t whole, std::vector<std::string_view> points) {
    const auto digit = [](std::string_view of, std::size_t at) {
      return at < of.size() ? of[at] : '0';
    };
    std::size_t longest = whole;
    for (const std::string_view point : points) longest = std::max(longest, point.size());
    for (std::size_t at = 0; at < digits.size(); ++at) {
      const char here = digits[at];
      char least = at == 0 && here != '0' ? '1' : '0';
      bool is_settled = true;
      for (const std::string_view point : points) {
        const char other = digit(point, at);
        if (other == here) is_settled = false;
        if (other < here) least = std::max(least, static_cast<char>(other + 1));
      }
      if (is_settled) {
        digits[at] = least;
        digits.resize(std::max(at + 1, whole), '0');
        std::fill(digits.begin() + static_cast<std::ptrdiff_t>(at) + 1, digits.end(), '0');
        return;
      }
      std::erase_if(points, [&](std::string_view point) { return digit(point, at) != here; });
    }
    // It equals a point so far: zeros after the last digit of all points count as one zero.
    if (digits.size() > longest + 1) digits.resize(longest + 1);
  }

  // ---- Whether a prefix can lead into the set --------------------------------------------------

  // The number of numbers of the set between the two, at most `most`.
  [[nodiscard]] std::uint64_t count_between(const End& from, const End& to,
                                            std::uint64_t most) const {
    const Decimal* low = &from.value;
    const Decimal* high = &to.value;
    const std::string* low_text = &from.text;
    bool low_open = from.is_open;
    bool high_open = to.is_open;
    // Here and in `other`, because low and high may point to them.
    Decimal bound;
    Decimal other;
    if (set_.minimum) {
      bound = decimal_of(set_.minimum->value);
      const auto order = compare(bound, *low);
      if (order > 0) {
        low = &bound;
        low_text = &set_.minimum->value;
        low_open = set_.minimum->exclusive;
      } else if (order == 0) {
        low_open = low_open || set_.minimum->exclusive;
      }
    }
    if (set_.maximum) {
      other = decimal_of(set_.maximum->value);
      const auto order = compare(other, *high);
      if (order < 0) {
        high = &other;
        high_open = set_.maximum->exclusive;
      } else if (order == 0) {
        high_open = high_open || set_.maximum->exclusive;
      }
    }
    const auto order = compare(*low, *high);
    if (order > 0 || (order == 0 && (low_open || high_open))) return 0;
    if (order == 0) return contains(*low_text) ? 1 : 0;
    if (set_.values) return count_values(*low, low_open, *high, high_open);
    if (set_.multiples.empty()) return kEndless;
    return count_multiples(*low, low_open, *high, high_open, most);
  }

  [[nodiscard]] std::uint64_t count_values(const Decimal& low, bool low_open, const Decimal& high,
                                           bool high_open) const {
    const auto first = low_open ? std::ranges::upper_bound(values_, low, is_less)
                                : std::ranges::lower_bound(values_, low, is_less);
    const auto last = high_open ? std::ranges::lower_bound(values_, high, is_less)
                                : std::ranges::upper_bound(values_, high, is_less);
    return first < last ? static_cast<std::uint64_t>(last - first) : 0;
  }

  [[nodiscard]] std::uint64_t count_multiples(const Decimal& low, bool low_open,
                                              const Decimal& high, bool high_open,
                                              std::uint64_t most) const {
    // The first and the last multiple within the ends. An end between two units is rounded inwards,
    // so it is no multiple and need not be moved.
    Integer from = ceiling_divided(units(low, scale_, true), step_) * step_;
    if (low_open && from == units(low, scale_, false)) from += step_;
    Integer to = units(high, scale_, false);
    if (high_open && to == units(high, scale_, true)) --to;
    if (from > to) return 0;
    if (no_steps_.empty()) {
      const Integer count = (to - from) / step_ + 1;
      return count < most ? count.convert_to<std::uint64_t>() : most;
    }
    std::uint64_t count = 0;
    for (std::size_t gap = 0; count < most && from <= to; from += step_) {
      const bool is_no_multiple =
          std::ranges::none_of(no_steps_, [&](const Integer& n) { return from % n == 0; });
      // After so long a gap the search ends with the answer that there are enough.
      if (!is_no_multiple && ++gap > kMaxGap) return most;
      if (!is_no_multiple) continue;
      ++count;
      gap = 0;
    }
    return count;
  }

  // The same for [from, to), or (-to, -from] if negative, both in units of 10^exponent.
  [[nodiscard]] std::uint64_t count_between(bool negative, const std::string& from,
                                            const std::string& to, std::int64_t exponent,
                                            std::uint64_t most) const {
    const std::string suffix = "e" + std::to_string(exponent);
    return negative ? count_between({"-" + to + suffix, true}, {"-" + from + suffix, false}, most)
                    : count_between({from + suffix, false}, {to + suffix, true}, most);
  }

  // 1 if the number with these digits is in the set, else 0.
  [[nodiscard]] std::uint64_t count_one(bool negative, const std::string& digits,
                                        std::int64_t exponent) const {
    return contains((negative ? "-" : "") + digits + "e" + std::to_string(exponent)) ? 1 : 0;
  }

  [[nodiscard]] bool is_live(const std::string& text, const Written& written) const {
    if (is_empty_) return false;
    const Prefix p = parse(text);
    switch (p.part) {
      case Part::begin:
        return begin_is_live(p.negative);
      case Part::zero:
      case Part::point:
      case Part::fraction:
      case Part::whole:
        return decimals_are_live(p, written);
      case Part::e:
      case Part::e_sign:
      case Part::exponent:
        return exponent_is_live(p, {});
    }
    return false;
  }

  [[nodiscard]] bool begin_is_live(bool negative) const {
    const std::string sign = negative ? "-" : "";
    for (char c = '0'; c <= '9'; ++c) {
      if (decimals_are_live(parse(sign + c), {.digits = 1})) return true;
    }
    return !negative && begin_is_live(true);
  }

  // `digits` + 1 in its last place.
  static std::string successor(std::string digits) {
    std::size_t i = digits.size();
    while (i > 0 && digits[i - 1] == '9') digits[--i] = '0';
    if (i == 0) return "1" + digits;
    ++digits[i - 1];
    return digits;
  }

  [[nodiscard]] bool decimals_are_live(const Prefix& p, const Written& written) const {
    return is_followed_by_a_step(p, written) || count_decimals(p, written, 1) > 0 ||
           count_scaled(p, written, 1) > 0;
  }

  // True if so many digits may follow that there is a multiple of the steps among the numbers that
  // they make, all of which are within the bounds. False: it may be so all the same. A mask looks
  // at a thousand prefixes, and this needs no division: the masks of `multipleOf: 131071` took 8 to
  // 9 ms and take 3 to 4 ms (Llama-3 vocabulary, CPU time, 2 busy cores, 2026-11-29).
  [[nodiscard]] bool is_followed_by_a_step(const Prefix& p, const Written& written) const {
    if (p.part != Part::whole || set_.values || set_.multiples.empty() || !no_steps_.empty()) {
      return false;
    }
    const auto& far = p.negative ? set_.minimum : set_.maximum;
    if (far || most_whole_digits_ <= written.digits) return false;
    const auto more = static_cast<std::int64_t>(most_whole_digits_ - written.digits);
    if (more <= step_power_) return false;
    const auto& near = p.negative ? set_.maximum : set_.minimum;
    if (!near) return true;
    const Decimal value = decimal_of(near->value);
    const bool is_on_this_side = !value.is_zero() && value.negative == p.negative;
    return !is_on_this_side ||
           power_of(value) < static_cast<std::int64_t>(p.whole.size()) - 1 + more;
  }

  // The number of fractions after a prefix that may have only a few more digits, or none.
  [[nodiscard]] std::uint64_t most_fractions(const Prefix& p, const Written& written) const {
    if (p.part != Part::fraction) return kEndless;
    constexpr std::size_t kMany = 18;
    const std::size_t more = most_places_ - std::min(written.digits, most_places_);
    if (more > kMany) return kEndless;
    std::uint64_t count = 1;
    for (std::size_t i = 0; i < more; ++i) count *= 10;
    return count;
  }

  // The number of numbers of the set that begin with `p` and have no exponent, at most `most`.
  [[nodiscard]] std::uint64_t count_decimals(const Prefix& p, const Written& written,
                                             std::uint64_t most) const {
    // A leading zero is never written: "0123" would stand for its value below.
    const std::string digits = trim(std::string(p.whole) + std::string(p.fraction));
    const std::string above = successor(digits);
    const auto exponent = -static_cast<std::int64_t>(p.fraction.size());
    const std::uint64_t fractions = most_fractions(p, written);
    if (fractions == 1) return count_one(p.negative, digits, exponent);
    // The prefix as it stands, with a point and more places; then with one and more further digits
    // before the point.
    std::uint64_t count =
        std::min(fractions, count_between(p.negative, digits, above, exponent, most));
    // Tries the largest number of further digits first, because large steps are met there.
    const std::int64_t least = least_digits_after(above);
    for (std::int64_t k = most_digits_after(p, written); k >= least && count < most; --k) {
      count += std::min(count_between(p.negative, digits, above, k, most), most);
    }
    return std::min(count, most);
  }

  // The number of digits that can follow before the number passes the bound towards which it grows.
  [[nodiscard]] std::int64_t most_digits_after(const Prefix& p, const Written& written) const {
    if (p.part != Part::whole) return 0;
    const auto size = static_cast<std::int64_t>(p.whole.size());
    const auto most =
        static_cast<std::int64_t>(most_whole_digits_) - static_cast<std::int64_t>(written.digits);
    const auto& bound = p.negative ? set_.minimum : set_.maximum;
    if (!bound) return most;
    const Decimal value = decimal_of(bound->value);
    if (value.is_zero() || value.negative != p.negative) return 0;
    return std::min(most, power_of(value) + 1 - size);
  }

  // With how many digits behind it a number below `above`, which begins with digits other than
  // zero, can be a multiple: with fewer it is less than the step.
  [[nodiscard]] std::int64_t least_digits_after(const std::string& above) const {
    return std::max<std::int64_t>(1, step_power_ + 1 - static_cast<std::int64_t>(above.size()));
  }

  static std::string trim(const std::string& digits) {
    const std::size_t first = digits.find_first_not_of('0');
    return first == std::string::npos ? "0" : digits.substr(first);
  }

  [[nodiscard]] bool may_have_exponent(const Prefix& p) const {
    return set_.multiples.empty() && p.whole.size() == 1 && p.whole != "0";
  }

  // The same for numbers with an exponent, p * 10^e. Powers of ten that lie completely within the
  // bounds are equivalent, so only those around each bound and the outermost ones are tried.
  [[nodiscard]] std::uint64_t count_scaled(const Prefix& p, const Written& written,
                                           std::uint64_t most) const {
    if (!may_have_exponent(p)) return 0;
    const std::string digits = trim(std::string(p.whole) + std::string(p.fraction));
    const std::string above = successor(digits);
    std::vector<std::int64_t> tried = powers_;
    if (!set_.values) {
      tried = {-kMostExponent, kMostExponent};
      for (const auto& bound : {set_.minimum, set_.maximum}) {
        if (!bound) continue;
        const std::int64_t power = power_of(decimal_of(bound->value));
        for (std::int64_t e = power - 2; e <= power + 2; ++e) tried.push_back(e);
      }
      std::ranges::sort(tried);
      tried.erase(std::unique(tried.begin(), tried.end()), tried.end());
    }
    const auto size = static_cast<std::int64_t>(p.fraction.size());
    const std::uint64_t fractions = most_fractions(p, written);
    std::uint64_t count = 0;
    for (const std::int64_t e : tried) {
      if (count >= most || e < -kMostExponent || e > kMostExponent) continue;
      count += fractions == 1
                   ? count_one(p.negative, digits, e - size)
                   : std::min({fractions, most,
                               count_between(p.negative, digits, above, e - size, most)});
    }
    return std::min(count, most);
  }

  // Whether an exponent that is not in `but` leads into the set.
  [[nodiscard]] bool exponent_is_live(const Prefix& p, std::span<const NumberTrie::End> but) const {
    const std::string digits = trim(std::string(p.whole) + std::string(p.fraction));
    const auto size = static_cast<std::int64_t>(p.fraction.size());
    const auto fits = [&](std::int64_t magnitude, bool negative) {
      const std::int64_t power = negative ? -magnitude : magnitude;
      if (set_.values && !std::ranges::binary_search(powers_, power)) return false;
      if (std::ranges::binary_search(but, static_cast<NumberTrie::End>(power))) return false;
      return contains((p.negative ? "-" : "") + digits + "e" + std::to_string(power - size));
    };
    std::int64_t begun = 0;
    std::from_chars(p.exponent.data(), p.exponent.data() + p.exponent.size(), begun);
    std::int64_t width = 1;
    // Behind the exponent "1" come 1, then 10 to 19, then 100 to 199.
    for (std::size_t used = p.exponent.size(); used <= kMaxExponentDigits; ++used, width *= 10) {
      for (std::int64_t m = begun * width; m < (begun + 1) * width && m <= kMostExponent; ++m) {
        if (fits(m, p.exponent_negative)) return true;
        if (p.part == Part::e && fits(m, true)) return true;
      }
    }
    return false;
  }

  std::string description_;
  NumberSet set_;
  bool is_empty_ = false;
  std::vector<Decimal> values_;       // of set_.values, ascending
  std::vector<std::int64_t> powers_;  // of their first digits, ascending
  std::size_t most_whole_digits_ = kMaxTextLength;
  std::size_t most_places_ = kMaxTextLength;  // after the point, in addition
  std::size_t most_zeros_ = 0;                // at the beginning
  std::int64_t scale_ = 0;
  std::int64_t step_power_ = 0;  // the greatest power of ten that is no more than step_
  Integer step_;  // the common multiple of all steps, in units; of the forbidden steps:
  std::vector<Integer> no_steps_;
  std::uint64_t modulus_ = 0;  // for the remainders that distinguish prefixes; 0: none
  bool merges_ = false;
  std::vector<Breakpoint> breakpoints_;
  std::size_t most_whole_ = 0;

  // By base.
  Base start_base_ = 0;
  std::vector<std::string> texts_;  // one for each group of equivalent prefixes
  std::vector<Written> written_;
  std::vector<Part> parts_;
  std::vector<std::string> keys_;  // what the prefixes of a group have in common
  std::vector<bool> accepting_;
  std::unordered_map<std::string, Base> base_ids_;
  IntMap base_steps_;
  FollowingByBase decimals_after_;
  FollowingByBase scaled_after_;

  NumberTrie trie_;
  std::vector<Roots> less_;
  std::map<Roots, Less> less_ids_;
  std::vector<Place> places_;  // by state
  std::map<Place, State> ids_;
  IntMap steps_;
  std::size_t bytes_ = 0;  // of the states and less_
};

bool is_multiple(const Decimal& value, const std::string& step) {
  Budget budget("number", {.max_steps = 1'000'000});
  return schema::is_multiple_of(value, decimal_of(step), budget) && !budget.is_spent();
}

bool has_too_many_places(const Decimal& value) {
  if (value.is_zero()) return false;
  const std::int64_t whole = value.exponent + static_cast<std::int64_t>(value.size());
  return std::max<std::int64_t>(whole, 1) - std::min<std::int64_t>(value.exponent, 0) > kMaxPlaces;
}

}  // namespace

bool NumberSet::contains(const std::string& text) const {
  const Decimal value = decimal_of(text);
  const auto is_equal = [&](const std::string& e) { return compare(value, decimal_of(e)) == 0; };
  return holds_rules(text) && std::ranges::none_of(excluded, is_equal) &&
         (!values || std::ranges::any_of(*values, is_equal));
}

bool NumberSet::holds_rules(const std::string& text) const {
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
         std::ranges::none_of(no_multiples, [&](const auto& m) { return is_multiple(value, m); });
}

Status check_places(std::string_view number) {
  if (!has_too_many_places(decimal_of(number))) return {};
  return Unexpected(Error{Errc::limit_exceeded, "has more than " + std::to_string(kMaxPlaces) +
                                                    " digits, which no number that is written "
                                                    "here has"});
}

Status check_steps(const NumberSet& set) {
  std::int64_t scale = 0;
  for (const std::string& m : set.multiples) scale = std::max(scale, -decimal_of(m).exponent);
  Integer step = 1;
  for (const std::string& m : set.multiples) {
    step = boost::multiprecision::lcm(step, units(decimal_of(m), scale, false));
    if (step != 0 && boost::multiprecision::msb(step) > kMaxStepBits) {
      return Unexpected(Error{Errc::limit_exceeded,
                              "the common multiple of all multipleOf that apply "
                              "together has more than " +
                                  std::to_string(kMaxStepBits) + " bits"});
    }
  }
  std::size_t bits = 0;
  for (const std::string& m : set.no_multiples) {
    const Integer digits = digits_of(decimal_of(m));
    bits += digits == 0 ? 1 : boost::multiprecision::msb(digits) + 1;
    if (bits > kMaxNoStepBits) {
      return Unexpected(Error{Errc::limit_exceeded,
                              "the multipleOf that must not apply together have more than " +
                                  std::to_string(kMaxNoStepBits) + " bits"});
    }
  }
  return {};
}

bool is_implied_step(const std::string& step, const std::string& of) {
  return step == of || is_multiple(decimal_of(of), step);
}

void drop_implied_steps(NumberSet& set) {
  // Too many digits are refused later; to compare each with each would take hours before that.
  if (!check_steps(set)) return;
  std::vector<std::string> kept;
  for (std::string& step : set.no_multiples) {
    const auto follows_from = [&](const std::string& other) {
      return is_implied_step(other, step);
    };
    if (std::ranges::any_of(kept, follows_from)) continue;
    std::erase_if(kept, [&](const std::string& other) { return is_implied_step(step, other); });
    kept.push_back(std::move(step));
  }
  set.no_multiples = std::move(kept);
}

// The exact count without no_multiples, and no less with them. Nothing: there are endlessly many,
// or too many to count.
std::optional<std::uint64_t> most_values(const NumberSet& set) {
  if (set.values) return set.values->size();
  if (!set.minimum || !set.maximum) return std::nullopt;
  const Decimal low = decimal_of(set.minimum->value);
  const Decimal high = decimal_of(set.maximum->value);
  if (compare(low, high) == 0) return 1;
  if (set.multiples.empty()) return std::nullopt;
  std::int64_t scale = 0;
  for (const std::string& m : set.multiples) scale = std::max(scale, -decimal_of(m).exponent);
  Integer step = 1;
  for (const std::string& m : set.multiples) {
    step = boost::multiprecision::lcm(step, units(decimal_of(m), scale, false));
  }
  const Integer count = floor_divided(units(high, scale, false), step) -
                        ceiling_divided(units(low, scale, true), step) + 1;
  if (count > kManyValues) return std::nullopt;
  std::vector<Decimal> apart;
  for (const std::string& value : set.excluded) {
    if (set.holds_rules(value)) apart.push_back(decimal_of(value));
  }
  std::ranges::sort(apart, is_less);
  const auto is_same = [](const Decimal& a, const Decimal& b) { return compare(a, b) == 0; };
  const auto excluded =
      static_cast<std::uint64_t>(std::unique(apart.begin(), apart.end(), is_same) - apart.begin());
  const auto most = count < 0 ? 0 : count.convert_to<std::uint64_t>();
  return most > excluded ? most - excluded : 0;
}

// Multiples from one end of the set on, or from zero in both directions; for sets without steps,
// finer and finer ones.
SomeNumbers some_numbers(const NumberSet& set, std::size_t most) {
  constexpr std::size_t kMaxTried = 20'000;
  constexpr std::int64_t kFinest = 6;  // more places than any bound has
  SomeNumbers found;
  const auto add = [&](std::string number) {
    if (found.numbers.size() < most) {
      found.numbers.push_back(std::move(number));
    } else {
      found.is_all = false;
    }
    return found.is_all;
  };
  found.is_all = true;
  if (set.values) {
    for (const std::string& value : *set.values) {
      ++found.tried;
      if (set.contains(value) && !add(value)) break;
    }
    return found;
  }
  std::int64_t scale = 0;
  for (const std::string& m : set.multiples) scale = std::max(scale, -decimal_of(m).exponent);
  Integer step = 1;
  for (const std::string& m : set.multiples) {
    step = boost::multiprecision::lcm(step, units(decimal_of(m), scale, false));
  }
  const bool is_stepped = !set.multiples.empty();
  if (!is_stepped) {
    for (const auto& bound : {set.minimum, set.maximum}) {
      if (bound) scale = std::max(scale, -decimal_of(bound->value).exponent);
    }
    // With one place more than they have, most numbers are no multiples.
    for (const std::string& m : set.no_multiples) {
      scale = std::max(scale, 1 - decimal_of(m).exponent);
    }
  }
  std::size_t all_tried = 0;
  for (const std::int64_t finest = scale + kFinest; scale <= finest; ++scale) {
    found = {.is_all = true};
    std::optional<Integer> low;
    std::optional<Integer> high;
    if (set.minimum) {
      low = ceiling_divided(units(decimal_of(set.minimum->value), scale, true), step);
    }
    if (set.maximum) {
      high = floor_divided(units(decimal_of(set.maximum->value), scale, false), step);
    }
    const bool is_down = !low && high;
    const bool is_both = !low && !high;
    Integer at = low ? *low : high ? *high : Integer(0);
    std::size_t tried = 0;
    for (; tried < kMaxTried && found.is_all; ++tried, ++all_tried) {
      if ((low && at < *low) || (high && at > *high)) break;
      std::string number = Integer(at * step).str() + "e-" + std::to_string(scale);
      if (set.contains(number)) add(std::move(number));
      if (is_both) {
        at = at > 0 ? Integer(-at) : Integer(1 - at);
      } else {
        at += is_down ? -1 : 1;
      }
    }
    if (tried == kMaxTried) found.is_all = false;
    found.tried = all_tried;
    if (is_stepped || found.numbers.size() >= most) return found;
  }
  found.is_all = set.minimum && set.maximum &&
                 compare(decimal_of(set.minimum->value), decimal_of(set.maximum->value)) == 0;
  return found;
}

std::shared_ptr<NumberScanner> make_number_scanner(NumberSet set) {
  return std::make_shared<OneNumberScanner>(std::move(set));
}

}  // namespace tenon::grammar
