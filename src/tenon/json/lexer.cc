#include "tenon/json/lexer.h"

#include <algorithm>

#include "tenon/base/utf8.h"
#include "tenon/json/scan.h"

// A deterministic automaton. `place_` says what may come next between tokens, `text_`, `digits_`
// and `word_` say where in a string, a number or a word the text was cut. `levels_` is a stack of
// one bit for each open container (1: object), so the state has a fixed size and can be copied.
//
// Every state that can be reached can be completed: a byte after which no completion would exist
// (the 'c' of "\udc") is refused where it stands. So completion() never fails: it ends the
// character, the string, number or word, adds a missing value as null and closes the open
// containers from the inside out.
//
// next() reads as many bytes of one token as there are; feed() calls it until the value ends or a
// byte is refused.
namespace tenon::json {
namespace {

constexpr std::string_view kWords[] = {"true", "false", "null"};

}  // namespace

Lexer::Lexer(Options options) : options_(options) {
  // levels_ has a fixed size.
  options_.max_depth = std::min(options_.max_depth, kMostDepth);
}

Lexer::Fed Lexer::feed(std::string_view bytes) {
  Fed fed;
  while (true) {
    const Piece piece = next(bytes.substr(fed.used));
    fed.used += piece.size;
    fed.verdict = piece.verdict;
    const bool took_nothing = piece.size == 0 && !piece.ends;
    if (piece.verdict != Verdict::more || took_nothing) return fed;
  }
}

// A token may be cut anywhere, so what has been read of it is in place_, and the next call goes on
// there. White space comes in one piece, structural characters one by one.
Lexer::Piece Lexer::next(std::string_view bytes) {
  if (place_ == Place::end) return {.verdict = Verdict::done};
  if (bytes.empty()) return {};
  switch (place_) {
    case Place::in_key:
    case Place::in_string:
      return read_string(bytes);
    case Place::in_number:
      return read_number(bytes);
    case Place::in_word:
      return read_word(bytes);
    default:
      break;
  }
  // Without leading_space a blank before the value is refused like any other wrong byte.
  if (detail::is_space(bytes.front()) && (options_.leading_space || !is_empty())) {
    std::size_t size = 1;
    while (size < bytes.size() && detail::is_space(bytes[size])) ++size;
    return {.token = Token::space, .begins = true, .ends = true, .size = size};
  }
  const Piece piece = next_structural(bytes.front());
  // Not a byte of structure, so a key or a value may begin. Verdict::too_deep ends here too.
  if (piece.size > 0 || piece.verdict != Verdict::invalid) return piece;
  return begin_scalar(bytes);
}

// Reads one byte of structure: a bracket, a brace, a comma or a colon. Verdict::invalid if `byte`
// is something else or may not stand here.
Lexer::Piece Lexer::next_structural(char byte) {
  const bool expects_value = place_ == Place::value || place_ == Place::first_item;
  switch (byte) {
    case '{':
      if (expects_value) return open(Token::begin_object, true);
      break;
    case '[':
      if (expects_value) return open(Token::begin_array, false);
      break;
    case '}':
      if (place_ == Place::first_key || (place_ == Place::after_value && is_in_object())) {
        return close(Token::end_object);
      }
      break;
    case ']':
      if (place_ == Place::first_item || (place_ == Place::after_value && !is_in_object())) {
        return close(Token::end_array);
      }
      break;
    case ',':
      if (place_ != Place::after_value) break;
      place_ = is_in_object() ? Place::next_key : Place::value;
      return {.token = Token::comma, .begins = true, .ends = true, .size = 1};
    case ':':
      if (place_ != Place::colon) break;
      place_ = Place::value;
      return {.token = Token::colon, .begins = true, .ends = true, .size = 1};
    default:
      break;
  }
  return {.verdict = Verdict::invalid};
}

Lexer::Piece Lexer::open(Token token, bool object) {
  if (depth_ == options_.max_depth) return {.verdict = Verdict::too_deep};
  const std::uint64_t bit = std::uint64_t{1} << (depth_ % 64);
  std::uint64_t& levels = levels_[depth_ / 64];
  levels = object ? levels | bit : levels & ~bit;
  ++depth_;
  place_ = object ? Place::first_key : Place::first_item;
  return {.token = token, .begins = true, .ends = true, .size = 1};
}

Lexer::Piece Lexer::close(Token token) {
  --depth_;
  return {.verdict = end_value(), .token = token, .begins = true, .ends = true, .size = 1};
}

Verdict Lexer::end_value() {
  place_ = depth_ == 0 ? Place::end : Place::after_value;
  return depth_ == 0 ? Verdict::done : Verdict::more;
}

// The first byte of a key or value decides what it is; the rest is read by the reader of its kind,
// which also goes on after a cut.
Lexer::Piece Lexer::begin_scalar(std::string_view bytes) {
  const char byte = bytes.front();
  const bool expects_value = place_ == Place::value || place_ == Place::first_item;
  const bool expects_key = place_ == Place::first_key || place_ == Place::next_key;
  Piece piece{.verdict = Verdict::invalid};
  if (byte == '"' && (expects_value || expects_key)) {
    place_ = expects_key ? Place::in_key : Place::in_string;
    text_ = Text::plain;
    piece = read_string(bytes.substr(1));
    ++piece.size;
    // The quote was taken. If the byte after it is refused, the next call refuses it again.
    if (piece.verdict == Verdict::invalid) piece.verdict = Verdict::more;
  } else if (expects_value && (byte == '-' || detail::is_digit(byte))) {
    place_ = Place::in_number;
    digits_ = byte == '-' ? Digits::minus : byte == '0' ? Digits::zero : Digits::whole;
    piece = read_number(bytes.substr(1));
    ++piece.size;
    if (piece.verdict == Verdict::invalid) piece.verdict = Verdict::more;
  } else if (expects_value && (byte == 't' || byte == 'f' || byte == 'n')) {
    place_ = Place::in_word;
    word_ = byte == 't' ? 0 : byte == 'f' ? 1 : 2;
    word_taken_ = 0;
    piece = read_word(bytes);
  }
  piece.begins = piece.size > 0;
  return piece;
}

// Plain bytes are skipped as a block; only escapes and the bytes of characters beyond ASCII are
// taken one by one.
Lexer::Piece Lexer::read_string(std::string_view bytes) {
  Piece piece{.token = place_ == Place::in_key ? Token::key : Token::string};
  while (piece.size < bytes.size()) {
    if (text_ == Text::plain) {
      piece.size += detail::plain_prefix(bytes.substr(piece.size));
      if (piece.size == bytes.size()) break;
      if (bytes[piece.size] == '"') {
        ++piece.size;
        piece.ends = true;
        if (place_ == Place::in_key) {
          place_ = Place::colon;
        } else {
          piece.verdict = end_value();
        }
        return piece;
      }
    }
    if (!take_text_byte(static_cast<unsigned char>(bytes[piece.size]))) {
      if (piece.size == 0) piece.verdict = Verdict::invalid;
      return piece;
    }
    ++piece.size;
  }
  return piece;
}

// Takes a byte of a string that is neither a plain one nor the closing quote.
bool Lexer::take_text_byte(unsigned char byte) {
  switch (text_) {
    case Text::plain: {
      if (byte == '\\') {
        text_ = Text::escape;
        return true;
      }
      if (byte < 0x80) return byte < 0x20 && options_.control_in_strings;
      const utf8::Lead lead = utf8::lead_of(byte);
      if (lead.length == 0) return false;
      text_ = Text::character;
      left_ = static_cast<std::uint8_t>(lead.length - 1);
      least_ = lead.least_second;
      most_ = lead.most_second;
      return true;
    }
    case Text::character:
      if (byte < least_ || byte > most_) return false;
      least_ = 0x80;
      most_ = 0xBF;
      if (--left_ == 0) text_ = Text::plain;
      return true;
    case Text::escape:
      if (byte == 'u') {
        text_ = Text::hex;
        left_ = 4;
        unit_ = 0;
        is_low_ = false;
        return true;
      }
      if (std::string_view("\"\\/bfnrt").find(static_cast<char>(byte)) == std::string_view::npos) {
        return false;
      }
      text_ = Text::plain;
      return true;
    case Text::hex:
      return take_hex(static_cast<char>(byte));
    case Text::low_backslash:
      if (byte != '\\') return false;
      text_ = Text::low_u;
      return true;
    case Text::low_u:
      if (byte != 'u') return false;
      text_ = Text::hex;
      left_ = 4;
      unit_ = 0;
      is_low_ = true;
      return true;
  }
  return false;
}

// A digit behind \u, of which left_ are missing. Digits that could only make a lone surrogate are
// refused at once: \u followed by dc to df is the second half of a pair without the first, and
// behind a first half only d and then c to f can come.
bool Lexer::take_hex(char byte) {
  const int digit = detail::hex_value(byte);
  if (digit < 0) return false;
  // The digits so far, this one included: 0xD after one of them, 0xDC to 0xDF after two.
  const auto unit = static_cast<std::uint16_t>(unit_ << 4 | digit);
  if (is_low_ && left_ == 4 && unit != 0xD) return false;
  if (left_ == 3 && is_low_ != (unit >= 0xDC && unit <= 0xDF)) return false;
  unit_ = unit;
  if (--left_ > 0) return true;
  // A first half needs the second: a backslash and a u must follow.
  const bool is_high = !is_low_ && unit_ >= 0xD800 && unit_ < 0xDC00;
  text_ = is_high ? Text::low_backslash : Text::plain;
  return true;
}

// A number ends at the byte behind it, which is not taken: in `12,` the piece is `12`. If the text
// was cut before that byte, the last piece has no bytes (Piece::size).
Lexer::Piece Lexer::read_number(std::string_view bytes) {
  Piece piece{.token = Token::number};
  while (piece.size < bytes.size()) {
    if (take_number_byte(bytes[piece.size])) {
      ++piece.size;
    } else if (number_can_end()) {
      piece.ends = true;
      piece.verdict = end_value();
      break;
    } else {
      if (piece.size == 0) piece.verdict = Verdict::invalid;
      break;
    }
  }
  return piece;
}

// The automaton of RFC 8259, section 6. False: the number cannot go on with this byte.
bool Lexer::take_number_byte(char byte) {
  const auto move_to = [this](Digits digits) {
    digits_ = digits;
    return true;
  };
  const bool is_digit = detail::is_digit(byte);
  const bool is_e = byte == 'e' || byte == 'E';
  switch (digits_) {
    case Digits::minus:
      return is_digit && move_to(byte == '0' ? Digits::zero : Digits::whole);
    case Digits::whole:
      if (is_digit) return true;
      [[fallthrough]];
    case Digits::zero:
      if (byte == '.') return move_to(Digits::point);
      return is_e && move_to(Digits::e);
    case Digits::point:
      return is_digit && move_to(Digits::fraction);
    case Digits::fraction:
      return is_digit || (is_e && move_to(Digits::e));
    case Digits::e:
      if (byte == '+' || byte == '-') return move_to(Digits::sign);
      [[fallthrough]];
    case Digits::sign:
      return is_digit && move_to(Digits::exponent);
    case Digits::exponent:
      return is_digit;
  }
  return false;
}

bool Lexer::number_can_end() const {
  return digits_ == Digits::zero || digits_ == Digits::whole || digits_ == Digits::fraction ||
         digits_ == Digits::exponent;
}

Lexer::Piece Lexer::read_word(std::string_view bytes) {
  Piece piece{.token = Token::word};
  const std::string_view word = kWords[word_];
  while (piece.size < bytes.size()) {
    if (bytes[piece.size] != word[word_taken_]) {
      if (piece.size == 0) piece.verdict = Verdict::invalid;
      break;
    }
    ++piece.size;
    if (++word_taken_ == word.size()) {
      piece.ends = true;
      piece.verdict = end_value();
      break;
    }
  }
  return piece;
}

bool Lexer::is_complete() const {
  return place_ == Place::end || (depth_ == 0 && place_ == Place::in_number && number_can_end());
}

std::string Lexer::completion() const {
  std::string out;
  append_completion(out);
  return out;
}

// A text that makes the text so far valid JSON.
void Lexer::append_completion(std::string& out) const {
  switch (place_) {
    case Place::value:
      out.append("null");
      break;
    case Place::next_key:
      out.append("\"\":null");
      break;
    case Place::colon:
      out.append(":null");
      break;
    case Place::in_key:
      append_text_completion(out);
      out.append("\":null");
      break;
    case Place::in_string:
      append_text_completion(out);
      out.push_back('"');
      break;
    case Place::in_number:
      if (!number_can_end()) out.push_back('0');
      break;
    case Place::in_word:
      out.append(kWords[word_].substr(word_taken_));
      break;
    case Place::first_item:
    case Place::first_key:
    case Place::after_value:
    case Place::end:
      break;
  }
  for (std::size_t level = depth_; level > 0; --level)
    out.push_back(is_object(level - 1) ? '}' : ']');
}

// Ends an escape or a character that has begun.
void Lexer::append_text_completion(std::string& out) const {
  switch (text_) {
    case Text::plain:
      break;
    case Text::escape:
      out.push_back('\\');
      break;
    case Text::character:
      // The lowest character that begins with the bytes so far.
      out.push_back(static_cast<char>(least_));
      out.append(left_ - std::size_t{1}, '\x80');
      break;
    case Text::low_backslash:
      out.append("\\udc00");
      break;
    case Text::low_u:
      out.append("udc00");
      break;
    case Text::hex:
      if (is_low_) {
        out.append(std::string_view("dc00").substr(4U - left_));
        break;
      }
      out.append(left_, '0');
      // After "\ud8" to "\udbf" the zeros make a high surrogate, which needs its other half.
      const unsigned unit = static_cast<unsigned>(unit_) << (4U * left_);
      if (unit >= 0xD800 && unit < 0xDC00) out.append("\\udc00");
      break;
  }
}

std::string_view Lexer::expected() const {
  switch (place_) {
    case Place::value:
      return "a value";
    case Place::first_item:
      return "a value or ']'";
    case Place::first_key:
      return "a key in double quotes or '}'";
    case Place::next_key:
      return "a key in double quotes";
    case Place::colon:
      return "':' after a key";
    case Place::after_value:
      return is_in_object() ? "',' or '}' after a member" : "',' or ']' after an item";
    case Place::in_number:
      return "a digit";
    case Place::in_word:
      return "true, false or null";
    case Place::end:
      return "the end of the text";
    case Place::in_key:
    case Place::in_string:
      break;
  }
  switch (text_) {
    case Text::plain:
      return "a character or escape of the string";
    case Text::escape:
      return "one of \"\\/bfnrtu after '\\'";
    case Text::hex:
      return "a hexadecimal digit that makes no lone surrogate";
    case Text::low_backslash:
    case Text::low_u:
      return "the escape of a low surrogate";
    case Text::character:
      return "valid UTF-8";
  }
  return "";
}

bool is_prefix(std::string_view text) {
  Lexer lexer(Lexer::Options{.max_depth = Lexer::kMostDepth});
  const Lexer::Fed fed = lexer.feed(text);
  if (fed.verdict == Verdict::more) return true;
  return fed.verdict == Verdict::done &&
         std::all_of(text.begin() + static_cast<std::ptrdiff_t>(fed.used), text.end(),
                     detail::is_space);
}

}  // namespace tenon::json
