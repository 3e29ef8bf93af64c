// What the server tells about itself: its models, health, metrics and pages.

#include <array>
#include <cstdint>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/api/openapi.h"
#include "tenon/api/routes.h"
#include "tenon/base/span.h"

namespace tenon::api {
namespace {

using json::Value;

// The time in the format of RFC 3339.
std::string timestamp(std::time_t time) {
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

// A model as OpenAI's and Anthropic's lists have it, with what only we tell. A model that is not
// loaded is told without what its files would have to be read for.
Value describe(const ServiceParts& parts, const chat::ModelRegistry::Entry& entry) {
  json::Array aliases;
  for (const std::string& alias : entry.aliases) aliases.emplace_back(alias);
  json::Object described{{"id", entry.name},
                         {"object", "model"},
                         {"created", parts.started},
                         {"owned_by", "tenon"},
                         // Fields that Anthropic's SDKs read.
                         {"type", "model"},
                         {"display_name", entry.name},
                         {"created_at", timestamp(parts.started)},
                         {"aliases", std::move(aliases)},
                         {"loaded", entry.loaded.has_value()}};
  if (!entry.loaded) return described;  // the rest is known once the model is loaded
  const chat::ModelRegistry::Loaded& loaded = *entry.loaded;
  json::Object capabilities{{"tool_calls", loaded.is_recursive || !loaded.format.empty()},
                            {"parallel_tool_calls", loaded.is_recursive || loaded.is_parallel}};
  if (loaded.engine.context_tokens > 0) {  // some servers do not tell
    described.set("context_length", std::uint64_t{loaded.engine.context_tokens});
  }
  described.set("capabilities", std::move(capabilities));
  described.set("tool_call_format", loaded.format.empty() ? Value() : Value(loaded.format));
  described.set("engine", loaded.engine.kind);
  return described;
}

void list_models(ServiceParts& parts, Call& call) {
  json::Array data;
  for (const auto& entry : parts.door.models().entries()) data.push_back(describe(parts, entry));
  respond_json(call, json::Object{{"object", "list"}, {"data", std::move(data)}});
}

void get_model(ServiceParts& parts, Call& call) {
  // Tested first, as in ModelDoor::enter: a model that answers to every name would hide a pair.
  const ModelDoor& door = parts.door;
  const bool is_pair = door.is_pair(call.tail);
  const std::string own = is_pair ? std::string() : door.models().own_name(call.tail);
  for (const auto& entry : door.models().entries()) {
    if (entry.name == own) return respond_json(call, describe(parts, entry));
  }
  if (is_pair) {
    return respond_json(call, describe(parts, {.name = std::string(call.tail),
                                               .aliases = {},
                                               .loaded = chat::ModelRegistry::Loaded{
                                                   .engine = door.pairs()->capabilities(),
                                                   .format = {},
                                                   .is_recursive = true}}));
  }
  respond_error(call, door.unknown_model(call.tail));
}

void health(ServiceParts& parts, Call& call) {
  const std::string_view tier = parts.options.sandbox_tier ? parts.options.sandbox_tier() : "";
  json::Object ok{{"status", "ok"}};
  if (!tier.empty()) ok.set("sandbox", tier);
  if (parts.is_ready) return respond_json(call, std::move(ok));
  respond(call, {.status = 503, .body = json::to_string(json::Object{{"status", "loading"}})});
}

void version(ServiceParts& parts, Call& call) {
  respond_json(call, json::Object{{"name", "tenon"}, {"version", parts.options.version}});
}

// The totals that models and the exporter count themselves are read now; everything else is counted
// already.
void metrics_text(ServiceParts& parts, Call& call) {
  if (parts.is_ready) {
    const auto entries = parts.door.models().entries();
    for (const auto& entry : entries) {
      parts.metrics.grammars(entry.name, entry.grammars);
      parts.metrics.engine(entry.name, entry.stats);
    }
    parts.metrics.models(entries);
  }
  if (const auto spans = trace::span_sink()) parts.metrics.spans(spans->counts());
  respond(call, {.content_type = "text/plain; version=0.0.4; charset=utf-8",
                 .body = parts.metrics.text()});
}

// The document, made anew when the models are others.
class OpenApiText {
 public:
  std::shared_ptr<const std::string> of(const ServiceParts& parts) {
    OpenApiOptions about{.version = parts.options.version, .models = {}};
    for (const auto& entry : parts.door.models().entries()) {
      about.models.push_back(entry.name);
      about.models.insert(about.models.end(), entry.aliases.begin(), entry.aliases.end());
    }
    const std::lock_guard lock(mutex_);
    if (text_ == nullptr || models_ != about.models) {
      text_ = std::make_shared<std::string>(json::to_string(openapi(about)));
      models_ = about.models;
    }
    return text_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> models_;          // guarded by mutex_
  std::shared_ptr<const std::string> text_;  // for those models; guarded by mutex_
};

}  // namespace

std::vector<Route> server_routes(ServiceParts& parts) {
  constexpr unsigned kPlain = 0;
  // Probes of load balancers have no key, and ask before the models are there.
  constexpr unsigned kAlways = Route::kOpen | Route::kEarly;
  std::vector<Route> routes = routes_of(parts, {{"GET", "/v1/models", list_models, kPlain},
                                                {"GET", "/v1/models/{name}", get_model, kPlain},
                                                {"GET", "/metrics", metrics_text, Route::kEarly},
                                                {"GET", "/version", version, Route::kEarly},
                                                {"GET", "/health", health, kAlways},
                                                {"GET", "/ready", health, kAlways},
                                                {"GET", "/v1/health", health, kAlways}});
  const Task document = [&parts, text = std::make_shared<OpenApiText>()](Call& call) {
    respond(call, {.body = *text->of(parts)});
  };
  for (const std::string_view path : {"/openapi.json", "/v1/openapi.json"}) {
    routes.push_back({"GET", path, document, kPlain});
  }
  return routes;
}

}  // namespace tenon::api
