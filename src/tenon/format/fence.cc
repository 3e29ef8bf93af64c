#include "tenon/format/fence.h"

#include <cctype>
#include <utility>

#include "tenon/format/space.h"

namespace tenon::format {
namespace {

// Backticks or tildes of a fence.
constexpr std::size_t kFewestTicks = 3;
// Bytes of one of its lines and of the white space behind it.
constexpr std::size_t kMaxFenceLine = 64;

bool is_gap(char byte) {
  return byte == ' ' || byte == '\t';
}

bool ends_line(char byte) {
  return byte == '\n' || byte == '\r';
}

}  // namespace

std::size_t Fence::plain(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!is_line_begun_ && (text[at] == '`' || text[at] == '~')) {
      tick_ = text[at];
      return at;
    }
    note_in_line(text[at]);
  }
  return text.size();
}

void Fence::note_in_line(char byte) {
  is_line_begun_ = !ends_line(byte) && (is_line_begun_ || !is_gap(byte));
}

Fence::Reading Fence::step(char byte) {
  if (is_around_calls()) return step_behind_call(byte);
  held_ += byte;
  return fits_opener(byte) && held_.size() <= kMaxFenceLine ? Reading::more : Reading::text;
}

// Whether `byte` may come next in the first line, or as white space behind it.
bool Fence::fits_opener(char byte) {
  if (place_ == Place::ticks && byte == tick_) {
    ++ticks_;
    return true;
  }
  if (ticks_ < kFewestTicks) return false;
  if (place_ == Place::body) return is_space(byte);
  place_ = ends_line(byte) ? Place::body : Place::word;
  return is_space(byte) || std::isalnum(static_cast<unsigned char>(byte)) != 0 ||
         std::string_view("_+-.#").find(byte) != std::string_view::npos;
}

// Behind the call: white space, then as many ticks as opened the fence, then the line's end.
Fence::Reading Fence::step_behind_call(char byte) {
  const bool is_whole = ticks_ == opened_;
  if (is_whole && ends_line(byte)) {
    *this = {};
    return Reading::closed;
  }
  held_ += byte;
  if (byte == tick_) ++ticks_;
  const bool is_tick =
      byte == tick_ && ticks_ <= opened_ && held_.ends_with(std::string(ticks_, tick_));
  const bool fits = is_tick || (ticks_ == 0 && is_space(byte)) || (is_whole && is_gap(byte));
  return fits && held_.size() <= kMaxFenceLine ? Reading::more : Reading::text;
}

std::string Fence::at_call(bool may_be_inside) {
  // Another call in the same fence, with only white space before it.
  if (is_around_calls() && trimmed(held_).empty()) {
    held_.clear();
    return {};
  }
  if (may_be_inside && !is_around_calls() && ticks_ >= kFewestTicks) {
    // The line becomes a marker. It is kept, because text behind the call would make it text again.
    opener_ = std::exchange(held_, {});
    opened_ = std::exchange(ticks_, 0);
    return {};
  }
  std::string text = release();
  is_line_begun_ = false;
  return text;
}

std::string Fence::release() {
  const std::string text = std::move(opener_) + held_;
  *this = {};
  for (const char byte : text) note_in_line(byte);
  return text;
}

std::string Fence::finish() {
  // A fence that the answer's end closes.
  if (is_around_calls()) *this = {};
  return release();
}

}  // namespace tenon::format
