#pragma once

#include <span>
#include <string>
#include <string_view>

/// What a request asks for, as far as it decides how its answer is read.
namespace tenon::format {

/// Whether `request`, the last message of the user, asks about calls rather than for one: to see a
/// call as text, for documentation or a program about one of `tools`, for the format of calls. In
/// the answer to such a request JSON with a tool's name is what was asked for, so that calls are
/// looked for in the model's own form alone. English only; docs/formats.md has the rules in words.
[[nodiscard]] bool asks_about_calls(std::string_view request, std::span<const std::string> tools);

}  // namespace tenon::format
