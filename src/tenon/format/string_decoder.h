#pragma once

#include <cstdint>
#include <string>

namespace tenon::format {

/// Takes the escapes out of a JSON string, byte by byte. What is no escape stays as it is written;
/// lone surrogates become U+FFFD.
class StringDecoder {
 public:
  void restart() { *this = StringDecoder(); }
  /// Appends what `byte` completes. True: `byte` was the closing quote.
  bool feed(char byte, std::string& text);

 private:
  void unit(char32_t code, std::string& text);

  enum class State : std::uint8_t { plain, escape, unicode } state_ = State::plain;
  std::uint8_t digits_ = 0;
  char32_t code_ = 0;
  char32_t high_ = 0;  // a high surrogate that waits for its low one
};

}  // namespace tenon::format
