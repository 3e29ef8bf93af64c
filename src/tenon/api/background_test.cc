#include "tenon/api/background.h"

#include <future>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/http/local_exchange.h"

namespace tenon::api {
namespace {

using json::Value;

constexpr std::string_view kBegun =
    "event: response.created\n"
    "data: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_1\","
    "\"status\":\"in_progress\"}}\n\n";
constexpr std::string_view kDelta =
    "event: response.output_text.delta\ndata: {\"delta\":\"a\"}\n\n";
constexpr std::string_view kDone =
    "event: response.completed\n"
    "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\","
    "\"status\":\"completed\"}}\n\n";
constexpr std::string_view kFailed =
    "event: response.failed\n"
    "data: {\"type\":\"response.failed\",\"response\":{\"id\":\"resp_1\",\"status\":\"failed\","
    "\"store\":false}}\n\n";
constexpr std::string_view kLast = "data: [DONE]\n\n";

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (const std::string_view part : parts) all += part;
  return all;
}

/// A run, and what it has stored.
struct Running {
  std::vector<std::string> stored;
  Workers workers{1};
  std::shared_ptr<BackgroundRun> run = std::make_shared<BackgroundRun>(
      response_begun_in(kBegun),
      [this](const Value& response) {
        stored.push_back(json::to_string(response));
        return true;
      },
      workers);

  std::string status() const { return *run->state().find("status")->if_string(); }
  /// Waits for the posted tasks.
  const std::vector<std::string>& all_stored() {
    std::promise<void> done;
    workers.post([&] { done.set_value(); });
    done.get_future().wait();
    return stored;
  }
};

// What a client that follows from event `after` on has received so far.
struct Follower {
  explicit Follower(BackgroundRun& run, std::int64_t after) {
    auto [exchange, side] = http::make_local_exchange({.method = "GET", .path = "/"});
    answer = std::move(side);
    is_following = run.follow(std::move(exchange), {}, after);
  }
  std::string rest() const {
    std::string all;
    while (auto piece = answer->next()) all += *piece;
    return all;
  }
  std::unique_ptr<http::LocalAnswer> answer;
  bool is_following = false;
};

TEST(Background, IsFollowedFromAnyEventOn) {
  Running running;
  EXPECT_FALSE(running.run->refusal());
  const Follower early(*running.run, -1);
  running.run->write(joined({kBegun, kDelta}));
  const Follower late(*running.run, 0);
  running.run->write(": keep-alive\n\n");
  EXPECT_EQ(running.status(), "in_progress");
  running.run->write(joined({kDelta, kDone, kLast}));
  running.run->end_stream();
  EXPECT_EQ(early.rest(), joined({kBegun, kDelta, ": keep-alive\n\n", kDelta, kDone, kLast}));
  EXPECT_EQ(late.rest(), joined({kDelta, ": keep-alive\n\n", kDelta, kDone, kLast}));
  EXPECT_EQ(Follower(*running.run, 1).rest(), joined({kDelta, kDone, kLast}));
  EXPECT_EQ(Follower(*running.run, 99).rest(), kLast);
  EXPECT_EQ(running.status(), "completed");
  EXPECT_TRUE(running.all_stored().empty()) << "it is stored by who makes it";
}

TEST(Background, KeepsWhatFailed) {
  Running running;
  EXPECT_FALSE(running.run->refusal());
  running.run->write(joined({kBegun, kFailed, kLast}));
  running.run->end_stream();
  EXPECT_EQ(running.all_stored(),
            std::vector<std::string>{R"({"id":"resp_1","status":"failed","store":true})"});
}

TEST(Background, IsRefusedOrFailsByWhenItIsTold) {
  const http::Response error{.status = 400, .body = R"({"error": {"message": "too long"}})"};
  Running refused;
  refused.run->respond(error);
  EXPECT_EQ(refused.run->refusal().value_or(http::Response{}).status, 400U);
  Running failed;
  EXPECT_FALSE(failed.run->refusal());
  failed.run->respond(error);
  EXPECT_EQ(failed.status(), "failed");
  EXPECT_EQ(failed.all_stored(),
            std::vector<std::string>{R"({"id":"resp_1","status":"failed","store":true,)"
                                     R"("error":{"code":"invalid_prompt","message":"too long"}})"});
}

TEST(Background, IsCancelledOnce) {
  for (const bool is_kept : {true, false}) {
    Running running;
    EXPECT_FALSE(running.run->refusal());
    int told = 0;
    running.run->on_closed([&] { ++told; });
    running.run->write(std::string(kBegun));
    const Follower follower(*running.run, -1);
    EXPECT_EQ(*running.run->cancel(is_kept).find("status"), Value("cancelled"));
    EXPECT_EQ(*running.run->cancel(is_kept).find("status"), Value("cancelled"));
    running.run->write(std::string(kDone));  // too late
    EXPECT_EQ(told, 1);
    EXPECT_TRUE(running.run->is_closed());
    EXPECT_EQ(follower.rest(), joined({kBegun, kLast}));
    EXPECT_EQ(running.status(), "cancelled");
    EXPECT_EQ(running.all_stored().size(), is_kept ? 1U : 0U);
  }
}

TEST(Background, KeepsNoMoreThanItMay) {
  Running running;
  EXPECT_FALSE(running.run->refusal());
  const std::string big = "event: x\ndata: " + std::string(1 << 20, 'x') + "\n\n";
  for (int i = 0; i < 20; ++i) running.run->write(big);
  EXPECT_LE(running.run->bytes(), BackgroundRun::kMaxBytes);
  EXPECT_FALSE(Follower(*running.run, -1).is_following);
  const Follower late(*running.run, 18);
  running.run->write(std::string(kDone));
  EXPECT_EQ(late.rest(), big + joined({kDone, kLast}));
}

TEST(Background, RemembersTheNewestThatAreOver) {
  Background background;
  Running running;
  background.add("ann", "under way", running.run);
  std::vector<std::unique_ptr<Running>> over;
  for (std::size_t i = 0; i < Background::kMaxEnded + 5; ++i) {
    Running& one = *over.emplace_back(std::make_unique<Running>());
    one.run->write(std::string(kDone));
    background.add("", std::to_string(i), one.run);
  }
  EXPECT_TRUE(background.has_room());
  EXPECT_EQ(background.find("", "4"), nullptr);
  EXPECT_NE(background.find("", "5"), nullptr);
  EXPECT_NE(background.find("ann", "under way"), nullptr);
  EXPECT_EQ(background.find("bob", "under way"), nullptr);
  background.remove("ann", "under way");
  EXPECT_EQ(background.find("ann", "under way"), nullptr);
  for (std::size_t i = 0; i < Background::kMaxRuns; ++i) {
    background.add("ann", std::to_string(i), running.run);
  }
  EXPECT_FALSE(background.has_room());
}

}  // namespace
}  // namespace tenon::api
