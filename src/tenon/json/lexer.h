#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// A lexer for JSON text that is still being written.
namespace tenon::json {

enum class Token : std::uint8_t {
  space,
  begin_object,
  end_object,
  begin_array,
  end_array,
  colon,
  comma,
  key,  ///< With its quotes and escapes as they are written, like `string`.
  string,
  number,
  word,  ///< true, false, null
};

enum class Verdict : std::uint8_t {
  more,      ///< Every byte was taken; the value has not ended.
  done,      ///< The value has ended. Bytes after `used` or `size` are not part of it.
  invalid,   ///< The next byte cannot continue any JSON text that begins like this one.
  too_deep,  ///< The next byte opens one level more than max_depth.
};

/// Follows one JSON value through text that is cut anywhere.
///
///     Lexer lexer;
///     while (auto chunk = source.read()) {
///       const Lexer::Fed fed = lexer.feed(*chunk);
///       arguments += chunk->substr(0, fed.used);
///       if (fed.verdict == Verdict::done) return rest(chunk->substr(fed.used));
///       if (fed.verdict != Verdict::more) break;      // chunk[fed.used] does not fit
///     }
///     arguments += lexer.completion();                // valid JSON, whatever came before
///
/// The bytes taken are always the beginning of a text that json::parse takes, UTF-8 and surrogate
/// escapes included. Where the text is cut makes no difference. A byte that cannot follow is
/// refused and not taken: the state stays as it was before that byte. A number at the top level
/// ends only at the byte after it, so ask is_complete() at the end of the text.
///
/// It is a plain value of 170 bytes without allocations: copy it to try bytes and go back. The work
/// per byte is constant.
class Lexer {
 public:
  static constexpr std::size_t kMostDepth = 1024;

  struct Options {
    std::size_t max_depth = 256;  ///< At most kMostDepth.
    bool leading_space = true;    ///< White space before the value is part of it.
    /// Takes control characters (line breaks, tabs) in strings as they are. Models write them; the
    /// text is valid JSON only after they are escaped.
    bool control_in_strings = false;
  };

  struct Fed {
    Verdict verdict = Verdict::more;
    std::size_t used = 0;  ///< Bytes that belong to the value.
  };

  /// Some bytes of one token.
  struct Piece {
    Verdict verdict = Verdict::more;
    Token token = Token::space;
    bool begins = false;   ///< The token's first bytes.
    bool ends = false;     ///< The token's last bytes.
    std::size_t size = 0;  ///< 0: nothing was taken; with `ends`, a number has ended before these
                           ///< bytes.
  };

  enum class Place : std::uint8_t {
    value,        ///< Before a value: at the start, after ':' or after ',' in an array.
    first_item,   ///< After '['.
    first_key,    ///< After '{'.
    next_key,     ///< After ',' in an object.
    colon,        ///< After a key.
    after_value,  ///< After an item or member.
    in_key,
    in_string,
    in_number,
    in_word,
    end,  ///< The value has ended.
  };

  Lexer() : Lexer(Options{}) {}
  explicit Lexer(Options options);

  /// Takes all bytes that belong to the value.
  Fed feed(std::string_view bytes);

  /// Takes the bytes of one token at the beginning of `bytes`:
  ///
  ///     while (true) {
  ///       const Lexer::Piece piece = lexer.next(bytes);
  ///       if (piece.size == 0 && !piece.ends) break;    // more, done or refused: see the verdict
  ///       on_token(piece, bytes.substr(0, piece.size));
  ///       bytes.remove_prefix(piece.size);
  ///     }
  Piece next(std::string_view bytes);

  [[nodiscard]] Place place() const { return place_; }
  /// The number of open arrays and objects.
  [[nodiscard]] std::size_t depth() const { return depth_; }
  /// True if the innermost open container is an object.
  [[nodiscard]] bool is_in_object() const { return depth_ > 0 && is_object(depth_ - 1); }
  /// True before the first byte of the value; white space does not count.
  [[nodiscard]] bool is_empty() const { return depth_ == 0 && place_ == Place::value; }
  /// True if the text so far is a whole value (`12` is one, though `123` may follow).
  [[nodiscard]] bool is_complete() const;

  /// The shortest text that makes the text so far a whole value: it ends the token that has begun
  /// and closes the open containers. It supplies null for a member or item that is missing
  /// (`{"a":1,` gives `"":null}`). "" for a complete value.
  [[nodiscard]] std::string completion() const;
  void append_completion(std::string& out) const;

  /// What may come next, in words for messages: "':' after a key".
  [[nodiscard]] std::string_view expected() const;

 private:
  enum class Text : std::uint8_t { plain, escape, hex, low_backslash, low_u, character };
  enum class Digits : std::uint8_t { minus, zero, whole, point, fraction, e, sign, exponent };

  [[nodiscard]] bool is_object(std::size_t level) const {
    return (levels_[level / 64] >> (level % 64) & 1) != 0;
  }
  Piece next_structural(char byte);
  Piece open(Token token, bool object);
  Piece close(Token token);
  Piece begin_scalar(std::string_view bytes);
  Piece read_string(std::string_view bytes);
  Piece read_number(std::string_view bytes);
  Piece read_word(std::string_view bytes);
  bool take_text_byte(unsigned char byte);
  bool take_hex(char byte);
  bool take_number_byte(char byte);
  [[nodiscard]] bool number_can_end() const;
  Verdict end_value();
  void append_text_completion(std::string& out) const;

  Options options_;
  Place place_ = Place::value;
  Text text_ = Text::plain;
  Digits digits_ = Digits::minus;
  std::uint8_t word_ = 0;      // index in the table of words
  std::uint8_t left_ = 0;      // hex digits or bytes of a character still to come
  std::uint8_t least_ = 0x80;  // the character's next byte is in [least_, most_]
  std::uint8_t most_ = 0xBF;
  std::uint8_t word_taken_ = 0;
  bool is_low_ = false;     // the hex digits belong to a low surrogate
  std::uint16_t unit_ = 0;  // the hex digits so far
  std::uint16_t depth_ = 0;
  std::array<std::uint64_t, kMostDepth / 64> levels_{};  // bit i: level i is an object
};

/// True if some JSON text begins with `text`.
[[nodiscard]] bool is_prefix(std::string_view text);

}  // namespace tenon::json
