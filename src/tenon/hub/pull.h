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

/// A model that is here.
struct PulledModel {
  std::string path;        ///< What an engine loads: the file, the first of several shards.
  std::string name;        ///< What clients may call it: the file's name without ".gguf".
  std::string repository;  ///< "" where it is Ollama's.
  std::string commit;
  std::string quantisation;  ///< "" where its name does not say it.
  std::vector<std::string> files;
  std::uint64_t size = 0;  ///< Of all of them.
  std::string note;        ///< Why the hub was not asked, where it should have been; "": it was.
};

/// Fetches what of a model is missing in the cache, and finds what is there:
///
///     auto settings = settings_from_environment();
///     auto name = parse_hub_name("owner/repo:Q4_K_M");
///     auto model = pull(*name, *settings, progress);
///     if (!model) return Unexpected(model.error());
///     load(model->path);
///
/// Asks the hub which commit the revision is, so a newer file replaces an older one; where the hub
/// is not to be asked or cannot be reached, what the cache has is taken, with a note. Processes
/// that fetch the same file wait for one another. Errors: `invalid` for what another name, token or
/// revision mends, `unavailable` for the network, the hub and the disk; both say how. What of a
/// file has come stays, and the next pull goes on from there.
[[nodiscard]] Expected<PulledModel> pull(const HubName& name, const Settings& settings,
                                         const Progress& progress = {});

/// What the cache has, without the network. Fails with `invalid` where it does not have it whole.
[[nodiscard]] Expected<PulledModel> find_cached(const HubName& name, const Settings& settings);

/// The file that `name` stands for, a name of is_model_name(): a model of Ollama's store, or of the
/// hub, for which the hub is asked only where the cache does not have it.
[[nodiscard]] Expected<PulledModel> locate(std::string_view name, const Settings& settings,
                                           const Progress& progress = {});

}  // namespace tenon::hub
