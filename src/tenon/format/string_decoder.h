#pragma once

#include <cstdint>
#include <string>

namespace tenon::format {

/// Decodes the escapes of a JSON string, byte by byte, or of the same between apostrophes. Text
/// that is not a valid escape is kept as it is written; lone surrogates become U+FFFD. At any time
/// `text` and held() together are everything that was fed.
class StringDecoder {
 public:
  explicit StringDecoder(char quote = '"') : quote_(quote) {}
  void restart(char quote = '"') { *this = StringDecoder(quote); }
  /// Appends what `byte` completes. Returns true if `byte` was the closing quote.
  bool feed(char byte, std::string& text);
  /// The open escape as it is written, with a high surrogate that waits for its second half.
  [[nodiscard]] const std::string& held() const { return held_; }

 private:
  bool step(char byte, std::string& text);
  void unit(char32_t code, std::string& text);

  char quote_;
  enum class State : std::uint8_t { plain, escape, unicode } state_ = State::plain;
  std::uint8_t digits_ = 0;
  char32_t code_ = 0;
  char32_t high_ = 0;  // a high surrogate that waits for its second half
  std::string held_;   // at most 12 bytes
};

}  // namespace tenon::format
