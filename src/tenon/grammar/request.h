#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/json_frames.h"
#include "tenon/grammar/relaxed.h"
#include "tenon/grammar/rules.h"
#include "tenon/json/value.h"

namespace tenon::grammar {

/// The grammar of a line of `tenon mask --batch` or `tenon grammar --batch`:
///
///     schema              beside it draft?, documents?, assert_format? as `tenon validate` has,
///                         and what requested_options() reads
///     grammar, syntax     "gbnf", "ebnf", "lark", "regex", "structural_tag"
///
/// `defaults` are used for missing members. Errors name the member. Unknown members are not checked
/// here; the caller uses json::check_members().
[[nodiscard]] Expected<Rules> requested_rules(const json::Object& request,
                                              const JsonOptions& defaults);

/// The members of a line that concern schemas:
///
///     whitespace?         "any", "spaced", "pretty", "compact"
///     property_order?     "any", "schema"
///     lenient?            JsonOptions::lenient
[[nodiscard]] Expected<JsonOptions> requested_options(const json::Object& request,
                                                      JsonOptions defaults);

/// The index in `words` of the string `member`; `otherwise` if it is missing.
[[nodiscard]] Expected<std::size_t> chosen(const json::Object& request, std::string_view member,
                                           std::span<const std::string_view> words,
                                           std::size_t otherwise);
/// The boolean `member`; `otherwise` if it is missing.
[[nodiscard]] Expected<bool> flag(const json::Object& request, std::string_view member,
                                  bool otherwise);

/// The list in an answer's form: [{"schema_path", "keyword", "message"}].
[[nodiscard]] json::Array answer_of(std::vector<Relaxed> relaxed);

}  // namespace tenon::grammar
