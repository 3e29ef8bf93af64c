#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/json/json_frames.h"
#include "tenon/grammar/machine/relaxed.h"
#include "tenon/grammar/rules/rules.h"
#include "tenon/json/value.h"

namespace tenon::batch {

/// The grammar of a line of `tenon mask --batch` or `tenon grammar --batch`:
///
///     schema              beside it draft?, documents?, assert_format? as `tenon validate` has,
///                         and what requested_options() reads
///     grammar, syntax     "gbnf", "ebnf", "lark", "regex", "structural_tag"
///
/// `defaults` are used for missing members. Errors name the member. Unknown members are not checked
/// here; the caller uses json::check_members().
[[nodiscard]] Expected<grammar::Rules> requested_rules(const json::Object& request,
                                                       const grammar::JsonOptions& defaults);

/// The members of a line that concern schemas:
///
///     whitespace?         "any", "spaced", "pretty", "compact"
///     property_order?     "any", "schema"
///     lenient?            JsonOptions::lenient
[[nodiscard]] Expected<grammar::JsonOptions> requested_options(const json::Object& request,
                                                               grammar::JsonOptions defaults);

/// The list in an answer's form: [{"schema_path", "keyword", "message"}].
[[nodiscard]] json::Array answer_of(std::vector<grammar::Relaxed> relaxed);

}  // namespace tenon::batch
