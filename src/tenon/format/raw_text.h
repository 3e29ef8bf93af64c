#pragma once

#include <string>
#include <string_view>

namespace tenon::format {

/// Appends bytes of a text without escapes to an open JSON string. They may end inside a character,
/// so json::append_escaped() cannot be used; all of them together are valid UTF-8.
void append_raw(std::string& copy, std::string_view bytes);

/// The same for one control character.
void append_control(std::string& copy, unsigned char byte);

}  // namespace tenon::format
