#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"

namespace tenon::prompt {

/// Answers a line that renders tool calls in a format (`format`, `tools`, `tool_calls`): the layers
/// above know formats.
using RenderCalls = std::function<Expected<json::Value>(const json::Object& request)>;

struct RenderBatchOptions {
  bool spans = false;         ///< Answers hold `spans`, too.
  std::string template_name;  ///< What errors call the template; "": they begin with the line.
  RenderCalls render_calls;   ///< Empty: such lines are refused as unsupported.
};

/// `tenon render --batch`, in the manner of json::answer_lines. A line holds
///
///     template, context, options?: {trim_blocks, lstrip_blocks}, shape?  plain Jinja
///     template, messages, tools?, documents?, add_generation_prompt?,
///               bos_token?, eos_token?, kwargs?, options?, shape?,
///               clean_up?                                               as transformers renders it
///     format, tools, tool_calls                                         see RenderCalls
///
/// With `clean_up` messages are first made what transformers 5 makes of them: keys that are null
/// go, and reasoning has the names `reasoning_content` and `thinking`, whichever it came under.
/// And, with a template, `now?` (ISO 8601); other members are refused. The answer is `{"output"}`,
/// with `spans` where they are asked for, `shaping` where history was rewritten, and `ids` where
/// ids of calls were: the client's, each with the one that the model reads.
void render_batch(std::istream& in, std::ostream& out, const RenderBatchOptions& options = {});

/// One line of it.
[[nodiscard]] Expected<json::Object> render_line(const json::Object& request,
                                                 const RenderBatchOptions& options = {});

/// Seconds since 1970 of "2026-11-20", "2026-11-20T12:00:00", with fraction, Z or +hh:mm if there.
[[nodiscard]] Expected<std::int64_t> parse_iso_time(std::string_view text);

}  // namespace tenon::prompt
