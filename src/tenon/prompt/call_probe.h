#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tenon/format/detect.h"
#include "tenon/jinja/template.h"
#include "tenon/message/message.h"
#include "tenon/prompt/capabilities.h"
#include "tenon/prompt/prompt.h"

/// How a chat template writes calls into history: what its model has learnt to write.
namespace tenon::prompt {

/// The turn of an assistant that makes `calls`, without the frame that any turn has. Calls without
/// an id get one. Nothing where the template fails at it, where it shows no calls, or fewer than
/// these, or where the turn is longer than 16 KB. Of `tokens` bos and eos are read. `content`: what
/// it says beside the calls.
[[nodiscard]] std::optional<format::CallSample> write_turn(const jinja::Template& chat_template,
                                                           const Capabilities& capabilities,
                                                           const PromptOptions& tokens,
                                                           std::vector<message::ToolCall> calls,
                                                           std::string_view content = {});

/// Turns by which format::as_written() knows the template's form: two calls, where the template
/// takes two, one, and one with values inside a value.
[[nodiscard]] std::vector<format::CallSample> form_samples(const jinja::Template& chat_template,
                                                           const Capabilities& capabilities,
                                                           const PromptOptions& tokens);

/// What detection reads: a turn with one call, and one with two where the template takes two.
[[nodiscard]] std::vector<format::CallSample> call_samples(const jinja::Template& chat_template,
                                                           const Capabilities& capabilities,
                                                           const PromptOptions& tokens);

}  // namespace tenon::prompt
