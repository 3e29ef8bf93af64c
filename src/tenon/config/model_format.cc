#include "tenon/config/model_format.h"

#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "tenon/base/log.h"
#include "tenon/config/failure.h"
#include "tenon/config/files.h"
#include "tenon/format/model_files.h"
#include "tenon/format/registry.h"
#include "tenon/format/response_template.h"
#include "tenon/json/value.h"

namespace tenon::config {
namespace {

namespace fs = std::filesystem;

// Null if there is no such file. A model of a server may have no folder: "" stands for that, and
// not for the folder in which this process runs.
Expected<json::Value> file_in(const std::string& folder, const char* name) {
  if (folder.empty()) return json::Value();
  const fs::path path = fs::path(folder) / name;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return json::Value();
  auto value = read_json(path.string());
  if (!value) return at_fault(value.error());
  return *std::move(value);
}

// The format by its name, else by genai_config.json, the configuration of ONNX Runtime GenAI.
Expected<DeclaredFormat> named(const std::string& folder, const std::string& name) {
  if (!name.empty()) {
    auto format = format::named(name);
    if (!format) return at_fault(format.error());
    return DeclaredFormat{*std::move(format), "the option"};
  }
  const auto config = file_in(folder, "genai_config.json");
  if (!config) return Unexpected(config.error());
  const std::string path = (fs::path(folder) / "genai_config.json").string();
  auto format = format::format_of_genai_config(*config);
  if (!format) return at_fault(format.error(), path + ": ");
  return DeclaredFormat{*std::move(format), path};
}

}  // namespace

Expected<DeclaredFormat> declared_format(const std::string& folder, const std::string& name) {
  auto found = named(folder, name);
  if (!found || found->format == nullptr) return found;
  const auto map = file_in(folder, "special_tokens_map.json");
  if (!map) return Unexpected(map.error());
  const auto config = file_in(folder, "tokenizer_config.json");
  if (!config) return Unexpected(config.error());
  // A fine-tuned model may call the markers otherwise; its special tokens say how.
  auto format = format::with_markers_of(std::move(found->format), *map, *config);
  if (!format) return at_fault(format.error(), folder + ": ");
  found->format = *std::move(format);
  return found;
}

// A wrong template costs a warning, not the model: it is one clue among several.
std::shared_ptr<const format::Format> imported_format(const std::string& folder) {
  const auto config = file_in(folder, "tokenizer_config.json");
  const json::Value* source = config ? config->find("response_template") : nullptr;
  if (source == nullptr || source->is_null()) return nullptr;
  std::string why;
  if (const auto definition = format::definition_of(*source, "response_template")) {
    auto compiled = format::compile(*definition, "response_template");
    if (compiled) return *compiled;
    why = compiled.error().message;
  } else {
    why = definition.error().message;
  }
  log::warn((fs::path(folder) / "tokenizer_config.json").string() + ": not used: " + why);
  return nullptr;
}

// `"eos_token_id": 2` or `[2, 32000]`: models may end a turn with other tokens than their tokenizer
// says.
std::vector<std::int32_t> declared_ends(const std::string& folder) {
  const auto config = file_in(folder, "generation_config.json");
  const json::Value* given = config ? config->find("eos_token_id") : nullptr;
  if (given == nullptr || given->is_null()) return {};
  const json::Array one{*given};
  std::vector<std::int32_t> ends;
  for (const json::Value& item : given->if_array() != nullptr ? *given->if_array() : one) {
    const auto id = item.if_number() != nullptr ? item.if_number()->to_int64() : std::nullopt;
    if (id && std::in_range<std::int32_t>(*id) && *id >= 0) {
      ends.push_back(static_cast<std::int32_t>(*id));
    } else {
      log::warn((fs::path(folder) / "generation_config.json").string() +
                ": eos_token_id: " + json::to_string(item) + " is no token");
    }
  }
  return ends;
}

std::string folder_of(const std::string& path) {
  std::error_code ignored;
  if (path.empty() || fs::is_directory(path, ignored)) return path;
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace tenon::config
