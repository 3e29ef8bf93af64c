#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Whether a call in another form than the model's own may begin after a text. Such a form is
/// ordinary text in other answers: JSON in a fence may be an example in a tutorial. So the text
/// before it decides, by rules that are regular and that the parser and the grammar share
/// (docs/formats.md has them in words).
namespace tenon::format {

/// The parser's side: reads the text before a call, byte by byte. Its state is a few bytes.
class Lead {
 public:
  /// Where a form may begin. White space alone counts as the beginning of a line.
  enum class Place : std::uint8_t {
    first,     ///< Before all words.
    anywhere,  ///< Tags, which cannot be mistaken for text.
    line,      ///< At the beginning of a line, indented or not: fences.
    sentence,  ///< At the beginning of a line or behind a bullet there, or after `.`, `:`, `!` or
               ///< `?` and white space, and not after a brace: bare objects and lists.
  };

  /// At the beginning of the text, or after the model's reasoning.
  void begin() { *this = {}; }
  /// After a call: others may follow it at once, also on the same line.
  void begin_behind_call() {
    *this = {};
    is_behind_call_ = true;
  }
  void feed(std::string_view bytes);
  [[nodiscard]] bool admits(Place place) const;

  /// Texts that must not occur before a call: a fence, words of examples, and words that introduce
  /// what another person has written. The grammar excludes the same texts.
  [[nodiscard]] static const std::vector<std::string>& stops();
  /// A pattern of texts that do not end between two backticks or two quotation marks, which is also
  /// required.
  [[nodiscard]] static const char* unquoted();
  /// The same for a place, as a pattern that the whole text before must match.
  [[nodiscard]] static const char* pattern_of(Place place);

 private:
  std::uint16_t node_ = 0;  // of the automaton of stops()
  bool is_explained_ = false;
  bool has_brace_ = false;
  std::uint8_t quote_ = 0;  // an open backtick or quotation mark
  bool is_behind_call_ = false;
  bool has_words_ = false;      // bytes other than white space and, after a call, `,` and `;`
  bool is_line_begun_ = false;  // since the last line break, by bytes other than spaces and tabs
  bool is_bullet_ = false;      // the line has begun with a bullet, and has no words yet
  std::uint32_t last_ = 0;      // the last three bytes that are not white space
  std::uint8_t last_byte_ = 0;
};

}  // namespace tenon::format
