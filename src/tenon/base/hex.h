#pragma once

#include <string>
#include <string_view>

namespace tenon {

/// Appends the two digits of `byte`, in lower case.
inline void append_hex(std::string& out, unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += kDigits[byte >> 4U];
  out += kDigits[byte & 15U];
}

}  // namespace tenon
