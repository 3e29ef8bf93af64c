#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/json/value.h"
#include "tenon/repair/argument_repairer.h"
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

  [[nodiscard]] const RepairedTool& get() const { return tool_; }
  [[nodiscard]] const schema::Schema& schema() const { return *tool_.schema; }

 private:
  const json::Value source_;
  RepairedTool tool_;
};

struct Repaired {
  std::string text;
  std::vector<std::string> repairs;  // kind path: message

  bool operator==(const Repaired&) const = default;
};

/// `arguments` after repair, fed in pieces of `size` bytes.
inline Repaired repair_arguments(const RepairedTool& tool, std::string_view arguments,
                                 std::size_t size) {
  ArgumentRepairer repairer(tool);
  Repaired repaired;
  for (std::size_t at = 0; at < arguments.size(); at += size) {
    repairer.feed(arguments.substr(at, size), repaired.text);
  }
  repairer.finish(false, repaired.text);
  for (const Repair& repair : repairer.repairs()) {
    repaired.repairs.push_back(repair.kind + " " + repair.path + ": " + repair.message);
  }
  return repaired;
}

inline Repaired repair_arguments(std::string_view name, std::string_view schema,
                                 std::string_view arguments, std::size_t size) {
  return repair_arguments(ToolForTest(name, schema).get(), arguments, size);
}

}  // namespace tenon::repair
