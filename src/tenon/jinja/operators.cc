#include <algorithm>
#include <cmath>
#include <limits>

#include "tenon/jinja/numbers.h"
#include "tenon/jinja/vm.h"

/// Python's operators, indexing, slicing and the sandbox's rules of attribute access.
///
/// Arithmetic has three sorts of numbers. Two small integers use the processor's arithmetic with
/// checks for overflow; if it overflows, both become BigInt and the result becomes small again if
/// it fits. If one operand is a float, both are. A result of more than kMaxBits is refused, and a
/// power is refused before it is computed, so `2 ** 10 ** 9` fails instead of taking all memory.
///
/// Attributes follow jinja2's sandbox: `a.b` looks for an attribute first and for an item second,
/// `a["b"]` the other way round. The attributes are the ones that Python's types have (has_method);
/// those that the sandbox forbids, such as names with two underscores, give an undefined value that
/// fails once it is used.
namespace tenon::jinja {
namespace {

constexpr std::size_t kMaxBits = 1 << 16;  // of an integer: about 20,000 digits

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

std::int64_t small_of(const Value& value) {
  return value.is(Tag::boolean) ? (value.boolean ? 1 : 0) : value.integer;
}

// Python's floor division and modulo of floats.
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
    quotient = quotient - whole > 0.5 ? whole + 1 : whole;
  } else {
    quotient = std::copysign(0.0, a / b);
  }
}

}  // namespace

Value Vm::negate(const Value& a, bool is_positive) {
  if (a.is(Tag::undefined)) fail_undefined(a);
  if (a.is(Tag::real)) return make_real(is_positive ? a.real : -a.real, a.is_data());
  if (!a.is_int()) {
    type_error("bad operand type for unary " + std::string(is_positive ? "+" : "-") + ": '" +
               std::string(type_name(a)) + "'");
  }
  if (!a.is(Tag::big_integer)) {
    const std::int64_t value = small_of(a);
    if (is_positive) return make_int(value, a.is_data());
    if (value != std::numeric_limits<std::int64_t>::min()) return make_int(-value, a.is_data());
  }
  return is_positive ? a : make_big(arena_, -big_of(a), a.is_data());
}

namespace {

Value add_reals(Vm& vm, Op op, const Value& a, const Value& b) {
  const bool is_data = a.is_data() || b.is_data();
  const double left = real_of(a);
  const double right = real_of(b);
  const auto check = [&](double value, const Value& of) {
    if (std::isinf(value) && of.is(Tag::big_integer)) {
      vm.fail("OverflowError", "int too large to convert to float");
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
      if (right == 0) vm.fail("ZeroDivisionError", "division by zero");
      return make_real(left / right, is_data);
    case Op::power: {
      if (left == 0 && right < 0) {
        vm.fail("ZeroDivisionError", "0.0 cannot be raised to a negative power");
      }
      if (left < 0 && std::isfinite(left) && std::isfinite(right) && std::floor(right) != right) {
        vm.fail("TypeError", "complex numbers are not supported");
      }
      const double value = std::pow(left, right);
      if (std::isinf(value) && std::isfinite(left) && std::isfinite(right)) {
        vm.fail("OverflowError", "(34, 'Numerical result out of range')");
      }
      return make_real(value, is_data);
    }
    default: {
      if (right == 0) {
        vm.fail("ZeroDivisionError",
                op == Op::modulo ? "float modulo" : "float floor division by zero");
      }
      double quotient = 0;
      double remainder = 0;
      divide_reals(left, right, quotient, remainder);
      return make_real(op == Op::modulo ? remainder : quotient, is_data);
    }
  }
}

Value power_of_ints(Vm& vm, const Value& a, const Value& b) {
  const bool is_data = a.is_data() || b.is_data();
  const BigInt exponent = big_of(b);
  if (exponent.is_negative()) {
    if (big_of(a).is_zero()) {
      vm.fail("ZeroDivisionError", "0.0 cannot be raised to a negative power");
    }
    return make_real(std::pow(real_of(a), real_of(b)), is_data);
  }
  BigInt base = big_of(a);
  const std::size_t bits = base.bits();
  const std::int64_t times = exponent.to_int64().value_or(std::numeric_limits<std::int64_t>::max());
  if (bits > 1 && static_cast<std::uint64_t>(times) > kMaxBits / (bits - 1)) {
    vm.fail_limit("an integer grows longer than " + std::to_string(kMaxBits) + " bits");
  }
  if (bits <= 1) {  // -1, 0 and 1
    if (times == 0) return make_int(1, is_data);
    if (base.is_negative() && !exponent.is_odd()) base = -base;
    return make_big(vm.arena(), base, is_data);
  }
  BigInt product(1);
  for (std::int64_t rest = times; rest > 0; rest >>= 1) {
    vm.charge((product.limbs().size() + base.limbs().size()) * base.limbs().size());
    if ((rest & 1) != 0) product = product * base;
    if (rest > 1) base = base * base;
  }
  return make_big(vm.arena(), product, is_data);
}

Value binary_ints(Vm& vm, Op op, const Value& a, const Value& b) {
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
          vm.fail("ZeroDivisionError", op == Op::modulo ? "integer modulo by zero"
                                                        : "integer division or modulo by zero");
        }
        if (right == -1) break;  // the one quotient that may not fit in 64 bits
        std::int64_t quotient = left / right;
        std::int64_t remainder = left % right;
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
  if (op == Op::power) return power_of_ints(vm, a, b);
  const BigInt left = big_of(a);
  const BigInt right = big_of(b);
  vm.charge((left.bits() / 32 + 1) * (right.bits() / 32 + 1));
  if (op == Op::divide) {
    if (right.is_zero()) vm.fail("ZeroDivisionError", "division by zero");
    const double quotient = BigInt::ratio(left, right);
    if (!std::isfinite(quotient)) {
      vm.fail("OverflowError", "integer division result too large for a float");
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
      vm.fail("ZeroDivisionError", "integer division or modulo by zero");
    }
    BigInt quotient;
    BigInt remainder;
    BigInt::divide(left, right, quotient, remainder);
    result = op == Op::modulo ? remainder : quotient;
  }
  if (result.bits() > kMaxBits) {
    vm.fail_limit("an integer grows longer than " + std::to_string(kMaxBits) + " bits");
  }
  return make_big(vm.arena(), result, is_data);
}

Value repeat(Vm& vm, const Value& sequence, const Value& count) {
  const std::int64_t times = std::max<std::int64_t>(0, vm.index_of(count, "count"));
  if (sequence.is_string()) {
    const Text text = vm.text_of(sequence);
    if (times == 0 || text.bytes.empty()) return make_string({});
    if (times == 1) return sequence;
    vm.arena().foresee_times(text.bytes.size(), static_cast<std::uint64_t>(times));
    const Vm::Mark mark = vm.begin_text();
    for (std::int64_t i = 0; i < times; ++i) vm.put_text(text);
    Value result = vm.end_text(mark);
    result.flags |= sequence.flags & kMarkup;
    return result;
  }
  const auto size = static_cast<std::uint64_t>(*vm.length(sequence));
  vm.arena().foresee_times(size * sizeof(Value), static_cast<std::uint64_t>(times));
  Value result = vm.make_list(static_cast<std::uint32_t>(size * static_cast<std::uint64_t>(times)),
                              sequence.is_data(), sequence.is(Tag::tuple) ? Tag::tuple : Tag::list);
  for (std::int64_t i = 0; i < times; ++i) {
    vm.charge(size);
    for (std::uint64_t j = 0; j < size; ++j) {
      vm.append(result, vm.item_at(sequence, static_cast<std::int64_t>(j)));
    }
  }
  return result;
}

Value add_lists(Vm& vm, const Value& a, const Value& b) {
  const std::int64_t left = *vm.length(a);
  const std::int64_t right = *vm.length(b);
  vm.charge(static_cast<std::size_t>(left + right));
  Value sum = vm.make_list(static_cast<std::uint32_t>(left + right), a.is_data() && b.is_data(),
                           a.is(Tag::tuple) ? Tag::tuple : Tag::list);
  for (std::int64_t i = 0; i < left; ++i) vm.append(sum, vm.item_at(a, i));
  for (std::int64_t i = 0; i < right; ++i) vm.append(sum, vm.item_at(b, i));
  return sum;
}

Value add_bytes(Vm& vm, const Value& a, const Value& b) {
  if (!b.is(Tag::bytes)) {
    vm.type_error("can't concat " + std::string(vm.type_name(b)) + " to bytes");
  }
  vm.charge(a.size + b.size);
  return vm.make_bytes(std::string(a.bytes()).append(b.bytes()), a.is_data() || b.is_data());
}

Value repeat_bytes(Vm& vm, const Value& bytes, const Value& count) {
  const auto times =
      static_cast<std::uint64_t>(std::max<std::int64_t>(0, vm.index_of(count, "count")));
  if (bytes.size == 0 || times == 0) return vm.make_bytes({}, bytes.is_data());
  vm.arena().foresee_times(bytes.size, times);
  vm.charge(bytes.size * times);
  std::string all;
  all.reserve(bytes.size * times);
  for (std::uint64_t i = 0; i < times; ++i) all += bytes.bytes();
  return vm.make_bytes(all, bytes.is_data());
}

Value escaped(Vm& vm, const Value& value) {
  return vm.call_filter(static_cast<std::uint32_t>(FilterId::escape), value, {});
}

}  // namespace

Value Vm::binary(Op op, const Value& a, const Value& b) {
  if (op == Op::add && a.is_string() && b.is_string()) {
    if (!a.is_markup() && !b.is_markup()) return concat(a, b);
    Value sum = concat(escaped(*this, a), escaped(*this, b));
    sum.flags |= kMarkup;
    return sum;
  }
  if (op == Op::modulo && a.is_string()) return percent(a, b);
  if (a.is(Tag::undefined)) fail_undefined(a);
  if (b.is(Tag::undefined)) fail_undefined(b);
  if (a.is_number() && b.is_number()) {
    return a.is(Tag::real) || b.is(Tag::real) ? add_reals(*this, op, a, b)
                                              : binary_ints(*this, op, a, b);
  }
  const auto is_repeatable = [](const Value& value) {
    return value.is_string() || value.is_list() || value.is(Tag::tuple);
  };
  if (a.is(Tag::bytes) || b.is(Tag::bytes)) {
    if (op == Op::add && a.is(Tag::bytes)) return add_bytes(*this, a, b);
    if (op == Op::multiply && (a.is_int() || b.is_int())) {
      return a.is_int() ? repeat_bytes(*this, b, a) : repeat_bytes(*this, a, b);
    }
  }
  if (op == Op::multiply) {
    if (is_repeatable(a) && b.is_int()) return repeat(*this, a, b);
    if (is_repeatable(b) && a.is_int()) return repeat(*this, b, a);
    if (is_repeatable(a) || is_repeatable(b)) {
      type_error("can't multiply sequence by non-int of type '" +
                 std::string(type_name(is_repeatable(a) ? b : a)) + "'");
    }
  }
  if (op == Op::add) {
    if ((a.is_list() && b.is_list()) || (a.is(Tag::tuple) && b.is(Tag::tuple))) {
      return add_lists(*this, a, b);
    }
    if (is_repeatable(a)) {
      type_error("can only concatenate " + std::string(type_name(a)) + " (not \"" +
                 std::string(type_name(b)) + "\") to " + std::string(type_name(a)));
    }
  }
  type_error("unsupported operand type(s) for " + std::string(sign_of(op)) + ": '" +
             std::string(type_name(a)) + "' and '" + std::string(type_name(b)) + "'");
}

// --- indexing

std::int64_t Vm::index_of(const Value& value, std::string_view what) {
  if (value.is(Tag::integer)) return value.integer;
  if (value.is(Tag::boolean)) return value.boolean ? 1 : 0;
  if (value.is(Tag::big_integer)) {
    return value.big->is_negative ? std::numeric_limits<std::int64_t>::min() / 2
                                  : std::numeric_limits<std::int64_t>::max() / 2;
  }
  if (value.is(Tag::undefined)) fail_undefined(value);
  static_cast<void>(what);
  type_error("'" + std::string(type_name(value)) + "' object cannot be interpreted as an integer");
}

Value Vm::item(const Value& object, const Value& index) {
  switch (object.tag) {
    case Tag::undefined:
      fail_undefined(object);
    case Tag::dict:
    case Tag::json_dict:
      if (index.is_string()) {
        const Value found = get(object, index);
        if (!found.is(Tag::missing)) return found;
      } else if (!index.is_list() && !index.is_mapping() && !index.is(Tag::slice)) {
        if (index.is(Tag::undefined)) break;
        const Value found = get(object, index);
        if (!found.is(Tag::missing)) return found;
      }
      break;
    case Tag::list:
    case Tag::json_list:
    case Tag::tuple:
    case Tag::range:
    case Tag::string:
    case Tag::rope:
    case Tag::bytes:
      if (index.is(Tag::integer) || index.is(Tag::boolean)) {
        std::int64_t at = index.is(Tag::integer) ? index.integer : index.boolean;
        // The characters of a string are counted only as far as needed.
        if (object.is_string() && at >= 0) {
          if (static_cast<std::uint64_t>(at) >= object.size) break;
          const Text text = text_of(object);
          charge(static_cast<std::size_t>(at) * 2);
          const std::size_t begin = unicode::offset(text.bytes, static_cast<std::size_t>(at));
          if (begin >= text.bytes.size()) break;
          return substring(text, begin, unicode::offset(text.bytes, 1, begin));
        }
        const std::int64_t size = *length(object);
        if (at < 0) at += size;
        if (at >= 0 && at < size) return item_at(object, at);
      }
      break;
    default:
      break;
  }
  if (index.is_string()) {
    const std::string_view name = text_of(index).bytes;
    return attribute(object, name, method_of_name(name), false);
  }
  Value lack = undefined_attribute(object, {});
  lack.lack = static_cast<std::uint8_t>(Lack::element);
  const std::string text = described(index);
  const std::string_view kept = arena_.copy(text);
  lack.text = kept.data();
  lack.size = static_cast<std::uint32_t>(kept.size());
  return lack;
}

namespace {

bool is_one_of(MethodId id, std::initializer_list<MethodId> ids) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

using M = MethodId;

// The attributes that every Python object has. Undefined values have hardly any others.
bool is_object_attribute(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "__class__",        "__delattr__",   "__dir__",  "__doc__",
      "__eq__",           "__format__",    "__ge__",   "__getattribute__",
      "__gt__",           "__hash__",      "__init__", "__le__",
      "__lt__",           "__module__",    "__ne__",   "__new__",
      "__reduce__",       "__reduce_ex__", "__repr__", "__setattr__",
      "__sizeof__",       "__slots__",     "__str__",  "__init_subclass__",
      "__subclasshook__", "__add__",       "__call__", "__getitem__",
      "__iter__",         "__len__",       "__bool__", "__getattr__"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

bool is_string_method(M id) {
  return is_one_of(id,
                   {M::capitalize,   M::casefold,     M::center,    M::count,     M::encode,
                    M::endswith,     M::expandtabs,   M::find,      M::format,    M::format_map,
                    M::index,        M::isalnum,      M::isalpha,   M::isascii,   M::isdecimal,
                    M::isdigit,      M::isidentifier, M::islower,   M::isnumeric, M::isprintable,
                    M::isspace,      M::istitle,      M::isupper,   M::join,      M::ljust,
                    M::lower,        M::lstrip,       M::maketrans, M::partition, M::removeprefix,
                    M::removesuffix, M::replace,      M::rfind,     M::rindex,    M::rjust,
                    M::rpartition,   M::rsplit,       M::rstrip,    M::split,     M::splitlines,
                    M::startswith,   M::strip,        M::swapcase,  M::title,     M::translate,
                    M::upper,        M::zfill});
}

}  // namespace

bool Vm::has_method(const Value& object, MethodId id, bool& is_unsafe) const {
  is_unsafe = false;
  switch (object.tag) {
    case Tag::string:
    case Tag::rope:
      return is_string_method(id) ||
             (object.is_markup() && (id == M::striptags || id == M::unescape));
    case Tag::list:
    case Tag::json_list:
      if (is_one_of(id, {M::append, M::clear, M::extend, M::insert, M::pop, M::remove, M::reverse,
                         M::sort})) {
        is_unsafe = !program_.superset || object.is(Tag::json_list);
        return true;
      }
      return is_one_of(id, {M::copy, M::count, M::index});
    case Tag::dict:
    case Tag::json_dict:
      if (is_one_of(id, {M::clear, M::pop, M::popitem, M::setdefault, M::update})) {
        is_unsafe = !program_.superset || object.is(Tag::json_dict);
        return true;
      }
      return is_one_of(id, {M::copy, M::fromkeys, M::get, M::items, M::keys, M::values});
    case Tag::tuple:
      return is_one_of(id, {M::count, M::index});
    case Tag::boolean:
    case Tag::integer:
    case Tag::big_integer:
      return is_one_of(
          id, {M::as_integer_ratio, M::bit_count, M::bit_length, M::conjugate, M::to_bytes});
    case Tag::real:
      return is_one_of(id, {M::as_integer_ratio, M::conjugate, M::hex, M::is_integer});
    case Tag::range:
      return is_one_of(id, {M::count, M::index});
    case Tag::view:
      return id == M::isdisjoint && object.view->kind != View::Kind::values;
    case Tag::bytes:
      return id == M::decode || id == M::hex ||
             (is_string_method(id) &&
              !is_one_of(
                  id, {M::casefold, M::encode, M::format, M::format_map, M::isdecimal,
                       M::isidentifier, M::isnumeric, M::isprintable, M::maketrans, M::translate}));
    case Tag::cycler:
      return is_one_of(id, {M::next, M::reset});
    case Tag::loop:
      return is_one_of(id, {M::cycle, M::changed});
    case Tag::function:
      return object.function == static_cast<std::uint32_t>(FunctionId::dict) && id == M::fromkeys;
    default:
      return false;
  }
}

// The sandbox's getattr, which looks for attributes first and for items second. For object["name"]
// (`falls_back` is false) the caller has looked for items already.
Value Vm::attribute(const Value& object, std::string_view name, std::uint32_t method,
                    bool falls_back) {
  if (object.is(Tag::name_space)) {
    const Value* found = find(*object.dict, name);
    return found != nullptr ? *found : undefined_attribute(object, name);
  }
  const bool is_dunder =
      name.size() > 4 && name.substr(0, 2) == "__" && name.substr(name.size() - 2) == "__";
  if (object.is(Tag::undefined) && !is_object_attribute(name)) fail_undefined(object);
  if (is_dunder) {
    if (object.is_mapping()) {
      const Value found = get(object, name);
      if (!found.is(Tag::missing)) return found;
    }
    return unsafe_attribute(object, name);
  }
  if (method != kNoBuiltin) {
    const auto id = static_cast<MethodId>(method);
    bool is_unsafe = false;
    if (has_method(object, id, is_unsafe)) {
      if (is_unsafe) return unsafe_attribute(object, name);
      Value bound;
      bound.tag = Tag::method;
      bound.method = arena_.make<Method>(object, static_cast<std::uint16_t>(method));
      return bound;
    }
    switch (object.tag) {
      case Tag::loop:
        return loop_attribute(*object.loop, object, name, id);
      case Tag::boolean:
      case Tag::integer:
      case Tag::big_integer:
        if (id == M::real || id == M::numerator) return negate(object, true);
        if (id == M::imag) return make_int(0);
        if (id == M::denominator) return make_int(1);
        break;
      case Tag::real:
        if (id == M::real) return object;
        if (id == M::imag) return make_real(0);
        break;
      case Tag::range:
        if (id == M::start) return make_int(object.range->start);
        if (id == M::stop) return make_int(object.range->stop);
        if (id == M::step) return make_int(object.range->step);
        break;
      case Tag::slice:
        if (id == M::start) return object.slice->start;
        if (id == M::stop) return object.slice->stop;
        if (id == M::step) return object.slice->step;
        break;
      case Tag::cycler:
        if (id == M::current) return object.cycler->items[object.cycler->at];
        if (id == M::items) {
          Value items = make_list(object.cycler->size, false, Tag::tuple);
          for (std::uint32_t i = 0; i < object.cycler->size; ++i)
            append(items, object.cycler->items[i]);
          return items;
        }
        break;
      case Tag::tuple:
        if (object.list->is_group && id == M::grouper) return object.list->items[0];
        if (object.list->is_group && id == M::list) return object.list->items[1];
        break;
      case Tag::macro:
        if (id == M::name) {
          return object.macro->node->name == kNoNode ? none_value()
                                                     : program_.constants[object.macro->node->name];
        }
        if (id == M::arguments) {
          const ListRef parameters = object.macro->node->parameters;
          Value names = make_list(parameters.size, false, Tag::tuple);
          for (std::uint32_t i = 0; i < parameters.size; ++i) {
            append(names,
                   program_.constants[program_.nodes[program_.lists[parameters.begin + i]].b]);
          }
          return names;
        }
        if (id == M::catch_kwargs) return make_bool(object.macro->node->kwargs_slot != kNoNode);
        if (id == M::catch_varargs) return make_bool(object.macro->node->varargs_slot != kNoNode);
        if (id == M::caller) return make_bool(object.macro->node->caller_slot != kNoNode);
        break;
      default:
        break;
    }
  }
  if (object.is(Tag::self)) {
    for (const std::uint32_t block : program_.template_blocks) {
      if (program_.text_of(program_.blocks[block].name) != name) continue;
      Value value;
      value.tag = Tag::block;
      value.function = block;
      return value;
    }
  }
  if (falls_back && object.is_mapping()) {
    const Value found = get(object, name);
    if (!found.is(Tag::missing)) return found;
  }
  return undefined_attribute(object, name);
}

// --- slicing

Value Vm::slice(const Value& object, const Slice& bounds) {
  if (object.is(Tag::undefined)) fail_undefined(object);
  const bool is_sequence = object.is_list() || object.is(Tag::tuple) || object.is_string() ||
                           object.is(Tag::range) || object.is(Tag::bytes);
  if (object.is_mapping()) type_error("unhashable type: 'slice'");
  if (!is_sequence) {
    type_error("'" + std::string(type_name(object)) + "' object is not subscriptable");
  }
  const auto bound = [this](const Value& value) -> std::int64_t {
    if (!value.is_int()) {
      type_error("slice indices must be integers or None or have an __index__ method");
    }
    return index_of(value, "slice");
  };
  constexpr std::int64_t kFar = std::int64_t{1} << 62;
  const std::int64_t step =
      bounds.step.is(Tag::none) ? 1 : std::clamp(bound(bounds.step), -kFar, kFar);
  if (step == 0) value_error("slice step cannot be zero");
  const std::int64_t size = *length(object);
  const auto place = [&](const Value& value, std::int64_t otherwise) {
    if (value.is(Tag::none)) return otherwise;
    std::int64_t at = bound(value);
    if (at < 0) at = at + size < 0 ? (step < 0 ? -1 : 0) : at + size;
    if (at >= size) at = step < 0 ? size - 1 : size;
    return at;
  };
  const std::int64_t start = place(bounds.start, step < 0 ? size - 1 : 0);
  const std::int64_t stop = place(bounds.stop, step < 0 ? -1 : size);
  std::int64_t count = 0;
  if (step > 0 && stop > start) count = (stop - start - 1) / step + 1;
  if (step < 0 && stop < start) count = (start - stop - 1) / -step + 1;
  charge(static_cast<std::size_t>(count));
  if (object.is(Tag::range)) {
    const Range& range = *object.range;
    Value result = object;
    const auto at =
        [&range](std::int64_t index) {  // the end may overflow and wrap, which cannot be observed
          return static_cast<std::int64_t>(static_cast<std::uint64_t>(range.start) +
                                           static_cast<std::uint64_t>(index) *
                                               static_cast<std::uint64_t>(range.step));
        };
    result.range =
        arena_.make<Range>(at(start), at(stop), count > 1 ? range.step * step : range.step, count);
    return result;
  }
  if (object.is_string()) {
    const Text text = text_of(object);
    charge(text.bytes.size() * 2);
    if (step == 1) {
      if (count == 0) return make_string({}, object.is_data());
      const std::size_t begin = unicode::offset(text.bytes, static_cast<std::size_t>(start));
      const std::size_t end = unicode::offset(text.bytes, static_cast<std::size_t>(count), begin);
      Value part = substring(text, begin, end);
      part.flags |= object.flags & kMarkup;
      return part;
    }
    std::vector<std::uint32_t> offsets;
    arena_.foresee(static_cast<std::size_t>(size) * sizeof(std::uint32_t));
    offsets.reserve(static_cast<std::size_t>(size) + 1);
    for (std::size_t at = 0; at < text.bytes.size();) {
      offsets.push_back(static_cast<std::uint32_t>(at));
      static_cast<void>(unicode::next(text.bytes, at));
    }
    offsets.push_back(static_cast<std::uint32_t>(text.bytes.size()));
    const Mark mark = begin_text();
    for (std::int64_t i = 0, at = start; i < count; ++i, at += step) {
      put_text(text, offsets[static_cast<std::size_t>(at)],
               offsets[static_cast<std::size_t>(at) + 1]);
    }
    return end_text(mark);
  }
  if (object.is(Tag::bytes)) {
    std::string part;
    for (std::int64_t i = 0, at = start; i < count; ++i, at += step) {
      part += object.bytes()[static_cast<std::size_t>(at)];
    }
    return make_bytes(part, object.is_data());
  }
  Value list = make_list(static_cast<std::uint32_t>(count), object.is_data(),
                         object.is(Tag::tuple) ? Tag::tuple : Tag::list);
  for (std::int64_t i = 0, at = start; i < count; ++i, at += step)
    append(list, item_at(object, at));
  return list;
}

}  // namespace tenon::jinja
