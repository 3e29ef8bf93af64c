#include "tenon/format/json_filter.h"

#include <algorithm>
#include <cstddef>

#include "tenon/base/utf8.h"
#include "tenon/format/raw_text.h"
#include "tenon/format/space.h"
#include "tenon/json/value.h"

// Copies one JSON value byte by byte and repairs what models often get wrong. It is a state
// machine: step() handles a byte by state_ and returns whether it was used, and copy_string() is
// the fast loop for the inside of strings. is_object_ and is_set_ are stacks of bits for the open
// containers.
//
// The rule behind all states is that a byte is copied only if the copy can still become valid JSON.
// So a comma waits until a value or key follows, an escape until it is complete, a number until its
// delimiter, a word until its last letter, and Python's `{` until it is known whether it is a set.
// What waits is in has_comma_, escape_, number_, matched_ and held_, each with a small limit, so
// the state is constant. close() then appends only what is missing.
//
// The same machine reads Python's call arguments (keywords), whose literals it translates, and
// objects with bare keys (members), whose strings may have quotes of the format's own or none.
// Where a quote may be text or the end of a string, the byte after it decides (step_closing).
// Quotes that a typesetter would use (curly_) are read as the string's own where a value or a key
// begins with one. A brace that comes twice is one (is_doubled_), and Python's `dict(a=1)` is an
// object (step_constructor).

namespace tenon::format {
namespace {

// Bytes of white space that are held, behind a comma or behind a quote that may end a string.
constexpr std::size_t kMaxJsonSpace = 64;
constexpr std::size_t kMaxNumber = 512;  // for members; up to here a number may turn out to be text
// For Python; up to here a brace may turn out to begin a set.
constexpr std::size_t kMaxBrace = 512;
constexpr std::size_t kMaxKeyword = 512;
constexpr std::uint8_t kTriple = 3;  // the quotes of Python's longest strings

// What Python's values may be wrapped in; the first has keywords.
constexpr std::string_view kConstructors[] = {"dict", "list", "tuple", "set"};

// The quotes from U+2018 to U+201F are these two bytes and one more.
constexpr std::string_view kCurlyLead = "\xE2\x80";
constexpr unsigned char kFirstCurly = 0x98;
constexpr unsigned char kFirstDoubleCurly = 0x9C;
constexpr unsigned char kLastCurly = 0x9F;

bool begins_curly(unsigned char byte) {
  return byte == static_cast<unsigned char>(kCurlyLead.front());
}

bool is_curly(unsigned char byte) {
  return byte >= kFirstCurly && byte <= kLastCurly;
}

struct Word {
  std::string_view written;
  std::string_view json;
};
// No two begin with the same letter, so begin_value() knows the word by its first byte.
constexpr Word kWords[] = {{"true", "true"}, {"false", "false"}, {"null", "null"},
                           {"True", "true"}, {"False", "false"}, {"None", "null"}};

const Word* word_of(std::string_view text) {
  const auto* const found = std::ranges::find(kWords, text, &Word::written);
  return found == std::end(kWords) ? nullptr : found;
}

bool is_digit(unsigned char byte) {
  return byte >= '0' && byte <= '9';
}

bool is_number(std::string_view text) {
  const auto value = json::parse(text);
  return value && value->if_number() != nullptr;
}

// Text between members without quotes that is no string: a number or a word.
bool is_bare_value(std::string_view text) {
  return is_number(trimmed(text)) || word_of(trimmed(text)) != nullptr;
}

// "-", "1." and "1e" begin numbers: with one more digit they are numbers.
bool begins_number(std::string_view text) {
  return is_number(text) || is_number(std::string(text) + '0');
}

int hex_value(unsigned char byte);

/// The digits of `text`, which are in that base, as decimal digits.
std::string in_decimal(std::string_view text, int base) {
  std::string decimal = "0";  // least significant digit first
  for (const char digit : text) {
    int carry = hex_value(static_cast<unsigned char>(digit));
    for (char& place : decimal) {
      carry += (place - '0') * base;
      place = static_cast<char>('0' + carry % 10);
      carry /= 10;
    }
    for (; carry > 0; carry /= 10) decimal += static_cast<char>('0' + carry % 10);
  }
  return {decimal.rbegin(), decimal.rend()};
}

/// The base for a prefix such as `0x`; 10: there is no prefix.
int base_of(std::string_view digits) {
  if (digits.size() < 2 || digits[0] != '0') return 10;
  switch (digits[1]) {
    case 'x':
    case 'X':
      return 16;
    case 'o':
    case 'O':
      return 8;
    case 'b':
    case 'B':
      return 2;
    default:
      return 10;
  }
}

/// Takes digits off the beginning of `text`, which lines may group; false where it begins with no
/// digit.
bool take_digits(std::string_view& text, int base, std::string& digits) {
  const std::size_t before = digits.size();
  while (!text.empty()) {
    const bool is_grouped = text.front() == '_' && digits.size() > before;
    const std::string_view rest = text.substr(is_grouped ? 1 : 0);
    const int value = rest.empty() ? -1 : hex_value(static_cast<unsigned char>(rest.front()));
    if (value < 0 || value >= base) break;
    digits += rest.front();
    text = rest.substr(1);
  }
  return digits.size() > before;
}

/// JSON's number for a number that people, Python or C write in another way with only one meaning:
/// with a plus, leading zeros, grouped digits, no digit on one side of the point, or another base.
std::optional<std::string> as_json_number(std::string_view text) {
  if (is_number(text)) return std::string(text);
  const std::string sign = text.starts_with('-') ? "-" : "";
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  if (const int base = base_of(text); base != 10) {
    text.remove_prefix(2);
    if (text.starts_with('_')) text.remove_prefix(1);
    std::string digits;
    if (!take_digits(text, base, digits) || !text.empty()) return std::nullopt;
    return sign + in_decimal(digits, base);
  }
  std::string whole;
  std::string fraction;
  std::string exponent;
  take_digits(text, 10, whole);
  const bool has_point = text.starts_with('.');
  if (has_point) text.remove_prefix(1);
  if (has_point) take_digits(text, 10, fraction);
  if (whole.empty() && fraction.empty()) return std::nullopt;
  if (text.starts_with('e') || text.starts_with('E')) {
    exponent = "e";
    text.remove_prefix(1);
    const bool is_signed = text.starts_with('-') || text.starts_with('+');
    if (is_signed) exponent += text.front();
    if (is_signed) text.remove_prefix(1);
    if (!take_digits(text, 10, exponent)) return std::nullopt;
  }
  if (!text.empty()) return std::nullopt;
  whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size()));
  if (whole.empty()) whole = "0";
  if (has_point) whole += "." + (fraction.empty() ? "0" : fraction);
  return sign + whole + exponent;
}

/// Python itself writes it so; it is not a mistake.
bool is_of_python(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return text.size() < 2 || text[0] != '0' || !is_digit(static_cast<unsigned char>(text[1]));
}

int hex_value(unsigned char byte) {
  if (is_digit(byte)) return byte - '0';
  if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
  if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
  return -1;
}

bool begins_word(unsigned char byte) {
  return byte == 't' || byte == 'f' || byte == 'n' || byte == 'T' || byte == 'F' || byte == 'N';
}

bool begins_number(unsigned char byte) {
  return byte == '-' || byte == '+' || byte == '.' || is_digit(byte);
}

/// Letters that may stand before a Python string, without those that also begin a word.
bool begins_prefix(unsigned char byte) {
  return std::string_view("rRbBuU").find(static_cast<char>(byte)) != std::string_view::npos;
}

bool is_structural(unsigned char byte) {
  return byte == '{' || byte == '}' || byte == '[' || byte == ']' || byte == ',' || byte == ':';
}

}  // namespace

// Everything that belongs to one value. The buffers keep their memory, because a filter reads all
// values of an answer.
void JsonFilter::restart(Want want, std::string_view quote, std::string_view end) {
  state_ = State::begin;
  status_ = Status::open;
  want_ = want;
  own_quote_ = quote;
  end_ = end;
  has_used_end_ = false;
  is_key_ = repaired_ = has_comma_ = has_keyword_ = false;
  is_fresh_ = is_triple_ = holds_brace_ = is_raw_ = has_stray_ = is_behind_string_ = false;
  curly_ = 0;
  held_.clear();
  quote_ = '"';
  depth_ = 0;
  high_surrogate_ = 0;
  comma_space_.clear();
}

// Strings are most of what arguments have, so their plain bytes are copied as a block and not
// stepped through.
std::size_t JsonFilter::feed(std::string_view bytes, std::string& copy) {
  std::size_t used = 0;
  while (used < bytes.size() && status_ == Status::open) {
    const auto byte = static_cast<unsigned char>(bytes[used]);
    if (holds_brace_) settle_brace(byte, copy);
    std::string& to = holds_brace_ ? held_ : copy;
    if (state_ == State::string && high_surrogate_ == 0) {
      used += copy_string(bytes.substr(used), to);
      continue;
    }
    if (state_ == State::raw) {
      used += copy_raw(bytes.substr(used), to);
      continue;
    }
    if (!step(byte, to)) break;
    ++used;
  }
  return used;
}

// Argument bytes spend most of their time in this loop.
std::size_t JsonFilter::copy_string(std::string_view bytes, std::string& copy) {
  std::size_t plain = 0;
  while (plain < bytes.size()) {
    const auto byte = static_cast<unsigned char>(bytes[plain]);
    if (byte == '"' || byte == '\\' || byte < 0x20 || byte == static_cast<unsigned char>(quote_) ||
        may_end_by_own(byte) || may_end_by_curly(byte)) {
      break;
    }
    ++plain;
  }
  copy.append(bytes.substr(0, plain));
  if (plain > 0) is_fresh_ = false;
  if (plain == bytes.size()) return plain;
  const auto byte = static_cast<unsigned char>(bytes[plain]);
  // Only a quote directly behind the first one can make an empty string, or three quotes.
  if (byte != static_cast<unsigned char>(quote_)) is_fresh_ = false;
  if (may_end_by_own(byte)) {
    state_ = State::own_end;
    matched_ = 1;
  } else if (may_end_by_curly(byte)) {
    state_ = State::curly_end;
    matched_ = 1;
  } else if (byte == '"' && quote_ != '"') {
    copy += "\\\"";
    // Whether this quote ends the string is decided by the byte after it (step_closing).
  } else if (byte == static_cast<unsigned char>(quote_) && ends_by_follower()) {
    state_ = State::closing;
    matched_ = 1;
    closed_by_ = 0;
    comma_space_.clear();
  } else if (byte == static_cast<unsigned char>(quote_)) {
    copy += '"';
    end_string();
  } else if (byte == '\\') {
    state_ = State::escape;
  } else {
    repaired_ = true;
    append_control(copy, byte);
  }
  return plain + 1;
}

// The format's own quote is no text: it ends a string that began with another one. So does the
// marker behind the object, but for JSON's strings.
bool JsonFilter::step_own_end(unsigned char byte, std::string& copy) {
  if (byte == static_cast<unsigned char>(own_quote_[matched_])) {
    if (++matched_ < own_quote_.size()) return true;
    matched_ = 0;
    repaired_ = true;
    copy += '"';
    end_string();
    return true;
  }
  const std::string_view held = own_quote_.substr(0, matched_);
  const bool may_be_mark = quote_ != '"' || curly_ != 0;
  if (may_be_mark && end_.starts_with(held) && byte == static_cast<unsigned char>(end_[matched_])) {
    state_ = State::string_mark;
    return step_string_mark(byte, copy);
  }
  return read_in_string(held, byte, copy);
}

// The marker behind the object, in a string whose own quote is missing.
bool JsonFilter::step_string_mark(unsigned char byte, std::string& copy) {
  if (byte != static_cast<unsigned char>(end_[matched_])) {
    return read_in_string(end_.substr(0, matched_), byte, copy);
  }
  if (++matched_ < end_.size()) return true;
  copy += '"';
  end_string();
  return end_by_mark(copy);
}

// What is held in a string and `byte` are text of it, but for another marker that begins there.
bool JsonFilter::read_in_string(std::string_view held, unsigned char byte, std::string& copy) {
  const std::string text(held);
  matched_ = 0;
  state_ = State::string;
  append_raw(copy, std::string_view(text).substr(0, 1));
  for (const char each : std::string_view(text).substr(1)) {
    if (!step(static_cast<unsigned char>(each), copy)) return false;
  }
  return step(byte, copy);
}

// A value or a key begins with the first byte of a curly quote.
bool JsonFilter::step_curly(unsigned char byte, std::string& copy) {
  if (matched_ < kCurlyLead.size()) {
    if (byte == static_cast<unsigned char>(kCurlyLead[matched_])) {
      ++matched_;
      return true;
    }
  } else if (is_curly(byte)) {
    flush_comma(copy);
    const bool is_double = byte >= kFirstDoubleCurly;
    begin_string(is_double ? '"' : '\'', copy);
    curly_ = is_double ? kFirstDoubleCurly : kFirstCurly;
    repaired_ = true;
    is_fresh_ = false;
    is_raw_ = is_bare();
    return true;
  }
  const std::string_view held = kCurlyLead.substr(0, matched_);
  if (!is_bare()) {
    status_ = Status::bad;
    return false;
  }
  if (!is_key_) return begin_bare_text(held, byte, copy);
  flush_comma(copy);
  copy += '"';
  append_raw(copy, held);
  state_ = State::bare_key;
  return step_bare_key(byte, copy);
}

// In a string that a curly quote began; `matched_` bytes of one that may end it are held.
bool JsonFilter::step_curly_end(unsigned char byte, std::string& copy) {
  if (matched_ < kCurlyLead.size()) {
    if (byte == static_cast<unsigned char>(kCurlyLead[matched_])) {
      ++matched_;
      return true;
    }
  } else if (is_curly(byte) && (byte >= kFirstDoubleCurly) == (curly_ == kFirstDoubleCurly)) {
    state_ = State::closing;
    matched_ = 1;
    closed_by_ = byte;
    comma_space_.clear();
    return true;
  }
  append_raw(copy, kCurlyLead.substr(0, matched_));
  matched_ = 0;
  state_ = State::string;
  copy_string(std::string_view(reinterpret_cast<const char*>(&byte), 1), copy);
  return true;
}

// A key is followed by its colon, a value by what follows values. Behind a string in other quotes
// than the format's own a second closing quote is a slip, which step_after() drops.
void JsonFilter::end_string() {
  is_behind_string_ = is_bare() && state_ != State::raw && !is_key_;
  if (is_key_) {
    state_ = State::colon;
  } else {
    end_value();
  }
}

// After `matched_` quotes, all of which are needed to end the string, and space.
bool JsonFilter::step_closing(unsigned char byte, std::string& copy) {
  const bool is_quote = byte == static_cast<unsigned char>(quote_) && comma_space_.empty();
  // The third quote in a row, at the beginning: the string has Python's triple quotes.
  if (is_quote && is_fresh_ && is_python()) {
    is_fresh_ = false;
    is_triple_ = true;
    state_ = State::string;
    return true;
  }
  const bool is_whole = matched_ == (is_triple_ ? kTriple : 1);
  if (is_quote && !is_whole) {
    ++matched_;
    return true;
  }
  const bool has_room = comma_space_.size() < kMaxJsonSpace;
  if (is_whole && is_space(static_cast<char>(byte)) && has_room) {
    comma_space_ += static_cast<char>(byte);
    return true;
  }
  // 'x' "y" is one string in Python, "xy": the copy goes on in the same JSON string.
  const bool is_next_string = byte == '"' || byte == '\'';
  if (is_whole && is_next_string && !is_bare() && !has_stray_ &&
      !comma_space_.empty()) {  // together they are one
    quote_ = static_cast<char>(byte);
    is_fresh_ = true;
    is_triple_ = is_raw_ = false;
    state_ = State::string;
    return true;
  }
  const bool is_own = is_bare() && byte == static_cast<unsigned char>(own_quote_.front());
  const bool ends_list = byte == ']' || (byte == ')' && is_python());
  const bool may_follow =
      is_own || byte == ',' || byte == '}' || (is_key_ ? byte == ':' : ends_list);
  if (is_whole && (may_follow || is_triple_ || !has_room)) {
    end_closing(copy);
    return step(byte, copy);
  }
  // The quote was text: a='sed -n '1,5p' f' has one before 1 and one before the space. It is copied
  // with the space behind it, escaped if it is JSON's own quote.
  repaired_ = repaired_ || !is_triple_;
  has_stray_ = true;
  if (closed_by_ != 0) {
    append_raw(copy, std::string(kCurlyLead).append(1, static_cast<char>(closed_by_)));
    matched_ = 0;
  }
  for (; matched_ > 0; --matched_) copy.append(quote_ == '"' ? "\\" : "").append(1, quote_);
  append_raw(copy, comma_space_);
  is_fresh_ = false;
  state_ = State::string;
  copy_string(std::string_view(reinterpret_cast<const char*>(&byte), 1), copy);
  return true;
}

void JsonFilter::end_closing(std::string& copy) {
  copy.append(1, '"').append(comma_space_);
  end_string();
}

// Decides whether the held brace begins a set or an object, by the byte after its first element.
// Keys that are numbers or words become strings, as in Python's json.
void JsonFilter::settle_brace(unsigned char byte, std::string& copy) {
  if (held_.size() > kMaxBrace) return open_brace(is_set_held(), copy);
  if (state_ == State::first_key) {
    const bool may_be_text =
        byte == '"' || byte == '\'' || begins_prefix(byte) || begins_curly(byte);
    if (is_space(static_cast<char>(byte)) || may_be_text) return;
    const bool is_plain = byte == '-' || is_digit(byte) || begins_word(byte);
    if (!is_plain) open_brace(/*is_set=*/byte != '}', copy);
    if (is_plain || !in_object()) state_ = State::first_item;
    return;
  }
  // Checked first, because the code below reads all digits.
  if (byte != ':' && byte != ',' && byte != '}') return;
  const bool is_key = state_ == State::colon || state_ == State::closing;
  const bool may_end =
      state_ == State::closing ? matched_ == (is_triple_ ? kTriple : 1) : is_key || may_end_plain();
  if (!may_end) return;
  if (state_ == State::number && !end_held_number(held_)) return;
  // {1: 2}: what was read as an item is a key, and gets quotes where it stands in held_.
  if (byte == ':' && !is_key) {
    const std::size_t begin = held_.find_first_not_of(kSpace);
    held_.insert(begin, 1, '"').insert(held_.find_last_not_of(kSpace) + 1, 1, '"');
    state_ = State::colon;
  }
  open_brace(/*is_set=*/byte != ':', copy);
  if (in_object()) return;
  is_key_ = false;
  if (state_ == State::colon) state_ = State::after;
}

// A number or word after the brace may end here.
bool JsonFilter::may_end_plain() const {
  return state_ == State::after || (state_ == State::number && held_number());
}

// The text held after the brace cannot be a key, as far as it goes.
bool JsonFilter::is_set_held() const {
  return state_ != State::first_key && !trimmed(held_).starts_with('"');
}

void JsonFilter::open_brace(bool is_set, std::string& copy) {
  holds_brace_ = false;
  if (is_set) {
    const unsigned level = depth_ - 1;
    is_object_[level / 64] &= ~(std::uint64_t{1} << (level % 64));
    is_set_[level / 64] |= std::uint64_t{1} << (level % 64);
  }
  copy.append(1, is_set ? '[' : '{').append(held_);
  held_.clear();
}

// The format's own quotes have no escapes. Bytes that may be the closing quote are held, counted in
// `matched_`.
std::size_t JsonFilter::copy_raw(std::string_view bytes, std::string& copy) {
  std::size_t used = 0;
  while (used < bytes.size()) {
    if (matched_ == 0) {
      const std::size_t plain = std::min(bytes.find(own_quote_.front(), used), bytes.size());
      append_raw(copy, bytes.substr(used, plain - used));
      used = plain;
      if (used == bytes.size()) break;
    }
    const char byte = bytes[used];
    while (matched_ > 0 && own_quote_[matched_] != byte) {
      // The longest suffix of what is held that may begin the quote stays held.
      std::size_t keep = matched_ - std::size_t{1};
      const std::string_view held = own_quote_.substr(0, matched_);
      while (!held.ends_with(own_quote_.substr(0, keep))) --keep;
      append_raw(copy, held.substr(0, matched_ - keep));
      matched_ = static_cast<std::uint8_t>(keep);
    }
    if (own_quote_[matched_] != byte) continue;  // it was text
    ++matched_;
    ++used;
    if (matched_ == own_quote_.size()) {
      matched_ = 0;
      copy += '"';
      end_string();
      break;
    }
  }
  return used;
}

// True: `byte` was used. False: the value ended before it, or it does not fit; status_ says which.
bool JsonFilter::step(unsigned char byte, std::string& copy) {
  switch (state_) {
    case State::begin:
      if (is_space(static_cast<char>(byte))) return true;
      if ((want_ == Want::object || is_bare()) && byte != '{') break;
      if (is_python()) {
        if (byte != '(') break;
        copy += '{';
        push(true);
        state_ = State::first_key;
        return true;
      }
      return begin_value(byte, copy);
    case State::keyword:
    case State::equals:
      return step_keyword(byte, copy);
    case State::bare_key:
      return step_bare_key(byte, copy);
    case State::bare_equals:
      return step_bare_equals(byte, copy);
    case State::stray_quote:
      return step_stray_quote(byte, copy);
    case State::own_end:
      return step_own_end(byte, copy);
    case State::string_mark:
      return step_string_mark(byte, copy);
    case State::curly:
      return step_curly(byte, copy);
    case State::curly_end:
      return step_curly_end(byte, copy);
    case State::constructor:
      return step_constructor(byte);
    case State::wrapped:
      return step_wrapped(byte, copy);
    case State::double_end:
      return step_double_end(byte, copy);
    case State::quote:
      return step_quote(byte, copy);
    case State::end_mark:
      return step_end_mark(byte, copy);
    case State::bare_text:
      return step_bare_text(byte, copy);
    case State::bare_number:
      return step_bare_number(byte, copy);
    case State::number:
      return step_held_number(byte, copy);
    case State::prefix:
      return step_prefix(byte, copy);
    case State::octal:
    case State::wide:
      return step_code(byte, copy);
    case State::value:
    case State::first_item:
    case State::first_key:
    case State::key:
      if (is_space(static_cast<char>(byte))) {
        if (!has_comma_) {
          if (!is_python() || depth_ > 1) copy += static_cast<char>(byte);
        } else if (comma_space_.size() < kMaxJsonSpace) {
          comma_space_ += static_cast<char>(byte);
        }
        return true;
      }
      return begin_value(byte, copy);
    case State::colon:
      if (is_bare() && byte == '=') {
        repaired_ = true;
        byte = ':';
      }
      if (is_space(static_cast<char>(byte)) || byte == ':') {
        copy += static_cast<char>(byte);
        if (byte == ':') state_ = State::value;
        return true;
      }
      break;
    case State::after:
      return step_after(byte, copy);
    case State::string:  // a high surrogate is held
      if (byte == '\\') {
        state_ = State::escape;
        return true;
      }
      drop_surrogate(copy);
      copy_string(std::string_view(reinterpret_cast<const char*>(&byte), 1), copy);
      return true;
    case State::closing:
      return step_closing(byte, copy);
    case State::escape:
      step_escape(byte, copy);
      return true;
    case State::unicode:
      step_unicode(byte, copy);
      return true;
    case State::word:
      return step_word(byte, copy);
    default:
      return step_number(byte, copy);
  }
  status_ = Status::bad;
  return false;
}

// The first byte of a value or a key, which decides the state that reads the rest. What begins
// nothing ends the reading, except for members, where it begins a text without quotes.
bool JsonFilter::begin_value(unsigned char byte, std::string& copy) {
  const bool wants_key = state_ == State::first_key || state_ == State::key;
  // In Python's call and in dict(...) a name comes where JSON has a key; in {...} a string does.
  const bool wants_keyword = wants_key && is_python() && (depth_ == 1 || is_set(is_call_));
  if (state_ == State::first_key && byte == '{' && may_double()) {
    set(is_doubled_);
    repaired_ = true;
    return true;
  }
  byte = as_json(byte);
  if (wants_keyword && byte != '}') {
    if (!is_keyword_byte(byte)) {
      status_ = Status::bad;
      return false;
    }
    number_.assign(1, static_cast<char>(byte));
    state_ = State::keyword;
    return true;
  }
  if (is_python() && !wants_key && byte == '(') byte = '[';  // a tuple
  // A value that may be text by its schema is text in apostrophes (Numbers::as_json).
  const bool may_be_single =
      is_python() || is_bare() || (depth_ > 0 && numbers_ == Numbers::repaired);
  const bool is_tick = byte == '`' && is_bare() && !wants_key;
  const bool is_single = (byte == '\'' && may_be_single) || is_tick;
  const bool is_quote = byte == '"' || is_single;
  // An empty container, or a comma before the bracket, which is dropped.
  if ((byte == '}' && wants_key) ||
      (byte == ']' && (state_ == State::first_item || (state_ == State::value && has_comma_)))) {
    if (has_comma_ && !is_python()) repaired_ = true;
    has_comma_ = false;
    state_ = State::after;
    return step_after(byte, copy);
  }
  if (is_bare() && byte == static_cast<unsigned char>(own_quote_.front())) {
    is_key_ = wants_key;
    state_ = State::quote;
    matched_ = 0;
    return step_quote(byte, copy);
  }
  if (begins_curly(byte) && may_be_single) {
    is_key_ = wants_key;
    state_ = State::curly;
    matched_ = 1;
    return true;
  }
  if (is_bare() && wants_key && !is_quote) {
    if (is_structural(byte)) {
      status_ = Status::bad;
      return false;
    }
    flush_comma(copy);
    copy += '"';
    append_raw(copy, std::string_view(reinterpret_cast<const char*>(&byte), 1));
    state_ = State::bare_key;
    return true;
  }
  if (is_python() && !wants_key && (byte == 'd' || byte == 'l' || byte == 's')) {
    number_.clear();
    state_ = State::constructor;
    return step_constructor(byte);
  }
  if (is_python() && begins_prefix(byte)) {
    number_.assign(1, static_cast<char>(byte));
    is_key_ = wants_key;
    state_ = State::prefix;
    return true;
  }
  const bool is_number_begun = is_bare() || wants_key || numbers_ == Numbers::as_json
                                   ? byte == '-' || is_digit(byte)
                                   : begins_number(byte);
  const bool is_plain = is_number_begun || begins_word(byte);
  const bool fits = is_quote || (is_plain && (!wants_key || is_python())) ||
                    (!wants_key && (byte == '{' || byte == '['));
  if (!fits && is_bare() && !is_structural(byte)) return begin_bare_text({}, byte, copy);
  if (!fits || ((byte == '{' || byte == '[') && depth_ == kMaxDepth)) {
    status_ = Status::bad;
    return false;
  }
  // Signs, digits and quotes are below 'A', so from there on only words and brackets are left.
  if (!is_quote && byte >= 'A' && byte != '[' &&
      byte != '{') {  // a word, which is held until it is complete
    state_ = State::word;
    is_key_ = wants_key;
    matched_ = 1;
    for (word_ = 0; static_cast<unsigned char>(kWords[word_].written.front()) != byte;) ++word_;
    return true;
  }
  // Held until its delimiter: "12 pieces" is no number, and what was copied cannot be taken back.
  if (is_number_begun && !wants_key && !is_bare()) {
    number_.assign(1, static_cast<char>(byte));
    state_ = State::number;
    return true;
  }
  flush_comma(copy);
  if (wants_key && is_plain) {
    copy.append(1, '"').append(1, static_cast<char>(byte));
    state_ = State::bare_key;
    return true;
  }
  if (is_bare() && (byte == '-' || is_digit(byte))) {
    number_.assign(1, static_cast<char>(byte));
    state_ = State::bare_number;
    return true;
  }
  if (is_quote) {
    is_key_ = wants_key;
    begin_string(byte, copy);
    return true;
  }
  push(byte == '{');
  state_ = byte == '{' ? State::first_key : State::first_item;
  // Python's brace is held until its first element shows a set or an object (settle_brace).
  holds_brace_ = is_python() && byte == '{';
  if (!holds_brace_) copy += static_cast<char>(byte);
  return true;
}

void JsonFilter::begin_string(unsigned char byte, std::string& copy) {
  copy += '"';
  quote_ = static_cast<char>(byte);
  is_fresh_ = true;
  is_triple_ = is_raw_ = has_stray_ = false;
  curly_ = 0;
  if (!is_python() && byte != '"') repaired_ = true;
  if (is_bare() && byte != '"') is_raw_ = true;  // as in the format's own quotes
  state_ = State::string;
}

// Letters before a Python string: `r` means that it has no escapes.
bool JsonFilter::step_prefix(unsigned char byte, std::string& copy) {
  if (byte == '"' || byte == '\'') {
    flush_comma(copy);
    begin_string(byte, copy);
    is_raw_ = number_.find_first_of("rR") != std::string::npos;
    return true;
  }
  // At most two letters, as in rb"...".
  if (number_.size() > 1 ||
      std::string_view("rRbBfF").find(static_cast<char>(byte)) == std::string_view::npos) {
    status_ = Status::bad;
    return false;
  }
  number_ += static_cast<char>(byte);
  return true;
}

// The name of a constructor, which is held until its parenthesis has come.
bool JsonFilter::step_constructor(unsigned char byte) {
  number_ += static_cast<char>(byte);
  for (const std::string_view name : kConstructors) {
    if (name.starts_with(number_)) return true;
    if (number_.size() == name.size() + 1 && number_.starts_with(name) && byte == '(') {
      state_ = State::wrapped;
      return true;
    }
  }
  number_.pop_back();
  status_ = Status::bad;
  return false;
}

// Behind the parenthesis: keywords of `dict`, nothing, or a value that means the same without the
// constructor.
bool JsonFilter::step_wrapped(unsigned char byte, std::string& copy) {
  if (is_space(static_cast<char>(byte))) return true;
  const bool is_dict = number_.starts_with("dict");
  if (byte == ')') {
    flush_comma(copy);
    copy += is_dict ? "{}" : "[]";
    end_value();
    return true;
  }
  const bool is_value = byte == '{' || byte == '[' || (byte == '(' && !is_dict);
  if (depth_ == kMaxDepth || (!is_value && !(is_dict && is_keyword_byte(byte)))) {
    status_ = Status::bad;
    return false;
  }
  flush_comma(copy);
  // A level of its own for the parenthesis: dict(a=1) is copied as an object, but list([1]) only as
  // its value, with nothing for the brackets around it (is_wrap_).
  push(is_dict && !is_value);
  set(is_value ? is_wrap_ : is_call_);
  state_ = is_value ? State::value : State::first_key;
  if (!is_value) copy += '{';
  return begin_value(byte, copy);
}

// Behind the bracket of an object whose brace came twice.
bool JsonFilter::step_double_end(unsigned char byte, std::string& copy) {
  if (is_space(static_cast<char>(byte))) return true;
  end_value();
  if (byte == '}') return true;
  return status_ == Status::open && step_after(byte, copy);
}

std::optional<std::string> JsonFilter::held_number() const {
  const std::string_view text = trimmed(number_);
  if (numbers_ == Numbers::repaired) return as_json_number(text);
  return is_number(text) ? std::optional(std::string(text)) : std::nullopt;
}

// False: it is not a number.
bool JsonFilter::end_held_number(std::string& copy) {
  const auto number = held_number();
  if (!number) {
    status_ = Status::bad;
    return false;
  }
  const std::string_view text = trimmed(number_);
  repaired_ = repaired_ || (*number != text && !(is_python() && is_of_python(text)));
  flush_comma(copy);
  copy.append(*number).append(std::string_view(number_).substr(text.size()));
  end_value();
  return true;
}

// It is too long to hold: from here on it is a number, if it is one so far.
void JsonFilter::stream_held_number(std::string& copy) {
  flush_comma(copy);
  begin_number(static_cast<unsigned char>(number_.front()), copy);
  for (const char held : std::string_view(number_).substr(1)) {
    step(static_cast<unsigned char>(held), copy);
  }
}

// If a byte other than a delimiter follows, the digits before it are not a number.
bool JsonFilter::step_held_number(unsigned char byte, std::string& copy) {
  // A comma may be missing before the next key, and a bracket before a marker.
  const bool is_slip = byte == '"' || byte == '<';
  const bool is_delimiter = depth_ > 0 && (is_slip || byte == ',' || byte == '}' || byte == ']' ||
                                           (is_python() && byte == ')'));
  const bool is_blank = is_space(static_cast<char>(byte));
  const bool goes_on = begins_number(byte) || byte == '_' || is_digit(byte) ||
                       (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
  if (is_delimiter) return end_held_number(copy) && step_after(byte, copy);
  if (depth_ == 0 && !goes_on) {
    end_held_number(copy);
    return false;
  }
  // White space after the number is held with it; behind it only a delimiter may come.
  const bool ends_before = is_space(number_.back());
  if (is_blank ? !ends_before && !held_number() : !goes_on || ends_before) {
    status_ = Status::bad;
    return false;
  }
  if (number_.size() < kMaxNumber) {
    number_ += static_cast<char>(byte);
    return true;
  }
  if (!begins_number(trimmed(number_))) {
    status_ = Status::bad;
    return false;
  }
  stream_held_number(copy);
  return step(byte, copy);
}

void JsonFilter::begin_number(unsigned char byte, std::string& copy) {
  copy += static_cast<char>(byte);
  state_ = byte == '-' ? State::minus : byte == '0' ? State::zero : State::integer;
}

bool JsonFilter::is_keyword_byte(unsigned char byte) {
  return byte >= 0x80 || byte == '_' || byte == '-' || byte == '.' || byte == '$' || byte == '@' ||
         is_digit(byte) || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

// Held up to its '=', because it may be an argument without a name.
bool JsonFilter::step_keyword(unsigned char byte, std::string& copy) {
  const bool is_inside = byte == '[' || byte == ']' || byte == '/' || byte == ':';
  // `a/=1` and `a:=1` mean something else in Python.
  const bool may_end = state_ == State::equals || (number_.back() != '/' && number_.back() != ':');
  if (byte == '=' && may_end) {
    flush_comma(copy);
    copy.append(1, '"').append(trimmed(number_)).append("\": ");
    state_ = State::value;
    has_keyword_ = true;
    return true;
  }
  const bool goes_on = state_ == State::keyword && (is_keyword_byte(byte) || is_inside);
  const bool ends = is_space(static_cast<char>(byte));
  if ((!goes_on && !(ends && may_end)) || number_.size() == kMaxKeyword) {
    status_ = Status::bad;
    return false;
  }
  if (ends) state_ = State::equals;
  number_ += static_cast<char>(byte);
  return true;
}

// A key without quotes ends at its colon or at white space. A bracket or a comma in it means that
// this is no object.
bool JsonFilter::step_bare_key(unsigned char byte, std::string& copy) {
  if (byte == ':') {
    copy += "\":";
    state_ = State::value;
    return true;
  }
  if (is_space(static_cast<char>(byte))) {
    copy += '"';
    state_ = State::colon;
    return true;
  }
  if (is_structural(byte)) {
    status_ = Status::bad;
    return false;
  }
  if (byte == '=' && is_bare()) {
    number_ = "=";
    state_ = State::bare_equals;
    return true;
  }
  append_raw(copy, std::string_view(reinterpret_cast<const char*>(&byte), 1));
  return true;
}

// `a=1` in place of `a:1`, unless a colon comes; then all of it is the key.
bool JsonFilter::step_bare_equals(unsigned char byte, std::string& copy) {
  const bool is_value = byte == ',' || byte == '}' || is_space(static_cast<char>(byte)) ||
                        number_.size() == kMaxKeyword;
  const bool begins_text = byte == '"' || byte == '\'' || byte == '[' || byte == '{' ||
                           byte == static_cast<unsigned char>(own_quote_.front());
  if (!is_value && !(begins_text && number_.size() == 1)) {
    if (byte != ':' && !is_structural(byte)) {
      number_ += static_cast<char>(byte);
      return true;
    }
    append_raw(copy, std::exchange(number_, {}));
    state_ = State::bare_key;
    return step_bare_key(byte, copy);
  }
  repaired_ = true;
  copy += "\":";
  state_ = State::value;
  is_key_ = false;
  const std::string held = std::exchange(number_, {});
  for (const char each : std::string_view(held).substr(1)) {
    step(static_cast<unsigned char>(each), copy);
  }
  return step(byte, copy);
}

bool JsonFilter::step_stray_quote(unsigned char byte, std::string& copy) {
  if (byte != static_cast<unsigned char>(own_quote_[matched_])) {
    return begin_end_mark(byte, copy);
  }
  if (++matched_ == own_quote_.size()) state_ = State::after;
  return true;
}

// The format's own quote (`<|"|>`) must come whole. If it breaks off in a value, what has come is
// the beginning of a text without quotes.
bool JsonFilter::step_quote(unsigned char byte, std::string& copy) {
  if (byte != static_cast<unsigned char>(own_quote_[matched_])) {
    if (is_key_) return begin_end_mark(byte, copy);
    return begin_bare_text(own_quote_.substr(0, matched_), byte, copy);
  }
  if (++matched_ < own_quote_.size()) return true;
  flush_comma(copy);
  copy += '"';
  matched_ = 0;
  state_ = State::raw;
  return true;
}

// A string without quotes begins with `held` and `byte`.
bool JsonFilter::begin_bare_text(std::string_view held, unsigned char byte, std::string& copy) {
  repaired_ = true;
  flush_comma(copy);
  copy += '"';
  is_key_ = false;
  matched_ = 0;
  state_ = State::bare_text;
  // `held` has no byte that ends the text, but it may have the beginning of the end marker.
  for (const char each : held) step_bare_text(static_cast<unsigned char>(each), copy);
  return status_ == Status::open && step_bare_text(byte, copy);
}

// Bytes that may be the marker behind the object are held, counted in `matched_`.
bool JsonFilter::step_bare_text(unsigned char byte, std::string& copy) {
  while (matched_ > 0 && byte != static_cast<unsigned char>(end_[matched_])) {
    std::size_t keep = matched_ - std::size_t{1};
    const std::string_view held = end_.substr(0, matched_);
    while (!held.ends_with(end_.substr(0, keep))) --keep;
    append_raw(copy, held.substr(0, matched_ - keep));
    matched_ = static_cast<std::uint8_t>(keep);
  }
  if (!end_.empty() && byte == static_cast<unsigned char>(end_[matched_])) {
    if (++matched_ < end_.size()) return true;
    copy += '"';
    end_value();
    return end_by_mark(copy);
  }
  if (byte == ',' || byte == '}' || byte == ']') {
    copy += '"';
    end_value();
    return step_after(byte, copy);
  }
  append_raw(copy, std::string_view(reinterpret_cast<const char*>(&byte), 1));
  return true;
}

// The bytes that began like the format's own quote may be those of the marker behind the object.
bool JsonFilter::begin_end_mark(unsigned char byte, std::string& copy) {
  const std::string_view held = own_quote_.substr(0, matched_);
  if (!end_.starts_with(held) || end_ == held) {
    status_ = Status::bad;
    return false;
  }
  state_ = State::end_mark;
  return step_end_mark(byte, copy);
}

bool JsonFilter::step_end_mark(unsigned char byte, std::string& copy) {
  if (byte != static_cast<unsigned char>(end_[matched_])) {
    status_ = Status::bad;
    return false;
  }
  if (++matched_ < end_.size()) return true;
  return end_by_mark(copy);
}

// The marker behind the object has come, and brackets are missing.
bool JsonFilter::end_by_mark(std::string& copy) {
  matched_ = 0;
  has_used_end_ = repaired_ = true;
  close(copy);
  return true;
}

// When the value ends it is known whether it is a number or not (a date, for example).
bool JsonFilter::step_bare_number(unsigned char byte, std::string& copy) {
  const bool ends = byte == ',' || byte == '}' || byte == ']';
  if (!ends && number_.size() < kMaxNumber) {
    number_ += static_cast<char>(byte);
    if (end_.empty() || !number_.ends_with(end_)) return true;
    number_.resize(number_.size() - end_.size());
    end_bare_number(copy);
    return end_by_mark(copy);
  }
  if (!ends && begins_number(trimmed(number_))) {
    stream_held_number(copy);
    return step(byte, copy);
  }
  if (!ends || !is_bare_value(number_)) return begin_bare_text(number_, byte, copy);
  end_bare_number(copy);
  return step_after(byte, copy);
}

// A number or one of JSON's words as it is, and else a string.
void JsonFilter::end_bare_number(std::string& copy) {
  const std::string_view text = trimmed(number_);
  if (!is_number(text) && word_of(text) == nullptr) {
    repaired_ = true;
    copy += '"';
    append_raw(copy, number_);
    copy += '"';
  } else if (const Word* const word = word_of(text); word != nullptr) {
    copy += word->json;
  } else {
    copy += number_;
  }
  end_value();
}

// Behind a value. The comma is held until the next value begins, so that `[1,]` becomes `[1]`. A
// second closing quote is a slip and is dropped.
bool JsonFilter::step_after(unsigned char byte, std::string& copy) {
  byte = as_json(byte);
  if (is_behind_string_ && byte == static_cast<unsigned char>(own_quote_.front())) {
    is_behind_string_ = false;
    repaired_ = true;
    matched_ = 1;
    if (own_quote_.size() > 1) state_ = State::stray_quote;
    return true;
  }
  if (is_space(static_cast<char>(byte))) {
    copy += static_cast<char>(byte);
    return true;
  }
  if (byte == ',' && !is_set(is_wrap_)) {
    has_comma_ = true;
    comma_space_.clear();
    state_ = in_object() ? State::key : State::value;
    return true;
  }
  if (byte == (in_object() ? '}' : ']')) {
    const bool is_twice = is_set(is_doubled_);
    if (!is_set(is_wrap_)) copy += static_cast<char>(byte);
    pop();
    end_value();
    if (is_twice) {
      status_ = Status::open;
      state_ = State::double_end;
    }
    return true;
  }
  status_ = Status::bad;
  return false;
}

// The grammar of JSON's numbers as an automaton; `begin` stands for "the number ends before this
// byte", which then is read as what follows a value.
bool JsonFilter::step_number(unsigned char byte, std::string& copy) {
  const bool digit = is_digit(byte);
  State next = State::begin;  // stands for "the number ends here"
  bool may_end = true;
  switch (state_) {
    case State::minus:
      may_end = false;
      if (digit) next = byte == '0' ? State::zero : State::integer;
      break;
    case State::integer:
    case State::zero:
      if (digit && state_ == State::integer) next = State::integer;
      if (digit && state_ == State::zero) may_end = false;
      if (byte == '.') next = State::point;
      if (byte == 'e' || byte == 'E') next = State::exponent;
      break;
    case State::point:
      may_end = false;
      if (digit) next = State::fraction;
      break;
    case State::fraction:
      if (digit) next = State::fraction;
      if (byte == 'e' || byte == 'E') next = State::exponent;
      break;
    case State::exponent:
      may_end = false;
      if (byte == '+' || byte == '-') next = State::exponent_sign;
      [[fallthrough]];
    case State::exponent_sign:
      may_end = false;
      if (digit) next = State::exponent_digits;
      break;
    default:
      if (digit) next = State::exponent_digits;
      break;
  }
  if (next != State::begin) {
    copy += static_cast<char>(byte);
    state_ = next;
    return true;
  }
  if (!may_end) {
    status_ = Status::bad;
    return false;
  }
  end_value();
  return status_ == Status::open && step_after(byte, copy);
}

// true, false, null, and how Python writes them. A word is held until it is whole, because `None`
// becomes `null` and `nonesuch` becomes a text.
bool JsonFilter::step_word(unsigned char byte, std::string& copy) {
  const Word& word = kWords[word_];
  if (matched_ == word.written.size()) {  // for members: the word, or a text that begins with it
    if (is_space(static_cast<char>(byte)) && comma_space_.size() < kMaxJsonSpace) {
      comma_space_ += static_cast<char>(byte);
      return true;
    }
    if (byte != ',' && byte != '}' && byte != ']') {
      const std::string held = std::string(word.written) + comma_space_;
      if (end_.empty() || byte != static_cast<unsigned char>(end_.front())) {
        return begin_bare_text(held, byte, copy);
      }
      number_ = held;  // the marker behind the object may come
      state_ = State::bare_number;
      return step_bare_number(byte, copy);
    }
    copy.append(word.json).append(comma_space_);
    end_value();
    return step_after(byte, copy);
  }
  if (byte != static_cast<unsigned char>(word.written[matched_])) {
    if (is_bare()) return begin_bare_text(word.written.substr(0, matched_), byte, copy);
    // f"..." and tuple(...) begin like the words false and true.
    const bool is_f = matched_ == 1 && (word.written[0] == 'f' || word.written[0] == 'F');
    if (is_python() && is_f && (byte == '"' || byte == '\'' || byte == 'r' || byte == 'R')) {
      number_.assign(1, word.written[0]);
      state_ = State::prefix;
      return step_prefix(byte, copy);
    }
    if (is_python() && !is_key_ && matched_ == 1 && word.written[0] == 't' && byte == 'u') {
      number_.assign(1, 't');
      state_ = State::constructor;
      return step_constructor(byte);
    }
    status_ = Status::bad;
    return false;
  }
  if (++matched_ == word.written.size()) {
    if (word.written != word.json && !is_python()) repaired_ = true;
    flush_comma(copy);
    comma_space_.clear();
    if (is_bare()) return true;
    if (is_key_) {
      copy.append(1, '"').append(word.json).append(1, '"');
      state_ = State::colon;
      return true;
    }
    copy += word.json;
    end_value();
  }
  return true;
}

// True: `byte` completes an escape that JSON does not have.
bool JsonFilter::step_python_escape(unsigned char byte, std::string& copy) {
  if (is_raw_) {  // the two characters as they are written
    state_ = State::string;
    copy += "\\\\";
    if (byte == '\\') copy += "\\\\";
    if (byte == '"') copy += "\\\"";
    if (byte == '\'') copy += '\'';
    if (byte != '\\' && byte != '"' && byte != '\'') {
      copy_string(std::string_view(reinterpret_cast<const char*>(&byte), 1), copy);
    }
    return true;
  }
  if (byte == 'U' || (byte >= '0' && byte <= '7')) {
    drop_surrogate(copy);
    number_.clear();
    state_ = byte == 'U' ? State::wide : State::octal;
    if (byte != 'U') number_ += static_cast<char>(byte);
    return true;
  }
  if (byte == '\'' || byte == '\n' || byte == 'a' || byte == 'v') {
    drop_surrogate(copy);
    if (byte == '\'') copy += '\'';
    if (byte == 'a') copy += "\\u0007";
    if (byte == 'v') copy += "\\u000b";
    state_ = State::string;
    return true;
  }
  return false;
}

// The digits of \123 or \UXXXXXXXX.
bool JsonFilter::step_code(unsigned char byte, std::string& copy) {
  const bool is_octal = state_ == State::octal;
  const int value = hex_value(byte);
  const bool goes_on = value >= 0 && (!is_octal || value < 8);
  if (goes_on) number_ += static_cast<char>(byte);
  if (!goes_on || number_.size() == (is_octal ? 3U : 8U)) end_code(copy);
  if (!goes_on) copy_string(std::string_view(reinterpret_cast<const char*>(&byte), 1), copy);
  return true;
}

// Python's octal and `\U` escapes name a character by its number. A number that is no character
// stays as it was written, which loses nothing.
void JsonFilter::end_code(std::string& copy) {
  const bool is_octal = state_ == State::octal;
  state_ = State::string;
  char32_t code = 0;
  for (const char digit : number_) {
    code = code * (is_octal ? 8 : 16) +
           static_cast<char32_t>(hex_value(static_cast<unsigned char>(digit)));
  }
  const bool is_whole = is_octal || number_.size() == 8;
  if (!is_whole || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
    repaired_ = true;
    copy.append("\\\\U").append(number_);  // the characters as they are written
    return;
  }
  std::string character;
  utf8::append(character, code);
  append_raw(copy, character);
}

// An escape that JSON does not know is taken as a backslash and a character, since models write
// regular expressions and paths without doubling their backslashes.
void JsonFilter::step_escape(unsigned char byte, std::string& copy) {
  if ((has_python_escapes() || is_raw_) && step_python_escape(byte, copy)) return;
  if (byte == 'u' || (has_python_escapes() && byte == 'x')) {
    state_ = State::unicode;
    matched_ = 0;
    digits_ = byte == 'u' ? 4 : 2;
    if (digits_ == 2) escape_[0] = escape_[1] = '0';
    unit_ = 0;
    return;
  }
  drop_surrogate(copy);
  state_ = State::string;
  copy += '\\';
  if (std::string_view("\"\\/bfnrt").find(static_cast<char>(byte)) == std::string_view::npos) {
    repaired_ = true;
    copy += '\\';  // `\d` meant these two characters
    if (byte < 0x20) {
      append_control(copy, byte);
      return;
    }
  }
  copy += static_cast<char>(byte);
}

void JsonFilter::step_unicode(unsigned char byte, std::string& copy) {
  const int value = hex_value(byte);
  if (value < 0) {  // not an escape: the characters as they are written
    flush_escape(copy);
    copy_string(std::string_view(reinterpret_cast<const char*>(&byte), 1), copy);
    return;
  }
  escape_[4 - digits_ + matched_] = static_cast<char>(byte);
  unit_ = static_cast<std::uint16_t>(unit_ * 16 + value);
  if (++matched_ == digits_) end_unicode(copy);
}

// A high surrogate is held until its partner comes. A lone one would make the JSON invalid for
// strict readers, so it becomes U+FFFD.
void JsonFilter::end_unicode(std::string& copy) {
  state_ = State::string;
  if (unit_ >= 0xDC00 && unit_ <= 0xDFFF && high_surrogate_ != 0) {
    copy.append("\\u").append(high_text_, 4).append("\\u").append(escape_, 4);
    high_surrogate_ = 0;
    return;
  }
  drop_surrogate(copy);
  if (unit_ >= 0xD800 && unit_ <= 0xDBFF) {
    high_surrogate_ = unit_;
    for (std::size_t i = 0; i < 4; ++i) high_text_[i] = escape_[i];
  } else if (unit_ >= 0xDC00 && unit_ <= 0xDFFF) {
    repaired_ = true;
    copy += "\\ufffd";
  } else {
    copy.append("\\u").append(escape_, 4);
  }
}

// An open escape becomes the characters as they are written; a surrogate before it is lone.
void JsonFilter::flush_escape(std::string& copy) {
  drop_surrogate(copy);
  if (state_ == State::octal || state_ == State::wide) end_code(copy);
  if (state_ == State::escape) copy += "\\\\";
  if (state_ == State::unicode)
    copy.append(digits_ == 4 ? "\\\\u" : "\\\\x").append(escape_ + (4 - digits_), matched_);
  if (state_ == State::escape || state_ == State::unicode) {
    repaired_ = true;
    state_ = State::string;
  }
}

void JsonFilter::drop_surrogate(std::string& copy) {
  if (high_surrogate_ == 0) return;
  high_surrogate_ = 0;
  repaired_ = true;
  copy += "\\ufffd";
}

void JsonFilter::flush_comma(std::string& copy) {
  if (!has_comma_) return;
  copy.append(",").append(comma_space_);
  has_comma_ = false;
}

// Python's further brackets: `)` ends keywords and tuples, `}` also ends sets.
unsigned char JsonFilter::as_json(unsigned char byte) const {
  if (!is_python()) return byte;
  if (byte == ')') return depth_ == 1 || is_set(is_call_) ? '}' : ']';
  return byte == '}' && is_set(is_set_) ? ']' : byte;
}

bool JsonFilter::is_set(const Levels& levels) const {
  const unsigned level = depth_ - 1;
  return depth_ > 0 && ((levels[level / 64] >> (level % 64)) & 1U) != 0;
}

void JsonFilter::set(Levels& levels) {
  const unsigned level = depth_ - 1;
  levels[level / 64] |= std::uint64_t{1} << (level % 64);
}

// Whether a brace behind the object's own may be that one again: JSON has no key that begins so.
bool JsonFilter::may_double() const {
  return !is_python() && numbers_ == Numbers::repaired && !is_set(is_doubled_);
}

void JsonFilter::push(bool is_object) {
  const std::uint64_t bit = std::uint64_t{1} << (depth_ % 64);
  std::uint64_t& objects = is_object_[depth_ / 64];
  objects = is_object ? objects | bit : objects & ~bit;
  for (Levels* const levels : {&is_set_, &is_doubled_, &is_call_, &is_wrap_}) {
    (*levels)[depth_ / 64] &= ~bit;
  }
  ++depth_;
}

void JsonFilter::pop() {
  --depth_;
}

bool JsonFilter::in_object() const {
  const unsigned level = depth_ - 1;
  return ((is_object_[level / 64] >> (level % 64)) & 1U) != 0;
}

void JsonFilter::end_value() {
  state_ = State::after;
  if (depth_ == 0) status_ = Status::done;
}

// The input ends here and stays open. Each state hands over what it has held, so that the copy is
// what the input means so far; nothing is closed.
void JsonFilter::finish(std::string& copy) {
  if (status_ == Status::done) return;
  if (holds_brace_) open_brace(is_set_held(), copy);
  // A number at the top level is complete when the text ends.
  if (depth_ == 0 && (state_ == State::zero || state_ == State::integer ||
                      state_ == State::fraction || state_ == State::exponent_digits)) {
    end_value();
    return;
  }
  if (state_ == State::number && depth_ == 0 && held_number()) {
    end_held_number(copy);
    return;
  }
  if (holds_no_number()) return;
  flush_comma(copy);
  if (state_ == State::number) copy += begins_number(number_) ? number_ : *held_number();
  if (state_ == State::octal || state_ == State::wide) flush_escape(copy);
  if (state_ == State::word) {
    if (is_key_) copy += '"';
    copy.append(kWords[word_].json.substr(0, matched_));
  }
  if (state_ == State::keyword || state_ == State::equals) {
    copy.append(1, '"').append(trimmed(number_)).append(state_ == State::equals ? 1 : 0, '"');
  }
  if (state_ == State::bare_number) {
    const std::string_view number = trimmed(number_);
    const bool may_be_number = begins_number(number);
    if (!may_be_number) copy += '"';
    append_raw(copy, may_be_number ? number : number_);
  }
  if (state_ == State::raw || state_ == State::own_end) {
    append_raw(copy, own_quote_.substr(0, matched_));
  }
  if (state_ == State::bare_text || state_ == State::string_mark) {
    append_raw(copy, end_.substr(0, matched_));
  }
  if (state_ == State::curly_end) append_raw(copy, kCurlyLead.substr(0, matched_));
  if (state_ == State::bare_equals) append_raw(copy, number_);
  if (state_ == State::closing) end_closing(copy);
  if (high_surrogate_ != 0) copy.append("\\u").append(high_text_, 4);
  if (state_ == State::escape) copy += '\\';
  if (state_ == State::unicode) copy.append("\\u").append(escape_, 4U - digits_ + matched_);
}

// A word or a keyword is open; a comma before it is held with it.
bool JsonFilter::is_held() const {
  return state_ == State::word || state_ == State::keyword || state_ == State::equals ||
         state_ == State::number || state_ == State::prefix || is_in_constructor();
}

// What is held is not valid, or is a key without a meaning.
bool JsonFilter::is_spoilt() const {
  const bool is_no_number =
      state_ == State::number && !held_number() && !begins_number(trimmed(number_));
  return is_held() && (status_ == Status::bad || (state_ == State::word && is_key_) ||
                       state_ == State::prefix || is_in_constructor() || is_no_number);
}

// What may be a marker in the string that is open.
std::string_view JsonFilter::held_in_string() const {
  const std::string_view marker = state_ == State::curly_end     ? kCurlyLead
                                  : state_ == State::string_mark ? end_
                                                                 : own_quote_;
  return marker.substr(0, matched_);
}

std::string JsonFilter::left_out() const {
  if (state_ == State::stray_quote) return std::string(own_quote_.substr(0, matched_));
  std::string bytes = has_comma_ ? "," + comma_space_ : std::string();
  if (state_ == State::end_mark) return bytes.append(end_.substr(0, matched_));
  if (state_ == State::quote) return bytes.append(own_quote_.substr(0, matched_));
  if (state_ == State::curly) return bytes.append(kCurlyLead.substr(0, matched_));
  if (!is_spoilt()) return is_held() ? std::string() : bytes;
  if (state_ == State::word) return bytes.append(kWords[word_].written.substr(0, matched_));
  return bytes + number_;
}

// Completes the copy to valid JSON, wherever the input broke off: the present value is ended as it
// stands, a key gets `null`, and all brackets are closed.
void JsonFilter::close(std::string& copy) {
  if (status_ == Status::done || state_ == State::begin) return;
  if (holds_brace_) open_brace(is_set_held(), copy);
  if (state_ == State::closing) end_closing(copy);
  bool has_key = state_ == State::colon;
  switch (state_) {
    case State::raw:
    case State::own_end:
    case State::string_mark:
    case State::curly_end:
      append_raw(copy, held_in_string());
      [[fallthrough]];
    case State::string:
    case State::escape:
    case State::unicode:
    case State::octal:
    case State::wide:
      flush_escape(copy);
      copy += '"';
      has_key = is_key_;
      break;
    case State::bare_text:
      append_raw(copy, end_.substr(0, matched_));
      copy += '"';
      break;
    case State::bare_number: {
      const std::string number(trimmed(number_));
      if (is_bare_value(number)) {
        copy += word_of(number) != nullptr ? word_of(number)->json : number;
      } else if (is_number(number + '0')) {
        copy += number + '0';
      } else {
        repaired_ = true;
        json::append_quoted(copy, number_);
      }
      break;
    }
    case State::bare_equals:
      append_raw(copy, number_);
      [[fallthrough]];
    case State::bare_key:
      copy += '"';
      has_key = true;
      break;
    case State::quote:
    case State::curly:
      if (!is_key_ && in_object()) copy += "null";
      break;
    case State::value:
      if (!has_comma_) copy += "null";  // after a colon; after a comma, the comma itself is dropped
      break;
    case State::word:
      if (!is_spoilt()) {
        flush_comma(copy);
        copy += kWords[word_].json;
      } else if (!is_key_ && (depth_ == 0 || in_object())) {
        copy += "null";
      }
      break;
    case State::number:
    case State::prefix:
    case State::constructor:
    case State::wrapped:
      if (!is_spoilt()) {
        const auto number = held_number();
        flush_comma(copy);
        copy += number ? *number : std::string(trimmed(number_)) + '0';
      } else if (state_ != State::prefix || !is_key_) {
        if (depth_ == 0 || in_object()) copy += "null";
      }
      break;
    case State::keyword:
    case State::equals:
      if (is_spoilt()) break;
      flush_comma(copy);
      copy.append(1, '"').append(trimmed(number_)).append("\":null");
      break;
    case State::minus:
    case State::point:
    case State::exponent:
    case State::exponent_sign:
      copy += '0';
      break;
    default:
      break;
  }
  if (has_key) copy += ":null";
  has_comma_ = false;
  while (depth_ > 0) {
    if (!is_set(is_wrap_)) copy += in_object() ? '}' : ']';
    pop();
  }
  state_ = State::after;
  status_ = Status::done;
}

std::optional<std::string> whole_json(std::string_view text, JsonFilter::Numbers numbers) {
  JsonFilter filter(JsonFilter::Want::any, numbers);
  std::string json;
  const std::string_view value = trimmed(text);
  if (filter.feed(value, json) != value.size()) return std::nullopt;
  filter.finish(json);
  if (filter.status() != JsonFilter::Status::done) return std::nullopt;
  return json;
}

std::optional<std::string> whole_python(std::string_view text) {
  JsonFilter filter(JsonFilter::Want::keywords);
  std::string json;
  // Read as the one keyword of a call, since the filter reads Python's values only in calls.
  const std::string call = "(v=" + std::string(trimmed(text)) + ")";
  if (filter.feed(call, json) != call.size() || filter.status() != JsonFilter::Status::done) {
    return std::nullopt;
  }
  constexpr std::string_view kBefore = R"({"v": )";
  const auto read = json::parse(json);
  // A comma in the text would have begun a second keyword.
  const bool is_one =
      json.starts_with(kBefore) && json.ends_with('}') && read && read->if_object()->size() == 1;
  if (!is_one) return std::nullopt;
  return json.substr(kBefore.size(), json.size() - kBefore.size() - 1);
}

}  // namespace tenon::format
