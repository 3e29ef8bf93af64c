#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "command.h"
#include "files.h"
#include "models.h"
#include <CLI/CLI.hpp>

#include "tenon/format/parse_batch.h"
#include "tenon/json/value.h"
#include "tenon/prompt/render_batch.h"

namespace tenon::app {
namespace {

struct Options {
  bool batch = false;
  bool spans = false;
  bool shape = false;
  std::string template_file;
  std::string model;
  std::string tools_file;
  std::string messages_file = "-";
};

prompt::RenderBatchOptions batch_options(bool spans) {
  return {.spans = spans, .render_calls = format::render_line};
}

// The template that is asked for: a file, or the model's own with its tokens.
OrComplaint<void> add_template(const Options& options, json::Object& request) {
  if (!options.template_file.empty()) {
    auto source = read_file(options.template_file);
    if (!source) return complaint(kBadInput, source.error().message);
    request.set("template", *std::move(source));
    return {};
  }
  const auto config = model_from_path(options.model);
  if (!config) return Failure<Complaint>(config.error());
  const auto model = load_model(*config);
  if (!model) return Failure<Complaint>(model.error());
  const engine::Engine& engine = (*model)->engine();
  const vocab::Tokenizer& tokenizer = engine.tokenizer();
  request.set("template", engine.chat_template());
  if (tokenizer.bos()) request.set("bos_token", tokenizer.bytes(*tokenizer.bos()));
  if (tokenizer.eos()) request.set("eos_token", tokenizer.bytes(*tokenizer.eos()));
  return {};
}

// A whole request (`{"messages", "tools", ...}`) or the messages alone.
OrComplaint<json::Object> request_of(const Options& options) {
  auto input = read_json(options.messages_file);
  if (!input) return complaint(kBadInput, input.error().message);
  json::Object request;
  if (input->if_object() != nullptr) {
    request = *std::move(*input).if_object();
  } else {
    request.set("messages", *std::move(input));
  }
  if (!options.tools_file.empty()) {
    auto tools = read_json(options.tools_file);
    if (!tools) return complaint(kBadInput, tools.error().message);
    request.set("tools", *std::move(tools));
  }
  if (options.shape) request.set("shape", true);
  if (!request.contains("add_generation_prompt")) request.set("add_generation_prompt", true);
  if (auto added = add_template(options, request); !added) return Failure<Complaint>(added.error());
  return request;
}

OrComplaint<void> check(const Options& options, const CLI::App& app) {
  if (options.batch) {
    return refuse_options(app, {"--template", "--model", "--tools", "--shape", "FILE"},
                          "with --batch: each line of stdin says its own");
  }
  if (options.template_file.empty()) return {};
  return refuse_options(app, {"--model"}, "with --template: give one of them");
}

int run(const Options& options, const CLI::App& app) {
  if (const auto checked = check(options, app); !checked) return complain(checked.error());
  if (options.batch) {
    prompt::render_batch(std::cin, std::cout, batch_options(options.spans));
    return kOk;
  }
  const auto request = request_of(options);
  if (!request) return complain(request.error());
  const auto answer = prompt::render_line(*request, batch_options(options.spans));
  if (!answer) return complain({kBadInput, answer.error().message});
  const json::Value* output = answer->find("output");
  if (options.spans || output == nullptr || output->if_string() == nullptr) {
    std::cout << json::to_string(*answer) << '\n';
  } else {
    std::cout << *output->if_string();
  }
  return kOk;
}

}  // namespace

Command add_render(CLI::App& tenon) {
  CLI::App* app = tenon.add_subcommand("render", "Shows the prompt that a model reads");
  auto options = std::make_shared<Options>();
  app->add_flag("--batch", options->batch, "One JSON request per line in, one answer per line out");
  app->add_flag("--spans", options->spans,
                "As JSON, with which bytes come from the template and which from data");
  app->add_option("--template", options->template_file, "File of a chat template");
  app->add_option("--model", options->model,
                  "GGUF file whose own template is used (default: the bundled model)");
  app->add_option("--tools", options->tools_file, "JSON file with an array of tools");
  app->add_flag("--shape", options->shape, "Rewrite history that the template cannot express");
  app->add_option(
      "FILE", options->messages_file,
      "JSON: messages, or an object with messages and more; '-', the default, is stdin");
  app->footer(
      "Example:\n"
      "  echo '[{\"role\": \"user\", \"content\": \"hi\"}]' | "
      "tenon render --tools examples/tools.json");
  return {app, [options, app] { return run(*options, *app); }};
}

}  // namespace tenon::app
