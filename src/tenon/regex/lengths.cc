#include "tenon/regex/lengths.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

namespace tenon::regex {

namespace {

constexpr std::size_t kMaxVisits = 20'000;  // of a search for the shortest text
constexpr std::size_t kMaxEntered = 500;    // states of a search for a loop
constexpr std::size_t kMaxStates = 4'000;
constexpr std::size_t kMaxWork = 20'000'000;  // steps and set operations of explore()

bool is_continuation(std::uint8_t byte) {
  return (byte & 0xC0U) == 0x80U;
}

Error too_large(const char* what) {
  return {Errc::limit_exceeded,
          std::string("regular expression: ") + what + " to be counted in characters"};
}

}  // namespace

Expected<bool> Lengths::is_live(Dfa::State state, std::uint64_t least, std::uint64_t most) {
  if (least > most) return false;
  const Expected<bool> live = dfa_->is_live(state);
  if (!live || !*live) return live;
  if (most == kUnbounded && (least == 0 || is_endless(state))) return true;
  const Expected<std::uint32_t> first = shortest(state);
  if (!first) return Unexpected(first.error());
  // The shortest text decides most questions: the rest of the function is for minima above it.
  if (*first >= least) return *first <= most;
  if (const auto loop = is_explored_ ? std::nullopt : loop_of(state)) {
    const Expected<std::uint32_t> end = shortest(loop->at);
    if (!end) return Unexpected(end.error());
    const std::uint64_t once = std::uint64_t{loop->before} + *end;
    const std::uint64_t missing = least > once ? least - once : 0;
    const std::uint64_t rounds = missing / loop->period + (missing % loop->period == 0 ? 0 : 1);
    if (once <= most && rounds <= (most - once) / loop->period) return true;
  }
  if (const Status explored = explore(); !explored) return Unexpected(explored.error());
  // From the first repeated row on, every row occurs again within as many rows as were kept.
  const std::uint64_t last = std::min(most, std::max(least, repeats_) + rows_.size());
  for (std::uint64_t length = least; length <= last; ++length) {
    if (has(state, length)) return true;
  }
  return false;
}

// A breadth-first search in which continuation bytes cost nothing. The result is also known for all
// states on the way.
Expected<std::uint32_t> Lengths::shortest(Dfa::State state) {
  if (state < shortest_.size() && shortest_[state] != kUnknown) return shortest_[state];
  struct Visit {
    Dfa::State state;
    std::uint32_t length;
    std::size_t from;  // in visits
  };
  std::vector<Visit> visits;
  std::unordered_map<Dfa::State, std::uint32_t> best{{state, 0}};
  // Costs are 0 and 1, so a queue with two ends stands for a priority queue: steps that cost
  // nothing go to the front.
  std::deque<Visit> queue{{state, 0, 0}};
  while (!queue.empty() && visits.size() < kMaxVisits) {
    const Visit visit = queue.front();
    queue.pop_front();
    // A shorter way to this state was found after it was queued.
    if (best.at(visit.state) < visit.length) continue;
    const std::size_t at = visits.size();
    visits.push_back(visit);
    if (dfa_->is_accepting(visit.state)) {
      shortest_.resize(std::max<std::size_t>(shortest_.size(), dfa_->state_count()), kUnknown);
      // The way back to the first state is a shortest one for each state on it.
      for (std::size_t i = at;; i = visits[i].from) {
        shortest_[visits[i].state] = visit.length - visits[i].length;
        if (i == 0) return visit.length;
      }
    }
    for (std::size_t c = 0; c < dfa_->class_count(); ++c) {
      const std::uint8_t byte = dfa_->byte_of_class(c);
      const Dfa::State next = dfa_->step(visit.state, byte);
      if (next == Dfa::kFailed) return Unexpected(too_large("an automaton is too large"));
      const std::uint32_t length = visit.length + (is_continuation(byte) ? 0 : 1);
      const auto [known, is_new] = best.try_emplace(next, length);
      if (!is_new && known->second <= length) continue;
      known->second = length;
      if (length == visit.length) {
        queue.push_front({next, length, at});
      } else {
        queue.push_back({next, length, at});
      }
    }
  }
  return Unexpected(too_large("the shortest text is too long"));
}

// A depth-first search through live states for one that is on its own way. Neither the whole
// automaton nor its shortest text is needed for that: three patterns in an allOf with minLength 100
// took 21 ms to compile and take 7 ms (CPU time, 2 busy cores, 2026-11-30).
std::optional<Lengths::Loop> Lengths::loop_of(Dfa::State state) {
  const auto known = [&](Dfa::State of) { return of < loops_.size() ? loops_[of] : Loop{}; };
  if (known(state).period > 0) return known(state);
  struct Entered {
    Dfa::State state;
    std::uint32_t characters;  // that led here
    std::size_t next;          // class to follow
  };
  std::vector<Entered> way;
  std::unordered_map<Dfa::State, std::size_t> places;  // in `way`
  const auto enter = [&](Dfa::State at, std::uint32_t characters) {
    places.emplace(at, way.size());
    way.push_back({at, characters, 0});
  };
  if (known(state).at != state) enter(state, 0);
  for (std::size_t entered = 0; !way.empty() && entered < kMaxEntered;) {
    Entered& from = way.back();
    if (from.next == dfa_->class_count()) {
      keep(from.state, {.at = from.state});  // all that it leads to has no loop
      places.erase(from.state);
      way.pop_back();
      continue;
    }
    const std::uint8_t byte = dfa_->byte_of_class(from.next++);
    const Dfa::State next = dfa_->step(from.state, byte);
    const Expected<bool> live = dfa_->is_live(next);
    if (!live) return std::nullopt;
    Loop loop = known(next);
    if (!*live || (loop.at == next && loop.period == 0)) continue;
    const std::uint32_t characters = from.characters + (is_continuation(byte) ? 0 : 1);
    if (const auto place = places.find(next); place != places.end()) {
      loop = {.at = next, .before = 0, .period = characters - way[place->second].characters};
    }
    if (loop.period == 0) {
      enter(next, characters);
      ++entered;
      continue;
    }
    for (const Entered& one : way) {
      keep(one.state, {loop.at, loop.before + characters - one.characters, loop.period});
    }
    return known(state);
  }
  return std::nullopt;
}

void Lengths::keep(Dfa::State state, const Loop& loop) {
  if (state >= loops_.size()) loops_.resize(std::max<std::size_t>(state + 1, dfa_->state_count()));
  loops_[state] = loop;
}

// Rows beyond the last repeat those from repeats_ on.
bool Lengths::has(Dfa::State state, std::uint64_t length) const {
  if (length >= rows_.size()) {
    length = repeats_ + (length - repeats_) % (rows_.size() - repeats_);
  }
  return (rows_[length][state / 64] >> state % 64 & 1U) != 0;
}

// Finds every state that the start leads to, then the rows, going backwards from the accepting
// states.
Status Lengths::explore() {
  if (is_explored_) return {};
  std::vector<std::pair<Dfa::State, Dfa::State>> within;  // to, from: by continuation bytes
  std::vector<std::pair<Dfa::State, Dfa::State>> across;  // by others
  for (Dfa::State state = Dfa::kStart; state < dfa_->state_count(); ++state) {
    if (state > kMaxStates) return Unexpected(too_large("an automaton is too large"));
    const Expected<bool> live = dfa_->is_live(state);
    if (!live) return Unexpected(live.error());
    if (!*live) continue;
    for (std::size_t c = 0; c < dfa_->class_count(); ++c) {
      const std::uint8_t byte = dfa_->byte_of_class(c);
      const Dfa::State next = dfa_->step(state, byte);
      if (next == Dfa::kFailed) return Unexpected(too_large("an automaton is too large"));
      (is_continuation(byte) ? within : across).emplace_back(next, state);
    }
  }
  for (auto* edges : {&within, &across}) {
    std::ranges::sort(*edges);
    edges->erase(std::unique(edges->begin(), edges->end()), edges->end());
  }
  words_ = (dfa_->state_count() + 63) / 64;
  const auto has_bit = [](const Sets& set, Dfa::State state) {
    return (set[state / 64] >> state % 64 & 1U) != 0;
  };
  const auto set_bit = [](Sets& set, Dfa::State state) {
    set[state / 64] |= std::uint64_t{1} << state % 64;
  };
  // A character has at most three continuation bytes.
  const auto close = [&](Sets& set) {
    for (int i = 0; i < 3; ++i) {
      for (const auto& [to, from] : within) {
        if (has_bit(set, to)) set_bit(set, from);
      }
    }
  };
  Sets row(words_);
  for (Dfa::State state = Dfa::kStart; state < dfa_->state_count(); ++state) {
    if (dfa_->is_accepting(state)) set_bit(row, state);
  }
  close(row);
  // A row follows from the one before it alone, so the rows repeat once one of them comes again.
  std::map<Sets, std::uint64_t> seen;
  for (std::size_t work = 0;; work += across.size() + 3 * within.size() + words_) {
    const auto [known, is_new] = seen.emplace(row, rows_.size());
    if (!is_new) {
      repeats_ = known->second;
      break;
    }
    if (work > kMaxWork) {
      rows_.clear();
      return Unexpected(too_large("lengths take too long"));
    }
    rows_.push_back(row);
    Sets before(words_);
    for (const auto& [to, from] : across) {
      if (has_bit(row, to)) set_bit(before, from);
    }
    close(before);
    row = std::move(before);
  }
  is_explored_ = true;
  return {};
}

}  // namespace tenon::regex
