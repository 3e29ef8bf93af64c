#pragma once

#include <string_view>
#include <vector>

#include "tenon/vocab/tokenizer.h"

namespace tenon::vocab {

/// The tokens that end a model's turn, by their texts: files name one end-of-text token, and models
/// use several. `texts`: by id. The tokens that are found must be control tokens.
[[nodiscard]] std::vector<TokenId> turn_ends(const std::vector<std::string_view>& texts);

}  // namespace tenon::vocab
