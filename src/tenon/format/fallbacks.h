#pragma once

#include <cstdint>
#include <memory>

#include "tenon/format/format.h"

/// Calls in other forms than the model's own (docs/formats.md, "Calls in other forms").
namespace tenon::format {

/// Which other forms are tried for calls that are not in the model's own form.
enum class Fallbacks : std::uint8_t { none, all };

/// How an answer is read: `free` as it comes, `held` as one that tool_grammar() of the same format
/// constrained.
enum class AnswerMode : std::uint8_t { free, held };

/// `own`, whose parser and grammar also accept calls in the forms of formats whose definitions have
/// a `fallback_order`; its own form comes first, then the others in that order. Once an earlier
/// form has claimed a call, later ones are off, and in reasoning all are off. The text before a
/// call decides whether it may begin there (lead.h). After a call, the end marker of any of these
/// forms is not content, whichever form began the call ("stray_marker"); any other marker that
/// belongs to no call stays content ("leaked_marker"). Rendering and description use the format's
/// own form only.
///
/// `held`: only beginnings decide, because a grammar knows only beginnings: the name comes before
/// the arguments, and a call is certain with its name. Formats whose text is in frames
/// (content.open, prompt_end) then have their own form only.
[[nodiscard]] std::shared_ptr<const Format> with_fallbacks(const Format& own,
                                                           Fallbacks which = Fallbacks::all,
                                                           AnswerMode mode = AnswerMode::free);

}  // namespace tenon::format
