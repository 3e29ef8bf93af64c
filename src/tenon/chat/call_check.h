#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"
#include "tenon/repair/argument_repairer.h"
#include "tenon/repair/rules.h"
#include "tenon/schema/schema.h"

namespace tenon::chat {

/// The first few violations of `schema` in the JSON `text`, or that it is not JSON. "": it is
/// valid.
[[nodiscard]] std::string fault_of(std::string_view text, const schema::Schema& schema);

/// Schemas that requests have in common, compiled once. Keeps the latest ones, with at most
/// kMaxBytes of JSON text together. Thread-safe.
class CompiledSchemas {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 10U;
  using Compiled = std::shared_ptr<const Expected<std::shared_ptr<const schema::Schema>>>;

  [[nodiscard]] Compiled of(const json::Value& schema);

 private:
  using Known = std::unordered_map<std::string, Compiled>;  // by their JSON text

  std::mutex mutex_;
  Known known_;
  std::size_t bytes_ = 0;
};

/// Repairs and validates the calls of one answer by their tools' schemas. For one thread; a schema
/// is compiled when its tool is first called. A null schema allows any arguments.
class CallCheck {
 public:
  /// `rules` null: nothing is repaired. `texts` are the tools whose input is a text in a grammar,
  /// which this class cannot check.
  CallCheck(std::shared_ptr<const repair::Rules> rules, std::vector<std::string> texts,
            std::shared_ptr<CompiledSchemas> schemas)
      : rules_(std::move(rules)), texts_(std::move(texts)), schemas_(std::move(schemas)) {}

  /// Whether fault() checks everything that a call of `tool` must satisfy.
  [[nodiscard]] bool can_judge(std::string_view tool) const;
  /// For one call of `tool`; `schema` must outlive it. Null: its arguments stay as they are.
  [[nodiscard]] std::unique_ptr<repair::ArgumentRepairer> repairer(const std::string& tool,
                                                                   const json::Value& schema);
  /// A sentence with the first few violations of the tool's schema in the arguments. "": they are
  /// valid.
  [[nodiscard]] std::string fault(const std::string& tool, const json::Value& schema,
                                  std::string_view arguments);

 private:
  [[nodiscard]] const Expected<std::shared_ptr<const schema::Schema>>& compiled(
      const std::string& tool, const json::Value& schema);

  const std::shared_ptr<const repair::Rules> rules_;
  const std::vector<std::string> texts_;
  const std::shared_ptr<CompiledSchemas> schemas_;
  std::map<std::string, CompiledSchemas::Compiled> compiled_;  // by tool
};

}  // namespace tenon::chat
