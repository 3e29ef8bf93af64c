#include "tenon/hub/ollama.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "tenon/base/failure.h"
#include "tenon/base/file.h"
#include "tenon/json/value.h"

namespace tenon::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModelLayer = "application/vnd.ollama.image.model";
constexpr std::size_t kMaxManifestBytes = 4 << 20;
constexpr std::size_t kDepth = 4;  // HOST/OWNER/NAME/TAG

std::string text_at(const json::Value& value, std::string_view key) {
  const json::Value* found = value.find(key);
  const std::string* text = found == nullptr ? nullptr : found->if_string();
  return text == nullptr ? std::string() : *text;
}

// "sha256-…", the name of a file; "" if `digest` is malformed.
std::string blob_name(std::string_view digest) {
  constexpr std::string_view kFunction = "sha256:";
  if (!digest.starts_with(kFunction)) return {};
  const std::string_view hash = digest.substr(kFunction.size());
  const bool is_hash = hash.size() == 64 && std::ranges::all_of(hash, [](char c) {
                         return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                       });
  return is_hash ? "sha256-" + std::string(hash) : std::string();
}

// Reads {"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:...",
// "size": 5}]}. The file must be there with that size: a pull that was stopped leaves a part of it.
Expected<OllamaModel> read_manifest(const fs::path& store, const fs::path& manifest,
                                    std::string name) {
  const auto wrong = [&](const std::string& why) {
    return invalid("the manifest " + manifest.string() + " " + why + "; `ollama pull " + name +
                   "` writes it anew");
  };
  const auto text = read_file(manifest, kMaxManifestBytes);
  if (!text) return invalid(text.error().message);
  const auto value = json::parse(*text);
  if (!value) return wrong("is no JSON (" + value.error().message + ")");
  const json::Value* const layers = value->find("layers");
  if (layers == nullptr || layers->if_array() == nullptr) return wrong("has no layers");
  std::optional<OllamaModel> found;
  for (const json::Value& layer : *layers->if_array()) {
    if (text_at(layer, "mediaType") != kModelLayer) continue;
    if (found) return wrong("has the model in several files, which are not read here");
    const std::string blob = blob_name(text_at(layer, "digest"));
    if (blob.empty()) return wrong("has a malformed digest");
    found = OllamaModel{.name = name, .location = store / "blobs" / blob};
    const json::Value* size = layer.find("size");
    const json::Number* number = size == nullptr ? nullptr : size->if_number();
    const auto wanted = number == nullptr ? std::nullopt : number->to_int64();
    std::error_code error;
    found->size = fs::file_size(found->location, error);
    if (error) return wrong("names " + found->location.string() + ": " + error.message());
    if (wanted && static_cast<std::uint64_t>(*wanted) != found->size) {
      return wrong("says that " + found->location.string() + " has " + std::to_string(*wanted) +
                   " bytes, and it has " + std::to_string(found->size));
    }
  }
  if (!found) return wrong("has no model in GGUF");
  return *std::move(found);
}

}  // namespace

Expected<OllamaModel> find_ollama_model(const OllamaName& name,
                                        const std::vector<fs::path>& stores) {
  std::string tried;
  for (const fs::path& store : stores) {
    const fs::path manifest = store / "manifests" / name.host / name.owner / name.name / name.tag;
    std::error_code error;
    if (fs::is_regular_file(manifest, error)) return read_manifest(store, manifest, name.text());
    tried += (tried.empty() ? "" : ", ") + store.string();
  }
  return invalid("'" + name.text() + "' is not in Ollama's store (" + tried +
                 "): `ollama list` lists what is, `ollama pull " + name.text() +
                 "` fetches it, and OLLAMA_MODELS names another folder");
}

std::vector<OllamaModel> list_ollama_models(const std::vector<fs::path>& stores) {
  std::vector<OllamaModel> models;
  for (const fs::path& store : stores) {
    const fs::path manifests = store / "manifests";
    std::error_code error;
    for (fs::recursive_directory_iterator entry(manifests, error), end; !error && entry != end;
         entry.increment(error)) {
      std::error_code ignored;
      if (entry.depth() + 1 != kDepth || !entry->is_regular_file(ignored)) continue;
      const fs::path path = entry->path().lexically_relative(manifests);
      auto part = path.begin();
      OllamaName name;
      for (std::string* field : {&name.host, &name.owner, &name.name, &name.tag}) {
        *field = (part++)->string();
      }
      // A model that cannot be read is not listed; find_ollama_model() says why.
      if (auto model = read_manifest(store, entry->path(), name.text())) {
        models.push_back(*std::move(model));
      }
    }
  }
  std::ranges::sort(models, {}, &OllamaModel::name);
  return models;
}

}  // namespace tenon::hub
