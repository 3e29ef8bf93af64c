#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "tenon/regex/byte_set.h"
#include "tenon/regex/expr.h"
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
  static constexpr State kUnknown = 0xFFFFFFFE;  ///< In a table only.

  virtual ~Scanner() = default;
  [[nodiscard]] virtual State start() = 0;  ///< kDead: nothing is accepted.
  [[nodiscard]] virtual State step(State state, std::uint8_t byte) = 0;
  /// What step() has found out so far, for walks of many steps: the state after one below `states`
  /// is next[state * columns + column_of[byte]], or kUnknown, where step() tells and changes the
  /// table. None of these states is final. The last column is of step_common().
  struct Table {
    const State* next = nullptr;
    State states = 0;
    std::uint32_t columns = 0;
    const std::uint16_t* column_of = nullptr;
  };
  [[nodiscard]] virtual Table table() const { return {}; }
  /// What has been read may be the whole lexeme.
  [[nodiscard]] virtual bool is_accepting(State state) const = 0;
  /// True if no byte may follow, as after a closing quote.
  [[nodiscard]] virtual bool is_final(State state) const = 0;

  /// Bytes of one kind lead to the same state.
  [[nodiscard]] virtual std::uint16_t kind(State /*state*/, std::uint8_t byte) const {
    return byte;
  }
  static constexpr std::size_t kMostKinds = 512;
  /// Roughly so many bytes, and no fewer, lead from `state` to where the lexeme may be whole.
  [[nodiscard]] virtual std::uint32_t least(State state) { return is_accepting(state) ? 0 : 1; }

  /// Bytes that `state` and all that follow it do not tell apart; tokens that hold a byte of class
  /// kNone are not looked up by class. Nothing: every byte matters.
  [[nodiscard]] virtual std::optional<vocab::ByteClasses> classes(State state) = 0;
  /// After any one common character (regex/common_characters.h); nothing: they lead to several
  /// states. classes() has a class for TokenTrie::kUnit where this may be asked for.
  [[nodiscard]] virtual std::optional<State> step_common(State /*state*/) { return std::nullopt; }
  /// A byte of class kNone that is not refused, so that tokens with it are looked up by bytes (an
  /// escape, say); -1: there is none.
  [[nodiscard]] virtual int rare_byte() const { return -1; }

  /// How a token that leaves the lexeme is made: it has a first part that ends the lexeme, and a
  /// rest that what comes after must read. Where they meet is a matter of the token's bytes alone.
  enum class Border : std::uint8_t {
    none,      ///< Not so: the rest must be looked for after every byte.
    quote,     ///< After the first quote that is not escaped: within a JSON string.
    alphabet,  ///< Before the first byte that is not in alphabet().
  };
  [[nodiscard]] virtual Border border(State /*state*/) const { return Border::none; }
  /// The bytes that the lexeme is made of, where border() says so.
  [[nodiscard]] virtual regex::ByteSet alphabet() const { return regex::ByteSet::all(); }

  /// A state like this one, but that certain whole texts are accepted there which are not here.
  /// Which texts can go on is the same.
  [[nodiscard]] virtual State without_exclusions(State state) { return state; }
  /// How to find the texts of up to `longest` bytes that stay within the lexeme, or those that are
  /// the rest of it: walk with begin(way). What is found may be kept under the key.
  struct Way {
    /// Ways of equal keys, of whatever scanners, find the same texts. All zero: there is no key.
    regex::Fingerprint key;
    State state = 0;
    /// The language that is walked instead of this scanner, because other states share it.
    std::optional<regex::Expr> instead;
    /// After the walk, confirms() must be asked whether the two find the same texts.
    bool is_guess = false;
  };
  struct Ways {
    Way inside;
    Way whole;
    regex::Fingerprint exact;  ///< A key of `whole` that is never that of a guess.
  };
  /// Without `may_guess`, no way is a guess.
  [[nodiscard]] virtual Ways ways(State state, std::uint32_t /*longest*/, bool /*may_guess*/) {
    return {.inside = {.key = {}, .state = state, .instead = {}},
            .whole = {.key = {}, .state = state, .instead = {}},
            .exact = {}};
  }
  struct At {
    Scanner* scanner = nullptr;
    State state = 0;
  };
  /// Where the walk begins. Nothing: a limit was reached, and has been reported.
  [[nodiscard]] virtual std::optional<At> begin(const Way& way) { return At{this, way.state}; }
  /// After a walk of all tokens from `walked`, which is what begin(way) answered: whether the guess
  /// was right. If not, ways() seldom makes it again.
  [[nodiscard]] virtual bool confirms(const Way& /*way*/, const At& /*walked*/) { return true; }

  /// Any text of up to so many characters can come next, if all are printable ASCII and none is a
  /// quote or a backslash. 0: not known.
  [[nodiscard]] virtual std::uint32_t absorbs(State /*state*/) { return 0; }

  /// What goes on from `text` goes on from this state, but for some of what has one of `signs`.
  struct AllBut {
    At text;
    regex::ByteSet signs;
  };
  /// Nothing: not known, or a limit was reached.
  [[nodiscard]] virtual std::optional<AllBut> as_all_but(State /*state*/) { return std::nullopt; }
  /// Tokens that stay within the lexeme can be read in another way too: node::Lexeme.
  [[nodiscard]] virtual bool is_covered() const { return false; }
  /// The bytes that a text of the lexeme may end in.
  [[nodiscard]] virtual regex::ByteSet last_bytes() { return regex::ByteSet::all(); }

  /// In a string of any text, if this is a string and no limit is reached. Where is_any_text()
  /// holds, the same can follow.
  [[nodiscard]] virtual std::optional<At> any_text() { return std::nullopt; }
  [[nodiscard]] virtual bool is_any_text(State /*state*/) const { return false; }

  /// What it has remembered of the texts it has seen, roughly.
  [[nodiscard]] virtual std::size_t memory_bytes() const { return 0; }
};

}  // namespace tenon::grammar
