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

/// `reference` resolved against `base` (section 5.2). It never fails: a text that is not an address
/// is returned as it is.
[[nodiscard]] std::string resolve_uri(std::string_view base, std::string_view reference);

/// Nothing if a '%' is not followed by two hexadecimal digits.
[[nodiscard]] std::optional<std::string> percent_decoded(std::string_view text);

}  // namespace tenon::schema
