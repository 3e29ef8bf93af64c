#include "tenon/batch/render.h"

#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "prompt_view.h"
#include "terminal.h"
#include <unistd.h>

#include "tenon/batch/parse.h"
#include "tenon/config/files.h"
#include "tenon/config/model_template.h"
#include "tenon/json/value.h"

// `tenon render`: the options become a line of `--batch` (template, messages, tools), whose answer
// is printed as the prompt alone, in colours, or as JSON.

namespace tenon::app {
namespace {

struct RenderOptions {
  bool batch = false;
  bool spans = false;  // show where the bytes come from
  bool shape = false;  // rewrite what the template cannot express
  std::string template_file;
  std::string model;
  std::string tools_file;
  std::string messages_file = "-";  // "-": stdin
};

batch::RenderBatchOptions batch_options(bool spans, std::string template_name = {}) {
  return {.spans = spans, .template_name = std::move(template_name)};
}

// The template to render, with its tokens: a file, or the model's own.
OrComplaint<config::ModelTemplate> template_for(const RenderOptions& options) {
  if (!options.template_file.empty())
    return or_complaint(config::template_of(options.template_file));
  if (!options.model.empty()) return or_complaint(config::template_of(options.model));
  auto bundled = config::bundled_model();
  if (!bundled) return complaint(kBadInput, bundled.error().message);
  return or_complaint(config::template_of(*bundled));
}

// A template alone does not tell the model's tokens, so many templates fail for lack of them. The
// hint says where to put them.
std::string hint(const std::string& error, const config::ModelTemplate& chat_template) {
  for (const std::string name : {"bos_token", "eos_token"}) {
    if (error.find("'" + name + "' is undefined") == std::string::npos) continue;
    return "; " + chat_template.where + " does not say it: put " + name +
           " beside \"messages\" in the request, or give --model with the model's folder or file";
  }
  return "";
}

// The line's own tokens go before those that the model's files name.
void add_template(const config::ModelTemplate& chat_template, json::Object& request) {
  request.set("template", chat_template.source);
  const std::pair<const char*, const std::string*> tokens[] = {
      {"bos_token", &chat_template.bos_token}, {"eos_token", &chat_template.eos_token}};
  for (const auto& [key, text] : tokens) {
    if (!text->empty() && !request.contains(key)) request.set(key, *text);
  }
}

// A whole request (`{"messages", "tools", ...}`) or the messages alone.
OrComplaint<json::Object> render_request_of(const RenderOptions& options) {
  auto input = config::read_json(options.messages_file);
  if (!input) return complaint(kBadInput, input.error().message);
  json::Object request;
  if (input->if_object() != nullptr) {
    request = *std::move(*input).if_object();
  } else {
    request.set("messages", *std::move(input));
  }
  const std::string name = config::input_name(options.messages_file);
  const json::Value* messages = request.find("messages");
  if (messages == nullptr || messages->if_array() == nullptr) {
    return complaint(kBadInput, name + ": must be a list of messages, or an object with such " +
                                    "a list as messages");
  }
  if (request.contains("template")) {
    return complaint(kBadInput, name + ": template: give it by --template FILE");
  }
  if (!options.tools_file.empty()) {
    auto tools = config::read_json(options.tools_file);
    if (!tools) return complaint(kBadInput, tools.error().message);
    request.set("tools", *std::move(tools));
  }
  if (options.shape) request.set("shape", true);
  // A prompt is what is wanted most often; transformers leaves it out by default.
  if (!request.contains("add_generation_prompt")) request.set("add_generation_prompt", true);
  return request;
}

OrComplaint<void> check(const RenderOptions& options, App app) {
  if (options.batch) {
    return refuse_options(app, {"--template", "--model", "--tools", "--shape", "FILE"},
                          "with --batch: each line of stdin says its own");
  }
  if (options.template_file.empty()) return {};
  return refuse_options(app, {"--model"}, "with --template: give one of them");
}

std::vector<jinja::Span> spans_of(const json::Array& array) {
  std::vector<jinja::Span> spans;
  for (const json::Value& span : array) {
    const json::Array& parts = *span.if_array();
    const auto number = [&](std::size_t i) {
      return static_cast<std::size_t>(parts[i].if_number()->to_int64().value_or(0));
    };
    spans.push_back({number(0), number(1), parts[2] == json::Value("data")});
  }
  return spans;
}

// On a terminal spans are colours; elsewhere the answer is JSON, which has the shaping, too.
int print_render(const json::Object& answer, const RenderOptions& options,
                 const config::ModelTemplate& chat_template) {
  const std::string& text = *answer.find("output")->if_string();
  const bool is_json = options.spans && !has_colours();
  if (!is_json) {
    if (const json::Value* shaping = answer.find("shaping")) {
      for (const json::Value& line : *shaping->if_array()) {
        std::cerr << "shaped: " << shown(*line.if_string(), STDERR_FILENO) << '\n';
      }
    }
  }
  if (!options.spans) {
    std::cout << text;
  } else if (!is_json) {
    const std::vector<jinja::Span> spans = spans_of(*answer.find("spans")->if_array());
    std::cout << coloured(text, spans, chat_template.controls) << '\n';
  } else {
    std::cout << json::to_string(answer) << '\n';
  }
  return kOk;
}

int run_render(const RenderOptions& options, App app) {
  if (const auto checked = check(options, app); !checked) return complain(checked.error());
  if (options.batch) {
    batch::render_batch(std::cin, std::cout, batch_options(options.spans));
    return kOk;
  }
  const auto chat_template = template_for(options);
  if (!chat_template) return complain(chat_template.error());
  auto request = render_request_of(options);
  if (!request) return complain(request.error());
  add_template(*chat_template, *request);
  const auto answer =
      batch::render_line(*request, batch_options(options.spans, chat_template->where));
  if (!answer) {
    const std::string& error = answer.error().message;
    return complain({kBadInput, error + hint(error, *chat_template)});
  }
  return print_render(*answer, options, *chat_template);
}

}  // namespace

Command add_render(App tenon) {
  const App app = tenon.add_subcommand("render", "Shows the prompt that a model reads");
  auto options = std::make_shared<RenderOptions>();
  app.add_flag("--batch", options->batch, "One JSON request per line in, one answer per line out");
  app.add_flag("--spans", options->spans,
               "Which bytes come from the template and which from data: in colours on a terminal, "
               "control tokens boxed, else as JSON");
  app.add_option("--template", options->template_file, "File of a chat template");
  app.add_option("--model", options->model,
                 "GGUF file or folder of a model whose own template is used (default: the bundled "
                 "model)");
  app.add_option("--tools", options->tools_file, "JSON file with an array of tools");
  app.add_flag("--shape", options->shape, "Rewrite history that the template cannot express");
  app.add_option("FILE", options->messages_file,
                 "JSON: messages, or an object with messages and more; '-', the default, is stdin");
  app.footer(
      "Example:\n"
      "  echo '[{\"role\": \"user\", \"content\": \"hi\"}]' | "
      "tenon render --tools examples/tools.json");
  return {app, [options, app] { return run_render(*options, app); }};
}

}  // namespace tenon::app
