#pragma once

#include <optional>
#include <string>
#include <string_view>

/// Addresses as `$id` and `$ref` write them (RFC 3986). Not for other layers.
namespace tenon::schema {

struct SplitUri {
  std::string_view address;                  ///< What stands before '#'.
  std::optional<std::string_view> fragment;  ///< What stands behind it.
};

[[nodiscard]] SplitUri split_fragment(std::string_view uri);

/// `reference` as seen from `base` (section 5.2). Total: whatever is no address stays as it is.
[[nodiscard]] std::string resolve_uri(std::string_view base, std::string_view reference);

/// Nothing where a '%' is not followed by two hexadecimal digits.
[[nodiscard]] std::optional<std::string> percent_decoded(std::string_view text);

}  // namespace tenon::schema
