#pragma once

#include <span>
#include <string>
#include <string_view>

/// What a request asks for, as far as it decides how the answer is read.
namespace tenon::format {

/// Whether `request`, the user's last message, asks about calls instead of for one: to see a call
/// as text, for documentation or a program about one of `tools`, or for the format of calls. The
/// answer to such a request may contain JSON with a tool's name as text, so only calls in the
/// model's own form count. English only; docs/formats.md has the rules in words.
[[nodiscard]] bool asks_about_calls(std::string_view request, std::span<const std::string> tools);

}  // namespace tenon::format
