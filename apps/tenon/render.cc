#include <iostream>
#include <iterator>
#include <memory>
#include <sstream>
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
  return {.spans = spans,
          .render_calls = [](const json::Object& request) { return format::render_line(request); }};
}

tl::unexpected<Failure> failure(int status, std::string message) {
  return tl::unexpected(Failure{status, std::move(message)});
}

tl::expected<json::Value, Failure> read_json(const std::string& path) {
  const Expected<std::string> text =
      path == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : read_file(path);
  if (!text) return failure(kBadInput, text.error().message);
  auto value = json::parse(*text);
  if (!value) return failure(kBadInput, path + ": " + value.error().message);
  return *std::move(value);
}

// The template that is asked for: a file, or the model's own with its tokens.
tl::expected<void, Failure> add_template(const Options& options, json::Object& request) {
  if (!options.template_file.empty()) {
    auto source = read_file(options.template_file);
    if (!source) return failure(kBadInput, source.error().message);
    request.set("template", *std::move(source));
    return {};
  }
  const auto config = model_from_path(options.model);
  if (!config) return tl::unexpected(config.error());
  const auto model = load_model(*config);
  if (!model) return tl::unexpected(model.error());
  const engine::Engine& engine = (*model)->engine();
  const vocab::Tokenizer& tokenizer = engine.tokenizer();
  request.set("template", engine.chat_template());
  if (tokenizer.bos()) request.set("bos_token", tokenizer.bytes(*tokenizer.bos()));
  if (tokenizer.eos()) request.set("eos_token", tokenizer.bytes(*tokenizer.eos()));
  return {};
}

// A whole request (`{"messages", "tools", ...}`) or the messages alone.
tl::expected<json::Object, Failure> request_of(const Options& options) {
  auto input = read_json(options.messages_file);
  if (!input) return tl::unexpected(input.error());
  json::Object request;
  if (input->if_object() != nullptr) {
    request = *std::move(*input).if_object();
  } else {
    request.set("messages", *std::move(input));
  }
  if (!options.tools_file.empty()) {
    auto tools = read_json(options.tools_file);
    if (!tools) return tl::unexpected(tools.error());
    request.set("tools", *std::move(tools));
  }
  if (options.shape) request.set("shape", true);
  if (!request.contains("add_generation_prompt")) request.set("add_generation_prompt", true);
  if (auto added = add_template(options, request); !added) return tl::unexpected(added.error());
  return request;
}

int run(const Options& options) {
  if (options.batch) {
    return prompt::render_batch(std::cin, std::cout, batch_options(options.spans));
  }
  const auto request = request_of(options);
  if (!request) return complain(request.error().status, request.error().message);
  std::istringstream in(json::to_string(*request) + '\n');
  std::ostringstream out;
  prompt::render_batch(in, out, batch_options(options.spans));
  const auto answer = json::parse(out.str());
  if (!answer) return complain(kBadInput, answer.error().message);
  if (const json::Value* message = json::at_pointer(*answer, "/error/message")) {
    return complain(kBadInput, message->if_string() == nullptr ? "" : *message->if_string());
  }
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
      "tenon render --template chat_template.jinja");
  return {app, [options] { return run(*options); }};
}

}  // namespace tenon::app
