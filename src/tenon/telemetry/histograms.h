#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/span.h"

/// Histograms of the GenAI, MCP and HTTP semantic conventions, counted from spans that end.
namespace tenon::telemetry {

/// One histogram of the conventions.
struct Instrument {
  std::string_view name;
  std::string_view unit;
  std::string_view description;
  std::span<const double> bounds;
};

/// The values of an instrument with the same attributes.
struct Series {
  std::vector<std::pair<std::string_view, trace::SpanValue>> attributes;
  std::vector<std::uint64_t> buckets;  ///< One more than there are bounds.
  std::uint64_t count = 0;
  double sum = 0;
  double least = 0;
  double most = 0;
};

/// All spans are counted, those that are not sampled among them. Thread-safe. At most kMaxSeries
/// series are kept of each instrument; what comes after goes into one with the attribute
/// `otel.metric.overflow`.
class Histograms {
 public:
  static constexpr std::size_t kMaxSeries = 1000;

  void add(const trace::SpanData& span);
  /// Everything since the start.
  [[nodiscard]] std::vector<std::pair<const Instrument*, std::vector<Series>>> all() const;

 private:
  void observe(const Instrument& instrument, double value, const trace::SpanData& span,
               std::span<const std::string_view> keys, std::string_view token_type = "");

  mutable std::mutex mutex_;
  std::map<const Instrument*, std::map<std::string, Series>> series_;  // guarded by mutex_
};

}  // namespace tenon::telemetry
