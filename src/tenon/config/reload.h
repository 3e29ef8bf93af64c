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

/// What SIGHUP does: reads the configuration again and applies what can change while requests go
/// on. If any of it is wrong, nothing is applied. docs/configuration.md lists what can change.
///
///     Reloader reloader({read, set_log_level, *instance});
///     reloader.reload();   // the log says what has changed
///
/// Must not be called from two threads at a time.
class Reloader {
 public:
  struct Options {
    std::function<Expected<Config>()> read;
    std::function<void(std::string_view level)> set_log_level;  ///< Gets a value of log_level.
    Instance& instance;  ///< Has the models, and listens. Outlives this.
  };
  explicit Reloader(Options options)
      : options_(std::move(options)), running_(options_.instance.config()) {}

  /// Loads new models first, however long that takes.
  void reload();
  /// The [server] table as it is now.
  [[nodiscard]] const ServerConfig& server() const { return running_.server; }

 private:
  struct Models;
  Expected<std::vector<std::string>> apply();
  [[nodiscard]] Expected<Models> changed_models(const Config& config) const;

  const Options options_;
  Config running_;
};

}  // namespace tenon::config
