#include "terminal.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stop_token>
#include <utility>

#include <unistd.h>

#include "tenon/base/utf8.h"

namespace tenon::app {
namespace {

// Characters that a terminal obeys instead of showing: control characters, line separators, and
// those that turn the direction of text, by which a text can look like another.
bool is_obeyed(char32_t code_point, bool keeps_lines) {
  if (code_point == U'\n') return !keeps_lines;
  if (code_point == U'\t') return false;
  const bool is_control = code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0);
  const bool is_line = code_point == 0x2028 || code_point == 0x2029;
  const bool is_embedding = code_point >= 0x202a && code_point <= 0x202e;
  const bool is_isolate = code_point >= 0x2066 && code_point <= 0x2069;
  return is_control || is_line || is_embedding || is_isolate;
}

void append_number(std::string& out, const char* format, unsigned number) {
  std::array<char, 16> buffer{};
  const int length = std::snprintf(buffer.data(), buffer.size(), format, number);
  out.append(buffer.data(), static_cast<std::size_t>(length));
}

}  // namespace

// A byte that is not UTF-8 becomes "\x9b", a character that a terminal obeys "\u001b".
std::string printable(std::string_view text, bool keeps_lines) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const utf8::Decoded character = utf8::decode(text);
    const std::size_t length = character.length == 0 ? 1 : character.length;
    if (character.length == 0) {
      append_number(out, "\\x%02x", static_cast<unsigned char>(text.front()));
    } else if (is_obeyed(character.code_point, keeps_lines)) {
      append_number(out, "\\u%04x", static_cast<unsigned>(character.code_point));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out;
}

std::string shown(std::string_view text, int descriptor) {
  return isatty(descriptor) == 1 ? printable(text) : std::string(text);
}

WaitNotice::WaitNotice(std::string text)
    : thread_([this, text = std::move(text)](const std::stop_token& end) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, end, kMoment, [] { return false; });
        if (end.stop_requested()) return;
        std::cerr << "tenon: " << shown(text, STDERR_FILENO) << std::endl;
      }) {}

bool has_colours() {
  return isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
}

}  // namespace tenon::app
