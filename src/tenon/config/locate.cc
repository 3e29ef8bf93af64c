// Models that are given by a name and not by a path: finds or fetches the file behind the name.
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "tenon/base/log.h"
#include "tenon/config/failure.h"
#include "tenon/config/files.h"
#include "tenon/config/models.h"
#include "tenon/hub/model_name.h"
#include "tenon/hub/pull.h"
#include "tenon/hub/settings.h"

namespace tenon::config {
namespace {

// Logs a line for each file that begins, ends or is delayed, and for each tenth of a file.
class LogProgress {
 public:
  void operator()(const hub::Event& event) {
    const std::string file(event.file);
    switch (event.kind) {
      case hub::Event::Kind::begin:
        tenth_ = tenth_of(event);
        log::info("fetching " + file + ", " + std::to_string(event.size) + " bytes" +
                  (event.have > 0 ? ", of which " + std::to_string(event.have) + " are here" : ""));
        break;
      case hub::Event::Kind::bytes:
        if (tenth_of(event) == tenth_) break;
        tenth_ = tenth_of(event);
        log::info("fetching " + file + ": " + std::to_string(10 * tenth_) + " %");
        break;
      case hub::Event::Kind::wait:
        log::warn(file + (file.empty() ? "" : ": ") + std::string(event.what));
        break;
      case hub::Event::Kind::done:
        log::info("fetched " + file);
        break;
      case hub::Event::Kind::found:
        break;
    }
  }

 private:
  static std::uint64_t tenth_of(const hub::Event& event) {
    // Rounded up, so that the last tenth is complete with the file.
    return event.size == 0 ? 0 : event.have / ((event.size + 9) / 10);
  }

  std::uint64_t tenth_ = 0;
};

Expected<hub::PulledModel> locate(const std::string& name, hub::Progress progress) {
  const auto settings = hub::settings_from_environment();
  if (!settings) return Unexpected(settings.error());
  if (!progress) progress = LogProgress();
  auto model = hub::locate(name, *settings, progress);
  if (!model) return Unexpected(Error{model.error().code, name + ": " + model.error().message});
  if (!model->note.empty()) log::warn(name + ": " + model->note);
  return model;
}

}  // namespace

Expected<ModelConfig> located(ModelConfig config) {
  if (config.engine != "llama" || !hub::is_model_name(config.path)) return config;
  auto model = locate(config.path, {});
  if (!model) return Unexpected(model.error());
  config.path = std::move(model->path);
  return config;
}

// A name, a path, or "" for the bundled model. The model is called after its file, or as
// hub::PulledModel says.
Expected<ModelConfig> model_from_path(const std::string& path, const hub::Progress& progress) {
  ModelConfig config{.path = path};
  if (hub::is_model_name(path)) {
    auto model = locate(path, progress);
    if (!model) return Unexpected(model.error());
    config.path = std::move(model->path);
    config.name = std::move(model->name);
    return config;
  }
  if (path.empty()) {
    auto bundled = bundled_model();
    if (!bundled) return at_fault(bundled.error());
    config.path = *std::move(bundled);
  }
  config.name = std::filesystem::path(config.path).stem().string();
  return config;
}

}  // namespace tenon::config
