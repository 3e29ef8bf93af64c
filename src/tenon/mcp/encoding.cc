#include "tenon/mcp/encoding.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace tenon::mcp {
namespace {

// For forms: '+' is a space, and a '%' without two digits stays.
std::string percent_decoded(std::string_view text) {
  constexpr int kHex = 16;
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    unsigned value = 0;
    const char* const digits = text.data() + at + 1;
    const bool is_escape = text[at] == '%' && at + 2 < text.size() &&
                           std::from_chars(digits, digits + 2, value, kHex).ptr == digits + 2;
    if (is_escape) {
      out += static_cast<char>(value);
      at += 2;
    } else {
      out += text[at] == '+' ? ' ' : text[at];
    }
  }
  return out;
}

}  // namespace

// Three bytes become four digits of 6 bits; missing bytes become '='.
std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view three = bytes.substr(at, 3);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8U | (i < three.size() ? static_cast<unsigned char>(three[i]) : 0U);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      out += i <= three.size() ? kDigits[bits >> (18 - 6 * i) & 63U] : '=';
    }
  }
  return out;
}

// Without the '=' at the end, as PKCE wants it (RFC 7636, appendix A).
std::string base64url(std::string_view bytes) {
  std::string out = base64(bytes);
  std::ranges::replace(out, '+', '-');
  std::ranges::replace(out, '/', '_');
  out.erase(std::min(out.find('='), out.size()));
  return out;
}

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  constexpr std::string_view kMarks = "-._~";
  std::string out;
  for (const char c : text) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                          (c >= 'A' && c <= 'Z') || kMarks.find(c) != kMarks.npos;
    if (is_plain) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', kDigits[byte >> 4U], kDigits[byte & 15U]};
    }
  }
  return out;
}

std::string form(const Fields& fields) {
  std::string out;
  for (const auto& [name, value] : fields) {
    if (!out.empty()) out += '&';
    out += percent_encoded(name) + "=" + percent_encoded(value);
  }
  return out;
}

// "a=1&b&&c=%20" has the fields a, b and c; b is "".
Fields read_form(std::string_view text) {
  Fields fields;
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(pair.size() + 1, text.size()));
    const auto equals = std::min(pair.find('='), pair.size());
    if (pair.empty()) continue;
    fields.emplace_back(percent_decoded(pair.substr(0, equals)),
                        percent_decoded(pair.substr(std::min(equals + 1, pair.size()))));
  }
  return fields;
}

std::string field(const Fields& fields, std::string_view name) {
  const auto found =
      std::ranges::find_if(fields, [name](const auto& one) { return one.first == name; });
  return found == fields.end() ? "" : found->second;
}

}  // namespace tenon::mcp
