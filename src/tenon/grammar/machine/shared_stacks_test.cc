#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/grammar/machine/frames.h"
#include "tenon/grammar/machine/machine.h"

namespace tenon::grammar {
namespace {

constexpr std::string_view kLetters = "ab(+";

class Builder {
 public:
  explicit Builder(Machine& machine) : machine_(machine) {}

  FrameId text(std::string bytes) { return machine_.add(make_literal(std::move(bytes))); }
  FrameId all(std::vector<FrameId> items) { return machine_.add(make_sequence(std::move(items))); }
  FrameId any(std::vector<FrameId> items) { return machine_.add(make_choice(std::move(items))); }
  FrameId repeat(FrameId item, std::uint64_t min, std::uint64_t max) {
    return machine_.add(make_repeat(item, min, max));
  }

 private:
  Machine& machine_;
};

// Rules whose alternatives begin alike, contain themselves behind a letter, and may be empty.
FrameId random_rules(Machine& machine, std::uint32_t seed) {
  constexpr std::size_t kRules = 9;
  Builder b(machine);
  std::mt19937 random(seed);
  std::vector<FrameId> rules;
  for (std::size_t i = 0; i < kRules; ++i) rules.push_back(machine.reserve());
  const auto letter = [&] { return b.text(std::string(1, kLetters[random() % kLetters.size()])); };
  for (std::size_t i = 0; i < kRules; ++i) {
    const auto later = [&] {
      if (i + 1 == kRules) return letter();
      const FrameId rule = rules[i + 1 + random() % std::min<std::size_t>(3, kRules - i - 1)];
      return random() % 4 == 0 ? b.repeat(rule, 0, random() % 2 == 0 ? 1 : kNoMaximum) : rule;
    };
    std::vector<FrameId> ways;
    for (std::size_t way = 2 + random() % 3; way > 0; --way) {
      std::vector<FrameId> items;
      for (std::size_t n = random() % 3; n > 0; --n) items.push_back(later());
      items.push_back(letter());
      for (std::size_t n = random() % 3; n > 0; --n) items.push_back(rules[random() % kRules]);
      if (random() % 8 == 0) items.clear();
      ways.push_back(b.all(std::move(items)));
    }
    machine.set(rules[i], make_choice(std::move(ways)));
  }
  return rules[0];
}

TEST(SharedStacks, ReadWhatStacksReadApart) {
  int read = 0;
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    Machine shared;
    Machine apart({.max_cells_per_state = 300, .max_steps = 5'000});
    apart.keep_stacks_apart();
    StateId one = shared.start(random_rules(shared, seed));
    StateId other = apart.start(random_rules(apart, seed));
    std::mt19937 random(seed);
    for (int step = 0; step < 25 && one != 0 && !apart.error(); ++step) {
      ASSERT_FALSE(shared.error()) << shared.error()->message;
      ASSERT_EQ(shared.is_accepting(one), apart.is_accepting(other)) << "grammar " << seed;
      std::vector<std::uint8_t> next;
      for (const char letter : kLetters) {
        const auto byte = static_cast<std::uint8_t>(letter);
        const bool is_read = shared.step(one, byte) != 0;
        const bool is_wanted = apart.step(other, byte) != 0;
        if (apart.error()) break;
        ASSERT_EQ(is_read, is_wanted) << "grammar " << seed << ", step " << step << ", " << letter;
        if (is_wanted) next.push_back(byte);
      }
      if (next.empty() || apart.error()) break;
      ASSERT_LE(shared.cells_of(one).size(), apart.cells_of(other).size());
      const std::uint8_t byte = next[random() % next.size()];
      one = shared.step(one, byte);
      other = apart.step(other, byte);
      ++read;
    }
  }
  EXPECT_GT(read, 100) << "most grammars are refused, and nothing is compared";
}

// sum ::= term ("+" term)* | term ("-" term)*, term ::= "1" | "(" sum ")": each bracket doubles the
// ways to read the text.
TEST(SharedStacks, AreAsManyAsPlacesInTheRules) {
  Machine machine;
  Builder b(machine);
  const FrameId sum = machine.reserve();
  const FrameId term = b.any({b.text("1"), b.all({b.text("("), sum, b.text(")")})});
  const auto list = [&](const char* sign) {
    return b.all({term, b.repeat(b.all({b.text(sign), term}), 0, kNoMaximum)});
  };
  machine.set(sum, make_choice({list("+"), list("-")}));
  const std::string depth(500, '(');
  StateId state = machine.start(sum);
  for (const char byte : depth + "1" + std::string(500, ')')) {
    state = machine.step(state, static_cast<std::uint8_t>(byte));
    ASSERT_LE(machine.cells_of(state).size(), 8U);
  }
  EXPECT_TRUE(machine.is_accepting(state));
  EXPECT_EQ(machine.step(state, ')'), 0U);
  EXPECT_LT(machine.work(), 100'000U);
}

// level ::= next "x" | next "y": each level doubles the ways to begin.
TEST(SharedStacks, ARuleIsEnteredOnceForAllPlaces) {
  Machine machine;
  Builder b(machine);
  FrameId level = b.any({b.text("1"), b.text("")});
  for (int i = 0; i < 60; ++i) {
    level = b.any({b.all({level, b.text("x")}), b.all({level, b.text("y")})});
  }
  StateId state = machine.start(level);
  ASSERT_FALSE(machine.error()) << machine.error()->message;
  for (int i = 0; i < 60; ++i) state = machine.step(state, i % 2 == 0 ? 'x' : 'y');
  EXPECT_TRUE(machine.is_accepting(state));
  EXPECT_LT(machine.work(), 50'000U);
}

TEST(SharedStacks, ARuleThatBeginsWithItselfIsRefused) {
  Machine machine;
  Builder b(machine);
  std::vector<FrameId> ways;
  const FrameId rule = machine.reserve();
  for (int i = 0; i < 40; ++i) ways.push_back(b.all({rule, b.text(std::to_string(i))}));
  ways.push_back(b.text("1"));
  machine.set(rule, make_choice(std::move(ways)));
  EXPECT_EQ(machine.start(rule), 0U);
  ASSERT_TRUE(machine.error());
  EXPECT_NE(machine.error()->message.find("begins with itself"), std::string::npos);
  EXPECT_LT(machine.work(), 5'000U);
}

}  // namespace
}  // namespace tenon::grammar
