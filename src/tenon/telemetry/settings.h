#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/http/message.h"

/// What is sent, where to, and how much of it.
namespace tenon::telemetry {

/// What a configuration says: the table [telemetry] of docs/configuration.md.
struct Chosen {
  std::string endpoint;              ///< "http://127.0.0.1:4318"; "": nothing is sent.
  std::vector<std::string> headers;  ///< "name=value"
  std::string service_name = "tenon";
  std::vector<std::string> resource;  ///< "key=value"
  std::string sampler = "parentbased_always_on";
  double sampler_arg = 1.0;
  bool contents = false;  ///< Texts of messages, calls and results go along.
  bool traces = true;
  bool metrics = true;
  std::int64_t metrics_interval_s = 60;

  bool operator==(const Chosen&) const = default;
};

/// The samplers that `sampler` may name.
inline constexpr std::string_view kSamplers[] = {
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
};

struct Sampler {
  bool is_parent_based = true;  ///< A trace that a client began is sampled as the client says.
  double ratio = 1.0;           ///< The share of the other traces: 0 for none, 1 for all.
};

struct Settings {
  std::string traces_url;  ///< "": no spans are sent.
  std::vector<http::Header> traces_headers;
  std::string metrics_url;  ///< "": no metrics are sent.
  std::vector<http::Header> metrics_headers;
  std::string ca_file;
  std::vector<std::pair<std::string, std::string>> resource;  ///< With `service.name`.
  Sampler sampler;
  bool contents = false;
  std::chrono::milliseconds timeout{10'000};  ///< For one export, its retries among it.
  std::chrono::milliseconds delay{5'000};     ///< Between batches of spans.
  std::chrono::milliseconds metrics_interval{60'000};
  std::size_t max_queue = 2048;  ///< So many spans wait to be sent; later ones are dropped.
  std::size_t max_batch = 512;   ///< So many are sent at once.

  [[nodiscard]] bool sends_nothing() const { return traces_url.empty() && metrics_url.empty(); }
};

/// The value of an environment variable, or null.
using Environment = std::function<const char*(const char* name)>;

/// `chosen`, changed by the variables OTEL_* that OpenTelemetry defines for exporters (those that
/// docs/telemetry.md lists). A value that cannot be read counts as absent, with a warning in the
/// log, as OpenTelemetry wants it; a URL or a header that is wrong is an error.
[[nodiscard]] Expected<Settings> settings_of(const Chosen& chosen, const Environment& environment);

}  // namespace tenon::telemetry
