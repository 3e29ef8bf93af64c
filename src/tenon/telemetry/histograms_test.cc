#include "tenon/telemetry/histograms.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

namespace tenon::telemetry {
namespace {

trace::SpanData chat(trace::SpanKind kind, const std::string& model, double seconds) {
  trace::SpanData span{.name = "chat " + model, .kind = kind};
  span.end_ns = static_cast<std::int64_t>(seconds * 1e9);
  span.attributes = {{"gen_ai.operation.name", "chat"},
                     {"gen_ai.request.model", model},
                     {"gen_ai.usage.input_tokens", std::int64_t{16}},
                     {"gen_ai.usage.output_tokens", std::int64_t{11}},
                     {"gen_ai.response.time_to_first_chunk", 0.5}};
  return span;
}

std::vector<Series> series_of(const Histograms& all, std::string_view name) {
  for (const auto& [instrument, series] : all.all()) {
    if (instrument->name == name) return series;
  }
  return {};
}

TEST(Histograms, AnAnswerOfThisProcessCountsForClientsAndServers) {
  Histograms all;
  all.add(chat(trace::SpanKind::internal, "m", 1.5));
  const auto durations = series_of(all, "gen_ai.client.operation.duration");
  ASSERT_EQ(durations.size(), 1U);
  EXPECT_EQ(durations[0].count, 1U);
  EXPECT_DOUBLE_EQ(durations[0].sum, 1.5);
  const auto tokens = series_of(all, "gen_ai.client.token.usage");
  ASSERT_EQ(tokens.size(), 2U);
  EXPECT_EQ(tokens[0].buckets[2], 1U) << "16 is in the bucket whose bound it is";
  EXPECT_DOUBLE_EQ(series_of(all, "gen_ai.server.time_to_first_token")[0].sum, 0.5);
  EXPECT_DOUBLE_EQ(series_of(all, "gen_ai.server.time_per_output_token")[0].sum, 0.1);
}

TEST(Histograms, AnAnswerOfAnotherServerDoesNotCountAsOurs) {
  Histograms all;
  all.add(chat(trace::SpanKind::client, "m", 1.5));
  EXPECT_EQ(series_of(all, "gen_ai.client.operation.duration").size(), 1U);
  EXPECT_TRUE(series_of(all, "gen_ai.server.request.duration").empty());
}

TEST(Histograms, TheNumberOfSeriesIsBounded) {
  Histograms all;
  const std::size_t more = Histograms::kMaxSeries + 5;
  for (std::size_t i = 0; i < more; ++i) {
    all.add(chat(trace::SpanKind::client, "m" + std::to_string(i), 1.0));
  }
  const auto series = series_of(all, "gen_ai.client.operation.duration");
  ASSERT_EQ(series.size(), Histograms::kMaxSeries + 1);
  const auto rest = std::ranges::find_if(
      series, [](const Series& one) { return one.attributes[0].first == "otel.metric.overflow"; });
  ASSERT_NE(rest, series.end());
  EXPECT_EQ(rest->count, 5U);
}

}  // namespace
}  // namespace tenon::telemetry
