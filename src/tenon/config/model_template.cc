#include "tenon/config/model_template.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include "tenon/config/failure.h"
#include "tenon/config/files.h"
#include "tenon/config/model_format.h"
#include "tenon/json/members.h"
#include "tenon/json/value.h"
#include "tenon/prompt/chat_template.h"
#include "tenon/vocab/gguf.h"

// Where a model's template, tokens and names are
//
// A path is one of four things: a folder of a model (from_folder), a GGUF file (from_gguf), a
// tokenizer_config.json, or a template alone. All become a ModelTemplate, which also has the clues
// for finding the format: the texts of control tokens, the model's name, a format that its files
// import. Conventions for these files have changed often; each place that is read here is one that
// published models use.

namespace tenon::config {
namespace {

namespace fs = std::filesystem;

// Ollama names files by their hashes, so the name does not tell that a file is GGUF.
bool begins_as_gguf(const std::string& path) {
  constexpr std::string_view kMagic = "GGUF";
  std::string begin(kMagic.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  return file.read(begin.data(), static_cast<std::streamsize>(begin.size())) && begin == kMagic;
}

void take_plain(ModelTemplate& found) {
  found.source = prompt::plain_template();
  found.where = found.where + " has none: the plain one";
}

Expected<ModelTemplate> from_gguf(const std::string& path) {
  const auto file = vocab::GgufFile::open(path);
  if (!file) return at_fault(file.error(), path + ": ");
  ModelTemplate found{.where = path,
                      .model_name = std::string(file->string("general.name").value_or(""))};
  if (found.model_name.empty()) found.model_name = fs::path(path).stem().string();
  const auto source = file->string("tokenizer.chat_template");
  if (source) {
    found.source = *source;
    found.where += ", tokenizer.chat_template";
  } else {
    take_plain(found);
  }
  const std::vector<std::string_view> tokens = file->strings("tokenizer.ggml.tokens");
  // The text of a token that the file names by its id; "" if there is no such token.
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

// The texts in `added_tokens_decoder`: {"id": {"content": ...}}.
std::vector<std::string> added_tokens(const json::Value& config) {
  std::vector<std::string> texts;
  const json::Value* tokens = config.find("added_tokens_decoder");
  if (tokens == nullptr || tokens->if_object() == nullptr) return texts;
  for (const json::Member& token : *tokens->if_object()) {
    if (std::string text = json::text_in(token.value, "content"); !text.empty()) {
      texts.push_back(std::move(text));
    }
  }
  return texts;
}

// Appends the texts of tokens: each a string or an object with the string as `content`, in a list,
// or as the values of an object.
void append_tokens(const json::Value* tokens, std::vector<std::string>& texts) {
  const auto append = [&texts](const json::Value& token) {
    const json::Value* text = token.if_object() == nullptr ? &token : token.find("content");
    if (text != nullptr && text->if_string() != nullptr && !text->if_string()->empty()) {
      texts.push_back(*text->if_string());
    }
  };
  if (tokens == nullptr) return;
  if (const json::Array* list = tokens->if_array()) {
    for (const json::Value& token : *list) append(token);
  } else if (const json::Object* by_name = tokens->if_object()) {
    for (const json::Member& token : *by_name) append(token.value);
  }
}

// The tokens of a folder whose tokenizer_config.json has no `added_tokens_decoder`: what a
// configuration calls special, and what added_tokens.json or tokenizer.json add to the vocabulary
// (transformers 5 writes them only there). These are clues, so a file that cannot be read is
// ignored.
std::vector<std::string> tokens_of_files(const fs::path& folder) {
  std::vector<std::string> texts;
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto config = read_json((folder / name).string());
    if (!config) continue;
    for (const char* key :
         {"additional_special_tokens", "extra_special_tokens", "model_specific_special_tokens"}) {
      append_tokens(config->find(key), texts);
    }
  }
  if (const auto ids = read_json((folder / "added_tokens.json").string())) {
    if (const json::Object* by_text = ids->if_object()) {
      for (const json::Member& token : *by_text) texts.push_back(token.key);
    }
  }
  if (const auto tokenizer = read_json((folder / "tokenizer.json").string())) {
    append_tokens(tokenizer->find("added_tokens"), texts);
  }
  return texts;
}

// A token is a string, or an object that has the string as `content`.
std::string token_text(const json::Value& config, std::string_view key) {
  const json::Value* token = config.find(key);
  if (token != nullptr && token->if_object() != nullptr) token = token->find("content");
  return token == nullptr || token->if_string() == nullptr ? std::string() : *token->if_string();
}

struct NamedTemplate {
  const std::string* source = nullptr;
  bool is_for_tools = false;
};

// The value may also be an object of templates by name, or a list of {"name", "template"}: then the
// template for tools is taken, else the default one.
NamedTemplate template_in(const json::Value& config) {
  const json::Value* value = config.find("chat_template");
  if (value == nullptr) return {};
  NamedTemplate chosen{value->if_string()};
  const auto offer = [&chosen](std::string_view name, const json::Value* source) {
    if (source == nullptr || source->if_string() == nullptr || chosen.is_for_tools) return;
    const bool is_for_tools = name == "tool_use";
    if (!is_for_tools && name != "default" && chosen.source != nullptr) return;
    chosen = {source->if_string(), is_for_tools};
  };
  if (const json::Object* by_name = value->if_object()) {
    for (const json::Member& one : *by_name) offer(one.key, &one.value);
  } else if (const json::Array* list = value->if_array()) {
    for (const json::Value& one : *list) {
      const json::Value* name = one.find("name");
      if (name != nullptr && name->if_string() != nullptr) {
        offer(*name->if_string(), one.find("template"));
      }
    }
  }
  return chosen;
}

// The model's own name for itself, else the folder's.
std::string name_of_folder(const fs::path& folder) {
  if (const auto config = read_json((folder / "config.json").string())) {
    if (std::string name = json::text_in(*config, "_name_or_path"); !name.empty()) return name;
  }
  const fs::path path = fs::absolute(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

Expected<json::Value> config_at(const fs::path& path) {
  auto config = read_json(path.string());
  if (!config) return at_fault(config.error());
  return *std::move(config);
}

// Later files replace the template of earlier ones; tokens are taken from the first file that has
// them.
Expected<ModelTemplate> from_folder(const fs::path& folder) {
  ModelTemplate found{.where = folder.string(),
                      .model_name = name_of_folder(folder),
                      .imported = imported_format(folder.string())};
  const auto take = [&](const char* name, std::string source) {
    found.source = std::move(source);
    found.where = (folder / name).string();
  };
  for (const char* name : {"tokenizer_config.json", "chat_template.json"}) {
    if (!fs::exists(folder / name)) continue;
    const auto config = config_at(folder / name);
    if (!config) return Unexpected(config.error());
    if (const NamedTemplate chosen = template_in(*config); chosen.source != nullptr) {
      take(name, *chosen.source);
      found.has_tool_template = chosen.is_for_tools;
    }
    if (found.controls.empty()) found.controls = added_tokens(*config);
    if (found.bos_token.empty()) found.bos_token = token_text(*config, "bos_token");
    if (found.eos_token.empty()) found.eos_token = token_text(*config, "eos_token");
  }
  if (fs::exists(folder / "chat_template.jinja")) {  // the newest convention has priority
    auto source = read_file((folder / "chat_template.jinja").string());
    if (!source) return at_fault(source.error());
    take("chat_template.jinja", *std::move(source));
    // Only a list of templates can have one for tools alone.
    found.has_tool_template = false;
  }
  if (found.source.empty()) take_plain(found);
  if (found.controls.empty()) found.controls = tokens_of_files(folder);
  return found;
}

// If none of the model's tokens are known, stand-ins are used: many templates fail without tokens.
prompt::PromptOptions tokens_of(const ModelTemplate& model) {
  if (model.bos_token.empty() && model.eos_token.empty()) {
    return {.bos_token = "<s>", .eos_token = "</s>"};
  }
  return {.bos_token = model.bos_token, .eos_token = model.eos_token};
}

}  // namespace

// A file that is neither GGUF nor JSON must at least look like a template: a wrong file would
// render as a constant text.
Expected<ModelTemplate> template_of(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return from_folder(path);
  if (path.ends_with(".gguf") || begins_as_gguf(path)) return from_gguf(path);
  if (path.ends_with(".json")) {
    const auto config = config_at(path);
    if (!config) return Unexpected(config.error());
    const NamedTemplate chosen = template_in(*config);
    if (chosen.source == nullptr) return invalid(path + " has no chat_template");
    return ModelTemplate{.source = *chosen.source,
                         .where = path,
                         .bos_token = token_text(*config, "bos_token"),
                         .eos_token = token_text(*config, "eos_token"),
                         .model_name = json::text_in(*config, "name_or_path"),
                         .has_tool_template = chosen.is_for_tools,
                         .controls = added_tokens(*config)};
  }
  auto source = read_file(path);
  if (!source) return at_fault(source.error());
  if (source->find("{{") == std::string::npos && source->find("{%") == std::string::npos) {
    return invalid(path +
                   " is no chat template: there is neither {{ nor {% in it; give a "
                   "template, a GGUF file, a model's folder or its tokenizer_config.json");
  }
  return ModelTemplate{.source = *std::move(source), .where = path};
}

namespace {

format::Clues clues_of(const ModelTemplate& model) {
  const auto in_vocabulary = [&model](std::string_view marker) {
    return std::ranges::any_of(model.controls, [marker](const std::string& token) {
      return token.find(marker) != std::string::npos;
    });
  };
  return {.in_vocabulary = in_vocabulary,
          .imported = model.imported,
          .model_name = model.model_name,
          .has_tool_template = model.has_tool_template};
}

}  // namespace

Expected<std::shared_ptr<const prompt::ChatTemplate>> compiled(
    const ModelTemplate& model, std::shared_ptr<const format::Format> declared) {
  const prompt::PromptOptions tokens = tokens_of(model);
  return prompt::ChatTemplate::compile(model.source, {.name = model.where,
                                                      .bos_token = tokens.bos_token,
                                                      .eos_token = tokens.eos_token,
                                                      .format = std::move(declared),
                                                      .clues = clues_of(model)});
}

format::Detection detect_format(const ModelTemplate& model, const prompt::ChatTemplate& compiled) {
  return compiled.detect(clues_of(model));
}

format::Detection detect_format(const ModelTemplate& model) {
  return format::detect(clues_of(model));
}

Expected<std::shared_ptr<const format::Format>> format_of_template(std::string_view source) {
  const ModelTemplate model{.source = std::string(source)};
  const auto chat_template = compiled(model);
  if (!chat_template) return Unexpected(chat_template.error());
  return detect_format(model, **chat_template).format;
}

}  // namespace tenon::config
