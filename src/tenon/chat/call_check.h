#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"
#include "tenon/repair/mender.h"
#include "tenon/repair/rules.h"
#include "tenon/schema/schema.h"

namespace tenon::chat {

/// Mends and judges the calls of one answer by their tools' schemas. Of one thread; a schema is
/// compiled when its tool is first called. A null schema says nothing of a tool's arguments.
class CallCheck {
 public:
  /// `rules` null: nothing is mended. `texts` are tools that take a text of a grammar, of which
  /// this knows nothing.
  CallCheck(std::shared_ptr<const repair::Rules> rules, std::vector<std::string> texts)
      : rules_(std::move(rules)), texts_(std::move(texts)) {}

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
  using Compiled = Expected<std::shared_ptr<const schema::Schema>>;

  [[nodiscard]] const Compiled& compiled(const std::string& tool, const json::Value& schema);

  const std::shared_ptr<const repair::Rules> rules_;
  const std::vector<std::string> texts_;
  std::map<std::string, Compiled> compiled_;  // by tool
};

}  // namespace tenon::chat
