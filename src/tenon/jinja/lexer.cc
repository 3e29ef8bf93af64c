#include "tenon/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "tenon/jinja/unicode.h"
#include "tenon/jinja/value.h"

// Cuts a template into tokens in one pass. Outside tags it looks for the next "{%", "{{" or "{#"
// (lex_text); what stands before it is one token of data. Spaces around a tag are removed here, by
// the signs "-" and "+" of the tag and by trim_blocks and lstrip_blocks, so that the parser sees
// only text that is printed. Inside a tag, lex_token reads one token at a time, until a closer
// stands outside all brackets (`brackets_`), as in jinja2: "}}" inside a dict does not end the tag.
//
// Tokens are a kind and a stretch of the source. Escapes of strings are read by the parser.
// The search for the end of a raw block goes over each space once, so the whole is linear.
namespace tenon::jinja {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
// The ASCII bytes of names; other letters are looked up (lex_name).
constexpr std::array<bool, 256> kNameBytes = [] {
  std::array<bool, 256> bytes{};
  for (int c = 0; c < 128; ++c) {
    bytes[static_cast<std::size_t>(c)] =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  }
  return bytes;
}();

bool is_name_byte(char c) {
  return kNameBytes[static_cast<unsigned char>(c)];
}

class Lexer {
 public:
  Lexer(std::string_view source, bool trim_blocks, bool lstrip_blocks)
      : source_(source), trim_blocks_(trim_blocks), lstrip_blocks_(lstrip_blocks) {}

  std::vector<Lexeme> run() {
    lexemes_.reserve(source_.size() / 6 + 8);
    while (at_ < source_.size()) lex_text();
    add(Token::end, at_, 0);
    return std::move(lexemes_);
  }

 private:
  [[noreturn]] void fail(std::string message, std::size_t at) const {
    throw Fault{Errc::invalid, "TemplateSyntaxError: " + std::move(message),
                static_cast<std::uint32_t>(at)};
  }
  void add(Token token, std::size_t begin, std::size_t size) {
    lexemes_.push_back(
        {token, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(size)});
  }
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  void skip_space() {
    while (at_ < source_.size()) {
      std::size_t next = at_;
      if (!unicode::is_space(unicode::next(source_, next))) return;
      at_ = next;
    }
  }

  // The position of the next {%, {{ or {#.
  [[nodiscard]] std::size_t find_tag(std::size_t from) const {
    while (true) {
      const std::size_t brace = source_.find('{', from);
      if (brace == std::string_view::npos || brace + 1 >= source_.size()) return source_.size();
      const char c = source_[brace + 1];
      if (c == '%' || c == '{' || c == '#') return brace;
      from = brace + 1;
    }
  }

  // Adds the text from `begin` to `end`. Spaces at its end are removed as the tag's sign and
  // lstrip_blocks say.
  void add_data(std::size_t begin, std::size_t end, char sign, bool is_variable) {
    if (sign == '-') {
      while (end > begin) {
        std::size_t previous = end;
        if (!unicode::is_space(unicode::previous(source_, previous)) || previous < begin) break;
        end = previous;
      }
    } else if (sign != '+' && lstrip_blocks_ && !is_variable) {
      // A tag that stands alone at the beginning of its line takes the indentation with it. `line`
      // goes back to the line's beginning; if it reaches the text's, that must be a line's
      // beginning, too.
      std::size_t line = end;
      bool is_blank = true;
      while (line > begin && source_[line - 1] != '\n') {
        std::size_t previous = line;
        if (!unicode::is_space(unicode::previous(source_, previous))) {
          is_blank = false;
          break;
        }
        line = previous;
      }
      if (is_blank && (line > begin || line_starting_)) end = line;
    }
    if (end > begin) add(Token::data, begin, end - begin);
  }

  // Text up to the next tag. The signs at the tag (`{%-`, `{%+`) decide how much white space before
  // it belongs to the text.
  void lex_text() {
    const std::size_t begin = at_;
    const std::size_t tag = find_tag(at_);
    if (tag == source_.size()) {
      add(Token::data, begin, tag - begin);
      at_ = tag;
      return;
    }
    const char kind = source_[tag + 1];
    at_ = tag + 2;
    char sign = peek();
    if (sign == '-' || sign == '+') {
      // The sign belongs to the tag, of whichever kind.
      ++at_;
    } else {
      sign = '\0';
    }
    add_data(begin, tag, sign, kind == '{');
    if (kind == '#') {
      lex_comment(tag);
    } else if (kind == '%' && lex_raw(tag)) {
      return;  // a raw block is one token of data, which lex_raw() has added
    } else {
      add(kind == '%' ? Token::block_begin : Token::variable_begin, tag, at_ - tag);
      lex_code(kind == '%');
    }
  }

  // After "%}" or "#}": skips the space that the sign before it, or trim_blocks, removes.
  void end_tag(char sign) {
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && trim_blocks_ && peek() == '\n') {
      ++at_;
    }
    // at_ is behind at least the two bytes of the tag.
    line_starting_ = source_[at_ - 1] == '\n';
  }

  // A comment makes no token; only its signs matter for the text around it.
  void lex_comment(std::size_t tag) {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) fail("Missing end of comment tag", tag);
    // The sign may stand directly before `#}`: `{#- text -#}`.
    const char sign = end > at_ ? source_[end - 1] : '\0';
    at_ = end + 2;
    end_tag(sign);
  }

  // Reads {% raw %} ... {% endraw %} if a raw block begins here.
  bool lex_raw(std::size_t tag) {
    const std::size_t start = at_;
    skip_space();
    // Nothing is consumed: the tag is read again as an ordinary one.
    if (source_.substr(at_, 3) != "raw") {
      at_ = start;
      return false;
    }
    at_ += 3;
    skip_space();
    const bool strips = peek() == '-';
    if (source_.substr(at_ + strips, 2) != "%}") {
      at_ = start;
      return false;
    }
    at_ += 2 + (strips ? 1 : 0);
    if (strips) skip_space();
    line_starting_ = source_[at_ - 1] == '\n';
    const std::size_t begin = at_;
    for (std::size_t from = at_;;) {
      // Other tags inside are text; only `endraw` ends it.
      const std::size_t end = source_.find("{%", from);
      if (end == std::string_view::npos) fail("Missing end of raw directive", tag);
      from = end + 2;
      at_ = from;
      char sign = peek();
      if (sign == '-' || sign == '+') {
        ++at_;
      } else {
        sign = '\0';
      }
      skip_space();
      if (source_.substr(at_, 6) == "endraw") {
        at_ += 6;
        skip_space();
        const char end_sign = peek();
        const bool is_signed = end_sign == '-' || end_sign == '+';
        if (source_.substr(at_ + is_signed, 2) == "%}") {
          at_ += 2 + (is_signed ? 1 : 0);
          add_data(begin, end, sign, false);
          end_tag(end_sign);
          return true;
        }
      }
      // This space was read once and is not read again: the next search starts after it.
      from = at_ > from ? at_ : from;
    }
  }

  // Tokens up to the end of the tag.
  void lex_code(bool is_block) {
    brackets_.clear();
    while (true) {
      if (at_ >= source_.size()) return;  // the parser says what is missing
      if (brackets_.empty() && lex_end(is_block)) return;
      lex_token();
    }
  }

  // The end of a tag, if it stands here. A newline behind a block is removed (trim_blocks) unless a
  // sign says otherwise; a newline behind a variable stays.
  bool lex_end(bool is_block) {
    const char c = source_[at_];
    if (is_name_byte(c) || c == ' ') return false;  // most bytes of a tag
    const bool is_signed = c == '-' || (is_block && c == '+');
    if (source_.substr(at_ + is_signed, 2) != (is_block ? "%}" : "}}")) return false;
    const std::size_t begin = at_;
    at_ += 2 + (is_signed ? 1 : 0);
    if (is_block) {
      // `c` is the sign, or the `%` itself, which end_tag() takes as no sign.
      end_tag(c);
    } else {
      if (is_signed) skip_space();
      line_starting_ = source_[at_ - 1] == '\n';
    }
    add(is_block ? Token::block_end : Token::variable_end, begin, at_ - begin);
    return true;
  }

  void lex_token() {
    const char c = source_[at_];
    // White space of ASCII as Python has it, with the four separators.
    if (c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f)) {
      ++at_;
    } else if (is_digit(c)) {
      lex_number();
    } else if (is_name_byte(c)) {
      lex_name();
    } else if (c == '\'' || c == '"') {
      lex_string(c);
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      // Beyond ASCII only spaces and letters can stand outside strings.
      std::size_t next = at_;
      const char32_t point = unicode::next(source_, next);
      if (unicode::is_space(point)) {
        at_ = next;
      } else if (unicode::is(point, unicode::kIdStart)) {
        lex_name();
      } else {
        fail("unexpected character", at_);
      }
    } else {
      lex_operator(c);
    }
  }

  // Python's identifiers, so letters of all scripts.
  void lex_name() {
    const std::size_t begin = at_;
    while (at_ < source_.size()) {
      if (is_name_byte(source_[at_])) {
        ++at_;
        continue;
      }
      if (static_cast<unsigned char>(source_[at_]) < 0x80) break;
      std::size_t next = at_;
      if (!unicode::is(unicode::next(source_, next), unicode::kIdContinue)) break;
      at_ = next;
    }
    add(Token::name, begin, at_ - begin);
  }

  // Where digits with single underscores between them end, from `from` on.
  [[nodiscard]] std::size_t digits_end(std::size_t from) const {
    std::size_t at = from;
    while (at < source_.size() && is_digit(source_[at])) {
      ++at;
      if (at + 1 < source_.size() && source_[at] == '_' && is_digit(source_[at + 1])) ++at;
    }
    return at;
  }

  // `1.5` is a real and `a.1.5` are two items: behind a dot no number has a fraction.
  void lex_number() {
    const std::size_t begin = at_;
    const std::size_t whole = digits_end(begin);
    if (begin == 0 || source_[begin - 1] != '.') {
      std::size_t end = whole;
      bool is_real = false;
      if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
        end = digits_end(end + 1);
        is_real = true;
      }
      if (end < source_.size() && (source_[end] | 0x20) == 'e') {
        std::size_t exponent = end + 1;
        // An `e` without digits behind it is not part of the number.
        if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) {
          ++exponent;
        }
        if (exponent < source_.size() && is_digit(source_[exponent])) {
          end = digits_end(exponent);
          is_real = true;
        }
      }
      if (is_real) {
        at_ = end;
        add(Token::real, begin, end - begin);
        return;
      }
    }
    at_ = source_[begin] == '0' ? zero_end(begin) : whole;
    add(Token::integer, begin, at_ - begin);
  }

  // Where a literal that begins with 0 ends: one of base 2, 8 or 16, or only zeros.
  // jinja2's integer_re has no other literals with a leading zero: `012` is `0` and then `12`.
  [[nodiscard]] std::size_t zero_end(std::size_t begin) const {
    const char kind =
        begin + 1 < source_.size() ? static_cast<char>(source_[begin + 1] | 0x20) : '\0';
    const auto is_of = [kind](char c) {
      if (kind == 'b') return c == '0' || c == '1';
      if (kind == 'o') return c >= '0' && c <= '7';
      return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
    };
    if (kind == 'b' || kind == 'o' || kind == 'x') {
      std::size_t at = begin + 2;
      while (at < source_.size()) {
        const bool skips = source_[at] == '_' && at + 1 < source_.size();
        if (!is_of(source_[at + (skips ? 1 : 0)])) break;
        at += skips ? 2 : 1;
      }
      if (at > begin + 2) return at;
    }
    std::size_t at = begin + 1;
    while (at < source_.size()) {
      if (source_[at] == '0') {
        ++at;
      } else if (source_[at] == '_' && at + 1 < source_.size() && source_[at + 1] == '0') {
        at += 2;
      } else {
        break;
      }
    }
    return at;
  }

  void lex_string(char quote) {
    // Most strings have no escapes, so the first quote ends them. If a backslash comes before it,
    // each escape is skipped with the character behind it.
    std::size_t end = std::min(source_.find(quote, at_ + 1), source_.size());
    const std::size_t escape = source_.substr(0, end).find('\\', at_ + 1);
    if (escape != std::string_view::npos) {
      end = escape;
      while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    }
    if (end >= source_.size()) fail("unexpected char, a string is not closed", at_);
    add(Token::string, at_ + 1, end - at_ - 1);
    at_ = end + 1;
  }

  void lex_operator(char c) {
    const char second = peek(1);
    const auto emit = [this](Token token, std::size_t size) {
      add(token, at_, size);
      at_ += size;
    };
    switch (c) {
      case '+':
        return emit(Token::add, 1);
      case '-':
        return emit(Token::subtract, 1);
      case '/':
        return second == '/' ? emit(Token::floor_divide, 2) : emit(Token::divide, 1);
      case '*':
        return second == '*' ? emit(Token::power, 2) : emit(Token::multiply, 1);
      case '%':
        return emit(Token::modulo, 1);
      case '~':
        return emit(Token::tilde, 1);
      case '[':
        return open(Token::left_bracket, ']');
      case '(':
        return open(Token::left_paren, ')');
      case '{':
        return open(Token::left_brace, '}');
      case ']':
        return close(Token::right_bracket, c);
      case ')':
        return close(Token::right_paren, c);
      case '}':
        return close(Token::right_brace, c);
      case '=':
        return second == '=' ? emit(Token::eq, 2) : emit(Token::assign, 1);
      case '!':
        if (second == '=') return emit(Token::ne, 2);
        break;
      case '>':
        return second == '=' ? emit(Token::ge, 2) : emit(Token::gt, 1);
      case '<':
        return second == '=' ? emit(Token::le, 2) : emit(Token::lt, 1);
      case '.':
        return emit(Token::dot, 1);
      case ':':
        return emit(Token::colon, 1);
      case '|':
        return emit(Token::pipe, 1);
      case ',':
        return emit(Token::comma, 1);
      case ';':
        return emit(Token::semicolon, 1);
      default:
        break;
    }
    fail(std::string("unexpected char '") + c + "'", at_);
  }
  // Brackets must match, as in jinja2's lexer. While one is open, `}}` and `%}` are tokens of the
  // code.
  void open(Token token, char closer) {
    brackets_ += closer;
    add(token, at_++, 1);
  }
  void close(Token token, char c) {
    if (brackets_.empty()) fail(std::string("unexpected '") + c + "'", at_);
    if (brackets_.back() != c) {
      fail(std::string("unexpected '") + c + "', expected '" + brackets_.back() + "'", at_);
    }
    brackets_.pop_back();
    add(token, at_++, 1);
  }

  std::string_view source_;
  bool trim_blocks_, lstrip_blocks_;
  std::size_t at_ = 0;
  bool line_starting_ = true;  // the last tag ended a line, or none came yet
  std::string brackets_;       // closing brackets that are expected
  std::vector<Lexeme> lexemes_;
};

}  // namespace

// jinja2's names of tokens in messages.
std::string_view describe(Token token) {
  switch (token) {
    case Token::end:
      return "end of template";
    case Token::data:
      return "template data / text";
    case Token::variable_begin:
      return "begin of print statement";
    case Token::variable_end:
      return "end of print statement";
    case Token::block_begin:
      return "begin of statement block";
    case Token::block_end:
      return "end of statement block";
    case Token::name:
      return "name";
    case Token::string:
      return "string";
    case Token::integer:
      return "integer";
    case Token::real:
      return "float";
    case Token::add:
      return "+";
    case Token::subtract:
      return "-";
    case Token::divide:
      return "/";
    case Token::floor_divide:
      return "//";
    case Token::multiply:
      return "*";
    case Token::modulo:
      return "%";
    case Token::power:
      return "**";
    case Token::tilde:
      return "~";
    case Token::left_bracket:
      return "[";
    case Token::right_bracket:
      return "]";
    case Token::left_paren:
      return "(";
    case Token::right_paren:
      return ")";
    case Token::left_brace:
      return "{";
    case Token::right_brace:
      return "}";
    case Token::eq:
      return "==";
    case Token::ne:
      return "!=";
    case Token::gt:
      return ">";
    case Token::ge:
      return ">=";
    case Token::lt:
      return "<";
    case Token::le:
      return "<=";
    case Token::assign:
      return "=";
    case Token::dot:
      return ".";
    case Token::colon:
      return ":";
    case Token::pipe:
      return "|";
    case Token::comma:
      return ",";
    case Token::semicolon:
      return ";";
  }
  return "";
}

// As jinja2: all line ends become `\n`, and one at the end of the template is dropped.
std::string normalize_newlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t at = 0; at < source.size();) {
    const std::size_t stop = source.find('\r', at);
    if (stop == std::string_view::npos) {
      text.append(source.substr(at));
      break;
    }
    text.append(source.substr(at, stop - at));
    text += '\n';
    at = stop + (source.substr(stop, 2) == "\r\n" ? 2 : 1);
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::vector<Lexeme> tokenize(std::string_view source, bool trim_blocks, bool lstrip_blocks) {
  return Lexer(source, trim_blocks, lstrip_blocks).run();
}

}  // namespace tenon::jinja
