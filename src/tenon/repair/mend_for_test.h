#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/json/value.h"
#include "tenon/repair/mender.h"
#include "tenon/schema/schema.h"

namespace tenon::repair {

/// A tool with its schema; null: it has no schema.
class ToolForTest {
 public:
  ToolForTest(std::string_view name, json::Value schema) : source_(std::move(schema)) {
    tool_.name = name;
    if (source_.is_null()) return;
    tool_.schema = *schema::Schema::compile(source_);
    tool_.source = &source_;
  }
  ToolForTest(std::string_view name, std::string_view schema)
      : ToolForTest(name, *json::parse(schema)) {}
  ToolForTest(const ToolForTest&) = delete;
  ToolForTest& operator=(const ToolForTest&) = delete;
  ~ToolForTest() = default;

  [[nodiscard]] const MendedTool& get() const { return tool_; }
  [[nodiscard]] const schema::Schema& schema() const { return *tool_.schema; }

 private:
  const json::Value source_;
  MendedTool tool_;
};

struct Mended {
  std::string text;
  std::vector<std::string> repairs;  // kind path: message

  bool operator==(const Mended&) const = default;
};

/// `arguments` after repair, fed in pieces of `size` bytes.
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
  return mend(ToolForTest(name, schema).get(), arguments, size);
}

}  // namespace tenon::repair
