#pragma once

#include <memory>

#include "command.h"

#include "tenon/telemetry/exporter.h"

namespace tenon::app {

/// Sends the spans and metrics of this process while it lives, if the configuration or the
/// environment names a receiver.
class Telemetry {
 public:
  [[nodiscard]] static OrComplaint<Telemetry> start(const telemetry::Chosen& chosen);
  Telemetry(Telemetry&&) = default;
  Telemetry& operator=(Telemetry&&) = delete;
  ~Telemetry() { stop(); }

  /// Sends what is left, within Exporter::kLastWords.
  void stop();

 private:
  Telemetry() = default;
  std::shared_ptr<telemetry::Exporter> exporter_;  // null: nothing is sent
};

}  // namespace tenon::app
