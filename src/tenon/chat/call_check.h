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
#include "tenon/repair/mender.h"
#include "tenon/repair/rules.h"
#include "tenon/schema/schema.h"

namespace tenon::chat {

/// Where the JSON `text` breaks `schema`: its first few violations, or that it is no JSON. "": it
/// fits.
[[nodiscard]] std::string fault_of(std::string_view text, const schema::Schema& schema);

/// Schemas that requests have in common, compiled once. Holds what was asked for lately, of
/// kMaxBytes of JSON text together. Thread-safe.
class CompiledSchemas {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 10U;
  using Compiled = std::shared_ptr<const Expected<std::shared_ptr<const schema::Schema>>>;

  [[nodiscard]] Compiled of(const json::Value& schema);

 private:
  using Known = std::unordered_map<std::string, Compiled>;  // by their text

  std::mutex mutex_;
  Known known_;
  std::size_t bytes_ = 0;
};

/// Mends and judges the calls of one answer by their tools' schemas. Of one thread; a schema is
/// compiled when its tool is first called. A null schema says nothing of a tool's arguments.
class CallCheck {
 public:
  /// `rules` null: nothing is mended. `texts` are tools that take a text of a grammar, of which
  /// this knows nothing.
  CallCheck(std::shared_ptr<const repair::Rules> rules, std::vector<std::string> texts,
            std::shared_ptr<CompiledSchemas> schemas)
      : rules_(std::move(rules)), texts_(std::move(texts)), schemas_(std::move(schemas)) {}

  /// Whether fault() knows all that a call of `tool` is held to.
  [[nodiscard]] bool can_judge(std::string_view tool) const;
  /// For one call of `tool`; `schema` outlives it. Null: its arguments stay as they are.
  [[nodiscard]] std::unique_ptr<repair::ArgumentMender> mender(const std::string& tool,
                                                               const json::Value& schema);
  /// How the arguments break the tool's schema: a sentence with the first few violations. "": they
  /// fit.
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
