#include "tenon/batch/parse.h"

#include <iostream>
#include <memory>
#include <string>

#include "command.h"

#include "tenon/config/files.h"
#include "tenon/config/model_template.h"
#include "tenon/json/value.h"

namespace tenon::app {
namespace {

struct ParseOptions {
  bool batch = false;
  bool events = false;
  std::string format;  // its name; else `template_file` says it
  std::string template_file;
  std::string tools_file;
  std::string text_file = "-";  // "-": stdin
};

// The options as a line of `--batch`.
Expected<json::Object> parse_request_of(const ParseOptions& options) {
  json::Object request;
  if (!options.format.empty()) request.set("format", options.format);
  if (!options.template_file.empty()) {
    auto source = config::read_file(options.template_file);
    if (!source) return Unexpected(source.error());
    request.set("template", *std::move(source));
  }
  if (!options.tools_file.empty()) {
    auto tools = config::read_json(options.tools_file);
    if (!tools) return Unexpected(tools.error());
    request.set("tools", *std::move(tools));
  }
  auto text = config::read_input(options.text_file);
  if (!text) return Unexpected(text.error());
  request.set("text", *std::move(text));
  return request;
}

int run_parse(const ParseOptions& options, App app) {
  if (options.batch) {
    const auto refused = refuse_options(app, {"--format", "--template", "--tools", "FILE"},
                                        "with --batch: each line of stdin says its own");
    if (!refused) return complain(refused.error());
    batch::parse_batch(std::cin, std::cout, options.events);
    return kOk;
  }
  if (options.format.empty() == options.template_file.empty()) {
    return complain({kUsage, "parse: give either --format or --template (or --batch)"});
  }
  const auto request = parse_request_of(options);
  if (!request) return complain({kBadInput, request.error().message});
  const auto answer = batch::parse_line(*request, options.events);
  if (!answer) return complain({kBadInput, answer.error().message});
  std::cout << json::dumps(*answer, {.ensure_ascii = false, .indent = 2, .item_separator = ","})
            << '\n';
  return kOk;
}

}  // namespace

Command add_parse(App tenon) {
  const App app = tenon.add_subcommand("parse", "Reads the tool calls out of a model's output");
  auto options = std::make_shared<ParseOptions>();
  app.add_flag("--batch", options->batch, "One JSON request per line in, one answer per line out");
  app.add_flag("--events", options->events, "The events of the stream, too");
  app.add_option("--format,--tool-call-parser", options->format,
                 "Name of the format: tenon formats lists them, --format-file adds to them");
  app.add_option("--template", options->template_file,
                 "File of a chat template, from which the format is found");
  app.add_option("--tools", options->tools_file, "JSON file with the tools of the request");
  app.add_option("FILE", options->text_file, "The model's output; '-', the default, is stdin");
  app.footer(
      "Example:\n"
      "  echo '<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>' | "
      "tenon parse --format hermes");
  return {app, [options, app] { return run_parse(*options, app); }};
}

}  // namespace tenon::app
