#pragma once

#include <span>
#include <string>

#include "tenon/format/definition.h"
#include "tenon/message/message.h"

namespace tenon::format {

/// Calls as a format writes them, and whether its own parser has them back.
struct Written {
  std::string text;
  bool is_read = false;  ///< As the same calls and nothing else, each of them whole.
};

/// Writes `calls` of `tools` in one syntax of the format and reads them again: what the tables of a
/// format promise together and none of them alone. Linear in what is written.
[[nodiscard]] Written write_and_read(const Format& format, const Syntax& syntax,
                                     std::span<const message::Tool> tools,
                                     const std::vector<message::ToolCall>& calls);

}  // namespace tenon::format
