#include "tenon/chat/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace tenon::chat {
namespace {

// The failure function of Knuth, Morris and Pratt: "abab" gives 0 0 1 2.
std::vector<std::size_t> borders(std::string_view text) {
  std::vector<std::size_t> border(text.size(), 0);
  for (std::size_t i = 1, length = 0; i < text.size(); ++i) {
    while (length > 0 && text[i] != text[length]) length = border[length - 1];
    if (text[i] == text[length]) ++length;
    border[i] = length;
  }
  return border;
}

}  // namespace

StopMatcher::StopMatcher(const std::vector<std::string>& stops) {
  for (const std::string& text : stops) {
    if (!text.empty()) stops_.push_back({.text = text, .border = borders(text)});
  }
}

// Advances every stop string by one byte. Returns whether one is complete.
bool StopMatcher::step(char byte) {
  const Stop* found = nullptr;
  for (Stop& stop : stops_) {
    while (stop.length > 0 && stop.text[stop.length] != byte) {
      stop.length = stop.border[stop.length - 1];
    }
    if (stop.text[stop.length] == byte) ++stop.length;
    if (stop.length < stop.text.size()) continue;
    if (found == nullptr || stop.length > found->length) found = &stop;
  }
  if (found != nullptr) matched_ = found->text;
  return found != nullptr;
}

bool StopMatcher::feed(std::string_view piece, std::string& out) {
  if (!matched_.empty()) return true;
  if (stops_.empty()) {
    out += piece;
    return false;
  }
  for (const char byte : piece) {
    held_ += byte;
    if (step(byte)) {
      out.append(held_, 0, held_.size() - matched_.size());
      held_.clear();
      return true;
    }
    // What no stop string can use any more goes out.
    std::size_t kept = 0;
    for (const Stop& stop : stops_) kept = std::max(kept, stop.length);
    if (kept < held_.size()) {
      out.append(held_, 0, held_.size() - kept);
      held_.erase(0, held_.size() - kept);
    }
  }
  return false;
}

void StopMatcher::flush(std::string& out) {
  out += held_;
  held_.clear();
  for (Stop& stop : stops_) stop.length = 0;
}

}  // namespace tenon::chat
