#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "config.h"

#include "tenon/api/service.h"
#include "tenon/http/server.h"
#include "tenon/rlm/host.h"

namespace tenon::app {

/// The keys of `config`'s file. Fails without one where others can reach config.host.
[[nodiscard]] OrComplaint<api::Access> read_access(const ServerConfig& config);

/// What SIGHUP does: reads the configuration again and takes over what can change while requests go
/// on, all of it or, where any of it is wrong, nothing. docs/configuration.md lists what can.
///
///     Reloader reloader({read, *config, service, server});
///     reloader.reload();   // says in the log what came of it
///
/// Not from two threads at a time.
class Reloader {
 public:
  struct Options {
    std::function<OrComplaint<Config>()> read;
    Config running;
    api::Service& service;  ///< Has its models. Outlives this, as the next does.
    http::Server& server;
    std::shared_ptr<rlm::Host> host;  ///< Of recursive models.
  };
  explicit Reloader(Options options) : options_(std::move(options)) {}

  /// Loads the models that are new first, which takes as long as it takes.
  void reload();
  /// As it is now.
  [[nodiscard]] const ServerConfig& server() const { return options_.running.server; }

 private:
  struct Models;
  OrComplaint<std::vector<std::string>> apply();
  [[nodiscard]] OrComplaint<Models> changed_models(const Config& config) const;

  Options options_;
};

}  // namespace tenon::app
