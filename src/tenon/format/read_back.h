#pragma once

#include <span>
#include <string>

#include "tenon/format/definition.h"
#include "tenon/message/message.h"

namespace tenon::format {

/// Calls as a format writes them, and whether its own parser reads them back.
struct Written {
  std::string text;
  bool is_read = false;  ///< As the same calls, each complete, and nothing else.
};

/// Writes `calls` of `tools` in one syntax of the format and reads them again. That checks what the
/// tables of a format guarantee together. Linear in the written text.
[[nodiscard]] Written write_and_read(const Format& format, const Syntax& syntax,
                                     std::span<const message::Tool> tools,
                                     const std::vector<message::ToolCall>& calls);

}  // namespace tenon::format
