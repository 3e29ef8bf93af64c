#include "tenon/jinja/values.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "tenon/base/hash.h"
#include "tenon/jinja/numbers.h"
#include "tenon/jinja/unicode.h"

/// Python's object protocol: bool, ==, <, in, hash and len.
///
/// Each operation is a switch over the tag of a value. Arrays and objects of the context are not
/// copied: a value refers to them, and its items become values when they are read, marked as data.
/// Values can hold each other 100,000 deep and the same list many times, so a walk over a value
/// counts its depth (Deeper) and charges a step for each item; without that, comparing or printing
/// a small template's list could take exponential time.
///
/// Equality and hash follow Python: 1, 1.0 and True are one key, and an integer and a float are
/// compared exactly.
namespace tenon::jinja {

Value Values::import(const json::Value& value) {
  Value result;
  result.flags = kData;
  switch (value.kind()) {
    case json::Kind::null:
      result.tag = Tag::none;
      break;
    case json::Kind::boolean:
      return make_bool(*value.if_bool(), true);
    case json::Kind::string: {
      const std::string& text = *value.if_string();
      // A value's size has 32 bits.
      if (text.size() > options().max_allocated_bytes || text.size() > ~0U) {
        fail_limit("a string of the context is longer than " +
                   std::to_string(options().max_allocated_bytes) + " bytes");
      }
      // Strings that the caller has declared the template's own are found by address.
      if (!options().own_values.empty() && options().own_values.contains(&value)) {
        return make_string(text, false);
      }
      const bool is_quoted =
          !options().own_begin.empty() && text.find(options().own_begin) != std::string::npos;
      return is_quoted ? import_quoted(text) : make_string(text, true);
    }
    case json::Kind::array:
      result.tag = Tag::json_list;
      result.json_list = value.if_array();
      break;
    case json::Kind::object:
      result.tag = Tag::json_dict;
      result.json_dict = value.if_object();
      break;
    case json::Kind::number: {
      const std::string& text = value.if_number()->text;
      // JSON has one kind of number; Python's json makes an int of what has neither point nor
      // exponent.
      if (text.find_first_of(".eE") != std::string::npos)
        return make_real(parse_double(text), true);
      if (text.size() > 4301) fail("ValueError", "an integer of more than 4300 digits");
      // A limb of 32 bits holds nine decimal digits.
      charge_decimals(text.size() / 9);
      return make_big(arena(), BigInt::from_decimal(text), true);
    }
  }
  return result;
}

// A text with parts of both origins: see RenderOptions::own_begin.
Value Values::import_quoted(std::string_view text) {
  charge(text.size());
  const Mark mark = begin_text();
  // The quotes alternate: before the first one is data, then the template's text, and so on.
  for (bool is_own = false; !text.empty(); is_own = !is_own) {
    const std::string_view quote = is_own ? options().own_end : options().own_begin;
    const std::size_t end = std::min(text.find(quote), text.size());
    put(text.substr(0, end), !is_own);
    text.remove_prefix(std::min(end + quote.size(), text.size()));
  }
  return end_text(mark);
}

// Python's bool(): empty, zero, None and undefined are false, everything else is true.
bool Values::truth(const Value& value) {
  switch (value.tag) {
    case Tag::missing:
    case Tag::undefined:
    case Tag::none:
      return false;
    case Tag::boolean:
      return value.boolean;
    case Tag::integer:
      return value.integer != 0;
    case Tag::real:
      return value.real != 0;
    case Tag::string:
    case Tag::rope:
    case Tag::bytes:
      return value.size != 0;
    case Tag::list:
    case Tag::tuple:
      return value.list->size != 0;
    case Tag::json_list:
      return !value.json_list->empty();
    case Tag::dict:
    case Tag::json_dict:
      return entry_count(value) != 0;
    case Tag::range:
      return value.range->size != 0;
    case Tag::view:
      return entry_count(value.view->dict) != 0;
    // May have to walk over what is left, see length().
    case Tag::loop:
      return *length(value) != 0;
    default:
      return true;
  }
}

// --- comparing

// Returns less than 0, 0 or more. `is_unordered`: one is nan, which is neither less nor equal.
int Values::compare_numbers(const Value& a, const Value& b, bool& is_unordered) {
  is_unordered = false;
  if (a.is(Tag::integer) && b.is(Tag::integer)) {
    return a.integer < b.integer ? -1 : a.integer > b.integer ? 1 : 0;
  }
  for (const Value* number : {&a, &b}) {
    if (number->is(Tag::big_integer)) charge(number->big->count);
  }
  if (!a.is(Tag::real) && !b.is(Tag::real)) return BigInt::compare(big_of(a), big_of(b));
  if (a.is(Tag::real) && b.is(Tag::real)) {
    is_unordered = std::isnan(a.real) || std::isnan(b.real);
    return a.real < b.real ? -1 : a.real > b.real ? 1 : 0;
  }
  // Compares an int and a float exactly, without rounding the int.
  const bool is_real_left = a.is(Tag::real);
  const double real = is_real_left ? a.real : b.real;
  const BigInt whole = big_of(is_real_left ? b : a);
  int order;  // of the int against the float
  if (std::isnan(real)) {
    is_unordered = true;
    return 0;
  }
  if (std::isinf(real)) {
    order = real > 0 ? -1 : 1;
  } else {
    order = BigInt::compare(whole, BigInt::from_double(real));
    const double rest = real - std::trunc(real);
    if (order == 0 && rest != 0) order = rest > 0 ? -1 : 1;
  }
  return is_real_left ? -order : order;
}

bool Values::equal(const Value& a, const Value& b) {
  // The most common comparison of a template (`role == "user"`) comes first, and counts little.
  if (a.is(Tag::string) && b.is(Tag::string)) {
    count(a.size / 64);
    return a.bytes() == b.bytes();
  }
  // A bool, an int and a float are equal if their values are.
  if (a.is_number() && b.is_number()) {
    bool is_unordered = false;
    return compare_numbers(a, b, is_unordered) == 0 && !is_unordered;
  }
  if (a.is_string() && b.is_string()) {
    if (a.size != b.size) return false;
    charge(a.size / 4);
    return text_of(a).bytes == text_of(b).bytes;
  }
  if (a.is(Tag::undefined) || b.is(Tag::undefined)) return a.tag == b.tag;
  if (identical(a, b)) return true;
  const bool is_sequence = (a.is_list() && b.is_list()) || (a.is(Tag::tuple) && b.is(Tag::tuple));
  // Views of keys and items compare as sets do; views of values are only equal to themselves.
  const bool is_view = a.is(Tag::view) && b.is(Tag::view) && a.view->kind == b.view->kind &&
                       a.view->kind != View::Kind::values;
  if (is_view || (a.is_mapping() && b.is_mapping())) {
    const Deeper deeper(*this);
    const Value& left = is_view ? a.view->dict : a;
    const Value& right = is_view ? b.view->dict : b;
    if (entry_count(left) != entry_count(right)) return false;
    for (std::size_t i = 0; i < entry_count(left); ++i) {
      Value key;
      Value value;
      entry_at(left, i, key, value);
      // Keys are looked up, so the order of entries does not matter.
      const Value other = get(right, key);
      if (other.is(Tag::missing)) return false;
      if (is_view && a.view->kind == View::Kind::keys) continue;
      // In containers, Python asks `is` before `==`.
      if (!identical(value, other) && !equal(value, other)) return false;
    }
    return true;
  }
  if (is_sequence) {
    const Deeper deeper(*this);
    const std::int64_t size = *length(a);
    if (size != *length(b)) return false;
    for (std::int64_t i = 0; i < size; ++i) {
      step();
      const Value left = item_at(a, i);
      const Value right = item_at(b, i);
      if (!identical(left, right) && !equal(left, right)) return false;
    }
    return true;
  }
  if (a.is(Tag::range) && b.is(Tag::range)) {
    const Range& left = *a.range;
    const Range& right = *b.range;
    // Ranges are equal if their items are.
    return left.size == right.size &&
           (left.size == 0 ||
            (left.start == right.start && (left.size == 1 || left.step == right.step)));
  }
  if (a.is(Tag::bytes) && b.is(Tag::bytes)) return a.bytes() == b.bytes();
  return false;
}

bool Values::less(const Value& a, const Value& b, const char* sign) {
  const auto holds = [sign](int order) {
    return sign[0] == '<' ? (order < 0 || (order == 0 && sign[1] == '='))
                          : (order > 0 || (order == 0 && sign[1] == '='));
  };
  if (a.is(Tag::undefined)) fail_undefined(a);
  if (b.is(Tag::undefined)) fail_undefined(b);
  if (a.is_number() && b.is_number()) {
    bool is_unordered = false;
    const int order = compare_numbers(a, b, is_unordered);
    return !is_unordered && holds(order);
  }
  if (a.is_string() && b.is_string()) {
    // The order of UTF-8 bytes is the order of code points.
    charge(std::min(a.size, b.size) / 4);
    const int order = text_of(a).bytes.compare(text_of(b).bytes);
    return holds(order);
  }
  if (a.is(Tag::bytes) && b.is(Tag::bytes)) {
    charge(std::min(a.size, b.size) / 4);
    return holds(a.bytes().compare(b.bytes()));
  }
  if ((a.is_list() && b.is_list()) || (a.is(Tag::tuple) && b.is(Tag::tuple))) {
    const Deeper deeper(*this);
    const std::int64_t left_size = *length(a);
    const std::int64_t right_size = *length(b);
    // The first items that differ decide; if none do, the shorter one is less.
    for (std::int64_t i = 0; i < std::min(left_size, right_size); ++i) {
      step();
      const Value left = item_at(a, i);
      const Value right = item_at(b, i);
      if (!identical(left, right) && !equal(left, right)) return less(left, right, sign);
    }
    return holds(left_size < right_size ? -1 : left_size > right_size ? 1 : 0);
  }
  type_error("'" + std::string(sign) + "' not supported between instances of '" +
             std::string(type_name(a)) + "' and '" + std::string(type_name(b)) + "'");
}

bool Values::contains(const Value& container, const Value& item) {
  switch (container.tag) {
    case Tag::string:
    case Tag::rope: {
      if (item.is(Tag::undefined) || !item.is_string()) {
        type_error("'in <string>' requires string as left operand, not " +
                   std::string(type_name(item)));
      }
      const std::string_view text = text_of(container).bytes;
      charge(text.size());
      return unicode::find(text, text_of(item).bytes) != std::string_view::npos;
    }
    case Tag::bytes:
      charge(container.size);
      if (item.is(Tag::bytes)) {
        return container.bytes().find(item.bytes()) != std::string_view::npos;
      }
      if (!item.is_int()) {
        type_error("a bytes-like object is required, not '" + std::string(type_name(item)) + "'");
      }
      break;
    case Tag::dict:
    case Tag::json_dict:
      // For its error: an unhashable value cannot be asked for, even in a dict of the context.
      static_cast<void>(hash(item));
      return !get(container, item).is(Tag::missing);
    case Tag::range: {
      const Range& range = *container.range;
      // A float counts if it is a whole number, as 2.0 is in range(3); beyond 1e15 it is not looked
      // for.
      if (!item.is(Tag::integer) && !item.is(Tag::boolean)) {
        if (!item.is(Tag::real) || std::trunc(item.real) != item.real ||
            std::fabs(item.real) > 1e15) {
          return false;
        }
      }
      const std::int64_t wanted = item.is(Tag::real)      ? static_cast<std::int64_t>(item.real)
                                  : item.is(Tag::boolean) ? item.boolean
                                                          : item.integer;
      // Linear, and counted; Python computes it. Ranges in templates are short.
      for (std::int64_t i = 0; i < range.size; ++i) {
        step();
        if (range.start + i * range.step == wanted) return true;
      }
      return false;
    }
    case Tag::view:
      if (container.view->kind == View::Kind::keys) return contains(container.view->dict, item);
      break;
    case Tag::undefined:
      return false;
    default:
      break;
  }
  // The rest is asked item by item.
  if (!container.is(Tag::iterator) && !container.is(Tag::loop) && !length(container)) {
    type_error("argument of type '" + std::string(type_name(container)) + "' is not iterable");
  }
  Iterator* source = iterate(container);
  Value candidate;
  while (next(*source, candidate)) {
    if (identical(candidate, item) || equal(candidate, item)) return true;
  }
  return false;
}

std::uint64_t Values::hash(const Value& value) {
  // 2^64 divided by the golden ratio: neighbouring numbers get hashes far apart.
  constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15ULL;
  switch (value.tag) {
    case Tag::string:
    case Tag::rope: {
      charge(value.size / 4);
      // Keyed, because keys come from clients, who must not be able to choose ones that collide.
      return keyed_hash(text_of(value).bytes);
    }
    case Tag::none:
      return 1;
    case Tag::undefined:
      return 2;
    case Tag::boolean:
      return (value.boolean ? 1U : 0U) * kMix + 3;
    case Tag::integer:
      return static_cast<std::uint64_t>(value.integer) * kMix + 3;
    case Tag::big_integer:
      // By its nearest double, since it may equal one. Equal hashes of different numbers do no
      // harm.
      return std::bit_cast<std::uint64_t>(big_of(value).to_double()) * kMix + 4;
    case Tag::real:
      if (std::trunc(value.real) == value.real && std::fabs(value.real) < 0x1p63) {
        return static_cast<std::uint64_t>(static_cast<std::int64_t>(value.real)) * kMix + 3;
      }
      return std::bit_cast<std::uint64_t>(value.real) * kMix + 4;
    case Tag::tuple: {
      const Deeper deeper(*this);
      std::uint64_t sum = 6;
      for (std::uint32_t i = 0; i < value.list->size; ++i) {
        sum = (sum ^ hash(value.list->items[i])) * kMix;
      }
      return sum;
    }
    case Tag::list:
    case Tag::json_list:
    case Tag::dict:
    case Tag::json_dict:
    case Tag::slice:
      type_error("unhashable type: '" + std::string(type_name(value)) + "'");
    case Tag::view:
      if (value.view->kind != View::Kind::values) type_error("unhashable type: 'dict_keys'");
      break;
    default:
      break;
  }
  // Everything else is equal only to itself.
  return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(value.pointer)) * kMix;
}

std::optional<std::int64_t> Values::length(const Value& value) {
  switch (value.tag) {
    case Tag::undefined:
      return 0;
    case Tag::string:
    case Tag::rope:
      return static_cast<std::int64_t>(length_of_text(value));
    case Tag::bytes:
      return value.size;
    case Tag::list:
    case Tag::tuple:
      return value.list->size;
    case Tag::json_list:
      return static_cast<std::int64_t>(value.json_list->size());
    case Tag::dict:
    case Tag::json_dict:
      return static_cast<std::int64_t>(entry_count(value));
    case Tag::range:
      return value.range->size;
    case Tag::view:
      return static_cast<std::int64_t>(entry_count(value.view->dict));
    case Tag::loop: {
      Loop& loop = *value.loop;
      if (loop.length >= 0) return loop.length;
      // A generator has no length. As jinja2 does, what is left of it becomes a list, over which
      // the loop goes on. Items that were taken already, and the one that was looked at ahead, are
      // added.
      if (const auto known = length(loop.iterable)) {
        loop.length = *known;
      } else {
        const Value rest = collect(of_iterator(loop.source));
        loop.source = iterate(rest);
        loop.length = rest.list->size + loop.index0 + 1 + (loop.after.is(Tag::missing) ? 0 : 1);
      }
      return loop.length;
    }
    default:
      return std::nullopt;
  }
}

std::int64_t Values::length_or_fail(const Value& value) {
  const std::optional<std::int64_t> size = length(value);
  if (!size) type_error("object of type '" + std::string(type_name(value)) + "' has no len()");
  return *size;
}

}  // namespace tenon::jinja
