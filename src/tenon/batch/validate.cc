#include "tenon/batch/validate.h"

#include <string>

#include "tenon/batch/line.h"
#include "tenon/json/lines.h"

namespace tenon::batch {
namespace {

// The value itself, or its text, whose errors then name it and its line.
Expected<json::Value> instance_of(const json::Object& request) {
  const json::Value* const instance = request.find("instance");
  const json::Value* const text = request.find("instance_text");
  if (instance != nullptr && text == nullptr) return *instance;
  if (instance != nullptr || text == nullptr || text->if_string() == nullptr) {
    return Unexpected(wrong_member("line", "must have an instance or the string instance_text"));
  }
  auto parsed = json::parse(*text->if_string());
  if (!parsed) {
    Error error = Error::at(parsed.error().code, "instance_text", parsed.error().message);
    error.line = parsed.error().line;
    return Unexpected(std::move(error));
  }
  return parsed;
}

}  // namespace

// The options view the line's documents, so the line must outlive the compilation.
Expected<schema::CompileOptions> compile_options_of(const json::Object& request) {
  schema::CompileOptions options;
  if (const json::Value* draft = request.find("draft")) {
    const std::string* const name = draft->if_string();
    const auto known = name == nullptr ? std::nullopt : schema::find_draft(*name);
    if (!known) return Unexpected(wrong_member("draft", "must be one of draft4 to draft2020-12"));
    options.draft = *known;
  }
  if (const json::Value* documents = request.find("documents")) {
    options.documents = documents->if_object();
    if (options.documents == nullptr)
      return Unexpected(wrong_member("documents", "must be an object"));
  }
  if (const json::Value* assert_format = request.find("assert_format")) {
    if (assert_format->if_bool() == nullptr) {
      return Unexpected(wrong_member("assert_format", "must be true or false"));
    }
    options.assert_format = *assert_format->if_bool();
  }
  return options;
}

json::Value violations_json(const std::vector<schema::Violation>& violations) {
  json::Array list;
  for (const schema::Violation& violation : violations) {
    list.emplace_back(json::Object{{"instance_path", violation.instance_path},
                                   {"schema_path", violation.schema_path},
                                   {"message", violation.message}});
  }
  return list;
}

// `{"schema": {"type": "integer"}, "instance": "x"}` is answered by `{"valid": false, "errors":
// [{"instance_path", "schema_path", "message"}]}`.
Expected<json::Object> validate_line(const json::Object& request) {
  const Status known = json::check_members(
      request, {"schema", "instance", "instance_text", "draft", "documents", "assert_format"});
  if (!known) return Unexpected(known.error());
  const json::Value* const source = request.find("schema");
  if (source == nullptr) return Unexpected(wrong_member("schema", "is missing"));
  const auto options = compile_options_of(request);
  if (!options) return Unexpected(options.error());
  const auto instance = instance_of(request);
  if (!instance) return Unexpected(instance.error());
  const auto schema = schema::Schema::compile(*source, *options);
  if (!schema) return Unexpected(schema.error());
  const auto violations = (*schema)->validate(*instance);
  if (!violations) return Unexpected(violations.error());

  return json::Object{{"valid", violations->empty()}, {"errors", violations_json(*violations)}};
}

void validate_batch(std::istream& in, std::ostream& out) {
  json::answer_lines(in, out, validate_line);
}

}  // namespace tenon::batch
