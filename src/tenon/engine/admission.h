#pragma once

#include <cstdint>

#include "tenon/base/expected.h"
#include "tenon/engine/engine.h"
#include "tenon/vocab/tokenizer.h"

/// What every engine refuses at start(), in the same words.
namespace tenon::engine {

inline constexpr int kMaxTopLogprobs = 20;

/// `invalid`: an empty prompt, a token id that does not exist, a sampling parameter outside of its
/// range; `limit_exceeded`: the prompt leaves no room for an answer. What is said of a parameter
/// begins with its name, what is said of the prompt with "the prompt".
[[nodiscard]] Status check_request(const GenerateRequest& request, const Capabilities& capabilities,
                                   const vocab::Tokenizer& tokenizer);

/// limit_exceeded.
[[nodiscard]] Error queue_is_full(std::uint32_t limit);

}  // namespace tenon::engine
