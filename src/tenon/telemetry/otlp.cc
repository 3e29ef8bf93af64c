#include "tenon/telemetry/otlp.h"

#include "tenon/json/value.h"

// The JSON encoding of OTLP: that of Protocol Buffers (64-bit integers are strings, enumerators are
// numbers, names are in camelCase), except that ids of traces and spans are hexadecimal and not
// base64. Source: opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding".

namespace tenon::telemetry {
namespace {

using json::Array;
using json::Object;
using json::Value;

constexpr const char* kScope = "tenon";
constexpr int kStatusError = 2;  // STATUS_CODE_ERROR
constexpr int kCumulative = 2;   // AGGREGATION_TEMPORALITY_CUMULATIVE: counts since the start
constexpr int kSampledFlag = 1;  // the flag of W3C Trace Context; only sampled spans are sent

// {"stringValue": "a"}, {"intValue": "5"}, {"arrayValue": {"values": [...]}} and so on.
Value any_value(const trace::SpanValue& value) {
  struct Write {
    Value operator()(const std::string& text) const { return Object{{"stringValue", text}}; }
    Value operator()(std::int64_t number) const {
      return Object{{"intValue", std::to_string(number)}};
    }
    Value operator()(double number) const { return Object{{"doubleValue", number}}; }
    Value operator()(bool flag) const { return Object{{"boolValue", flag}}; }
    Value operator()(const std::vector<std::string>& texts) const {
      Array values;
      for (const std::string& text : texts) values.emplace_back((*this)(text));
      return Object{{"arrayValue", Object{{"values", std::move(values)}}}};
    }
  };
  return std::visit(Write{}, value);
}

template <class Pairs>
Array attributes_of(const Pairs& pairs) {
  Array list;
  for (const auto& [key, value] : pairs) {
    list.emplace_back(Object{{"key", key}, {"value", any_value(value)}});
  }
  return list;
}

Object resource_of(const Sender& sender) {
  Array list;
  for (const auto& [key, value] : sender.resource) {
    list.emplace_back(Object{{"key", key}, {"value", any_value(value)}});
  }
  return {{"attributes", std::move(list)}};
}

Object scope_of(const Sender& sender) {
  return {{"name", kScope}, {"version", sender.version}};
}

Value span_of(const trace::SpanData& span) {
  Object out{{"traceId", span.trace_id}, {"spanId", span.id}};
  if (!span.parent_id.empty()) out.set("parentSpanId", span.parent_id);
  if (!span.state.empty()) out.set("traceState", span.state);
  out.set("flags", kSampledFlag);
  out.set("name", span.name);
  out.set("kind", static_cast<int>(span.kind));
  out.set("startTimeUnixNano", std::to_string(span.begin_ns));
  out.set("endTimeUnixNano", std::to_string(span.end_ns));
  out.set("attributes", attributes_of(span.attributes));
  if (span.has_failed) {
    Object status{{"code", kStatusError}};
    if (!span.message.empty()) status.set("message", span.message);
    out.set("status", std::move(status));
  }
  return out;
}

// One series. There is one more count than bounds: the last bucket has no upper bound.
Value point_of(const Instrument& instrument, const Series& series, std::int64_t begin_ns,
               std::int64_t now_ns) {
  Array buckets;
  for (const std::uint64_t count : series.buckets) buckets.emplace_back(std::to_string(count));
  Array bounds;
  for (const double bound : instrument.bounds) bounds.emplace_back(bound);
  return Object{{"attributes", attributes_of(series.attributes)},
                {"startTimeUnixNano", std::to_string(begin_ns)},
                {"timeUnixNano", std::to_string(now_ns)},
                {"count", std::to_string(series.count)},
                {"sum", series.sum},
                {"min", series.least},
                {"max", series.most},
                {"bucketCounts", std::move(buckets)},
                {"explicitBounds", std::move(bounds)}};
}

}  // namespace

// {"resourceSpans": [{"resource": {...}, "scopeSpans": [{"scope": {...}, "spans": [...]}]}]}: one
// resource (this process) and one scope (Tenon).
std::string traces_request(const Sender& sender, std::span<const trace::SpanData> spans) {
  Array list;
  for (const trace::SpanData& span : spans) list.push_back(span_of(span));
  Object scope{{"scope", scope_of(sender)}, {"spans", std::move(list)}};
  Object resource{{"resource", resource_of(sender)}, {"scopeSpans", Array{std::move(scope)}}};
  return json::to_string(Object{{"resourceSpans", Array{std::move(resource)}}});
}

std::string metrics_request(const Sender& sender, const Histograms& histograms,
                            std::int64_t begin_ns, std::int64_t now_ns) {
  Array metrics;
  for (const auto& [instrument, all] : histograms.all()) {
    Array points;
    for (const Series& series : all) {
      points.push_back(point_of(*instrument, series, begin_ns, now_ns));
    }
    metrics.emplace_back(Object{{"name", instrument->name},
                                {"description", instrument->description},
                                {"unit", instrument->unit},
                                {"histogram", Object{{"dataPoints", std::move(points)},
                                                     {"aggregationTemporality", kCumulative}}}});
  }
  Object scope{{"scope", scope_of(sender)}, {"metrics", std::move(metrics)}};
  Object resource{{"resource", resource_of(sender)}, {"scopeMetrics", Array{std::move(scope)}}};
  return json::to_string(Object{{"resourceMetrics", Array{std::move(resource)}}});
}

}  // namespace tenon::telemetry
