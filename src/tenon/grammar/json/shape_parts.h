#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/grammar/json/shape.h"
#include "tenon/regex/dfa.h"
#include "tenon/regex/expr.h"
#include "tenon/regex/lengths.h"

/// The parts that the sources of Shapes share: shape.cc, and one for each type of value.
namespace tenon::grammar {

/// The intersection of two ranges; nothing if it is empty.
inline std::optional<schema::Counts> both(const schema::Counts& a, const schema::Counts& b) {
  const schema::Counts result{std::max(a.least, b.least), std::min(a.most, b.most)};
  return result.least <= result.most ? std::optional(result) : std::nullopt;
}

/// The counts outside of `counts`.
inline std::vector<schema::Counts> outside(const schema::Counts& counts) {
  std::vector<schema::Counts> result;
  if (counts.least > 0) result.push_back({.least = 0, .most = counts.least - 1});
  if (counts.most != schema::Counts::kUnbounded) result.push_back({.least = counts.most + 1});
  return result;
}

/// Makes `into` the union, in order and without duplicates.
template <class T>
void merge_sorted(std::vector<T>& into, std::vector<T> from) {
  if (from.empty()) return;
  for (std::vector<T>* list : {&into, &from}) {
    if (!std::ranges::is_sorted(*list)) std::ranges::sort(*list);
  }
  std::vector<T> both;
  both.reserve(into.size() + from.size());
  std::ranges::set_union(into, from, std::back_inserter(both));
  both.erase(std::unique(both.begin(), both.end()), both.end());
  into = std::move(both);
}

/// One question about a term that is asked while another one is being answered. Schemas may refer
/// to each other in chains of any length, but the stack is limited, so more than kMost nested
/// questions are an error.
class Shapes::Level {
 public:
  // A level takes up to 4 KB of stack, 10 KB with sanitizers.
  static constexpr std::size_t kMost = 600;

  explicit Level(Shapes& shapes) : shapes_(shapes) {
    if (++shapes_.depth_ > kMost) {
      shapes_.fail({Errc::limit_exceeded, "schema: more than " + std::to_string(kMost) +
                                              " schemas that refer to each other in a row"});
    }
  }
  ~Level() { --shapes_.depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
  explicit operator bool() const { return shapes_.depth_ <= kMost; }

 private:
  Shapes& shapes_;
};

struct Shapes::Automaton {
  Automaton(regex::ExprSet& exprs, regex::Expr language) : dfa(exprs, language), lengths(dfa) {}

  regex::Dfa::State after(std::string_view text) {
    regex::Dfa::State state = regex::Dfa::kStart;
    for (const char c : text) state = dfa.step(state, static_cast<std::uint8_t>(c));
    return state;
  }

  regex::Dfa dfa;
  regex::Lengths lengths;
};

// The limits of one question, and what it has found so far.
struct Shapes::Sampling {
  struct Known {
    std::size_t most = 0;  // how many values were asked for
    Samples samples;
  };
  std::size_t fuel = 0;
  std::map<std::pair<Term, int>, Known> known;  // by depth

  bool burn() {
    if (fuel > 0) --fuel;
    return fuel > 0;
  }
};

}  // namespace tenon::grammar
