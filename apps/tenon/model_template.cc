#include "model_template.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "files.h"

#include "tenon/json/value.h"
#include "tenon/prompt/chat_template.h"
#include "tenon/vocab/gguf.h"

namespace tenon::app {
namespace {

namespace fs = std::filesystem;

void take_plain(ModelTemplate& found) {
  found.source = prompt::plain_template();
  found.where = found.where + " has none: the plain one";
}

OrComplaint<ModelTemplate> from_gguf(const std::string& path) {
  const auto file = vocab::GgufFile::open(path);
  if (!file) return complaint(kBadInput, path + ": " + file.error().message);
  ModelTemplate found{.where = path};
  const auto source = file->string("tokenizer.chat_template");
  if (source) {
    found.source = *source;
    found.where += ", tokenizer.chat_template";
  } else {
    take_plain(found);
  }
  const std::vector<std::string_view> tokens = file->strings("tokenizer.ggml.tokens");
  const auto text_of = [&](std::string_view key) -> std::string {
    const std::optional<std::int64_t> id = file->integer(key);
    if (!id || *id < 0 || static_cast<std::size_t>(*id) >= tokens.size()) return {};
    return std::string(tokens[static_cast<std::size_t>(*id)]);
  };
  found.bos_token = text_of("tokenizer.ggml.bos_token_id");
  found.eos_token = text_of("tokenizer.ggml.eos_token_id");
  // Token types, by llama.cpp's numbers: 3 is a control token.
  const std::vector<std::int64_t> types = file->integers("tokenizer.ggml.token_type");
  for (std::size_t id = 0; id < std::min(types.size(), tokens.size()); ++id) {
    if (types[id] == 3) found.controls.emplace_back(tokens[id]);
  }
  return found;
}

// A token is a string, or an object that says more of it.
std::string token_text(const json::Value& config, std::string_view key) {
  const json::Value* token = config.find(key);
  if (token != nullptr && token->if_object() != nullptr) token = token->find("content");
  return token == nullptr || token->if_string() == nullptr ? std::string() : *token->if_string();
}

// Also a list of {"name", "template"}: the one for tools, else the one called default.
const std::string* template_in(const json::Value& config) {
  const json::Value* value = config.find("chat_template");
  if (value == nullptr || value->if_array() == nullptr) {
    return value == nullptr ? nullptr : value->if_string();
  }
  const std::string* chosen = nullptr;
  for (const json::Value& one : *value->if_array()) {
    const json::Value* name = one.find("name");
    const json::Value* source = one.find("template");
    if (name == nullptr || source == nullptr || source->if_string() == nullptr) continue;
    if (*name == json::Value("tool_use")) return source->if_string();
    if (*name == json::Value("default") || chosen == nullptr) chosen = source->if_string();
  }
  return chosen;
}

OrComplaint<json::Value> config_at(const fs::path& path) {
  auto config = read_json(path.string());
  if (!config) return complaint(kBadInput, config.error().message);
  return *std::move(config);
}

OrComplaint<ModelTemplate> from_folder(const fs::path& folder) {
  ModelTemplate found{.where = folder.string()};
  const auto take = [&](const char* name, std::string source) {
    found.source = std::move(source);
    found.where = (folder / name).string();
  };
  for (const char* name : {"tokenizer_config.json", "chat_template.json"}) {
    if (!fs::exists(folder / name)) continue;
    const auto config = config_at(folder / name);
    if (!config) return Failure<Complaint>(config.error());
    if (const std::string* source = template_in(*config)) take(name, *source);
    if (found.bos_token.empty()) found.bos_token = token_text(*config, "bos_token");
    if (found.eos_token.empty()) found.eos_token = token_text(*config, "eos_token");
  }
  if (fs::exists(folder / "chat_template.jinja")) {  // the newest place, which goes first
    auto source = read_file((folder / "chat_template.jinja").string());
    if (!source) return complaint(kBadInput, source.error().message);
    take("chat_template.jinja", *std::move(source));
  }
  if (found.source.empty()) take_plain(found);
  return found;
}

}  // namespace

OrComplaint<ModelTemplate> template_of(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return from_folder(path);
  if (path.ends_with(".gguf")) return from_gguf(path);
  if (path.ends_with(".json")) {
    const auto config = config_at(path);
    if (!config) return Failure<Complaint>(config.error());
    const std::string* source = template_in(*config);
    if (source == nullptr) return complaint(kBadInput, path + " has no chat_template");
    return ModelTemplate{.source = *source,
                         .where = path,
                         .bos_token = token_text(*config, "bos_token"),
                         .eos_token = token_text(*config, "eos_token")};
  }
  auto source = read_file(path);
  if (!source) return complaint(kBadInput, source.error().message);
  return ModelTemplate{.source = *std::move(source), .where = path};
}

}  // namespace tenon::app
