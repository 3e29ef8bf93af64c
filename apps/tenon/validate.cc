#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "files.h"
#include <CLI/CLI.hpp>

#include "tenon/json/value.h"
#include "tenon/schema/schema.h"
#include "tenon/schema/validate_batch.h"

namespace tenon::app {
namespace {

struct Options {
  bool batch = false;
  bool json = false;
  bool assert_format = false;
  std::string draft = "draft2020-12";
  std::vector<std::string> documents;  // ADDRESS=FILE
  std::string schema_file;
  std::string instance_file = "-";
};

OrComplaint<json::Object> documents_of(const Options& options) {
  json::Object documents;
  for (const std::string& given : options.documents) {
    const std::size_t equals = given.rfind('=');  // an address may hold one, in its query
    if (equals == std::string::npos) {
      return complaint(kUsage, "validate: --document wants ADDRESS=FILE, not " + given);
    }
    auto document = read_json(given.substr(equals + 1));
    if (!document) return complaint(kBadInput, document.error().message);
    documents.set(given.substr(0, equals), *std::move(document));
  }
  return documents;
}

OrComplaint<std::vector<schema::Violation>> violations_of(const Options& options) {
  const auto draft = schema::find_draft(options.draft);
  if (!draft) return complaint(kUsage, "validate: --draft is one of draft4 to draft2020-12");
  const auto documents = documents_of(options);
  if (!documents) return Failure<Complaint>(documents.error());
  const auto source = read_json(options.schema_file);
  if (!source) return complaint(kBadInput, source.error().message);
  const auto schema = schema::Schema::compile(
      *source, {.draft = *draft, .documents = &*documents, .assert_format = options.assert_format});
  if (!schema) {
    return complaint(kBadInput, options.schema_file + ": " + schema.error().message);
  }
  const auto instance = read_json(options.instance_file);
  if (!instance) return complaint(kBadInput, instance.error().message);
  auto violations = (*schema)->validate(*instance);
  if (!violations) return complaint(kBadInput, violations.error().message);
  return *std::move(violations);
}

int run(const Options& options, const CLI::App& app) {
  if (options.batch) {
    const auto refused = refuse_options(
        app, {"--json", "--assert-format", "--draft", "--document", "SCHEMA", "INSTANCE"},
        "with --batch: each line of stdin says its own");
    if (!refused) return complain(refused.error());
    schema::validate_batch(std::cin, std::cout);
    return kOk;
  }
  if (options.schema_file.empty()) {
    return complain({kUsage, "validate: give the file of a schema (or --batch)"});
  }
  const auto violations = violations_of(options);
  if (!violations) return complain(violations.error());
  if (options.json) {
    const json::Object answer{{"valid", violations->empty()},
                              {"errors", schema::violations_json(*violations)}};
    std::cout << json::to_string(answer) << '\n';
  } else {
    for (const schema::Violation& violation : *violations) {
      std::cout << (violation.instance_path.empty() ? "(root)" : violation.instance_path) << ' '
                << violation.message << " [" << violation.schema_path << "]\n";
    }
    if (violations->empty()) std::cout << "valid\n";
  }
  return violations->empty() ? kOk : kNegative;
}

}  // namespace

Command add_validate(CLI::App& tenon) {
  CLI::App* app = tenon.add_subcommand("validate", "Says whether JSON fits a JSON Schema");
  auto options = std::make_shared<Options>();
  app->add_flag("--batch", options->batch, "One JSON request per line in, one answer per line out");
  app->add_flag("--json", options->json, "The answer as JSON, for programs");
  app->add_flag("--assert-format", options->assert_format, "What `format` says must hold");
  app->add_option("--draft", options->draft,
                  "Draft of a schema without $schema: draft4, draft6, draft7, draft2019-09 or "
                  "draft2020-12, the default");
  app->add_option("--document", options->documents,
                  "ADDRESS=FILE: a document that $ref may name; can be given again");
  app->add_option("SCHEMA", options->schema_file, "File of the schema");
  app->add_option("INSTANCE", options->instance_file,
                  "File of the value to check; '-', the default, is stdin");
  app->footer(
      "Example:\n"
      "  echo '{\"city\": 5}' | tenon validate schema.json");
  return {app, [options, app] { return run(*options, *app); }};
}

}  // namespace tenon::app
