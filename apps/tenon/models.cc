#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "command.h"
#include "fetch_view.h"
#include "terminal.h"
#include <unistd.h>

#include "tenon/config/files.h"
#include "tenon/config/model_format.h"
#include "tenon/config/model_template.h"
#include "tenon/format/format.h"
#include "tenon/hub/cache.h"
#include "tenon/hub/file_list.h"
#include "tenon/hub/model_name.h"
#include "tenon/hub/ollama.h"
#include "tenon/hub/settings.h"
#include "tenon/json/value.h"

// `tenon models`: looks for models in the four places where they may be (bundled, the hub's cache,
// Ollama's store, the folder of scripts/real_models.py), then reads each file's template for its
// format.

namespace tenon::app {
namespace {

namespace fs = std::filesystem;

struct ModelsOptions {
  bool json = false;
};

/// A model that is on this machine.
struct Found {
  std::string name;    ///< What --model takes.
  std::string source;  ///< "bundled", "hub", "ollama" or "folder".
  std::string path;
  std::uint64_t size = 0;
  std::string quantisation;
};

std::uint64_t size_of(const fs::path& path) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  return error ? 0 : size;
}

// Adds the models among the files of one folder; several shards are one model, named by the first.
// Each file is chosen as `tenon pull` would choose it, so what is listed can also be loaded.
template <class File, class PathOf, class SizeOf, class Add>
void add_models(const std::vector<File>& files, PathOf path_of, SizeOf bytes_of, Add add) {
  for (const File& file : files) {
    const hub::Shard shard = hub::shard_of(path_of(file));
    if (shard.number != 1) continue;
    // Choosing a file by its own path fails for a projector, and if a shard is missing.
    std::vector<hub::RemoteFile> remote;
    for (const File& other : files) {
      remote.push_back({.path = path_of(other), .size = bytes_of(other)});
    }
    const auto choice = hub::choose(remote, path_of(file), "");
    if (!choice || choice->files.front().path != path_of(file)) continue;
    std::uint64_t size = 0;
    for (const hub::RemoteFile& part : choice->files) size += part.size;
    add(file, choice->quantisation, size);
  }
}

// Each commit in the hub's cache may be a model; one that is not the newest of "main" is named with
// its commit.
void add_hub(const hub::Settings& settings, std::vector<Found>& found) {
  const hub::Cache cache(settings.cache);
  for (const std::string& repository : cache.repositories()) {
    if (!hub::parse_hub_name(repository)) continue;
    const auto main = cache.commit_of(repository, "main");
    for (const std::string& commit : cache.commits(repository)) {
      const auto files = cache.files(repository, commit);
      // The name has the quantisation if that is enough to find the model again, else the file.
      std::vector<std::string> all;
      for (const hub::CachedFile& file : files) {
        if (hub::shard_of(file.path).number == 1) all.push_back(hub::quantisation_of(file.path));
      }
      add_models(
          files, [](const hub::CachedFile& file) { return file.path; },
          [](const hub::CachedFile& file) { return file.size; },
          [&](const hub::CachedFile& file, const std::string& quantisation, std::uint64_t size) {
            const bool is_unique =
                !quantisation.empty() && std::ranges::count(all, quantisation) == 1;
            const hub::HubName name{.repository = repository,
                                    .revision = main == commit ? "main" : commit,
                                    .choice = is_unique ? quantisation : file.path};
            found.push_back({.name = "hf:" + name.text(),
                             .source = "hub",
                             .path = file.location.string(),
                             .size = size,
                             .quantisation = quantisation});
          });
    }
  }
}

void add_ollama(const hub::Settings& settings, std::vector<Found>& found) {
  for (hub::OllamaModel& model : hub::list_ollama_models(settings.ollama)) {
    found.push_back({.name = "ollama:" + model.name,
                     .source = "ollama",
                     .path = model.location.string(),
                     .size = model.size});
  }
}

// The folder of scripts/real_models.py.
void add_folder(std::vector<Found>& found) {
  const char* const chosen = std::getenv("TENON_MODELS");
  const char* const home = std::getenv("HOME");
  fs::path folder;
  if (chosen != nullptr && *chosen != '\0') {
    folder = chosen;
  } else if (home != nullptr && *home != '\0') {
    folder = fs::path(home) / ".cache" / "tenon-models";
  } else {
    return;
  }
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->path().extension() == ".gguf" && entry->is_regular_file(ignored)) {
      files.push_back(entry->path().filename().string());
    }
  }
  std::ranges::sort(files);
  add_models(
      files, [](const std::string& file) { return file; },
      [&](const std::string& file) { return size_of(folder / file); },
      [&](const std::string& file, const std::string& quantisation, std::uint64_t size) {
        const std::string path = (folder / file).string();
        found.push_back({.name = path,
                         .source = "folder",
                         .path = path,
                         .size = size,
                         .quantisation = quantisation});
      });
}

// What the file itself tells: its tool-call format, or why that is not known.
json::Object report_of(const Found& model) {
  json::Object report{
      {"name", model.name},
      {"source", model.source},
      {"path", model.path},
      {"size_bytes", model.size},
      {"quantisation",
       model.quantisation.empty() ? json::Value() : json::Value(model.quantisation)},
      {"format", nullptr},
      {"decided_by", nullptr}};
  const auto found = config::template_of(model.path);
  if (!found) {
    report.set("error", found.error().message);
    return report;
  }
  const auto chat_template = config::compiled(*found);
  if (!chat_template) {
    report.set("error", chat_template.error().message);
    return report;
  }
  const format::Detection detection = config::detect_format(*found, **chat_template);
  if (detection.format != nullptr) {
    report.set("format", format::info(*detection.format).name);
    report.set("decided_by", format::name_of(detection.by));
  }
  return report;
}

std::string text_of(const json::Object& report, std::string_view key, std::string_view none) {
  const std::string* text = report.find(key)->if_string();
  return text == nullptr ? std::string(none) : *text;
}

// Columns are as wide as their longest cell; the last one is not padded.
void print_table(const std::vector<json::Object>& reports) {
  constexpr std::size_t kColumns = 4;
  std::vector<std::array<std::string, kColumns>> rows = {{"MODEL", "SIZE", "BITS", "FORMAT"}};
  for (const json::Object& report : reports) {
    const bool is_bundled = text_of(report, "source", "") == "bundled";
    const auto size = report.find("size_bytes")->if_number()->to_int64();
    std::string format = text_of(report, "format", "none (told in the prompt)");
    if (const json::Value* error = report.find("error")) format = "? " + *error->if_string();
    rows.push_back({text_of(report, "name", "") + (is_bundled ? " (bundled)" : ""),
                    shown_size(static_cast<std::uint64_t>(size.value_or(0))),
                    text_of(report, "quantisation", "-"), std::move(format)});
  }
  std::array<std::size_t, kColumns> widths{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < kColumns; ++i) {
      line += row[i];
      if (i + 1 < kColumns) line += std::string(widths[i] - row[i].size() + 2, ' ');
    }
    std::cout << shown(line, STDOUT_FILENO) << '\n';
  }
}

int run_models(const ModelsOptions& options) {
  const auto settings = hub::settings_from_environment();
  if (!settings) return complain(settings.error());
  std::vector<Found> found;
  if (const auto bundled = config::bundled_model()) {
    found.push_back({.name = *bundled,
                     .source = "bundled",
                     .path = *bundled,
                     .size = size_of(*bundled),
                     .quantisation = hub::quantisation_of(*bundled)});
  }
  add_hub(*settings, found);
  add_ollama(*settings, found);
  add_folder(found);
  std::vector<json::Object> reports;
  for (const Found& model : found) reports.push_back(report_of(model));
  if (options.json) {
    std::cout << json::to_string(json::Array(reports.begin(), reports.end())) << '\n';
  } else {
    print_table(reports);
  }
  return kOk;
}

}  // namespace

Command add_models(App tenon) {
  const App app = tenon.add_subcommand(
      "models", "Lists the models that are here, with their tool-call formats");
  auto options = std::make_shared<ModelsOptions>();
  app.add_flag("--json", options->json, "As a JSON array, with each model's path");
  app.footer(
      "The bundled one, those in the hub's cache, those in Ollama's store, and those in the "
      "folder\n"
      "of scripts/real_models.py (TENON_MODELS, or ~/.cache/tenon-models). What stands under "
      "MODEL\n"
      "can be given to --model.\n"
      "Example:\n  tenon models\n  tenon models --json");
  return {app, [options] { return run_models(*options); }};
}

}  // namespace tenon::app
