#include "tenon/telemetry/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "tenon/base/log.h"
#include "tenon/base/utf8.h"
#include "tenon/http/client.h"
#include "tenon/http/wire.h"

// Sources: opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables and
// /docs/specs/otel/protocol/exporter, of 2026.

// Settings of the export: the configuration's (Chosen), over which the variables of OpenTelemetry
// go, over which those of one signal go (OTEL_EXPORTER_OTLP_TRACES_ENDPOINT before
// OTEL_EXPORTER_OTLP_ENDPOINT). A variable that cannot be read is left out with a warning, as the
// specification wants it; a mistake in headers or in the configuration is an error, because spans
// would be refused or get lost without a word.

namespace tenon::telemetry {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// "key=value", the value perhaps percent-encoded, as W3C Baggage has it.
std::optional<std::pair<std::string, std::string>> pair_of(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == text.npos) return std::nullopt;
  const std::string_view key = trimmed(text.substr(0, equals));
  auto value = http::percent_decoded(trimmed(text.substr(equals + 1)));
  if (key.empty() || !value) return std::nullopt;
  return std::pair(std::string(key), utf8::sanitized(*value));
}

// "a=1,b=2%2C3" becomes {{"a", "1"}, {"b", "2,3"}}. `name` is the variable, for the error.
Expected<Pairs> pairs_of(std::string_view list, const std::string& name) {
  Pairs pairs;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::string_view one = trimmed(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (one.empty()) continue;
    auto pair = pair_of(one);
    // What is wrong may be a key, so it is not quoted.
    if (!pair) {
      return Unexpected(Error{Errc::invalid, name + " must be a list key=value,key=value"});
    }
    pairs.push_back(*std::move(pair));
  }
  return pairs;
}

// Values of `more` replace those of the same key, which keeps its place.
void merge(const Pairs& more, Pairs& all) {
  for (const auto& [key, value] : more) {
    const auto found = std::ranges::find(all, key, [](const auto& one) { return one.first; });
    if (found != all.end()) {
      found->second = value;
    } else {
      all.emplace_back(key, value);
    }
  }
}

std::vector<http::Header> headers_of(const Pairs& pairs) {
  std::vector<http::Header> headers;
  for (const auto& [name, value] : pairs) headers.push_back({name, value});
  return headers;
}

class Reader {
 public:
  Reader(const Chosen& chosen, const Environment& environment)
      : chosen_(chosen), environment_(environment) {}

  Expected<Settings> run();

 private:
  // An empty value counts as unset.
  [[nodiscard]] std::string_view text(const char* name) const {
    const char* const value = environment_(name);
    return value == nullptr ? std::string_view() : trimmed(value);
  }
  [[nodiscard]] bool is_true(const char* name) const { return text(name) == "true"; }
  void number(const char* name, std::int64_t most, std::int64_t& out) const;
  void milliseconds(const char* name, std::chrono::milliseconds& out) const;
  [[nodiscard]] std::string url(const char* own, const char* exporter, std::string_view path) const;
  Expected<Pairs> headers(const char* own) const;
  Status read_resource(Settings& settings) const;
  void read_sampler(Settings& settings) const;

  const Chosen& chosen_;
  const Environment& environment_;
};

void warn_of(const char* name, std::string_view wanted) {
  log::warn("telemetry: " + std::string(name) + " must be " + std::string(wanted) +
            ", so it is not used");
}

void Reader::number(const char* name, std::int64_t most, std::int64_t& out) const {
  const std::string_view value = text(name);
  if (value.empty()) return;
  std::int64_t found = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), found);
  if (error != std::errc() || end != value.data() + value.size() || found < 1 || found > most) {
    return warn_of(name, "a number from 1 to " + std::to_string(most));
  }
  out = found;
}

void Reader::milliseconds(const char* name, std::chrono::milliseconds& out) const {
  constexpr std::int64_t kDay = 24 * 3600 * 1000;
  std::int64_t count = out.count();
  number(name, kDay, count);
  out = std::chrono::milliseconds(count);
}

// A signal's own address is used as it is; to the common one the signal's path is added.
std::string Reader::url(const char* own, const char* exporter, std::string_view path) const {
  const std::string_view kind = text(exporter);
  if (kind == "none") return {};
  if (!kind.empty() && kind != "otlp") warn_of(exporter, "otlp or none");
  if (const std::string_view signal = text(own); !signal.empty()) return std::string(signal);
  std::string_view base = text("OTEL_EXPORTER_OTLP_ENDPOINT");
  if (base.empty()) base = chosen_.endpoint;
  if (base.empty()) return {};
  while (base.ends_with('/')) base.remove_suffix(1);
  return std::string(base) + std::string(path);
}

// For one signal; `own` is the variable with its headers.
Expected<Pairs> Reader::headers(const char* own) const {
  Pairs all;
  for (const std::string& one : chosen_.headers) {
    const auto pair = pair_of(one);
    if (!pair) {
      return Unexpected(Error{Errc::invalid, "telemetry.headers must have entries \"name=value\""});
    }
    merge({*pair}, all);
  }
  for (const char* const name : {"OTEL_EXPORTER_OTLP_HEADERS", own}) {
    auto pairs = pairs_of(text(name), name);
    if (!pairs) return pairs;
    merge(*pairs, all);
  }
  return all;
}

Status Reader::read_resource(Settings& settings) const {
  Pairs all{{"service.name", chosen_.service_name}};
  for (const std::string& one : chosen_.resource) {
    const auto pair = pair_of(one);
    if (!pair) {
      return Unexpected(Error{Errc::invalid, "telemetry.resource must have entries \"key=value\""});
    }
    merge({*pair}, all);
  }
  // The whole variable is dropped where one entry is wrong, as OpenTelemetry wants it.
  if (auto pairs = pairs_of(text("OTEL_RESOURCE_ATTRIBUTES"), ""); pairs) {
    merge(*pairs, all);
  } else {
    warn_of("OTEL_RESOURCE_ATTRIBUTES", "a list key=value,key=value");
  }
  if (const std::string_view name = text("OTEL_SERVICE_NAME"); !name.empty()) {
    merge({{"service.name", utf8::sanitized(name)}}, all);
  }
  settings.resource = std::move(all);
  return {};
}

// "parentbased_traceidratio" with the argument 0.1: a trace that comes with a decision keeps it; of
// new ones, a tenth is sampled.
void Reader::read_sampler(Settings& settings) const {
  std::string_view name = text("OTEL_TRACES_SAMPLER");
  if (std::ranges::find(kSamplers, name) == std::end(kSamplers)) {
    if (!name.empty()) warn_of("OTEL_TRACES_SAMPLER", "a sampler that docs/telemetry.md names");
    name = chosen_.sampler;
  }
  double ratio = chosen_.sampler_arg;
  if (const std::string_view given = text("OTEL_TRACES_SAMPLER_ARG"); !given.empty()) {
    double found = -1;
    const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), found);
    const bool is_number = error == std::errc() && end == given.data() + given.size();
    if (is_number && found >= 0 && found <= 1) {
      ratio = found;
    } else {
      warn_of("OTEL_TRACES_SAMPLER_ARG", "a number from 0 to 1");
    }
  }
  constexpr std::string_view kParent = "parentbased_";
  settings.sampler.is_parent_based = name.starts_with(kParent);
  if (settings.sampler.is_parent_based) name.remove_prefix(kParent.size());
  settings.sampler.ratio = name == "always_on" ? 1.0 : name == "always_off" ? 0.0 : ratio;
}

Expected<Settings> Reader::run() {
  Settings settings;
  if (is_true("OTEL_SDK_DISABLED")) return settings;
  if (chosen_.traces) {
    settings.traces_url =
        url("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER", "/v1/traces");
  }
  if (chosen_.metrics) {
    settings.metrics_url =
        url("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_METRICS_EXPORTER", "/v1/metrics");
  }
  if (settings.sends_nothing()) return settings;
  for (const std::string& one : {settings.traces_url, settings.metrics_url}) {
    if (one.empty()) continue;
    if (const auto read = http::parse_url(one); !read) {
      return Unexpected(Error{Errc::invalid, "telemetry.endpoint: \"" + http::without_secrets(one) +
                                                 "\" is " + read.error().message});
    }
  }
  const std::string_view protocol = text("OTEL_EXPORTER_OTLP_PROTOCOL");
  if (!protocol.empty() && protocol != "http/json") {
    log::warn(
        "telemetry: OTEL_EXPORTER_OTLP_PROTOCOL is not http/json, which is what Tenon speaks");
  }
  auto traces = headers("OTEL_EXPORTER_OTLP_TRACES_HEADERS");
  if (!traces) return Unexpected(std::move(traces.error()));
  auto metrics = headers("OTEL_EXPORTER_OTLP_METRICS_HEADERS");
  if (!metrics) return Unexpected(std::move(metrics.error()));
  settings.traces_headers = headers_of(*traces);
  settings.metrics_headers = headers_of(*metrics);
  if (Status read = read_resource(settings); !read) return Unexpected(std::move(read.error()));
  read_sampler(settings);
  settings.ca_file = text("OTEL_EXPORTER_OTLP_CERTIFICATE");
  const std::string_view captures = text("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT");
  settings.contents = captures.empty() ? chosen_.contents : captures == "true";
  settings.metrics_interval = std::chrono::seconds(chosen_.metrics_interval_s);
  milliseconds("OTEL_EXPORTER_OTLP_TIMEOUT", settings.timeout);
  milliseconds("OTEL_BSP_SCHEDULE_DELAY", settings.delay);
  milliseconds("OTEL_METRIC_EXPORT_INTERVAL", settings.metrics_interval);
  std::int64_t queue = static_cast<std::int64_t>(settings.max_queue);
  std::int64_t batch = static_cast<std::int64_t>(settings.max_batch);
  number("OTEL_BSP_MAX_QUEUE_SIZE", 1'000'000, queue);
  number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 10'000, batch);
  settings.max_queue = static_cast<std::size_t>(queue);
  // A batch that is larger than the queue would never be full.
  settings.max_batch = static_cast<std::size_t>(std::min(batch, queue));
  return settings;
}

}  // namespace

Expected<Settings> settings_of(const Chosen& chosen, const Environment& environment) {
  return Reader(chosen, environment).run();
}

}  // namespace tenon::telemetry
