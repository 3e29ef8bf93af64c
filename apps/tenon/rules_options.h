#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "command.h"

#include "tenon/json/value.h"

/// The options of commands about schemas and grammars.
namespace tenon::app {

/// What belongs to a schema besides its text.
struct SchemaOptions {
  std::string draft = "draft2020-12";
  std::vector<std::string> documents;  ///< ADDRESS=FILE
  bool assert_format = false;
};

/// Adds --draft, --document and --assert-format. `options` must outlive `app`.
void add_schema_options(App app, SchemaOptions& options);
/// The options as the members `draft`, `documents` and `assert_format` of a line of `--batch`.
[[nodiscard]] OrComplaint<json::Object> request_of(const SchemaOptions& options);

/// A schema, or a grammar in some syntax.
struct RulesOptions {
  std::string file;
  std::string syntax;  ///< "": the file is a schema.
  std::string whitespace = "spaced";
  SchemaOptions schema;
};

/// Adds the options above, --syntax, --whitespace and FILE. `options` must outlive `app`.
void add_rules_options(App app, RulesOptions& options, const std::string& help_of_file);
/// The options, and the content of the file, as a line of `--batch`.
[[nodiscard]] OrComplaint<json::Object> request_of(const RulesOptions& options, App app);
/// Fails with kUsage if one of them is given.
[[nodiscard]] OrComplaint<void> refuse_rules_options(App app, std::string_view why);

}  // namespace tenon::app
