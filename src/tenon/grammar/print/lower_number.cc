// The texts of a set of numbers as an automaton over characters. While a number is read, only two
// things matter: how it compares with each bound and excluded value so far, and its remainder by
// each multiple. Both are finite, so they are the states.
//
// The comparison is kept twice: for the digits as written, and for the mantissa m.mmm, which
// decides if an exponent follows. A state is read digit by digit from the first state (State's
// fields say what is known), and equal states are found in a map. Parts of a state that no longer
// matter are set to zero, so that equal states are equal. After "e" the exponents that lead into
// the set are a range, so only its ends are kept.
//
// The constants have limits on digits and number; beyond them the caller gets limit_exceeded and
// leaves the bound out.
#include <algorithm>
#include <compare>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/grammar/print/lower_automaton.h"
#include "tenon/json/decimal.h"

namespace tenon::grammar {

namespace {

using json::Decimal;
using json::decimal_of;
using regex::CodePointSet;

constexpr std::size_t kMaxDigits = 60;        // of a bound
constexpr std::size_t kMaxConstants = 16;     // bounds and excluded values
constexpr std::uint32_t kMaxModulus = 5'000;  // of all multiples together
constexpr int kMaxExponent = 999;             // the same as in make_number_scanner

Error too_many(const char* what) {
  return {Errc::limit_exceeded, std::string("needs an automaton with too many ") + what};
}

// A bound or an excluded value, as the digits before and after the point, and as m.mmm *
// 10^exponent.
struct Constant {
  enum class Role : std::uint8_t { minimum, maximum, excluded };
  Role role;
  bool is_exclusive;
  bool negative;
  bool is_zero;
  std::string whole;     // without leading zeros; "0" if there are no digits
  std::string fraction;  // without trailing zeros
  std::string digits;    // of m
  std::int64_t exponent;
};

// -12.50 has the whole "12", the fraction "5", the digits "125" and the exponent 1 (1.25 * 10^1).
// 0.05 has "0", "05", "5" and -2. Nothing: it has too many digits.
std::optional<Constant> constant_of(Constant::Role role, const std::string& text,
                                    bool is_exclusive) {
  const Decimal value = decimal_of(text);
  if (value.size() > kMaxDigits || value.exponent < -static_cast<std::int64_t>(kMaxDigits) ||
      value.exponent > static_cast<std::int64_t>(kMaxDigits)) {
    return std::nullopt;
  }
  Constant constant{role, is_exclusive, value.negative, value.is_zero(), "", "", "", 0};
  for (std::size_t i = 0; i < value.size(); ++i) constant.digits += value.digit(i);
  std::string all = constant.digits;
  // Digits before the point.
  std::int64_t point = static_cast<std::int64_t>(all.size()) + value.exponent;
  if (constant.is_zero) point = 0;
  constant.exponent = point - 1;
  if (point < 0) all.insert(0, static_cast<std::size_t>(-point), '0');
  point = std::max<std::int64_t>(point, 0);
  const auto whole = static_cast<std::size_t>(point);
  if (all.size() < whole) all.append(whole - all.size(), '0');
  constant.whole = whole == 0 ? "0" : all.substr(0, whole);
  constant.fraction = all.substr(whole);
  return constant;
}

// A test for multiples: units of 10^-scale, modulo `modulus`.
struct Multiple {
  bool must_be;
  std::uint32_t modulus;
  std::uint32_t scale;
};

// 0.25 is 25 units of 10^-2, and 30 is 30 units of 10^0. Nothing: the modulus would give too many
// states.
std::optional<Multiple> multiple_of(const std::string& text, bool must_be) {
  const Decimal value = decimal_of(text);
  if (value.size() > 6 || value.exponent > 6 || value.exponent < -18) return std::nullopt;
  std::uint64_t modulus = 0;
  for (std::size_t i = 0; i < value.size(); ++i) {
    modulus = modulus * 10 + static_cast<std::uint64_t>(value.digit(i) - '0');
  }
  for (std::int64_t i = 0; i < value.exponent; ++i) modulus *= 10;
  if (modulus > kMaxModulus) return std::nullopt;
  return Multiple{must_be, static_cast<std::uint32_t>(modulus),
                  value.exponent < 0 ? static_cast<std::uint32_t>(-value.exponent) : 0};
}

enum class PartOfNumber : std::uint8_t {
  begin,
  minus,
  zero,
  whole,
  point,
  fraction,
  e,
  e_sign,
  exponent,
};

enum class Order : std::uint8_t { less, equal, greater };

// Everything that matters of a number read so far. Fields that no longer matter are zero, so that
// equivalent states are equal.
struct State {
  PartOfNumber part = PartOfNumber::begin;
  bool negative = false;
  bool nonzero = false;
  std::uint32_t place = 0;      // digits before the point, or after it, as far as they matter
  std::vector<Order> order;     // how the digits so far compare with those of each constant
  std::vector<Order> mantissa;  // the same for m.mmm
  // For each multiple; kNeverANumber: it cannot become one any more.
  std::vector<std::uint32_t> rest;
  bool is_single = false;  // one digit other than 0 before the point, so an exponent may follow
  // After "e": the exponents that lead into the set, and what has been read of the exponent.
  int least = 0;
  int most = 0;
  bool exponent_negative = false;
  std::uint32_t exponent_digits = 0;
  int exponent = 0;
  bool is_any_exponent = false;

  auto operator<=>(const State&) const = default;
};

constexpr std::uint32_t kNeverANumber = 0xFFFFFFFF;

Order compared(char a, char b) {
  return a < b ? Order::less : a > b ? Order::greater : Order::equal;
}

class NumberReader {
 public:
  static Expected<NumberReader> make(const NumberSet& set) {
    NumberReader reader;
    reader.integers_are_spelled_ = set.integers_are_spelled;
    // Remainders and excluded values would have to be followed through an exponent, so such sets
    // have no text with one: the same numbers can be written without.
    reader.with_exponents_ =
        set.multiples.empty() && set.no_multiples.empty() && set.excluded.empty();
    const auto add = [&](Constant::Role role, const std::string& text, bool is_exclusive) {
      auto constant = constant_of(role, text, is_exclusive);
      if (constant) reader.constants_.push_back(*std::move(constant));
      return constant.has_value();
    };
    bool fits = set.excluded.size() <= kMaxConstants;
    if (set.minimum) {
      fits &= add(Constant::Role::minimum, set.minimum->value, set.minimum->exclusive);
    }
    if (set.maximum) {
      fits &= add(Constant::Role::maximum, set.maximum->value, set.maximum->exclusive);
    }
    for (const std::string& value : set.excluded) {
      if (fits) fits &= add(Constant::Role::excluded, value, false);
    }
    if (!fits) return Unexpected(too_many("digits"));
    // A state has a remainder for each multiple, so there may be as many states as the product of
    // all.
    std::uint64_t product = 1;
    for (const bool must_be : {true, false}) {
      for (const std::string& text : must_be ? set.multiples : set.no_multiples) {
        const auto multiple = multiple_of(text, must_be);
        if (!multiple || (product *= multiple->modulus) > kMaxModulus) {
          return Unexpected(too_many("remainders"));
        }
        reader.multiples_.push_back(*multiple);
      }
    }
    for (const Constant& constant : reader.constants_) {
      reader.most_whole_ = std::max(reader.most_whole_, constant.whole.size());
      reader.most_fraction_ =
          std::max({reader.most_fraction_, constant.fraction.size(), constant.digits.size()});
    }
    for (const Multiple& multiple : reader.multiples_) {
      reader.most_fraction_ = std::max<std::size_t>(reader.most_fraction_, multiple.scale);
    }
    return reader;
  }

  [[nodiscard]] State start() const {
    State state;
    state.order.assign(constants_.size(), Order::equal);
    state.rest.assign(multiples_.size(), 0);
    return state;
  }

  // The state after one more character; nothing: no number goes on so. It may be a state from which
  // the set cannot be reached, which minimize() removes.
  [[nodiscard]] std::optional<State> step(const State& at, char c) const {
    const bool is_digit = c >= '0' && c <= '9';
    State next = at;
    switch (at.part) {
      case PartOfNumber::begin:
        if (c == '-') {
          next.part = PartOfNumber::minus;
          next.negative = true;
          return next;
        }
        [[fallthrough]];
      case PartOfNumber::minus:
        if (!is_digit) return std::nullopt;
        next.part = c == '0' ? PartOfNumber::zero : PartOfNumber::whole;
        // Only m.mmm with one digit other than 0 before the point is read with an exponent: 1.5e3,
        // and not 15e2.
        next.is_single = with_exponents_ && c != '0';
        if (next.is_single) {
          for (const Constant& constant : constants_) {
            next.mantissa.push_back(compared(c, constant.is_zero ? '0' : constant.digits[0]));
          }
        }
        read_whole(next, c);
        return next;
      case PartOfNumber::whole:
        if (is_digit) {
          next.is_single = false;
          next.mantissa.clear();
          read_whole(next, c);
          return next;
        }
        [[fallthrough]];
      case PartOfNumber::zero:
        if (c == '.' && !integers_are_spelled_) {
          end_whole(next);
          next.part = PartOfNumber::point;
          next.place = 0;
          return next;
        }
        break;
      case PartOfNumber::point:
      case PartOfNumber::fraction:
        if (is_digit) {
          next.part = PartOfNumber::fraction;
          read_fraction(next, c);
          return next;
        }
        if (at.part == PartOfNumber::point) return std::nullopt;
        break;
      case PartOfNumber::e:
        if (c == '-' || c == '+') {
          next.part = PartOfNumber::e_sign;
          next.exponent_negative = c == '-';
          return next;
        }
        [[fallthrough]];
      case PartOfNumber::e_sign:
      case PartOfNumber::exponent:
        if (!is_digit) return std::nullopt;
        return read_exponent(next, c);
    }
    if ((c == 'e' || c == 'E') && at.is_single) return begin_exponent(at);
    return std::nullopt;
  }

  [[nodiscard]] bool is_accepting(State state) const {
    switch (state.part) {
      case PartOfNumber::zero:
      case PartOfNumber::whole:
        end_whole(state);
        state.place = 0;
        break;
      case PartOfNumber::fraction:
        break;
      case PartOfNumber::exponent:
        return contains_exponent(state, state.exponent);
      default:
        return false;
    }
    for (std::size_t i = 0; i < constants_.size(); ++i) {
      Order order = state.order[i];
      // The digits so far are those of the constant, which has more: 1.2 is less than 1.25.
      if (order == Order::equal && state.place < constants_[i].fraction.size()) {
        order = Order::less;
      }
      if (!admits(constants_[i], order, state)) return false;
    }
    for (std::size_t i = 0; i < multiples_.size(); ++i) {
      if ((state.rest[i] == 0) != multiples_[i].must_be) return false;
    }
    return true;
  }

 private:
  // `order` compares the magnitudes.
  static bool admits(const Constant& constant, Order order, const State& state) {
    // -0 is 0.
    const bool negative = state.negative && state.nonzero;
    if (constant.is_zero) {
      order = !state.nonzero ? Order::equal : negative ? Order::less : Order::greater;
    } else if (negative != constant.negative) {
      order = negative ? Order::less : Order::greater;
    } else if (negative && order != Order::equal) {
      order = order == Order::less ? Order::greater : Order::less;
    }
    switch (constant.role) {
      case Constant::Role::minimum:
        return order == Order::greater || (order == Order::equal && !constant.is_exclusive);
      case Constant::Role::maximum:
        return order == Order::less || (order == Order::equal && !constant.is_exclusive);
      case Constant::Role::excluded:
        return order != Order::equal;
    }
    return false;
  }

  void read_whole(State& state, char c) const {
    state.nonzero |= c != '0';
    for (std::size_t i = 0; i < constants_.size(); ++i) {
      const std::string& whole = constants_[i].whole;
      // More digits than the constant has: the magnitude is greater, as there are no leading zeros.
      if (state.place >= whole.size()) {
        state.order[i] = Order::greater;
      } else if (state.order[i] == Order::equal) {
        state.order[i] = compared(c, whole[state.place]);
      }
    }
    // It stops one behind the longest constant, so that long numbers do not make new states.
    if (state.place <= most_whole_ && !constants_.empty()) ++state.place;
    for (std::size_t i = 0; i < multiples_.size(); ++i) {
      std::uint64_t digit = static_cast<std::uint64_t>(c - '0');
      // The remainder is counted in units of 10^-scale, so a whole digit stands for 10^scale of
      // them.
      for (std::uint32_t k = 0; k < multiples_[i].scale; ++k) {
        digit = digit * 10 % multiples_[i].modulus;
      }
      state.rest[i] = static_cast<std::uint32_t>((state.rest[i] * std::uint64_t{10} + digit) %
                                                 multiples_[i].modulus);
    }
  }
  // A number with fewer digits is smaller, whatever they are.
  void end_whole(State& state) const {
    for (std::size_t i = 0; i < constants_.size(); ++i) {
      if (state.place < constants_[i].whole.size()) state.order[i] = Order::less;
    }
  }
  void read_fraction(State& state, char c) const {
    state.nonzero |= c != '0';
    const auto digit_of = [](const std::string& digits, std::size_t place) {
      return place < digits.size() ? digits[place] : '0';
    };
    for (std::size_t i = 0; i < constants_.size(); ++i) {
      if (state.order[i] == Order::equal) {
        state.order[i] = compared(c, digit_of(constants_[i].fraction, state.place));
      }
      if (state.is_single && state.mantissa[i] == Order::equal) {
        state.mantissa[i] = compared(c, digit_of(constants_[i].digits, state.place + 1));
      }
    }
    for (std::size_t i = 0; i < multiples_.size(); ++i) {
      if (state.rest[i] == kNeverANumber) continue;
      const Multiple& multiple = multiples_[i];
      // Finer than a unit: only zeros keep it a multiple. After another digit it cannot become one
      // again.
      if (state.place >= multiple.scale) {
        if (c != '0') state.rest[i] = kNeverANumber;
        continue;
      }
      std::uint64_t digit = static_cast<std::uint64_t>(c - '0');
      for (std::uint32_t k = state.place + 1; k < multiple.scale; ++k) {
        digit = digit * 10 % multiple.modulus;
      }
      state.rest[i] = static_cast<std::uint32_t>((state.rest[i] + digit) % multiple.modulus);
    }
    if (state.place < most_fraction_) ++state.place;
  }

  // The exponents that lead into the set are a range, because a larger exponent leads further from
  // zero.
  [[nodiscard]] std::optional<State> begin_exponent(const State& at) const {
    const auto is_in = [&](int exponent) {
      for (std::size_t i = 0; i < constants_.size(); ++i) {
        const Constant& constant = constants_[i];
        Order order = exponent < constant.exponent   ? Order::less
                      : exponent > constant.exponent ? Order::greater
                                                     : at.mantissa[i];
        if (exponent == constant.exponent && order == Order::equal &&
            digits_read(at) < constant.digits.size()) {
          order = Order::less;
        }
        if (!admits(constant, order, at)) return false;
      }
      return true;
    };
    State next;
    next.part = PartOfNumber::e;
    next.least = -kMaxExponent;
    while (next.least <= kMaxExponent && !is_in(next.least)) ++next.least;
    if (next.least > kMaxExponent) return std::nullopt;
    next.most = kMaxExponent;
    while (!is_in(next.most)) --next.most;
    return next;
  }
  // The number of digits of the mantissa, as far as it matters.
  static std::size_t digits_read(const State& state) {
    return state.part == PartOfNumber::fraction ? state.place + std::size_t{1} : 1;
  }
  static bool contains_exponent(const State& state, int value) {
    if (state.is_any_exponent) return true;
    const int exponent = state.exponent_negative ? -value : value;
    return exponent >= state.least && exponent <= state.most;
  }
  // What has been read is dropped if every continuation leads into the set.
  [[nodiscard]] static std::optional<State> read_exponent(State next, char c) {
    // kMaxExponent has three digits.
    if (next.exponent_digits == 3) return std::nullopt;
    next.part = PartOfNumber::exponent;
    ++next.exponent_digits;
    if (next.is_any_exponent) return next;
    next.exponent = next.exponent * 10 + (c - '0');
    bool all = true;
    bool any = false;
    int first = next.exponent;
    int last = next.exponent;
    // What has been read of the exponent leads to one range for each number of digits: "1" to 1, 10
    // to 19, and 100 to 199.
    for (std::uint32_t digits = next.exponent_digits;; ++digits) {
      for (const int value : {first, last}) all &= contains_exponent(next, value);
      // Two ranges overlap if an end of one lies in the other.
      const auto within = [&](int value) { return value >= first && value <= last; };
      any |= contains_exponent(next, first) || contains_exponent(next, last) ||
             within(next.exponent_negative ? -next.least : next.least) ||
             within(next.exponent_negative ? -next.most : next.most);
      if (digits == 3) break;
      first *= 10;
      last = last * 10 + 9;
    }
    if (!any) return std::nullopt;
    // Only the number of digits still matters.
    if (all) {
      const std::uint32_t digits = next.exponent_digits;
      next = State{};
      next.part = PartOfNumber::exponent;
      next.is_any_exponent = true;
      next.exponent_digits = digits;
    }
    return next;
  }

  std::vector<Constant> constants_;
  std::vector<Multiple> multiples_;
  std::size_t most_whole_ = 0;
  std::size_t most_fraction_ = 0;
  bool with_exponents_ = false;
  bool integers_are_spelled_ = false;
};

}  // namespace

Expected<Automaton> automaton_of(const NumberSet& set, std::size_t max_states) {
  const Expected<NumberReader> reader = NumberReader::make(set);
  if (!reader) return Unexpected(reader.error());
  Automaton automaton;
  std::map<State, std::uint32_t> numbers;
  std::vector<State> met;
  const auto number = [&](const State& state) {
    const auto [place, is_new] = numbers.try_emplace(state, static_cast<std::uint32_t>(met.size()));
    if (is_new) met.push_back(state);
    return place->second;
  };
  number(reader->start());
  for (std::size_t i = 0; i < met.size(); ++i) {
    if (met.size() > max_states) return Unexpected(too_many("states"));
    const State at = met[i];
    std::map<std::uint32_t, std::vector<CodePointSet::Range>> edges;
    for (const char c : std::string_view("0123456789-+.eE")) {
      if (const auto next = reader->step(at, c)) {
        const auto code_point = static_cast<char32_t>(c);
        edges[number(*next)].push_back({code_point, code_point});
      }
    }
    Automaton::State& state = automaton.states.emplace_back();
    state.is_accepting = reader->is_accepting(at);
    for (auto& [to, ranges] : edges) state.edges.push_back({CodePointSet(std::move(ranges)), to});
  }
  minimize(automaton);
  return automaton;
}

}  // namespace tenon::grammar
