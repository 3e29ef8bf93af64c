#include "recursive_choice.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>

#include "fetch_view.h"
#include "terminal.h"
#include <unistd.h>

#include "tenon/config/models.h"
#include "tenon/config/user_formats.h"

namespace tenon::app {

OrComplaint<config::Config> recursive_config(const RecursiveChoice& options) {
  const char* const named = std::getenv("TENON_CONFIG");
  if (!options.root.empty() && !options.config.empty() &&
      // TENON_CONFIG sets --config, too. A variable that stands in the environment anyway must not
      // refuse --root; a flag does.
      (named == nullptr || options.config != named)) {
    return complaint(kUsage, "--root is instead of a configuration: leave it or --config out");
  }
  if (options.root.empty() && !options.config.empty()) {
    auto read = config::read_config(options.config);
    if (!read) return complaint(read.error());
    if (read->models.empty()) return complaint(kBadInput, options.config + " has no model");
    if (auto loaded = config::load_formats(read->server.format_files); !loaded) {
      return complaint(loaded.error());
    }
    return *std::move(read);
  }
  if (!options.model.empty()) {
    return complaint(kUsage,
                     "--model " + options.model +
                         " names a model of a configuration, but no configuration is given" +
                         (options.root.empty() ? "" : " beside --root"));
  }
  auto root = config::model_from_path(options.root, fetch_view());
  if (!root) return complaint(root.error());
  config::Config config;
  config.models = {*std::move(root)};
  return config;
}

// In this order: the model that is named, the first recursive one, or the first model as root and
// sub.
OrComplaint<rlm::RecursiveOptions> choose_recursive(const RecursiveChoice& options,
                                                    const config::Config& config) {
  // A command shows no warnings of the log.
  if (const auto turns = config::turns_of_environment(); !turns) {
    std::cerr << "tenon: " << shown(turns.error().message, STDERR_FILENO) << '\n';
  }
  const auto first = std::ranges::find(config.models, "rlm", &config::ModelConfig::engine);
  if (options.model.empty() && first != config.models.end())
    return config::recursive_options(*first);
  const std::string name = options.model.empty() ? config.models.front().name : options.model;
  if (auto recursive = config::recursive_named(config, name)) return *std::move(recursive);
  if (auto both = config::recursive_named(config, name + ":" + name)) return *std::move(both);
  return complaint(kUsage, "--model " + name +
                               " is neither a model of the configuration nor two of them that are "
                               "not recursive, as root:sub");
}

void add_recursive_choice(App app, RecursiveChoice& options) {
  app.add_option("--config", options.config, "tenon.toml with the models").envname("TENON_CONFIG");
  app.add_option("--model", options.model,
                 "A recursive model of the configuration, or two of its models as root:sub "
                 "(default: its first recursive model, else its first)");
  app.add_option("--root", options.root,
                 "GGUF file, instead of a configuration (default: the bundled model)");
}

}  // namespace tenon::app
