#include "tenon/http/local_exchange.h"

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::http {
namespace {

struct Outcome {
  std::string body;
  unsigned status = 0;
  bool was_cut = false;
};

Outcome read(LocalAnswer& answer) {
  Outcome outcome;
  while (auto piece = answer.next()) outcome.body += *piece;
  outcome.status = answer.status();
  outcome.was_cut = answer.was_cut();
  return outcome;
}

using Answering = std::function<void(std::shared_ptr<Exchange>)>;

struct Row {
  std::string_view name;
  Answering answering;
  std::string_view body;
  unsigned status = 200;
  bool was_cut = false;
};

const Row kRows[] = {
    {"Whole", [](auto exchange) { exchange->respond({.status = 404, .body = "none"}); }, "none",
     404},
    {"WithoutABody", [](auto exchange) { exchange->respond({.status = 204}); }, "", 204},
    {"Stream",
     [](auto exchange) {
       exchange->begin_stream("text/event-stream", {});
       exchange->write("a");
       exchange->write("");
       exchange->write("bc");
       exchange->end_stream();
     },
     "abc"},
    {"StreamThatNobodyGoesOnWith",
     [](auto exchange) {
       exchange->begin_stream("text/event-stream", {});
       exchange->write("a");
     },
     "a", 200, true},
    {"Unanswered", [](auto) {},
     R"({"error":{"message":"The request could not be answered","type":"server_error",)"
     R"("code":"internal_error"}})",
     500},
    {"WhatComesAfterTheEndIsDropped",
     [](auto exchange) {
       exchange->respond({.body = "a"});
       exchange->write("b");
       exchange->respond({.status = 500, .body = "c"});
       exchange->end_stream();
     },
     "a"},
};

// A reader with a time limit sees the same, and "" while nothing has come.
TEST(LocalExchange, IsTakenWithPatience) {
  using std::chrono::milliseconds;
  auto [exchange, answer] = make_local_exchange({.method = "GET", .target = "/", .path = "/"});
  EXPECT_EQ(answer->next(milliseconds(0)), "");
  EXPECT_EQ(answer->next(milliseconds(5)), "");
  exchange->begin_stream("text/event-stream", {});
  EXPECT_EQ(answer->next(milliseconds(0)), "");
  std::jthread writer([&exchange] {
    std::this_thread::sleep_for(milliseconds(20));
    exchange->write("a");
  });
  EXPECT_EQ(answer->next(std::chrono::seconds(10)), "a");
  writer.join();
  EXPECT_EQ(answer->next(milliseconds(0)), "");
  exchange->write("b");
  exchange->end_stream();
  EXPECT_EQ(answer->next(milliseconds(0)), "b");
  EXPECT_EQ(answer->next(milliseconds(0)), std::nullopt);
  EXPECT_FALSE(answer->was_cut());
}

TEST(LocalExchange, GivesWhatIsAnswered) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    {
      auto [exchange, answer] = make_local_exchange({.method = "GET", .path = "/"});
      row.answering(std::exchange(exchange, nullptr));
      const Outcome outcome = read(*answer);
      EXPECT_EQ(outcome.body, row.body);
      EXPECT_EQ(outcome.status, row.status);
      EXPECT_EQ(outcome.was_cut, row.was_cut);
    }
    // The same from another thread, while this one waits.
    auto [exchange, answer] = make_local_exchange({.method = "GET", .path = "/"});
    std::jthread thread([&row, exchange = std::exchange(exchange, nullptr)]() mutable {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      row.answering(std::move(exchange));
    });
    const Outcome outcome = read(*answer);
    EXPECT_EQ(outcome.body, row.body);
    EXPECT_EQ(outcome.status, row.status);
    EXPECT_EQ(outcome.was_cut, row.was_cut);
  }
}

TEST(LocalExchange, HeadersAreKnownWithTheStatus) {
  const struct {
    std::string_view name;
    Answering answering;
  } rows[] = {
      {"whole", [](auto exchange) { exchange->respond({.headers = {{"x-a", "1"}}}); }},
      {"stream",
       [](auto exchange) {
         exchange->begin_stream("text/event-stream", {{"x-a", "1"}});
         exchange->end_stream();
       }},
  };
  for (const auto& row : rows) {
    auto [exchange, answer] = make_local_exchange({.method = "GET", .path = "/"});
    EXPECT_EQ(answer->header("x-a"), "") << row.name;
    row.answering(std::move(exchange));
    EXPECT_EQ(answer->next(), std::nullopt) << row.name;
    EXPECT_EQ(answer->header("x-a"), "1") << row.name;
    EXPECT_EQ(answer->header("x-b"), "") << row.name;
  }
}

TEST(LocalExchange, ShowsTheRequestUntilItIsReleased) {
  auto [exchange, answer] = make_local_exchange({.path = "/a", .body = "text"});
  EXPECT_EQ(exchange->request().path, "/a");
  EXPECT_EQ(exchange->request().body, "text");
  exchange->release_body();
  EXPECT_EQ(exchange->request().path, "/a");
  EXPECT_EQ(exchange->request().body, "");
}

TEST(LocalExchange, TellsOfAClientThatGoesAway) {
  auto [exchange, answer] = make_local_exchange({});
  int before = 0;
  int after = 0;
  exchange->on_closed([&] { ++before; });
  exchange->begin_stream("text/event-stream", {});
  exchange->write("unread");
  EXPECT_FALSE(exchange->is_closed());
  answer->cancel();
  answer->cancel();
  EXPECT_EQ(before, 1);
  EXPECT_TRUE(exchange->is_closed());
  exchange->on_closed([&] { ++after; });
  EXPECT_EQ(after, 1);
  exchange->write("more");
  EXPECT_EQ(exchange->queued_bytes(), 0u);
  EXPECT_EQ(answer->next(), std::nullopt);
  EXPECT_TRUE(answer->was_cut());
}

TEST(LocalExchange, AnAnswerThatIsDestroyedIsAClientThatGoesAway) {
  auto [exchange, answer] = make_local_exchange({});
  bool is_told = false;
  exchange->on_closed([&] { is_told = true; });
  answer.reset();
  EXPECT_TRUE(is_told);
}

TEST(LocalExchange, ACompleteAnswerHasNobodyToTell) {
  auto [exchange, answer] = make_local_exchange({});
  const auto held = std::make_shared<int>();
  bool is_told = false;
  exchange->on_closed([&, held] { is_told = true; });
  exchange->respond({.body = "a"});
  EXPECT_EQ(held.use_count(), 1);  // the callback was destroyed
  EXPECT_FALSE(exchange->is_closed());
  EXPECT_EQ(answer->next(), "a");
  EXPECT_TRUE(exchange->is_closed());
  answer->cancel();
  EXPECT_FALSE(is_told);
  EXPECT_FALSE(answer->was_cut());
}

TEST(LocalExchange, TellsEachTimeThatASlowReaderHasCaughtUp) {
  auto [exchange, answer] = make_local_exchange({});
  int drained = 0;
  exchange->begin_stream("text/event-stream", {});
  exchange->on_drained(4, [&] { ++drained; });
  exchange->write("abc");
  EXPECT_EQ(answer->next(), "abc");
  EXPECT_EQ(drained, 0);  // the queue never had 4 bytes
  for (int round = 1; round <= 2; ++round) {
    exchange->write("abc");
    exchange->write("def");
    EXPECT_EQ(exchange->queued_bytes(), 6u);
    EXPECT_EQ(answer->next(), "abcdef");
    EXPECT_EQ(drained, round);
  }
}

TEST(LocalExchange, CancelWakesWhoWaits) {
  auto [exchange, answer] = make_local_exchange({});
  std::jthread thread([&answer = *answer] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    answer.cancel();
  });
  EXPECT_EQ(answer->next(), std::nullopt);
  EXPECT_EQ(answer->status(), 0u);
}

}  // namespace
}  // namespace tenon::http
