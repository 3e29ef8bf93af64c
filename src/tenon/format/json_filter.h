#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenon::format {

/// Copies one JSON value out of a stream that is cut anywhere. At every moment the copy is valid
/// JSON, or can be completed to valid JSON:
///
///  - mistakes of models with one certain meaning are repaired on the way: line breaks and other
///    control characters inside strings, invalid escapes (`\d`), lone surrogates, trailing commas,
///    Python's True, False and None, strings between apostrophes inside an object or a list,
///    strings between curly quotes, a brace that comes twice (`{{"a": 1}}`), numbers that JSON does
///    not have but that have one meaning (`007`, `+1`, `.5`, `1_000`, `0x1F`). `is_repaired()`
///    reports it; everything else is copied unchanged;
///  - at any other error it stops before the byte that does not fit, and `close` appends the least
///    text that makes the copy valid JSON.
///
/// A comma is copied only when something follows it, an escape when it is complete, and a number
/// when its delimiter has come (`12 pieces` is not 12), so nothing that was copied has to be taken
/// back. Constant state, constant work per byte, depth at most kMaxDepth.
///
///     JsonFilter filter(JsonFilter::Want::object);
///     std::string copy;
///     std::size_t used = filter.feed("{\"a\": tr", copy);   // copy is `{"a": `, `tr` is held
///     filter.close(copy);                                   // `{"a": true}`
///
/// It is not built on json::Lexer, which promises the opposite: every byte that the lexer takes is
/// part of valid JSON at once, so it refuses bytes that this class holds back until they are
/// repaired or dropped (a comma before a bracket, an escape, a word), and it reads no Python. The
/// two would share only the states of numbers.
class JsonFilter {
 public:
  /// `keywords`: Python's `(a=1, b="x")`, copied as a JSON object. Values are Python literals or
  /// `dict(a=1)`; sets and tuples become arrays, keys that are numbers or words become strings. An
  /// unescaped quote inside a string is text if the byte after it cannot follow a string (`'sed -n
  /// '1,5p' file'`). `members`: `{a:1,b:<q>x<q>}`, copied as a JSON object: keys are bare, and
  /// strings are between quotes of the format's own, without escapes. JSON strings are read too,
  /// and words that are neither (`{a:Paris,b:2024-01-02}`) are repaired to strings.
  enum class Want : std::uint8_t { any, object, keywords, members };
  enum class Status : std::uint8_t { open, done, bad };
  /// Whether numbers that JSON does not have are repaired, or are not numbers (`007` may be text).
  enum class Numbers : std::uint8_t { repaired, as_json };
  static constexpr unsigned kMaxDepth = 256;

  explicit JsonFilter(Want want = Want::any, Numbers numbers = Numbers::repaired)
      : numbers_(numbers) {
    restart(want);
  }
  /// For `members`, `quote` is the quote around strings, and `end` the marker behind the object: it
  /// also ends values without quotes, and everything that is open then. Both must outlive the
  /// reading.
  void restart(Want want, std::string_view quote = {}, std::string_view end = {});

  /// Appends to `copy` and returns the number of bytes used: all of them, unless the value is done
  /// or bad at the next one. Space before the value is used but not copied.
  std::size_t feed(std::string_view bytes, std::string& copy);
  /// The text has ended, or continues with something that does not fit: a number at the top level
  /// is complete, and what is held is copied unchanged.
  void finish(std::string& copy);
  /// Appends what makes `copy` valid JSON. If the value has not begun, appends nothing.
  void close(std::string& copy);
  /// Bytes that were used and that `close` will leave out: a comma after which nothing came, and
  /// text that began like a word or keyword and is not one.
  [[nodiscard]] std::string left_out() const;
  /// A comma, a word, a keyword or a number is held.
  [[nodiscard]] bool is_holding() const { return has_comma_ || is_held(); }
  /// What is held began like a number and is not one: `finish` leaves it out too.
  [[nodiscard]] bool holds_no_number() const { return state_ == State::number && is_spoilt(); }

  [[nodiscard]] Status status() const { return status_; }
  /// The marker behind the object was read, since its brackets were missing.
  [[nodiscard]] bool has_used_end() const { return has_used_end_; }
  [[nodiscard]] bool is_repaired() const { return repaired_; }
  [[nodiscard]] bool has_begun() const { return state_ != State::begin; }
  /// For keywords: one has been named, or the parentheses are empty.
  [[nodiscard]] bool has_keyword() const { return has_keyword_ || status_ == Status::done; }

 private:
  enum class State : std::uint8_t {
    begin,        // before the value
    value,        // after ':' or ',' of an array
    first_item,   // after '['
    first_key,    // after '{'
    key,          // after ',' of an object
    colon,        // after a key
    keyword,      // in the name of a keyword
    equals,       // after it
    bare_key,     // in a key without quotes
    bare_equals,  // behind `=` in such a key: held, since a value may have begun
    stray_quote,  // in the format's own quote behind a string in other quotes
    own_end,      // in it inside a string in other quotes, which it ends: matched_ bytes are held
    string_mark,  // the same in the marker behind the object
    curly,        // in a curly quote that begins a string; matched_ bytes are held
    curly_end,    // in one that may end the string
    constructor,  // in the name of Python's dict or list; held
    wrapped,      // behind its parenthesis
    double_end,   // behind an object that began with two braces: the other one may come
    quote,        // in the format's own quote that begins a string
    end_mark,     // in the marker behind the object, where its bracket is missing
    raw,          // in such a string; matched_ bytes that may be its end are held
    bare_text,    // in a string without quotes
    bare_number,  // in a number of members, or a string without quotes that begins like one; held
    number,       // in a number or the white space after it; held
    prefix,       // after Python's r, b or u before a string; held
    octal,        // in Python's \123
    wide,         // in Python's \UXXXXXXXX
    after,        // after a value inside an array or object
    string,
    closing,  // after a Python quote that may end the string; it and the space after it are held
    escape,   // after '\'
    unicode,  // in \uXXXX
    word,     // in true, false, null or Python's form of them
    minus,
    zero,
    integer,
    point,
    fraction,
    exponent,
    exponent_sign,
    exponent_digits,
  };

  bool step(unsigned char byte, std::string& copy);
  bool begin_value(unsigned char byte, std::string& copy);
  bool step_after(unsigned char byte, std::string& copy);
  void begin_number(unsigned char byte, std::string& copy);
  void begin_string(unsigned char byte, std::string& copy);
  bool step_prefix(unsigned char byte, std::string& copy);
  bool step_own_end(unsigned char byte, std::string& copy);
  bool step_string_mark(unsigned char byte, std::string& copy);
  bool read_in_string(std::string_view held, unsigned char byte, std::string& copy);
  bool step_curly(unsigned char byte, std::string& copy);
  bool step_curly_end(unsigned char byte, std::string& copy);
  bool step_constructor(unsigned char byte);
  bool step_wrapped(unsigned char byte, std::string& copy);
  bool step_double_end(unsigned char byte, std::string& copy);
  [[nodiscard]] std::string_view held_in_string() const;
  bool step_held_number(unsigned char byte, std::string& copy);
  bool end_held_number(std::string& copy);
  void stream_held_number(std::string& copy);
  [[nodiscard]] std::optional<std::string> held_number() const;
  bool step_code(unsigned char byte, std::string& copy);
  void end_code(std::string& copy);
  bool step_number(unsigned char byte, std::string& copy);
  bool step_word(unsigned char byte, std::string& copy);
  bool step_keyword(unsigned char byte, std::string& copy);
  bool step_bare_key(unsigned char byte, std::string& copy);
  bool step_bare_equals(unsigned char byte, std::string& copy);
  bool step_stray_quote(unsigned char byte, std::string& copy);
  bool step_quote(unsigned char byte, std::string& copy);
  bool step_bare_text(unsigned char byte, std::string& copy);
  bool begin_end_mark(unsigned char byte, std::string& copy);
  bool step_end_mark(unsigned char byte, std::string& copy);
  bool end_by_mark(std::string& copy);
  bool step_bare_number(unsigned char byte, std::string& copy);
  void end_bare_number(std::string& copy);
  bool begin_bare_text(std::string_view held, unsigned char byte, std::string& copy);
  std::size_t copy_raw(std::string_view bytes, std::string& copy);
  void end_string();
  bool step_closing(unsigned char byte, std::string& copy);
  void end_closing(std::string& copy);
  void settle_brace(unsigned char byte, std::string& copy);
  void open_brace(bool is_set, std::string& copy);
  [[nodiscard]] bool may_end_plain() const;
  [[nodiscard]] bool is_set_held() const;
  [[nodiscard]] bool is_held() const;
  [[nodiscard]] bool is_spoilt() const;
  bool step_python_escape(unsigned char byte, std::string& copy);
  void step_escape(unsigned char byte, std::string& copy);
  void step_unicode(unsigned char byte, std::string& copy);
  std::size_t copy_string(std::string_view bytes, std::string& copy);
  void end_unicode(std::string& copy);
  void flush_escape(std::string& copy);
  void drop_surrogate(std::string& copy);
  using Levels = std::array<std::uint64_t, kMaxDepth / 64>;  // bit d: of level d
  [[nodiscard]] bool is_set(const Levels& levels) const;     // for the innermost level
  void set(Levels& levels);
  [[nodiscard]] bool may_double() const;
  void push(bool is_object);
  void pop();
  [[nodiscard]] unsigned char as_json(unsigned char byte) const;
  void end_value();
  void flush_comma(std::string& copy);
  [[nodiscard]] bool in_object() const;
  [[nodiscard]] bool is_python() const { return want_ == Want::keywords; }
  [[nodiscard]] bool is_bare() const { return want_ == Want::members; }
  /// The byte after the quote decides whether the open string ends.
  [[nodiscard]] bool ends_by_follower() const {
    return is_python() || quote_ == '\'' || curly_ != 0;
  }
  /// The open string may have Python's escapes.
  [[nodiscard]] bool has_python_escapes() const { return is_python() || quote_ == '\''; }
  /// The string that is open, in other quotes than the format's, may end at the format's own.
  [[nodiscard]] bool may_end_by_own(unsigned char byte) const {
    return is_bare() && own_quote_.size() > 1 &&
           byte == static_cast<unsigned char>(own_quote_.front());
  }
  [[nodiscard]] bool may_end_by_curly(unsigned char byte) const {
    return curly_ != 0 && byte == 0xE2;
  }
  [[nodiscard]] bool is_in_constructor() const {
    return state_ == State::constructor || state_ == State::wrapped;
  }
  /// Bytes that a keyword's name may begin with.
  [[nodiscard]] static bool is_keyword_byte(unsigned char byte);

  State state_ = State::begin;
  Numbers numbers_ = Numbers::repaired;
  Status status_ = Status::open;
  Want want_ = Want::any;
  bool is_key_ = false;  // the open string or word is a key
  bool repaired_ = false;
  bool has_keyword_ = false;
  char quote_ = '"';               // of the open string; Python has two
  unsigned char curly_ = 0;        // the first quote of the kind that began the string; 0: another
  unsigned char closed_by_ = 0;    // the last byte of the curly quote that may end it; 0: quote_
  bool is_fresh_ = false;          // of Python: the string is empty so far
  bool is_raw_ = false;            // of Python: the string has no escapes
  bool has_stray_ = false;         // of Python: a quote in the string is text
  bool is_behind_string_ = false;  // of members: after a string in other quotes than the format's
  bool is_triple_ = false;         // it began with three quotes
  bool holds_brace_ = false;    // Python's `{` is held; held_ is the text after it, of a set or an
                                // object
  std::string_view own_quote_;  // of members
  std::string_view end_;        // of members: the marker behind the object
  bool has_used_end_ = false;
  bool has_comma_ = false;    // a comma is held, with the space after it in comma_space_
  std::uint8_t word_ = 0;     // which of kWords
  std::uint8_t matched_ = 0;  // bytes of that word, or hex digits
  std::uint8_t digits_ = 4;   // hex digits of the escape: four, or two of Python's \xXX
  unsigned depth_ = 0;
  std::uint16_t unit_ = 0;            // the \uXXXX being read
  std::uint16_t high_surrogate_ = 0;  // held until its low one comes
  char escape_[4] = {};               // hex digits as written
  char high_text_[4] = {};            // hex digits of high_surrogate_ as written
  std::string comma_space_;  // at most kMaxSpace bytes; more is dropped, since it means nothing
  std::string
      number_;        // a number, keyword, prefix or escape that is held; at most kMaxNumber bytes
  std::string held_;  // after a brace; beyond kMaxBrace bytes it is an object
  Levels is_object_{};   // an object
  Levels is_set_{};      // a Python set
  Levels is_doubled_{};  // an object that began with two braces
  Levels is_call_{};     // keywords of Python's dict
  Levels is_wrap_{};     // a constructor around one value, of which nothing is copied
};

/// The JSON value that is the whole `text`, apart from space around it, repaired as the filter
/// repairs; nothing if it is not one.
[[nodiscard]] std::optional<std::string> whole_json(
    std::string_view text, JsonFilter::Numbers numbers = JsonFilter::Numbers::as_json);

/// The same of a value in Python's notation, `{'a': True}`.
[[nodiscard]] std::optional<std::string> whole_python(std::string_view text);

}  // namespace tenon::format
