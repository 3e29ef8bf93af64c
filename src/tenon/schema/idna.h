#pragma once

#include <string_view>

/// Host names (RFC 1123) and internationalised ones (RFC 5890 to 5893). Not for other layers.
namespace tenon::schema {

/// Of a text whose labels are made of letters, digits and inner hyphens: their A-labels stand for
/// U-labels, and the whole is not too long.
[[nodiscard]] bool is_hostname(std::string_view text);

/// Labels may be U-labels, and the dots the full stops of other scripts.
[[nodiscard]] bool is_idn_hostname(std::string_view text);

}  // namespace tenon::schema
