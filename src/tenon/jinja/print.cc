#include <cstdio>
#include <string>

#include "tenon/base/utf8.h"
#include "tenon/jinja/builtins.h"
#include "tenon/jinja/numbers.h"
#include "tenon/jinja/runtime.h"
#include "tenon/jinja/unicode.h"

/// Python's str and repr. repr chooses quotes and escapes as Python does, and keeps the origin of
/// every byte.
namespace tenon::jinja {

Value Runtime::to_string(const Value& value) {
  if (value.is_string()) return value;
  const Mark mark = begin_text();
  print(value);
  return end_text(mark);
}

// str(value): the bytes of a string, nothing for an undefined value, else its repr.
void Runtime::print(const Value& value) {
  if (value.is(Tag::string)) {
    put(value.bytes(), value.is_data());
  } else if (value.is(Tag::rope)) {
    // Its parts are written one by one, without joining them first.
    put_string(value);
  } else if (!value.is(Tag::undefined)) {
    repr(value);
  }
}

Value Runtime::to_repr(const Value& value) {
  const Mark mark = begin_text();
  repr(value);
  return end_text(mark);
}

// Uses the text buffer and drops what it has put there.
std::string Runtime::described(const Value& value) {
  const Mark mark = begin_text();
  repr(value);
  std::string text(text_since(mark));
  drop_text(mark);
  if (text.size() > 60) {
    // Not inside a character.
    text.resize(60);
    text.resize(utf8::valid_prefix(text));
    text += "...";
  }
  return text;
}

void Runtime::repr_string(const Text& text) {
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
    // An escape has the origin of its character.
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

void Runtime::repr_bytes(const Value& value) {
  const bool is_data = value.is_data();
  const bool has_single = value.bytes().find('\'') != std::string_view::npos;
  const bool has_double = value.bytes().find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  // b'text', with the quotes by the same rule as for strings.
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
}

void Runtime::repr(const Value& value) {
  const bool is_data = value.is_data();
  // Bounds the recursion, also where a list contains itself.
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
      // The digits are made before they are counted, so the work is charged first.
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
      if (is_tuple && size == 1) put(",", is_data);  // (1,)
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
        put("<Macro '" + std::string(program().text_of(value.macro->node->name)) + "'>", false);
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
    case Tag::bytes:
      repr_bytes(value);
      return;
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

}  // namespace tenon::jinja
