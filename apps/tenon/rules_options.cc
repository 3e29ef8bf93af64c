#include "rules_options.h"

#include <utility>

#include "tenon/config/files.h"

namespace tenon::app {

void add_schema_options(App app, SchemaOptions& options) {
  app.add_flag("--assert-format", options.assert_format, "What `format` says must hold");
  app.add_option("--draft", options.draft,
                 "Draft of a schema without $schema: draft4, draft6, draft7, draft2019-09 or "
                 "draft2020-12, the default")
      .one_of({"draft4", "draft6", "draft7", "draft2019-09", "draft2020-12"});
  app.add_option("--document", options.documents,
                 "ADDRESS=FILE: a document that $ref may name; can be given again");
}

// The members about schemas: `{"draft", "documents", "assert_format"}`.
OrComplaint<json::Object> request_of(const SchemaOptions& options) {
  json::Object documents;
  for (const std::string& given : options.documents) {
    const std::size_t equals = given.rfind('=');  // an address may hold one, in its query
    if (equals == std::string::npos) {
      return complaint(kUsage, "--document wants ADDRESS=FILE, not " + given);
    }
    auto document = config::read_json(given.substr(equals + 1));
    if (!document) return complaint(kBadInput, document.error().message);
    documents.set(given.substr(0, equals), *std::move(document));
  }
  return json::Object{{"draft", options.draft},
                      {"documents", std::move(documents)},
                      {"assert_format", options.assert_format}};
}

void add_rules_options(App app, RulesOptions& options, const std::string& help_of_file) {
  app.add_option("--syntax", options.syntax,
                 "What FILE is, if it is no schema: gbnf, ebnf, lark, regex or structural_tag")
      .one_of({"gbnf", "ebnf", "lark", "regex", "structural_tag"});
  app.add_option("--whitespace", options.whitespace,
                 "In JSON: spaced (as json.dumps writes; the default), compact, pretty or any")
      .one_of({"spaced", "compact", "pretty", "any"});
  add_schema_options(app, options.schema);
  app.add_option("FILE", options.file, help_of_file);
}

// The options as a line of `--batch`, so that both ways have one reader. Without --syntax the file
// is a schema.
OrComplaint<json::Object> request_of(const RulesOptions& options, App app) {
  if (options.syntax.empty()) {
    auto request = request_of(options.schema);
    if (!request) return request;
    auto schema = config::read_json(options.file, "; if it is a grammar, name its --syntax");
    if (!schema) return complaint(kBadInput, schema.error().message);
    (*request)["schema"] = *std::move(schema);
    (*request)["whitespace"] = options.whitespace;
    return request;
  }
  const auto refused =
      refuse_options(app, {"--whitespace", "--draft", "--document", "--assert-format"},
                     "with --syntax: it is about schemas");
  if (!refused) return Failure<Complaint>(refused.error());
  auto text = config::read_input(options.file);
  if (!text) return complaint(kBadInput, text.error().message);
  return json::Object{{"grammar", *std::move(text)}, {"syntax", options.syntax}};
}

OrComplaint<void> refuse_rules_options(App app, std::string_view why) {
  return refuse_options(
      app, {"--syntax", "--whitespace", "--draft", "--document", "--assert-format", "FILE"}, why);
}

}  // namespace tenon::app
