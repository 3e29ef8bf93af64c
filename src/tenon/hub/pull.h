#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/hub/model_name.h"
#include "tenon/hub/settings.h"
#include "tenon/hub/transfer.h"

namespace tenon::hub {

/// A model that is on this machine.
struct PulledModel {
  std::string path;        ///< The file that an engine loads, or the first of several shards.
  std::string name;        ///< What clients may call it: the file's name without ".gguf".
  std::string repository;  ///< "" for a model of Ollama's store.
  std::string commit;
  std::string quantisation;  ///< "" if the file's name does not tell it.
  std::vector<std::string> files;
  std::uint64_t size = 0;  ///< Bytes of all its files.
  std::string note;        ///< Why the hub was not asked although it should have been; else "".
};

/// Fetches what the cache lacks of a model, and finds the rest:
///
///     auto settings = settings_from_environment();
///     auto name = parse_hub_name("owner/repo:Q4_K_M");
///     auto model = pull(*name, *settings, progress);
///     if (!model) return Unexpected(model.error());
///     load(model->path);
///
/// Asks the hub which commit the revision is, so a newer file replaces an older one. In offline
/// mode, or if the hub cannot be reached, the model in the cache is taken, with a note. Processes
/// that fetch the same file wait for one another. Errors: `invalid` for what another name, token or
/// revision can solve, `unavailable` for the network, the hub and the disk; both say how. The part
/// of a file that was fetched stays, and the next pull continues from there.
[[nodiscard]] Expected<PulledModel> pull(const HubName& name, const Settings& settings,
                                         const Progress& progress = {});

/// Finds the model in the cache, without the network. Fails with `invalid` if it is not whole.
[[nodiscard]] Expected<PulledModel> find_cached(const HubName& name, const Settings& settings);

/// The file that `name`, see is_model_name(), stands for: a model of Ollama's store, or of the hub,
/// which is asked only if the cache does not have the model.
[[nodiscard]] Expected<PulledModel> locate(std::string_view name, const Settings& settings,
                                           const Progress& progress = {});

}  // namespace tenon::hub
