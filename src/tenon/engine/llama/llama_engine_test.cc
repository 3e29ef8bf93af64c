#include "tenon/engine/llama/llama_engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <llama.h>
#include <sys/resource.h>

#include "tenon/base/utf8.h"
#include "tenon/engine/grammar_for_test.h"
#include "tenon/engine/recording_sink.h"
#include "tenon/vocab/gguf.h"

namespace tenon::engine {
namespace {

using message::FinishReason;
using vocab::Controls;
using namespace std::chrono_literals;

const std::string kModel = std::string(TENON_SOURCE_DIR) + "/models/tenon-tiny.gguf";

constexpr std::string_view kPrompt =
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
    "<|im_start|>user\nWhat is the weather in Paris?<|im_end|>\n<|im_start|>assistant\n";

/// One engine for all tests of a kind, since loading takes time.
LlamaEngine* engine() {
  static const std::unique_ptr<LlamaEngine> shared = [] {
    auto loaded = LlamaEngine::load({.path = kModel, .context_tokens = 2048});
    if (!loaded) ADD_FAILURE() << loaded.error().message;
    return loaded ? *std::move(loaded) : nullptr;
  }();
  return shared.get();
}

class LlamaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kModel)) {
      GTEST_SKIP() << "NOT TESTED: " << kModel << " is missing";
    }
    ASSERT_NE(engine(), nullptr);
  }
};

std::vector<TokenId> tokens_of(std::string_view text, Controls controls = Controls::on) {
  std::vector<TokenId> ids;
  const Status encoded = engine()->tokenizer().encode(text, controls, /*at_start=*/true, ids);
  EXPECT_TRUE(encoded) << encoded.error().message;
  return ids;
}

std::string text_of(const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text += engine()->tokenizer().bytes(id);
  return text;
}

/// A greedy answer of `count` tokens that does not end by itself.
GenerateRequest endless(std::string_view prompt, std::uint32_t count) {
  GenerateRequest request{.prompt = tokens_of(prompt), .max_tokens = count};
  request.sampling.temperature = 0.0;
  for (TokenId id = 0; static_cast<std::size_t>(id) < engine()->tokenizer().size(); ++id) {
    if (engine()->tokenizer().ends_generation(id)) {
      request.sampling.logit_bias.emplace_back(id, -1000.0);
    }
  }
  return request;
}

struct LlamaEngineStarted {
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
  std::unique_ptr<engine::Run> run;
};

LlamaEngineStarted start(GenerateRequest request) {
  LlamaEngineStarted started;
  auto run = engine()->start(std::move(request), started.sink);
  EXPECT_TRUE(run) << run.error().message;
  if (run) started.run = *std::move(run);
  return started;
}

/// Whether a greedy answer, with four top_logprobs, is `other`. libllama rounds differently in a
/// batch of another size, so a tie may give another token, and from there on the answers may
/// differ. What must hold: each token was, up to such rounding, the likeliest after those before
/// it.
bool same_but_for_ties(const RecordingSink& sink, const std::vector<TokenId>& other) {
  const std::vector<TokenId> ids = sink.ids();
  const auto logprobs = sink.logprobs();
  EXPECT_EQ(logprobs.size(), ids.size());
  if (logprobs.size() != ids.size()) return false;
  const auto [differs, there] = std::mismatch(ids.begin(), ids.end(), other.begin(), other.end());
  if (differs == ids.end() || there == other.end()) return ids.size() == other.size();
  const auto& tie = logprobs[static_cast<std::size_t>(differs - ids.begin())];
  const auto its = std::ranges::find(tie.top, engine()->tokenizer().bytes(*there),
                                     &std::pair<std::string, double>::first);
  EXPECT_TRUE(its != tie.top.end() && std::abs(its->second - tie.logprob) < 0.05)
      << "not a tie: " << tie.bytes << " and " << engine()->tokenizer().bytes(*there);
  return false;
}

// ---- Tokenizer ----

using LlamaTokenizerTest = LlamaTest;

TEST_F(LlamaTokenizerTest, RoundTripsRandomUnicode) {
  std::uint32_t state = 1;
  const auto random = [&state](std::uint32_t below) {
    state = state * 1664525U + 1013904223U;
    return (state >> 8) % below;
  };
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (std::uint32_t n = random(40); n > 0; --n) {
      const std::uint32_t kinds[] = {random(128), random(128), random(0x800), random(0x10000),
                                     random(0x110000)};
      const auto code_point = static_cast<char32_t>(kinds[random(5)]);
      if (code_point >= 0xD800 && code_point < 0xE000) continue;
      utf8::append(text, code_point);
    }
    for (const Controls controls : {Controls::off, Controls::on}) {
      EXPECT_EQ(text_of(tokens_of(text, controls)), text);
    }
  }
}

/// With control tokens off, `text` comes back and none of its tokens is a control token.
void expect_plain(const std::string& text) {
  const std::vector<TokenId> ids = tokens_of(text, Controls::off);
  EXPECT_EQ(text_of(ids), text);
  for (const TokenId id : ids) EXPECT_FALSE(engine()->tokenizer().is_control(id)) << text;
}

/// Every ASCII character, and characters of two, three and four bytes.
std::vector<std::string> neighbours() {
  std::vector<std::string> all = {"ü", "Ġ", "▁", "日", "｜", "\U0001F642"};
  for (char c = 1; c > 0; ++c) all.emplace_back(1, c);
  return all;
}

TEST_F(LlamaTokenizerTest, TextNeverBecomesAControlToken) {
  const vocab::Tokenizer& tokenizer = engine()->tokenizer();
  std::size_t controls = 0;
  for (TokenId id = 0; static_cast<std::size_t>(id) < tokenizer.size(); ++id) {
    if (!tokenizer.is_control(id)) continue;
    ++controls;
    const std::string text(tokenizer.bytes(id));
    SCOPED_TRACE(text);
    EXPECT_EQ(tokenizer.control_token(text), id);
    EXPECT_EQ(tokens_of(text, Controls::on), std::vector<TokenId>{id});
    expect_plain(text);
    expect_plain(text + text);
    expect_plain("<|" + text);
    for (const std::string& neighbour : neighbours()) {
      expect_plain(neighbour + text);
      expect_plain(text + neighbour);
    }
  }
  EXPECT_GE(controls, 6U);
  for (const char* marker : {"<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>",
                             "<tool_response>", "</tool_response>"}) {
    EXPECT_TRUE(tokenizer.control_token(marker)) << marker;
  }
}

TEST_F(LlamaTokenizerTest, NorDoesAnyMixtureOfTheirPieces) {
  const vocab::Tokenizer& tokenizer = engine()->tokenizer();
  std::vector<std::string> pieces = neighbours();
  for (TokenId id = 0; static_cast<std::size_t>(id) < tokenizer.size(); ++id) {
    if (!tokenizer.is_control(id)) continue;
    const std::string text(tokenizer.bytes(id));
    for (std::size_t cut = 1; cut <= text.size(); ++cut) {
      pieces.push_back(text.substr(0, cut));
      pieces.push_back(text.substr(cut));
    }
  }
  std::uint32_t state = 11;
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (int n = 0; n < 8; ++n) {
      state = state * 1664525U + 1013904223U;
      text += pieces[(state >> 8) % pieces.size()];
    }
    expect_plain(text);
  }
}

TEST_F(LlamaTokenizerTest, KnowsEnds) {
  const vocab::Tokenizer& tokenizer = engine()->tokenizer();
  const auto end = tokenizer.control_token("<|im_end|>");
  ASSERT_TRUE(end);
  EXPECT_TRUE(tokenizer.ends_generation(*end));
  EXPECT_FALSE(tokenizer.ends_generation(*tokenizer.control_token("<tool_call>")));
  ASSERT_TRUE(tokenizer.eos());
  EXPECT_TRUE(tokenizer.ends_generation(*tokenizer.eos()));
  for (const TokenId id : {-1, static_cast<TokenId>(tokenizer.size()), 1 << 30}) {
    EXPECT_EQ(tokenizer.bytes(id), "");
    EXPECT_FALSE(tokenizer.is_control(id));
    EXPECT_FALSE(tokenizer.ends_generation(id));
  }
}

TEST_F(LlamaTokenizerTest, WhatIsNotUtf8BecomesReplacementCharacters) {
  for (const std::string& bytes :
       {std::string("a\xff\xfe b"), std::string("a\0b", 3), std::string("\xc3"),
        std::string("x\xed\xa0\x80y"), std::string("\xf0\x9f\x98")}) {
    EXPECT_EQ(text_of(tokens_of(bytes, Controls::off)), utf8::sanitized(bytes));
  }
}

// Compares with libllama's result for the whole text, for every kind of word and space.
TEST_F(LlamaTokenizerTest, CutsLongTextsWhereNoTokenSpans) {
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  const std::unique_ptr<llama_model, decltype(&llama_model_free)> model(
      llama_model_load_from_file(kModel.c_str(), params), llama_model_free);
  ASSERT_NE(model, nullptr);
  constexpr std::string_view kParts[] = {"word",       " ",    "  ", "\n",   "\n\n", "The",
                                         " it's",      "\t",   "42", ", ",   "ü",    "日本",
                                         "{\"a\": 1}", "\r\n", ".",  " _x_", "\n  ", "!!"};
  std::uint32_t state = 3;
  std::string text;
  while (text.size() < 60'000) {
    state = state * 1664525U + 1013904223U;
    text += kParts[(state >> 8) % std::size(kParts)];
  }
  std::vector<TokenId> expected(text.size());
  const std::int32_t count = llama_tokenize(
      llama_model_get_vocab(model.get()), text.data(), static_cast<std::int32_t>(text.size()),
      expected.data(), static_cast<std::int32_t>(expected.size()), false, false);
  ASSERT_GT(count, 0);
  expected.resize(static_cast<std::size_t>(count));
  EXPECT_EQ(tokens_of(text, Controls::off), expected);
  EXPECT_EQ(tokens_of(text, Controls::on), expected);
}

TEST_F(LlamaTokenizerTest, WordsWithoutEndAreEncodedToo) {
  for (const std::string& unit : {std::string("a"), std::string("日"), std::string("\n"),
                                  std::string("  "), std::string("1"), std::string("<")}) {
    std::string text;
    while (text.size() < 100'000) text += unit;
    EXPECT_EQ(text_of(tokens_of(text, Controls::off)), text) << unit;
  }
}

TEST_F(LlamaTokenizerTest, TwoHundredKilobytesOfMarkersComeBack) {
  std::string text;
  while (text.size() < 200'000) text += "<tool_call>";
  EXPECT_EQ(text_of(tokens_of(text, Controls::off)), text);
}

// ---- Engine ----

using LlamaEngineTest = LlamaTest;

TEST_F(LlamaEngineTest, SaysWhatItCan) {
  EXPECT_EQ(engine()->capabilities().kind, "llama");
  EXPECT_EQ(engine()->capabilities().context_tokens, 2048U);
  EXPECT_EQ(engine()->capabilities().max_concurrent, 8U);
  EXPECT_NE(engine()->chat_template().find("tool_call"), std::string_view::npos);
}

TEST_F(LlamaEngineTest, GeneratesAndCounts) {
  const LlamaEngineStarted started = start(endless(kPrompt, 20));
  ASSERT_TRUE(started.sink->wait_end());
  const RunEnd end = *started.sink->end();
  EXPECT_EQ(end.reason, FinishReason::length);
  EXPECT_EQ(end.usage.prompt_tokens, tokens_of(kPrompt).size());
  EXPECT_EQ(end.usage.completion_tokens, 20U);
  EXPECT_EQ(started.sink->ids().size(), 20U);
  EXPECT_EQ(text_of(started.sink->ids()), started.sink->text());
}

TEST_F(LlamaEngineTest, StopsAtTheEndOfTurn) {
  GenerateRequest request{.prompt = tokens_of(kPrompt)};
  const TokenId end = *engine()->tokenizer().control_token("<|im_end|>");
  request.sampling.logit_bias = {{end, 1000.0}};
  const LlamaEngineStarted started = start(request);
  ASSERT_TRUE(started.sink->wait_end());
  EXPECT_EQ(started.sink->end()->reason, FinishReason::stop);
  EXPECT_EQ(started.sink->ids(), std::vector<TokenId>{end});
  EXPECT_EQ(started.sink->text(), "");
  EXPECT_EQ(started.sink->end()->usage.completion_tokens, 1U);
}

TEST_F(LlamaEngineTest, TheSameAloneAndAgain) {
  std::vector<std::vector<TokenId>> answers;
  for (const bool is_greedy : {true, false}) {
    GenerateRequest request = endless(kPrompt, 60);
    if (!is_greedy) {
      request.sampling.temperature = 0.9;
      request.sampling.seed = 7;
    }
    // The first run computes the whole prompt, later runs only its last token, which libllama
    // rounds differently. So runs are compared from the second on.
    for (int i = 0; i < 4; ++i) {
      const LlamaEngineStarted started = start(request);
      ASSERT_TRUE(started.sink->wait_end());
      if (i > 0) answers.push_back(started.sink->ids());
    }
    EXPECT_EQ(answers[0], answers[1]);
    EXPECT_EQ(answers[0], answers[2]);
    answers.clear();
  }
}

// The bundled model's file recommends temperature 0. Compared from the second run on, as above.
TEST_F(LlamaEngineTest, TakesTheTemperatureOfTheFileWhereTheRequestHasNone) {
  GenerateRequest request = endless(kPrompt, 60);
  std::vector<std::vector<TokenId>> answers;
  for (const std::optional<double> temperature :
       {std::optional<double>(0.0), std::optional<double>(0.0), {}, {}}) {
    request.sampling.temperature = temperature;
    const LlamaEngineStarted started = start(request);
    ASSERT_TRUE(started.sink->wait_end());
    answers.push_back(started.sink->ids());
  }
  EXPECT_EQ(answers[1], answers[2]);
  EXPECT_EQ(answers[1], answers[3]);
}

TEST_F(LlamaEngineTest, GreedyAmongEightIsGreedy) {
  GenerateRequest request = endless(kPrompt, 60);
  const LlamaEngineStarted alone = start(request);
  ASSERT_TRUE(alone.sink->wait_end());

  request.logprobs = true;
  request.top_logprobs = 4;
  std::vector<LlamaEngineStarted> together;
  for (int i = 0; i < 8; ++i) together.push_back(start(request));
  std::size_t same = 0;
  for (const LlamaEngineStarted& each : together) {
    ASSERT_TRUE(each.sink->wait_end());
    EXPECT_EQ(each.sink->end()->reason, FinishReason::length);
    ASSERT_EQ(each.sink->ids().size(), 60U);
    if (same_but_for_ties(*each.sink, alone.sink->ids())) ++same;
  }
  RecordProperty("same_of_8", static_cast<int>(same));
  std::printf("[   INFO   ] %zu of 8 answers equal the answer alone\n", same);
}

TEST_F(LlamaEngineTest, CancelEndsARun) {
  for (int i = 0; i < 5; ++i) {
    const LlamaEngineStarted started = start(endless(kPrompt, 0));
    ASSERT_TRUE(started.sink->wait_tokens(3));
    started.run->cancel();
    ASSERT_TRUE(started.sink->wait_end());
    EXPECT_EQ(started.sink->end()->reason, FinishReason::cancelled);
  }
}

TEST_F(LlamaEngineTest, PausesAndResumes) {
  const LlamaEngineStarted whole = start(endless(kPrompt, 100));
  ASSERT_TRUE(whole.sink->wait_end());
  const LlamaEngineStarted paused = start(endless(kPrompt, 100));
  ASSERT_TRUE(paused.sink->wait_tokens(5));
  paused.run->pause();
  std::this_thread::sleep_for(50ms);  // for the token in flight
  const std::size_t count = paused.sink->ids().size();
  ASSERT_LT(count, 100U);
  EXPECT_FALSE(paused.sink->wait_tokens(count + 1, 100ms));
  paused.run->resume();
  ASSERT_TRUE(paused.sink->wait_end());
  EXPECT_EQ(paused.sink->ids().size(), 100U);
}

TEST_F(LlamaEngineTest, RefusesAPromptWithoutRoomForAnAnswer) {
  const TokenId id = tokens_of("a")[0];
  const auto refused = engine()->start({.prompt = std::vector<TokenId>(2048, id)},
                                       std::make_shared<RecordingSink>());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(),
            (Error{Errc::limit_exceeded,
                   "the prompt has 2048 tokens, but the model's context holds 2048 for prompt and "
                   "answer together",
                   "messages"}));
  GenerateRequest fits = endless("a", 0);
  fits.prompt.assign(2040, id);
  const LlamaEngineStarted started = start(fits);
  ASSERT_TRUE(started.sink->wait_end());
  EXPECT_EQ(started.sink->end()->reason, FinishReason::length);
  EXPECT_EQ(started.sink->ids().size(), 8U);
}

TEST_F(LlamaEngineTest, KeepsTheTimeLimit) {
  GenerateRequest request = endless(kPrompt, 0);
  request.time_limit = 30ms;
  const LlamaEngineStarted started = start(request);
  ASSERT_TRUE(started.sink->wait_end());
  EXPECT_EQ(started.sink->end()->reason, FinishReason::cancelled);
}

TEST_F(LlamaEngineTest, GivesLogprobs) {
  GenerateRequest request = endless(kPrompt, 10);
  request.logprobs = true;
  request.top_logprobs = 3;
  const LlamaEngineStarted started = start(request);
  ASSERT_TRUE(started.sink->wait_end());
  const std::vector<message::TokenLogprob> logprobs = started.sink->logprobs();
  ASSERT_EQ(logprobs.size(), 10U);
  std::string text;
  for (const message::TokenLogprob& each : logprobs) {
    text += each.bytes;
    EXPECT_LE(each.logprob, 0.0);
    ASSERT_EQ(each.top.size(), 3U);
    EXPECT_GE(each.top[0].second, each.top[1].second);
  }
  EXPECT_EQ(text, started.sink->text());
}

TEST_F(LlamaEngineTest, FindsThePrefixOfTheNextTurn) {
  const std::string first = std::string(kPrompt) + "A unique beginning of this test.";
  const LlamaEngineStarted one = start(endless(first, 8));
  ASSERT_TRUE(one.sink->wait_end());
  const LlamaEngineStarted two = start(endless(first + " And more.", 8));
  ASSERT_TRUE(two.sink->wait_end());
  EXPECT_GE(two.sink->end()->usage.cached_tokens + 3, tokens_of(first).size());
}

// The second conversation comes while the first is running, in a divided cache and in a shared one.
TEST_F(LlamaEngineTest, AConversationTakesTheToolsFromARunningOne) {
  std::string tools = "Tools:";
  for (int i = 0; i < 60; ++i) tools += " tool number " + std::to_string(i) + " does this;";
  const std::string first = tools + " First: what is the weather?";
  const std::string second = tools + " Second: how much is 3 times 4?";
  for (const std::uint32_t cache_tokens : {0U, 4096U}) {
    SCOPED_TRACE(cache_tokens);
    LlamaOptions options{.path = kModel};
    options.context_tokens = 2048;
    options.cache_tokens = cache_tokens;
    const auto load = [&] {
      auto loaded = LlamaEngine::load(options);
      EXPECT_TRUE(loaded) << loaded.error().message;
      return *std::move(loaded);
    };
    const auto alone = load();
    const auto alone_sink = std::make_shared<RecordingSink>();
    auto alone_run = alone->start(endless(second, 20), alone_sink);
    ASSERT_TRUE(alone_run && alone_sink->wait_end());

    const auto shared = load();
    const auto first_sink = std::make_shared<RecordingSink>();
    auto first_run = shared->start(endless(first, 300), first_sink);
    ASSERT_TRUE(first_run && first_sink->wait_tokens(5));
    const auto second_sink = std::make_shared<RecordingSink>();
    GenerateRequest request = endless(second, 20);
    request.logprobs = true;
    request.top_logprobs = 4;
    auto second_run = shared->start(request, second_sink);
    ASSERT_TRUE(second_run && second_sink->wait_end());
    EXPECT_FALSE(first_sink->end()) << "it was to run beside";
    EXPECT_GT(second_sink->end()->usage.cached_tokens, tokens_of(tools).size() - 5);
    EXPECT_EQ(second_sink->ids().size(), 20U);
    static_cast<void>(same_but_for_ties(*second_sink, alone_sink->ids()));
    ASSERT_TRUE(first_sink->wait_end());
    EXPECT_EQ(first_sink->ids().size(), 300U);
  }
}

TEST_F(LlamaEngineTest, SharesASmallCache) {
  auto small = LlamaEngine::load(
      {.path = kModel, .context_tokens = 512, .max_concurrent = 4, .cache_tokens = 512});
  ASSERT_TRUE(small) << small.error().message;
  std::vector<LlamaEngineStarted> started;
  for (int i = 0; i < 4; ++i) {
    LlamaEngineStarted each;
    auto run = (*small)->start(endless(std::to_string(i) + std::string(kPrompt), 300), each.sink);
    ASSERT_TRUE(run);
    each.run = *std::move(run);
    started.push_back(std::move(each));
  }
  for (const LlamaEngineStarted& each : started) {
    ASSERT_TRUE(each.sink->wait_end());
    EXPECT_EQ(each.sink->end()->reason, FinishReason::length) << each.sink->end()->error.message;
    EXPECT_EQ(each.sink->ids().size(), 300U);
  }
  EXPECT_GT((*small)->stats().preemptions, 0U);
}

// The text has more tokens than a divided cache begins with, first in the answer, then in the
// prompt.
TEST_F(LlamaEngineTest, ACacheGrowsWithWhatIsInIt) {
  auto large = LlamaEngine::load({.path = kModel, .context_tokens = 4096, .max_concurrent = 2});
  ASSERT_TRUE(large) << large.error().message;
  const TokenId id = tokens_of("a")[0];
  for (const std::size_t prompt : {1000U, 2100U}) {
    GenerateRequest request = endless("a", 100);
    request.prompt.assign(prompt, id);
    const auto grown = std::make_shared<RecordingSink>();
    const auto beside = std::make_shared<RecordingSink>();
    auto run = (*large)->start(request, grown);
    auto other = (*large)->start(endless(kPrompt, 100), beside);
    ASSERT_TRUE(run && other);
    for (const auto& sink : {grown, beside}) {
      ASSERT_TRUE(sink->wait_end());
      EXPECT_EQ(sink->end()->reason, FinishReason::length) << sink->end()->error.message;
      EXPECT_EQ(sink->ids().size(), 100U);
    }
  }
}

// Eight runs at once. Where the grammar leaves no choice, the tokens are those of the tokenizer.
TEST_F(LlamaEngineTest, AnswersAreTextsOfTheirGrammar) {
  const auto grammar =
      grammar_of_pattern(R"x(\{"city": "[A-Z][a-z]{2,10}", "unit": "(?:celsius|fahrenheit)"\})x",
                         engine()->tokenizer());
  const std::uint64_t forced_before = engine()->stats().forced_tokens;
  std::vector<LlamaEngineStarted> started;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    GenerateRequest request{.prompt = tokens_of("What is the weather?"), .max_tokens = 60};
    request.sampling.temperature = 2.0;
    request.sampling.seed = seed;
    request.grammar = grammar;
    started.push_back(start(std::move(request)));
  }
  for (const LlamaEngineStarted& each : started) {
    ASSERT_TRUE(each.sink->wait_end());
    EXPECT_EQ(each.sink->end()->reason, FinishReason::stop);
    EXPECT_TRUE(each.sink->end()->is_constrained);
    const std::string text = each.sink->text();
    EXPECT_TRUE(holds(grammar, text)) << text;
    std::vector<TokenId> begin = each.sink->ids();
    const std::vector<TokenId> canonical = [] {
      std::vector<TokenId> ids;
      EXPECT_TRUE(engine()->tokenizer().encode(R"({"city": )", Controls::off, false, ids));
      return ids;
    }();
    begin.resize(canonical.size() - 1);
    EXPECT_TRUE(std::equal(begin.begin(), begin.end(), canonical.begin()));
  }
  EXPECT_GT(engine()->stats().forced_tokens, forced_before + 40 * 5);
}

TEST_F(LlamaEngineTest, EndsItsRunsWhenItIsDestroyed) {
  const LlamaEngineStarted started = [] {
    auto own = LlamaEngine::load({.path = kModel, .context_tokens = 1024, .max_concurrent = 1});
    LlamaEngineStarted running;
    EXPECT_TRUE(own);
    auto run = (*own)->start(endless(kPrompt, 0), running.sink);
    EXPECT_TRUE(run);
    running.run = *std::move(run);
    EXPECT_TRUE(running.sink->wait_tokens(1));
    return running;
  }();
  ASSERT_TRUE(started.sink->end());
  EXPECT_EQ(started.sink->end()->reason, FinishReason::cancelled);
}

// ---- Model files ----

TEST(GgmlTypes, AreThoseOfGgml) {
  std::size_t known = 0;
  for (std::uint32_t type = 0; type < GGML_TYPE_COUNT; ++type) {
    const auto ggml = static_cast<ggml_type>(type);
    const auto block = static_cast<std::uint64_t>(ggml_blck_size(ggml));
    if (block == 0) continue;  // a number that ggml has given up
    const auto ours = vocab::ggml_tensor_bytes(type, 256 * 4, 256 * 4);
    if (!ours) continue;
    ++known;
    EXPECT_EQ(*ours, ggml_type_size(ggml) * 256 * 4 / block) << ggml_type_name(ggml);
  }
  EXPECT_GE(known, 30U);
}

struct BadFile {
  std::string_view name;
  std::string (*spoil)(std::string good);
  Errc code;
  std::string_view says;
};

const BadFile kBadFiles[] = {
    {"Empty", [](std::string) { return std::string(); }, Errc::invalid, "the file is empty"},
    {"Text", [](std::string) { return std::string("{\"model\": 1}"); }, Errc::invalid,
     "it is not a GGUF file"},
    {"CutInTheHeader", [](std::string good) { return good.substr(0, 20); }, Errc::invalid,
     "cut off"},
    {"CutInTheKeys", [](std::string good) { return good.substr(0, 1000); }, Errc::invalid,
     "cut off"},
    {"CutInTheWeights", [](std::string good) { return good.substr(0, good.size() / 2); },
     Errc::invalid, "cut off"},
    {"CutAtTheLastByte", [](std::string good) { return good.substr(0, good.size() - 1); },
     Errc::invalid, "cut off"},
    {"AbsurdCounts", [](std::string good) { return good.replace(8, 8, std::string(8, '\xff')); },
     Errc::limit_exceeded, "it claims"},
    {"UnknownArchitecture",
     [](std::string good) {
       return good.replace(good.find("llama", good.find("general.architecture")), 5, "lxama");
     },
     Errc::unsupported, "unknown model architecture: 'lxama'"},
    {"NoTokenizer",
     [](std::string good) {
       return good.replace(good.find("tokenizer.ggml.model"), 20, "tokenizer.ggml.xxxxx");
     },
     Errc::unsupported, "it has no tokenizer"},
    {"NegativeLayers",
     [](std::string good) {
       const std::size_t key = good.find("llama.block_count") + 17 + 4;
       return good.replace(key, 4, std::string(4, '\xff'));
     },
     Errc::invalid, "llama.block_count is"},
};

std::string read_model() {
  std::ifstream file(kModel, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string write_temporary(std::string_view name, const std::string& bytes) {
  const std::string path = ::testing::TempDir() + "tenon_" + std::string(name) + ".gguf";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

class BadFiles : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadFiles, AreRefusedInWords) {
  if (!std::filesystem::exists(kModel)) {
    GTEST_SKIP() << "NOT TESTED: " << kModel << " is missing";
  }
  const std::string path = write_temporary(GetParam().name, GetParam().spoil(read_model()));
  const auto loaded = LlamaEngine::load({.path = path});
  std::remove(path.c_str());
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, GetParam().code) << loaded.error().message;
  EXPECT_NE(loaded.error().message.find(GetParam().says), std::string::npos)
      << loaded.error().message;
  EXPECT_TRUE(loaded.error().message.starts_with("model '" + path + "': "));
}

INSTANTIATE_TEST_SUITE_P(Kinds, BadFiles, ::testing::ValuesIn(kBadFiles),
                         [](const auto& test) { return std::string(test.param.name); });

// ---- A vocabulary whose control tokens are words that text can spell ----

/// The bundled model with other kinds (GGUF's token_type) for some of its tokens.
std::unique_ptr<LlamaEngine> with_control_tokens(const std::vector<std::string>& names) {
  std::string file = read_model();
  const auto parsed = vocab::GgufFile::parse(file);
  if (!parsed) return nullptr;
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  // After the key: the types of value and element, and the count of elements.
  const std::size_t kinds = file.find(kKey) + kKey.size() + 4 + 4 + 8;
  const auto tokens = parsed->strings("tokenizer.ggml.tokens");
  for (const std::string& name : names) {
    const auto found = std::find(tokens.begin(), tokens.end(), name);
    EXPECT_NE(found, tokens.end()) << name;
    file[kinds + 4 * static_cast<std::size_t>(found - tokens.begin())] = LLAMA_TOKEN_TYPE_CONTROL;
  }
  const std::string path = write_temporary("controls", file);
  auto loaded = LlamaEngine::load({.path = path, .context_tokens = 256, .max_concurrent = 1});
  std::remove(path.c_str());
  EXPECT_TRUE(loaded) << loaded.error().message;
  return loaded ? *std::move(loaded) : nullptr;
}

TEST_F(LlamaTokenizerTest, WordsThatAreControlTokensAreSpelledOtherwise) {
  // The file writes " the" as "Ġthe": its bytes do not tell which text becomes this token.
  const auto other = with_control_tokens({"get", "Ġthe", "ing"});
  ASSERT_NE(other, nullptr);
  const vocab::Tokenizer& tokenizer = other->tokenizer();
  std::string large;
  while (large.size() < 50'000) large += "get the";
  for (const std::string& text : {std::string("get"), std::string(" the"), std::string("the the"),
                                  std::string("getting the thing: get_weather"), large}) {
    std::vector<TokenId> ids;
    const Status encoded = tokenizer.encode(text, Controls::off, /*at_start=*/true, ids);
    ASSERT_TRUE(encoded) << encoded.error().message;
    std::string back;
    for (const TokenId id : ids) {
      EXPECT_FALSE(tokenizer.is_control(id)) << tokenizer.bytes(id);
      back += tokenizer.bytes(id);
    }
    EXPECT_EQ(back, text);
  }
}

TEST_F(LlamaTokenizerTest, ACharacterThatIsAControlTokenIsRefused) {
  const auto other = with_control_tokens({"Z"});
  ASSERT_NE(other, nullptr);
  std::vector<TokenId> ids;
  const Status encoded = other->tokenizer().encode("Z", Controls::off, true, ids);
  ASSERT_FALSE(encoded);
  EXPECT_EQ(encoded.error(),
            (Error{Errc::invalid, "the model's vocabulary has 'Z' as a control token only"}));
}

TEST(LlamaLoad, NamesWhatIsNotThere) {
  const auto missing = LlamaEngine::load({.path = "/nowhere/model.gguf"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error(),
            (Error{Errc::unavailable, "model '/nowhere/model.gguf': No such file or directory"}));
  EXPECT_EQ(LlamaEngine::load({}).error(), (Error{Errc::invalid, "model '': no path is given"}));
}

TEST_F(LlamaTest, OptionsOutOfRangeAreRefused) {
  EXPECT_FALSE(LlamaEngine::load({.path = kModel, .max_concurrent = 0}));
  EXPECT_FALSE(LlamaEngine::load({.path = kModel, .max_concurrent = 100'000}));
  EXPECT_FALSE(LlamaEngine::load({.path = kModel, .batch_tokens = 0}));
  EXPECT_FALSE(LlamaEngine::load({.path = kModel, .threads = -1}));
  EXPECT_FALSE(LlamaEngine::load({.path = kModel, .cache_tokens = (1 << 24) + 1}));
}

TEST_F(LlamaTest, ACacheLargerThanTheMemoryIsRefusedWithNumbers) {
  const auto large =
      LlamaEngine::load({.path = kModel, .context_tokens = 1 << 24, .max_concurrent = 256});
  if (large) GTEST_SKIP() << "NOT TESTED: this machine has 50 GB to spare";
  EXPECT_EQ(large.error().code, Errc::limit_exceeded);
  EXPECT_NE(large.error().message.find(" MiB are free"), std::string::npos)
      << large.error().message;
}

// A file with a damaged header may be refused or load; it must not end the process. Trying every
// bit of the header takes too long for a test; this is a sample.
TEST_F(LlamaTest, FlippedBitsDoNotCrash) {
  const std::string good = read_model();
  const std::size_t header = good.find("token_embd.weight");
  ASSERT_NE(header, std::string::npos);
  std::uint32_t state = 5;
  int loaded = 0;
  for (int i = 0; i < 60; ++i) {
    state = state * 1664525U + 1013904223U;
    // Half of the flips are in the first kilobytes, where the numbers are, half in the whole
    // header.
    const std::size_t at = 24 + state % (i % 2 == 0 ? 2000 : header + 2000);
    std::string flipped = good;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << ((state >> 28) % 8)));
    const std::string path = write_temporary("flipped", flipped);
    auto engine = LlamaEngine::load({.path = path, .context_tokens = 256, .max_concurrent = 2});
    std::remove(path.c_str());
    if (!engine) {
      EXPECT_FALSE(engine.error().message.empty());
      continue;
    }
    ++loaded;
    auto sink = std::make_shared<RecordingSink>();
    auto run = (*engine)->start({.prompt = {1, 2, 3}, .max_tokens = 3}, sink);
    ASSERT_TRUE(run);
    EXPECT_TRUE(sink->wait_end());
  }
  EXPECT_LT(loaded, 60);
}

}  // namespace
}  // namespace tenon::engine
