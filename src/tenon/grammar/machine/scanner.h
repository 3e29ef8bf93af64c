#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "tenon/regex/byte_set.h"
#include "tenon/regex/dfa.h"
#include "tenon/regex/expr.h"
#include "tenon/vocab/token_trie.h"

namespace tenon::grammar {

/// A deterministic automaton over bytes whose states are made when they are first reached: the
/// inside of a string, a number, a key, free text up to a trigger. A state never depends on what
/// surrounds the lexeme, so token masks of the inside are computed once per state.
///
/// Not thread-safe. Every state except kDead is live: some continuation is accepted.
class Scanner {
 public:
  using State = std::uint32_t;
  static constexpr State kDead = 0xFFFFFFFF;
  static constexpr State kUnknown = 0xFFFFFFFE;  ///< Only in a table.

  virtual ~Scanner() = default;
  [[nodiscard]] virtual State start() = 0;  ///< kDead: nothing is accepted.
  [[nodiscard]] virtual State step(State state, std::uint8_t byte) = 0;
  /// The results of step() so far, for walks of many steps: the state after a byte below `states`
  /// is next[state * columns + column_of[byte]]. If that is kUnknown, call step(), which changes
  /// the table. If there is any_text(), none of these states is final. The last column is for
  /// step_common().
  struct Table {
    const State* next = nullptr;
    State states = 0;
    std::uint32_t columns = 0;
    const std::uint16_t* column_of = nullptr;
  };
  [[nodiscard]] virtual Table table() const { return {}; }
  /// True if the text so far may be the whole lexeme.
  [[nodiscard]] virtual bool is_accepting(State state) const = 0;
  /// True if no byte may follow, as after a closing quote.
  [[nodiscard]] virtual bool is_final(State state) const = 0;

  /// Bytes of one kind lead to the same state.
  [[nodiscard]] virtual std::uint16_t kind(State /*state*/, std::uint8_t byte) const {
    return byte;
  }
  static constexpr std::size_t kMostKinds = 512;
  /// The estimated number of bytes from `state` to an end of the lexeme, and never more than that.
  [[nodiscard]] virtual std::uint32_t least(State state) { return is_accepting(state) ? 0 : 1; }

  /// Classes of bytes that make no difference to `state` and all states after it. Tokens with a
  /// byte of class kNone are not looked up by class. Nothing: every byte makes a difference.
  [[nodiscard]] virtual std::optional<vocab::ByteClasses> classes(State state) = 0;
  /// The state after any common character (regex/common_characters.h); nothing: they lead to
  /// several states. If this may be called, classes() has a class for TokenTrie::kUnit.
  [[nodiscard]] virtual std::optional<State> step_common(State /*state*/) { return std::nullopt; }
  /// A byte of class kNone that may be read, so tokens with it are looked up by bytes (an escape,
  /// for example); -1: there is no such byte.
  [[nodiscard]] virtual int rare_byte() const { return -1; }

  /// How a token that leaves the lexeme is divided: its first part ends the lexeme, and the rest
  /// must be read by what comes after. The token's bytes alone decide where they meet.
  enum class Border : std::uint8_t {
    none,      ///< They do not decide it: an end must be looked for after every byte.
    quote,     ///< After the first quote that is not escaped, in a JSON string.
    alphabet,  ///< Before the first byte that is not in alphabet().
  };
  [[nodiscard]] virtual Border border(State /*state*/) const { return Border::none; }
  /// The bytes of which the lexeme is made, if border() returns `alphabet`.
  [[nodiscard]] virtual regex::ByteSet alphabet() const { return regex::ByteSet::all(); }

  /// A state like this one, in which certain whole texts are accepted that are not accepted here.
  /// The same texts can continue.
  [[nodiscard]] virtual State without_exclusions(State state) { return state; }
  /// How to find the texts of up to `longest` bytes that stay inside the lexeme, or those that are
  /// the rest of it: walk with begin(way). The result may be kept under the key.
  struct Way {
    /// Ways with equal keys find the same texts, whatever their scanners. All zero: there is no
    /// key.
    regex::Fingerprint key;
    State state = 0;
    /// The language to walk in place of this scanner, because other states share it.
    std::optional<regex::Expr> instead;
    /// After the walk, confirms() must be asked whether the two have the same texts.
    bool is_guess = false;
  };
  struct Ways {
    Way inside;
    Way whole;
    regex::Fingerprint exact;  ///< A key of both together that no guess has.
  };
  /// If `may_guess` is false, no way is a guess.
  [[nodiscard]] virtual Ways ways(State state, std::uint32_t /*longest*/, bool /*may_guess*/) {
    return {.inside = {.key = {}, .state = state, .instead = {}},
            .whole = {.key = {}, .state = state, .instead = {}},
            .exact = {}};
  }
  struct At {
    Scanner* scanner = nullptr;
    State state = 0;
  };
  /// The state in which the walk begins. Nothing: a limit was reached, and has been reported.
  [[nodiscard]] virtual std::optional<At> begin(const Way& way) { return At{this, way.state}; }
  /// Called after a walk of all tokens from `walked`, which begin(way) returned: whether the guess
  /// was right. If not, ways() rarely makes it again.
  [[nodiscard]] virtual bool confirms(const Way& /*way*/, const At& /*walked*/) { return true; }

  /// Any text of up to so many characters can come next, if all are printable ASCII and none is a
  /// quote or a backslash. 0: not known.
  [[nodiscard]] virtual std::uint32_t absorbs(State /*state*/) { return 0; }

  /// Any text of these characters can come next, and a byte can follow it. Empty: not known.
  [[nodiscard]] virtual regex::Dfa::FreeText free_text(State /*state*/) { return {}; }

  /// Every text that continues from `text` continues from this state, except some that have one of
  /// `signs`.
  struct AllBut {
    At text;
    regex::ByteSet signs;
  };
  /// Nothing: not known, or a limit was reached.
  [[nodiscard]] virtual std::optional<AllBut> as_all_but(State /*state*/) { return std::nullopt; }
  /// Tokens that stay inside the lexeme can also be read in another way: node::Lexeme.
  [[nodiscard]] virtual bool is_covered() const { return false; }
  /// The bytes with which a text of the lexeme may end.
  [[nodiscard]] virtual regex::ByteSet last_bytes() { return regex::ByteSet::all(); }

  /// The state in a string of any text, if this is a string and no limit is reached. If
  /// is_any_text() is true, the same texts can follow.
  [[nodiscard]] virtual std::optional<At> any_text() { return std::nullopt; }
  [[nodiscard]] virtual bool is_any_text(State /*state*/) const { return false; }

  /// The estimated size of what it has remembered of the texts it has read.
  [[nodiscard]] virtual std::size_t memory_bytes() const { return 0; }
};

}  // namespace tenon::grammar
