#pragma once

#include <string_view>

/// Host names (RFC 1123) and internationalised ones (IDNA 2008: RFC 5890 to 5893). Not for other
/// layers.
///
/// Which code points a label may hold is told by general category and a list of the exceptions and
/// of the blocks that compatibility normalisation would change; joining types and directions are
/// told by script. That is the standard's own derivation less some rare code points, without its
/// tables.
namespace tenon::schema {

/// Of a text that matches the pattern of hostnames: it is not too long, and its A-labels stand for
/// U-labels.
[[nodiscard]] bool is_hostname(std::string_view text);

/// Labels may be U-labels too, and dots the full stops of other scripts. `text` is UTF-8.
[[nodiscard]] bool is_idn_hostname(std::string_view text);

}  // namespace tenon::schema
