#pragma once

#include <cstdint>
#include <optional>

#include "tenon/vocab/token_trie.h"

namespace tenon::grammar {

/// A deterministic automaton over bytes whose states come into being as they are met: the inside of
/// a string, a number, a key, free text up to a trigger. What a state is never depends on what
/// surrounds the lexeme, so token masks of the inside are computed once per state.
///
/// Not thread-safe. A state is live: some continuation is accepted.
class Scanner {
 public:
  using State = std::uint32_t;
  static constexpr State kDead = 0xFFFFFFFF;

  virtual ~Scanner() = default;
  [[nodiscard]] virtual State start() = 0;  ///< kDead: nothing is accepted.
  [[nodiscard]] virtual State step(State state, std::uint8_t byte) = 0;
  /// What has been read may be the whole lexeme.
  [[nodiscard]] virtual bool is_accepting(State state) const = 0;
  /// True if no byte may follow, as after a closing quote.
  [[nodiscard]] virtual bool is_final(State state) const = 0;

  /// Bytes that `state` and all that follow it do not tell apart; tokens that hold a byte of class
  /// kNone are not looked up by class. Nothing: every byte matters.
  [[nodiscard]] virtual std::optional<vocab::ByteClasses> classes(State state) = 0;
  /// A byte of class kNone that is not refused, so that tokens with it are looked up by bytes (an
  /// escape, say); -1: there is none.
  [[nodiscard]] virtual int rare_byte() const { return -1; }

  /// Within a JSON string. Where a token closes it is a matter of the token's bytes alone: at the
  /// first quote that is not escaped.
  [[nodiscard]] virtual bool is_in_string(State /*state*/) const { return false; }
  /// A state from which the same texts can go on, if not be whole, so that one mask of the inside
  /// serves for both.
  [[nodiscard]] virtual State same_inside(State state) { return state; }
  /// Above zero: a state that scanners of all grammars have, such as in a string of any content.
  /// Equal numbers mean the same.
  [[nodiscard]] virtual int common_state(State /*state*/) const { return 0; }
};

}  // namespace tenon::grammar
