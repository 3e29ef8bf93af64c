#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tenon/base/hash.h"
#include "tenon/base/utf8.h"
#include "tenon/jinja/numbers.h"
#include "tenon/jinja/vm.h"

/// Python's object protocol: str, repr, bool, ==, <, in, hash, len, and its containers.
///
/// Each operation is a switch over the tag of a value. Arrays and objects of the context are not
/// copied: a value refers to them, and its items become values when they are read, marked as data.
/// Values can hold each other 100,000 deep and the same list many times, so a walk over a value
/// counts its depth (Deeper) and charges a step for each item; without that, comparing or printing
/// a small template's list could take exponential time.
///
/// Equality and hash follow Python: 1, 1.0 and True are one key, an integer and a float are
/// compared exactly, and a dict keeps the order of insertion. Small dicts are searched, larger ones
/// have a table with open addressing. repr chooses quotes and escapes as Python does, and keeps the
/// origin of every byte.
namespace tenon::jinja {

std::string_view Vm::type_name(const Value& value) const {
  switch (value.tag) {
    case Tag::missing:
    case Tag::undefined:
      return "Undefined";
    case Tag::none:
      return "NoneType";
    case Tag::boolean:
      return "bool";
    case Tag::integer:
    case Tag::big_integer:
      return "int";
    case Tag::real:
      return "float";
    case Tag::string:
    case Tag::rope:
      return value.is_markup() ? "Markup" : "str";
    case Tag::list:
    case Tag::json_list:
      return "list";
    case Tag::tuple:
      return "tuple";
    case Tag::dict:
    case Tag::json_dict:
      return "dict";
    case Tag::range:
      return "range";
    case Tag::name_space:
      return "TemplateNamespace";
    case Tag::macro:
      return "Macro";
    case Tag::method:
      return "builtin_function_or_method";
    case Tag::function:
      return "function";
    case Tag::loop:
      return "LoopContext";
    case Tag::iterator:
      return value.iterator->type_name;
    case Tag::view:
      return value.view->kind == View::Kind::keys     ? "dict_keys"
             : value.view->kind == View::Kind::values ? "dict_values"
                                                      : "dict_items";
    case Tag::cycler:
      return "Cycler";
    case Tag::joiner:
      return "Joiner";
    case Tag::slice:
      return "slice";
    case Tag::bytes:
      return "bytes";
    case Tag::self:
      return "TemplateReference";
    case Tag::block:
      return "BlockReference";
  }
  return "object";
}

std::string Vm::object_name(Tag tag) const {
  if (tag == Tag::none) return "None";
  Value value;
  value.tag = tag;
  if (tag == Tag::iterator) return "generator object";
  if (tag == Tag::view) return "dict view object";
  return std::string(type_name(value)) + " object";
}

Value Vm::import(const json::Value& value) {
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
      if (text.size() > options_.max_allocated_bytes || text.size() > ~0U) {
        fail_limit("a string of the context is longer than " +
                   std::to_string(options_.max_allocated_bytes) + " bytes");
      }
      if (!options_.own_values.empty() && options_.own_values.contains(&value)) {
        return make_string(text, false);
      }
      const bool is_quoted =
          !options_.own_begin.empty() && text.find(options_.own_begin) != std::string::npos;
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
      if (text.find_first_of(".eE") != std::string::npos)
        return make_real(parse_double(text), true);
      if (text.size() > 4301) fail("ValueError", "an integer of more than 4300 digits");
      charge_decimals(text.size() / 9);
      return make_big(arena_, BigInt::from_decimal(text), true);
    }
  }
  return result;
}

// A text with parts of both origins: see RenderOptions::own_begin.
Value Vm::import_quoted(std::string_view text) {
  charge(text.size());
  const Mark mark = begin_text();
  for (bool is_own = false; !text.empty(); is_own = !is_own) {
    const std::string_view quote = is_own ? options_.own_end : options_.own_begin;
    const std::size_t end = std::min(text.find(quote), text.size());
    put(text.substr(0, end), !is_own);
    text.remove_prefix(std::min(end + quote.size(), text.size()));
  }
  return end_text(mark);
}

bool Vm::truth(const Value& value) {
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
    case Tag::loop:
      return *length(value) != 0;
    default:
      return true;
  }
}

// --- comparing

int Vm::compare_numbers(const Value& a, const Value& b, bool& is_unordered) {
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

bool Vm::identical(const Value& a, const Value& b) const {
  if (a.tag != b.tag) return false;
  switch (a.tag) {
    case Tag::none:
      return true;
    case Tag::boolean:
      return a.boolean == b.boolean;
    case Tag::integer:
    case Tag::function:
      return a.integer == b.integer;
    case Tag::string:
      return a.text == b.text && a.size == b.size;
    case Tag::real:
    case Tag::undefined:
      return false;
    default:
      return a.pointer == b.pointer;
  }
}

bool Vm::equal(const Value& a, const Value& b) {
  if (a.is(Tag::string) && b.is(Tag::string)) {
    steps_ += a.size / 64;
    return a.bytes() == b.bytes();
  }
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
      const Value other = get(right, key);
      if (other.is(Tag::missing)) return false;
      if (is_view && a.view->kind == View::Kind::keys) continue;
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
    return left.size == right.size &&
           (left.size == 0 ||
            (left.start == right.start && (left.size == 1 || left.step == right.step)));
  }
  if (a.is(Tag::bytes) && b.is(Tag::bytes)) return a.bytes() == b.bytes();
  return false;
}

bool Vm::less(const Value& a, const Value& b, const char* sign) {
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

bool Vm::contains(const Value& container, const Value& item) {
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
      static_cast<void>(hash(item));
      return !get(container, item).is(Tag::missing);
    case Tag::range: {
      const Range& range = *container.range;
      if (!item.is(Tag::integer) && !item.is(Tag::boolean)) {
        if (!item.is(Tag::real) || std::trunc(item.real) != item.real ||
            std::fabs(item.real) > 1e15) {
          return false;
        }
      }
      const std::int64_t wanted = item.is(Tag::real)      ? static_cast<std::int64_t>(item.real)
                                  : item.is(Tag::boolean) ? item.boolean
                                                          : item.integer;
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

std::uint64_t Vm::hash(const Value& value) {
  constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15ULL;
  switch (value.tag) {
    case Tag::string:
    case Tag::rope: {
      charge(value.size / 4);
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
  return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(value.pointer)) * kMix;
}

std::optional<std::int64_t> Vm::length(const Value& value) {
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

std::int64_t Vm::length_or_fail(const Value& value) {
  const std::optional<std::int64_t> size = length(value);
  if (!size) type_error("object of type '" + std::string(type_name(value)) + "' has no len()");
  return *size;
}

// --- writing

Value Vm::to_string(const Value& value) {
  if (value.is_string()) return value;
  const Mark mark = begin_text();
  print(value);
  return end_text(mark);
}

void Vm::print(const Value& value) {
  if (value.is(Tag::string)) {
    put(value.bytes(), value.is_data());
  } else if (value.is(Tag::rope)) {
    put_string(value);
  } else if (!value.is(Tag::undefined)) {
    repr(value);
  }
}

std::string Vm::described(const Value& value) {
  const Mark mark = begin_text();
  repr(value);
  std::string text = out_.substr(mark.size);
  drop_text(mark);
  if (text.size() > 60) {
    text.resize(60);
    text.resize(utf8::valid_prefix(text));
    text += "...";
  }
  return text;
}

void Vm::repr_string(const Text& text) {
  // repr uses single quotes, unless the text has some and has no double ones.
  const bool is_data = text.runs != nullptr ? text.runs[0].is_data : text.is_data;
  const char quote = text.bytes.find('\'') != std::string_view::npos &&
                             text.bytes.find('"') == std::string_view::npos
                         ? '"'
                         : '\'';
  put(quote, is_data);
  std::size_t begin = 0;
  charge(text.bytes.size() * 2);
  for (std::size_t at = 0; at < text.bytes.size();) {
    const std::size_t start = at;
    const char32_t point = unicode::next(text.bytes, at);
    char escape = '\0';
    if (point == static_cast<unsigned char>(quote) || point == '\\') {
      escape = static_cast<char>(point);
    } else if (point == '\n') {
      escape = 'n';
    } else if (point == '\r') {
      escape = 'r';
    } else if (point == '\t') {
      escape = 't';
    } else if ((point >= ' ' && point < 0x7F) ||
               (point >= 0x7F && unicode::is(point, unicode::kPrintable))) {
      continue;
    }
    put_text(text, begin, start);
    begin = at;
    const bool of_data = text.is_data_at(start);
    if (escape != '\0') {
      const char both[2] = {'\\', escape};
      put({both, 2}, of_data);
    } else {
      char digits[12];
      const int size = std::snprintf(digits, sizeof(digits),
                                     point < 0x100     ? "\\x%02x"
                                     : point < 0x10000 ? "\\u%04x"
                                                       : "\\U%08x",
                                     static_cast<unsigned>(point));
      put({digits, static_cast<std::size_t>(size)}, of_data);
    }
  }
  put_text(text, begin, text.bytes.size());
  put(quote, is_data);
}

void Vm::repr(const Value& value) {
  const bool is_data = value.is_data();
  const Deeper deeper(*this);
  switch (value.tag) {
    case Tag::missing:
    case Tag::undefined:
      put("Undefined", false);
      return;
    case Tag::none:
      put("None", is_data);
      return;
    case Tag::boolean:
      put(value.boolean ? "True" : "False", is_data);
      return;
    case Tag::integer:
      put(std::to_string(value.integer), is_data);
      return;
    case Tag::big_integer: {
      charge_decimals(value.big->count);
      const std::string digits = big_of(value).to_string();
      if (digits.size() > 4301) {
        value_error("Exceeds the limit (4300 digits) for integer string conversion");
      }
      put(digits, is_data);
      return;
    }
    case Tag::real:
      put(repr_of_double(value.real), is_data);
      return;
    case Tag::string:
    case Tag::rope:
      if (value.is_markup()) put("Markup(", false);
      repr_string(text_of(value));
      if (value.is_markup()) put(")", false);
      return;
    case Tag::list:
    case Tag::json_list:
    case Tag::tuple: {
      const bool is_tuple = value.is(Tag::tuple);
      const std::int64_t size = *length(value);
      put(is_tuple ? "(" : "[", is_data);
      for (std::int64_t i = 0; i < size; ++i) {
        if (i != 0) put(", ", is_data);
        repr(item_at(value, i));
      }
      if (is_tuple && size == 1) put(",", is_data);
      put(is_tuple ? ")" : "]", is_data);
      return;
    }
    case Tag::name_space:
    case Tag::dict:
    case Tag::json_dict: {
      const bool is_space = value.is(Tag::name_space);
      put(is_space ? "<Namespace {" : "{", is_data);
      for (std::size_t i = 0; i < entry_count(value); ++i) {
        Value key;
        Value item;
        entry_at(value, i, key, item);
        if (i != 0) put(", ", is_data);
        repr(key);
        put(": ", is_data);
        repr(item);
      }
      put(is_space ? "}>" : "}", is_data);
      return;
    }
    case Tag::range: {
      const Range& range = *value.range;
      put("range(" + std::to_string(range.start) + ", " + std::to_string(range.stop) +
              (range.step == 1 ? "" : ", " + std::to_string(range.step)) + ")",
          is_data);
      return;
    }
    case Tag::macro:
      if (value.macro->node->name == kNoNode) {
        put("<Macro anonymous>", false);
      } else {
        put("<Macro '" + std::string(program_.text_of(value.macro->node->name)) + "'>", false);
      }
      return;
    case Tag::loop:
      put("<LoopContext " + std::to_string(value.loop->index0 + 1) + "/" +
              std::to_string(*length(value)) + ">",
          false);
      return;
    case Tag::view: {
      put(type_name(value), false);
      put("([", false);
      Iterator* source = iterate(value);
      Value item;
      for (bool is_first = true; next(*source, item); is_first = false) {
        if (!is_first) put(", ", is_data);
        repr(item);
      }
      put("])", false);
      return;
    }
    case Tag::bytes: {
      const bool has_single = value.bytes().find('\'') != std::string_view::npos;
      const bool has_double = value.bytes().find('"') != std::string_view::npos;
      const char quote = has_single && !has_double ? '"' : '\'';
      put(std::string{'b', quote}, is_data);
      for (const char c : value.bytes()) {
        if (c >= ' ' && c < 0x7F && c != quote && c != '\\') {
          put(c, is_data);
        } else if (c == quote || c == '\\') {
          put(std::string{'\\', c}, is_data);
        } else {
          char digits[8];
          const int size = c == '\n'   ? std::snprintf(digits, 8, "\\n")
                           : c == '\t' ? std::snprintf(digits, 8, "\\t")
                           : c == '\r'
                               ? std::snprintf(digits, 8, "\\r")
                               : std::snprintf(digits, 8, "\\x%02x", static_cast<unsigned char>(c));
          put({digits, static_cast<std::size_t>(size)}, is_data);
        }
      }
      put(quote, is_data);
      return;
    }
    case Tag::slice:
      put("slice(", false);
      repr(value.slice->start);
      put(", ", false);
      repr(value.slice->stop);
      put(", ", false);
      repr(value.slice->step);
      put(")", false);
      return;
    case Tag::self:
      put("<TemplateReference None>", false);
      return;
    case Tag::method:
      put("<built-in method " + std::string(method_name(static_cast<MethodId>(value.method->id))) +
              " of " + std::string(type_name(value.method->self)) + " object>",
          false);
      return;
    case Tag::function:
      put("<function " + std::string(function_name(static_cast<FunctionId>(value.function))) + ">",
          false);
      return;
    default:
      put("<" + std::string(type_name(value)) + " object>", false);
      return;
  }
}

// --- lists

Value Vm::make_list(std::uint32_t capacity, bool is_data, Tag tag) {
  Value value;
  value.tag = tag;
  value.flags = is_data ? kData : 0;
  value.list = arena_.make<List>(arena_.array<Value>(capacity), 0U, capacity, false);
  return value;
}

void Vm::append(Value& value, const Value& item) {
  List& list = *value.list;
  if (list.size == list.capacity) {
    const std::uint32_t capacity = std::max(4U, list.capacity * 2);
    auto* items = arena_.array<Value>(capacity);
    std::copy_n(list.items, list.size, items);
    list.items = items;
    list.capacity = capacity;
  }
  list.items[list.size++] = item;
}

Value Vm::pair(const Value& first, const Value& second, bool is_data) {
  Value value = make_list(2, is_data, Tag::tuple);
  append(value, first);
  append(value, second);
  return value;
}

Value Vm::item_at(const Value& sequence, std::int64_t index) {
  switch (sequence.tag) {
    case Tag::list:
    case Tag::tuple:
      return sequence.list->items[index];
    case Tag::json_list:
      return import((*sequence.json_list)[static_cast<std::size_t>(index)]);
    case Tag::range:
      return make_int(sequence.range->start + index * sequence.range->step, sequence.is_data());
    case Tag::bytes:
      return make_int(static_cast<unsigned char>(sequence.bytes()[static_cast<std::size_t>(index)]),
                      sequence.is_data());
    default: {
      const Text text = text_of(sequence);
      const auto wanted = static_cast<std::size_t>(index);
      charge(wanted * 2);
      const std::size_t begin = unicode::offset(text.bytes, wanted);
      return substring(text, begin, unicode::offset(text.bytes, 1, begin));
    }
  }
}

// --- dicts

Value Vm::make_dict(bool is_data) {
  Value value;
  value.tag = Tag::dict;
  value.flags = is_data ? kData : 0;
  value.dict = arena_.make<Dict>(nullptr, 0U, 0U, nullptr, 0U);
  return value;
}

Value* Vm::find(const Dict& dict, const Value& key) {
  if (dict.size == 0) return nullptr;
  if (dict.slots == nullptr && key.is(Tag::string)) return find(dict, key.bytes());
  const std::uint64_t wanted = hash(key);
  if (dict.slots == nullptr) {
    for (std::uint32_t i = 0; i < dict.size; ++i) {
      Dict::Entry& entry = dict.entries[i];
      if (entry.hash == wanted && (identical(entry.key, key) || equal(entry.key, key))) {
        return &entry.value;
      }
    }
    return nullptr;
  }
  for (std::uint64_t slot = wanted;; ++slot) {
    step();
    const std::uint32_t number = dict.slots[slot & (dict.slot_count - 1)];
    if (number == 0) return nullptr;
    Dict::Entry& entry = dict.entries[number - 1];
    if (entry.hash == wanted && (identical(entry.key, key) || equal(entry.key, key))) {
      return &entry.value;
    }
  }
}

Value* Vm::find(const Dict& dict, std::string_view key) {
  if (dict.slots == nullptr) {
    for (std::uint32_t i = 0; i < dict.size; ++i) {
      Dict::Entry& entry = dict.entries[i];
      if (entry.key.is_string() && entry.key.size == key.size() &&
          text_of(entry.key).bytes == key) {
        return &entry.value;
      }
    }
    return nullptr;
  }
  return find(dict, make_string(key));
}

void Vm::set(Value& value, const Value& key, const Value& item) {
  Dict& dict = *value.dict;
  if (Value* found = find(dict, key)) {
    *found = item;
    return;
  }
  const std::uint64_t hashed = hash(key);  // fails for values that cannot be a dict's key
  if (dict.size == dict.capacity) {
    const std::uint32_t capacity = std::max(4U, dict.capacity * 2);
    auto* entries = arena_.array<Dict::Entry>(capacity);
    std::copy_n(dict.entries, dict.size, entries);
    dict.entries = entries;
    dict.capacity = capacity;
    if (capacity > 8) {
      dict.slot_count = capacity * 2;
      dict.slots = arena_.array<std::uint32_t>(dict.slot_count);
      std::fill_n(dict.slots, dict.slot_count, 0U);
      for (std::uint32_t i = 0; i < dict.size; ++i) {
        std::uint64_t slot = entries[i].hash;
        while (dict.slots[slot & (dict.slot_count - 1)] != 0) ++slot;
        dict.slots[slot & (dict.slot_count - 1)] = i + 1;
      }
    }
  }
  dict.entries[dict.size++] = {key, item, hashed};
  if (dict.slots == nullptr) return;
  std::uint64_t slot = hashed;
  while (dict.slots[slot & (dict.slot_count - 1)] != 0) {
    ++slot;
    step();
  }
  dict.slots[slot & (dict.slot_count - 1)] = dict.size;
}

bool Vm::erase(Dict& dict, const Value& key, Value& value) {
  Value* found = find(dict, key);
  if (found == nullptr) return false;
  value = *found;
  std::uint32_t at = 0;
  while (&dict.entries[at].value != found) ++at;
  std::copy(dict.entries + at + 1, dict.entries + dict.size, dict.entries + at);
  --dict.size;
  charge(dict.size);
  if (dict.slots != nullptr) {
    std::fill_n(dict.slots, dict.slot_count, 0U);
    for (std::uint32_t i = 0; i < dict.size; ++i) {
      std::uint64_t slot = dict.entries[i].hash;
      while (dict.slots[slot & (dict.slot_count - 1)] != 0) ++slot;
      dict.slots[slot & (dict.slot_count - 1)] = i + 1;
    }
  }
  return true;
}

Value Vm::get(const Value& mapping, const Value& key) {
  if (mapping.is(Tag::json_dict)) {
    if (!key.is_string()) return {};
    return get(mapping, text_of(key).bytes);
  }
  const Value* found = find(*mapping.dict, key);
  return found == nullptr ? Value{} : *found;
}

Value Vm::get(const Value& mapping, std::string_view key) {
  if (mapping.is(Tag::json_dict)) {
    const json::Value* found = mapping.json_dict->find(key);
    return found == nullptr ? Value{} : import(*found);
  }
  const Value* found = find(*mapping.dict, key);
  return found == nullptr ? Value{} : *found;
}

std::size_t Vm::entry_count(const Value& mapping) const {
  return mapping.is(Tag::json_dict) ? mapping.json_dict->size() : mapping.dict->size;
}

void Vm::entry_at(const Value& mapping, std::size_t index, Value& key, Value& value) {
  step();
  if (mapping.is(Tag::json_dict)) {
    const json::Member& member = mapping.json_dict->members()[index];
    key = make_string(member.key, true);
    value = import(member.value);
    return;
  }
  key = mapping.dict->entries[index].key;
  value = mapping.dict->entries[index].value;
}

}  // namespace tenon::jinja
