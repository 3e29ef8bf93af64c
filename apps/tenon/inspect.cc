#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "command.h"
#include "fetch_view.h"
#include "terminal.h"
#include <unistd.h>

#include "tenon/config/files.h"
#include "tenon/config/model_format.h"
#include "tenon/config/model_template.h"
#include "tenon/config/models.h"
#include "tenon/format/format.h"
#include "tenon/hub/model_name.h"
#include "tenon/json/lines.h"
#include "tenon/json/value.h"
#include "tenon/prompt/capabilities.h"
#include "tenon/prompt/chat_template.h"
#include "tenon/prompt/habits.h"
#include "tenon/prompt/propose.h"

// `tenon inspect`: what a chat template can express, and which format it writes calls in. The
// template is compiled as for a model that serves, which renders trial conversations; nothing else
// of the model is read. --propose prints a definition of the format from what these trials show.

namespace tenon::app {
namespace {

struct InspectOptions {
  bool batch = false;
  bool json = false;
  bool propose = false;  // print a definition of the format
  std::string path;      // "": the bundled model
};

// What was found about a template: its format, and what rendering with it shows. `declared` is the
// format that the model's files name, which goes before what was detected.
OrComplaint<json::Object> findings(const config::ModelTemplate& model,
                                   const config::DeclaredFormat& declared) {
  const auto chat_template = config::compiled(model);
  if (!chat_template) return complaint(kBadInput, chat_template.error().message);
  const format::Detection detection = config::detect_format(model, **chat_template);
  const prompt::Capabilities& found = (*chat_template)->capabilities();
  const bool is_declared = declared.format != nullptr;
  const format::Format* known = is_declared ? declared.format.get() : detection.format.get();
  json::Value format = nullptr;
  if (known != nullptr) format = format::info(*known).name;
  json::Object result{{"format", std::move(format)},
                      {"decided_by", is_declared ? "config" : format::name_of(detection.by)},
                      {"evidence", is_declared ? declared.where + " says so" : detection.evidence},
                      {"supports", prompt::to_json(found)},
                      {"reasoning", prompt::reasoning_of(found)},
                      {"habits", prompt::habits_of(**chat_template)}};
  if (!model.where.empty()) result.set("template", model.where);
  return result;
}

// A line of --batch: `{"template", "bos_token", "eos_token"}` or `{"path"}`.
Expected<json::Object> answer(const json::Object& request) {
  const auto text = [&](std::string_view key) -> const std::string* {
    const json::Value* value = request.find(key);
    return value == nullptr ? nullptr : value->if_string();
  };
  Expected<config::ModelTemplate> model = config::ModelTemplate{};
  Expected<config::DeclaredFormat> declared = config::DeclaredFormat{};
  const Status known = request.contains("path")
                           ? json::check_members(request, {"path"})
                           : json::check_members(request, {"template", "bos_token", "eos_token"});
  if (!known) return Unexpected(known.error());
  if (const std::string* source = text("template")) {
    model->source = *source;
    for (const auto& [key, token] :
         {std::pair("bos_token", &model->bos_token), std::pair("eos_token", &model->eos_token)}) {
      if (const std::string* given = text(key)) *token = *given;
    }
  } else if (const std::string* path = text("path")) {
    model = config::template_of(*path);
    declared = config::declared_format(config::folder_of(*path), "");
  } else {
    return Unexpected(Error{Errc::invalid, "the line has neither template nor path, as text"});
  }
  if (!model) return Unexpected(Error{Errc::invalid, model.error().message});
  if (!declared) return Unexpected(Error{Errc::invalid, declared.error().message});
  auto found = findings(*model, *declared);
  if (!found) return Unexpected(Error{Errc::invalid, found.error().message});
  return *std::move(found);
}

void print_member(const std::string& name, const json::Value& value) {
  const std::string text = value.if_string() != nullptr ? *value.if_string()
                           : value.is_null()            ? "none"
                                                        : json::to_string(value);
  const std::string shown_text =
      value.if_bool() != nullptr ? (*value.if_bool() ? "yes" : "no") : shown(text, STDOUT_FILENO);
  std::cout << name << std::string(name.size() < 20 ? 20 - name.size() : 1, ' ') << shown_text
            << '\n';
}

void print_inspect(const json::Object& found) {
  for (const char* key : {"template", "format", "decided_by", "evidence"}) {
    if (const json::Value* value = found.find(key)) print_member(key, *value);
  }
  for (const char* key : {"supports", "reasoning", "habits"}) {
    std::cout << '\n' << key << '\n';
    for (const json::Member& member : *found.find(key)->if_object()) {
      print_member("  " + member.key, member.value);
    }
  }
}

// Prints a definition of the format that the template writes calls in.
int propose(const config::ModelTemplate& model) {
  const auto chat_template = config::compiled(model);
  if (!chat_template) return complain({kBadInput, chat_template.error().message});
  const format::Detection detection = config::detect_format(model, **chat_template);
  std::string name = model.model_name.empty() ? "proposed" : model.model_name;
  const auto definition = prompt::propose(**chat_template, name);
  if (!definition) {
    return complain({kNegative, "no definition can be proposed: " + definition.error().message});
  }
  if (detection.by == format::DecidedBy::call) {
    std::cout << "# The format '" << format::info(*detection.format).name
              << "' reads these calls, too.\n";
  }
  std::cout << *definition;
  return kOk;
}

// Nothing is loaded but the template and its neighbours, so a model of any size is inspected at
// once.
int run_inspect(const InspectOptions& options, App app) {
  if (options.batch) {
    const auto refused =
        refuse_options(app, {"FILE", "--propose"}, "with --batch: each line of stdin says its own");
    if (!refused) return complain(refused.error());
    json::answer_lines(std::cin, std::cout, answer);
    return kOk;
  }
  std::string path = options.path;
  if (path.empty()) {
    auto bundled = config::bundled_model();
    if (!bundled) return complain({kBadInput, bundled.error().message});
    path = *std::move(bundled);
  }
  if (hub::is_model_name(path)) {
    auto local = config::model_from_path(path, fetch_view());
    if (!local) return complain(local.error());
    path = std::move(local->path);
  }
  const auto model = config::template_of(path);
  if (!model) return complain(model.error());
  if (options.propose) return propose(*model);
  const auto declared = config::declared_format(config::folder_of(path), "");
  if (!declared) return complain(declared.error());
  const auto found = findings(*model, *declared);
  if (!found) return complain(found.error());
  if (options.json) {
    std::cout << json::to_string(*found) << '\n';
  } else {
    print_inspect(*found);
  }
  return kOk;
}

}  // namespace

Command add_inspect(App tenon) {
  const App app =
      tenon.add_subcommand("inspect", "Says what a model's chat template takes, and its format");
  auto options = std::make_shared<InspectOptions>();
  app.add_flag("--batch", options->batch, "One JSON request per line in, one answer per line out");
  app.add_flag("--json", options->json, "As JSON, for programs");
  app.add_flag("--propose", options->propose,
               "Print a definition of the tool-call format, from what the template writes");
  app.add_option("FILE", options->path,
                 "A GGUF file, hf:OWNER/REPO[:QUANT], ollama:NAME[:TAG], a model's folder, its "
                 "tokenizer_config.json or a chat template (default: the bundled model)");
  app.footer(
      "Example:\n  tenon inspect model.gguf\n"
      "  tenon inspect --propose chat_template.jinja > formats/mine.toml");
  return {app, [options, app] { return run_inspect(*options, app); }};
}

}  // namespace tenon::app
