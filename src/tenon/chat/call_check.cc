#include "tenon/chat/call_check.h"

#include <algorithm>

namespace tenon::chat {
namespace {

constexpr std::size_t kMaxViolations = 4;

}  // namespace

const CallCheck::Compiled& CallCheck::compiled(const std::string& tool, const json::Value& schema) {
  const auto found = compiled_.find(tool);
  if (found != compiled_.end()) return found->second;
  return compiled_.emplace(tool, schema::Schema::compile(schema)).first->second;
}

bool CallCheck::can_judge(std::string_view tool) const {
  return std::ranges::find(texts_, tool) == texts_.end();
}

std::unique_ptr<repair::ArgumentMender> CallCheck::mender(const std::string& tool,
                                                          const json::Value& schema) {
  if (rules_ == nullptr || !can_judge(tool)) return nullptr;
  repair::MendedTool mended{.name = tool, .rules = rules_};
  if (!schema.is_null()) {
    const Compiled& known = compiled(tool, schema);
    if (!known) return nullptr;  // fault() tells it
    mended.schema = *known;
    mended.source = &schema;
  }
  return std::make_unique<repair::ArgumentMender>(std::move(mended));
}

std::string CallCheck::fault(const std::string& tool, const json::Value& schema,
                             std::string_view arguments) {
  if (schema.is_null()) return {};
  const std::string call = "the call of '" + tool + "' does not fit its schema: ";
  const Compiled& known = compiled(tool, schema);
  if (!known) return call + known.error().message;
  const auto value = json::parse(arguments);
  if (!value) return call + "its arguments are not JSON";
  const schema::ValidateOptions brief{// the engine's thread waits
                                      .max_violations = kMaxViolations,
                                      .limits = {.max_steps = 1'000'000, .max_depth = 1000}};
  const auto violations = (*known)->validate(*value, brief);
  if (!violations) return call + violations.error().message;
  std::string list;
  for (const schema::Violation& violation : *violations) {
    list += (list.empty() ? "" : "; ") + violation.instance_path + " " + violation.message;
  }
  return list.empty() ? list : call + list;
}

}  // namespace tenon::chat
