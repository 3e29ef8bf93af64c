#include "tenon/base/metrics.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace tenon::metrics {
namespace {

// What an application's sink does, over a map.
class Recorder : public Sink {
 public:
  struct Cell : Counter, Gauge, Histogram {
    void add(double amount) override { value += amount; }
    void set(double now) override { value = now; }
    void observe(double seen) override { value += seen; }
    double value = 0.0;
  };

  Counter& counter(std::string_view name, std::string_view /*help*/, Labels labels) override {
    return cell(name, labels);
  }
  Gauge& gauge(std::string_view name, std::string_view /*help*/, Labels labels) override {
    return cell(name, labels);
  }
  Histogram& histogram(std::string_view name, std::string_view /*help*/, Labels labels,
                       std::span<const double> bounds) override {
    EXPECT_EQ(bounds.size(), 2u);
    return cell(name, labels);
  }

  std::map<std::string, Cell> cells;

 private:
  Cell& cell(std::string_view name, Labels labels) {
    std::string key(name);
    for (const Label& label : labels) {
      key.append(" ").append(label.name).append("=").append(label.value);
    }
    return cells[key];
  }
};

void count_everything() {
  const Label labels[] = {{"model", "tiny"}};
  sink().counter("tenon_calls_total", "Calls", labels).add();
  sink().counter("tenon_calls_total", "Calls", labels).add(2.0);
  sink().gauge("tenon_streams", "Open streams", {}).set(5.0);
  sink().gauge("tenon_streams", "Open streams", {}).add(-1.0);
  const double bounds[] = {0.1, 1.0};
  sink().histogram("tenon_seconds", "Time", {}, bounds).observe(0.25);
}

TEST(Metrics, GoToTheSinkThatIsSetAndNowhereWithoutOne) {
  count_everything();
  Recorder recorder;
  set_sink(&recorder);
  count_everything();
  set_sink(nullptr);
  count_everything();
  ASSERT_EQ(recorder.cells.size(), 3u);
  EXPECT_EQ(recorder.cells["tenon_calls_total model=tiny"].value, 3.0);
  EXPECT_EQ(recorder.cells["tenon_streams"].value, 4.0);
  EXPECT_EQ(recorder.cells["tenon_seconds"].value, 0.25);
}

}  // namespace
}  // namespace tenon::metrics
