#include "tenon/engine/upstream/balancer.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::engine {
namespace {

using namespace std::chrono_literals;
using End = Balancer::End;
using Now = Balancer::Clock::time_point;

constexpr Balancer::Options kBalancerOptions{.failures = 2, .first_pause = 1s, .longest_pause = 3s};

Balancer balancer_of(std::size_t count) {
  std::vector<std::string> urls;
  for (std::size_t i = 0; i < count; ++i) urls.push_back("http://" + std::string(1, char('a' + i)));
  return Balancer(urls, kBalancerOptions);
}

std::vector<std::uint64_t> prompt_of(std::string_view text, std::size_t blocks) {
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < 64 * blocks; ++i) {
    ids.push_back(static_cast<TokenId>(text[i % text.size()] + (i / 64)));
  }
  return prefixes(ids);
}

// What has happened to a server, by its letter. "+a4": it has joined with 4 places. A run is chosen
// for it and "ra" goes on, "fa" fails, "oa" ends well, "ca" is cancelled, "ua" is not sent, "ba" is
// refused because the server is busy. For the oldest run that goes on: "ta" a token comes and the
// run is cancelled, "Fa", "Oa", "Ca" it ends in that way. "x": time passes to the next check, which
// fails; "k": the same, and it succeeds. Runs are sent to a server by its number; what choose()
// says is asked only at the end.
struct BalancerRow {
  std::string_view name;
  std::string_view events;
  std::string_view chosen;  // choices after that, one after the other; '-': no server
};

const BalancerRow kBalancerRows[] = {
    {"NobodyIsThere", "", "-"},
    {"OneServer", "+a1", "aaa"},
    {"TheLeastBusyByPlaces", "+a1 +b3", "abbbabbb"},
    {"InTurnWhereNoneIsBusy", "+a4 +b4 +c4", "abcabc"},
    {"OneFailureIsNothing", "+a4 +b4 fa", "ba"},
    {"TwoInARow", "+a4 +b4 fa fa", "bb"},
    {"NotInARow", "+a4 +b4 fa oa fa", "ba"},
    {"ACancelledRunTellsNothing", "+a4 +b4 fa ca fa", "bb"},
    {"AfterACheckOneRunAtATime", "+a4 +b1 fa fa ka", "babb"},
    {"TheTrialSucceeds", "+a4 +b1 fa fa ka ra ta", "baaa"},
    {"TheTrialFails", "+a4 +b1 fa fa ka fa", "bb"},
    {"TheTrialIsCancelled", "+a4 +b1 fa fa ka ca", "babb"},
    {"TheCheckFails", "+a4 +b1 fa fa xa", "bb"},
    {"AFailedCheckIsNothing", "+a4 +b1 xa", "ab"},
    {"TwoFailedChecks", "+a4 +b1 xa xa", "bb"},
    {"AGoodCheckInBetween", "+a4 +b1 xa ka xa", "ab"},
    {"AGoodCheckForgetsNoRun", "+a4 +b1 fa ka fa", "bb"},
    {"OneThatFailsAtOnceAgain", "+a4 +b1 fa fa ka ra ta fa", "bb"},
    {"AnUnsentRunTellsNothing", "+a4 +b4 fa ua fa", "bb"},
    {"ABusyServerIsThere", "+a4 +b4 ba ba ba", "ba"},
    {"AndTellsNothingOfFailures", "+a4 +b4 fa ba fa", "bb"},
    {"ABusyServerIsStillOnTrial", "+a4 +b1 fa fa ka ba", "babb"},
    {"AnUnsentRunIsNoTrial", "+a4 +b1 fa fa ka ua", "babb"},
    {"AnOldAnswerBringsNobodyBack", "+a4 +b1 ra fa fa Oa", "bb"},
    {"NorDoesAnOldToken", "+a4 +b1 ra fa fa ta", "bb"},
    {"NorDuringTheTrial", "+a4 +b1 ra fa fa ka ra Oa", "bb"},
    {"AnOldEndLeavesTheTrialAlone", "+a4 +b1 ra fa fa ka ra Ca", "bb"},
    {"AnOldFailureIsNotTheTrials", "+a4 +b1 ra fa fa ka Fa", "babb"},
    {"NorAnotherOne", "+a4 +b1 ra ra fa fa ka ra ta Fa Fa", "bb"},
    {"WhereAllAreLeftAloneTheNextIsAsked", "+a1 +b1 fb fb xa xa", "bb"},
};

TEST(Balancer, ChoosesAndLeavesAlone) {
  for (const BalancerRow& row : kBalancerRows) {
    SCOPED_TRACE(row.name);
    Balancer balancer = balancer_of(3);
    Now now{};
    std::map<std::size_t, std::deque<Balancer::Ticket>> going_on;
    const auto only = [&](std::size_t server) {
      const auto chosen = balancer.choose({}, ~(Balancer::Servers(1) << server), now);
      EXPECT_TRUE(chosen);
      return chosen.value_or(Balancer::Ticket{});
    };
    const auto oldest = [&](std::size_t server) {
      const Balancer::Ticket run = going_on[server].front();
      going_on[server].pop_front();
      return run;
    };
    for (std::size_t at = 0; at < row.events.size(); ++at) {
      const char what = row.events[at];
      if (what == ' ') continue;
      const auto server = static_cast<std::size_t>(row.events[++at] - 'a');
      if (what == '+') balancer.joined(server, static_cast<unsigned>(row.events[++at] - '0'));
      if (what == 'r') going_on[server].push_back(only(server));
      if (what == 't') {
        const Balancer::Ticket run = oldest(server);
        balancer.began(run, 1ms, now);
        balancer.ended(run, End::cancelled, "", now);
      }
      const std::string_view ends = "ofcubOFC";
      if (const std::size_t how = ends.find(what); how != std::string_view::npos) {
        const End all[] = {End::answered, End::failed, End::cancelled, End::unsent, End::busy};
        const Balancer::Ticket run = how < 5 ? only(server) : oldest(server);
        balancer.ended(run, all[how % 5], "why", now);
      }
      if (what == 'x' || what == 'k') {
        now = std::max(now, balancer.next_check(server));
        Status status;
        if (what == 'x') status = Unexpected(Error{Errc::unavailable, "why"});
        balancer.checked(server, status, now);
      }
    }
    std::string chosen;
    while (chosen.size() < row.chosen.size()) {
      const auto server = balancer.choose({}, {}, {});
      chosen += server ? static_cast<char>('a' + server->server) : '-';
    }
    EXPECT_EQ(chosen, row.chosen);
  }
}

TEST(Balancer, PausesDoubleUpToALimit) {
  Balancer balancer = balancer_of(1);
  balancer.joined(0, 1);
  Now now{};
  std::vector<Balancer::Clock::duration> pauses;
  const Status fails = Unexpected(Error{Errc::unavailable, "why"});
  balancer.checked(0, fails, now);
  for (int i = 0; i < 4; ++i) {
    balancer.checked(0, fails, now);
    pauses.push_back(balancer.next_check(0) - now);
    now = balancer.next_check(0);
  }
  EXPECT_EQ(pauses, (std::vector<Balancer::Clock::duration>{1s, 2s, 3s, 3s}));
  balancer.checked(0, {}, now);
  const auto run = balancer.choose({}, {}, {});
  ASSERT_TRUE(run);
  balancer.ended(*run, End::answered, "", now);
  balancer.checked(0, fails, now);
  balancer.checked(0, fails, now);
  EXPECT_EQ(balancer.next_check(0) - now, Balancer::Clock::duration(1s));
}

TEST(Balancer, OneThatAnswersIsCheckedOnceItFails) {
  Balancer balancer = balancer_of(1);
  balancer.joined(0, 1);
  const Now now = Now{} + 100s;
  balancer.checked(0, {}, now);
  EXPECT_EQ(balancer.next_check(0), now + 5s);
  const auto first = balancer.choose({}, {}, {});
  const auto second = balancer.choose({}, {}, {});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(balancer.next_check(0), Now::max());
  balancer.ended(*first, End::failed, "why", now + 60s);
  EXPECT_EQ(balancer.next_check(0), now + 60s);  // although it has another run
  balancer.checked(0, {}, now + 61s);
  EXPECT_EQ(balancer.next_check(0), Now::max());
  balancer.ended(*second, End::answered, "", now + 70s);
  EXPECT_EQ(balancer.next_check(0), now + 75s);
}

TEST(Balancer, OneThatNeverCameIsMetMoreAndMoreSeldom) {
  Balancer balancer = balancer_of(1);
  Now now{};
  for (const auto pause : {1s, 2s, 3s, 3s}) {
    balancer.checked(0, Unexpected(Error{Errc::unavailable, "why"}), now);
    EXPECT_EQ(balancer.next_check(0) - now, pause);
    EXPECT_FALSE(balancer.choose({}, {}, {}));
    now = balancer.next_check(0);
  }
  EXPECT_EQ(balancer.troubles(), "no server of the model is there: why");
}

TEST(Balancer, APromptGoesWhereItsBeginningIsKnown) {
  Balancer balancer = balancer_of(3);
  for (std::size_t i = 0; i < 3; ++i) balancer.joined(i, 4);
  const auto ask = [&](const std::vector<std::uint64_t>& prompt) {
    const auto run = balancer.choose(prompt, {}, {}).value_or(Balancer::Ticket{});
    balancer.ended(run, End::answered, "", {});
    return run.server;
  };
  const std::size_t first = ask(prompt_of("first", 2));
  const std::size_t second = ask(prompt_of("second", 2));
  EXPECT_NE(first, second);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ask(prompt_of("first", 3)), first);  // its next turn
    EXPECT_EQ(ask(prompt_of("second", 9)), second);
  }
  EXPECT_NE(ask(prompt_of("third", 1)), second);
  // The longer beginning decides: both servers know a short one, and one of them knows more.
  auto longer = prompt_of("first", 2);
  longer.push_back(1);
  const auto other = balancer.choose(longer, Balancer::Servers(1) << first, {});
  ASSERT_TRUE(other);
  balancer.ended(*other, End::answered, "", {});
  longer.push_back(2);
  EXPECT_EQ(ask(longer), other->server);
}

TEST(Balancer, UnlessThatServerIsMuchBusier) {
  Balancer balancer = balancer_of(2);
  for (std::size_t i = 0; i < 2; ++i) balancer.joined(i, 4);
  const auto prompt = prompt_of("first", 2);
  std::string chosen;
  for (int i = 0; i < 8; ++i) {
    chosen += static_cast<char>(
        'a' + balancer.choose(prompt, {}, {}).value_or(Balancer::Ticket{}).server);
  }
  EXPECT_EQ(chosen, "aaabbbab");  // from the fourth choice on both know it
}

// Servers with places and queues, and a client whose runs come every 20 ms for a minute, two thirds
// of them with a beginning that is known. A first token takes what the row says.
class Traffic {
 public:
  using Took = std::chrono::milliseconds (*)(std::size_t server, bool is_known, std::size_t i);

  Traffic(std::size_t servers, std::uint32_t places)
      : balancer_(
            [&] {
              std::vector<std::string> urls;
              for (std::size_t i = 0; i < servers; ++i)
                urls.push_back("http://" + std::to_string(i));
              return urls;
            }(),
            {.check_period = 5s}),
        busy_(servers, std::vector<Now>(places)) {
    for (std::size_t i = 0; i < servers; ++i) balancer_.joined(i, places);
  }

  // Which server gets run `i`, at `now`.
  std::size_t run(std::size_t i, Now now, bool is_known, Took took,
                  std::chrono::milliseconds lasts) {
    finish(now);
    const auto prompt = is_known ? prompt_of("known", 32) : prompt_of("x" + std::to_string(i), 32);
    const auto run = balancer_.choose(prompt, {}, now, 2048).value_or(Balancer::Ticket{});
    Now& place = *std::ranges::min_element(busy_[run.server]);
    const Now first = std::max(now, place) + took(run.server, is_known, i);
    place = first + lasts;
    coming_.emplace(first, Event{run, now, false});
    coming_.emplace(place, Event{run, now, true});
    return run.server;
  }

 private:
  struct Event {
    Balancer::Ticket run;
    Now begun;
    bool is_end = false;
  };

  void finish(Now now) {
    while (!coming_.empty() && coming_.begin()->first <= now) {
      const auto [at, event] = *coming_.begin();
      coming_.erase(coming_.begin());
      if (event.is_end) {
        balancer_.ended(event.run, End::answered, "", at);
      } else {
        balancer_.began(event.run, at - event.begun, at);
      }
    }
  }

  Balancer balancer_;
  std::vector<std::vector<Now>> busy_;  // when each place is free
  std::multimap<Now, Event> coming_;
};

struct PaceRow {
  std::string_view name;
  std::size_t servers;
  Traffic::Took took;
  std::size_t least[2];  // of the runs that the last server gets in each half, of 1,500
  std::size_t most[2];
};

const PaceRow kPaceRows[] = {
    {"EquallyFast", 3, [](auto, auto, auto) { return 40ms; }, {150, 150}, {1200, 1200}},
    {"ALittleSlower",
     3,
     [](auto server, auto, auto) { return server == 2 ? 400ms : 40ms; },
     {20, 20},
     {1200, 1200}},
    {"OneIsSlow",
     3,
     [](auto server, auto, auto) { return server == 2 ? 8000ms : 40ms; },
     {3, 3},
     {60, 8}},
    {"OneBecomesSlow",
     3,
     [](auto server, auto, auto i) { return server == 2 && i >= 1500 ? 8000ms : 40ms; },
     {150, 3},
     {1200, 80}},
    {"OneRecovers",
     3,
     [](auto server, auto, auto i) { return server == 2 && i < 1500 ? 8000ms : 40ms; },
     {3, 150},
     {60, 1200}},
    {"AllAreSlow", 3, [](auto, auto, auto) { return 4000ms; }, {400, 400}, {600, 600}},
    // Equal servers: what no cache knows takes a hundred times as long.
    {"ColdPromptsAreSlow",
     2,
     [](auto, auto is_known, auto) { return is_known ? 20ms : 2000ms; },
     {150, 150},
     {1350, 1350}},
    {"OneRunOfManyHangs",
     2,
     [](auto, auto, auto i) { return i % 100 == 7 ? 9000ms : 40ms; },
     {300, 300},
     {1200, 1200}},
};

TEST(Balancer, ASlowServerGetsARunNowAndThen) {
  for (const PaceRow& row : kPaceRows) {
    SCOPED_TRACE(row.name);
    Traffic traffic(row.servers, 32);
    std::size_t got[2] = {0, 0};
    for (std::size_t i = 0; i < 3000; ++i) {
      const std::size_t server = traffic.run(i, Now{} + i * 20ms, i % 3 != 0, row.took, 5ms);
      if (server == row.servers - 1) ++got[i / 1500];
    }
    for (const std::size_t half : {0, 1}) {
      SCOPED_TRACE(half);
      EXPECT_GE(got[half], row.least[half]);
      EXPECT_LE(got[half], row.most[half]);
    }
  }
}

// Runs that wait for a place say nothing of their server's speed, so a burst leaves the servers as
// they were.
TEST(Balancer, ABurstMakesNoServerSlow) {
  Traffic traffic(3, 4);
  const auto took = [](auto, auto, auto) { return 40ms; };
  for (std::size_t i = 0; i < 30; ++i) traffic.run(i, Now{} + i * 1s, false, took, 100ms);
  std::size_t got[3] = {0, 0, 0};
  for (std::size_t i = 0; i < 60; ++i) ++got[traffic.run(100 + i, Now{} + 30s, false, took, 10s)];
  for (std::size_t i = 0; i < 60; ++i) {
    ++got[traffic.run(200 + i, Now{} + 31s + i * 300ms, false, took, 10s)];
  }
  for (const std::size_t each : got) EXPECT_NEAR(static_cast<double>(each), 40, 6);
}

// A prompt of 8,192 tokens may take eight times as long as one of 1,024.
TEST(Balancer, ALongPromptDoesNotMakeAServerSlow) {
  for (const auto& [waits, is_slow] : {std::pair(11s, false), std::pair(13s, true)}) {
    Balancer balancer = balancer_of(2);
    for (std::size_t i = 0; i < 2; ++i) balancer.joined(i, 16);
    const auto only = [&](std::size_t server, std::size_t blocks, std::string_view text) {
      return balancer
          .choose(prompt_of(text, blocks), ~(Balancer::Servers(1) << server), {}, 64 * blocks)
          .value_or(Balancer::Ticket{});
    };
    for (const std::string_view text : {"one", "two", "three"}) {
      const auto short_one = only(0, 1, text);
      balancer.began(short_one, 100ms, {});
      balancer.ended(short_one, End::answered, "", {});
    }
    for (const std::string_view text : {"four", "five", "six"}) only(1, 128, text);
    std::string chosen;
    for (int i = 0; i < 4; ++i) {
      const auto run = balancer.choose({}, {}, Now{} + waits).value_or(Balancer::Ticket{});
      chosen += static_cast<char>('a' + run.server);
      if (run.server == 0) only(0, 1, "seven" + std::to_string(i));
    }
    EXPECT_EQ(chosen.find('b') == std::string::npos, is_slow) << chosen;
  }
}

// A client that leaves before the first token has waited as long as it has.
TEST(Balancer, RunsThatWereCancelledTellOfAServerThatHangs) {
  Balancer balancer = balancer_of(2);
  for (std::size_t i = 0; i < 2; ++i) balancer.joined(i, 16);
  Now now{};
  std::size_t hung = 0;
  for (int i = 0; i < 40; ++i) {
    const auto run = balancer.choose({}, {}, now).value_or(Balancer::Ticket{});
    if (run.server == 1) {
      ++hung;
      now += 3s;
      balancer.ended(run, End::cancelled, "", now);
    } else {
      now += 50ms;
      balancer.began(run, 50ms, now);
      balancer.ended(run, End::answered, "", now);
    }
  }
  EXPECT_LE(hung, 6u);
}

// A run of a kind that no other server has had says nothing of a server that hangs.
TEST(Balancer, ASlowServerStaysSlowWhereNothingCompares) {
  Balancer balancer = balancer_of(2);
  for (std::size_t i = 0; i < 2; ++i) balancer.joined(i, 16);
  const auto only = [&](std::size_t server, const std::vector<std::uint64_t>& prompt, Now now) {
    return balancer.choose(prompt, ~(Balancer::Servers(1) << server), now)
        .value_or(Balancer::Ticket{});
  };
  const auto known = prompt_of("known", 4);
  for (int i = 0; i < 3; ++i) balancer.began(only(0, {}, {}), 50ms, {});
  std::vector<Balancer::Ticket> hung;
  for (int i = 0; i < 3; ++i) hung.push_back(only(1, {}, {}));
  only(1, known, {});
  const auto warm = only(1, known, {});
  EXPECT_EQ(balancer.choose({}, {}, Now{} + 3s).value_or(Balancer::Ticket{1}).server, 0u);
  balancer.began(warm, 4s, Now{} + 4s);
  // Nothing is under way there any more, but it gets no run before its trial is due.
  for (const auto& run : hung) balancer.ended(run, End::busy, "", Now{} + 4s);
  EXPECT_EQ(balancer.choose({}, {}, Now{} + 4s).value_or(Balancer::Ticket{1}).server, 0u);
}

TEST(Balancer, RemembersSoManyBeginningsAndNoMore) {
  Balancer::Options options = kBalancerOptions;
  options.max_prefixes = 4;
  Balancer balancer({"http://a", "http://b"}, options);
  for (std::size_t i = 0; i < 2; ++i) balancer.joined(i, 4);
  const auto ask = [&](std::uint64_t prompt) {
    const auto run = balancer.choose(std::vector{prompt}, {}, {}).value_or(Balancer::Ticket{});
    balancer.ended(run, End::answered, "", {});
    return run.server;
  };
  EXPECT_EQ(ask(1), 0U);
  EXPECT_EQ(ask(2), 1U);
  EXPECT_EQ(ask(2), 1U);
  EXPECT_EQ(ask(1), 0U);
  for (std::uint64_t i = 10; i < 14; ++i) ask(i);
  EXPECT_EQ(ask(1), 1U);  // the prompt counts as new again, and 0 was chosen last
}

TEST(Balancer, CountsWhatBecameOfRuns) {
  Balancer balancer = balancer_of(1);
  balancer.joined(0, 4);
  for (const End end : {End::answered, End::answered, End::refused, End::failed, End::cancelled}) {
    const auto run = balancer.choose({}, {}, {});
    ASSERT_TRUE(run);
    balancer.began(*run, 2ms, {});
    balancer.ended(*run, end, "why", {});
  }
  balancer.ended(balancer.choose({}, {}, {}).value_or(Balancer::Ticket{}), End::unsent, "why", {});
  ASSERT_TRUE(balancer.choose({}, {}, {}));
  const UpstreamStats stats = balancer.stats().at(0);
  EXPECT_EQ(stats, (UpstreamStats{.url = "http://a",
                                  .is_up = true,
                                  .trouble = "why",
                                  .running = 1,
                                  .answered = 2,
                                  .refused = 1,
                                  .failed = 1,
                                  .cancelled = 1,
                                  .first_tokens = 5,
                                  .first_token_nanoseconds = 10'000'000}));
}

TEST(Prefixes, AreOfWholeBlocksAndDependOnAllBefore) {
  std::vector<TokenId> prompt(200, 7);
  const auto all = prefixes(prompt);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_NE(all[0], all[1]);
  EXPECT_NE(all[1], all[2]);
  prompt[64] = 8;
  const auto other = prefixes(prompt);
  EXPECT_EQ(other[0], all[0]);
  EXPECT_NE(other[1], all[1]);
  EXPECT_NE(other[2], all[2]);
  EXPECT_EQ(prefixes(std::vector<TokenId>(63, 7)).size(), 0U);
  EXPECT_EQ(prefixes(std::vector<TokenId>(100'000, 7)).size(), 512U);
}

TEST(Prefixes, OfMessagesAreOnesForEach) {
  const auto of = [](std::vector<std::string> texts, std::string tool = "t") {
    auto chat = std::make_shared<message::ChatRequest>();
    chat->tools.push_back({.name = std::move(tool)});
    for (std::string& text : texts) chat->messages.push_back({.content = std::move(text)});
    return prefixes(GenerateRequest{.chat = std::move(chat)});
  };
  const auto two = of({"a", "b"});
  const auto three = of({"a", "b", "c"});
  ASSERT_EQ(three.size(), 3U);
  EXPECT_TRUE(std::equal(two.begin(), two.end(), three.begin()));
  EXPECT_NE(of({"ab"})[0], of({"a", "b"})[1]);
  EXPECT_NE(of({"a"})[0], of({"a"}, "u")[0]);
  EXPECT_EQ(of(std::vector<std::string>(1000, "a")).size(), 512U);
}

}  // namespace
}  // namespace tenon::engine
