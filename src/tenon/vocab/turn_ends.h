#pragma once

#include <string_view>
#include <vector>

#include "tenon/vocab/tokenizer.h"

namespace tenon::vocab {

/// Which tokens end a model's turn, by their texts: files name one end-of-text token, and models
/// use several. `texts`: by id. What is found is a control token.
[[nodiscard]] std::vector<TokenId> turn_ends(const std::vector<std::string_view>& texts);

}  // namespace tenon::vocab
