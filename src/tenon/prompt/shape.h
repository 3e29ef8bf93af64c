#pragma once

#include <string>
#include <vector>

#include "tenon/json/value.h"

namespace tenon::prompt {

/// Rewrites what templates trip over in `context` (the variables of a chat template: `messages`,
/// ...) and adds a sentence to `log` for each kind of rewriting that was needed. A pure function:
/// the same history always gives the same prompt.
///
/// - `content: null` of a message becomes "", which templates would print as the word None.
/// - `arguments` of a call that are JSON text of an object become that object; other text stays.
void shape(json::Object& context, std::vector<std::string>& log);

}  // namespace tenon::prompt
