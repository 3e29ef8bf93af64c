#include "tenon/format/string_decoder.h"

#include <string_view>

#include "tenon/base/utf8.h"

namespace tenon::format {

bool StringDecoder::feed(char byte, std::string& text) {
  const bool ended = step(byte, text);
  // held_ is what was read and has not become text yet: an open escape, or a high surrogate.
  if (state_ == State::plain && high_ == 0) {
    held_.clear();
  } else {
    held_ += byte;
  }
  return ended;
}

bool StringDecoder::step(char byte, std::string& text) {
  if (state_ == State::unicode) {
    constexpr std::string_view kHex = "0123456789abcdef";
    const char lower = byte >= 'A' && byte <= 'F' ? static_cast<char>(byte - 'A' + 'a') : byte;
    const std::size_t digit = kHex.find(lower);
    if (digit != std::string_view::npos) {
      code_ = code_ * 16 + static_cast<char32_t>(digit);
      if (++digits_ == 4) {
        state_ = State::plain;
        unit(code_, text);
      }
      return false;
    }
    // The escape broke off ("\u12g"): its characters are text as they are written.
    if (high_ != 0) unit(0, text);
    text += held_;
    held_.clear();
    state_ = State::plain;
  }
  if (state_ == State::escape) {
    state_ = State::plain;
    if (byte == 'u') {
      state_ = State::unicode;
      digits_ = 0;
      code_ = 0;
      return false;
    }
    constexpr std::string_view kLetters = "bfnrt";
    constexpr std::string_view kMeanings = "\b\f\n\r\t";
    if (high_ != 0) unit(0, text);
    if (const std::size_t i = kLetters.find(byte); i != std::string_view::npos) {
      text += kMeanings[i];
    } else {
      // `\d` is no escape of JSON, and keeps its backslash.
      if (byte != quote_ && byte != '"' && byte != '\\' && byte != '/') text += '\\';
      text += byte;
    }
    return false;
  }
  if (byte == '\\') {
    state_ = State::escape;
    return false;
  }
  if (high_ != 0) unit(0, text);
  if (byte == quote_) return true;
  text += byte;
  return false;
}

// `code` 0: no second unit follows the waiting high surrogate.
void StringDecoder::unit(char32_t code, std::string& text) {
  constexpr char32_t kReplacement = 0xFFFD;
  const bool is_low = code >= 0xDC00 && code <= 0xDFFF;
  if (high_ != 0) {
    const char32_t high = high_;
    high_ = 0;
    // The high surrogate goes out of held_; what is left is the second escape, if one has begun.
    held_.erase(0, std::string_view("\\uD800").size());
    if (is_low) {
      utf8::append(text, 0x10000 + ((high - 0xD800) << 10U) + (code - 0xDC00));
      return;
    }
    utf8::append(text, kReplacement);
    if (code == 0) return;
  }
  if (code >= 0xD800 && code <= 0xDBFF) {
    high_ = code;
  } else {
    utf8::append(text, is_low ? kReplacement : code);
  }
}

}  // namespace tenon::format
