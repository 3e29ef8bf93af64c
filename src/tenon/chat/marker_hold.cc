#include "tenon/chat/marker_hold.h"

#include <algorithm>
#include <cstddef>

#include "tenon/format/format.h"
#include "tenon/format/registry.h"

namespace tenon::chat {
namespace {

constexpr std::size_t kMaxMarkerBytes = 64;

bool is_bracket(char byte) {
  return byte == '<' || byte == '[';
}

}  // namespace

std::string MarkerHold::pass(std::string text) {
  text.insert(0, held_);
  held_.clear();
  // Only the end of the text can be the beginning of a marker that goes on.
  std::size_t at = text.size() > kMaxMarkerBytes ? text.size() - kMaxMarkerBytes : 0;
  for (; at < text.size(); ++at) {
    if (!is_bracket(text[at]) || !begins_marker(std::string_view(text).substr(at))) continue;
    held_ = text.substr(at);
    text.resize(at);
    break;
  }
  return text;
}

bool MarkerHold::begins_marker(std::string_view text) const {
  return std::ranges::any_of(markers_, [&](const std::string& marker) {
    return marker.size() > text.size() && marker.starts_with(text);
  });
}

const std::vector<std::string>& markers_of_all_formats() {
  static const std::vector<std::string> markers = [] {
    std::vector<std::string> all;
    for (const auto& format : format::all()) {
      for (std::string& marker : format::strong_markers(*format)) {
        const bool has_name = marker.size() >= 4 && is_bracket(marker.front());
        if (!has_name) continue;
        // What follows the closing bracket is ordinary text ("<tool_call>function\n").
        const std::size_t end = marker.find(marker.front() == '<' ? '>' : ']');
        if (end != marker.npos) marker.resize(end + 1);
        if (marker.size() <= kMaxMarkerBytes) all.push_back(std::move(marker));
      }
    }
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }();
  return markers;
}

}  // namespace tenon::chat
