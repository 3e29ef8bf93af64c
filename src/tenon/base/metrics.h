#pragma once

#include <span>
#include <string_view>

/// Where figures go. Layers count here; the application decides what to do with them.
///
///     constexpr metrics::Label kOversized[] = {{"reason", "oversized"}};
///     struct Counts {                                // made once, when the server starts
///       metrics::Counter& oversized = metrics::sink().counter(
///           "tenon_requests_refused_total", "Requests answered with 4xx", kOversized);
///     };
///     counts.oversized.add();                        // on the hot path: one virtual call
namespace tenon::metrics {

struct Label {
  std::string_view name;
  std::string_view value;
};
using Labels = std::span<const Label>;

/// A count that only grows. Thread-safe, as are the other kinds; no call allocates or blocks.
class Counter {
 public:
  virtual ~Counter() = default;
  virtual void add(double amount = 1.0) = 0;
};

class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void set(double value) = 0;
  virtual void add(double amount) = 0;
};

class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void observe(double value) = 0;
};

/// Hands out metrics, which live as long as the sink. Names and labels follow Prometheus: base
/// units, `_total` for counters. The same name and labels give the same metric. A label has a few
/// values that we know in advance, never bytes from outside. Thread-safe; may allocate, so ask once
/// and keep the result.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual Counter& counter(std::string_view name, std::string_view help, Labels labels) = 0;
  virtual Gauge& gauge(std::string_view name, std::string_view help, Labels labels) = 0;
  /// `bounds` are the buckets' upper ends, rising; an unbounded last bucket is added.
  virtual Histogram& histogram(std::string_view name, std::string_view help, Labels labels,
                               std::span<const double> bounds) = 0;
};

/// The sink that was set, or one that drops everything. Never null.
[[nodiscard]] Sink& sink();
/// Sets the sink, which must outlive every use; null: the one that drops everything. Metrics handed
/// out before stay with their old sink, so this comes before the layers start.
void set_sink(Sink* sink);

}  // namespace tenon::metrics
