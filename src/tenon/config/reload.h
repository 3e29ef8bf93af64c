#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/config/config.h"
#include "tenon/config/instance.h"

namespace tenon::config {

/// What SIGHUP does: reads the configuration again and takes over what can change while requests go
/// on, all of it or, where any of it is wrong, nothing. docs/configuration.md lists what can.
///
///     Reloader reloader({read, set_log_level, *instance});
///     reloader.reload();   // says in the log what came of it
///
/// Not from two threads at a time.
class Reloader {
 public:
  struct Options {
    std::function<Expected<Config>()> read;
    std::function<void(std::string_view level)> set_log_level;  ///< One of those of log_level.
    Instance& instance;  ///< Has its models, and listens. Outlives this.
  };
  explicit Reloader(Options options)
      : options_(std::move(options)), running_(options_.instance.config()) {}

  /// Loads the models that are new first, which takes as long as it takes.
  void reload();
  /// As it is now.
  [[nodiscard]] const ServerConfig& server() const { return running_.server; }

 private:
  struct Models;
  Expected<std::vector<std::string>> apply();
  [[nodiscard]] Expected<Models> changed_models(const Config& config) const;

  const Options options_;
  Config running_;
};

}  // namespace tenon::config
