#include "tenon/format/raw_text.h"

namespace tenon::format {

void append_control(std::string& copy, unsigned char byte) {
  constexpr std::string_view kHex = "0123456789abcdef";
  switch (byte) {
    case '\n':
      copy += "\\n";
      return;
    case '\r':
      copy += "\\r";
      return;
    case '\t':
      copy += "\\t";
      return;
    default:
      copy += "\\u00";
      copy += kHex[byte >> 4U];
      copy += kHex[byte & 15U];
  }
}

void append_raw(std::string& copy, std::string_view bytes) {
  for (const char each : bytes) {
    const auto byte = static_cast<unsigned char>(each);
    if (byte < 0x20) {
      append_control(copy, byte);
      continue;
    }
    if (each == '"' || each == '\\') copy += '\\';
    copy += each;
  }
}

}  // namespace tenon::format
