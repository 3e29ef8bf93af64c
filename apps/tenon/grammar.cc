#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "command.h"
#include "files.h"
#include <CLI/CLI.hpp>

#include "tenon/grammar/print_batch.h"
#include "tenon/json/value.h"

namespace tenon::app {
namespace {

struct Options {
  bool batch = false;
  bool json = false;
  bool assert_format = false;
  std::string syntax;  // of the file; "": it is a schema
  std::string to = "gbnf";
  std::string whitespace = "spaced";
  std::string draft = "draft2020-12";
  std::string file = "-";
};

OrComplaint<json::Object> answer_of(const Options& options) {
  json::Object request{{"to", options.to}, {"whitespace", options.whitespace}};
  if (options.syntax.empty()) {
    auto schema = read_json(options.file, kSyntaxAdvice);
    if (!schema) return complaint(kBadInput, schema.error().message);
    request["schema"] = *std::move(schema);
    request["draft"] = options.draft;
    request["assert_format"] = options.assert_format;
  } else {
    auto text = read_input(options.file);
    if (!text) return complaint(kBadInput, text.error().message);
    request["grammar"] = *std::move(text);
    request["syntax"] = options.syntax;
  }
  auto answer = grammar::print_line(request);
  if (!answer)
    return complaint(kBadInput, input_name(options.file) + ": " + answer.error().message);
  return *std::move(answer);
}

int run(const Options& options, const CLI::App& app) {
  if (options.batch) {
    const auto refused = refuse_options(
        app, {"--json", "--assert-format", "--draft", "--syntax", "--to", "--whitespace", "FILE"},
        "with --batch: each line of stdin says its own");
    if (!refused) return complain(refused.error());
    grammar::print_batch(std::cin, std::cout);
    return kOk;
  }
  const auto answer = answer_of(options);
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

Command add_grammar(CLI::App& tenon) {
  CLI::App* app = tenon.add_subcommand(
      "grammar", "Prints a JSON Schema or a grammar in the language of another engine");
  auto options = std::make_shared<Options>();
  app->add_flag("--batch", options->batch, "One JSON request per line in, one answer per line out");
  app->add_flag("--json", options->json, "The answer as JSON: grammar, and what it relaxes");
  app->add_option("--to", options->to,
                  "gbnf (llama.cpp; the default), ebnf (xgrammar), lark (llguidance) or "
                  "json-schema")
      ->check(CLI::IsMember({"gbnf", "ebnf", "lark", "json-schema"}));
  app->add_option("--syntax", options->syntax,
                  "What FILE is, if it is no schema: gbnf, ebnf, lark, regex or structural_tag")
      ->check(CLI::IsMember({"gbnf", "ebnf", "lark", "regex", "structural_tag"}));
  app->add_option("--whitespace", options->whitespace,
                  "In JSON: spaced (as json.dumps writes; the default), compact, pretty or any")
      ->check(CLI::IsMember({"spaced", "compact", "pretty", "any"}));
  app->add_flag("--assert-format", options->assert_format, "What `format` says must hold");
  app->add_option("--draft", options->draft, "Draft of a schema without $schema");
  app->add_option("FILE", options->file, "The schema or the grammar; '-', the default, is stdin");
  app->footer(
      "What the language cannot say is listed on stderr, and in \"relaxed\" with --json.\n"
      "Example:\n"
      "  echo '{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}}}' | tenon "
      "grammar --to lark");
  return {app, [options, app] { return run(*options, *app); }};
}

}  // namespace tenon::app
