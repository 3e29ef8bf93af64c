#pragma once

#include <memory>
#include <span>
#include <string>

#include "tenon/format/definition.h"
#include "tenon/format/detect.h"
#include "tenon/message/event.h"
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

/// The same names and arguments, in order.
[[nodiscard]] bool same_calls(std::span<const message::ToolCall> some,
                              std::span<const message::ToolCall> others);

/// What the format's parser makes of `sample`, whose arguments say of which types its parameters
/// are.
[[nodiscard]] message::Fold fold_of(const std::shared_ptr<const Format>& format,
                                    const CallSample& sample);
/// Whether that is its calls and nothing but white space.
[[nodiscard]] bool reads(const std::shared_ptr<const Format>& format, const CallSample& sample);

}  // namespace tenon::format
