#pragma once

#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/format/format.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::chat {

/// The tokens with which every call of `format` begins: up to the name, or with `name` up to where
/// different arguments begin to differ. Read off from calls as the format renders them, so it needs
/// no knowledge of any format; and it ends where the tokens of two such calls part, so that the
/// model goes on from a place that it knows. Empty where the format cannot say.
[[nodiscard]] Expected<std::vector<vocab::TokenId>> call_opening(const format::Format& format,
                                                                 const vocab::Tokenizer& tokenizer,
                                                                 std::string_view name = {});

}  // namespace tenon::chat
