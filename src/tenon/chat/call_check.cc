#include "tenon/chat/call_check.h"

#include <algorithm>

namespace tenon::chat {
namespace {

constexpr std::size_t kMaxViolations = 4;

}  // namespace

std::string fault_of(std::string_view text, const schema::Schema& schema) {
  const auto value = json::parse(text);
  if (!value) return "it is not JSON";
  const schema::ValidateOptions brief{// small limits, since the engine's thread waits
                                      .max_violations = kMaxViolations,
                                      .limits = {.max_steps = 1'000'000, .max_depth = 1000}};
  const auto violations = schema.validate(*value, brief);
  if (!violations) return violations.error().message;
  std::string list;
  for (const schema::Violation& violation : *violations) {
    const std::string& path = violation.instance_path;
    list +=
        (list.empty() ? "" : "; ") + (path.empty() ? "the value" : path) + " " + violation.message;
  }
  return list;
}

CompiledSchemas::Compiled CompiledSchemas::of(const json::Value& schema) {
  std::string text = json::to_string(schema);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(text); found != known_.end()) return found->second;
  }
  // Without the lock, since it may take long. If two threads compile the same schema, the first one
  // to finish is kept.
  auto compiled = std::make_shared<const Expected<std::shared_ptr<const schema::Schema>>>(
      schema::Schema::compile(schema));
  if (text.size() > kMaxBytes) return compiled;
  Known gone;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  // All are dropped at once: a server has few sets of tools, and those in use come back soon.
  if (bytes_ + text.size() > kMaxBytes) {
    gone.swap(known_);
    bytes_ = 0;
  }
  const std::size_t bytes = text.size();
  const auto [entry, is_new] = known_.try_emplace(std::move(text), std::move(compiled));
  bytes_ += is_new ? bytes : 0;
  return entry->second;
}

const Expected<std::shared_ptr<const schema::Schema>>& CallCheck::compiled(
    const std::string& tool, const json::Value& schema) {
  CompiledSchemas::Compiled& known = compiled_[tool];
  if (known == nullptr) known = schemas_->of(schema);
  return *known;
}

bool CallCheck::can_judge(std::string_view tool) const {
  return std::ranges::find(texts_, tool) == texts_.end();
}

std::unique_ptr<repair::ArgumentRepairer> CallCheck::repairer(const std::string& tool,
                                                              const json::Value& schema) {
  if (rules_ == nullptr || !can_judge(tool)) return nullptr;
  repair::RepairedTool repaired{.name = tool, .rules = rules_};
  if (!schema.is_null()) {
    const auto& known = compiled(tool, schema);
    if (!known) return nullptr;  // fault() reports it
    repaired.schema = *known;
    repaired.source = &schema;
  }
  return std::make_unique<repair::ArgumentRepairer>(std::move(repaired));
}

std::string CallCheck::fault(const std::string& tool, const json::Value& schema,
                             std::string_view arguments) {
  if (schema.is_null()) return {};
  const std::string call = "the call of '" + tool + "' does not fit its schema: ";
  const auto& known = compiled(tool, schema);
  if (!known) return call + known.error().message;
  std::string fault = fault_of(arguments, **known);
  return fault.empty() ? fault : call + fault;
}

}  // namespace tenon::chat
