#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/api/error.h"
#include "tenon/json/value.h"

/// Queries of the routes for kept things, and the pages that they ask for.
namespace tenon::api {

struct QueryField {
  std::string name;
  std::string value;
};

/// Reads `a=1&b[]=x`; the brackets of a list are not part of its name. A field that is not in
/// `known` is an error.
[[nodiscard]] Result<std::vector<QueryField>, ApiError> fields_of_query(
    std::string_view query, std::initializer_list<std::string_view> known);

/// The page of `items` that `after`, `limit` and `order` ask for, as a list.
[[nodiscard]] Result<json::Value, ApiError> page_of_items(json::Array items,
                                                          std::string_view query);

/// The key under which the store has what `id` names. A client's id has no '/', so it can never
/// name something of another owner; see is_kept_id().
[[nodiscard]] std::string place_in_store(std::string_view owner, const std::string& id);
[[nodiscard]] bool is_kept_id(const std::string& id);

/// The client learns that the store failed; only the log says why, since that names files.
[[nodiscard]] ApiError store_failed(const Error& error);

}  // namespace tenon::api
