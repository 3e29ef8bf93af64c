#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/schema/schema.h"

namespace tenon::repair {

/// A field of one tool whose schema does not say enough.
struct Rule {
  std::vector<std::string> tools;
  std::string field;
  /// The value of the field if it is required and missing, with `${other}` for the values of other
  /// fields; "": the rule gives no value.
  std::string value;
  std::string log;  ///< The message in the log then, with the same `${other}`; "": the usual
                    ///< message.
  std::optional<schema::Type> type;  ///< The type of the field, if the schema does not say it.
  std::vector<std::string> from;  ///< Fields with the same meaning, if the schema lists no fields.
};

/// What is known of tools and fields beyond their schemas: repair.toml. Immutable; may be shared
/// between threads.
///
///     auto rules = Rules::compile(text, "repair.toml");   // "repair.toml:3:1: ..."
class Rules {
 public:
  /// Fails with Errc::invalid, naming the line and the key.
  [[nodiscard]] static Expected<std::shared_ptr<const Rules>> compile(std::string_view text,
                                                                      std::string_view source_name);
  /// The rules that come with Tenon.
  [[nodiscard]] static const std::shared_ptr<const Rules>& builtin();

  [[nodiscard]] std::vector<const Rule*> of(std::string_view tool) const;
  /// Whether two field names are listed as having the same meaning, in any spelling.
  [[nodiscard]] bool are_aliases(std::string_view a, std::string_view b) const;

 private:
  std::vector<std::vector<std::string>> aliases_;  // each name after without_spelling
  std::vector<Rule> rules_;
};

/// A name without the differences that models make: in lower case, without `-`, `_` and spaces.
[[nodiscard]] std::string without_spelling(std::string_view name);

/// The one of `names` of which `name` is a misspelling: another case, other `-` and `_`. Null if
/// no name fits, or more than one does.
[[nodiscard]] const std::string* misspelt(std::string_view name,
                                          const std::vector<std::string>& names);

}  // namespace tenon::repair
