#pragma once

#include <string>
#include <string_view>

namespace tenon::format {

/// `text` with XML's five entities read; what is none stays as it is.
[[nodiscard]] std::string without_entities(std::string_view text);
/// `text` as it stands in an attribute between double quotes: `&amp;` and `&quot;`.
[[nodiscard]] std::string with_entities(std::string_view text);

}  // namespace tenon::format
