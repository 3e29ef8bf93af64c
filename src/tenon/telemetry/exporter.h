#pragma once

#include <memory>
#include <string>

#include "tenon/base/expected.h"
#include "tenon/base/span.h"
#include "tenon/telemetry/settings.h"

namespace tenon::telemetry {

/// Sends spans and metrics on a thread of its own.
///
///     auto exporter = Exporter::start(*settings, "0.2.0");
///     trace::set_span_sink(*exporter);
///     ...
///     trace::set_span_sink(nullptr);   // the last one to let go sends what is left
///
/// Sampled spans wait in a queue of at most `max_queue` spans and kMaxQueueBytes bytes; those that
/// find no room are dropped and counted. A receiver that is not there, or has too much to do (429,
/// 502, 503, 504), is asked again after a time that doubles, or that it names (`Retry-After`),
/// within the limit of an export; then the batch is lost and counted. Other answers lose the batch
/// at once. One line in the log tells when sending begins to fail, and one when it works again.
class Exporter final : public trace::SpanSink {
 public:
  static constexpr std::size_t kMaxQueueBytes = std::size_t{32} << 20;
  static constexpr std::size_t kMaxBatchBytes = std::size_t{4} << 20;
  /// For what is left when the program ends.
  static constexpr std::chrono::milliseconds kLastWords{3'000};

  /// Fails as http::Client::create does.
  [[nodiscard]] static Expected<std::shared_ptr<Exporter>> start(Settings settings,
                                                                 std::string version);
  ~Exporter() override;
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  [[nodiscard]] bool samples(std::string_view trace_id,
                             const trace::Context& parent) const override;
  [[nodiscard]] bool takes_contents() const override;
  void ended(trace::SpanData span) override;
  [[nodiscard]] trace::SpanCounts counts() const override;

 private:
  struct Impl;
  explicit Exporter(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::telemetry
