#include "tenon/batch/grammar.h"

#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "command.h"
#include "rules_options.h"

#include "tenon/batch/tool_request.h"
#include "tenon/config/files.h"
#include "tenon/format/registry.h"
#include "tenon/json/lines.h"
#include "tenon/json/value.h"

// `tenon grammar`: a schema, a grammar or the calls of tools, printed in the language of another
// engine. The options become a line of `--batch`.

namespace tenon::app {
namespace {

struct GrammarOptions {
  bool batch = false;
  bool json = false;
  std::string to = "gbnf";  // the language
  std::string tools_file;   // "": FILE is a schema or a grammar
  std::string format;       // of the calls, with tools_file
  std::string tool_choice = "required";
  RulesOptions rules{.file = "-"};
};

// The calls of some tools in a format.
OrComplaint<json::Object> answer_about_calls(const GrammarOptions& options, App app) {
  auto refused = refuse_options(
      app, {"FILE", "--syntax", "--draft", "--document", "--assert-format"}, "with --tools");
  if (!refused) return Failure<Complaint>(refused.error());
  if (options.format.empty()) {
    return complaint(kUsage, "--tools: name the --format of the calls; `tenon formats` lists them");
  }
  if (const auto format = format::named(options.format); !format) {
    return complaint(kBadInput, format.error().message);
  }
  auto tools = config::read_json(options.tools_file);
  if (!tools) return complaint(kBadInput, tools.error().message);
  const bool is_mode = options.tool_choice == "auto" || options.tool_choice == "none" ||
                       options.tool_choice == "required";
  json::Value choice(options.tool_choice);
  if (!is_mode) choice = json::Object{{"function", json::Object{{"name", options.tool_choice}}}};
  auto answer = batch::print_calls({{"tools", *std::move(tools)},
                                    {"format", options.format},
                                    {"tool_choice", std::move(choice)},
                                    {"whitespace", options.rules.whitespace},
                                    {"to", options.to}});
  if (!answer) return complaint(kBadInput, options.tools_file + ": " + answer.error().message);
  return *std::move(answer);
}

OrComplaint<json::Object> answer_of(const GrammarOptions& options, App app) {
  if (!options.tools_file.empty()) return answer_about_calls(options, app);
  auto request = request_of(options.rules, app);
  if (!request) return request;
  (*request)["to"] = options.to;
  auto answer = batch::print_line(*request);
  if (!answer) {
    return complaint(kBadInput,
                     config::input_name(options.rules.file) + ": " + answer.error().message);
  }
  return *std::move(answer);
}

// The grammar goes to stdout and what it relaxes to stderr, so that the grammar can go into a file.
int run_grammar(const GrammarOptions& options, App app) {
  if (options.batch) {
    constexpr std::string_view kWhy = "with --batch: each line of stdin says its own";
    auto refused =
        refuse_options(app, {"--json", "--to", "--tools", "--format", "--tool-choice"}, kWhy);
    if (refused) refused = refuse_rules_options(app, kWhy);
    if (!refused) return complain(refused.error());
    json::answer_lines(std::cin, std::cout, [](const json::Object& request) {
      return request.contains("tools") ? batch::print_calls(request) : batch::print_line(request);
    });
    return kOk;
  }
  const auto answer = answer_of(options, app);
  if (!answer) return complain(answer.error());
  if (options.json) {
    std::cout << json::to_string(*answer) << '\n';
    return kOk;
  }
  const std::string& text = *answer->find("grammar")->if_string();
  std::cout << text << (text.ends_with('\n') ? "" : "\n");
  for (const json::Value& relaxed : *answer->find("relaxed")->if_array()) {
    const std::string& path = *relaxed.find("schema_path")->if_string();
    std::cerr << "relaxed: " << (path.empty() ? "(root)" : path) << ' '
              << *relaxed.find("message")->if_string() << '\n';
  }
  return kOk;
}

}  // namespace

Command add_grammar(App tenon) {
  const App app = tenon.add_subcommand(
      "grammar", "Prints a JSON Schema or a grammar in the language of another engine");
  auto options = std::make_shared<GrammarOptions>();
  app.add_flag("--batch", options->batch, "One JSON request per line in, one answer per line out");
  app.add_flag("--json", options->json, "The answer as JSON: grammar, and what it relaxes");
  app.add_option("--to", options->to,
                 "gbnf (llama.cpp; the default), ebnf (xgrammar), lark (llguidance) or "
                 "json-schema")
      .one_of({"gbnf", "ebnf", "lark", "json-schema"});
  app.add_option("--tools", options->tools_file,
                 "JSON file with tools: the grammar of their calls");
  app.add_option("--format,--tool-call-parser", options->format,
                 "With --tools: the format of the calls, as tenon formats lists them");
  app.add_option("--tool-choice", options->tool_choice,
                 "With --tools: required (the default), auto, none or a tool's name");
  add_rules_options(app, options->rules, "The schema or the grammar; '-', the default, is stdin");
  app.footer(
      "What the language cannot say is listed on stderr, and in \"relaxed\" with --json.\n"
      "Example:\n"
      "  echo '{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}}}' | tenon "
      "grammar --to lark\n"
      "  tenon grammar --tools examples/tools.json --format hermes");
  return {app, [options, app] { return run_grammar(*options, app); }};
}

}  // namespace tenon::app
