#include "tenon/api/metrics.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "tenon/base/log.h"

// What is counted, and when
//
// Impl has all families. Some counters are raised as things happen (answers, calls, repairs). The
// engines, grammar caches, models and the trace exporter count by themselves; their totals are read
// when a client asks for /metrics, and raise() brings our counters up to them. Gauges are set then,
// too. A label is only ever a model's name, a route of the router, an upstream's address or one of
// our own words, so clients cannot make new time series.

namespace tenon::api {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;

using Counters = prometheus::Family<prometheus::Counter>;
using Histograms = prometheus::Family<prometheus::Histogram>;

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// The buckets of vLLM, so that dashboards made for it fit.
const prometheus::Histogram::BucketBoundaries& latency_buckets() {
  static const prometheus::Histogram::BucketBoundaries kBuckets = {
      0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
      1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0};
  return kBuckets;
}

}  // namespace

struct Metrics::Impl {
  prometheus::Registry registry;
  prometheus::Gauge& running = BuildGauge()
                                   .Name("tenon_requests_running")
                                   .Help("HTTP requests being answered")
                                   .Register(registry)
                                   .Add({});
  Counters& requests =
      counter("tenon_http_requests_total", "HTTP requests answered, by route and status");
  Histograms& durations =
      BuildHistogram()
          .Name("tenon_request_duration_seconds")
          .Help("From a request's last byte in to its answer's last byte queued")
          .Register(registry);
  Histograms& first_events = BuildHistogram()
                                 .Name("tenon_time_to_first_event_seconds")
                                 .Help("From a request's last byte in to the answer's first event")
                                 .Register(registry);
  Counters& answers =
      counter("tenon_answers_total", "Answers (choices) that ended, by finish reason");
  Counters& calls =
      counter("tenon_tool_calls_total",
              "Tool calls that left the server, by how they were written, what guarantees them and "
              "whether they are whole and valid");
  Counters& leaks = counter("tenon_leaked_markers_total",
                            "Markers of calls that are content because no call came of them");
  Counters& prompt_tokens =
      counter("tenon_prompt_tokens_total", "Prompt tokens of answers that ended");
  Counters& generated_tokens =
      counter("tenon_generated_tokens_total", "Tokens that engines generated");
  Counters& compilations =
      counter("tenon_grammar_compilations_total", "Grammars of requests that were compiled");
  Counters& cache_hits =
      counter("tenon_grammar_cache_hits_total", "Requests whose grammar was there already");
  prometheus::Family<prometheus::Gauge>& cache_bytes =
      BuildGauge()
          .Name("tenon_grammar_cache_bytes")
          .Help("What the grammars of a model take, with what they have remembered")
          .Register(registry);
  // For the embedded engine.
  Counters& masks = counter("tenon_masks_total", "Token masks made");
  Counters& mask_seconds =
      counter("tenon_mask_seconds_total", "Making token masks, beside the model");
  Counters& mask_wait_seconds =
      counter("tenon_mask_wait_seconds_total",
              "The part of tenon_mask_seconds_total in which the model stood still");
  Counters& forced_tokens = counter("tenon_mask_forced_tokens_total",
                                    "Tokens of answers that a grammar left no choice about");
  Counters& closed_loops = counter("tenon_mask_closed_repetitions_total",
                                   "Values that were closed because they repeated themselves");
  Counters& guessed_tokens = counter("tenon_engine_guessed_tokens_total",
                                     "Tokens computed ahead of their choice, on a guess");
  Counters& accepted_guesses =
      counter("tenon_engine_accepted_guesses_total", "Guessed tokens that were chosen");
  Counters& cached_tokens =
      counter("tenon_prefix_cache_tokens_total", "Prompt tokens found in the cache");
  Counters& decodes = counter("tenon_engine_decodes_total", "Batches that a model computed");
  Counters& decode_seconds =
      counter("tenon_engine_decode_seconds_total", "What that took the model");
  Counters& preemptions = counter("tenon_engine_preemptions_total",
                                  "Answers that lost their place in the cache for a while");
  prometheus::Family<prometheus::Gauge>& runs =
      BuildGauge()
          .Name("tenon_engine_runs")
          .Help("Answers that a model computes, and those that wait for a place")
          .Register(registry);

  // For upstreams.
  prometheus::Family<prometheus::Gauge>& upstream_up =
      BuildGauge()
          .Name("tenon_upstream_up")
          .Help("Whether runs of the model go to this server")
          .Register(registry);
  prometheus::Family<prometheus::Gauge>& upstream_runs = BuildGauge()
                                                             .Name("tenon_upstream_runs")
                                                             .Help("Runs that a server has now")
                                                             .Register(registry);
  Counters& upstream_requests =
      counter("tenon_upstream_requests_total", "Runs that a server was sent, by how they ended");
  Counters& first_tokens =
      counter("tenon_upstream_first_tokens_total", "Runs of which a first token came");
  Counters& first_token_seconds = counter("tenon_upstream_first_token_seconds_total",
                                          "From the sending of a run to its first token");

  Counters& loads = counter("tenon_model_loads_total", "How often a model was loaded");
  Counters& unloads = counter("tenon_model_unloads_total",
                              "How often a model was unloaded because others needed the memory");
  prometheus::Family<prometheus::Gauge>& loaded = BuildGauge()
                                                      .Name("tenon_model_loaded")
                                                      .Help("1: the model is loaded, 0: it is not")
                                                      .Register(registry);
  prometheus::Family<prometheus::Gauge>& model_bytes =
      BuildGauge()
          .Name("tenon_model_bytes")
          .Help("What weights and caches of a loaded model take at most")
          .Register(registry);

  Counters& counter(const char* name, const char* help) {
    return BuildCounter().Name(name).Help(help).Register(registry);
  }
  // Raises a model's counter to what the model has counted.
  void raise(Counters& family, const std::string& model, double to) {
    raise(family, prometheus::Labels{{"model", model}}, to);
  }
  void raise(Counters& family, const prometheus::Labels& labels, double to) {
    prometheus::Counter& counter = family.Add(labels);
    counter.Increment(to - counter.Value());  // a smaller number changes nothing
  }

  void upstream(const std::string& model, const engine::UpstreamStats& server);
  /// Removes the figures of servers that are not in `those` any more.
  void keep_upstreams(const std::string& model, const std::set<std::string>& those);

  std::mutex raising;           // held while counters are raised to what a model has counted
  std::set<std::string> named;  // guarded by raising; the models at the last call
  std::map<std::string, std::set<std::string>> urls;  // guarded by raising; their servers
  Counters& spans = counter("tenon_telemetry_spans_total",
                            "Sampled spans that were exported, dropped for want of room, or that "
                            "the receiver did not take");
  Counters& repairs =
      counter("tenon_repairs_total", "What was not taken as the model wrote it, by kind");
};

namespace {

// In the order of `counts` in Impl::upstream().
constexpr std::array<const char*, 4> kOutcomes = {"answered", "refused", "failed", "cancelled"};

prometheus::Labels with_outcome(prometheus::Labels labels, const char* outcome) {
  labels.emplace("outcome", outcome);
  return labels;
}

}  // namespace

// prometheus-cpp's Add() returns the metric that is there, or makes one, so Has() comes first.
void Metrics::Impl::keep_upstreams(const std::string& model, const std::set<std::string>& those) {
  const auto remove = [](auto& family, const prometheus::Labels& labels) {
    if (family.Has(labels)) family.Remove(&family.Add(labels));
  };
  std::erase_if(urls[model], [&](const std::string& url) {
    if (those.contains(url)) return false;
    const prometheus::Labels labels{{"model", model}, {"url", url}};
    remove(upstream_up, labels);
    remove(upstream_runs, labels);
    remove(first_tokens, labels);
    remove(first_token_seconds, labels);
    for (const char* outcome : kOutcomes) remove(upstream_requests, with_outcome(labels, outcome));
    return true;
  });
}

void Metrics::Impl::upstream(const std::string& model, const engine::UpstreamStats& server) {
  constexpr double kNano = 1e-9;
  const prometheus::Labels labels{{"model", model}, {"url", server.url}};
  upstream_up.Add(labels).Set(server.is_up ? 1 : 0);
  upstream_runs.Add(labels).Set(server.running);
  const std::uint64_t counts[] = {server.answered, server.refused, server.failed, server.cancelled};
  for (std::size_t i = 0; i < kOutcomes.size(); ++i) {
    raise(upstream_requests, with_outcome(labels, kOutcomes[i]), static_cast<double>(counts[i]));
  }
  raise(first_tokens, labels, static_cast<double>(server.first_tokens));
  raise(first_token_seconds, labels, static_cast<double>(server.first_token_nanoseconds) * kNano);
  urls[model].insert(server.url);
}

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::first_event(const std::string& model, std::chrono::steady_clock::duration after) {
  impl_->first_events.Add({{"model", model}}, latency_buckets()).Observe(seconds(after));
}

void Metrics::answer_ended(const std::string& model, const message::Finish& finish,
                           const CallCounts& calls) {
  const std::string reason(message::finish_reason_name(finish.reason));
  impl_->answers.Add({{"model", model}, {"finish_reason", reason}}).Increment();
  impl_->prompt_tokens.Add({{"model", model}}).Increment(finish.usage.prompt_tokens);
  impl_->generated_tokens.Add({{"model", model}}).Increment(finish.usage.completion_tokens);
  const std::string guarantee(message::guarantee_name(finish.guarantee));
  const auto count = [&](const char* outcome, std::size_t number) {
    if (number == 0) return;
    impl_->calls
        .Add({{"model", model},
              {"format", finish.format},
              {"guarantee", guarantee},
              {"outcome", outcome}})
        .Increment(static_cast<double>(number));
  };
  // A call that is neither cut nor reported as invalid is complete.
  count("complete", calls.begun - calls.incomplete - calls.invalid);
  count("incomplete", calls.incomplete);
  count("invalid", calls.invalid);
}

// The kinds in kLeaks are those after which a client has seen a marker as text.
void Metrics::repaired(const std::string& model, const std::string& kind) {
  impl_->repairs.Add({{"kind", kind}}).Increment();
  constexpr std::string_view kLeaks[] = {"leaked_marker", "unknown_tool", "broken_call",
                                         "oversized_call"};
  if (std::ranges::find(kLeaks, kind) != std::end(kLeaks)) {
    impl_->leaks.Add({{"model", model}}).Increment();
  }
}

void CallCounts::add(const message::ChatEvent& event) {
  if (std::holds_alternative<message::CallBegin>(event)) ++begun;
  if (const auto* end = std::get_if<message::CallEnd>(&event))
    incomplete += end->incomplete ? 1 : 0;
  if (const auto* told = std::get_if<message::Diagnostic>(&event)) {
    invalid += told->code == "invalid_arguments" ? 1 : 0;
  }
}

void Metrics::grammars(const std::string& model, const chat::GrammarCounts& counts) {
  const std::lock_guard lock(impl_->raising);
  impl_->raise(impl_->compilations, model, static_cast<double>(counts.compilations));
  impl_->raise(impl_->cache_hits, model, static_cast<double>(counts.cache_hits));
  impl_->cache_bytes.Add({{"model", model}}).Set(static_cast<double>(counts.cache_bytes));
}

// Called for each model when /metrics is read. The engine counts by itself, so a token costs
// nothing here.
void Metrics::engine(const std::string& model, const engine::EngineStats& stats) {
  constexpr double kNano = 1e-9;
  const std::lock_guard lock(impl_->raising);
  const auto raise = [&](Counters& family, std::uint64_t to, double unit = 1.0) {
    impl_->raise(family, model, static_cast<double>(to) * unit);
  };
  raise(impl_->masks, stats.masks);
  raise(impl_->mask_seconds, stats.mask_nanoseconds, kNano);
  raise(impl_->mask_wait_seconds, stats.mask_wait_nanoseconds, kNano);
  raise(impl_->forced_tokens, stats.forced_tokens);
  raise(impl_->closed_loops, stats.closed_loops);
  raise(impl_->guessed_tokens, stats.guessed_tokens);
  raise(impl_->accepted_guesses, stats.accepted_guesses);
  raise(impl_->cached_tokens, stats.cached_tokens);
  raise(impl_->decodes, stats.decodes);
  raise(impl_->decode_seconds, stats.decode_nanoseconds, kNano);
  raise(impl_->preemptions, stats.preemptions);
  impl_->runs.Add({{"model", model}, {"state", "running"}}).Set(stats.running);
  impl_->runs.Add({{"model", model}, {"state", "waiting"}}).Set(stats.waiting);
  std::set<std::string> urls;
  for (const engine::UpstreamStats& server : stats.upstreams) {
    impl_->upstream(model, server);
    urls.insert(server.url);
  }
  impl_->keep_upstreams(model, urls);
}

void Metrics::spans(const trace::SpanCounts& counts) {
  const std::lock_guard lock(impl_->raising);
  const auto raise = [&](const char* outcome, std::uint64_t to) {
    impl_->raise(impl_->spans, {{"outcome", outcome}}, static_cast<double>(to));
  };
  raise("exported", counts.exported);
  raise("dropped", counts.dropped);
  raise("failed", counts.failed);
}

// A model that a reload has removed keeps its counters, and its gauges become 0.
void Metrics::models(const std::vector<chat::ModelRegistry::Entry>& entries) {
  const std::lock_guard lock(impl_->raising);
  std::set<std::string> gone = std::exchange(impl_->named, {});
  for (const chat::ModelRegistry::Entry& entry : entries) {
    const bool is_loaded = entry.loaded.has_value();
    impl_->raise(impl_->loads, entry.name, static_cast<double>(entry.loads));
    impl_->raise(impl_->unloads, entry.name, static_cast<double>(entry.unloads));
    impl_->loaded.Add({{"model", entry.name}}).Set(is_loaded ? 1 : 0);
    impl_->model_bytes.Add({{"model", entry.name}})
        .Set(is_loaded ? static_cast<double>(entry.memory_bytes) : 0.0);
    impl_->named.insert(entry.name);
    gone.erase(entry.name);
  }
  for (const std::string& name : gone) {
    for (auto* gauge : {&impl_->loaded, &impl_->model_bytes, &impl_->cache_bytes}) {
      gauge->Add({{"model", name}}).Set(0);
    }
    impl_->keep_upstreams(name, {});
    for (const char* state : {"running", "waiting"}) {
      impl_->runs.Add({{"model", name}, {"state", state}}).Set(0);
    }
  }
}

std::string Metrics::text() const {
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

RunningRequest::RunningRequest(Metrics& metrics) : metrics_(&metrics) {
  metrics.impl_->running.Increment();
}

// The other object counts nothing from now on; its destructor must not end the request.
RunningRequest::RunningRequest(RunningRequest&& other) noexcept
    : metrics_(std::exchange(other.metrics_, nullptr)),
      route_(other.route_),
      about_(std::move(other.about_)),
      span_(std::move(other.span_)),
      in_reports_(std::move(other.in_reports_)),
      begun_(other.begun_) {}

// Only a request that was dropped without an answer comes here uncounted.
RunningRequest::~RunningRequest() {
  ended(500);
}

// Counts once: the first call takes metrics_ away.
void RunningRequest::ended(unsigned status) {
  if (metrics_ == nullptr) return;
  Metrics::Impl& counts = *std::exchange(metrics_, nullptr)->impl_;
  in_reports_.end();
  span_.set("http.response.status_code", std::int64_t{status});
  if (status >= 500) span_.fail(std::to_string(status));
  span_.end();
  counts.running.Decrement();
  const std::string name(route_);
  const auto took = std::chrono::steady_clock::now() - begun_;
  counts.requests.Add({{"route", name}, {"status", std::to_string(status)}}).Increment();
  counts.durations.Add({{"route", name}}, latency_buckets()).Observe(seconds(took));
  const log::Level level = status >= 500 ? log::Level::warn : log::Level::debug;
  if (!log::is_on(level)) return;
  const log::About about(about_);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
  log::write(level, name + ": " + std::to_string(status) + " after " + std::to_string(ms) + " ms");
}

}  // namespace tenon::api
