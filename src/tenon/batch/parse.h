#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"

/// The commands for formats, without their command lines: JSON lines in, JSON lines out.
namespace tenon::batch {

/// `tenon parse --batch`: each line is an object with
///
///     text | chunks            the model's output, whole or in pieces (a list of strings)
///     format | template        the format's name, or a chat template to detect it from
///     tools?                   as in Chat Completions; without any, every name is a call's, except
///                              where only the name tells a call from text
///     chunk? | cuts?           bytes per piece, or the byte offsets at which to cut `text`
///     tool_choice?             as in Chat Completions
///     prompt_tail?             end of the prompt, from which an open reasoning section is known
///     truncated?               the output ended by length
///
/// and is answered with `{"message", "finish_reason", "events"?}`, as json::answer_lines does.
void parse_batch(std::istream& in, std::ostream& out, bool events);

/// Answers one line.
[[nodiscard]] Expected<json::Object> parse_line(const json::Object& request, bool events);

/// Form (c) of `tenon render --batch`: from `{"format", "tools"?, "tool_calls"}` to the text of the
/// calls.
[[nodiscard]] Expected<json::Value> render_calls_line(const json::Object& request);

/// The output of `tenon formats --json`: `[{"name", "aliases", "parallel", "summary", ...}]`.
[[nodiscard]] json::Value formats_json();

}  // namespace tenon::batch
