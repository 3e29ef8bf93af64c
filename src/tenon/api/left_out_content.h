#pragma once

#include <string>
#include <string_view>

#include "tenon/json/value.h"

/// What stands in the place of content that the model cannot take.
namespace tenon::api {

/// Of a part of a message or a result, in any dialect: `[image left out: 640x480 png]`,
/// `[document left out: bill.pdf]`, `[file left out]`. `type` is the part's.
[[nodiscard]] std::string left_out_text(std::string_view type, const json::Value& part);

}  // namespace tenon::api
