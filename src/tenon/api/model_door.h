#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/api/call.h"
#include "tenon/api/call_runner.h"
#include "tenon/chat/model_registry.h"

namespace tenon::api {

/// The way from a call to its model: finds it by name, loads it where it is not loaded, and goes on
/// with the call on a thread that may wait for that model. A call is decoded before it comes here,
/// and only once. Thread-safe but for set_models().
class ModelDoor {
 public:
  /// `runner` must outlive it. `pairs` answers for "a:b" (ServiceOptions::pairs); may be null.
  ModelDoor(CallRunner& runner, std::shared_ptr<chat::Model> pairs)
      : runner_(runner), pairs_(std::move(pairs)) {}

  /// Call it once, before any call comes.
  void set_models(chat::ModelRegistry models) { models_ = std::move(models); }
  [[nodiscard]] chat::ModelRegistry& models() { return models_; }
  [[nodiscard]] const chat::ModelRegistry& models() const { return models_; }

  /// What is done with a call once its model is there. It may run on another thread, later.
  using Use = std::function<void(Call& call, chat::Model& model)>;
  /// Calls `use` with the model of this name, or answers the call with an error. If the model is
  /// still to be loaded, or if its engine is an upstream, the call has been moved away when this
  /// returns: a slow upstream delays only its own calls.
  void enter(const std::string& name, Call& call, Use use);

  /// `name`, or if it is empty the name of the only model.
  [[nodiscard]] Result<std::string, ApiError> model_or_only(const std::string& name) const;
  /// Whether `name` is "a:b" for two models that exist, and pairs are taken.
  [[nodiscard]] bool is_pair(std::string_view name) const;
  [[nodiscard]] const std::shared_ptr<chat::Model>& pairs() const { return pairs_; }
  [[nodiscard]] ApiError unknown_model(std::string_view name) const;

  /// Answers all calls that wait for a model with an error.
  void cut();
  /// Ends the threads of upstream models. Call it after CallRunner::stop().
  void stop_upstream_workers();
  /// Ends the threads that load models; their tasks use the models.
  void stop_loading() { loads_.stop(); }

 private:
  struct Waiting {
    Use use;
    Call call;
  };

  void go_on(const std::shared_ptr<chat::Model>& model, Call& call, Use use);
  void wait_for(const std::string& name, Call& call, Use use);
  void load(const std::string& name);
  Workers& workers_of(const std::string& model);

  static constexpr unsigned kLoadThreads = 4;  // how many models may load at the same time

  CallRunner& runner_;
  const std::shared_ptr<chat::Model> pairs_;
  std::mutex waiting_mutex_;
  std::map<std::string, std::vector<Waiting>> waiting_;  // by model; guarded by waiting_mutex_
  std::mutex apart_mutex_;
  // Workers of each upstream model; guarded by apart_mutex_. None is ever removed.
  std::map<std::string, std::unique_ptr<Workers>> apart_;
  chat::ModelRegistry models_;
  Workers loads_{kLoadThreads};  // loads models, and goes on with the calls that waited for them
};

}  // namespace tenon::api
