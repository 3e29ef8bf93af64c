#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Whether a call in another form than the model's own may begin behind a text. Such a form is
/// ordinary text in other answers: a fence around JSON is an example in a tutorial. So the text
/// before it decides, by rules that are regular, and the parser and the grammar have the same
/// (docs/formats.md says them in words).
namespace tenon::format {

/// The parser's side: reads the text before a call, byte by byte. A few bytes of state.
class Lead {
 public:
  /// Where a form may begin. White space alone is the beginning of a line.
  enum class Place : std::uint8_t {
    anywhere,  ///< Tags, which say by themselves what they are.
    line,      ///< At the beginning of a line, indented or not: fences.
    sentence,  ///< At the beginning of a line, or behind `.`, `:`, `!` or `?` and white space, and
               ///< not behind a brace: bare objects and lists.
  };

  /// At the beginning of the text, or behind the model's reasoning.
  void begin() { *this = {}; }
  /// Behind a call: others may follow it at once, on the same line too.
  void begin_behind_call() {
    *this = {};
    is_behind_call_ = true;
  }
  void feed(std::string_view bytes);
  [[nodiscard]] bool admits(Place place) const;

  /// What stands in no text before a call: a fence, words of examples, and words that tell what
  /// somebody else has written. As the grammar has it: any of these texts.
  [[nodiscard]] static const std::vector<std::string>& stops();
  /// Nor does it end between two backticks or two quotation marks: the pattern of texts that do
  /// not.
  [[nodiscard]] static const char* unquoted();
  /// The same of a place, as a pattern that the whole text before fits.
  [[nodiscard]] static const char* pattern_of(Place place);

 private:
  std::uint16_t node_ = 0;  // of the automaton of stops()
  bool is_explained_ = false;
  bool has_brace_ = false;
  std::uint8_t quote_ = 0;  // a backtick or quotation mark that is open
  bool is_behind_call_ = false;
  bool has_words_ = false;      // other bytes than white space and, behind a call, `,` and `;`
  bool is_line_begun_ = false;  // since the last line break, by other bytes than spaces and tabs
  std::uint32_t last_ = 0;      // the last three bytes that are no white space
  std::uint8_t last_byte_ = 0;
};

}  // namespace tenon::format
