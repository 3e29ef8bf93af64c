#include "tenon/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tenon/jinja/bytes.h"
#include "tenon/jinja/format.h"
#include "tenon/jinja/markup.h"
#include "tenon/jinja/numbers.h"

/// Arithmetic has three sorts of numbers. Two small integers use the processor's arithmetic with
/// checks for overflow; if it overflows, both become BigInt and the result becomes small again if
/// it fits. If one operand is a float, both are. A result of more than kMaxBits is refused, and a
/// power is refused before it is computed, so `2 ** 10 ** 9` fails instead of taking all memory.
namespace tenon::jinja {
namespace {

constexpr std::size_t kMaxBits = 1 << 16;  // of an integer: about 20,000 digits

// As Python writes an operator in messages.
std::string_view sign_of(Op op) {
  switch (op) {
    case Op::add:
      return "+";
    case Op::subtract:
      return "-";
    case Op::multiply:
      return "*";
    case Op::divide:
      return "/";
    case Op::floor_divide:
      return "//";
    case Op::modulo:
      return "%";
    default:
      return "** or pow()";
  }
}

double real_of(const Value& value) {
  switch (value.tag) {
    case Tag::real:
      return value.real;
    case Tag::boolean:
      return value.boolean ? 1 : 0;
    case Tag::integer:
      return static_cast<double>(value.integer);
    default:
      return big_of(value).to_double();
  }
}

// `value` is an integer that fits in 64 bits, or a bool.
std::int64_t small_of(const Value& value) {
  return value.is(Tag::boolean) ? (value.boolean ? 1 : 0) : value.integer;
}

// Python's floor division and modulo of floats: CPython's steps in float_divmod, so that the last
// digit is the same too. The remainder has the sign of b, and the quotient is rounded down.
void divide_reals(double a, double b, double& quotient, double& remainder) {
  remainder = std::fmod(a, b);
  quotient = (a - remainder) / b;
  if (remainder != 0) {
    if ((b < 0) != (remainder < 0)) {
      remainder += b;
      quotient -= 1;
    }
  } else {
    remainder = std::copysign(0.0, b);
  }
  if (quotient != 0) {
    const double whole = std::floor(quotient);
    // The division was exact but for rounding, so the whole number that is nearest counts.
    quotient = quotient - whole > 0.5 ? whole + 1 : whole;
  } else {
    quotient = std::copysign(0.0, a / b);
  }
}

}  // namespace

Value negate(Runtime& rt, const Value& a, bool is_positive) {
  if (a.is(Tag::undefined)) rt.fail_undefined(a);
  if (a.is(Tag::real)) return make_real(is_positive ? a.real : -a.real, a.is_data());
  if (!a.is_int()) {
    rt.type_error("bad operand type for unary " + std::string(is_positive ? "+" : "-") + ": '" +
                  std::string(type_name(a)) + "'");
  }
  if (!a.is(Tag::big_integer)) {
    const std::int64_t value = small_of(a);
    if (is_positive) return make_int(value, a.is_data());  // +True is 1
    // The smallest integer has no positive counterpart in 64 bits.
    if (value != std::numeric_limits<std::int64_t>::min()) return make_int(-value, a.is_data());
  }
  return is_positive ? a : make_big(rt.arena(), -big_of(a), a.is_data());
}

namespace {

// All arithmetic in which one operand is a float. A long integer that no float can hold is an
// error; an operand that is an infinite float is allowed.
Value add_reals(Runtime& rt, Op op, const Value& a, const Value& b) {
  const bool is_data = a.is_data() || b.is_data();
  const double left = real_of(a);
  const double right = real_of(b);
  const auto check = [&](double value, const Value& of) {
    if (std::isinf(value) && of.is(Tag::big_integer)) {
      rt.fail("OverflowError", "int too large to convert to float");
    }
  };
  check(left, a);
  check(right, b);
  switch (op) {
    case Op::add:
      return make_real(left + right, is_data);
    case Op::subtract:
      return make_real(left - right, is_data);
    case Op::multiply:
      return make_real(left * right, is_data);
    case Op::divide:
      if (right == 0) rt.fail("ZeroDivisionError", "division by zero");
      return make_real(left / right, is_data);
    case Op::power: {
      if (left == 0 && right < 0) {
        rt.fail("ZeroDivisionError", "0.0 cannot be raised to a negative power");
      }
      // Python answers with a complex number here.
      if (left < 0 && std::isfinite(left) && std::isfinite(right) && std::floor(right) != right) {
        rt.fail("TypeError", "complex numbers are not supported");
      }
      const double value = std::pow(left, right);
      // Python's message is the C library's: errno and its text.
      if (std::isinf(value) && std::isfinite(left) && std::isfinite(right)) {
        rt.fail("OverflowError", "(34, 'Numerical result out of range')");
      }
      return make_real(value, is_data);
    }
    default: {
      if (right == 0) {
        rt.fail("ZeroDivisionError",
                op == Op::modulo ? "float modulo" : "float floor division by zero");
      }
      double quotient = 0;
      double remainder = 0;
      divide_reals(left, right, quotient, remainder);
      return make_real(op == Op::modulo ? remainder : quotient, is_data);
    }
  }
}

// Squares and multiplies. The result has at least (bits - 1) * times bits, which is checked before
// anything is multiplied; -1, 0 and 1 may have any exponent.
Value power_of_ints(Runtime& rt, const Value& a, const Value& b) {
  const bool is_data = a.is_data() || b.is_data();
  const BigInt exponent = big_of(b);
  if (exponent.is_negative()) {
    if (big_of(a).is_zero()) {
      rt.fail("ZeroDivisionError", "0.0 cannot be raised to a negative power");
    }
    return make_real(std::pow(real_of(a), real_of(b)), is_data);
  }
  BigInt base = big_of(a);
  const std::size_t bits = base.bits();
  const std::int64_t times = exponent.to_int64().value_or(std::numeric_limits<std::int64_t>::max());
  if (bits > 1 && static_cast<std::uint64_t>(times) > kMaxBits / (bits - 1)) {
    rt.fail_limit("an integer grows longer than " + std::to_string(kMaxBits) + " bits");
  }
  if (bits <= 1) {  // -1, 0 and 1
    if (times == 0) return make_int(1, is_data);
    if (base.is_negative() && !exponent.is_odd()) base = -base;
    return make_big(rt.arena(), base, is_data);
  }
  BigInt product(1);
  for (std::int64_t rest = times; rest > 0; rest >>= 1) {
    // What the two multiplications of limbs cost, one by one.
    rt.charge((product.limbs().size() + base.limbs().size()) * base.limbs().size());
    if ((rest & 1) != 0) product = product * base;
    if (rest > 1) base = base * base;
  }
  return make_big(rt.arena(), product, is_data);
}

// Both operands are integers. What fits takes the processor's way; an overflow falls through to
// BigInt, as do `/`, whose quotient must be rounded once, and `**`.
Value binary_ints(Runtime& rt, Op op, const Value& a, const Value& b) {
  const bool is_data = a.is_data() || b.is_data();
  const bool is_small = !a.is(Tag::big_integer) && !b.is(Tag::big_integer);
  if (is_small) {
    const std::int64_t left = small_of(a);
    const std::int64_t right = small_of(b);
    std::int64_t result = 0;
    switch (op) {
      case Op::add:
        if (!__builtin_add_overflow(left, right, &result)) return make_int(result, is_data);
        break;
      case Op::subtract:
        if (!__builtin_sub_overflow(left, right, &result)) return make_int(result, is_data);
        break;
      case Op::multiply:
        if (!__builtin_mul_overflow(left, right, &result)) return make_int(result, is_data);
        break;
      case Op::floor_divide:
      case Op::modulo: {
        if (right == 0) {
          rt.fail("ZeroDivisionError", op == Op::modulo ? "integer modulo by zero"
                                                        : "integer division or modulo by zero");
        }
        if (right == -1) break;  // the one quotient that may not fit in 64 bits
        std::int64_t quotient = left / right;
        std::int64_t remainder = left % right;
        // The processor rounds to zero, Python down.
        if (remainder != 0 && (remainder < 0) != (right < 0)) {
          remainder += right;
          --quotient;
        }
        return make_int(op == Op::modulo ? remainder : quotient, is_data);
      }
      default:
        break;
    }
  }
  if (op == Op::power) return power_of_ints(rt, a, b);
  const BigInt left = big_of(a);
  const BigInt right = big_of(b);
  // The cost of a long multiplication or division; for a sum it is more than enough.
  rt.charge((left.bits() / 32 + 1) * (right.bits() / 32 + 1));
  if (op == Op::divide) {
    if (right.is_zero()) rt.fail("ZeroDivisionError", "division by zero");
    const double quotient = BigInt::ratio(left, right);
    if (!std::isfinite(quotient)) {
      rt.fail("OverflowError", "integer division result too large for a float");
    }
    return make_real(quotient, is_data);
  }
  BigInt result;
  if (op == Op::add) {
    result = left + right;
  } else if (op == Op::subtract) {
    result = left - right;
  } else if (op == Op::multiply) {
    result = left * right;
  } else {
    if (right.is_zero()) {
      rt.fail("ZeroDivisionError", "integer division or modulo by zero");
    }
    BigInt quotient;
    BigInt remainder;
    BigInt::divide(left, right, quotient, remainder);
    result = op == Op::modulo ? remainder : quotient;
  }
  if (result.bits() > kMaxBits) {
    rt.fail_limit("an integer grows longer than " + std::to_string(kMaxBits) + " bits");
  }
  return make_big(rt.arena(), result, is_data);
}

// The sequence `count` times: a string, list or tuple. foresee_times() refuses a result that would
// not fit in the arena before the first copy is made.
Value repeat(Runtime& rt, const Value& sequence, const Value& count) {
  const std::int64_t times = std::max<std::int64_t>(0, index_of(rt, count));
  if (sequence.is_string()) {
    const Text text = rt.text_of(sequence);
    if (times == 0 || text.bytes.empty()) return make_string({});
    if (times == 1) return sequence;
    rt.arena().foresee_times(text.bytes.size(), static_cast<std::uint64_t>(times));
    const TextBuffer::Mark mark = rt.begin_text();
    for (std::int64_t i = 0; i < times; ++i) rt.put_text(text);
    // Only the string's own flag; the pieces keep their origins one by one.
    Value result = rt.end_text(mark);
    result.flags |= sequence.flags & kMarkup;
    return result;
  }
  const auto size = static_cast<std::uint64_t>(*rt.length(sequence));
  rt.arena().foresee_times(size * sizeof(Value), static_cast<std::uint64_t>(times));
  Value result = rt.make_list(static_cast<std::uint32_t>(size * static_cast<std::uint64_t>(times)),
                              sequence.is_data(), sequence.is(Tag::tuple) ? Tag::tuple : Tag::list);
  for (std::int64_t i = 0; i < times; ++i) {
    rt.charge(size);
    for (std::uint64_t j = 0; j < size; ++j) {
      rt.append(result, rt.item_at(sequence, static_cast<std::int64_t>(j)));
    }
  }
  return result;
}

// A sum of lists is data only if both are: a list that the template has added to is the template's.
Value add_lists(Runtime& rt, const Value& a, const Value& b) {
  const std::int64_t left = *rt.length(a);
  const std::int64_t right = *rt.length(b);
  rt.charge(static_cast<std::size_t>(left + right));
  Value sum = rt.make_list(static_cast<std::uint32_t>(left + right), a.is_data() && b.is_data(),
                           a.is(Tag::tuple) ? Tag::tuple : Tag::list);
  for (std::int64_t i = 0; i < left; ++i) rt.append(sum, rt.item_at(a, i));
  for (std::int64_t i = 0; i < right; ++i) rt.append(sum, rt.item_at(b, i));
  return sum;
}

Value add_bytes(Runtime& rt, const Value& a, const Value& b) {
  if (!b.is(Tag::bytes)) {
    rt.type_error("can't concat " + std::string(type_name(b)) + " to bytes");
  }
  rt.charge(a.size + b.size);
  return make_bytes(rt, std::string(a.bytes()).append(b.bytes()), a.is_data() || b.is_data());
}

Value repeat_bytes(Runtime& rt, const Value& bytes, const Value& count) {
  const auto times = static_cast<std::uint64_t>(std::max<std::int64_t>(0, index_of(rt, count)));
  if (bytes.size == 0 || times == 0) return make_bytes(rt, {}, bytes.is_data());
  rt.arena().foresee_times(bytes.size, times);
  rt.charge(bytes.size * times);
  std::string all;
  all.reserve(bytes.size * times);
  for (std::uint64_t i = 0; i < times; ++i) all += bytes.bytes();
  return make_bytes(rt, all, bytes.is_data());
}

}  // namespace

// Strings come first, because `"%s" % x` allows an undefined x; in any other operation an undefined
// value fails. Then come the types one by one, each with Python's message.
Value binary(Runtime& rt, Op op, const Value& a, const Value& b) {
  if (op == Op::add && a.is_string() && b.is_string()) {
    // If one of the two is safe (Markup), the other is escaped and the sum is safe.
    if (!a.is_markup() && !b.is_markup()) return rt.concat(a, b);
    Value sum = rt.concat(escaped(rt, a), escaped(rt, b));
    sum.flags |= kMarkup;
    return sum;
  }
  if (op == Op::modulo && a.is_string()) return percent(rt, a, b);
  if (a.is(Tag::undefined)) rt.fail_undefined(a);
  if (b.is(Tag::undefined)) rt.fail_undefined(b);
  if (a.is_number() && b.is_number()) {
    return a.is(Tag::real) || b.is(Tag::real) ? add_reals(rt, op, a, b) : binary_ints(rt, op, a, b);
  }
  const auto is_repeatable = [](const Value& value) {
    return value.is_string() || value.is_list() || value.is(Tag::tuple);
  };
  // What is not known of bytes falls through to the message at the end.
  if (a.is(Tag::bytes) || b.is(Tag::bytes)) {
    if (op == Op::add && a.is(Tag::bytes)) return add_bytes(rt, a, b);
    if (op == Op::multiply && (a.is_int() || b.is_int())) {
      return a.is_int() ? repeat_bytes(rt, b, a) : repeat_bytes(rt, a, b);
    }
  }
  if (op == Op::multiply) {
    if (is_repeatable(a) && b.is_int()) return repeat(rt, a, b);
    if (is_repeatable(b) && a.is_int()) return repeat(rt, b, a);
    if (is_repeatable(a) || is_repeatable(b)) {
      rt.type_error("can't multiply sequence by non-int of type '" +
                    std::string(type_name(is_repeatable(a) ? b : a)) + "'");
    }
  }
  if (op == Op::add) {
    if ((a.is_list() && b.is_list()) || (a.is(Tag::tuple) && b.is(Tag::tuple))) {
      return add_lists(rt, a, b);
    }
    if (is_repeatable(a)) {
      rt.type_error("can only concatenate " + std::string(type_name(a)) + " (not \"" +
                    std::string(type_name(b)) + "\") to " + std::string(type_name(a)));
    }
  }
  rt.type_error("unsupported operand type(s) for " + std::string(sign_of(op)) + ": '" +
                std::string(type_name(a)) + "' and '" + std::string(type_name(b)) + "'");
}

std::int64_t index_of(const Budget& budget, const Value& value) {
  if (value.is(Tag::integer)) return value.integer;
  if (value.is(Tag::boolean)) return value.boolean ? 1 : 0;
  // A long integer is far outside any sequence. Half of the range leaves callers room to add to it.
  if (value.is(Tag::big_integer)) {
    return value.big->is_negative ? std::numeric_limits<std::int64_t>::min() / 2
                                  : std::numeric_limits<std::int64_t>::max() / 2;
  }
  if (value.is(Tag::undefined)) budget.fail_undefined(value);
  budget.type_error("'" + std::string(type_name(value)) +
                    "' object cannot be interpreted as an integer");
}

}  // namespace tenon::jinja
