#pragma once

#include <string>
#include <string_view>

namespace tenon::format {

/// Appends bytes of a text without escapes to a JSON string that is open. They may end inside a
/// character, which is why json::append_escaped() cannot do it; they are valid UTF-8 together.
void append_raw(std::string& copy, std::string_view bytes);

/// The same for one control character.
void append_control(std::string& copy, unsigned char byte);

}  // namespace tenon::format
