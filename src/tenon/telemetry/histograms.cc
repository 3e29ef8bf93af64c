#include "tenon/telemetry/histograms.h"

#include <algorithm>
#include <variant>

// Names, units and bounds: github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai, and
// opentelemetry.io/docs/specs/semconv/http/http-metrics.

// Metrics are made of spans: each span that ends is observed by the instruments of its kind (add),
// and its attributes choose the series of an instrument (observe). Only attributes with few values
// are keys, and kMaxSeries bounds the series of each instrument.

namespace tenon::telemetry {
namespace {

using trace::SpanData;

// Upper bounds of the buckets, as the conventions recommend them; what is above the last one has a
// bucket of its own.
constexpr double kTokens[] = {1,     4,     16,     64,      256,     1024,     4096,
                              16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864};
constexpr double kDurations[] = {0.01, 0.02, 0.04, 0.08,  0.16,  0.32,  0.64,
                                 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92};
constexpr double kFirstToken[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                  0.25,  0.5,   0.75, 1.0,  2.5,  5.0,  7.5,  10.0};
constexpr double kEachToken[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,
                                 0.3,  0.4,   0.5,  0.75,  1.0, 2.5};
constexpr double kMcp[] = {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300};
constexpr double kHttp[] = {0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25,
                            0.5,   0.75, 1,     2.5,  5,     7.5, 10};

constexpr Instrument kUsage{"gen_ai.client.token.usage", "{token}",
                            "Number of input and output tokens used", kTokens};
constexpr Instrument kOperation{"gen_ai.client.operation.duration", "s", "GenAI operation duration",
                                kDurations};
constexpr Instrument kRequest{"gen_ai.server.request.duration", "s",
                              "Time from the request to the last token of its answer", kDurations};
constexpr Instrument kTimeToFirst{"gen_ai.server.time_to_first_token", "s",
                                  "Time to generate the first token", kFirstToken};
constexpr Instrument kTimePerToken{"gen_ai.server.time_per_output_token", "s",
                                   "Time per output token after the first", kEachToken};
constexpr Instrument kAgent{"gen_ai.invoke_agent.duration", "s", "Duration of an agent's run",
                            kDurations};
constexpr Instrument kTool{"gen_ai.execute_tool.duration", "s", "Duration of a tool's run",
                           kDurations};
constexpr Instrument kMcpCall{"mcp.client.operation.duration", "s",
                              "From a request to an MCP server to its answer", kMcp};
constexpr Instrument kHttpRequest{"http.server.request.duration", "s",
                                  "Duration of HTTP server requests", kHttp};

// The attributes of a span that become attributes of a metric. The conventions have no error.type
// for usage and for times to tokens, so kUsageKeys leaves it out.
constexpr std::string_view kChatKeys[] = {"gen_ai.operation.name", "gen_ai.provider.name",
                                          "gen_ai.request.model", "gen_ai.response.model",
                                          "error.type"};
constexpr std::string_view kUsageKeys[] = {"gen_ai.operation.name", "gen_ai.provider.name",
                                           "gen_ai.request.model", "gen_ai.response.model"};
constexpr std::string_view kAgentKeys[] = {"gen_ai.operation.name", "gen_ai.provider.name",
                                           "gen_ai.agent.name", "error.type"};
constexpr std::string_view kToolKeys[] = {"gen_ai.operation.name", "gen_ai.tool.name",
                                          "gen_ai.tool.type", "error.type"};
constexpr std::string_view kMcpKeys[] = {
    "mcp.method.name",  "mcp.protocol.version", "gen_ai.operation.name",
    "gen_ai.tool.name", "network.transport",    "server.address",
    "server.port",      "error.type",           "rpc.response.status_code"};
constexpr std::string_view kHttpKeys[] = {"http.request.method", "http.route",
                                          "http.response.status_code", "error.type"};

// 0 without such an attribute; fraction() gives -1.
std::int64_t whole(const SpanData& span, std::string_view key) {
  const trace::SpanValue* const value = span.find(key);
  const auto* const number = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  return number == nullptr ? 0 : *number;
}

double fraction(const SpanData& span, std::string_view key) {
  const trace::SpanValue* const value = span.find(key);
  const auto* const number = value == nullptr ? nullptr : std::get_if<double>(value);
  return number == nullptr ? -1.0 : *number;
}

// The same for values that are equal.
void append_key(const trace::SpanValue& value, std::string& out) {
  if (const auto* const text = std::get_if<std::string>(&value)) {
    out += *text;
  } else if (const auto* const number = std::get_if<std::int64_t>(&value)) {
    out += std::to_string(*number);
  }
  out += '\0';
}

}  // namespace

void Histograms::observe(const Instrument& instrument, double value, const SpanData& span,
                         std::span<const std::string_view> keys, std::string_view token_type) {
  std::string name;
  Series fresh;
  for (const std::string_view key : keys) {
    const trace::SpanValue* const found = span.find(key);
    if (found != nullptr) {
      append_key(*found, name);
      fresh.attributes.emplace_back(key, *found);
    } else {
      name += '\0';
    }
  }
  if (!token_type.empty()) {
    name += token_type;
    fresh.attributes.emplace_back("gen_ai.token.type", std::string(token_type));
  }
  const std::lock_guard lock(mutex_);
  auto& all = series_[&instrument];
  if (all.size() >= kMaxSeries && !all.contains(name)) {
    // The specification's way: what comes beyond the limit is counted in one series, so sums stay
    // right.
    name = "overflow";
    fresh.attributes = {{"otel.metric.overflow", true}};
  }
  Series& series = all.try_emplace(name, std::move(fresh)).first->second;
  if (series.count == 0) {
    series.buckets.resize(instrument.bounds.size() + 1);
    series.least = series.most = value;
  }
  // A bound belongs to the bucket below it.
  const auto bucket = std::ranges::lower_bound(instrument.bounds, value);
  ++series.buckets[static_cast<std::size_t>(bucket - instrument.bounds.begin())];
  ++series.count;
  series.sum += value;
  series.least = std::min(series.least, value);
  series.most = std::max(series.most, value);
}

void Histograms::add(const SpanData& span) {
  constexpr double kNanoseconds = 1e9;
  const double seconds = static_cast<double>(span.end_ns - span.begin_ns) / kNanoseconds;
  const std::string_view operation = span.text("gen_ai.operation.name");
  if (operation == "chat" || operation == "text_completion") {
    observe(kOperation, seconds, span, kChatKeys);
    const std::int64_t in = whole(span, "gen_ai.usage.input_tokens");
    const std::int64_t out = whole(span, "gen_ai.usage.output_tokens");
    if (in > 0) observe(kUsage, static_cast<double>(in), span, kUsageKeys, "input");
    if (out > 0) observe(kUsage, static_cast<double>(out), span, kUsageKeys, "output");
    if (span.kind != trace::SpanKind::internal) return;  // another server makes the tokens
    observe(kRequest, seconds, span, kChatKeys);
    const double first = fraction(span, "gen_ai.response.time_to_first_chunk");
    if (first < 0) return;
    observe(kTimeToFirst, first, span, kUsageKeys);
    if (out > 1) {
      observe(kTimePerToken, (seconds - first) / static_cast<double>(out - 1), span, kUsageKeys);
    }
    return;
  }
  // A span may be of several kinds: a tool of another server is a run of a tool and a call of MCP.
  if (operation == "invoke_agent") observe(kAgent, seconds, span, kAgentKeys);
  if (operation == "execute_tool") observe(kTool, seconds, span, kToolKeys);
  if (span.find("mcp.method.name") != nullptr) observe(kMcpCall, seconds, span, kMcpKeys);
  if (span.kind == trace::SpanKind::server) observe(kHttpRequest, seconds, span, kHttpKeys);
}

std::vector<std::pair<const Instrument*, std::vector<Series>>> Histograms::all() const {
  std::vector<std::pair<const Instrument*, std::vector<Series>>> out;
  const std::lock_guard lock(mutex_);
  for (const auto& [instrument, series] : series_) {
    std::vector<Series>& list = out.emplace_back(instrument, std::vector<Series>()).second;
    for (const auto& [name, one] : series) list.push_back(one);
  }
  return out;
}

}  // namespace tenon::telemetry
