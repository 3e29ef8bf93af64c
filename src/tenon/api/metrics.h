#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/crash.h"
#include "tenon/base/span.h"
#include "tenon/chat/model_registry.h"
#include "tenon/engine/engine.h"
#include "tenon/message/event.h"

namespace tenon::api {

/// What happened to an answer's calls.
struct CallCounts {
  std::size_t begun = 0;
  std::size_t incomplete = 0;  ///< Cut, by length or by the model.
  std::size_t invalid = 0;     ///< Whole, but invalid by their tools' schemas.

  /// Counts one event of the answer.
  void add(const message::ChatEvent& event);
};

/// What the server counts, in Prometheus' text form at GET /metrics. Base units, names `tenon_*`:
///
///     tenon_http_requests_total{route,status}         tenon_requests_running
///     tenon_request_duration_seconds{route}           tenon_time_to_first_event_seconds{model}
///     tenon_answers_total{model,finish_reason}        tenon_leaked_markers_total{model}
///     tenon_tool_calls_total{model,format,guarantee,outcome}
///     tenon_prompt_tokens_total{model}                tenon_generated_tokens_total{model}
///     tenon_grammar_compilations_total{model}         tenon_grammar_cache_hits_total{model}
///     tenon_grammar_cache_bytes{model}                tenon_repairs_total{kind}
///     tenon_masks_total{model}                        tenon_mask_seconds_total{model}
///     tenon_mask_wait_seconds_total{model}            tenon_mask_forced_tokens_total{model}
///     tenon_mask_closed_repetitions_total{model}
///     tenon_prefix_cache_tokens_total{model}          tenon_engine_decodes_total{model}
///     tenon_engine_guessed_tokens_total{model}        tenon_engine_accepted_guesses_total{model}
///     tenon_engine_decode_seconds_total{model}        tenon_engine_preemptions_total{model}
///     tenon_engine_runs{model,state}                  tenon_model_loaded{model}
///     tenon_model_loads_total{model}                  tenon_model_unloads_total{model}
///     tenon_model_bytes{model}                        tenon_upstream_up{model,url}
///     tenon_upstream_runs{model,url}                  tenon_upstream_first_tokens_total{model,url}
///     tenon_upstream_requests_total{model,url,outcome}
///     tenon_upstream_first_token_seconds_total{model,url}
///     tenon_telemetry_spans_total{outcome}
///
/// Routes, models and URLs are the server's own names, never text of a client, so the number of
/// series is bounded. Thread-safe.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void first_event(const std::string& model, std::chrono::steady_clock::duration after);
  /// One choice of an answer has ended. `calls` were in it.
  void answer_ended(const std::string& model, const message::Finish& finish,
                    const CallCounts& calls);

  /// Something that the model wrote was changed; `kind` is the code of the Diagnostic.
  void repaired(const std::string& model, const std::string& kind);

  /// The model's own counts at this time; older ones change nothing.
  void grammars(const std::string& model, const chat::GrammarCounts& counts);
  /// The same for what the model's engine has done.
  void engine(const std::string& model, const engine::EngineStats& stats);
  /// What became of the sampled spans.
  void spans(const trace::SpanCounts& counts);
  /// The state of all models; gauges of models that are not in `entries` any more are cleared.
  void models(const std::vector<chat::ModelRegistry::Entry>& entries);

  [[nodiscard]] std::string text() const;

 private:
  friend class RunningRequest;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A request being answered: it is among the running ones while this lives, and is counted once.
///
///     RunningRequest running(metrics);
///     running.set_route("/v1/models");
///     running.ended(200);
///
/// A request that is destroyed without ended() was dropped, which counts as status 500. While it
/// runs, crash reports name it.
class RunningRequest {
 public:
  explicit RunningRequest(Metrics& metrics);  ///< Outlives this.
  ~RunningRequest();
  RunningRequest(RunningRequest&& other) noexcept;
  RunningRequest& operator=(RunningRequest&&) = delete;

  /// Without it the route counts as "unknown". `route` must live as long as the program.
  void set_route(std::string_view route) {
    route_ = route;
    tell();
  }
  /// The beginning of its log line; the first word is the request's id.
  void set_about(std::string about) {
    about_ = std::move(about);
    tell();
  }
  /// Ends with the request.
  void set_span(trace::Span span) { span_ = std::move(span); }
  /// Counts it, and logs its line: at `warn` if the server failed, else at `debug`.
  void ended(unsigned status);

 private:
  void tell() { in_reports_.tell(route_, std::string_view(about_).substr(0, about_.find(' '))); }

  Metrics* metrics_;  // null after ended()
  std::string_view route_ = "unknown";
  std::string about_;
  trace::Span span_;
  crash::Request in_reports_;  // has only its route and id
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace tenon::api
