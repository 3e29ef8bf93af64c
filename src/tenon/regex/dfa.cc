#include "tenon/regex/dfa.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "tenon/regex/common_characters.h"

namespace tenon::regex {

Dfa::Dfa(ExprSet& exprs, Expr language)
    : exprs_(&exprs),
      classes_(exprs.byte_classes(language)),
      class_count_(std::size_t{*std::ranges::max_element(classes_)} + 1),
      byte_of_class_(class_count_) {
  for (unsigned byte = 256; byte-- > 0;) {
    // From the last byte to the first, so that the least byte stands for its class.
    byte_of_class_[classes_[byte]] = static_cast<std::uint8_t>(byte);
  }
  // State 0, kFailed, all of whose steps lead to itself.
  states_.push_back({ExprSet::kNothing, false, Life::dead});
  steps_.assign(class_count_, kFailed);
  if (!exprs.status() || add(language) == kFailed) {
    // There must be a start state, so it is one that leads nowhere.
    states_.push_back(states_.front());
    steps_.resize(2 * class_count_, kFailed);
  }
}

// The state of a derivative, made when it is met for the first time. Equal expressions have equal
// numbers, which is why the automaton has an end. kFailed: a limit was reached.
Dfa::State Dfa::add(Expr language) {
  if (language < state_of_.size() && state_of_[language] != kUnknown) return state_of_[language];
  const std::size_t bytes = sizeof(StateInfo) + (class_count_ + 1) * sizeof(State);
  if (!exprs_->take_bytes(bytes)) return kFailed;
  const bool is_accepting = exprs_->is_nullable(language);
  // Most states show by their form that some text remains; is_live() searches for the others.
  const bool is_live = is_accepting || !exprs_->may_be_nothing(language);
  const Life life = is_live                         ? Life::live
                    : language == ExprSet::kNothing ? Life::dead
                                                    : Life::unknown;
  const State state = state_count();
  states_.push_back({language, is_accepting, life});
  steps_.resize(steps_.size() + class_count_, kUnknown);
  // A table by expression and no map, because it is asked at every new step.
  if (language >= state_of_.size()) state_of_.resize(language + 1 + language / 2, kUnknown);
  state_of_[language] = state;
  return state;
}

// A step that has not been made before. The result is kept for the whole class of the byte; after a
// failure nothing is kept.
Dfa::State Dfa::meet(State state, std::uint8_t byte) {
  const std::uint8_t byte_class = classes_[byte];
  const Expr next = exprs_->derivative(states_[state].language, byte_of_class_[byte_class]);
  if (!exprs_->status()) return kFailed;
  const State result = add(next);
  if (result != kFailed) steps_[state * class_count_ + byte_class] = result;
  return result;
}

// Whether the state is live, as far as that is known without a search.
bool Dfa::is_known_live(State state) {
  StateInfo& info = states_[state];
  if (info.life == Life::unknown && exprs_->has_text(info.language)) info.life = Life::live;
  return info.life == Life::live;
}

// A search along the shortest ways, as far as expressions tell how long they are (P. Hart,
// N. Nilsson, B. Raphael, A formal basis for the heuristic determination of minimum cost paths,
// 1968). Breadth first, a letter of any script would be followed to hundreds of states for each
// byte of a text: four times `head body` with `head[lazy]: ANY "<do>"` in Lark took 268 ms to
// compile and takes 6 ms (Llama-3, 2 busy cores, 2026-11-30).
Expected<bool> Dfa::is_live(State state) {
  if (is_known_live(state)) return true;
  if (states_[state].life == Life::dead) return false;
  if (follow_guide(state)) return true;
  struct Visit {
    State state;
    std::size_t from;        // index in visits
    std::size_t byte_class;  // the class that led here from there
    std::uint64_t bytes;     // so many led here
  };
  // The way need not be the shortest one, so what is left counts for more than what has been read
  // (I. Pohl, Heuristic search viewed as path finding in a graph, 1970): look-aheads that took 5 ms
  // to compile take 3.
  constexpr std::uint64_t kWeight = 2;
  std::vector<Visit> visits;
  using Open = std::pair<std::uint64_t, std::size_t>;  // all bytes to an end; index in visits
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open;
  const auto meet = [&](const Visit& visit) {
    states_[visit.state].search = searches_;
    const std::uint64_t left = exprs_->least_bytes(states_[visit.state].language);
    open.emplace(visit.bytes + kWeight * left, visits.size());
    visits.push_back(visit);
  };
  ++searches_;
  meet({state, 0, 0, 0});
  while (!open.empty()) {
    const std::size_t i = open.top().second;
    open.pop();
    for (std::size_t c = 0; c < class_count_; ++c) {
      const State next = step_class(visits[i].state, c);
      if (next == kFailed) return Unexpected(exprs_->status().error());
      if (is_known_live(next)) {
        set_live(visits[i].state, c);
        // Every state on the way back to the first is live too, and knows the byte that leads on.
        for (std::size_t at = i; at != 0; at = visits[at].from) {
          set_live(visits[visits[at].from].state, visits[at].byte_class);
        }
        guide_ = state;
        return true;
      }
      if (states_[next].life == Life::dead || states_[next].search == searches_) continue;
      meet({next, i, c, visits[i].bytes + 1});
    }
  }
  // The search has seen all that `state` leads to, and nothing of it accepts.
  for (const Visit& visit : visits) states_[visit.state].life = Life::dead;
  return false;
}

// States that are asked about in sequence are mostly live through the same bytes, so the bytes of
// the last one are tried first. regex_bench life/part: 81 ms without it, 3 ms with it (AMD EPYC, 2
// cores, 2026-11-21).
bool Dfa::follow_guide(State state) {
  constexpr std::size_t max_length = 256;
  std::vector<std::pair<State, std::size_t>> way;
  State guide = guide_;
  for (State at = state; way.size() < max_length && states_[at].life != Life::dead;) {
    if (is_known_live(at)) {
      for (const auto& [from, byte_class] : way) set_live(from, byte_class);
      guide_ = state;
      return true;
    }
    const std::uint16_t toward = states_[guide].toward;
    if (toward == kNoClass) return false;
    way.emplace_back(at, toward);
    at = step_class(at, toward);
    guide = step_class(guide, toward);
  }
  return false;
}

void Dfa::set_live(State state, std::size_t toward) {
  states_[state].life = Life::live;
  states_[state].toward = static_cast<std::uint16_t>(toward);
}

std::optional<Dfa::State> Dfa::step_common(State state) {
  // Made once for each automaton: for each range of bytes one byte of each class, as bytes of a
  // class lead to the same state.
  if (common_.sequences.empty()) {
    for (const std::span<const Utf8Range> ranges : common_characters()) {
      auto& sequence = common_.sequences.emplace_back();
      for (const auto& [first, last] : ranges) {
        auto& bytes = sequence.emplace_back();
        std::vector<bool> is_there(class_count_);
        for (unsigned byte = first; byte <= last; ++byte) {
          if (is_there[classes_[byte]]) continue;
          is_there[classes_[byte]] = true;
          bytes.push_back(static_cast<std::uint8_t>(byte));
        }
      }
    }
  }
  if (state >= common_.by_state.size()) common_.by_state.resize(states_.size(), kUnknown);
  if (common_.by_state[state] == kUnknown) common_.by_state[state] = meet_common(state);
  const State known = common_.by_state[state];
  return known == kSeveral ? std::nullopt : std::optional(known);
}

// Follows each sequence from set of states to set of states, a byte at a time. Only one state may
// be left at the ends of all of them.
Dfa::State Dfa::meet_common(State state) {
  State common = kUnknown;
  constexpr std::size_t kMostBetween = 64;  // states; if there are more, the ways do not join again
  std::vector<State> here;
  std::vector<State> next;
  for (const auto& sequence : common_.sequences) {
    here.assign(1, state);
    for (const std::vector<std::uint8_t>& bytes : sequence) {
      next.clear();
      for (const State from : here) {
        for (const std::uint8_t byte : bytes) {
          const State to = step(from, byte);
          if (to == kFailed) return kSeveral;
          if (std::ranges::find(next, to) == next.end()) next.push_back(to);
        }
        if (next.size() > kMostBetween) return kSeveral;
      }
      here.swap(next);
    }
    for (const State to : here) {
      if (common != kUnknown && common != to) return kSeveral;
      common = to;
    }
  }
  return common;
}

// Follows all characters at once. Where few of them may follow, the character that led there is
// left out; elsewhere those that lead to a dead state or to the end are. Then fewer states are
// reached, so the search begins again, until nothing more is left out.
class Dfa::FreeSearch {
 public:
  explicit FreeSearch(Dfa& dfa) : dfa_(dfa), ascii_(dfa.class_count_, 0) {
    for (unsigned byte = 0; byte < 0x80; ++byte) ++ascii_[dfa.classes_[byte]];
  }

  FreeText run(State state) {
    constexpr int kMostRounds = 12;
    for (int i = 0; i < kMostRounds; ++i) {
      bool has_changed = false;
      if (!follow(state, has_changed)) break;
      if (!has_changed) return result();
    }
    dfa_.free_steps_ += kStepsPerFailure;
    return {};
  }

 private:
  static constexpr std::size_t kMostStates = 16;
  static constexpr std::size_t kMostSteps = 4000;  // of all searches in one automaton
  // Where counts make many states, one search after the other finds nothing.
  static constexpr std::size_t kStepsPerFailure = 2000;

  struct Reached {
    State state;
    std::size_t through;  // a class, or their number for common characters
  };

  // False: there are too many states.
  bool follow(State state, bool& has_changed) {
    const std::size_t common = ascii_.size();
    reached_.assign(1, {state, common});
    for (std::size_t i = 0; i < reached_.size() && !has_changed; ++i) {
      dfa_.free_steps_ += common + 1;
      if (reached_.size() > kMostStates || dfa_.free_steps_ > kMostSteps) return false;
      const Reached from = reached_[i];
      ending_.clear();
      std::uint32_t followed = 0;
      std::uint32_t ended = 0;
      for (std::size_t c = 0; c < common; ++c) {
        if (ascii_[c] == 0) continue;
        followed += ascii_[c];
        if (enter(dfa_.step_class(from.state, c), c)) continue;
        ended += ascii_[c];
        ending_.push_back(c);
      }
      if (i > 0 && 2 * ended > followed) {
        has_changed = true;
        leave_out(from.through);
        continue;
      }
      if (has_common_) {
        const std::optional<State> next = dfa_.step_common(from.state);
        if (!next || !enter(*next, common)) ending_.push_back(common);
      }
      has_changed = !ending_.empty();
      for (const std::size_t c : ending_) leave_out(c);
    }
    return true;
  }
  void leave_out(std::size_t c) {
    if (c < ascii_.size()) {
      ascii_[c] = 0;
    } else {
      has_common_ = false;
    }
  }
  bool enter(State next, std::size_t through) {
    if (dfa_.language(next) == ExprSet::kEpsilon) return false;
    const Expected<bool> is_live = dfa_.is_live(next);
    if (!is_live || !*is_live) return false;
    if (std::ranges::find(reached_, next, &Reached::state) == reached_.end()) {
      reached_.push_back({next, through});
    }
    return true;
  }
  [[nodiscard]] FreeText result() const {
    FreeText free{.ascii = {}, .has_common = has_common_};
    for (unsigned byte = 0; byte < 0x80; ++byte) {
      if (ascii_[dfa_.classes_[byte]] > 0) free.ascii.insert(static_cast<std::uint8_t>(byte));
    }
    return free;
  }

  Dfa& dfa_;
  std::vector<std::uint32_t> ascii_;  // by class: its bytes of ASCII; 0: left out
  bool has_common_ = true;
  std::vector<Reached> reached_;
  std::vector<std::size_t> ending_;  // classes
};

Dfa::FreeText Dfa::free_text(State state) {
  if (const auto known = free_.find(state); known != free_.end()) return known->second;
  const FreeText found = FreeSearch(*this).run(state);
  free_.emplace(state, found);
  return found;
}

ByteSet Dfa::loops(State state) {
  std::vector<bool> does_loop(class_count_);
  for (std::size_t c = 0; c < class_count_; ++c) {
    does_loop[c] = state != kFailed && step_class(state, c) == state;
  }
  ByteSet result;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (does_loop[classes_[byte]]) result.insert(static_cast<std::uint8_t>(byte));
  }
  return result;
}

}  // namespace tenon::regex
