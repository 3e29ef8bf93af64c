#pragma once

#include <string_view>

/// Host names (RFC 1123) and internationalised ones (IDNA 2008: RFC 5890 to 5893). Not for other
/// layers.
///
/// General category, a list of exceptions, and a list of blocks that compatibility normalisation
/// would change decide which code points a label may hold. Scripts decide joining types and
/// directions. This is the standard's own derivation without its tables; a few rare code points
/// differ.
namespace tenon::schema {

/// For a text that matches the pattern of hostnames: true if it is not too long and its A-labels
/// stand for U-labels.
[[nodiscard]] bool is_hostname(std::string_view text);

/// Labels may also be U-labels, and dots the full stops of other scripts. `text` must be UTF-8.
[[nodiscard]] bool is_idn_hostname(std::string_view text);

}  // namespace tenon::schema
