#include "tenon/hub/pull.h"

#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "command.h"
#include "fetch_view.h"
#include "terminal.h"
#include <unistd.h>

#include "tenon/hub/model_name.h"
#include "tenon/hub/settings.h"
#include "tenon/json/value.h"

// `tenon pull`: fetches a model's files into the hub's own cache and prints the path of the first
// one, so that a script can pass it on.

namespace tenon::app {
namespace {

struct PullOptions {
  std::string name;
  std::string revision;  // a branch, tag or commit; "": that of the name, or main
  bool json = false;
};

// A model of Ollama's store is only looked up: Ollama itself fetches it.
OrComplaint<hub::PulledModel> pulled(const PullOptions& options) {
  const auto settings = hub::settings_from_environment();
  if (!settings) return complaint(settings.error());
  if (hub::is_model_name(options.name) && !hub::is_hub_name(options.name)) {
    if (!options.revision.empty()) {
      return complaint(kUsage, "--revision has no effect with " + options.name +
                                   ": Ollama's tags stand after a colon");
    }
    return or_complaint(hub::locate(options.name, *settings));
  }
  auto name = hub::parse_hub_name(options.name);
  if (!name) return complaint(kUsage, std::move(name.error().message));
  if (!options.revision.empty()) {
    // The hub's own reader of names says what a revision is.
    auto checked = hub::parse_hub_name(name->repository + "@" + options.revision);
    if (!checked || !checked->choice.empty()) {
      return complaint(kUsage, "--revision " + options.revision + " is no branch, tag or commit");
    }
    name->revision = std::move(checked->revision);
  }
  return or_complaint(hub::pull(*name, *settings, fetch_view()));
}

json::Object report_of(const hub::PulledModel& model) {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? json::Value() : json::Value(text);
  };
  return {{"path", model.path},
          {"files", json::Array(model.files.begin(), model.files.end())},
          {"size_bytes", model.size},
          {"name", model.name},
          {"repository", or_null(model.repository)},
          {"commit", or_null(model.commit)},
          {"quantisation", or_null(model.quantisation)},
          {"note", or_null(model.note)}};
}

int run_pull(const PullOptions& options) {
  const auto model = pulled(options);
  if (!model) return complain(model.error());
  if (!model->note.empty()) {
    std::cerr << "tenon: " << shown(model->note, STDERR_FILENO) << '\n';
  }
  if (options.json) {
    std::cout << json::to_string(report_of(*model)) << '\n';
  } else {
    std::cout << model->path << '\n';
  }
  return kOk;
}

}  // namespace

Command add_pull(App tenon) {
  const App app = tenon.add_subcommand(
      "pull", "Fetches a model from the Hugging Face hub, and prints its path");
  auto options = std::make_shared<PullOptions>();
  app.add_option("NAME", options->name,
                 "OWNER/REPO[@REVISION][:QUANT] of the hub, or ollama:NAME[:TAG], which is only "
                 "looked up (QUANT: like Q4_K_M, or a file's name; default: the first of those "
                 "that docs/models.md lists)")
      .required();
  app.add_option("--revision", options->revision, "A branch, a tag or a commit (default: main)");
  app.add_flag("--json", options->json,
               "As a JSON object, with all files, the commit and the size");
  app.footer(
      "The file goes into the hub's own cache (HF_HUB_CACHE, HF_HOME); a pull that was cut goes "
      "on\n"
      "where it ended. HF_TOKEN opens private repositories, HF_ENDPOINT names another hub,\n"
      "HF_HUB_OFFLINE=1 forbids the network. Exit status 3: there is no such model, or the token\n"
      "may not read it; 4: the network, the hub or the disk failed.\n"
      "Example:\n  tenon pull bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M\n"
      "  tenon serve --hf bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M");
  return {app, [options] { return run_pull(*options); }};
}

}  // namespace tenon::app
