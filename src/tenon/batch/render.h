#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"

namespace tenon::batch {

struct RenderBatchOptions {
  bool spans = false;         ///< Answers have `spans`, too.
  std::string template_name;  ///< The template's name in errors; "": they begin with the line.
};

/// `tenon render --batch`, in the manner of json::answer_lines. A line holds
///
///     template, context, options?: {trim_blocks, lstrip_blocks}, shape?  plain Jinja
///     template, messages, tools?, documents?, add_generation_prompt?,
///               bos_token?, eos_token?, kwargs?, options?, shape?,
///               clean_up?                                               as transformers renders it
///     format, tools, tool_calls                                         see render_calls_line()
///
/// With `clean_up`, messages are first changed as transformers 5 changes them: keys with null are
/// removed, and reasoning gets both names, `reasoning_content` and `thinking`. A line with a
/// template may also have `now` (ISO 8601); other members are refused. The answer is `{"output"}`,
/// with `spans` if they are asked for, `shaping` if history was rewritten, and `ids` if ids of
/// calls were rewritten: each of the client's with the one that the model reads.
void render_batch(std::istream& in, std::ostream& out, const RenderBatchOptions& options = {});

/// Answers one line.
[[nodiscard]] Expected<json::Object> render_line(const json::Object& request,
                                                 const RenderBatchOptions& options = {});

/// Seconds since 1970 of "2026-11-20" or "2026-11-20T12:00:00"; a fraction, Z and +hh:mm may
/// follow.
[[nodiscard]] Expected<std::int64_t> parse_iso_time(std::string_view text);

}  // namespace tenon::batch
