#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "command.h"
#include "files.h"
#include "rules_options.h"
#include <CLI/CLI.hpp>

#include "tenon/grammar/print_batch.h"
#include "tenon/json/value.h"

namespace tenon::app {
namespace {

struct Options {
  bool batch = false;
  bool json = false;
  std::string to = "gbnf";
  RulesOptions rules{.file = "-"};
};

OrComplaint<json::Object> answer_of(const Options& options, const CLI::App& app) {
  auto request = request_of(options.rules, app);
  if (!request) return request;
  (*request)["to"] = options.to;
  auto answer = grammar::print_line(*request);
  if (!answer) {
    return complaint(kBadInput, input_name(options.rules.file) + ": " + answer.error().message);
  }
  return *std::move(answer);
}

int run(const Options& options, const CLI::App& app) {
  if (options.batch) {
    constexpr std::string_view kWhy = "with --batch: each line of stdin says its own";
    auto refused = refuse_options(app, {"--json", "--to"}, kWhy);
    if (refused) refused = refuse_rules_options(app, kWhy);
    if (!refused) return complain(refused.error());
    grammar::print_batch(std::cin, std::cout);
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
  add_rules_options(*app, options->rules, "The schema or the grammar; '-', the default, is stdin");
  app->footer(
      "What the language cannot say is listed on stderr, and in \"relaxed\" with --json.\n"
      "Example:\n"
      "  echo '{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}}}' | tenon "
      "grammar --to lark");
  return {app, [options, app] { return run(*options, *app); }};
}

}  // namespace tenon::app
