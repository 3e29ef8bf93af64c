#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/hub/model_name.h"

namespace tenon::hub {

/// A model in a store of Ollama: a GGUF file whose name is its hash.
struct OllamaModel {
  std::string name;  ///< As `ollama list` prints it.
  std::filesystem::path location;
  std::uint64_t size = 0;
};

/// Looks for `name` in the stores, one after the other: a store has
/// manifests/HOST/OWNER/NAME/TAG, JSON whose layer of type application/vnd.ollama.image.model names
/// a file in blobs/. Reads only; Ollama need not run. The manifest's chat template is in a language
/// of Ollama's and is not used, since the GGUF file has the model's own. Fails with `invalid`,
/// naming the places, if there is no such model, if its manifest cannot be read or if its file is
/// not whole.
[[nodiscard]] Expected<OllamaModel> find_ollama_model(
    const OllamaName& name, const std::vector<std::filesystem::path>& stores);

/// All models of the stores that find_ollama_model() can find, sorted by name.
[[nodiscard]] std::vector<OllamaModel> list_ollama_models(
    const std::vector<std::filesystem::path>& stores);

}  // namespace tenon::hub
