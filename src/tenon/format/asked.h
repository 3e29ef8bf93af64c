#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// What a request asks for, as far as it decides how the answer is read.
namespace tenon::format {

/// What a JSON object with a tool's name is in the answer to a request.
enum class Asked : std::uint8_t {
  for_calls,  ///< A call, where a call may stand (lead.h).
  of_tools,   ///< A call only if no words stand before it: the user names a tool and speaks of a
              ///< program or a document, which may be the work or may be what is to be written.
  to_show_calls,  ///< Text: the user wants to see a call, or wants none to be made.
};

/// What `request`, the user's last message, asks for. Under `to_show_calls` the answer may contain
/// JSON with a tool's name as text, so only calls in the model's own form count. English only, but
/// for the words of examples; docs/formats.md has the rules in words.
[[nodiscard]] Asked asked_for(std::string_view request, std::span<const std::string> tools);

}  // namespace tenon::format
