#include "tenon/telemetry/exporter.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/http/server.h"
#include "tenon/json/value.h"

namespace tenon::telemetry {
namespace {

using std::chrono::milliseconds;

/// Answers with the statuses that it was given, then with 200.
class Receiver {
 public:
  explicit Receiver(std::vector<unsigned> statuses, std::string body = "{}")
      : statuses_(std::move(statuses)), body_(std::move(body)) {
    server_ = *http::Server::start({}, [this](std::shared_ptr<http::Exchange> exchange) {
      const std::lock_guard lock(mutex_);
      const http::Request& request = exchange->request();
      const unsigned status = attempts_ < statuses_.size() ? statuses_[attempts_] : 200;
      if (request.path == "/v1/traces") ++attempts_;
      if (status == 200) bodies_.push_back(request.body);
      if (status == 200) keys_.emplace_back(request.header("x-key"));
      exchange->respond({.status = status, .body = body_});
    });
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }
  std::size_t attempts() const {
    const std::lock_guard lock(mutex_);
    return attempts_;
  }
  std::vector<std::string> bodies() const {
    const std::lock_guard lock(mutex_);
    return bodies_;
  }
  std::vector<std::string> keys() const {
    const std::lock_guard lock(mutex_);
    return keys_;
  }

 private:
  mutable std::mutex mutex_;
  std::size_t attempts_ = 0;
  std::vector<std::string> bodies_;
  std::vector<std::string> keys_;
  const std::vector<unsigned> statuses_;
  const std::string body_;
  std::unique_ptr<http::Server> server_;
};

trace::SpanData span(bool is_sampled = true) {
  return {.trace_id = std::string(32, 'a'),
          .id = std::string(16, 'b'),
          .is_sampled = is_sampled,
          .name = "s",
          .begin_ns = 1,
          .end_ns = 2,
          .attributes = {{"text", std::string("t")}, {"count", std::int64_t{1} << 60}}};
}

Settings to(const Receiver& receiver) {
  return {.traces_url = receiver.url() + "/v1/traces",
          .traces_headers = {{"x-key", "secret"}},
          .resource = {{"service.name", "t"}},
          .delay = milliseconds(20)};
}

template <class Check>
bool soon(const Check& check) {
  for (int i = 0; i < 400 && !check(); ++i) std::this_thread::sleep_for(milliseconds(25));
  return check();
}

TEST(Exporter, SendsWhatIsSampledWithItsHeaders) {
  const Receiver receiver({});
  const auto exporter = *Exporter::start(to(receiver), "1");
  exporter->ended(span());
  exporter->ended(span(false));
  ASSERT_TRUE(soon([&] { return exporter->counts().exported == 1; }));
  const auto body = json::parse(receiver.bodies().at(0));
  ASSERT_TRUE(body);
  EXPECT_EQ(*json::at_pointer(*body, "/resourceSpans/0/scopeSpans/0/spans/0/attributes/1"),
            *json::parse(R"({"key": "count", "value": {"intValue": "1152921504606846976"}})"));
  EXPECT_EQ(receiver.keys().at(0), "secret");
}

TEST(Exporter, SendsWhatIsLeftAtItsEnd) {
  const Receiver receiver({});
  Settings settings = to(receiver);
  settings.delay = std::chrono::hours(1);
  settings.metrics_url = receiver.url() + "/v1/metrics";
  auto exporter = *Exporter::start(settings, "1");
  exporter->ended(span());
  exporter.reset();
  EXPECT_EQ(receiver.bodies().size(), 2U);
}

TEST(Exporter, AReceiverWithTooMuchToDoIsAskedAgain) {
  const Receiver receiver({503});
  const auto exporter = *Exporter::start(to(receiver), "1");
  exporter->ended(span());
  ASSERT_TRUE(soon([&] { return exporter->counts().exported == 1; }));
  EXPECT_EQ(receiver.attempts(), 2U);
}

TEST(Exporter, ARefusedBatchIsLostAndCounted) {
  const Receiver receiver({400});
  const auto exporter = *Exporter::start(to(receiver), "1");
  exporter->ended(span());
  ASSERT_TRUE(soon([&] { return exporter->counts().failed == 1; }));
  exporter->ended(span());
  ASSERT_TRUE(soon([&] { return exporter->counts().exported == 1; }));
  EXPECT_EQ(receiver.attempts(), 2U);
}

TEST(Exporter, SpansThatTheReceiverRejectsAreCounted) {
  const Receiver receiver({}, R"({"partialSuccess": {"rejectedSpans": "1"}})");
  const auto exporter = *Exporter::start(to(receiver), "1");
  exporter->ended(span());
  ASSERT_TRUE(soon([&] { return exporter->counts().failed == 1; }));
  EXPECT_EQ(exporter->counts().exported, 0U);
}

TEST(Exporter, AFullQueueDropsAndNeverBlocks) {
  Settings settings{.traces_url = "http://127.0.0.1:9/v1/traces",
                    .timeout = milliseconds(300),
                    .delay = milliseconds(1),
                    .max_queue = 4,
                    .max_batch = 4};
  auto exporter = *Exporter::start(settings, "1");
  const auto begun = std::chrono::steady_clock::now();
  constexpr int kMany = 10'000;
  for (int i = 0; i < kMany; ++i) exporter->ended(span());
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(2));
  EXPECT_GT(exporter->counts().dropped, 1'000U);
  exporter.reset();  // within kLastWords
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(8));
}

struct Sample {
  const char* name;
  Sampler sampler;
  std::string trace_id;
  std::string parent;
  bool expected;
};

TEST(Exporter, SamplesAsTheSamplerSays) {
  const std::string low = std::string(16, 'f') + "0000000000000001";
  const std::string high = std::string(16, '0') + "f000000000000000";
  const std::string on = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const std::string off = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
  const Sample kSamples[] = {
      {"AllBegun", {true, 1.0}, high, "", true},
      {"TheParentSaysNo", {true, 1.0}, low, off, false},
      {"TheParentSaysYes", {true, 0.0}, high, on, true},
      {"TheParentIsNotAsked", {false, 0.0}, low, on, false},
      {"TheShareHasIt", {false, 0.5}, low, off, true},
      {"TheShareLacksIt", {false, 0.5}, high, on, false},
  };
  for (const Sample& row : kSamples) {
    Settings settings{.traces_url = "http://127.0.0.1:9/", .sampler = row.sampler};
    const auto exporter = *Exporter::start(settings, "1");
    EXPECT_EQ(exporter->samples(row.trace_id, {.parent = row.parent, .state = {}}), row.expected)
        << row.name;
  }
}

}  // namespace
}  // namespace tenon::telemetry
