#include <string>
#include <utility>

#include "verify/check.h"
#include "verify/held.h"
#include "verify/schema_rows.h"

// One keyword of JSON Schema each: the arguments of a call fit it, or the server says clearly that
// it does not hold calls to it. The question asks for a value that the schema forbids, so a server
// that overlooks the keyword is found with any model that obeys.
namespace tenon::app::verify {
namespace {

json::Value schema_around(const SchemaRow& row) {
  json::Object parameters{{"type", "object"},
                          {"properties", json::Object{{"value", json_of(row.schema)}}},
                          {"required", json::Array{"value"}},
                          {"additionalProperties", false}};
  if (!row.definitions.empty()) parameters.set("$defs", json_of(row.definitions));
  return parameters;
}

Question asking_for(const SchemaRow& row, std::string_view value) {
  Question question = asking("Call the tool `record` with this value: " + std::string(value));
  question.tools = {{.name = "record",
                     .description = "Records a value",
                     .parameters = schema_around(row),
                     .strict = true}};
  question.choice = {Choice::Kind::named, {"record"}};
  question.is_choice_optional = true;
  question.play.calls = {{"record", R"({"value": )" + std::string(value) + "}"}};
  return question;
}

Judgement check_schema(Session& session, const SchemaRow& row) {
  const Question right = asking_for(row, row.valid);
  const Question wrong = asking_for(row, row.invalid);
  return check_held(session,
                    {right, wrong, right.tools[0].parameters, Held::arguments, row.is_remark});
}

}  // namespace

void add_schemas(std::vector<Check>& checks) {
  for (const SchemaRow& row : schema_rows()) {
    checks.push_back({"schemas", std::string(row.name),
                      "Do arguments fit the schema " + std::string(row.schema) + "?",
                      [&row](Session& session) { return check_schema(session, row); }});
  }
}

}  // namespace tenon::app::verify
