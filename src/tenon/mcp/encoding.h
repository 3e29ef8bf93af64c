#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::mcp {

[[nodiscard]] std::string base64(std::string_view bytes);
/// RFC 4648, section 5, without padding.
[[nodiscard]] std::string base64url(std::string_view bytes);

using Fields = std::vector<std::pair<std::string, std::string>>;
/// As application/x-www-form-urlencoded, which is also how queries are written.
[[nodiscard]] std::string form(const Fields& fields);
[[nodiscard]] std::string percent_encoded(std::string_view text);
/// Reads the fields of a query; '+' is a space. An escape that is not valid stays as it is.
[[nodiscard]] Fields read_form(std::string_view text);
/// The first field of this name, or "".
[[nodiscard]] std::string field(const Fields& fields, std::string_view name);

}  // namespace tenon::mcp
