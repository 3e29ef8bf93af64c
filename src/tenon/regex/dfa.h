#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/regex/byte_set.h"
#include "tenon/regex/expr.h"

namespace tenon::regex {

/// The automaton of a language, built while it is walked: a state is a derivative.
///
///     Dfa dfa(exprs, *language_of(exprs, ...));
///     Dfa::State state = Dfa::kStart;
///     for (std::uint8_t byte : text) state = dfa.step(state, byte);
///     if (state == Dfa::kFailed) return Unexpected(exprs.status().error());
///     return dfa.is_accepting(state);
///
/// Its states count against the limits of `exprs`, which must outlive it and may serve other
/// automata too. It and `exprs` may be used by one thread at a time.
class Dfa {
 public:
  using State = std::uint32_t;  ///< Numbers without gaps, in the order in which states are reached
                                ///< first.

  static constexpr State kFailed = 0;  ///< A limit was reached; every step leads back to it.
  static constexpr State kStart = 1;

  Dfa(ExprSet& exprs, Expr language);

  [[nodiscard]] State step(State state, std::uint8_t byte) {
    const State next = steps_[state * class_count_ + classes_[byte]];
    return next != kUnknown ? next : meet(state, byte);
  }
  [[nodiscard]] bool is_accepting(State state) const { return states_[state].is_accepting; }
  /// Whether some text leads from `state` to an accepting state. The answer is exact; kFailed is
  /// not live. Results on the way are kept. Fails with Errc::limit_exceeded.
  [[nodiscard]] Expected<bool> is_live(State state);
  /// True: every text leads from `state` to an accepting state. False: not known.
  [[nodiscard]] bool accepts_all(State state) const {
    return states_[state].language == ExprSet::kAnything;
  }
  /// The state to which every common character (common_characters.h) leads from `state`. Nothing if
  /// they lead to different states.
  [[nodiscard]] std::optional<State> step_common(State state);
  /// Characters in any order and number: each sequence of them leads from `state` to a live state
  /// after which a byte may follow.
  struct FreeText {
    ByteSet ascii;
    bool has_common = false;  ///< Also every common character.
  };
  /// As many such characters as a short search finds; none if it finds none.
  [[nodiscard]] FreeText free_text(State state);
  /// The bytes that do not change `state`.
  [[nodiscard]] ByteSet loops(State state);

  [[nodiscard]] Expr language(State state) const { return states_[state].language; }
  [[nodiscard]] State state_count() const { return static_cast<State>(states_.size()); }
  /// Bytes of one class lead to the same state from every state.
  [[nodiscard]] const std::array<std::uint8_t, 256>& byte_classes() const { return classes_; }
  [[nodiscard]] std::size_t class_count() const { return class_count_; }
  /// One byte of the class.
  [[nodiscard]] std::uint8_t byte_of_class(std::size_t byte_class) const {
    return byte_of_class_[byte_class];
  }

 private:
  static constexpr State kUnknown = std::numeric_limits<State>::max();

  static constexpr State kSeveral = kUnknown - 1;
  static constexpr std::uint16_t kNoClass = 256;

  enum class Life : std::uint8_t { unknown, live, dead };
  struct StateInfo {
    Expr language;
    bool is_accepting;
    Life life;
    std::uint32_t search = 0;         // the last search of is_live() that visited the state
    std::uint16_t toward = kNoClass;  // the class that leads from this live state to an accepting
                                      // one
  };

  struct Common {
    std::vector<State> by_state;  // kUnknown; kSeveral: they lead to more than one
    // Sequences of one byte of each class, once each: [sequence][place]
    std::vector<std::vector<std::vector<std::uint8_t>>> sequences;
  };

  class FreeSearch;

  State add(Expr language);
  State meet(State state, std::uint8_t byte);
  State meet_common(State state);
  State step_class(State state, std::size_t byte_class) {
    return step(state, byte_of_class_[byte_class]);
  }
  [[nodiscard]] bool is_known_live(State state);
  void set_live(State state, std::size_t toward);
  bool follow_guide(State state);

  ExprSet* exprs_;
  std::array<std::uint8_t, 256> classes_;
  std::size_t class_count_;
  std::vector<std::uint8_t> byte_of_class_;
  std::vector<StateInfo> states_;
  std::vector<State> steps_;     // [state * class_count_ + class]
  std::vector<State> state_of_;  // by expression; kUnknown: not made yet
  Common common_;
  std::unordered_map<State, FreeText> free_;
  std::size_t free_steps_ = 0;  // of all calls of free_text()
  std::uint32_t searches_ = 0;
  State guide_ = kFailed;  // the last state that is_live() found to be live
};

}  // namespace tenon::regex
