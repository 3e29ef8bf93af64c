#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/json/value.h"
#include "tenon/mcp/encoding.h"
#include "tenon/mcp/transport.h"

// Messages as servers write them, also badly. parse_message() accepts half a surrogate pair, which
// a server writes that cuts a text within a character beyond U+FFFF. glance_at() finds the id and
// the kind of a message that cannot be parsed, so that the call which it answers can fail at once.

namespace tenon::mcp {
namespace {

// The value of four hexadecimal digits at `at`, or -1.
int hex4(std::string_view text, std::size_t at) {
  constexpr std::size_t kDigits = 4;
  constexpr int kBase = 16;
  if (at + kDigits > text.size()) return -1;
  int value = 0;
  const char* const begin = text.data() + at;
  const auto read = std::from_chars(begin, begin + kDigits, value, kBase);
  return read.ec == std::errc() && read.ptr == begin + kDigits && value >= 0 ? value : -1;
}

bool is_high(int unit) {
  return unit >= 0xD800 && unit < 0xDC00;
}
bool is_low(int unit) {
  return unit >= 0xDC00 && unit < 0xE000;
}

// `text` with \ufffd for each escape of half a surrogate pair. JSON has no backslashes outside of
// strings, so it is enough to look at escapes.
std::string with_whole_pairs(std::string_view text) {
  constexpr std::size_t kEscape = 6;  // bytes of \uXXXX
  std::string repaired(text);
  for (std::size_t at = repaired.find('\\'); at != std::string::npos;
       at = repaired.find('\\', at)) {
    const int unit =
        at + 1 < repaired.size() && repaired[at + 1] == 'u' ? hex4(repaired, at + 2) : -1;
    if (unit < 0) {
      at += 2;
      continue;
    }
    const bool has_next = repaired.compare(at + kEscape, 2, "\\u") == 0;
    if (is_high(unit) && has_next && is_low(hex4(repaired, at + kEscape + 2))) {
      at += 2 * kEscape;
      continue;
    }
    if (is_high(unit) || is_low(unit)) repaired.replace(at, kEscape, "\\ufffd");
    at += kEscape;
  }
  return repaired;
}

/// Reads the members of an object that may be damaged anywhere, as far as possible.
class Glancer {
 public:
  explicit Glancer(std::string_view text) : text_(text) {}

  Glance look() {
    skip_space();
    if (take('[')) skip_space();  // the first message of a batch
    if (!take('{')) return {};
    while (true) {
      skip_space();
      const auto key = string();
      skip_space();
      if (!key || !take(':')) break;
      skip_space();
      const std::size_t begin = at_;
      skip_value();
      see(*key, text_.substr(begin, at_ - begin));
      skip_space();
      if (!take(',')) break;
    }
    // A message that breaks off may not have come to its result, but its id says that it is an
    // answer.
    seen_.is_answer = !has_method_ && (has_outcome_ || (has_version_ && seen_.id));
    return seen_;
  }

 private:
  void see(std::string_view key, std::string_view value) {
    if (key == "method") has_method_ = true;
    if (key == "result" || key == "error") has_outcome_ = true;
    if (key == "jsonrpc") has_version_ = true;
    if (key != "id") return;
    if (const auto id = json::parse(value)) seen_.id = own_id(&*id);
  }
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
  }
  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  // The text between quotes, as JSON or Python write them. Nothing if there is no string, or it has
  // no end.
  std::optional<std::string_view> string() {
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    if (!take('"') && !take('\'')) return std::nullopt;
    const std::size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    if (at_ >= text_.size()) {
      at_ = text_.size();
      return std::nullopt;
    }
    ++at_;
    return text_.substr(begin, at_ - 1 - begin);
  }
  // Skips to the comma or bracket that ends the value.
  void skip_value() {
    std::size_t depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        (void)string();
        continue;
      }
      if (depth == 0 && (c == ',' || c == '}' || c == ']')) return;
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      ++at_;
    }
  }

  const std::string_view text_;
  std::size_t at_ = 0;
  bool has_method_ = false;
  bool has_outcome_ = false;
  bool has_version_ = false;
  Glance seen_;
};

}  // namespace

Expected<json::Value> parse_message(std::string_view text) {
  constexpr json::ParseOptions kLimits{.max_depth = 128, .max_values = std::size_t{1} << 20};
  auto parsed = json::parse(text, kLimits);
  // A limit that was reached is no matter of half pairs.
  if (parsed || parsed.error().code != Errc::invalid) return parsed;
  const std::string repaired = with_whole_pairs(text);
  if (repaired == text) return parsed;
  return json::parse(repaired, kLimits);
}

Glance glance_at(std::string_view text) {
  return Glancer(text).look();
}

std::optional<std::int64_t> own_id(const json::Value* id) {
  if (id == nullptr) return std::nullopt;
  if (id->if_number() != nullptr) return id->if_number()->to_int64();
  const std::string* const text = id->if_string();
  std::int64_t number = 0;
  if (text == nullptr) return std::nullopt;
  const char* const end = text->data() + text->size();
  const auto read = std::from_chars(text->data(), end, number);
  // "007" or "+7" is no number that we have written.
  const bool is_ours = read.ec == std::errc() && read.ptr == end && *text == std::to_string(number);
  return is_ours ? std::optional(number) : std::nullopt;
}

std::string header_value(std::string_view text) {
  constexpr std::string_view kOpen = "=?base64?";
  constexpr std::string_view kClose = "?=";
  bool is_safe = !text.empty() && text.front() != ' ' && text.back() != ' ' &&
                 !(text.starts_with(kOpen) && text.ends_with(kClose));
  for (const char c : text) is_safe = is_safe && c >= 0x20 && c < 0x7F;
  if (is_safe) return std::string(text);
  return std::string(kOpen) + base64(text) + std::string(kClose);
}

}  // namespace tenon::mcp
