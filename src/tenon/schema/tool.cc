#include "tenon/schema/tool.h"

#include <algorithm>
#include <string>
#include <utility>

namespace tenon::schema {
namespace {

Error invalid_tool(std::string_view member, std::string_view what) {
  return Error::at(Errc::invalid, std::string(member), what);
}

}  // namespace

Expected<json::Value> tool_parameters(const json::Value& function) {
  if (function.if_object() == nullptr)
    return Unexpected(invalid_tool("function", "must be an object"));
  json::Value parameters = json::Object{{"type", "object"}, {"properties", json::Object()}};
  if (const json::Value* given = function.find("parameters");
      given != nullptr && !given->is_null()) {
    if (given->if_object() == nullptr)
      return Unexpected(invalid_tool("parameters", "must be an object"));
    parameters = *given;
  }
  const json::Value* const beside = function.find("required");
  if (beside == nullptr || beside->is_null()) return parameters;
  const json::Array* const names = beside->if_array();
  const bool are_strings =
      names != nullptr && std::ranges::all_of(*names, [](const json::Value& name) {
        return name.if_string() != nullptr;
      });
  if (!are_strings) return Unexpected(invalid_tool("required", "must be a list of names"));

  // `[]` adds a null if there is no `required`, so null means both.
  json::Value& inside = (*parameters.if_object())["required"];
  if (inside.is_null()) inside = json::Array();
  json::Array* const all = inside.if_array();
  if (all == nullptr)
    return Unexpected(invalid_tool("parameters/required", "must be a list of names"));
  for (const json::Value& name : *names) {
    if (std::ranges::find(*all, name) == all->end()) all->push_back(name);
  }
  return parameters;
}

}  // namespace tenon::schema
