#include "tenon/engine/upstream/pool.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/base/patience.h"
#include "tenon/engine/recording_sink.h"
#include "tenon/engine/scripted.h"

namespace tenon::engine {
namespace {

using message::FinishReason;
using namespace std::chrono_literals;

constexpr Balancer::Options kPoolOptions{
    .failures = 3, .first_pause = 20ms, .longest_pause = 100ms, .check_period = 20ms};

/// How a server behaves: 'o' answers "Hello"; 'f' fails before its first token; 'm' fails after
/// "He"; 'i' says that the request is wrong; 'g' says so if there is a grammar; 's' cannot be
/// started; 'x' refuses the request on this side; 'b' sends more than it may; 'h' sends nothing;
/// 'l' answers until it is stopped.
Expected<Script> behave(char how, const GenerateRequest& request) {
  const Error lost{Errc::unavailable, "gone"};
  const Error fault{Errc::invalid, "a bad request"};
  switch (how) {
    case 'f':
      return Script{.text = "", .end = FinishReason::error, .error = lost};
    case 'm':
      return Script{.text = "He", .end = FinishReason::error, .error = lost};
    case 'i':
      return Script{.text = "", .end = FinishReason::error, .error = fault};
    case 'g':
      if (request.printed == nullptr) break;
      return Script{.text = "", .end = FinishReason::error, .error = fault};
    case 's':
      return Unexpected(lost);
    case 'x':
      return Unexpected(fault);
    case 'b':
      return Script{
          .text = "", .end = FinishReason::error, .error = {Errc::limit_exceeded, "too much"}};
    case 'h':
      return Script{.text = "x", .delay = 1h};
    case 'l':
      return Script{.text = std::string(100'000, 'x'), .delay = 1ms};
    default:
      break;
  }
  return Script{.text = "Hello"};
}

/// Servers that record what they were asked.
struct Fleet {
  explicit Fleet(std::string_view all, ScriptedEngine::Options engine = {})
      : behaviours(all.size()) {
    engine.constrained_by = ConstrainedBy::gbnf;
    for (std::size_t i = 0; i < all.size(); ++i) {
      behaviours[i] = all[i];
      engines.push_back(nullptr);
      options.push_back(engine);
    }
  }

  std::vector<PoolServer> servers() {
    std::vector<PoolServer> all;
    for (std::size_t i = 0; i < behaviours.size(); ++i) {
      all.push_back({"http://" + std::string(1, static_cast<char>('a' + i)),
                     [this, i]() -> Expected<std::unique_ptr<Engine>> {
                       if (behaviours[i] == '-') {
                         return Unexpected(Error{Errc::unavailable, "not there"});
                       }
                       auto engine = std::make_unique<ScriptedEngine>(
                           options[i], [this, i](const GenerateRequest& request) {
                             return behave(behaviours[i], request);
                           });
                       engines[i] = engine.get();
                       return engine;
                     }});
    }
    return all;
  }

  std::string asked() const {
    std::string counts;
    for (const ScriptedEngine* const engine : engines) {
      counts += engine == nullptr ? "-" : std::to_string(engine->requests().size());
    }
    return counts;
  }

  std::vector<std::atomic<char>> behaviours;
  std::vector<ScriptedEngine::Options> options;
  std::vector<ScriptedEngine*> engines;
};

struct PoolRow {
  std::string_view name;
  std::string_view servers;
  std::string_view text;
  FinishReason reason = FinishReason::stop;
  std::string_view error = {};
  std::string_view asked;  // how many runs each server got
  bool has_grammar = false;
  std::string_view unconstrained_because = {};
  bool must_be_constrained = false;
};

const PoolRow kPoolRows[] = {
    {"One", "o", "Hello", FinishReason::stop, "", "1"},
    {"OneFails", "f", "", FinishReason::error, "gone", "1"},
    {"AnotherAnswers", "fo", "Hello", FinishReason::stop, "", "11"},
    {"TheThirdAnswers", "fso", "Hello", FinishReason::stop, "", "101"},
    {"AllFail", "ff", "", FinishReason::error, "gone", "11"},
    {"NotOnceItHasBegun", "mo", "He", FinishReason::error, "gone", "10"},
    {"NotWhereTheRequestIsAtFault", "io", "", FinishReason::error, "bad", "10"},
    {"OneSaysTooMuch", "bo", "Hello", FinishReason::stop, "", "11"},
    {"ADownOneIsNotAsked", "-o", "Hello", FinishReason::stop, "", "-1"},
    {"TheGrammarIsAtFault", "g", "Hello", FinishReason::stop, "", "2", true,
     "the server refused the grammar: a bad request"},
    {"TheGrammarIsNot", "i", "", FinishReason::error, "bad", "2", true},
    {"TheGrammarAndThenTheServer", "fg", "Hello", FinishReason::stop, "", "12", true,
     "the server refused the grammar: a bad request"},
    {"TheGrammarThatWasAskedForIsAtFault", "g", "", FinishReason::error, "a bad request", "1", true,
     "", true},
};

TEST(Pool, GoesOnElsewhereBeforeTheFirstTokenOnly) {
  for (const PoolRow& row : kPoolRows) {
    SCOPED_TRACE(row.name);
    Fleet fleet(row.servers);
    // A server that has failed stays away for longer than this test takes.
    auto pool = connect_pool(fleet.servers(), {.failures = 2, .check_period = 10s});
    ASSERT_TRUE(pool) << pool.error().message;
    auto sink = std::make_shared<RecordingSink>();
    GenerateRequest request{.prompt = {1, 2, 3}};
    if (row.has_grammar) request.printed = std::make_shared<const std::string>("root ::= .*");
    request.must_be_constrained = row.must_be_constrained;
    const auto run = (*pool)->start(request, sink);
    ASSERT_TRUE(run) << run.error().message;
    ASSERT_TRUE(sink->wait_end());
    EXPECT_EQ(sink->text(), row.text);
    EXPECT_EQ(sink->end()->reason, row.reason);
    EXPECT_EQ(sink->end()->unconstrained_because, row.unconstrained_because);
    if (row.reason == FinishReason::error) {
      EXPECT_NE(sink->end()->error.message.find(row.error), std::string::npos);
    }
    EXPECT_EQ(sink->calls_after_end(), 0U);
    EXPECT_EQ(fleet.asked(), row.asked);
  }
}

TEST(Pool, TellsWhichServersWereAsked) {
  struct Row {
    std::string_view servers;
    std::string_view told;  // a letter for each attempt, `!` behind one that failed
    bool has_grammar = false;
  };
  const Row rows[] = {{"o", "a"},  {"f", "a!"},  {"fso", "a!b!c"},  {"ff", "a!b!"},
                      {"mo", "a"}, {"io", "a!"}, {"g", "a!a", true}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.servers);
    Fleet fleet(row.servers);
    auto pool = connect_pool(fleet.servers(), {.failures = 2, .check_period = 10s});
    ASSERT_TRUE(pool) << pool.error().message;
    auto sink = std::make_shared<RecordingSink>();
    GenerateRequest request{.prompt = {1, 2, 3}};
    if (row.has_grammar) request.printed = std::make_shared<const std::string>("root ::= .*");
    const auto run = (*pool)->start(request, sink);
    ASSERT_TRUE(run) << run.error().message;
    ASSERT_TRUE(sink->wait_end());
    const RunEnd end = *sink->end();
    std::string told;
    for (const message::Attempt& attempt : end.attempts) {
      told += attempt.server.back();
      if (!attempt.error.empty()) told += '!';
    }
    EXPECT_EQ(told, row.told);
  }
}

TEST(Pool, OneIsAskedAlthoughAllAreLeftAlone) {
  Fleet fleet("ff");
  auto pool = connect_pool(fleet.servers(), {.failures = 1, .first_pause = 10s});
  ASSERT_TRUE(pool);
  for (const std::string_view asked : {"11", "21", "31"}) {
    auto sink = std::make_shared<RecordingSink>();
    const auto run = (*pool)->start({.prompt = {1}}, sink);
    ASSERT_TRUE(run && sink->wait_end());
    EXPECT_EQ(sink->end()->error.message, "gone");
    EXPECT_EQ(fleet.asked(), asked);
  }
  fleet.behaviours[0] = 'o';
  auto sink = std::make_shared<RecordingSink>();
  const auto run = (*pool)->start({.prompt = {1}}, sink);
  ASSERT_TRUE(run && sink->wait_end());
  EXPECT_EQ(sink->text(), "Hello");
  EXPECT_TRUE((*pool)->stats().upstreams[0].is_up);
}

TEST(Pool, WhatIsRefusedHereTellsNothingOfTheServer) {
  Fleet fleet("f");
  auto pool = connect_pool(fleet.servers(), {.failures = 1, .first_pause = 10s});
  ASSERT_TRUE(pool);
  auto sink = std::make_shared<RecordingSink>();
  const auto run = (*pool)->start({.prompt = {1}}, sink);
  ASSERT_TRUE(run && sink->wait_end());
  fleet.behaviours[0] = 'x';
  EXPECT_EQ((*pool)->start({.prompt = {1}}, sink).error().code, Errc::invalid);
  const UpstreamStats stats = (*pool)->stats().upstreams[0];
  EXPECT_FALSE(stats.is_up);
  EXPECT_EQ(stats.refused, 0U);
  EXPECT_EQ(stats.running, 0U);
}

TEST(Pool, AServerThatSaysNothingUntilTheDeadlineHasFailed) {
  Fleet fleet("h");
  auto pool = connect_pool(fleet.servers(), {.failures = 1, .first_pause = 10s});
  ASSERT_TRUE(pool);
  auto sink = std::make_shared<RecordingSink>();
  const auto run = (*pool)->start({.prompt = {1}, .time_limit = 50ms}, sink);
  ASSERT_TRUE(run && sink->wait_end());
  EXPECT_EQ(sink->end()->reason, FinishReason::cancelled);
  const UpstreamStats stats = (*pool)->stats().upstreams[0];
  EXPECT_FALSE(stats.is_up);
  EXPECT_EQ(stats.failed, 1U);
  EXPECT_EQ(stats.trouble, "it said nothing until the deadline");
  // A run that was cancelled says nothing about its server.
  auto other = std::make_shared<RecordingSink>();
  const auto cancelled = (*pool)->start({.prompt = {1}}, other);
  ASSERT_TRUE(cancelled);
  (*cancelled)->cancel();
  ASSERT_TRUE(other->wait_end());
  EXPECT_EQ((*pool)->stats().upstreams[0].cancelled, 1U);
}

TEST(Pool, OneThatIsNotTheLastHasHalfOfTheTime) {
  Fleet fleet("fo");
  auto pool = connect_pool(fleet.servers(), kPoolOptions);
  ASSERT_TRUE(pool);
  auto sink = std::make_shared<RecordingSink>();
  const auto run = (*pool)->start({.prompt = {1}, .time_limit = 60s}, sink);
  ASSERT_TRUE(run && sink->wait_end());
  EXPECT_EQ(fleet.engines[0]->requests()[0].first_limit, 30s);
  EXPECT_EQ(fleet.engines[1]->requests()[0].first_limit, 0s);
}

// A run that is cancelled while its second attempt is being started does not go on.
TEST(Pool, MayBeCancelledBetweenTwoAttempts) {
  std::promise<void> is_starting;
  std::promise<void> may_start;
  const auto connect = [&](bool is_first) -> Expected<std::unique_ptr<Engine>> {
    return std::make_unique<ScriptedEngine>(
        ScriptedEngine::Options{}, [&, is_first](const GenerateRequest&) -> Expected<Script> {
          if (is_first) return behave('f', {});
          is_starting.set_value();
          may_start.get_future().wait();
          return behave('l', {});
        });
  };
  auto pool = connect_pool(
      {{"http://a", [&] { return connect(true); }}, {"http://b", [&] { return connect(false); }}},
      kPoolOptions);
  ASSERT_TRUE(pool);
  auto sink = std::make_shared<RecordingSink>();
  const auto run = (*pool)->start({.prompt = {1}}, sink);
  ASSERT_TRUE(run);
  is_starting.get_future().wait();
  (*run)->cancel();
  may_start.set_value();
  ASSERT_TRUE(sink->wait_end(10s));
  EXPECT_EQ(sink->end()->reason, FinishReason::cancelled);
  EXPECT_LT(sink->ids().size(), 1000U);
}

TEST(Pool, OneThatComesLaterAndDoesNotFitStaysOut) {
  Fleet fleet("-o");
  fleet.options[0].context_tokens = 100;
  auto pool = connect_pool(fleet.servers(), kPoolOptions);
  ASSERT_TRUE(pool);
  fleet.behaviours[0] = 'o';
  const auto trouble = [&] { return (*pool)->stats().upstreams[0].trouble; };
  for (int i = 0; i < 500 && trouble().find("context of 100") == std::string::npos; ++i) {
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_NE(trouble().find("context of 100"), std::string::npos) << trouble();
  EXPECT_FALSE((*pool)->stats().upstreams[0].is_up);
}

TEST(Pool, AServerThatComesLaterJoins) {
  Fleet fleet("-o");
  auto pool = connect_pool(fleet.servers(), kPoolOptions);
  ASSERT_TRUE(pool);
  EXPECT_FALSE((*pool)->stats().upstreams[0].is_up);
  EXPECT_EQ((*pool)->stats().upstreams[0].trouble, "not there");
  fleet.behaviours[0] = 'o';
  for (int i = 0; i < 500 && !(*pool)->stats().upstreams[0].is_up; ++i) {
    std::this_thread::sleep_for(10ms);
  }
  for (int i = 0; i < 2; ++i) {
    auto sink = std::make_shared<RecordingSink>();
    const auto run = (*pool)->start({.prompt = {1}}, sink);
    ASSERT_TRUE(run && sink->wait_end());
  }
  EXPECT_EQ(fleet.asked(), "11");
}

TEST(Pool, OneThatDoesNotTellItsContextJoinsToo) {
  Fleet fleet("-o");
  fleet.options[0].context_tokens = 0;
  auto pool = connect_pool(fleet.servers(), kPoolOptions);
  ASSERT_TRUE(pool);
  fleet.behaviours[0] = 'o';
  for (int i = 0; i < 500 && !(*pool)->stats().upstreams[0].is_up; ++i) {
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_TRUE((*pool)->stats().upstreams[0].is_up);
  EXPECT_EQ((*pool)->capabilities().context_tokens, 16384U);
}

TEST(Pool, AServerThatRecoversIsTriedOnce) {
  Fleet fleet("f");
  auto pool = connect_pool(fleet.servers(), kPoolOptions);
  ASSERT_TRUE(pool);
  for (int i = 0; i < 3; ++i) {
    auto sink = std::make_shared<RecordingSink>();
    const auto run = (*pool)->start({.prompt = {1}}, sink);
    ASSERT_TRUE(run && sink->wait_end());
  }
  EXPECT_FALSE((*pool)->stats().upstreams[0].is_up);
  fleet.behaviours[0] = 'o';
  for (int i = 0; i < 500 && !(*pool)->stats().upstreams[0].is_up; ++i) {
    std::this_thread::sleep_for(10ms);
  }
  auto sink = std::make_shared<RecordingSink>();
  const auto run = (*pool)->start({.prompt = {1}}, sink);
  ASSERT_TRUE(run && sink->wait_end());
  EXPECT_EQ(sink->text(), "Hello");
  EXPECT_EQ((*pool)->stats().upstreams[0].failed, 3U);
  EXPECT_EQ((*pool)->stats().upstreams[0].answered, 1U);
}

struct Unlike {
  std::string_view name;
  void (*change)(ScriptedEngine::Options& second);
  std::string_view error;  // "": none
  std::uint32_t context_tokens = 16384;
  std::uint32_t max_concurrent = 16;
};

const Unlike kUnlike[] = {
    {"Alike", [](auto&) {}, ""},
    {"ContextIsTheLeast", [](auto& second) { second.context_tokens = 100; }, "", 100},
    {"ContextIsNotTold", [](auto& second) { second.context_tokens = 0; }, ""},
    {"ContextOfTheFirst", [](auto& second) { second.context_tokens = 1 << 20; }, ""},
    {"Places", [](auto& second) { second.max_concurrent = 3; }, "", 16384, 11},
    {"Size", [](auto& second) { second.controls.push_back("<x>"); }, "vocabulary"},
    {"ATokensText", [](auto& second) { second.controls[2] = "<x>"; }, "vocabulary"},
    {"EndOfTurn", [](auto& second) { second.eos = "<|im_start|>"; }, "vocabulary"},
    {"Grammars", [](auto& second) { second.constrained_by = ConstrainedBy::ebnf; }, "grammars"},
    {"Template", [](auto& second) { second.chat_template = "x"; }, ""},
};

TEST(Pool, ServersMustHaveOneVocabulary) {
  for (const Unlike& row : kUnlike) {
    SCOPED_TRACE(row.name);
    Fleet fleet("oo");
    row.change(fleet.options[1]);
    const auto pool = connect_pool(fleet.servers(), kPoolOptions);
    EXPECT_EQ(pool.has_value(), row.error.empty());
    if (!pool) {
      EXPECT_EQ(pool.error().code, Errc::invalid);
      EXPECT_NE(pool.error().message.find(row.error), std::string::npos) << pool.error().message;
      continue;
    }
    EXPECT_EQ((*pool)->capabilities().context_tokens, row.context_tokens);
    EXPECT_EQ((*pool)->capabilities().max_concurrent, row.max_concurrent);
  }
}

// A tokenizer that asks a server which takes `takes` to answer, and counts the questions.
class AskingTokenizer final : public vocab::Tokenizer {
 public:
  AskingTokenizer(const vocab::Tokenizer& known, std::chrono::milliseconds takes)
      : known_(known), takes_(takes) {}

  Status encode(std::string_view text, vocab::Controls controls, bool at_start,
                std::vector<TokenId>& ids) const override {
    ++asked;
    const auto until = std::chrono::steady_clock::now() + takes_;
    while (std::chrono::steady_clock::now() < until) {
      if (patience::current().is_over()) return Unexpected(Error{Errc::unavailable, "too late"});
      std::this_thread::sleep_for(1ms);
    }
    return known_.encode(text, controls, at_start, ids);
  }
  std::size_t size() const override { return known_.size(); }
  std::string_view bytes(TokenId id) const override { return known_.bytes(id); }
  bool is_control(TokenId id) const override { return known_.is_control(id); }
  bool ends_generation(TokenId id) const override { return known_.ends_generation(id); }
  std::optional<TokenId> control_token(std::string_view text) const override {
    return known_.control_token(text);
  }
  std::optional<TokenId> bos() const override { return known_.bos(); }
  std::optional<TokenId> eos() const override { return known_.eos(); }
  bool adds_bos() const override { return known_.adds_bos(); }

  mutable std::atomic<int> asked = 0;

 private:
  const vocab::Tokenizer& known_;
  const std::chrono::milliseconds takes_;
};

class AskingEngine final : public Engine {
 public:
  explicit AskingEngine(std::chrono::milliseconds takes)
      : engine_({}, [](const GenerateRequest&) { return Script{.text = "Hello"}; }),
        asking(engine_.tokenizer(), takes) {}

  const Capabilities& capabilities() const override { return engine_.capabilities(); }
  const vocab::Tokenizer& tokenizer() const override { return asking; }
  std::string_view chat_template() const override { return engine_.chat_template(); }
  Expected<std::unique_ptr<Run>> start(GenerateRequest request,
                                       std::shared_ptr<EventSink> sink) override {
    return engine_.start(std::move(request), std::move(sink));
  }

 private:
  ScriptedEngine engine_;

 public:
  AskingTokenizer asking;
};

struct QuestionRow {
  std::string_view name;
  std::vector<std::chrono::milliseconds> takes;  // of each server's answer
  std::vector<int> asked;                        // by two questions
};

const QuestionRow kQuestionRows[] = {
    {"OneServerIsWaitedFor", {300ms}, {2}},
    {"TheFirstIsGivenUpForTheNext", {1h, 1ms}, {1, 2}},
    {"EachIfNeedBe", {1h, 1h, 1ms}, {1, 1, 2}},
    {"AFastOneIsKept", {1ms, 1ms}, {2, 0}},
    {"IfAllAreSlowTheyHaveMoreTime", {250ms, 1h}, {3, 1}},
    {"WhicheverAnswers", {1h, 250ms}, {2, 3}},
};

TEST(Pool, AsksTheNextForTokensWhenOneTakesLong) {
  for (const QuestionRow& row : kQuestionRows) {
    SCOPED_TRACE(row.name);
    std::vector<AskingEngine*> engines(row.takes.size());
    std::vector<PoolServer> servers;
    for (std::size_t i = 0; i < row.takes.size(); ++i) {
      servers.push_back(
          {"http://" + std::to_string(i), [&, i]() -> Expected<std::unique_ptr<Engine>> {
             auto engine = std::make_unique<AskingEngine>(row.takes[i]);
             engines[i] = engine.get();
             return engine;
           }});
    }
    const auto pool = connect_pool(std::move(servers), kPoolOptions);
    ASSERT_TRUE(pool);
    for (int i = 0; i < 2; ++i) {
      std::vector<TokenId> ids;
      EXPECT_TRUE((*pool)->tokenizer().encode("ab", vocab::Controls::off, true, ids));
      EXPECT_EQ(ids.size(), 2u);
    }
    for (std::size_t i = 0; i < row.asked.size(); ++i) {
      EXPECT_EQ(engines[i]->asking.asked, row.asked[i]) << "server " << i;
    }
  }
}

TEST(Pool, IsNotThere) {
  Fleet two("--");
  EXPECT_EQ(connect_pool(two.servers(), kPoolOptions).error().message,
            "no server of the model is there: not there; not there");
  Fleet one("-");
  const auto pool = connect_pool(one.servers(), kPoolOptions);
  ASSERT_FALSE(pool);
  EXPECT_EQ(pool.error(), (Error{Errc::unavailable, "not there"}));
  EXPECT_EQ(connect_pool({}).error().code, Errc::invalid);
  EXPECT_EQ(connect_pool(std::vector<PoolServer>(65)).error().code, Errc::invalid);
}

TEST(Pool, CancelsPausesAndEndsInTime) {
  Fleet fleet("l");
  auto pool = connect_pool(fleet.servers(), kPoolOptions);
  ASSERT_TRUE(pool);
  auto sink = std::make_shared<RecordingSink>();
  const auto run = (*pool)->start({.prompt = {1}}, sink);
  ASSERT_TRUE(run && sink->wait_tokens(3));
  (*run)->pause();
  std::this_thread::sleep_for(50ms);
  const std::size_t paused_at = sink->ids().size();
  std::this_thread::sleep_for(50ms);
  EXPECT_LE(sink->ids().size(), paused_at + 1);
  (*run)->resume();
  ASSERT_TRUE(sink->wait_tokens(paused_at + 10));
  EXPECT_EQ((*pool)->stats().unfinished, 1U);
  const auto begun = std::chrono::steady_clock::now();
  (*run)->cancel();
  ASSERT_TRUE(sink->wait_end());
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 100ms);
  EXPECT_EQ(sink->end()->reason, FinishReason::cancelled);
  EXPECT_EQ((*pool)->stats().unfinished, 0U);

  auto limited = std::make_shared<RecordingSink>();
  const auto slow = (*pool)->start({.prompt = {1}, .time_limit = 50ms}, limited);
  ASSERT_TRUE(slow && limited->wait_end(5s));
  EXPECT_EQ(limited->end()->reason, FinishReason::cancelled);
}

// Runs end, move to other servers and are dropped while the pool is destroyed.
TEST(Pool, MayBeDestroyedWhileRunsGoOn) {
  for (int i = 0; i < (is_long_test() ? 50 : 18); ++i) {
    Fleet fleet(i % 2 == 0 ? "ffl" : "lfm");
    auto pool = connect_pool(fleet.servers(), kPoolOptions);
    ASSERT_TRUE(pool);
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    std::vector<std::unique_ptr<engine::Run>> runs;
    for (int k = 0; k < 8; ++k) {
      sinks.push_back(std::make_shared<RecordingSink>());
      auto run = (*pool)->start({.prompt = {1}}, sinks.back());
      if (run) {
        runs.push_back(*std::move(run));
      } else {
        sinks.pop_back();
      }
    }
    if (i % 3 == 0) runs.clear();
    pool->reset();
    for (const auto& sink : sinks) {
      EXPECT_TRUE(sink->wait_end(5s));
      EXPECT_EQ(sink->calls_after_end(), 0U);
    }
  }
}

TEST(Pool, RunsSpreadAndFollowTheirPrompts) {
  Fleet fleet("ooo");
  auto pool = connect_pool(fleet.servers(), kPoolOptions);
  ASSERT_TRUE(pool);
  for (int turn = 1; turn < 4; ++turn) {
    for (TokenId session = 0; session < 6; ++session) {
      auto sink = std::make_shared<RecordingSink>();
      GenerateRequest request{
          .prompt = std::vector<TokenId>(static_cast<std::size_t>(turn) * 64, session)};
      const auto run = (*pool)->start(request, sink);
      ASSERT_TRUE(run && sink->wait_end());
    }
  }
  EXPECT_EQ(fleet.asked(), "666");
  for (const ScriptedEngine* const engine : fleet.engines) {
    std::vector<TokenId> sessions;
    for (const GenerateRequest& request : engine->requests()) {
      sessions.push_back(request.prompt[0]);
    }
    ASSERT_EQ(sessions.size(), 6U);
    EXPECT_EQ((std::vector<TokenId>{sessions[2], sessions[3], sessions[4], sessions[5]}),
              (std::vector<TokenId>{sessions[0], sessions[1], sessions[0], sessions[1]}));
  }
}

}  // namespace
}  // namespace tenon::engine
