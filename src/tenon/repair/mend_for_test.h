#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tenon/json/value.h"
#include "tenon/repair/mender.h"
#include "tenon/schema/schema.h"

namespace tenon::repair {

/// `schema` null: the tool has none.
inline MendedTool tool_of(std::string_view name, std::string_view schema) {
  MendedTool tool{.name = std::string(name), .source = *json::parse(schema)};
  if (!tool.source.is_null()) tool.schema = *schema::Schema::compile(tool.source);
  return tool;
}

struct Mended {
  std::string text;
  std::vector<std::string> repairs;  // kind path: message

  bool operator==(const Mended&) const = default;
};

/// `arguments` as they are after mending, fed in pieces of `size` bytes.
inline Mended mend(const MendedTool& tool, std::string_view arguments, std::size_t size) {
  ArgumentMender mender(tool);
  Mended mended;
  for (std::size_t at = 0; at < arguments.size(); at += size) {
    mender.feed(arguments.substr(at, size), mended.text);
  }
  mender.finish(false, mended.text);
  for (const Repair& repair : mender.repairs()) {
    mended.repairs.push_back(repair.kind + " " + repair.path + ": " + repair.message);
  }
  return mended;
}

inline Mended mend(std::string_view name, std::string_view schema, std::string_view arguments,
                   std::size_t size) {
  return mend(tool_of(name, schema), arguments, size);
}

}  // namespace tenon::repair
