#include "tenon/batch/validate.h"

#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "rules_options.h"

#include "tenon/config/files.h"
#include "tenon/json/value.h"
#include "tenon/schema/schema.h"

namespace tenon::app {
namespace {

struct ValidateOptions {
  bool batch = false;
  bool json = false;
  SchemaOptions schema;
  std::string schema_file;
  std::string instance_file = "-";  // "-": stdin
};

OrComplaint<std::vector<schema::Violation>> violations_of(const ValidateOptions& options) {
  const auto request = request_of(options.schema);
  if (!request) return Failure<Complaint>(request.error());
  const auto compile_options = batch::compile_options_of(*request);
  if (!compile_options) return complaint(kUsage, compile_options.error().message);
  const auto source = config::read_json(options.schema_file);
  if (!source) return complaint(kBadInput, source.error().message);
  const auto schema = schema::Schema::compile(*source, *compile_options);
  if (!schema) {
    return complaint(kBadInput, options.schema_file + ": " + schema.error().message);
  }
  const auto instance = config::read_json(options.instance_file);
  if (!instance) return complaint(kBadInput, instance.error().message);
  auto violations = (*schema)->validate(*instance);
  if (!violations) return complaint(kBadInput, violations.error().message);
  return *std::move(violations);
}

// A line for each place that is wrong: where in the value, what, and which part of the schema says
// so.
int run_validate(const ValidateOptions& options, App app) {
  if (options.batch) {
    const auto refused = refuse_options(
        app, {"--json", "--assert-format", "--draft", "--document", "SCHEMA", "INSTANCE"},
        "with --batch: each line of stdin says its own");
    if (!refused) return complain(refused.error());
    batch::validate_batch(std::cin, std::cout);
    return kOk;
  }
  if (options.schema_file.empty()) {
    return complain({kUsage, "validate: give the file of a schema (or --batch)"});
  }
  const auto violations = violations_of(options);
  if (!violations) return complain(violations.error());
  if (options.json) {
    const json::Object answer{{"valid", violations->empty()},
                              {"errors", batch::violations_json(*violations)}};
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

Command add_validate(App tenon) {
  const App app = tenon.add_subcommand("validate", "Says whether JSON fits a JSON Schema");
  auto options = std::make_shared<ValidateOptions>();
  app.add_flag("--batch", options->batch, "One JSON request per line in, one answer per line out");
  app.add_flag("--json", options->json, "The answer as JSON, for programs");
  add_schema_options(app, options->schema);
  app.add_option("SCHEMA", options->schema_file, "File of the schema");
  app.add_option("INSTANCE", options->instance_file,
                 "File of the value to check; '-', the default, is stdin");
  app.footer(
      "Example:\n"
      "  echo '{\"city\": 5}' | tenon validate schema.json");
  return {app, [options, app] { return run_validate(*options, app); }};
}

}  // namespace tenon::app
