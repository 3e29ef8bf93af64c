#pragma once

#include <string>
#include <string_view>

namespace tenon::format {

/// `text` with XML's five entities decoded; other text is unchanged.
[[nodiscard]] std::string without_entities(std::string_view text);
/// `text` for an attribute between double quotes: `&amp;` and `&quot;`.
[[nodiscard]] std::string with_entities(std::string_view text);

}  // namespace tenon::format
