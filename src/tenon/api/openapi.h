#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tenon/json/value.h"

namespace tenon::api {

struct OpenApiOptions {
  std::string_view version;
  std::vector<std::string> models;  ///< Every name that a request may have.
};

/// The answer of GET /openapi.json: the routes, as OpenAPI 3.1. The requests' fields come from the
/// decoders' tables, the errors from error_table.h. Everything below the fields, and the answers,
/// are in the file openapi.json, where `{"$ref": "#Name"}` refers to one of its schemas, and
/// properties that are not required may be null, as everywhere in this API.
[[nodiscard]] json::Value openapi(const OpenApiOptions& options);

}  // namespace tenon::api
