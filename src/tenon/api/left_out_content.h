#pragma once

#include <string>
#include <string_view>

#include "tenon/json/value.h"

/// The text in place of content that the model cannot read.
namespace tenon::api {

/// For a part of a message or a result, in any dialect: `[image left out: 640x480 png]`,
/// `[document left out: bill.pdf]`, `[file left out]`. `type` is that of the part.
[[nodiscard]] std::string left_out_text(std::string_view type, const json::Value& part);

}  // namespace tenon::api
