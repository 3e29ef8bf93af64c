#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/schema/schema.h"

namespace tenon::repair {

/// One tool's field that its schema does not say enough of.
struct Rule {
  std::vector<std::string> tools;
  std::string field;
  /// What a required field is that is missing, with `${other}` for fields that are there; "": the
  /// rule says none.
  std::string value;
  std::string log;                   ///< What is logged then, likewise; "": the usual line.
  std::optional<schema::Type> type;  ///< Of the field, where the schema says nothing of it.
  std::vector<std::string> from;     ///< Fields that mean it, where the schema lists no fields.
};

/// What is known of tools and fields whatever their schemas: repair.toml. Immutable; may be shared
/// between threads.
///
///     auto rules = Rules::compile(text, "repair.toml");   // "repair.toml:3:1: ..."
class Rules {
 public:
  /// Fails with Errc::invalid, naming line and key.
  [[nodiscard]] static Expected<std::shared_ptr<const Rules>> compile(std::string_view text,
                                                                      std::string_view source_name);
  /// Those that come with Tenon.
  [[nodiscard]] static const std::shared_ptr<const Rules>& builtin();

  [[nodiscard]] std::vector<const Rule*> of(std::string_view tool) const;
  /// Whether two names of fields are listed as meaning the same, however they are spelt.
  [[nodiscard]] bool are_aliases(std::string_view a, std::string_view b) const;

 private:
  std::vector<std::vector<std::string>> aliases_;  // without_spelling of each
  std::vector<Rule> rules_;
};

/// A name without what models mix up: in small letters, without `-`, `_` and spaces.
[[nodiscard]] std::string without_spelling(std::string_view name);

/// The one of `names` that `name` is a misspelling of: another case, other `-` and `_`. Null: none
/// is, or more than one.
[[nodiscard]] const std::string* misspelt(std::string_view name,
                                          const std::vector<std::string>& names);

}  // namespace tenon::repair
