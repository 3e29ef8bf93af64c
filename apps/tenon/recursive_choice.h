#pragma once

#include <string>

#include "command.h"

#include "tenon/config/config.h"
#include "tenon/rlm/recursive_model.h"

namespace tenon::app {

/// The options that name a recursive model.
struct RecursiveChoice {
  std::string config;
  std::string model;
  std::string root;
};

void add_recursive_choice(App app, RecursiveChoice& options);

/// The configuration, or one of the single model that --root names.
[[nodiscard]] OrComplaint<config::Config> recursive_config(const RecursiveChoice& options);

/// Chooses by --model: a recursive model of the configuration, a pair, or one model for both.
/// Without it, the first recursive model, or else the first model.
[[nodiscard]] OrComplaint<rlm::RecursiveOptions> choose_recursive(const RecursiveChoice& options,
                                                                  const config::Config& config);

}  // namespace tenon::app
