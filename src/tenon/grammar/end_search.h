#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/grammar/machine.h"
#include "tenon/vocab/tokenizer.h"

/// A short way from a state to an end of the text: what closes a call that must not be cut.
///
/// Best first by Machine::left(), which is nearly exact but for the insides of lexemes, where the
/// search goes by breadth. So it comes to required members and closing brackets at once, and tries
/// optional ones only where nothing else ends the text.
namespace tenon::grammar {

/// What is read one after the other: bytes, or a token as a whole.
struct EndPart {
  std::string bytes;
  std::optional<vocab::TokenId> token;

  bool operator==(const EndPart&) const = default;
};

using EndParts = std::vector<EndPart>;

/// Leads from `state`, which `text` led to, to a state where the text may end; nothing to read
/// where it is one. Short in bytes, though not always the shortest. Where `fits` does not take it,
/// as it may be long in tokens (one tool's name has fewer bytes, another's fewer tokens), other
/// ways are tried where the first has a choice of few bytes, up to 64. nullopt: none was found,
/// each in `max_steps` steps of the machine, or the machine reached a limit.
[[nodiscard]] std::optional<EndParts> find_end(Machine& machine, StateId state,
                                               std::string_view text, std::size_t max_steps,
                                               const std::function<bool(const EndParts&)>& fits);

}  // namespace tenon::grammar
