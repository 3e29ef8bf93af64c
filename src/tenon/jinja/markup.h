#pragma once

#include "tenon/jinja/runtime.h"

/// Text as HTML and as ASCII.
namespace tenon::jinja {

/// The value's text with &, <, > and quotes as HTML has them, marked as safe. What is marked
/// already stays as it is, unless `force` is set.
[[nodiscard]] Value escaped(Runtime& rt, const Value& value, bool force = false);
/// Removes runs of tags and comments; the text that is left is separated by single spaces.
[[nodiscard]] Value without_tags(Runtime& rt, const Value& value);
/// html.unescape(string)
[[nodiscard]] Value unescape_html(TextBuffer& out, const Value& string);
/// Python's ascii(value): its repr, with escapes for what is not ASCII.
[[nodiscard]] Value ascii(Runtime& rt, const Value& value);

}  // namespace tenon::jinja
