#pragma once

#include <string>
#include <string_view>

#include "tenon/format/format.h"

namespace tenon::chat {

/// How every call of `format` begins: up to the name, or with `name` up to where arguments of
/// different kinds begin to differ. Read off from calls as the format renders them, so it needs no
/// knowledge of any format. "" where the format cannot say.
[[nodiscard]] std::string call_opening(const format::Format& format, std::string_view name = {});

}  // namespace tenon::chat
