#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "command.h"

#include "tenon/config/files.h"
#include "tenon/config/model_format.h"
#include "tenon/config/model_template.h"
#include "tenon/format/model_files.h"
#include "tenon/json/value.h"

// `tenon export`: a copy of a model's folder whose genai_config.json names the format of calls, so
// that engines that read it need no detection.

namespace tenon::app {
namespace {

namespace fs = std::filesystem;

struct ExportOptions {
  std::string model_dir;
  std::string out_dir;
  std::string model_id;  // "": the folder's name is the model's
  std::string format;    // "": it is detected
};

constexpr std::string_view kConfig = "genai_config.json";

// Files that an engine or Tenon reads: weights, configuration, vocabulary, template. Others of the
// folder, such as pictures and scripts, stay where they are.
bool is_needed(const fs::path& file) {
  constexpr auto kEndings =
      std::to_array<std::string_view>({".json", ".jinja", ".gguf", ".safetensors", ".onnx", ".data",
                                       ".onnx_data", ".model", ".tiktoken", ".txt", ".toml"});
  const std::string ending = file.extension().string();
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

// Copies the files of the folder itself; folders inside of it are not the model's.
// genai_config.json is written anew, and so is not copied.
OrComplaint<void> copy_files(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_directories(to, error);
  if (error) return complaint(kBadInput, to.string() + ": " + error.message());
  if (fs::equivalent(from, to, error)) return {};  // only the configuration is written
  fs::directory_iterator entry(from, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const fs::path& file = entry->path();
    std::error_code failed;
    if (!entry->is_regular_file(failed) || !is_needed(file) || file.filename() == kConfig) continue;
    fs::copy_file(file, to / file.filename(), fs::copy_options::overwrite_existing, failed);
    if (failed) return complaint(kBadInput, file.string() + ": " + failed.message());
  }
  if (error) return complaint(kBadInput, from.string() + ": " + error.message());
  return {};
}

// The format that is named, or that the files declare, or else the one that is detected. Null: the
// model has none that genai_config.json could name.
OrComplaint<std::shared_ptr<const format::Format>> format_for(const ExportOptions& options) {
  auto declared = config::declared_format(options.model_dir, options.format);
  if (!declared) return complaint(declared.error());
  if (declared->format != nullptr) {
    std::cout << "tool_call_format: " << format::info(*declared->format).name << " (by "
              << declared->where << ")\n";
    return std::move(declared->format);
  }
  auto model = config::template_of(options.model_dir);
  if (!model) return complaint(model.error());
  if (!options.model_id.empty()) model->model_name = options.model_id;
  const auto chat_template = config::compiled(*model);
  if (!chat_template) return complaint(kBadInput, chat_template.error().message);
  const format::Detection detection = config::detect_format(*model, **chat_template);
  if (detection.format == nullptr) {
    std::cout << "No tool calling support detected: " << detection.evidence << '\n';
    return std::shared_ptr<const format::Format>();
  }
  if (detection.by == format::DecidedBy::response_template) {  // it goes with tokenizer_config.json
    std::cout << "The format is that of the model's response_template\n";
    return std::shared_ptr<const format::Format>();
  }
  const std::string& name = format::info(*detection.format).name;
  std::cout << "Detected tool_call_format: " << name << " (" << detection.evidence << ")\n";
  // Checks that loading will accept what was written.
  auto checked = config::declared_format(options.model_dir, name);
  if (!checked) return complaint(checked.error());
  return detection.format;
}

// The format is found before anything is copied, so a wrong --format leaves no half-written folder.
int run_export(const ExportOptions& options) {
  std::error_code ignored;
  if (!fs::is_directory(options.model_dir, ignored)) {
    return complain({kBadInput, options.model_dir + " is not a model's folder"});
  }
  const auto format = format_for(options);
  if (!format) return complain(format.error());
  if (const auto copied = copy_files(options.model_dir, options.out_dir); !copied) {
    return complain(copied.error());
  }
  json::Value old;
  const fs::path source = fs::path(options.model_dir) / kConfig;
  if (fs::exists(source, ignored)) {
    auto read = config::read_json(source.string());
    if (!read) return complain({kBadInput, read.error().message});
    old = *std::move(read);
  }
  const fs::path target = fs::path(options.out_dir) / kConfig;
  const json::Value config = format::with_format(old, format->get());
  std::ofstream out(target);
  out << json::dumps(config, {.ensure_ascii = false, .indent = 2, .item_separator = ","}) << '\n';
  if (!out.flush()) return complain({kBadInput, target.string() + " cannot be written"});
  std::cout << "wrote " << target.string() << '\n';
  return *format == nullptr ? kNegative : kOk;
}

}  // namespace

Command add_export(App tenon) {
  const App app = tenon.add_subcommand(
      "export", "Copies a model's folder, and writes its tool-call format into genai_config.json");
  auto options = std::make_shared<ExportOptions>();
  app.add_option("MODEL_DIR", options->model_dir, "Folder of the model").required();
  app.add_option("OUT_DIR", options->out_dir,
                 "Where to; MODEL_DIR itself is left as it is but "
                 "for genai_config.json")
      .required();
  app.add_option("--model-id", options->model_id,
                 "The model's name, as google/functiongemma-270m-it (default: the folder's)");
  app.add_option("--format,--tool-call-parser", options->format,
                 "Tool-call format instead of the detected one");
  app.footer(
      "Exit status: 1 if no format was found.\n"
      "Example:\n  tenon export models/functiongemma-270m-it exported");
  return {app, [options] { return run_export(*options); }};
}

}  // namespace tenon::app
