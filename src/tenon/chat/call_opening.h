#pragma once

#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/format/format.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::chat {

/// The tokens with which every call of `format` begins: up to the name, or with `name` up to where
/// different arguments begin to differ. They are taken from calls that the format renders, so no
/// knowledge of a format is needed. They end where the tokens of two such calls part, so the model
/// continues from a place that it knows. Empty if the format cannot tell.
[[nodiscard]] Expected<std::vector<vocab::TokenId>> call_opening(const format::Format& format,
                                                                 const vocab::Tokenizer& tokenizer,
                                                                 std::string_view name = {});

}  // namespace tenon::chat
