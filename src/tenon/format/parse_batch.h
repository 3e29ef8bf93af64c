#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/format/format.h"
#include "tenon/json/value.h"

/// The commands over formats, without the command line: JSON lines in, JSON lines out.
namespace tenon::format {

/// Finds the format of a chat template (prompt::ChatTemplate::detect); null where there is none.
/// Fails where the template does not compile.
using Detector =
    std::function<Expected<std::shared_ptr<const Format>>(std::string_view chat_template)>;

/// `tenon parse --batch`: for each line an object with
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
/// answers `{"message", "finish_reason", "events"?}`, in the manner of json::answer_lines.
void parse_batch(std::istream& in, std::ostream& out, bool events, const Detector& detector);

/// One line of it.
[[nodiscard]] Expected<json::Object> parse_line(const json::Object& request, bool events,
                                                const Detector& detector);

/// Form (c) of `tenon render --batch`: `{"format", "tools"?, "tool_calls"}` to the text of the
/// calls.
[[nodiscard]] Expected<json::Value> render_line(const json::Object& request);

/// What `tenon formats --json` prints: `[{"name", "aliases", "parallel", "summary", ...}]`.
[[nodiscard]] json::Value formats_json();

}  // namespace tenon::format
