#pragma once

#include <cstddef>
#include <memory>

#include "tenon/base/expected.h"
#include "tenon/engine/engine.h"
#include "tenon/record/reader.h"

namespace tenon::record {

/// An engine that gives the first `tokens` tokens of a recording, and lets `engine` go on from
/// there. The recording's runs come in their order; with 0 tokens, all of it is the engine's.
///
///     auto forked = forked_engine(read, 12, engine);   // the first twelve as they were
///
/// Where the requests of a run have a grammar, it reads the recorded tokens; a run whose grammar
/// does not allow one of them is refused, with its number. The grammar does not read a run that is
/// given whole, since nothing goes on from its tokens. `read` must outlive the engine. Fails
/// with `invalid` if the recording has fewer tokens, or if `engine` has another vocabulary, and
/// with `unsupported` if an answer cannot go on from within it: the recorded model, or `engine`,
/// takes messages.
[[nodiscard]] Expected<std::shared_ptr<engine::Engine>> forked_engine(
    const Read& read, std::size_t tokens, std::shared_ptr<engine::Engine> engine);

}  // namespace tenon::record
