#include "tenon/base/metrics.h"

#include <atomic>

namespace tenon::metrics {
namespace {

// Callers keep a reference to what a sink has given them, so the sink that does nothing gives real
// objects, and no caller has to ask whether there is a sink.
class NoCounter : public Counter {
  void add(double /*amount*/) override {}
};
class NoGauge : public Gauge {
  void set(double /*value*/) override {}
  void add(double /*amount*/) override {}
};
class NoHistogram : public Histogram {
  void observe(double /*value*/) override {}
};

class NoSink : public Sink {
  Counter& counter(std::string_view /*name*/, std::string_view /*help*/,
                   Labels /*labels*/) override {
    return counter_;
  }
  Gauge& gauge(std::string_view /*name*/, std::string_view /*help*/, Labels /*labels*/) override {
    return gauge_;
  }
  Histogram& histogram(std::string_view /*name*/, std::string_view /*help*/, Labels /*labels*/,
                       std::span<const double> /*bounds*/) override {
    return histogram_;
  }

  NoCounter counter_;
  NoGauge gauge_;
  NoHistogram histogram_;
};

std::atomic<Sink*> current_sink{nullptr};

}  // namespace

Sink& sink() {
  static NoSink nothing;
  Sink* const current = current_sink.load(std::memory_order_acquire);
  return current == nullptr ? nothing : *current;
}

void set_sink(Sink* sink) {
  current_sink.store(sink, std::memory_order_release);
}

}  // namespace tenon::metrics
