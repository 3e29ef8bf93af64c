#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/base/span.h"
#include "tenon/telemetry/histograms.h"

/// Requests of OTLP/HTTP in JSON (opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding"): ids
/// are hexadecimal, enumerators are numbers, and integers of 64 bits are strings.
namespace tenon::telemetry {

/// Who sends: the resource, and the version of the program.
struct Sender {
  std::vector<std::pair<std::string, std::string>> resource;
  std::string version;
};

/// ExportTraceServiceRequest
[[nodiscard]] std::string traces_request(const Sender& sender,
                                         std::span<const trace::SpanData> spans);
/// ExportMetricsServiceRequest: cumulative since `begin_ns`.
[[nodiscard]] std::string metrics_request(const Sender& sender, const Histograms& histograms,
                                          std::int64_t begin_ns, std::int64_t now_ns);

}  // namespace tenon::telemetry
