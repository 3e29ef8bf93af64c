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

/// What GET /openapi.json answers: the routes, OpenAPI 3.1. The requests' fields are those of the
/// decoders' tables, the errors those of error_table.h; what lies below the fields, and the
/// answers, is openapi.json, in which `{"$ref": "#Name"}` is one of the schemas there and
/// properties that are not required may be null, as everywhere in this API.
[[nodiscard]] json::Value openapi(const OpenApiOptions& options);

}  // namespace tenon::api
