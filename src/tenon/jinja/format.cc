#include "tenon/jinja/format.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tenon/base/utf8.h"
#include "tenon/jinja/builtins.h"
#include "tenon/jinja/indexing.h"
#include "tenon/jinja/markup.h"
#include "tenon/jinja/numbers.h"
#include "tenon/jinja/operators.h"
#include "tenon/jinja/unicode.h"

/// Python's two ways of filling in text: `%` and str.format with its specifications.
///
/// Both read a specification (Spec: fill, alignment, sign, width, precision, type) and pass it to
/// the same functions that write integers, floats and strings, so the two ways differ only in how
/// they find their arguments. Floats are written by format_double()
/// (numbers.h). Each part of the result keeps its origin: text of the pattern
/// counts as the pattern, an inserted string keeps its runs, and a number has the origin of its
/// value. Widths and precisions come from templates and are bounded before memory is used; errors
/// are worded as Python words them.
namespace tenon::jinja {
namespace {

constexpr std::int64_t kMaxPrecision = 1000;  // digits after the point; a double has no more

struct Spec {
  std::string_view fill = " ";
  bool fill_is_data = false;
  char align = '\0';  // '<', '>', '^', '=' or none given
  char sign = '-';    // '-': only a minus is shown; '+': both signs; ' ': a space for the plus
  bool drops_minus_zero = false;  // 'z': a number that is written with zeros alone has no minus
  bool alternate = false;         // '#': writes 0x, 0o or 0b
  std::int64_t width = 0;
  char grouping = '\0';         // ',' or '_'
  std::int64_t precision = -1;  // -1: none given
  char type = '\0';             // the letter at the end; '\0': none given
};

bool is_width_digit(char c) {
  return c >= '0' && c <= '9';
}

// Reads digits from `at` on; 0 if there is no digit. The number stops growing at 2^40, which is
// more than any limit on widths and indexes allows, so it cannot overflow.
std::int64_t read_number(std::string_view text, std::size_t& at) {
  std::int64_t value = 0;
  while (at < text.size() && is_width_digit(text[at])) {
    value = std::min<std::int64_t>(value * 10 + (text[at++] - '0'), std::int64_t{1} << 40);
  }
  return value;
}

// Puts separators between groups of digits, three in base 10 and four in others. `end` is where the
// whole part of the number ends. Zeros are put in front until all of it has `width` characters:
// they are grouped, too, and the first character is a digit ("0,001" for 1 and 4 characters).
std::string grouped(const std::string& number, std::size_t end, char separator, std::size_t each,
                    std::int64_t width) {
  const auto missing = width - static_cast<std::int64_t>(number.size() - end);
  const std::size_t least = missing > 0 ? static_cast<std::size_t>(missing) : 0;
  std::size_t digits = end;
  while (digits + (digits - 1) / each < least) ++digits;
  std::string out;
  for (std::size_t i = 0; i < digits; ++i) {
    if (i != 0 && (digits - i) % each == 0) out += separator;
    out += i < digits - end ? '0' : number[i - (digits - end)];
  }
  return out + number.substr(end);
}

/// Puts `prefix` (sign, 0x) and `digits` into a field; zeros for padding go between them.
void put_number(Runtime& rt, const Spec& spec, const std::string& prefix, const std::string& digits,
                bool is_data) {
  const std::int64_t missing =
      spec.width - static_cast<std::int64_t>(prefix.size() + unicode::length(digits));
  const char align = spec.align == '\0' ? '>' : spec.align;
  const std::int64_t left = missing <= 0                   ? 0
                            : align == '>' || align == '=' ? missing
                            : align == '^'                 ? missing / 2
                                                           : 0;
  // With '=' the padding stands behind the sign, as in "-0005".
  if (align != '=') rt.put_repeated(spec.fill, left, spec.fill_is_data);
  rt.put(prefix, is_data);
  if (align == '=') rt.put_repeated(spec.fill, left, spec.fill_is_data);
  rt.put(digits, is_data);
  rt.put_repeated(spec.fill, missing - left, spec.fill_is_data);
}

// How many characters the digits behind `prefix` must have, if zeros fill the field.
std::int64_t zeros_of(Runtime& rt, const Spec& spec, const std::string& prefix) {
  if (spec.fill != "0" || spec.align != '=') return 0;
  const auto width = static_cast<std::size_t>(spec.width);
  rt.charge(width);  // the walk to that many digits, and their text
  rt.arena().foresee(2 * width);
  return spec.width - static_cast<std::int64_t>(prefix.size());
}

std::string sign_of(bool is_negative, char sign) {
  if (is_negative) return "-";
  return sign == '-' ? "" : std::string(1, sign);
}

// Digits behind the point are work and memory that a few bytes of a template ask for ("%.900f"), so
// more than a handful of them are paid for before they are made.
void check_precision(Runtime& rt, std::int64_t precision) {
  if (precision > 32) rt.charge(static_cast<std::size_t>(precision) * 16);
  if (precision > kMaxPrecision) {
    rt.fail_limit("a number is asked for with more than " + std::to_string(kMaxPrecision) +
                  " digits");
  }
}

// The digits of |value| without sign. Without type and precision they are those of repr(), and with
// a precision alone they are like those of 'g', but 1.0 stays "1.0" and does not become "1".
std::string real_digits(Runtime& rt, double value, const Spec& spec) {
  check_precision(rt, spec.precision);
  const double magnitude = std::fabs(value);
  if (spec.type == '\0' && spec.precision < 0) return repr_of_double(magnitude);
  if (spec.type == '%') {
    return format_double(magnitude * 100, 'f',
                         spec.precision < 0 ? 6 : static_cast<int>(spec.precision), false) +
           "%";
  }
  const char type = spec.type == '\0' || spec.type == 'n' ? 'g' : spec.type;
  std::string digits = format_double(
      magnitude, type, spec.precision < 0 ? 6 : static_cast<int>(spec.precision), spec.alternate);
  if (spec.type == '\0' && digits.find_first_of(".en") == std::string::npos) digits += ".0";
  return digits;
}

void format_real(Runtime& rt, double value, Spec spec, bool is_data) {
  std::string digits = real_digits(rt, value, spec);
  // A nan has no sign in Python, whatever its bit says.
  bool is_negative = std::signbit(value) && !std::isnan(value);
  if (spec.drops_minus_zero && std::isfinite(value)) {
    const std::size_t end = std::min(digits.find_first_of("eE"), digits.size());
    is_negative = is_negative && digits.find_first_of("123456789") < end;
  }
  const std::string sign = sign_of(is_negative, spec.sign);
  if (spec.grouping != '\0' && std::isfinite(value)) {
    const std::size_t end = std::min(digits.find_first_of(".eE%"), digits.size());
    digits = grouped(digits, end, spec.grouping, 3, zeros_of(rt, spec, sign));
  }
  put_number(rt, spec, sign, digits, is_data);
}

// Writes an int, a bool or a long integer. With a type of floats it is written as a float.
void format_int(Runtime& rt, const Value& value, const Spec& spec) {
  const bool is_data = value.is_data();
  BigInt number = big_of(value);
  if (std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos && spec.type != '\0') {
    return format_real(rt, number.to_double(), spec, is_data);
  }
  if (spec.precision >= 0) rt.value_error("Precision not allowed in integer format specifier");
  if (spec.drops_minus_zero) {
    rt.value_error("Negative zero coercion (z) not allowed in integer format specifier");
  }
  if (spec.type == 'c') {
    const auto point = number.to_int64().value_or(-1);
    if (point < 0 || point >= 0x110000 || (point >= 0xD800 && point < 0xE000)) {
      rt.fail("OverflowError", "%c arg not in range(0x110000)");
    }
    std::string character;
    utf8::append(character, static_cast<char32_t>(point));
    return put_number(rt, spec, "", character, is_data);
  }
  unsigned base = 10;
  std::string prefix;
  switch (spec.type) {
    case '\0':
    case 'd':
    case 'n':
      break;
    case 'x':
    case 'X':
      base = 16;
      if (spec.alternate) prefix = spec.type == 'x' ? "0x" : "0X";
      break;
    case 'o':
      base = 8;
      if (spec.alternate) prefix = "0o";
      break;
    case 'b':
      base = 2;
      if (spec.alternate) prefix = "0b";
      break;
    default:
      rt.value_error(std::string("Unknown format code '") + spec.type +
                     "' for object of type 'int'");
  }
  const bool is_negative = number.is_negative();
  if (is_negative) number = -number;
  rt.charge_decimals(number.limbs().size());
  std::string digits = number.to_string(base);
  if (spec.type == 'X') {
    for (char& c : digits) c = c >= 'a' ? static_cast<char>(c - 32) : c;
  }
  prefix = sign_of(is_negative, spec.sign) + prefix;
  if (spec.grouping != '\0') {
    digits = grouped(digits, digits.size(), spec.grouping, base == 10 ? 3 : 4,
                     zeros_of(rt, spec, prefix));
  }
  put_number(rt, spec, prefix, digits, is_data);
}

// In a string, the precision is how many characters (code points) are kept: "%.2s".
void format_text(Runtime& rt, const Text& text, const Spec& spec) {
  std::size_t end = text.bytes.size();
  if (spec.precision >= 0) {
    end = unicode::offset(text.bytes, static_cast<std::size_t>(spec.precision));
  }
  const std::int64_t missing =
      spec.width - static_cast<std::int64_t>(unicode::length(text.bytes.substr(0, end)));
  const char align = spec.align == '\0' ? '<' : spec.align;
  const std::int64_t left = missing <= 0   ? 0
                            : align == '>' ? missing
                            : align == '^' ? missing / 2
                                           : 0;
  rt.put_repeated(spec.fill, left, spec.fill_is_data);
  rt.put_text(text, 0, end);
  rt.put_repeated(spec.fill, missing - left, spec.fill_is_data);
}

// [[fill]align][sign]["z"]["#"]["0"][width][grouping]["." precision][type], the format
// specification mini-language of Python. A fill is any character, if an alignment stands behind it.
Spec read_spec(Runtime& rt, const Text& written) {
  const std::string_view text = written.bytes;
  Spec spec;
  std::size_t at = 0;
  const auto is_align = [&](std::size_t i) {
    return i < text.size() &&
           (text[i] == '<' || text[i] == '>' || text[i] == '^' || text[i] == '=');
  };
  std::size_t behind = 0;
  if (!text.empty()) static_cast<void>(unicode::next(text, behind));
  if (behind != 0 && is_align(behind)) {
    spec.fill = text.substr(0, behind);
    spec.fill_is_data = written.is_data_at(0);
    spec.align = text[behind];
    at = behind + 1;
  } else if (is_align(0)) {
    spec.align = text[0];
    at = 1;
  }
  const bool has_fill = behind != 0 && at == behind + 1;
  const auto take = [&](std::string_view characters) {
    if (at < text.size() && characters.find(text[at]) != std::string_view::npos) return text[at++];
    return '\0';
  };
  if (const char sign = take("+- ")) spec.sign = sign;
  spec.drops_minus_zero = take("z") != '\0';
  spec.alternate = take("#") != '\0';
  // "05" is short for "0=5": zeros between sign and digits, unless the fill is given.
  if (take("0") != '\0') {
    if (!has_fill) spec.fill = "0";
    if (spec.align == '\0') spec.align = '=';
  }
  spec.width = read_number(text, at);
  spec.grouping = take(",_");
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (at >= text.size() || !is_width_digit(text[at]))
      rt.value_error("Format specifier missing precision");
    spec.precision = read_number(text, at);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) rt.value_error("Invalid format specifier");
  return spec;
}

// What format(value, spec) appends. Each type has its own letters, and its own refusals.
void format_value(Runtime& rt, const Value& value, const Text& written) {
  if (written.bytes.empty()) return rt.print(value);
  const Spec spec = read_spec(rt, written);
  if (value.is_int()) return format_int(rt, value, spec);
  if (value.is(Tag::real)) {
    if (std::string_view("eEfFgGn%").find(spec.type) == std::string_view::npos &&
        spec.type != '\0') {
      rt.value_error(std::string("Unknown format code '") + spec.type +
                     "' for object of type 'float'");
    }
    return format_real(rt, value.real, spec, value.is_data());
  }
  if (!value.is_string()) {
    rt.type_error("unsupported format string passed to " + std::string(type_name(value)) +
                  ".__format__");
  }
  if (spec.type != '\0' && spec.type != 's') {
    rt.value_error(std::string("Unknown format code '") + spec.type + "' for object of type 'str'");
  }
  if (spec.align == '=') rt.value_error("'=' alignment not allowed in string format specifier");
  if (spec.sign != '-') rt.value_error("Sign not allowed in string format specifier");
  if (spec.drops_minus_zero) {
    rt.value_error("Negative zero coercion (z) not allowed in string format specifier");
  }
  if (spec.alternate) rt.value_error("Alternate form (#) not allowed in string format specifier");
  if (spec.grouping != '\0') rt.value_error("Cannot specify ',' with 's'.");
  format_text(rt, rt.text_of(value), spec);
}

// --- "%s" % value

/// Fills in "%s %5.2f" % (a, b) and "%(name)s" % mapping.
class Percent {
 public:
  Percent(Runtime& rt, const Value& format, const Value& arguments)
      : rt_(rt), text_(rt.text_of(format)), arguments_(arguments) {
    // CPython's test for "has keys": anything with subscripts, except tuple and str. Lists and
    // ranges count too, so '"text" % [1]' is no error, although nothing converts the list.
    is_mapping_ = !arguments.is(Tag::tuple) && !arguments.is_string() &&
                  (arguments.is_mapping() || arguments.is_list() || arguments.is(Tag::range) ||
                   arguments.is(Tag::undefined));
  }

  void run() {
    const std::string_view bytes = text_.bytes;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t sign = std::min(bytes.find('%', at), bytes.size());
      rt_.put_text(text_, at, sign);
      at = sign;
      if (at < bytes.size()) at = conversion(at + 1);
    }
    if (!is_mapping_ && used_ < count()) {
      rt_.type_error("not all arguments converted during string formatting");
    }
  }

 private:
  // A value that is not a tuple is one argument: "%s" % x.
  [[nodiscard]] std::uint32_t count() const {
    return arguments_.is(Tag::tuple) ? arguments_.list->size : 1;
  }
  Value next_argument() {
    if (arguments_.is(Tag::tuple)) {
      if (used_ >= arguments_.list->size) rt_.type_error("not enough arguments for format string");
      return arguments_.list->items[used_++];
    }
    if (used_++ > 0) rt_.type_error("not enough arguments for format string");
    return arguments_;
  }

  // Reads one conversion, which begins behind its '%', and appends what it writes. Returns the
  // place behind it.
  //     %[(key)][flags][width][.precision][length]type
  std::size_t conversion(std::size_t at) {
    const std::string_view bytes = text_.bytes;
    rt_.step();
    Spec spec;
    Value value;
    const auto check = [&] {
      if (at >= bytes.size()) rt_.value_error("incomplete format");
    };
    // A key may hold brackets, if they are balanced: "%(a(b))s".
    if (at < bytes.size() && bytes[at] == '(') {
      int depth = 1;
      const std::size_t begin = ++at;
      for (; at < bytes.size() && depth > 0; ++at)
        depth += bytes[at] == '(' ? 1 : bytes[at] == ')' ? -1 : 0;
      if (depth > 0) rt_.value_error("incomplete format key");
      if (!arguments_.is_mapping()) rt_.type_error("format requires a mapping");
      const std::string_view key = bytes.substr(begin, at - 1 - begin);
      value = rt_.get(arguments_, key);
      if (value.is(Tag::missing)) rt_.fail("KeyError", "'" + std::string(key) + "'");
    }
    bool left = false;
    bool zero = false;
    for (; at < bytes.size(); ++at) {
      const char c = bytes[at];
      if (c == '-') {
        left = true;
      } else if (c == '+') {
        spec.sign = '+';
      } else if (c == ' ') {
        if (spec.sign != '+') spec.sign = ' ';
      } else if (c == '#') {
        spec.alternate = true;
      } else if (c == '0') {
        zero = true;
      } else {
        break;
      }
    }
    // Width and precision may be '*': then they are the next argument, read before the value.
    const auto number = [&]() -> std::int64_t {
      if (at < bytes.size() && bytes[at] == '*') {
        ++at;
        const Value star = next_argument();
        if (!star.is_int()) rt_.type_error("* wants int");
        return index_of(rt_, star);
      }
      return read_number(bytes, at);
    };
    spec.width = number();
    // A negative width from '*' means the flag '-'.
    if (spec.width < 0) {
      left = true;
      spec.width = -std::max(spec.width, -(std::int64_t{1} << 40));
    }
    if (at < bytes.size() && bytes[at] == '.') {
      ++at;
      spec.precision = std::max<std::int64_t>(0, number());
    }
    // C's length modifiers have no effect.
    if (at < bytes.size() && (bytes[at] == 'h' || bytes[at] == 'l' || bytes[at] == 'L')) ++at;
    check();
    const char type = bytes[at++];
    if (type == '%') {
      rt_.put_text(text_, at - 1, at);
      return at;
    }
    if (std::string_view("diuoxXeEfFgGcrsa").find(type) == std::string_view::npos) {
      rt_.value_error(std::string("unsupported format character '") + type + "'");
    }
    if (value.is(Tag::missing)) value = next_argument();
    spec.align = left ? '<' : '>';
    if (type == 's' || type == 'r' || type == 'a') {
      put_text(value, type, spec);
    } else {
      // As in C, '0' has no effect beside '-'. Text is padded with spaces even if '0' is given.
      if (zero && !left) {
        spec.align = '=';
        spec.fill = "0";
      }
      put_number_as(value, type, spec);
    }
    return at;
  }

  void put_text(const Value& value, char type, const Spec& spec) {
    Value string = value;
    if (type == 's') {
      string = rt_.to_string(value);
    } else if (type == 'a') {
      string = ascii(rt_, value);
    } else {
      string = rt_.to_repr(value);
    }
    format_text(rt_, rt_.text_of(string), spec);
  }

  // The types c, d, i, u, x, o and those of floats. A float is cut to an integer for %d, and
  // refused for %x and %o.
  void put_number_as(const Value& value, char type, Spec spec) {
    if (value.is(Tag::undefined)) rt_.fail_undefined(value);
    if (type == 'c') {
      if (value.is_string()) {
        const Text text = rt_.text_of(value);
        if (unicode::length(text.bytes) != 1) rt_.type_error("%c requires int or char");
        spec.fill = " ";
        return format_text(rt_, text, spec);
      }
      if (!value.is_int()) rt_.type_error("%c requires int or char");
      spec.type = 'c';
      spec.precision = -1;
      return format_int(rt_, value, spec);
    }
    const bool is_real = std::string_view("eEfFgG").find(type) != std::string_view::npos;
    if (!value.is_number()) {
      if (is_real) rt_.type_error("must be real number, not " + std::string(type_name(value)));
      rt_.type_error(std::string("%") + type + " format: a real number is required, not " +
                     std::string(type_name(value)));
    }
    if (is_real) {
      spec.type = type;
      return format_real(rt_, value.is(Tag::real) ? value.real : big_of(value).to_double(), spec,
                         value.is_data());
    }
    if (value.is(Tag::real)) {
      if (type == 'x' || type == 'X' || type == 'o') {
        rt_.type_error(std::string("%") + type + " format: an integer is required, not float");
      }
      if (!std::isfinite(value.real))
        rt_.fail("OverflowError", "cannot convert float infinity to integer");
    }
    BigInt number = value.is(Tag::real) ? BigInt::from_double(value.real) : big_of(value);
    const bool is_negative = number.is_negative();
    if (is_negative) number = -number;
    rt_.charge_decimals(number.limbs().size());
    const unsigned base = type == 'o' ? 8 : type == 'x' || type == 'X' ? 16 : 10;
    std::string digits = number.to_string(base);
    if (type == 'X') {
      for (char& c : digits) c = c >= 'a' ? static_cast<char>(c - 32) : c;
    }
    // In %d the precision is the least number of digits: "%.3d" % 7 is "007".
    if (spec.precision > 0) {
      check_precision(rt_, spec.precision);
      if (digits.size() < static_cast<std::size_t>(spec.precision)) {
        digits.insert(0, static_cast<std::size_t>(spec.precision) - digits.size(), '0');
      }
    }
    std::string prefix = sign_of(is_negative, spec.sign);
    if (spec.alternate && base != 10) prefix += base == 8 ? "0o" : type == 'x' ? "0x" : "0X";
    put_number(rt_, spec, prefix, digits, value.is_data());
  }

  Runtime& rt_;
  Text text_;  // the pattern
  const Value& arguments_;
  bool is_mapping_ = false;  // arguments may be named, and need not all be used
  std::uint32_t used_ = 0;   // arguments of a tuple that have been read
};

}  // namespace

Value percent(Runtime& rt, const Value& format, const Value& arguments) {
  const TextBuffer::Mark mark = rt.begin_text();
  Percent(rt, format, arguments).run();
  Value value = rt.end_text(mark);
  value.flags |= format.flags & kMarkup;
  return value;
}

// --- "{}".format(value)

namespace {

/// str.format: text with fields in braces, "{0.name[key]!r:>{width}}". A specification may hold
/// fields itself, and these no more: `depth` is 2 at most.
class Formatter {
 public:
  Formatter(Runtime& rt, const Args& args, const Value* mapping)
      : rt_(rt), args_(args), mapping_(mapping) {}

  void run(const Text& text, int depth) {
    if (depth > 2) rt_.value_error("Max string recursion exceeded");
    const std::string_view bytes = text.bytes;
    std::size_t begin = 0;
    for (std::size_t at = 0; at < bytes.size();) {
      const char c = bytes[at];
      if (c != '{' && c != '}') {
        ++at;
        continue;
      }
      rt_.step();
      rt_.put_text(text, begin, at);
      // Two braces stand for one.
      if (at + 1 < bytes.size() && bytes[at + 1] == c) {
        rt_.put_text(text, at, at + 1);
        at += 2;
      } else if (c == '}') {
        rt_.value_error("Single '}' encountered in format string");
      } else {
        at = field(text, at + 1, depth);
      }
      begin = at;
    }
    rt_.put_text(text, begin, bytes.size());
  }

 private:
  // Reads a field, which begins behind its '{', and appends its value. Returns the place behind
  // '}'. The value is looked up before the fields of the specification are.
  std::size_t field(const Text& text, std::size_t begin, int depth) {
    const std::string_view bytes = text.bytes;
    // A field's name may hold brackets with anything inside; its specification may hold fields.
    std::size_t at = begin;
    while (at < bytes.size() && bytes[at] != '}' && bytes[at] != ':' && bytes[at] != '!') {
      if (bytes[at] == '{') rt_.value_error("unexpected '{' in field name");
      if (bytes[at] == '[') {
        while (at < bytes.size() && bytes[at] != ']') ++at;
        if (at >= bytes.size()) rt_.value_error("expected '}' before end of string");
      }
      ++at;
    }
    if (at >= bytes.size()) rt_.value_error("expected '}' before end of string");
    Value value = look_up(bytes.substr(begin, at - begin));
    if (bytes[at] == '!') {
      const char conversion = at + 1 < bytes.size() ? bytes[at + 1] : '\0';
      if (conversion != 's' && conversion != 'r' && conversion != 'a') {
        rt_.value_error("Unknown conversion specifier");
      }
      at += 2;
      if (at >= bytes.size() || (bytes[at] != ':' && bytes[at] != '}')) {
        rt_.value_error("expected ':' after conversion specifier");
      }
      if (conversion == 'a') {
        value = ascii(rt_, value);
      } else {
        const TextBuffer::Mark mark = rt_.begin_text();
        conversion == 's' ? rt_.print(value) : rt_.repr(value);
        value = rt_.end_text(mark);
      }
    }
    Value spec = make_string({});
    if (bytes[at] == ':') {
      const std::size_t start = ++at;
      int nested = 0;
      for (; at < bytes.size() && (nested > 0 || bytes[at] != '}'); ++at) {
        nested += bytes[at] == '{' ? 1 : bytes[at] == '}' ? -1 : 0;
      }
      if (at >= bytes.size()) rt_.value_error("expected '}' before end of string");
      const Value raw = rt_.substring(text, start, at);
      const TextBuffer::Mark mark = rt_.begin_text();
      run(rt_.text_of(raw), depth + 1);
      spec = rt_.end_text(mark);
    }
    format_value(rt_, value, rt_.text_of(spec));
    return at + 1;
  }

  // The value of "first.attribute[index]". An index of digits only is a number, any other one a
  // string without quotes. Attributes go through the sandbox's rules, so "{0.__class__}" is
  // refused.
  Value look_up(std::string_view name) {
    std::size_t at = std::min(name.find_first_of(".["), name.size());
    Value value = first(name.substr(0, at));
    while (at < name.size()) {
      rt_.step();
      if (name[at] == '.') {
        const std::size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        const std::string_view field = rt_.arena().copy(name.substr(at + 1, end - at - 1));
        if (field.empty()) rt_.value_error("Empty attribute in format string");
        value = attribute(rt_, value, field, method_of_name(field));
        at = end;
      } else if (name[at] == '[') {
        const std::size_t end = name.find(']', at);
        if (end == std::string_view::npos) rt_.value_error("Missing ']' in format string");
        const std::string_view index = name.substr(at + 1, end - at - 1);
        if (index.empty()) rt_.value_error("Empty attribute in format string");
        value = item(rt_, value,
                     index.find_first_not_of("0123456789") == std::string_view::npos
                         ? number_of(index)
                         : make_string(rt_.arena().copy(index)));
        at = end + 1;
      } else {
        rt_.value_error("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }
  Value number_of(std::string_view digits) {
    std::size_t at = 0;
    return make_int(read_number(digits, at));
  }

  // The first part of a name: "" (the next argument), "0" (an argument), or a name.
  Value first(std::string_view name) {
    if (name.empty() || name.find_first_not_of("0123456789") == std::string_view::npos) {
      if (name.empty() == is_numbered_ && (is_numbered_ || next_ > 0)) {
        rt_.value_error("cannot switch between manual and automatic field numbering");
      }
      is_numbered_ = !name.empty();
      const std::int64_t index = name.empty() ? next_++ : number_of(name).integer;
      if (index >= args_.size) {
        rt_.fail("IndexError", "Replacement index " + std::to_string(index) +
                                   " out of range for positional args tuple");
      }
      return args_.items[index];
    }
    if (mapping_ != nullptr) {
      const Value found = item(rt_, *mapping_, make_string(name));
      if (!found.is(Tag::undefined)) return found;
    }
    for (std::uint32_t i = 0; i < args_.keyword_count; ++i) {
      if (rt_.text_of(args_.keywords[i].key).bytes == name) return args_.keywords[i].value;
    }
    rt_.fail("KeyError", "'" + std::string(name) + "'");
  }

  Runtime& rt_;
  const Args& args_;
  const Value* mapping_;      // of format_map(); null: keywords have the names
  std::int64_t next_ = 0;     // the argument that the next "{}" takes
  bool is_numbered_ = false;  // fields have numbers; "{}" and "{0}" do not mix
};

}  // namespace

Value format_string(Runtime& rt, const Value& format, const Args& args, const Value* mapping) {
  const Text text = rt.text_of(format);
  const TextBuffer::Mark mark = rt.begin_text();
  Formatter(rt, args, mapping).run(text, 0);
  Value value = rt.end_text(mark);
  value.flags |= format.flags & kMarkup;
  return value;
}

}  // namespace tenon::jinja
