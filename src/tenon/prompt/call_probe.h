#pragma once

#include <optional>
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
/// these, or where the turn is longer than 16 KB. Of `tokens` bos and eos are read.
[[nodiscard]] std::optional<format::CallSample> write_turn(const jinja::Template& chat_template,
                                                           const Capabilities& capabilities,
                                                           const PromptOptions& tokens,
                                                           std::vector<message::ToolCall> calls);

/// What detection reads: a turn with one call, and one with two where the template takes two.
[[nodiscard]] std::vector<format::CallSample> call_samples(const jinja::Template& chat_template,
                                                           const Capabilities& capabilities,
                                                           const PromptOptions& tokens);

}  // namespace tenon::prompt
