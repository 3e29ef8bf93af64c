#include "tenon/chat/quoted_calls.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tenon/format/fallbacks.h"
#include "tenon/format/format.h"
#include "tenon/format/registry.h"
#include "tenon/format/stream_parser.h"
#include "tenon/json/value.h"

// Whether a text shows a call that its reader might repeat: in one of the forms that the parser
// knows, or as a JSON object with the name of a tool and arguments. Both also within JSON strings,
// as a file with a recorded conversation has them: then the text is searched again without one
// level of escapes. All work is bounded, because the texts come from tools and users.

namespace tenon::chat {
namespace {

using Names = std::vector<std::string>;

// Larger objects are not parsed, nor more than kMaxReadBytes of objects in all.
constexpr std::size_t kMaxObjectBytes = std::size_t{64} << 10;
constexpr std::size_t kMaxReadBytes = std::size_t{4} << 20;
constexpr std::size_t kMaxOpen = 256;
constexpr int kMaxStrings = 3;  // JSON in a string in a string

// Whether a name may stand in the text. With many names and a long text it is not looked for.
bool may_have_name(std::string_view text, const Names& names) {
  constexpr std::size_t kMaxSearched = std::size_t{64} << 20;
  if (names.empty()) return false;
  if (text.size() > kMaxSearched / names.size()) return true;
  return std::ranges::any_of(
      names, [&](const std::string& name) { return text.find(name) != std::string_view::npos; });
}

// Where one of the names stands in quotes, in order. What stands between any two quotes that follow
// each other is looked up, so it does not matter which of them begin a string.
std::vector<std::size_t> quoted_names(std::string_view text, const Names& names) {
  const std::set<std::string_view> known(names.begin(), names.end());
  std::size_t longest = 0;
  for (const std::string& name : names) longest = std::max(longest, name.size());
  std::vector<std::size_t> found;
  for (std::size_t at = text.find('"'); at != std::string_view::npos;) {
    const std::size_t next = text.find('"', at + 1);
    if (next == std::string_view::npos) break;
    const std::string_view between = text.substr(at + 1, next - at - 1);
    if (between.size() <= longest && known.contains(between)) found.push_back(at);
    at = next;
  }
  return found;
}

// {"name": "read", "arguments": {}} and what other programs write for it.
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
  const std::vector<std::size_t> named = quoted_names(text, names);
  if (named.empty()) return false;
  std::vector<std::size_t> open;
  std::size_t left = kMaxReadBytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{') {
      // The outermost brace is forgotten: a call is an inner object, if it is one.
      if (open.size() == kMaxOpen) open.erase(open.begin());
      open.push_back(i);
    }
    if (text[i] != '}' || open.empty()) continue;
    const std::size_t begin = open.back();
    const std::string_view object = text.substr(begin, i + 1 - begin);
    open.pop_back();
    // Only objects with a quoted name in them are parsed.
    const auto name = std::ranges::lower_bound(named, begin);
    const bool is_named = name != named.end() && *name < i;
    if (object.size() > std::min(kMaxObjectBytes, left) || !is_named) continue;
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
  if (!may_have_name(text, names)) return false;
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
