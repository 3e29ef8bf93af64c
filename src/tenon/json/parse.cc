#include <algorithm>

#include "tenon/base/utf8.h"
#include "tenon/json/scan.h"
#include "tenon/json/value.h"

namespace tenon::json {
namespace {

using detail::is_digit;

// Parses in one pass without recursion. Items and members wait on stacks until their container
// ends; then it takes them over in one allocation of the right size.
class Parser {
 public:
  Parser(std::string_view text, const ParseOptions& options) : text_(text), options_(options) {
    items_.reserve(8);
    members_.reserve(16);
    open_.reserve(16);
  }

  // The loop reads one item or member of the innermost container after the other. A container that
  // ends is a value of the next one out.
  Expected<Value> run() {
    if (text_.size() > options_.max_bytes) {
      return Unexpected(
          Error{Errc::limit_exceeded,
                "JSON text larger than " + std::to_string(options_.max_bytes) + " bytes"});
    }
    skip_space();
    bool good = begin_value();
    while (good && !open_.empty()) good = open_.back().is_object ? next_member() : next_item();
    if (good) {
      skip_space();
      if (at_ == text_.size()) return std::move(items_.back());
      expected("the end of the text");
    }
    return Unexpected(std::move(error_));
  }

 private:
  // A container that has begun.
  struct Open {
    std::size_t first;  // on items_ or members_
    bool is_object;
    bool has_begun = false;  // something has been read inside
  };

  void skip_space() {
    while (at_ < text_.size() && detail::is_space(text_[at_])) ++at_;
  }

  // '\0' at the end. A NUL in the text is no valid token either, so callers need not distinguish
  // the two.
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool take(char byte) {
    if (peek() != byte) return false;
    ++at_;
    return true;
  }

  // The place of the value that is read next: the member whose key was read last, or the end of the
  // items.
  Value& new_value() {
    if (!open_.empty() && open_.back().is_object) return members_.back().value;
    return items_.emplace_back();
  }

  // Reads a whole scalar, or opens a container.
  bool begin_value() {
    if (++value_count_ > options_.max_values) {
      return fail(Errc::limit_exceeded,
                  "more than " + std::to_string(options_.max_values) + " values");
    }
    switch (peek()) {
      case '{':
        return open(true);
      case '[':
        return open(false);
      case '"':
        return read_string(new_value().make_string());
      case 't':
        return read_word("true", true);
      case 'f':
        return read_word("false", false);
      case 'n':
        return read_word("null", nullptr);
      case '-':
      case '0':
      case '1':
      case '2':
      case '3':
      case '4':
      case '5':
      case '6':
      case '7':
      case '8':
      case '9':
        return read_number();
      default:
        return expected("a value");
    }
  }

  bool open(bool is_object) {
    if (open_.size() == options_.max_depth) {
      return fail(Errc::limit_exceeded,
                  "nested more than " + std::to_string(options_.max_depth) + " deep");
    }
    open_.push_back({is_object ? members_.size() : items_.size(), is_object});
    ++at_;
    return true;
  }

  bool next_item() {
    skip_space();
    if (take(']')) return end_array();
    if (open_.back().has_begun) {
      if (!take(',')) return expected("',' or ']' after an item");
      skip_space();
    }
    open_.back().has_begun = true;
    return begin_value();
  }

  bool next_member() {
    skip_space();
    if (take('}')) return end_object();
    if (open_.back().has_begun) {
      if (!take(',')) return expected("',' or '}' after a member");
      skip_space();
    }
    if (peek() != '"') {
      return expected(open_.back().has_begun ? "a key in double quotes"
                                             : "a key in double quotes or '}'");
    }
    open_.back().has_begun = true;
    if (!read_string(members_.emplace_back().key)) return false;
    skip_space();
    if (!take(':')) return expected("':' after a key");
    skip_space();
    return begin_value();
  }

  // The items leave the stack first, so that new_value() is a place in the container around them.
  bool end_array() {
    Array items = take_from(items_);
    new_value() = std::move(items);
    return true;
  }

  bool end_object() {
    Object members(take_from(members_));
    new_value() = std::move(members);
    return true;
  }

  // Takes the innermost container's part of `stack`; the container is then closed.
  template <class T>
  std::vector<T> take_from(std::vector<T>& stack) {
    const auto first = stack.begin() + static_cast<std::ptrdiff_t>(open_.back().first);
    std::vector<T> taken(std::make_move_iterator(first), std::make_move_iterator(stack.end()));
    stack.erase(first, stack.end());
    open_.pop_back();
    return taken;
  }

  template <class Literal>
  bool read_word(std::string_view word, Literal value) {
    if (!text_.substr(at_).starts_with(word)) return expected("a value");
    at_ += word.size();
    new_value() = value;
    return true;
  }

  // The text is kept as it is; RFC 8259, section 6: no zeros in front, and a digit on both sides of
  // the point.
  bool read_number() {
    const std::size_t begin = at_;
    take('-');
    if (!take('0') && !read_digits("a digit after '-'")) return false;
    if (take('.') && !read_digits("a digit after '.'")) return false;
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      if (!read_digits("a digit of the exponent")) return false;
    }
    new_value() = Number{std::string(text_.substr(begin, at_ - begin))};
    return true;
  }

  bool read_digits(std::string_view what) {
    if (!is_digit(peek())) return expected(what);
    while (is_digit(peek())) ++at_;
    return true;
  }

  // Reads from the opening quote; `out` is empty.
  bool read_string(std::string& out) {
    ++at_;
    // Most strings have no escape and are ASCII: they are copied at once.
    const std::size_t whole = detail::plain_prefix(text_.substr(at_));
    if (at_ + whole < text_.size() && text_[at_ + whole] == '"') {
      out.assign(text_.data() + at_, whole);
      at_ += whole + 1;
      return true;
    }
    while (true) {
      const std::size_t plain = detail::plain_prefix(text_.substr(at_));
      out.append(text_, at_, plain);
      at_ += plain;
      if (at_ == text_.size()) return expected("the string's closing '\"'");
      const char byte = text_[at_];
      if (byte == '"') {
        ++at_;
        return true;
      }
      if (byte == '\\') {
        if (!read_escape(out)) return false;
      } else if (static_cast<unsigned char>(byte) < 0x20) {
        return expected("control characters in strings to be escaped");
      } else {
        const utf8::Decoded character = utf8::decode(text_.substr(at_));
        if (character.length == 0) return expected("valid UTF-8");
        out.append(text_, at_, character.length);
        at_ += character.length;
      }
    }
  }

  // Reads from the backslash.
  bool read_escape(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kBytes = "\"\\/\b\f\n\r\t";
    ++at_;
    if (take('u')) return read_unicode_escape(out);
    const std::size_t name = at_ < text_.size() ? kNames.find(text_[at_]) : std::string_view::npos;
    if (name == std::string_view::npos) return expected("one of \"\\/bfnrtu after '\\'");
    out.push_back(kBytes[name]);
    ++at_;
    return true;
  }

  // Reads the digits after "\u".
  bool read_unicode_escape(std::string& out) {
    const std::size_t begin = at_ - 2;
    char32_t code_point = 0;
    if (!read_hex(code_point)) return false;
    if (code_point >= 0xD800 && code_point < 0xE000) {
      char32_t low = 0;
      // "\ud83d\ude00" is one character. A half by itself has no UTF-8, so it is an error at its
      // backslash.
      const bool has_low = code_point < 0xDC00 && text_.substr(at_).starts_with("\\u");
      if (has_low) {
        at_ += 2;
        if (!read_hex(low)) return false;
      }
      if (low < 0xDC00 || low >= 0xE000) {
        at_ = begin;
        return expected("a surrogate escape to be one of a pair");
      }
      code_point = 0x10000 + ((code_point - 0xD800) << 10) + (low - 0xDC00);
    }
    utf8::append(out, code_point);
    return true;
  }

  bool read_hex(char32_t& value) {
    for (int i = 0; i < 4; ++i) {
      const int digit = at_ < text_.size() ? detail::hex_value(text_[at_]) : -1;
      if (digit < 0) return expected("four hexadecimal digits after '\\u'");
      value = value << 4 | static_cast<char32_t>(digit);
      ++at_;
    }
    return true;
  }

  bool expected(std::string_view what) {
    return fail(Errc::invalid, "expected " + std::string(what) + ", found " + found());
  }

  // What is at the place of an error: a character in quotes, or a byte that cannot be shown.
  [[nodiscard]] std::string found() const {
    if (at_ == text_.size()) return "the end of the text";
    const utf8::Decoded character = utf8::decode(text_.substr(at_));
    if (character.length > 0 && character.code_point >= 0x20) {
      return "'" + std::string(text_.substr(at_, character.length)) + "'";
    }
    constexpr std::string_view kHex = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(text_[at_]);
    return std::string("byte 0x") + kHex[byte >> 4] + kHex[byte & 15];
  }

  // Lines and columns are counted only now, from the beginning of the text.
  bool fail(Errc code, std::string_view what) {
    const std::string_view before = text_.substr(0, at_);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
    error_.code = code;
    error_.line = static_cast<std::uint32_t>(line);
    error_.message = "line " + std::to_string(line) + ", column " +
                     std::to_string(1 + utf8::length(before.substr(line_begin))) + ": ";
    error_.message.append(what);
    return false;
  }

  std::string_view text_;
  const ParseOptions& options_;
  std::size_t at_ = 0;
  std::size_t value_count_ = 0;
  std::vector<Value> items_;     // of the open arrays; at the end the text's own value
  std::vector<Member> members_;  // of the open objects; the last of each perhaps without its value
  std::vector<Open> open_;
  Error error_{Errc::invalid, {}};
};

}  // namespace

Expected<Value> parse(std::string_view text, const ParseOptions& options) {
  return Parser(text, options).run();
}

}  // namespace tenon::json
