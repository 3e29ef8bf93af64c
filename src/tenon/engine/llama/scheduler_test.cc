#include "tenon/engine/llama/scheduler.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/engine/grammar_for_test.h"
#include "tenon/engine/recording_sink.h"
#include "tenon/vocab/byte_tokenizer.h"

namespace tenon::engine {
namespace {

using message::FinishReason;
using namespace std::chrono_literals;
using Tokens = std::vector<TokenId>;

constexpr TokenId kEos = 256;

const vocab::ByteTokenizer& tokenizer() {
  static const vocab::ByteTokenizer bytes({"<eos>"}, {.eos = "<eos>"});
  return bytes;
}

/// What follows `tokens`: a change of any token changes it. Never eos.
TokenId next_after(const Tokens& tokens) {
  std::uint64_t hash = 1469598103934665603ULL;
  for (const TokenId id : tokens) {
    hash = (hash ^ static_cast<std::uint64_t>(id)) * 1099511628211ULL;
  }
  return static_cast<TokenId>((hash >> 32) % 200);
}

/// A model made of arithmetic, which knows exactly what must be in its cache.
class FakeDecoder final : public Decoder {
 public:
  using Step = std::vector<Item>;

  struct Options {
    std::uint32_t sequences = 4;
    std::uint32_t cache_tokens = 4096;
    std::uint32_t batch_tokens = 64;
    bool forgets_parts = true;
    std::uint32_t room = 4096;  // for a sequence, before the cache is made anew
    /// Called before a batch is taken; anything but `done` is its result.
    std::function<Result(const Step&, const std::function<bool()>&)> before;
    std::function<void(const Tokens&, std::vector<float>&)> spoil_logits;
    std::function<void()> before_truncate;
    std::function<void(std::int32_t sequence, std::int32_t from)> on_truncate;
  };

  explicit FakeDecoder(Options options)
      : options_(std::move(options)), cache_(options_.sequences) {}

  Result decode(std::span<const Item> batch, const std::function<bool()>& must_stop) override {
    EXPECT_LE(batch.size(), options_.batch_tokens);
    EXPECT_FALSE(batch.empty());
    const Step step(batch.begin(), batch.end());
    if (options_.before) {
      const Result result = options_.before(step, must_stop);
      if (result == Result::reset || result == Result::emptied) cache_.assign(cache_.size(), {});
      // As with libllama, part of the batch may be in the cache.
      if (result == Result::interrupted || result == Result::failed) take(step, step.size() / 2);
      if (result != Result::done) return result;
    }
    std::size_t used = 0;
    for (const Tokens& tokens : cache_) used += tokens.size();
    if (used + batch.size() > options_.cache_tokens) return Result::no_room;
    take(step, step.size());
    return Result::done;
  }

  std::span<float> logits(std::size_t index) override {
    EXPECT_TRUE(rows_[index].second) << "logits that were not asked for";
    row_.assign(tokenizer().size(), 0.0F);
    row_[static_cast<std::size_t>(next_after(rows_[index].first))] = 10.0F;
    if (options_.spoil_logits) options_.spoil_logits(rows_[index].first, row_);
    return row_;
  }

  bool reserve(std::uint32_t tokens) override {
    if (tokens <= options_.room) return true;
    options_.room = tokens;
    cache_.assign(cache_.size(), {});
    return false;
  }

  bool truncate(std::int32_t sequence, std::int32_t from) override {
    if (options_.before_truncate) options_.before_truncate();
    if (options_.on_truncate) options_.on_truncate(sequence, from);
    Tokens& tokens = cache_[static_cast<std::size_t>(sequence)];
    if (tokens.size() <= static_cast<std::size_t>(from)) return true;
    tokens.resize(options_.forgets_parts ? static_cast<std::size_t>(from) : 0);
    return options_.forgets_parts || from == 0;
  }

  bool copy(std::int32_t from, std::int32_t to, std::int32_t tokens) override {
    EXPECT_NE(from, to);
    const Tokens& source = cache_[static_cast<std::size_t>(from)];
    EXPECT_GE(source.size(), static_cast<std::size_t>(tokens));
    cache_[static_cast<std::size_t>(to)] = source;
    return truncate(to, tokens);
  }

  std::uint32_t sequences() const override { return options_.sequences; }
  std::uint32_t cache_tokens() const override { return options_.cache_tokens; }
  std::uint32_t batch_tokens() const override { return options_.batch_tokens; }
  std::uint32_t batch_rows() const override { return options_.sequences + 4; }

 private:
  void take(const Step& step, std::size_t count) {
    rows_.clear();
    for (std::size_t i = 0; i < count; ++i) {
      Tokens& tokens = cache_[static_cast<std::size_t>(step[i].sequence)];
      ASSERT_EQ(static_cast<std::size_t>(step[i].position), tokens.size());
      tokens.push_back(step[i].token);
      rows_.emplace_back(tokens, step[i].wants_logits);
    }
  }

  Options options_;
  std::vector<Tokens> cache_;
  std::vector<std::pair<Tokens, bool>> rows_;
  std::vector<float> row_;
};

std::size_t sequences_of(const FakeDecoder::Step& step) {
  std::set<std::int32_t> sequences;
  for (const auto& item : step) sequences.insert(item.sequence);
  return sequences.size();
}

GenerateRequest greedy(Tokens prompt, std::uint32_t max_tokens) {
  GenerateRequest request{.prompt = std::move(prompt), .max_tokens = max_tokens};
  request.sampling.temperature = 0.0;
  return request;
}

Tokens expected_answer(Tokens prompt, std::size_t count) {
  Tokens answer;
  for (std::size_t i = 0; i < count; ++i) {
    answer.push_back(next_after(prompt));
    prompt.push_back(answer.back());
  }
  return answer;
}

Tokens random_tokens(std::size_t count, std::uint32_t seed) {
  Tokens tokens;
  for (std::size_t i = 0; i < count; ++i) {
    seed = seed * 1664525U + 1013904223U;
    tokens.push_back(static_cast<TokenId>((seed >> 16) % 200));
  }
  return tokens;
}

struct Started {
  std::shared_ptr<RecordingSink> sink;
  std::unique_ptr<engine::Run> run;
};

Started start(Scheduler& scheduler, GenerateRequest request,
              std::function<void(std::size_t)> on_each = {}) {
  Started started{std::make_shared<RecordingSink>(std::move(on_each)), nullptr};
  auto run = scheduler.start(std::move(request), started.sink);
  EXPECT_TRUE(run) << run.error().message;
  if (run) started.run = *std::move(run);
  return started;
}

RunEnd end_of(const Started& started) {
  EXPECT_TRUE(started.sink->wait_end());
  EXPECT_EQ(started.sink->calls_after_end(), 0U);
  return started.sink->end().value_or(RunEnd{});
}

std::unique_ptr<Scheduler> make(FakeDecoder::Options decoder, Scheduler::Options options) {
  return std::make_unique<Scheduler>(options, std::make_unique<FakeDecoder>(std::move(decoder)),
                                     tokenizer());
}

const Scheduler::Options kDefaults{.context_tokens = 1024, .max_concurrent = 4, .queue_limit = 100};

struct Load {
  std::string_view name;
  FakeDecoder::Options decoder;
  Scheduler::Options options;
  bool preempts;
};

const Load kLoads[] = {
    {"Roomy", {}, {.context_tokens = 128, .max_concurrent = 4, .queue_limit = 100}, false},
    {"OneAtATime", {}, {.context_tokens = 128, .max_concurrent = 1, .queue_limit = 100}, false},
    {"SmallBatches",
     {.batch_tokens = 5},
     {.context_tokens = 128, .max_concurrent = 4, .queue_limit = 100},
     false},
    {"CacheForTwo",
     {.cache_tokens = 200},
     {.context_tokens = 128, .max_concurrent = 4, .queue_limit = 100, .prefix_cache = false},
     true},
    {"CacheForOne",
     {.cache_tokens = 128},
     {.context_tokens = 128, .max_concurrent = 4, .queue_limit = 100},
     true},
    {"GrowsWithItsPrompts",
     {.room = 4},
     {.context_tokens = 128, .max_concurrent = 4, .queue_limit = 100},
     false},
    {"CannotForgetParts",
     {.cache_tokens = 200, .forgets_parts = false},
     {.context_tokens = 128, .max_concurrent = 4, .queue_limit = 100},
     true},
};

class Loads : public ::testing::TestWithParam<Load> {};

// The answer is the one that the model gives alone, regardless of batches, room and other runs.
TEST_P(Loads, GiveEveryRunItsOwnAnswer) {
  auto scheduler = make(GetParam().decoder, GetParam().options);
  constexpr std::uint32_t kRuns = 60;
  std::vector<Started> started;
  std::vector<Tokens> expected;
  for (std::uint32_t i = 0; i < kRuns; ++i) {
    // Every third prompt begins like the one before, so that prefixes are found.
    Tokens prompt = random_tokens(1 + (i * 37) % 60, i % 3 == 1 ? i - 1 : i);
    const std::uint32_t count = 1 + (i * 13) % 60;
    expected.push_back(expected_answer(prompt, count));
    started.push_back(start(*scheduler, greedy(std::move(prompt), count)));
  }
  for (std::uint32_t i = 0; i < kRuns; ++i) {
    SCOPED_TRACE(i);
    const RunEnd end = end_of(started[i]);
    EXPECT_EQ(started[i].sink->ids(), expected[i]);
    EXPECT_EQ(end.reason, FinishReason::length);
    EXPECT_EQ(end.usage.completion_tokens, expected[i].size());
  }
  EXPECT_EQ(scheduler->stats().preemptions > 0, GetParam().preempts);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Loads, ::testing::ValuesIn(kLoads),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Scheduler, EndsAtEosAndAtAFullContext) {
  auto scheduler = make({.spoil_logits =
                             [](const Tokens& tokens, std::vector<float>& row) {
                               if (tokens[0] == 7 && tokens.size() == 6) row[kEos] = 20.0F;
                             }},
                        {.context_tokens = 12, .max_concurrent = 4, .queue_limit = 9});
  const Started ends = start(*scheduler, greedy({7, 1, 1}, 0));
  RunEnd end = end_of(ends);
  EXPECT_EQ(end.reason, FinishReason::stop);
  EXPECT_EQ(end.usage.prompt_tokens, 3U);
  EXPECT_EQ(end.usage.completion_tokens, 4U);
  EXPECT_EQ(ends.sink->ids().back(), kEos);
  EXPECT_EQ(ends.sink->text().size(), 3U) << "the end token has no bytes";

  const Started fills = start(*scheduler, greedy({8, 1, 1}, 0));
  end = end_of(fills);
  EXPECT_EQ(end.reason, FinishReason::length);
  EXPECT_EQ(end.usage.completion_tokens, 9U);
}

TEST(Scheduler, EndsAtWhatTheRequestNames) {
  constexpr TokenId kStop = 5;
  auto scheduler = make({.spoil_logits =
                             [](const Tokens& tokens, std::vector<float>& row) {
                               if (tokens.size() == 6) row[kStop] = 20.0F;
                             }},
                        {.context_tokens = 12, .max_concurrent = 4, .queue_limit = 9});
  for (const bool is_end : {true, false}) {
    GenerateRequest request = greedy({7, 1, 1}, 0);
    if (is_end) request.ends = {4, kStop};
    const Started run = start(*scheduler, std::move(request));
    const RunEnd end = end_of(run);
    EXPECT_EQ(end.reason, is_end ? FinishReason::stop : FinishReason::length);
    EXPECT_EQ(end.usage.completion_tokens, is_end ? 4U : 9U);
    EXPECT_EQ(run.sink->text().size(), is_end ? 3U : 9U) << "an end has no bytes";
  }
}

TEST(Scheduler, FindsPrefixesInTheCache) {
  auto scheduler = make({}, kDefaults);
  const Tokens prompt = random_tokens(50, 1);
  EXPECT_EQ(end_of(start(*scheduler, greedy(prompt, 5))).usage.cached_tokens, 0U);
  // The same prompt again: all tokens are found except the last, whose logits are needed.
  EXPECT_EQ(end_of(start(*scheduler, greedy(prompt, 5))).usage.cached_tokens, 49U);
  // The next turn of the conversation finds the answer, too, except its last token, which was never
  // computed.
  Tokens next = prompt;
  for (const TokenId id : expected_answer(prompt, 5)) next.push_back(id);
  next.push_back(3);
  const Started turn = start(*scheduler, greedy(next, 5));
  EXPECT_EQ(end_of(turn).usage.cached_tokens, 54U);
  EXPECT_EQ(turn.sink->ids(), expected_answer(next, 5));
  EXPECT_EQ(end_of(start(*scheduler, greedy(random_tokens(50, 2), 5))).usage.cached_tokens, 0U);
  EXPECT_EQ(scheduler->stats().cached_tokens, 103U);
}

Tokens joined(Tokens tokens, const Tokens& more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

// For example a list of tools, then different conversations: one after another, and at once.
TEST(Scheduler, ConversationsShareWhatTheyBeginWith) {
  const Tokens tools = random_tokens(300, 1);
  for (const bool forgets_parts : {true, false}) {
    auto scheduler = make({.forgets_parts = forgets_parts}, kDefaults);
    // The first run is still going on when the others come.
    std::vector<Started> others;
    const Tokens first = joined(tools, random_tokens(20, 100));
    const Started running = start(*scheduler, greedy(first, 200), [&](std::size_t count) {
      if (count != 20) return;
      for (std::uint32_t i = 0; i < 3; ++i) {
        others.push_back(start(*scheduler, greedy(joined(tools, random_tokens(20, i)), 5)));
      }
    });
    EXPECT_EQ(end_of(running).usage.cached_tokens, 0U);
    EXPECT_EQ(running.sink->ids(), expected_answer(first, 200));
    for (std::uint32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(end_of(others[i]).usage.cached_tokens, forgets_parts ? 300U : 0U);
      EXPECT_EQ(others[i].sink->ids(), expected_answer(joined(tools, random_tokens(20, i)), 5));
    }
  }
}

// A run does not compute what another run is computing at this time.
TEST(Scheduler, ABurstComputesASharedBeginningOnce) {
  std::atomic<bool> is_open = false;
  auto scheduler = make({.before =
                             [&](const auto&, const auto&) {
                               while (!is_open) std::this_thread::sleep_for(1ms);
                               return Decoder::Result::done;
                             }},
                        kDefaults);
  const Tokens tools = random_tokens(500, 1);
  std::vector<Started> started;
  for (std::uint32_t i = 0; i < 8; ++i) {
    started.push_back(start(*scheduler, greedy(joined(tools, random_tokens(10, i)), 5)));
  }
  // A run with nothing to share does not wait for them.
  const Started alone = start(*scheduler, greedy(random_tokens(30, 77), 5));
  is_open = true;
  for (std::uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(end_of(started[i]).usage.cached_tokens, i == 0 ? 0U : 500U) << i;
    EXPECT_EQ(started[i].sink->ids(), expected_answer(joined(tools, random_tokens(10, i)), 5));
  }
  EXPECT_EQ(end_of(alone).usage.cached_tokens, 0U);
  EXPECT_EQ(scheduler->stats().prompt_tokens, 500U + 8 * 10U + 30U);
}

// This model cannot copy a part of another run's tokens, so waiting for them would be in vain.
TEST(Scheduler, NobodyWaitsForWhatCannotBeCopied) {
  std::atomic<bool> is_open = true;
  std::atomic<bool> is_constrained = false;
  std::atomic<std::size_t> most_prompts = 0;  // in one step
  auto scheduler = make({.forgets_parts = false,
                         .before =
                             [&](const FakeDecoder::Step& step, const auto&) {
                               is_constrained = !is_open;
                               while (!is_open) std::this_thread::sleep_for(1ms);
                               const bool are_prompts = step.size() >= 2 * sequences_of(step);
                               if (are_prompts && sequences_of(step) > most_prompts) {
                                 most_prompts = sequences_of(step);
                               }
                               return Decoder::Result::done;
                             }},
                        kDefaults);
  const Tokens tools = random_tokens(500, 1);
  for (std::uint32_t i = 0; i < 2; ++i) {  // only known once a part was asked for
    EXPECT_EQ(end_of(start(*scheduler, greedy(joined(tools, {1}), 5))).usage.cached_tokens, 0U);
  }
  // The four come during a step of another run, so they begin together.
  is_open = false;
  const Started other = start(*scheduler, greedy({7}, 1));
  while (!is_constrained) std::this_thread::sleep_for(1ms);
  std::vector<Started> started;
  for (std::uint32_t i = 0; i < 4; ++i) {
    started.push_back(start(*scheduler, greedy(joined(tools, random_tokens(10, i)), 5)));
  }
  is_open = true;
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(end_of(started[i]).usage.cached_tokens, 0U);
    EXPECT_EQ(started[i].sink->ids(), expected_answer(joined(tools, random_tokens(10, i)), 5));
  }
  EXPECT_EQ(most_prompts, 4U);
  // A prompt that continues a whole sequence does find it.
  Tokens next = joined(tools, random_tokens(10, 3));
  next = joined(joined(next, expected_answer(next, 5)), {1, 2, 3});
  const Started turn = start(*scheduler, greedy(next, 5));
  EXPECT_EQ(end_of(turn).usage.cached_tokens, 514U);
  EXPECT_EQ(turn.sink->ids(), expected_answer(next, 5));
}

// There are more conversations than places, each with several turns. What they share is never lost,
// and those that were used last find all of their tokens.
TEST(Scheduler, MoreConversationsThanPlacesKeepWhatTheyShare) {
  auto scheduler = make({}, kDefaults);  // four places
  const Tokens tools = random_tokens(200, 1);
  std::vector<Tokens> conversations;
  for (std::uint32_t i = 0; i < 6; ++i) {
    conversations.push_back(joined(tools, random_tokens(60, 10 + i)));
  }
  const auto turn = [&](std::size_t i) {
    Tokens& conversation = conversations[i];
    const Started started = start(*scheduler, greedy(conversation, 5));
    const std::uint32_t cached = end_of(started).usage.cached_tokens;
    conversation = joined(joined(conversation, expected_answer(conversation, 5)), {1, 2, 3});
    return cached;
  };
  EXPECT_EQ(turn(0), 0U);
  for (std::size_t i = 1; i < 6; ++i) EXPECT_EQ(turn(i), 200U) << i;
  for (std::size_t i = 2; i < 6; ++i) EXPECT_EQ(turn(i), 264U) << i;  // the four used last
  EXPECT_EQ(turn(0), 200U);
}

TEST(Scheduler, LeavesTheCacheAloneIfAsked) {
  Scheduler::Options options = kDefaults;
  options.prefix_cache = false;
  auto scheduler = make({}, options);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(end_of(start(*scheduler, greedy(random_tokens(50, 1), 5))).usage.cached_tokens, 0U);
  }
}

// While a long prompt is computed, each run that generates gets a token in every step.
TEST(Scheduler, ALongPromptHoldsNobodyUp) {
  std::mutex mutex;
  std::vector<std::pair<bool, bool>> steps;  // (has the generator's token, has a prompt)
  auto scheduler = make({.batch_tokens = 64,
                         .before =
                             [&](const FakeDecoder::Step& step, const auto&) {
                               const std::lock_guard lock(mutex);
                               std::map<std::int32_t, int> count;
                               for (const auto& item : step) ++count[item.sequence];
                               bool generates = false;
                               bool has_prompt = false;
                               for (const auto& [sequence, tokens] : count) {
                                 (tokens == 1 ? generates : has_prompt) = true;
                               }
                               steps.emplace_back(generates, has_prompt);
                               return Decoder::Result::done;
                             }},
                        kDefaults);
  Started prompt;
  const Started generator = start(*scheduler, greedy({1, 2, 3}, 200), [&](std::size_t count) {
    if (count == 10) prompt = start(*scheduler, greedy(random_tokens(1000, 1), 1));
  });
  end_of(generator);
  end_of(prompt);
  EXPECT_EQ(prompt.sink->ids(), expected_answer(random_tokens(1000, 1), 1));
  const auto with_prompt =
      std::count_if(steps.begin() + 1, steps.end(), [](const auto& step) { return step.second; });
  EXPECT_GE(with_prompt, 1000 / 64);
  for (std::size_t i = 1; i < 200; ++i) EXPECT_TRUE(steps[i].first) << i;
}

struct Poison {
  std::string_view name;
  Decoder::Result result;
};

const Poison kPoisons[] = {{"Failed", Decoder::Result::failed}, {"Reset", Decoder::Result::reset}};

class Poisons : public ::testing::TestWithParam<Poison> {};

TEST_P(Poisons, CostOnlyTheRunWhoseFaultItIs) {
  constexpr TokenId kPoison = 201;
  auto scheduler = make({.before =
                             [](const FakeDecoder::Step& step, const auto&) {
                               const bool is_bad = std::any_of(
                                   step.begin(), step.end(),
                                   [](const auto& item) { return item.token == kPoison; });
                               return is_bad ? GetParam().result : Decoder::Result::done;
                             }},
                        kDefaults);
  std::vector<Started> good;
  for (std::uint32_t i = 0; i < 3; ++i) {
    good.push_back(start(*scheduler, greedy(random_tokens(20, i), 300)));
  }
  for (const Started& each : good) ASSERT_TRUE(each.sink->wait_tokens(10));
  const RunEnd bad = end_of(start(*scheduler, greedy({1, kPoison, 2}, 10)));
  EXPECT_EQ(bad.reason, FinishReason::error);
  EXPECT_EQ(bad.error, (Error{Errc::unavailable, "the model could not compute this request"}));
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(end_of(good[i]).reason, FinishReason::length);
    EXPECT_EQ(good[i].sink->ids(), expected_answer(random_tokens(20, i), 300));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Poisons, ::testing::ValuesIn(kPoisons),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Scheduler, AnEmptiedCacheIsFilledAgain) {
  int steps = 0;
  auto scheduler =
      make({.before =
                [&](const auto&, const auto&) {
                  return ++steps % 7 == 0 ? Decoder::Result::emptied : Decoder::Result::done;
                }},
           kDefaults);
  std::vector<Started> started;
  for (std::uint32_t i = 0; i < 4; ++i) {
    started.push_back(start(*scheduler, greedy(random_tokens(30, i), 20)));
  }
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(end_of(started[i]).reason, FinishReason::length);
    EXPECT_EQ(started[i].sink->ids(), expected_answer(random_tokens(30, i), 20));
  }
}

TEST(Scheduler, SurvivesACacheWithLessRoomThanItSaid) {
  // The cache claims 4096 tokens and has room for 150.
  std::atomic<int> refused = 0;
  auto scheduler = make({.cache_tokens = 4096,
                         .before =
                             [&](const FakeDecoder::Step& step, const auto&) {
                               std::int32_t last = 0;
                               for (const auto& item : step) last = std::max(last, item.position);
                               if (last < 100) return Decoder::Result::done;
                               ++refused;
                               return Decoder::Result::no_room;
                             }},
                        kDefaults);
  const Started small = start(*scheduler, greedy(random_tokens(20, 1), 50));
  const Started large = start(*scheduler, greedy(random_tokens(20, 2), 200));
  EXPECT_EQ(end_of(small).reason, FinishReason::length);
  const RunEnd end = end_of(large);
  EXPECT_EQ(end.reason, FinishReason::error);
  EXPECT_EQ(end.error,
            (Error{Errc::limit_exceeded, "the model's cache has no room for this request"}));
  EXPECT_GT(refused, 0);
}

// Two runs fit by what the cache claims, but not in fact: the one that has to wait does not come
// back at once, only to be preempted again.
TEST(Scheduler, AFullCacheStillComputesOneOfTwo) {
  std::map<std::int32_t, std::int32_t> held;  // tokens, by sequence
  FakeDecoder::Options decoder{.batch_tokens = 64};
  decoder.before = [&](const FakeDecoder::Step& step, const auto&) {
    std::map<std::int32_t, std::int32_t> after = held;
    for (const auto& item : step) after[item.sequence] = item.position + 1;
    std::int32_t sum = 0;
    for (const auto& [sequence, tokens] : after) sum += tokens;
    if (sum > 130) return Decoder::Result::no_room;
    held = after;
    return Decoder::Result::done;
  };
  decoder.on_truncate = [&](std::int32_t sequence, std::int32_t from) {
    held[sequence] = std::min(held[sequence], from);
  };
  Scheduler::Options options = kDefaults;
  options.prefix_cache = false;
  auto scheduler = make(std::move(decoder), options);
  std::vector<Started> started;
  for (std::uint32_t i = 0; i < 3; ++i) {
    started.push_back(start(*scheduler, greedy(random_tokens(50, i), 60)));
  }
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(end_of(started[i]).reason, FinishReason::length);
    EXPECT_EQ(started[i].sink->ids(), expected_answer(random_tokens(50, i), 60));
  }
}

TEST(Scheduler, OutOfMemoryEndsWhatRunsAndNoMore) {
  std::atomic<bool> throws = true;
  auto scheduler = make({.before = [&](const auto&, const auto&) -> Decoder::Result {
                          if (throws.exchange(false)) throw std::bad_alloc();
                          return Decoder::Result::done;
                        }},
                        kDefaults);
  const RunEnd first = end_of(start(*scheduler, greedy({1, 2}, 5)));
  EXPECT_EQ(first.reason, FinishReason::error);
  EXPECT_EQ(first.error.code, Errc::unavailable);
  const Started second = start(*scheduler, greedy({1, 2}, 5));
  EXPECT_EQ(end_of(second).reason, FinishReason::length);
  EXPECT_EQ(second.sink->ids(), expected_answer({1, 2}, 5));
}

TEST(Scheduler, OutOfMemoryOnTheWayToASlotEndsTheRunToo) {
  std::atomic<bool> throws = true;
  auto scheduler = make({.before_truncate =
                             [&] {
                               if (throws.exchange(false)) throw std::bad_alloc();
                             }},
                        {.context_tokens = 1024, .max_concurrent = 1, .queue_limit = 9});
  EXPECT_EQ(end_of(start(*scheduler, greedy({1, 2}, 5))).reason, FinishReason::length);
  const RunEnd second =
      end_of(start(*scheduler, greedy({2, 2}, 5)));  // cuts the tokens of the first run
  EXPECT_EQ(second.reason, FinishReason::error);
  EXPECT_EQ(second.error.code, Errc::unavailable);
  const Started third = start(*scheduler, greedy({3, 2}, 5));
  EXPECT_EQ(end_of(third).reason, FinishReason::length);
  EXPECT_EQ(third.sink->ids(), expected_answer({3, 2}, 5));
}

TEST(Scheduler, LogitsThatAreNoNumbersEndTheRun) {
  auto scheduler = make({.spoil_logits =
                             [](const Tokens& tokens, std::vector<float>& row) {
                               if (tokens[0] != 7) return;
                               row.assign(row.size(), std::numeric_limits<float>::quiet_NaN());
                             }},
                        kDefaults);
  const RunEnd bad = end_of(start(*scheduler, greedy({7}, 5)));
  EXPECT_EQ(bad.reason, FinishReason::error);
  EXPECT_EQ(bad.error, (Error{Errc::unavailable, "the model's output is not a number"}));
  EXPECT_EQ(end_of(start(*scheduler, greedy({8}, 5))).reason, FinishReason::length);
}

/// A step that takes a millisecond, so that no answer ends before a test looks. Once `slow` is set,
/// it takes until it is told to stop.
auto slow_step(const std::atomic<bool>& slow) {
  return [&slow](const FakeDecoder::Step&, const std::function<bool()>& must_stop) {
    do {
      std::this_thread::sleep_for(1ms);
    } while (slow && !must_stop());
    return slow ? Decoder::Result::interrupted : Decoder::Result::done;
  };
}

TEST(Scheduler, CancelInterruptsALongStep) {
  std::atomic<bool> slow = false;
  auto scheduler = make({.before = slow_step(slow)}, kDefaults);
  const Started other = start(*scheduler, greedy({1}, 400));
  const Started cancelled = start(*scheduler, greedy({2}, 1000));
  ASSERT_TRUE(cancelled.sink->wait_tokens(3));
  slow = true;
  std::this_thread::sleep_for(20ms);
  cancelled.run->cancel();
  ASSERT_TRUE(cancelled.sink->wait_end());  // without the interruption the step would never end
  slow = false;
  const RunEnd end = end_of(cancelled);
  EXPECT_EQ(end.reason, FinishReason::cancelled);
  EXPECT_EQ(end.usage.completion_tokens, cancelled.sink->ids().size());
  EXPECT_EQ(end_of(other).reason, FinishReason::length);
  EXPECT_EQ(other.sink->ids(), expected_answer({1}, 400));
}

// A step that cannot be interrupted must be short.
TEST(Scheduler, AfterAnInterruptionAStepHasFewPromptTokens) {
  std::mutex mutex;
  std::vector<std::size_t> steps;
  std::atomic<bool> was_interrupted = false;
  auto scheduler = make({.batch_tokens = 512,
                         .before =
                             [&](const FakeDecoder::Step& step, const auto& must_stop) {
                               {
                                 const std::lock_guard lock(mutex);
                                 steps.push_back(step.size());
                               }
                               if (was_interrupted) return Decoder::Result::done;
                               while (!must_stop()) std::this_thread::sleep_for(1ms);
                               was_interrupted = true;
                               return Decoder::Result::interrupted;
                             }},
                        kDefaults);
  const Started prompt = start(*scheduler, greedy(random_tokens(900, 1), 1));
  while (true) {
    const std::lock_guard lock(mutex);
    if (!steps.empty()) break;
  }
  start(*scheduler, greedy({2}, 5)).run->cancel();
  end_of(prompt);
  ASSERT_GE(steps.size(), 3U);
  EXPECT_EQ(steps[0], 512U);
  EXPECT_EQ(steps[1], 64U);
  EXPECT_EQ(steps[2], 512U);
  EXPECT_EQ(prompt.sink->ids(), expected_answer(random_tokens(900, 1), 1));
}

TEST(Scheduler, ManyCancellationsDoNotStopTheOthers) {
  auto scheduler = make({.before =
                             [](const auto&, const std::function<bool()>& must_stop) {
                               for (int i = 0; i < 4; ++i) {
                                 if (must_stop()) return Decoder::Result::interrupted;
                                 std::this_thread::sleep_for(250us);
                               }
                               return Decoder::Result::done;
                             }},
                        kDefaults);
  const Started other = start(*scheduler, greedy({1}, 30));
  std::atomic<bool> stop = false;
  std::thread nuisance([&] {
    // The handle is destroyed at once, which cancels; some are refused because the queue is full.
    while (!stop) {
      static_cast<void>(scheduler->start(greedy({2}, 1000), std::make_shared<RecordingSink>()));
    }
  });
  EXPECT_TRUE(other.sink->wait_end(30s));
  stop = true;
  nuisance.join();
  EXPECT_EQ(other.sink->ids(), expected_answer({1}, 30));
}

TEST(Scheduler, CancelFromWithinTheSink) {
  auto scheduler = make({}, kDefaults);
  std::atomic<engine::Run*> run = nullptr;
  auto sink = std::make_shared<RecordingSink>([&](std::size_t count) {
    while (run == nullptr) std::this_thread::yield();
    if (count == 3) run.load()->cancel();
  });
  auto started = scheduler->start(greedy({1}, 1000), sink);
  ASSERT_TRUE(started);
  run = started->get();
  ASSERT_TRUE(sink->wait_end());
  EXPECT_EQ(sink->end()->reason, FinishReason::cancelled);
  EXPECT_EQ(sink->ids().size(), 3U);
}

TEST(Scheduler, PausedRunsKeepTheirPlaceUntilItIsNeeded) {
  auto scheduler = make({.before =
                             [](const auto&, const auto&) {
                               std::this_thread::sleep_for(200us);
                               return Decoder::Result::done;
                             }},
                        {.context_tokens = 1024, .max_concurrent = 1, .queue_limit = 9});
  const Started paused = start(*scheduler, greedy({1}, 300));
  ASSERT_TRUE(paused.sink->wait_tokens(5));
  paused.run->pause();
  std::this_thread::sleep_for(20ms);
  const std::size_t count = paused.sink->ids().size();
  EXPECT_FALSE(paused.sink->wait_tokens(count + 1, 50ms));
  EXPECT_EQ(scheduler->stats().running, 1U);

  const Started other = start(*scheduler, greedy({2}, 20));  // takes the only place
  EXPECT_EQ(end_of(other).reason, FinishReason::length);
  EXPECT_EQ(other.sink->ids(), expected_answer({2}, 20));
  EXPECT_EQ(paused.sink->ids().size(), count);
  EXPECT_EQ(scheduler->stats().preemptions, 1U);

  paused.run->resume();
  EXPECT_EQ(end_of(paused).reason, FinishReason::length);
  EXPECT_EQ(paused.sink->ids(), expected_answer({1}, 300));
}

TEST(Scheduler, CancelEndsAPausedAndAWaitingRun) {
  auto scheduler = make({.cache_tokens = 200'000,
                         .before =
                             [](const auto&, const auto&) {
                               std::this_thread::sleep_for(200us);
                               return Decoder::Result::done;
                             }},
                        {.context_tokens = 100'000, .max_concurrent = 1, .queue_limit = 9});
  const Started running = start(*scheduler, greedy({1}, 0));
  const Started waiting = start(*scheduler, greedy({2}, 0));
  ASSERT_TRUE(running.sink->wait_tokens(1));
  waiting.run->cancel();
  EXPECT_EQ(end_of(waiting).reason, FinishReason::cancelled);
  EXPECT_EQ(waiting.sink->end()->usage.completion_tokens, 0U);
  running.run->pause();
  running.run->cancel();
  EXPECT_EQ(end_of(running).reason, FinishReason::cancelled);
}

TEST(Scheduler, TheTimeLimitCountsInTheQueueToo) {
  auto scheduler = make({.cache_tokens = 200'000,
                         .before =
                             [](const auto&, const auto&) {
                               std::this_thread::sleep_for(200us);
                               return Decoder::Result::done;
                             }},
                        {.context_tokens = 100'000, .max_concurrent = 1, .queue_limit = 9});
  const Started running = start(*scheduler, greedy({1}, 0));
  GenerateRequest limited = greedy({2}, 0);
  limited.time_limit = 30ms;
  EXPECT_EQ(end_of(start(*scheduler, limited)).reason, FinishReason::cancelled);
  EXPECT_FALSE(running.sink->end());
  limited.time_limit = 30ms;
  running.run->cancel();
  const Started alone = start(*scheduler, limited);
  EXPECT_EQ(end_of(alone).reason, FinishReason::cancelled);
  EXPECT_FALSE(alone.sink->ids().empty());
}

TEST(Scheduler, FirstComeFirstServed) {
  auto scheduler = make({}, {.context_tokens = 1024, .max_concurrent = 1, .queue_limit = 20});
  std::mutex mutex;
  std::vector<int> order;
  std::vector<Started> started;
  for (int i = 0; i < 10; ++i) {
    started.push_back(start(*scheduler, greedy({i}, 3), [&, i](std::size_t count) {
      const std::lock_guard lock(mutex);
      if (count == 3) order.push_back(i);
    }));
  }
  for (const Started& each : started) end_of(each);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(Scheduler, RefusesAboveTheQueueLimit) {
  std::atomic<bool> slow = true;
  auto scheduler = make({.before = slow_step(slow)},
                        {.context_tokens = 1024, .max_concurrent = 2, .queue_limit = 1});
  std::vector<Started> started;
  for (int i = 0; i < 3; ++i) started.push_back(start(*scheduler, greedy({i}, 3)));
  const auto refused = scheduler->start(greedy({9}, 3), std::make_shared<RecordingSink>());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(),
            (Error{Errc::limit_exceeded, "the model is busy: 1 requests are waiting already"}));
  slow = false;
  for (const Started& each : started) EXPECT_EQ(end_of(each).reason, FinishReason::length);
  // The end of a run makes room before its sink is told.
  EXPECT_EQ(end_of(start(*scheduler, greedy({9}, 3))).reason, FinishReason::length);
}

TEST(Scheduler, DestructionEndsEveryRun) {
  std::atomic<int> steps = 0;
  std::vector<Started> started;
  {
    // The third step would never end.
    const auto stuck = [&](const FakeDecoder::Step&, const std::function<bool()>& must_stop) {
      if (++steps < 3) return Decoder::Result::done;
      while (!must_stop()) std::this_thread::sleep_for(1ms);
      return Decoder::Result::interrupted;
    };
    auto scheduler = make({.before = stuck}, kDefaults);
    for (int i = 0; i < 6; ++i) started.push_back(start(*scheduler, greedy({i}, 1000)));
    while (steps < 3) std::this_thread::sleep_for(1ms);
  }
  for (const Started& each : started) {
    ASSERT_TRUE(each.sink->end());
    EXPECT_EQ(each.sink->end()->reason, FinishReason::cancelled);
    each.run->cancel();  // a handle outlives the scheduler
  }
}

TEST(Scheduler, ASeedIsAnAnswerWhateverTheLoad) {
  // Flat logits, so that the seed of every draw matters.
  const auto flat = [](const Tokens&, std::vector<float>& row) {
    std::fill(row.begin(), row.end(), 0.0F);
    row[kEos] = -100.0F;
  };
  GenerateRequest seeded{.prompt = {1, 2, 3}, .max_tokens = 50};
  seeded.sampling.seed = 99;
  GenerateRequest unseeded = seeded;
  unseeded.sampling.seed.reset();
  std::set<Tokens> answers;
  std::set<Tokens> others;
  for (const std::uint32_t concurrent : {1U, 4U}) {
    auto scheduler = make({.spoil_logits = flat},
                          {.context_tokens = 256, .max_concurrent = concurrent, .queue_limit = 50});
    std::vector<Started> started;
    for (int i = 0; i < 6; ++i) {
      started.push_back(start(*scheduler, i % 2 == 0 ? seeded : unseeded));
    }
    for (int i = 0; i < 6; ++i) {
      end_of(started[static_cast<std::size_t>(i)]);
      (i % 2 == 0 ? answers : others).insert(started[static_cast<std::size_t>(i)].sink->ids());
    }
  }
  EXPECT_EQ(answers.size(), 1U);
  EXPECT_EQ(others.size(), 6U);
}

// ---- Grammars ----

GenerateRequest held(std::string_view pattern, Tokens prompt, std::uint32_t max_tokens) {
  GenerateRequest request = greedy(std::move(prompt), max_tokens);
  request.grammar = grammar_of_pattern(pattern, tokenizer());
  return request;
}

struct Constrained {
  std::string_view name;
  std::string_view pattern;
  std::uint32_t max_tokens;
  std::string_view answer;  // also a pattern
  FinishReason reason;
  std::uint64_t chosen;  // tokens that needed logits
  std::uint64_t forced;
};

const Constrained kConstrained[] = {
    {"AllIsForced", "call", 0, "call", FinishReason::stop, 0, 4},
    {"OneChoice", R"x(\{"unit": "(?:C|F)"\})x", 0, R"(\{"unit": "[CF]"\})", FinishReason::stop, 1,
     12},
    {"ChoiceFirst", "(?:yes|now)", 0, "yes|now", FinishReason::stop, 1, 2},
    // The model of these tests never ends by itself.
    {"TheEndIsAChoice", "[a-c]{3,5}", 0, "[a-c]{5}", FinishReason::stop, 5, 0},
    {"CutWithinWhatIsForced", "forced", 4, "forc", FinishReason::length, 0, 4},
    {"CutAtItsEnd", "forced", 6, "forced", FinishReason::stop, 0, 6},
    {"CutAtAChoice", "[ab]{9}", 3, "[ab]{3}", FinishReason::length, 3, 0},
    {"AnyText", "[^]*", 9, "[^]*", FinishReason::length, 9, 0},
};

class ConstrainedAnswers : public ::testing::TestWithParam<Constrained> {};

TEST_P(ConstrainedAnswers, AreTextsOfTheirGrammar) {
  const Constrained& row = GetParam();
  for (const std::uint32_t batch : {3U, 64U}) {
    auto scheduler = make({.batch_tokens = batch}, {.context_tokens = 64, .max_concurrent = 3});
    const Started started = start(*scheduler, held(row.pattern, {7, 1, 1}, row.max_tokens));
    const RunEnd end = end_of(started);
    const std::string text = started.sink->text();
    EXPECT_TRUE(holds(grammar_of_pattern(row.answer, tokenizer()), text)) << text;
    EXPECT_EQ(end.reason, row.reason);
    EXPECT_TRUE(end.is_constrained);
    EXPECT_EQ(end.usage.completion_tokens, started.sink->ids().size());
    EXPECT_EQ(scheduler->stats().generated_tokens, row.chosen);
    EXPECT_EQ(scheduler->stats().forced_tokens, row.forced);
  }
}

INSTANTIATE_TEST_SUITE_P(Grammars, ConstrainedAnswers, ::testing::ValuesIn(kConstrained),
                         [](const auto& test) { return std::string(test.param.name); });

// The model wants to end at once, and may not until the text is whole.
TEST(Scheduler, NoEndTokenWithinATextOfTheGrammar) {
  auto scheduler =
      make({.spoil_logits = [](const Tokens&, std::vector<float>& row) { row[kEos] = 30.0F; }},
           kDefaults);
  const Started started = start(*scheduler, held("[a-c]{3,5}", {1}, 0));
  EXPECT_EQ(end_of(started).reason, FinishReason::stop);
  EXPECT_EQ(started.sink->text().size(), 3U);
  EXPECT_EQ(started.sink->ids().back(), kEos);
}

TEST(Scheduler, WhatIsForcedIsComputedInOneGo) {
  std::mutex mutex;
  std::vector<std::size_t> steps;
  auto scheduler = make({.before =
                             [&](const FakeDecoder::Step& step, const auto&) {
                               const std::lock_guard lock(mutex);
                               steps.push_back(step.size());
                               return Decoder::Result::done;
                             }},
                        kDefaults);
  const Started started = start(*scheduler, held("name: (?:a|b), value: (?:c|d)!", {1, 2}, 0));
  end_of(started);
  EXPECT_EQ(steps, (std::vector<std::size_t>{8, 10}));
}

// Constrained runs beside unconstrained ones, some of which are preempted.
TEST_P(Loads, HoldEveryRunToItsOwnGrammar) {
  auto scheduler = make(GetParam().decoder, GetParam().options);
  constexpr std::uint32_t kRuns = 40;
  const std::string_view patterns[] = {R"(\{"a": [0-9]{1,20}, "b": "[a-z]{0,30}"\})",
                                       "(?:yes|no|perhaps)(?: and (?:yes|no|perhaps)){0,5}"};
  std::vector<Started> started;
  for (std::uint32_t i = 0; i < kRuns; ++i) {
    Tokens prompt = random_tokens(1 + (i * 37) % 60, i);
    started.push_back(start(*scheduler, i % 3 == 2 ? greedy(std::move(prompt), 20)
                                                   : held(patterns[i % 3], std::move(prompt), 0)));
  }
  for (std::uint32_t i = 0; i < kRuns; ++i) {
    SCOPED_TRACE(i);
    const RunEnd end = end_of(started[i]);
    EXPECT_EQ(end.is_constrained, i % 3 != 2);
    const std::string text = started[i].sink->text();
    if (i % 3 == 2) {
      EXPECT_EQ(started[i].sink->ids(), expected_answer(random_tokens(1 + (i * 37) % 60, i), 20));
    } else if (end.reason == FinishReason::stop) {
      EXPECT_TRUE(holds(grammar_of_pattern(patterns[i % 3], tokenizer()), text)) << text;
    } else {
      EXPECT_EQ(end.reason, FinishReason::length);
    }
  }
}

/// A model that mostly writes what followed its last token at an earlier place.
void copy_mostly(const Tokens& tokens, std::vector<float>& row) {
  const auto dice = static_cast<std::size_t>(next_after(tokens));
  std::size_t from = dice % tokens.size();  // now and then it goes on somewhere else
  for (std::size_t end = tokens.size() - 1; dice % 5 != 0 && end >= 1; --end) {
    if (tokens[end - 1] != tokens.back()) continue;
    from = end;
    break;
  }
  row[static_cast<std::size_t>(tokens[from])] = 20.0F;
}

// Guesses change the number of batches and nothing else.
TEST(Scheduler, WhatIsGuessedIsTheSameAnswer) {
  Tokens prompt;
  for (const char c :
       std::string_view(R"([{"from": "Paris, France", "to": "Rome", "seats": 12},)")) {
    prompt.push_back(static_cast<unsigned char>(c));
  }
  for (const std::string_view pattern :
       {"[^]*", R"((?:\{"from": "[^"]{4,30}", "to": "[^"]{2,20}"\}, ?){4})"}) {
    for (const double temperature : {0.0, 0.5}) {
      for (const std::uint32_t runs : {1U, 4U}) {
        std::vector<std::vector<Tokens>> answers;
        std::uint64_t decodes[2] = {};
        for (const bool speculation : {false, true}) {
          Scheduler::Options options = kDefaults;
          options.speculation = speculation;
          auto scheduler = make({.spoil_logits = copy_mostly}, options);
          std::vector<Started> started;
          for (std::uint32_t i = 0; i < runs; ++i) {
            GenerateRequest request = held(pattern, prompt, 150);
            request.sampling.temperature = temperature;
            request.sampling.seed = i;
            request.logprobs = i == 2;
            started.push_back(start(*scheduler, std::move(request)));
          }
          auto& ids = answers.emplace_back();
          for (const Started& each : started) {
            EXPECT_NE(end_of(each).reason, FinishReason::error);
            ids.push_back(each.sink->ids());
          }
          const EngineStats stats = scheduler->stats();
          decodes[speculation ? 1 : 0] = stats.decodes;
          EXPECT_EQ(stats.accepted_guesses > 0, speculation);
          EXPECT_GE(stats.guessed_tokens, stats.accepted_guesses);
        }
        EXPECT_EQ(answers[0], answers[1]) << pattern << " " << temperature << " " << runs;
        EXPECT_TRUE(runs > 1 || decodes[1] < decodes[0]) << decodes[1] << " " << decodes[0];
      }
    }
  }
}

/// What goes wrong while answers with guesses are made.
struct Trouble {
  std::string_view name;
  std::uint32_t runs = 4;
  std::uint32_t cache_tokens = 4096;
  /// The result of step `n`; null: it is done.
  std::function<Decoder::Result(const FakeDecoder::Step& step, std::size_t n)> step;
  /// At this many tokens the sink of the first run cancels it (or pauses and resumes it).
  std::size_t cancel_at = 0;
  std::size_t pause_at = 0;
  bool preempts = false;
  bool meets_guesses = false;  ///< Guesses are certain to be hit; in other rows only by chance.
};

/// Only guesses make a batch want logits for several tokens of one sequence.
bool has_guesses(const FakeDecoder::Step& step) {
  const auto rows = std::ranges::count_if(step, [](const auto& item) { return item.wants_logits; });
  return static_cast<std::size_t>(rows) > sequences_of(step);
}

auto always(Decoder::Result result) {
  return [result](const FakeDecoder::Step& step, std::size_t) {
    return has_guesses(step) ? result : Decoder::Result::done;
  };
}

/// Rarely enough that the tokens of a lost cache are computed again in between.
auto now_and_then(Decoder::Result result, std::size_t least_sequences = 1) {
  const std::size_t period = result == Decoder::Result::interrupted ? 3 : 12;
  return [=](const FakeDecoder::Step& step, std::size_t n) {
    const bool is_hit = n % period == period - 1 && sequences_of(step) >= least_sequences;
    return is_hit ? result : Decoder::Result::done;
  };
}

const Trouble kTroubles[] = {
    {.name = "None"},
    {.name = "CacheForTwo", .cache_tokens = 460, .preempts = true},
    {.name = "CacheForOne", .cache_tokens = 256, .preempts = true},
    {.name = "InterruptedNowAndThen", .step = now_and_then(Decoder::Result::interrupted)},
    // Only a run that fails alone and without guesses has failed itself.
    {.name = "FailsInCompany", .step = now_and_then(Decoder::Result::failed, 2)},
    {.name = "ResetInCompany", .step = now_and_then(Decoder::Result::reset, 2)},
    {.name = "FailsWithGuesses", .step = always(Decoder::Result::failed), .meets_guesses = true},
    {.name = "FailsAloneWithGuesses",
     .runs = 1,
     .step = always(Decoder::Result::failed),
     .meets_guesses = true},
    {.name = "ResetWithGuesses", .step = always(Decoder::Result::reset), .meets_guesses = true},
    {.name = "EmptiedNowAndThen", .step = now_and_then(Decoder::Result::emptied)},
    {.name = "NoRoomForGuesses", .step = always(Decoder::Result::no_room), .meets_guesses = true},
    {.name = "NoRoomAloneForGuesses",
     .runs = 1,
     .step = always(Decoder::Result::no_room),
     .meets_guesses = true},
    {.name = "Cancelled", .cancel_at = 40},
    {.name = "CancelledInASmallCache", .cache_tokens = 256, .cancel_at = 40, .preempts = true},
    {.name = "PausedInASmallCache", .cache_tokens = 256, .pause_at = 40, .preempts = true},
};

class Troubles : public ::testing::TestWithParam<Trouble> {
 protected:
  static constexpr std::uint32_t kRuns = 4;

  static GenerateRequest request(std::uint32_t index) {
    Tokens prompt;
    for (const char c :
         std::string_view(R"([{"from": "Paris, France", "to": "Rome", "seats": 12},)")) {
      prompt.push_back(static_cast<unsigned char>(c));
    }
    prompt.push_back(static_cast<TokenId>(index));
    GenerateRequest request =
        held(R"((?:\{"from": "[^"]{4,30}", "to": "[^"]{2,20}"\}, ?){4})", prompt, 150);
    request.sampling.temperature = index % 2 == 0 ? 0.0 : 0.5;
    request.sampling.seed = index;
    return request;
  }
  /// The answers of each run alone, without trouble and without guesses.
  static const std::vector<Tokens>& answers() {
    static const std::vector<Tokens> kAnswers = [] {
      std::vector<Tokens> answers;
      Scheduler::Options options = kDefaults;
      options.speculation = false;
      for (std::uint32_t i = 0; i < kRuns; ++i) {
        auto scheduler = make({.spoil_logits = copy_mostly}, options);
        const Started started = start(*scheduler, request(i));
        EXPECT_NE(end_of(started).reason, FinishReason::error);
        answers.push_back(started.sink->ids());
      }
      return answers;
    }();
    return kAnswers;
  }
};

TEST_P(Troubles, ChangeNoAnswerWithGuessesOrWithout) {
  const Trouble& row = GetParam();
  for (const bool speculation : {false, true}) {
    SCOPED_TRACE(speculation ? "with guesses" : "without");
    std::size_t steps = 0;
    std::size_t troubled_guesses = 0;
    const auto before = [&](const FakeDecoder::Step& step, const auto&) {
      const auto result = row.step ? row.step(step, steps) : Decoder::Result::done;
      ++steps;
      if (result != Decoder::Result::done && has_guesses(step)) ++troubled_guesses;
      return result;
    };
    std::atomic<engine::Run*> first = nullptr;
    std::vector<Started> started;
    auto scheduler = make(
        {.cache_tokens = row.cache_tokens,
         .batch_tokens = 256,
         .before = before,
         .spoil_logits = copy_mostly},
        {.context_tokens = 256, .max_concurrent = 4, .queue_limit = 9, .speculation = speculation});
    for (std::uint32_t i = 0; i < row.runs; ++i) {
      started.push_back(start(*scheduler, request(i), [&, i](std::size_t count) {
        if (i > 0 || (count != row.cancel_at && count != row.pause_at)) return;
        while (first == nullptr) std::this_thread::yield();
        if (count == row.cancel_at) first.load()->cancel();
        if (count == row.pause_at) first.load()->pause();
      }));
      if (i == 0) first = started[0].run.get();
    }
    for (std::uint32_t i = row.runs; i-- > 0;) {  // the first one last: it may be paused
      SCOPED_TRACE(i);
      if (i == 0 && row.pause_at > 0) {
        EXPECT_FALSE(started[0].sink->end());
        first.load()->resume();
      }
      const RunEnd end = end_of(started[i]);
      Tokens expected = answers()[i];
      if (i == 0 && row.cancel_at > 0) {
        EXPECT_EQ(end.reason, FinishReason::cancelled);
        expected.resize(row.cancel_at);
      } else {
        EXPECT_NE(end.reason, FinishReason::error) << end.error.message;
      }
      EXPECT_EQ(started[i].sink->ids(), expected);
      EXPECT_EQ(end.usage.completion_tokens, expected.size());
      // The run's next turn continues with what the run left in the cache, which must be right.
      GenerateRequest next = request(i);
      next.prompt = joined(joined(next.prompt, expected), {1, 2, 3});
      next.prompt.resize(std::min<std::size_t>(next.prompt.size(), 240));
      next.grammar = nullptr;
      next.sampling = {.temperature = 0.0};
      next.max_tokens = 5;
      GenerateRequest again = next;
      const Started turn = start(*scheduler, std::move(next));
      auto fresh = make({.spoil_logits = copy_mostly}, kDefaults);
      const Started alone = start(*fresh, std::move(again));
      EXPECT_NE(end_of(turn).reason, FinishReason::error);
      end_of(alone);
      EXPECT_EQ(turn.sink->ids(), alone.sink->ids());
    }
    const EngineStats stats = scheduler->stats();
    EXPECT_EQ(stats.preemptions > 0, row.preempts);
    EXPECT_EQ(stats.guessed_tokens > 0 || troubled_guesses > 0, speculation);
    if (!speculation || row.meets_guesses) {
      EXPECT_EQ(troubled_guesses > 0, speculation);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Troubles, ::testing::ValuesIn(kTroubles),
                         [](const auto& test) { return std::string(test.param.name); });

// ---- Everything at once ----

const Load kCrowds[] = {
    {"Roomy", {}, {.context_tokens = 256, .max_concurrent = 4, .queue_limit = 100}, false},
    {"SmallCache",
     {.cache_tokens = 400, .batch_tokens = 32},
     {.context_tokens = 256, .max_concurrent = 4, .queue_limit = 100},
     true},
    {"CannotForgetParts",
     {.cache_tokens = 600, .forgets_parts = false},
     {.context_tokens = 256, .max_concurrent = 4, .queue_limit = 100},
     true},
    {"GrowsWithItsPrompts",
     {.cache_tokens = 600, .room = 4},
     {.context_tokens = 256, .max_concurrent = 4, .queue_limit = 100, .prefix_cache = false},
     true},
};

class Crowds : public ::testing::TestWithParam<Load> {
 protected:
  static constexpr std::uint32_t kKinds = 24;

  static const std::vector<std::shared_ptr<grammar::Grammar>>& grammars() {
    static const std::vector<std::shared_ptr<grammar::Grammar>> kGrammars = {
        nullptr,
        grammar_of_pattern(R"((?:\{"from": "[^"]{4,30}", "to": "[^"]{2,20}"\}, ?){1,4})",
                           tokenizer()),
        grammar_of_pattern("(?:yes|no|perhaps)(?: and (?:yes|no|perhaps)){0,5}", tokenizer()),
        grammar_of_pattern("[^]*", tokenizer())};
    return kGrammars;
  }
  /// One of kKinds requests; most prompts share one of three long beginnings.
  static GenerateRequest request(std::uint32_t kind) {
    Tokens prompt = kind % 6 == 5 ? Tokens{} : random_tokens(90, kind % 3);
    prompt = joined(prompt, random_tokens(1 + kind % 5, kind));
    GenerateRequest request = greedy(std::move(prompt), 5 + (kind * 29) % 100);
    request.grammar = grammars()[kind % 4];
    request.ends_whole = kind % 5 == 1;
    request.logprobs = kind % 7 == 3;
    request.sampling.temperature = kind % 2 == 0 ? 0.0 : 0.7;
    request.sampling.seed = kind;
    return request;
  }
  /// The answers of each request alone, without guesses.
  static const std::vector<Tokens>& answers() {
    static const std::vector<Tokens> kAnswers = [] {
      Scheduler::Options options = kDefaults;
      options.speculation = false;
      std::vector<Tokens> answers;
      for (std::uint32_t kind = 0; kind < kKinds; ++kind) {
        auto scheduler = make({.spoil_logits = copy_mostly}, options);
        const Started started = start(*scheduler, request(kind));
        end_of(started);
        answers.push_back(started.sink->ids());
      }
      return answers;
    }();
    return kAnswers;
  }
};

// Clients cancel, pause and come back at any time, and steps are interrupted, fail or lose the
// cache. Every run ends, and what it has written is what it writes alone.
TEST_P(Crowds, EveryRunEndsWithItsOwnAnswer) {
  const int requests = is_long_test() ? 2000 : 15;  // for each client
  constexpr std::uint32_t kClients = 8;
  std::mt19937 dice(1);  // used by the engine's thread
  FakeDecoder::Options decoder = GetParam().decoder;
  decoder.spoil_logits = copy_mostly;
  decoder.before = [&dice](const FakeDecoder::Step& step, const auto& must_stop) {
    const auto number = dice() % 64;
    for (auto i = number; i < 8; ++i) {  // some steps take a while
      if (must_stop()) return Decoder::Result::interrupted;
      std::this_thread::sleep_for(50us);
    }
    if (number == 10 && sequences_of(step) > 1) return Decoder::Result::failed;
    if (number == 11 && sequences_of(step) > 1 && dice() % 4 == 0) return Decoder::Result::reset;
    if (number == 12 && dice() % 4 == 0) return Decoder::Result::emptied;
    if (number == 13 && sequences_of(step) > 1) return Decoder::Result::no_room;
    if (number < 20 && has_guesses(step)) return Decoder::Result::no_room;
    return must_stop() ? Decoder::Result::interrupted : Decoder::Result::done;
  };
  const std::vector<Tokens>& expected = answers();
  auto scheduler = make(std::move(decoder), GetParam().options);
  const auto client = [&](std::uint32_t index) {
    std::mt19937 random(index);
    std::vector<std::pair<std::uint32_t, Started>> under_way;
    for (int i = 0; i < requests; ++i) {
      const std::uint32_t kind = static_cast<std::uint32_t>(random()) % kKinds;
      GenerateRequest asked = request(kind);
      const bool is_limited = random() % 16 == 0;
      if (is_limited) asked.time_limit = std::chrono::milliseconds(1 + random() % 10);
      const std::size_t pause_at = random() % 4 == 0 ? 1 + random() % 20 : 0;
      const std::size_t cancel_at = random() % 4 == 0 ? 1 + random() % 40 : 0;
      auto handle = std::make_shared<std::atomic<engine::Run*>>(nullptr);
      under_way.emplace_back(kind, start(*scheduler, std::move(asked), [=](std::size_t count) {
                               if (count != pause_at && count != cancel_at) return;
                               engine::Run* const run = *handle;
                               if (run == nullptr) return;
                               if (count == pause_at) run->pause();
                               if (count == cancel_at) run->cancel();
                             }));
      engine::Run* const run = under_way.back().second.run.get();
      *handle = run;
      if (random() % 8 == 0) run->cancel();  // at once, while the run waits
      if (random() % 3 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
      if (random() % 8 == 0) run->cancel();
      if (under_way.size() < 3 && i + 1 < requests) continue;
      for (const auto& [of, started] : under_way) {
        const auto latest = std::chrono::steady_clock::now() + 60s;
        while (!started.sink->wait_end(5ms) && std::chrono::steady_clock::now() < latest) {
          started.run->resume();
        }
        ASSERT_TRUE(started.sink->end())
            << "kind " << of << " stands still after " << started.sink->ids().size();
        const RunEnd end = end_of(started);
        const Tokens ids = started.sink->ids();
        EXPECT_NE(end.reason, FinishReason::error) << end.error.message;
        if (end.reason == FinishReason::cancelled) {
          ASSERT_LE(ids.size(), expected[of].size());
          EXPECT_TRUE(std::equal(ids.begin(), ids.end(), expected[of].begin())) << of;
        } else {
          EXPECT_EQ(ids, expected[of]) << of;
        }
      }
      under_way.clear();
    }
  };
  std::vector<std::thread> clients;
  for (std::uint32_t i = 0; i < kClients; ++i) clients.emplace_back(client, i);
  for (std::thread& each : clients) each.join();
  const EngineStats stats = scheduler->stats();
  EXPECT_EQ(stats.unfinished, 0U);
  EXPECT_TRUE(stats.guessed_tokens > 0 || !GetParam().decoder.forgets_parts);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Crowds, ::testing::ValuesIn(kCrowds),
                         [](const auto& test) { return std::string(test.param.name); });

// A cache that cannot remove single tokens takes no guesses.
TEST(Scheduler, GuessesEndWhereTheCacheForgetsNoPart) {
  auto scheduler = make({.forgets_parts = false, .spoil_logits = copy_mostly}, kDefaults);
  const Started started = start(*scheduler, held("[^]*", random_tokens(40, 3), 150));
  EXPECT_EQ(end_of(started).reason, FinishReason::length);
  const EngineStats stats = scheduler->stats();
  EXPECT_GT(stats.guessed_tokens, stats.accepted_guesses) << "no guess was wrong";
  EXPECT_LE(stats.guessed_tokens, Drafter::kMost + stats.accepted_guesses);
}

// When the grammar reaches a limit, the log says so and the answer goes on unconstrained.
TEST(Scheduler, AGrammarAtItsLimitLetsGo) {
  auto scheduler =
      make({.spoil_logits = [](const Tokens&, std::vector<float>& row) { row['['] = 30.0F; }},
           kDefaults);
  GenerateRequest request = greedy({1, 2}, 200);
  // The text nests deeper and deeper.
  request.grammar =
      grammar_of(*grammar::read_rules(R"(root ::= "[" root "]" | "x")", grammar::Syntax::gbnf),
                 tokenizer(), {.machine = {.max_cells = 100}});
  const Started started = start(*scheduler, std::move(request));
  const RunEnd end = end_of(started);
  EXPECT_FALSE(end.is_constrained);
  EXPECT_EQ(end.reason, FinishReason::length);
  EXPECT_EQ(end.usage.completion_tokens, 200U);
}

TEST(Scheduler, EveryTokenHasALogprobUnderAGrammarToo) {
  auto scheduler = make({}, kDefaults);
  GenerateRequest request = held("unit: (?:C|F)!", {1}, 0);
  request.logprobs = true;
  const Started started = start(*scheduler, request);
  end_of(started);
  const std::vector<message::TokenLogprob> logprobs = started.sink->logprobs();
  ASSERT_EQ(logprobs.size(), started.sink->ids().size());
  std::string text;
  for (const message::TokenLogprob& each : logprobs) text += each.bytes;
  EXPECT_EQ(text, started.sink->text());
}

// ---- Answers that must come to an end ----

struct Closing {
  std::string_view name;
  std::string_view lark;
  std::size_t shortest;  // in bytes, each of which is a token here
  bool is_open = false;  // an answer that may end may also go on: then it is cut
};

const Closing kClosing[] = {
    {"String", R"(start: %json {"type": "string"})", 2},
    {"Number", R"(start: %json {"type": "number"})", 1, true},
    {"NestedRequired", R"(start: "<call>" %json {"type": "object", "properties": {
        "a": {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
        "opt": {"type": "array", "items": {"type": "string", "minLength": 9}},
        "n": {"type": "integer", "minimum": 100}, "e": {"enum": ["celsius", "fahrenheit"]}},
        "required": ["a", "n", "e"], "additionalProperties": false} "</call>")",
     13 + 36},
    {"ItemsThatMustBe", R"(start: %json {"type": "array", "minItems": 3, "items": {"type": "object",
        "properties": {"id": {"type": "integer"}, "s": {"type": "string"}}, "required": ["id"]}})",
     28},
    // An optional member that must not be begun late.
    {"LongWhereItIsThere", R"(start: "<call>" %json {"type": "object", "properties": {
        "a": {"type": "string"}, "opt": {"type": "string", "minLength": 12}},
        "required": ["a"], "additionalProperties": false} "</call>")",
     13 + 8},
    // A parameter's text goes on until its closing marker, which takes many tokens.
    {"TextUntilAMarker", R"(start: "<p>" TEXT "</p>"
TEXT: /[^<]*/)",
     7},
};

// One model never ends anything; the others choose at random.
TEST(Scheduler, AnswersThatEndWholeDoWhateverTheirLimit) {
  for (const Closing& row : kClosing) {
    const auto rules = grammar::read_rules(row.lark, grammar::Syntax::lark);
    ASSERT_TRUE(rules) << row.name << rules.error().message;
    const auto grammar = grammar_of(*rules, tokenizer());
    for (std::uint64_t manner = 0; manner < 3; ++manner) {
      const auto prefer = [manner](const Tokens& tokens, std::vector<float>& logits) {
        if (manner == 0) logits['z'] = 30.0F;
        for (std::size_t id = 0; id < logits.size() && manner > 0; ++id) {
          logits[id] =
              static_cast<float>(next_after({static_cast<TokenId>(manner + id), tokens.back(),
                                             static_cast<TokenId>(tokens.size())}));
        }
      };
      auto scheduler = make({.batch_tokens = 128, .spoil_logits = prefer},
                            {.context_tokens = 300, .max_concurrent = 4, .queue_limit = 100});
      // With many more tokens than the end takes, an end is not looked for after each of them.
      const std::size_t many = 2 * row.shortest + 64;
      for (std::size_t most = 1; most < many + 30; most += most < many ? 1 : 9) {
        if (most == row.shortest + 13) most = many;
        SCOPED_TRACE(std::string(row.name) + " " + std::to_string(manner) + " " +
                     std::to_string(most));
        // The longest answers are limited by the context alone.
        const bool by_context = most > row.shortest + 8 && most % 4 == 0;
        GenerateRequest request = greedy(Tokens(by_context ? 300 - most : 3, 1),
                                         by_context ? 0 : static_cast<std::uint32_t>(most));
        request.grammar = grammar;
        request.ends_whole = true;
        request.logprobs = most % 5 == 0;  // no token is forced then
        const Started started = start(*scheduler, std::move(request));
        const RunEnd end = end_of(started);
        const std::string text = started.sink->text();
        EXPECT_LE(started.sink->ids().size(), most);
        if (!row.is_open) {
          EXPECT_EQ(end.reason, most < row.shortest ? FinishReason::length : FinishReason::stop);
        }
        EXPECT_EQ(holds(grammar, text), most >= row.shortest) << text;
        EXPECT_TRUE(end.is_constrained);
      }
    }
  }
}

// A call that cannot end in time is not begun, and text that may end at any place is cut as usual.
TEST(Scheduler, AnAnswerThatMayEndIsNotForcedInto) {
  const auto rules = grammar::read_rules(R"(start: (TEXT | "<name=" TEXT{2,9} ">")*
TEXT: /[a-z]/)",
                                         grammar::Syntax::lark);
  ASSERT_TRUE(rules) << rules.error().message;
  struct Row {
    std::uint32_t max_tokens;
    std::string_view text;
    FinishReason reason;
  };
  const Row rows[] = {{20, "xxx<name=xxxxxxxxx>x", FinishReason::length},
                      {18, "xxx<name=xxxxxxxx>", FinishReason::stop},
                      {12, "xxx<name=xx>", FinishReason::stop},
                      {11, "xxx", FinishReason::length},
                      {3, "xxx", FinishReason::length}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.max_tokens);
    auto scheduler = make({.spoil_logits =
                               [](const Tokens& tokens, std::vector<float>& logits) {
                                 logits['x'] = 20.0F;
                                 if (tokens.size() == 5) logits['<'] = 30.0F;
                               }},
                          kDefaults);
    GenerateRequest request = greedy({1, 2}, row.max_tokens);
    request.grammar = grammar_of(*rules, tokenizer());
    request.ends_whole = true;
    const Started started = start(*scheduler, std::move(request));
    EXPECT_EQ(end_of(started).reason, row.reason);
    EXPECT_EQ(started.sink->text(), row.text);
  }
}

// With guesses and without, and with log probabilities, for which no token is forced.
TEST(Scheduler, ARepetitionIsClosedAndTold) {
  const auto rules = grammar::read_rules(R"(start: "<" /[^>]*/ ">!")", grammar::Syntax::lark);
  ASSERT_TRUE(rules) << rules.error().message;
  for (const bool closes : {false, true}) {
    for (const bool speculation : {false, true}) {
      for (const bool logprobs : {false, true}) {
        Scheduler::Options options = kDefaults;
        options.speculation = speculation;
        auto scheduler = make({.spoil_logits =
                                   [](const Tokens& tokens, std::vector<float>& logits) {
                                     logits[tokens.back() == 'a' ? 'b' : 'a'] = 20.0F;
                                   }},
                              options);
        GenerateRequest request = greedy({1, 2}, 600);
        request.grammar = grammar_of(*rules, tokenizer());
        request.closes_loops = closes;
        request.logprobs = logprobs;
        const Started started = start(*scheduler, std::move(request));
        const RunEnd end = end_of(started);
        EXPECT_EQ(end.reason, closes ? FinishReason::stop : FinishReason::length);
        EXPECT_EQ(started.sink->text().size(), closes ? 303U : 600U);
        EXPECT_EQ(started.sink->text().ends_with("ab>!"), closes);
        EXPECT_EQ(end.closed_loops, closes ? 1U : 0U);
        EXPECT_EQ(scheduler->stats().closed_loops, closes ? 1U : 0U);
        EXPECT_TRUE(end.is_constrained);
      }
    }
  }
}

TEST(Scheduler, GivesLogprobsWithBytes) {
  auto scheduler = make({}, kDefaults);
  GenerateRequest request = greedy({1}, 2);
  request.logprobs = true;
  request.top_logprobs = 3;
  const Started started = start(*scheduler, request);
  end_of(started);
  const Tokens expected = expected_answer({1}, 2);
  const std::vector<message::TokenLogprob> logprobs = started.sink->logprobs();
  ASSERT_EQ(logprobs.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    const message::TokenLogprob& logprob = logprobs[i];
    EXPECT_EQ(logprob.bytes, tokenizer().bytes(expected[i]));
    ASSERT_EQ(logprob.top.size(), 3U);
    EXPECT_EQ(logprob.top[0].first, logprob.bytes);
    EXPECT_EQ(logprob.top[0].second, logprob.logprob);
    EXPECT_LT(logprob.logprob, 0.0);
    EXPECT_GT(logprob.top[0].second, logprob.top[1].second);
  }
}

}  // namespace
}  // namespace tenon::engine
