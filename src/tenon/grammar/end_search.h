#pragma once

#include <cstddef>
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

/// Leads from `state`, which `text` led to, to a state where the text may end; nothing to read
/// where it is one. Short, though not always the shortest. nullopt: none was found in `max_steps`
/// steps of the machine, or it reached a limit.
[[nodiscard]] std::optional<std::vector<EndPart>> find_end(Machine& machine, StateId state,
                                                           std::string_view text,
                                                           std::size_t max_steps);

}  // namespace tenon::grammar
