#pragma once

#include <cstdint>

#include "tenon/base/expected.h"
#include "tenon/engine/engine.h"
#include "tenon/vocab/tokenizer.h"

/// The checks of every engine's start(), with the same error messages.
namespace tenon::engine {

inline constexpr int kMaxTopLogprobs = 20;

/// Fails with `invalid` for an empty prompt, a token id that does not exist, or a sampling
/// parameter outside its range; with `limit_exceeded` if the prompt leaves no room for an answer. A
/// message about a parameter begins with its name, one about the prompt with "the prompt".
[[nodiscard]] Status check_request(const GenerateRequest& request, const Capabilities& capabilities,
                                   const vocab::Tokenizer& tokenizer);

/// An Errc::limit_exceeded.
[[nodiscard]] Error queue_is_full(std::uint32_t limit);

}  // namespace tenon::engine
