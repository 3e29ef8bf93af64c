#include "tenon/schema/schema.h"

#include <memory>

#include "tenon/batch/validate.h"
#include "tenon/capi/handle.h"

struct tenon_schema {
  std::shared_ptr<const tenon::schema::Schema> schema;
};

namespace batch = tenon::batch;
namespace capi = tenon::capi;
namespace schema = tenon::schema;
using tenon::Status;
using tenon::Unexpected;

tenon_error* tenon_schema_compile(tenon_text source, tenon_text options, tenon_schema** compiled) {
  capi::clear(compiled);
  return capi::guarded({{compiled, "compiled"}}, [&]() -> Status {
    const auto members =
        capi::object_in(options, "options", {"draft", "documents", "assert_format"});
    if (!members) return Unexpected(members.error());
    const auto given = batch::compile_options_of(*members);
    if (!given) return Unexpected(given.error());
    const auto value = capi::json_in(source, "schema");
    if (!value) return Unexpected(value.error());
    auto made = schema::Schema::compile(*value, *given);
    if (!made) return Unexpected(made.error());
    *compiled = new tenon_schema{*std::move(made)};
    return {};
  });
}

void tenon_schema_free(tenon_schema* schema) {
  delete schema;
}

// `[]` if the instance is valid.
tenon_error* tenon_schema_validate(const tenon_schema* schema, tenon_text instance,
                                   tenon_string** violations) {
  capi::clear(violations);
  return capi::guarded({{schema, "schema"}, {violations, "violations"}}, [&]() -> Status {
    const auto value = capi::json_in(instance, "instance");
    if (!value) return Unexpected(value.error());
    const auto found = schema->schema->validate(*value);
    if (!found) return Unexpected(found.error());
    *violations = capi::new_string(tenon::json::to_string(batch::violations_json(*found)));
    return {};
  });
}

tenon_error* tenon_schema_is_valid(const tenon_schema* schema, tenon_text instance, int* is_valid) {
  capi::clear(is_valid);
  return capi::guarded({{schema, "schema"}, {is_valid, "is_valid"}}, [&]() -> Status {
    const auto value = capi::json_in(instance, "instance");
    if (!value) return Unexpected(value.error());
    const auto verdict = schema->schema->is_valid(*value);
    if (!verdict) return Unexpected(verdict.error());
    *is_valid = *verdict ? 1 : 0;
    return {};
  });
}
