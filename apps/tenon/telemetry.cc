#include "telemetry.h"

#include <cstdlib>
#include <utility>

#include "tenon/base/log.h"
#include "tenon/http/client.h"

namespace tenon::app {

// The environment's OTEL_* variables count beside the configuration (telemetry::settings_of).
OrComplaint<Telemetry> Telemetry::start(const telemetry::Chosen& chosen) {
  auto settings =
      telemetry::settings_of(chosen, [](const char* name) { return std::getenv(name); });
  if (!settings) return complaint(settings.error());
  Telemetry all;
  if (settings->sends_nothing()) return all;
  for (const auto& [what, url] :
       {std::pair("spans", &settings->traces_url), std::pair("metrics", &settings->metrics_url)}) {
    if (url->empty()) continue;
    log::info(std::string("telemetry: ") + what + " go to " + http::without_secrets(*url));
  }
  auto exporter = telemetry::Exporter::start(*std::move(settings), std::string(kVersion));
  if (!exporter) return complaint(exporter.error());
  all.exporter_ = *std::move(exporter);
  trace::set_span_sink(all.exporter_);
  return all;
}

void Telemetry::stop() {
  if (exporter_ == nullptr) return;
  // First, so that no thread adds a span to an exporter that ends.
  trace::set_span_sink(nullptr);
  exporter_.reset();
}

}  // namespace tenon::app
