#include "tenon/api/model_door.h"

#include <cstddef>
#include <exception>
#include <utility>

#include "tenon/base/log.h"
#include "tenon/chat/model_pair.h"

namespace tenon::api {

void ModelDoor::enter(const std::string& name, Call& call, Use use) {
  if (is_pair(name)) return use(call, *pairs_);
  // Uses the model's own name, since a model with the alias "*" answers to any name.
  const std::string own = models_.own_name(name);
  if (own.empty()) return respond_error(call, unknown_model(name));
  const auto model = models_.loaded(own);
  if (model == nullptr) return wait_for(own, call, std::move(use));
  go_on(model, call, std::move(use));
}

// Rendering and starting may wait for an upstream, so such a model has workers of its own, and a
// slow upstream delays only its own requests.
void ModelDoor::go_on(const std::shared_ptr<chat::Model>& model, Call& call, Use use) {
  if (!model->capabilities().is_remote) return use(call, *model);
  call.is_apart = true;
  runner_.post(
      workers_of(model->name()), [model, use = std::move(use)](Call& own) { use(own, *model); },
      std::move(call));
}

// One thread loads a model, however many requests wait for it, so that others can load other
// models.
void ModelDoor::wait_for(const std::string& name, Call& call, Use use) {
  std::unique_lock lock(waiting_mutex_);
  std::vector<Waiting>& those = waiting_[name];
  if (those.size() >= runner_.max_waiting()) {
    lock.unlock();
    return respond_error(call, overloaded());
  }
  // Posted first: if one of the two lines throws for lack of memory, no call waits for ever.
  if (those.empty()) loads_.post([this, name] { load(name); });
  those.push_back({std::move(use), std::move(call)});
}

// Runs on a loader. All calls that have come meanwhile go on from here, or get the same error.
void ModelDoor::load(const std::string& name) {
  std::shared_ptr<chat::Model> model;  // keeps the model loaded until all calls have begun
  ApiError error = internal_error();
  try {
    auto used = models_.use(name);
    if (used) {
      model = *std::move(used);
    } else {
      error = from_refusal(used.error());
    }
  } catch (const std::exception& thrown) {
    log::error("model '" + name + "': " + thrown.what());
  }
  std::vector<Waiting> those;
  {
    const std::lock_guard lock(waiting_mutex_);
    those.swap(waiting_[name]);
  }
  for (auto& [use, call] : those) {
    if (model == nullptr) {
      respond_error(call, error);
      continue;
    }
    runner_.run([&, own = std::move(use)](Call& its) { go_on(model, its, own); }, call);
  }
}

Workers& ModelDoor::workers_of(const std::string& model) {
  const std::lock_guard lock(apart_mutex_);
  std::unique_ptr<Workers>& workers = apart_[model];
  if (workers == nullptr) workers = std::make_unique<Workers>(CallRunner::kQuickThreads);
  return *workers;
}

Result<std::string, ApiError> ModelDoor::model_or_only(const std::string& name) const {
  if (!name.empty()) return name;
  const auto entries = models_.entries();
  if (entries.size() == 1) return entries[0].name;
  return Failure<ApiError>(ApiError{.message = "model is required where there are several",
                                    .param = "model",
                                    .code = "missing_required_parameter"});
}

bool ModelDoor::is_pair(std::string_view name) const {
  if (pairs_ == nullptr || models_.has_own(name)) return false;
  return chat::split_pair(name, [&](auto part) { return models_.has_single(part); }).has_value();
}

// Says why a name like "a:b" is no pair of models, if it looks like one.
ApiError ModelDoor::unknown_model(std::string_view name) const {
  constexpr std::size_t kMost = 200;
  std::string why = "does not exist; GET /v1/models lists those that do";
  const auto pair = chat::split_pair(name, [&](auto part) { return models_.has(part); });
  if (pair && pairs_ == nullptr) {
    why = "is a pair of models, which are not taken here (server.recursive_pairs)";
  } else if (pair) {
    const auto recursive = models_.has_single(pair->root) ? pair->sub : pair->root;
    why = "is no pair of models: " + json::quoted(recursive) + " is a recursive model itself";
  }
  return {.message = "the model " + json::quoted(name.substr(0, kMost)) + " " + why,
          .param = "model",
          .code = "model_not_found"};
}

void ModelDoor::cut() {
  std::map<std::string, std::vector<Waiting>> those;
  {
    const std::lock_guard lock(waiting_mutex_);
    those.swap(waiting_);
  }
  for (auto& [model, calls] : those) {
    for (Waiting& each : calls) respond_error(each.call, is_stopping());
  }
}

void ModelDoor::stop_upstream_workers() {
  const std::lock_guard lock(apart_mutex_);
  for (auto& [model, workers] : apart_) workers->stop();
}

}  // namespace tenon::api
