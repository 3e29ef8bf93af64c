#include "tenon/chat/quoted_calls.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tenon/format/format.h"
#include "tenon/json/value.h"

namespace tenon::chat {
namespace {

using Names = std::vector<std::string>;

constexpr std::size_t kMaxObjectBytes = std::size_t{64} << 10;
constexpr std::size_t kMaxReadBytes = std::size_t{4} << 20;
constexpr std::size_t kMaxOpen = 256;
constexpr int kMaxStrings = 3;  // JSON in a string in a string

bool has_name(std::string_view text, const Names& names) {
  return std::ranges::any_of(
      names, [&](const std::string& name) { return text.find(name) != std::string_view::npos; });
}

bool looks_like_call(const json::Value& object, const Names& names) {
  const auto is_named = [&](std::string_view key) {
    const json::Value* member = object.find(key);
    const std::string* name = member == nullptr ? nullptr : member->if_string();
    return name != nullptr && std::ranges::find(names, *name) != names.end();
  };
  constexpr std::string_view kNames[] = {"name",     "tool",   "tool_name",
                                         "function", "action", "recipient_name"};
  constexpr std::string_view kArguments[] = {"arguments", "parameters", "args",
                                             "input",     "tool_input", "action_input"};
  return std::ranges::any_of(kNames, is_named) &&
         std::ranges::any_of(kArguments,
                             [&](std::string_view key) { return object.find(key) != nullptr; });
}

// Braces are matched without regard to strings: an object that this cuts wrongly is no JSON, and
// the objects inside it are still seen.
bool holds_object(std::string_view text, const Names& names) {
  std::vector<std::size_t> open;
  std::size_t left = kMaxReadBytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{') {
      if (open.size() == kMaxOpen) open.erase(open.begin());
      open.push_back(i);
    }
    if (text[i] != '}' || open.empty()) continue;
    const std::string_view object = text.substr(open.back(), i + 1 - open.back());
    open.pop_back();
    if (object.size() > std::min(kMaxObjectBytes, left) || !has_name(object, names)) continue;
    left -= object.size();
    const auto value = json::parse(object);
    if (value && looks_like_call(*value, names)) return true;
  }
  return false;
}

bool has_call_in_a_form(std::string_view text, const Names& names) {
  static const std::shared_ptr<const format::Format> forms =
      format::with_fallbacks(*format::fallback(), format::Fallbacks::all);
  format::StreamParser parser(forms, {.tools = names});
  std::vector<message::ChatEvent> events;
  parser.feed(text, /*is_control=*/false, events);
  parser.finish(/*truncated=*/false, events);
  return parser.call_count() > 0;
}

// What a JSON string says, as far as quotes, backslashes and line breaks go.
std::string unescaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      ++i;
      out += text[i] == 'n' ? '\n' : text[i];
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

bool shows_call(std::string_view text, const Names& names) {
  if (!has_name(text, names)) return false;
  std::string copy;
  for (int depth = 0; depth <= kMaxStrings; ++depth) {
    if (has_call_in_a_form(text, names) || holds_object(text, names)) return true;
    if (text.find("\\\"") == std::string_view::npos) return false;
    copy = unescaped(text);
    text = copy;
  }
  return false;
}

}  // namespace tenon::chat
