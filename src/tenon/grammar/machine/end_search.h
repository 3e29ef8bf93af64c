#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/grammar/machine/machine.h"
#include "tenon/vocab/tokenizer.h"

/// Finds a short way from a state to an end of the text, which closes a call that must not be cut.
///
/// A best-first search by Machine::left(), which is nearly exact except inside lexemes; there the
/// search is breadth-first. So it finds required members and closing brackets at once, and tries
/// optional ones only if nothing else ends the text.
namespace tenon::grammar {

/// A part that is read: bytes, or one whole token.
struct EndPart {
  std::string bytes;
  std::optional<vocab::TokenId> token;

  bool operator==(const EndPart&) const = default;
};

using EndParts = std::vector<EndPart>;

/// Leads from `state`, to which `text` led, to a state where the text may end; empty if `state` is
/// one. The result is short in bytes, but not always the shortest. If `fits` rejects it, because it
/// may be long in tokens (one tool's name may have fewer bytes and another's fewer tokens), up to
/// 64 other ways are tried, at places where the first way has a choice of few bytes. nullopt if
/// none was found with `max_steps` steps of the machine for all of them together, or if the machine
/// reached a limit.
[[nodiscard]] std::optional<EndParts> find_end(Machine& machine, StateId state,
                                               std::string_view text, std::size_t max_steps,
                                               const std::function<bool(const EndParts&)>& fits);

}  // namespace tenon::grammar
