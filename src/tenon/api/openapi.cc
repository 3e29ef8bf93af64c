#include "tenon/api/openapi.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <utility>

#include "tenon/api/chat_request.h"
#include "tenon/api/completion_request.h"
#include "tenon/api/decisions.h"
#include "tenon/api/error.h"
#include "tenon/api/messages_request.h"
#include "tenon/api/openapi_parts.h"
#include "tenon/api/request_reader.h"
#include "tenon/api/responses_request.h"

// How the document is made
//
// openapi.json, which the build embeds, has what only a person can write: the paths, the schemas of
// members and answers, the descriptions. Requests come from the decoders' own tables of fields
// (chat_completion_fields() and the others), and errors from kErrors, so neither can differ from
// what the server does. `#Name` stands for a schema of the document; resolve() replaces it at the
// end, when all are there.

namespace tenon::api {
namespace {

using json::Array;
using json::Object;
using json::Value;

const Value& parts() {
  static const Value kParts = json::parse(openapi_parts().front().bytes).value_or(Value());
  return kParts;
}

const Object& part(std::string_view name) {
  return *parts().find(name)->if_object();
}

Value ref(std::string_view name) {
  return Object{{"$ref", "#" + std::string(name)}};
}

Value one_of(Array schemas) {
  return Object{{"anyOf", std::move(schemas)}};
}

Value or_null(Value schema) {
  return one_of({std::move(schema), Object{{"type", "null"}}});
}

bool is_among(const Value* list, std::string_view name) {
  return list != nullptr &&
         std::ranges::find(*list->if_array(), Value(name)) != list->if_array()->end();
}

// The decoders take null as absent, so the schemas must let it in: for members that are not
// required, and for members with free names.
void let_nulls_in(Value& schema) {
  if (Array* items = schema.if_array()) {
    for (Value& item : *items) let_nulls_in(item);
    return;
  }
  Object* members = schema.if_object();
  if (members == nullptr) return;
  for (const std::string_view key : {"anyOf", "items"}) {
    if (Value* inner = members->find(key)) let_nulls_in(*inner);
  }
  Value* properties = members->find("properties");
  if (properties == nullptr) return;
  // A copy of the list, because the loop changes the members.
  for (const json::Member& member : std::vector<json::Member>(properties->if_object()->members())) {
    Value property = member.value;
    let_nulls_in(property);
    const bool is_any = property == Value(Object());
    if (!is_any && !is_among(members->find("required"), member.key)) property = or_null(property);
    properties->if_object()->set(member.key, std::move(property));
  }
}

// Replaces `#Name` by the schema's place in the document.
void resolve(Value& value) {
  if (Array* items = value.if_array()) {
    for (Value& item : *items) resolve(item);
  }
  Object* members = value.if_object();
  if (members == nullptr) return;
  for (const json::Member& member : std::vector<json::Member>(members->members())) {
    Value inner = member.value;
    const std::string* name = member.key == "$ref" ? inner.if_string() : nullptr;
    if (name != nullptr && !name->starts_with("#/")) {
      inner = "#/components/schemas/" + name->substr(1);
    } else {
      resolve(inner);
    }
    members->set(member.key, std::move(inner));
  }
}

// A field's schema is JSON text, or "#Name".
Value schema_of(const FieldInfo& field) {
  if (field.schema.starts_with('#')) return ref(field.schema.substr(1));
  return json::parse(field.schema).value_or(Value(Object()));
}

struct Exceptions {
  std::initializer_list<std::string_view> required{};  // although the table says otherwise
};

// The schema of a request from its decoder's table. `but` is for what depends on the route or on
// other fields, which the table cannot say.
Value request_of(std::span<const FieldInfo> fields, const Exceptions& but = {}) {
  const auto has = [](const auto& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  Object properties;
  Array required;
  for (const FieldInfo& field : fields) {
    if (field.schema.empty()) continue;  // it is refused with any value
    const bool is_required = field.is_required || has(but.required, field.name);
    Value schema = is_required ? schema_of(field) : or_null(schema_of(field));
    if (field.effect == Effect::without_effect) {
      schema.if_object()->set("description", "Without effect.");
    }
    properties.set(std::string(field.name), std::move(schema));
    if (is_required) required.emplace_back(field.name);
  }
  return Object{
      {"type", "object"}, {"required", std::move(required)}, {"properties", std::move(properties)}};
}

Object schemas(const std::vector<std::string>& models) {
  Object all;
  for (const json::Member& member : part("requests")) {
    Value schema = member.value;
    let_nulls_in(schema);
    all.set(member.key, std::move(schema));
  }
  for (const json::Member& member : part("answers")) all.set(member.key, member.value);
  Object name{{"type", "string"}};
  Array names;
  for (const std::string& model : models) names.emplace_back(model);
  // "*" is the alias of a model that answers to every name.
  const bool is_any = std::ranges::find(models, "*") != models.end();
  if (!names.empty() && !is_any) name.set("enum", std::move(names));
  all.set("ModelName", std::move(name));
  all.set("ChatCompletionRequest", request_of(chat_completion_fields()));
  all.set("CompletionRequest", request_of(completion_fields()));
  all.set("DecisionRequest", request_of(decision_fields()));
  all.set("SystemOneRequest", request_of(system_one_fields()));
  // The table serves two routes: only the counting of tokens works without max_tokens.
  all.set("MessagesRequest", request_of(messages_fields(), {.required = {"max_tokens"}}));
  all.set("CountTokensRequest", request_of(messages_fields()));
  all.set("ResponsesRequest", request_of(responses_fields()));
  all.set("ResponsesCountRequest", request_of(responses_fields()));
  return all;
}

// ---- errors

std::set<unsigned> all_statuses() {
  std::set<unsigned> all;
  for (const ErrorRow& row : kErrors) all.insert(row.status);
  return all;
}

// The error body of a dialect, whose codes are those that this status can have.
Value error_schema(unsigned status, Dialect dialect) {
  Array codes;
  for (const ErrorRow& row : kErrors) {
    if (row.status == status) codes.emplace_back(row.code);
  }
  Object inner{{"message", Object{{"type", "string"}}},
               {"type", Object{{"const", error_type(status, dialect)}}},
               {"param", Object{{"type", Array{"string", "null"}}}},
               {"code", Object{{"enum", std::move(codes)}}}};
  Object error{{"type", "object"},
               {"required", Array{"message", "type", "param", "code"}},
               {"properties", std::move(inner)}};
  Object properties{{"error", std::move(error)}};
  Array required{"error"};
  if (dialect == Dialect::anthropic) {
    properties.set("type", Object{{"const", "error"}});
    properties.set("request_id", Object{{"type", "string"}});
    required = Array{"type", "error", "request_id"};
  }
  return Object{
      {"type", "object"}, {"required", std::move(required)}, {"properties", std::move(properties)}};
}

Value content_of(std::string_view type, Value schema) {
  return Object{{std::string(type), Object{{"schema", std::move(schema)}}}};
}

// `schema` is that of the body.
Value error_response(unsigned status, Value schema) {
  std::string description;
  for (const ErrorRow& row : kErrors) {
    if (row.status != status) continue;
    if (!description.empty()) description += "; ";
    description += std::string(row.code) + ": " + std::string(row.hint);
  }
  Object response{{"description", std::move(description)},
                  {"content", content_of("application/json", std::move(schema))}};
  if (status == 429 || status == 503) {
    Object header{{"description", "Seconds."}, {"schema", Object{{"type", "integer"}}}};
    response.set("headers", Object{{"retry-after", std::move(header)}});
  }
  return response;
}

std::string error_name(unsigned status, Dialect dialect) {
  return (dialect == Dialect::anthropic ? "AnthropicError" : "Error") + std::to_string(status);
}

Object error_responses() {
  Object all;
  for (const unsigned status : all_statuses()) {
    Value openai = error_schema(status, Dialect::openai);
    all.set(error_name(status, Dialect::openai), error_response(status, openai));
    // Errors of HTTP itself come before the route, and so the dialect, is known.
    Value either = one_of({error_schema(status, Dialect::anthropic), std::move(openai)});
    all.set(error_name(status, Dialect::anthropic), error_response(status, std::move(either)));
  }
  return all;
}

// ---- routes

std::string_view text_of(const Value& route, std::string_view key) {
  const Value* text = route.find(key);
  return text == nullptr ? std::string_view() : *text->if_string();
}

// All answers of a route: 200 with its schemas, and each error. 404 needs something to be missing:
// an id in the path, or the model that a body names. 504 comes only where answers are made.
Object answers_of(const Value& route, bool has_id) {
  Object answers;
  const std::string_view answer = text_of(route, "answer");
  const std::string_view plain = text_of(route, "content_type");
  const std::string_view events = text_of(route, "events");
  if (!answer.empty() || !plain.empty()) {
    Value content = answer.empty() ? content_of(plain, Object{{"type", "string"}})
                                   : content_of("application/json", ref(answer));
    if (!events.empty()) {
      // The schema of each event.
      const std::string_view last = text_of(route, "last");
      Value data = Object{{"type", "string"},
                          {"contentMediaType", "application/json"},
                          {"contentSchema", one_of({ref(events), ref("StreamError")})}};
      if (!last.empty()) data = one_of({Object{{"const", last}}, std::move(data)});
      Object schema{
          {"type", "object"},
          {"required", Array{"data"}},
          {"properties", Object{{"event", Object{{"type", "string"}}}, {"data", std::move(data)}}}};
      content.if_object()->set("text/event-stream", Object{{"schema", std::move(schema)}});
    }
    answers.set("200", Object{{"description", "As asked."}, {"content", std::move(content)}});
  }
  const bool has_body = route.find("request") != nullptr;
  const auto dialect =
      text_of(route, "dialect") == "anthropic" ? Dialect::anthropic : Dialect::openai;
  for (const unsigned status : all_statuses()) {
    if (status == 404 && !has_id && !has_body && route.find("may_lack") == nullptr) continue;
    if (status == 504 && events.empty()) continue;
    Value response = Object{{"$ref", "#/components/responses/" + error_name(status, dialect)}};
    const std::string_view busy = text_of(route, "busy");
    if (status == 503 && !busy.empty()) {
      response = error_response(status, one_of({ref(busy), error_schema(status, Dialect::openai)}));
    }
    answers.set(std::to_string(status), std::move(response));
  }
  return answers;
}

// Reads one method of a path: `{"id", "summary", "request", "answer", "events", ...}`. The
// parameters of the path are found in it: "/v1/responses/{id}" has one, `id`.
Value operation(const Value& route, std::string_view path) {
  Object out{{"operationId", text_of(route, "id")}, {"summary", text_of(route, "summary")}};
  Array parameters;
  const bool has_id = path.find('{') != std::string_view::npos;
  for (std::size_t open = path.find('{'); open != std::string_view::npos;
       open = path.find('{', open + 1)) {
    parameters.push_back(Object{{"name", path.substr(open + 1, path.find('}', open) - open - 1)},
                                {"in", "path"},
                                {"required", true},
                                {"schema", Object{{"type", "string"}}}});
  }
  if (const Value* more = route.find("parameters")) {
    parameters.insert(parameters.end(), more->if_array()->begin(), more->if_array()->end());
  }
  if (!parameters.empty()) out.set("parameters", std::move(parameters));
  if (const std::string_view request = text_of(route, "request"); !request.empty()) {
    out.set("requestBody",
            Object{{"required", true}, {"content", content_of("application/json", ref(request))}});
  }
  out.set("responses", answers_of(route, has_id));
  return out;
}

Object paths() {
  Object all;
  for (const json::Member& path : part("paths")) {
    Object operations;
    for (const json::Member& route : *path.value.if_object()) {
      operations.set(route.key, operation(route.value, path.key));
    }
    all.set(path.key, std::move(operations));
  }
  return all;
}

}  // namespace

Value openapi(const OpenApiOptions& options) {
  Object bearer{{"type", "http"}, {"scheme", "bearer"}};
  Object key{{"type", "apiKey"}, {"in", "header"}, {"name", "x-api-key"}};
  Value document = Object{
      {"openapi", "3.1.0"},
      {"info", Object{{"title", "Tenon"},
                      {"version", options.version},
                      {"description", *parts().find("description")}}},
      // Three ways, of which the first is "no key at all", for a server without keys.
      {"security", Array{Object(), Object{{"bearer", Array()}}, Object{{"key", Array()}}}},
      {"paths", paths()},
      {"components", Object{{"schemas", schemas(options.models)},
                            {"responses", error_responses()},
                            {"securitySchemes",
                             Object{{"bearer", std::move(bearer)}, {"key", std::move(key)}}}}}};
  resolve(document);
  return document;
}

}  // namespace tenon::api
