#include "tenon/chat/call_opening.h"

#include <algorithm>
#include <string>
#include <vector>

namespace tenon::chat {
namespace {

std::string rendered(const format::Format& format, std::string_view name,
                     std::string_view arguments) {
  const message::ToolCall call{
      .id = "call000000", .name = std::string(name), .arguments = std::string(arguments)};
  return format::render_calls(format, {call}).value_or("");
}

std::string common_prefix(const std::string& a, const std::string& b) {
  const auto [end, unused] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return {a.begin(), end};
}

// Trailing blanks are left to the model: tokenizers join them with what follows.
std::string without_trailing_spaces(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

std::string call_opening(const format::Format& format, std::string_view name) {
  if (name.empty()) {
    return without_trailing_spaces(
        common_prefix(rendered(format, "a", "{}"), rendered(format, "b", "{}")));
  }
  const std::string opening =
      common_prefix(rendered(format, name, "{}"), rendered(format, name, R"({"a":1})"));
  // Without the whole name it would be a promise of another call.
  if (opening.find(name) == std::string::npos) return {};
  return without_trailing_spaces(opening);
}

}  // namespace tenon::chat
