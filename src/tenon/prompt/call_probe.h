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

/// The text of an assistant's turn with `calls` as the template writes it, without the frame that
/// every turn has. Calls without an id get one. `content` is the text beside the calls, and from
/// `tokens` only bos and eos are read. Empty if the template fails, if it writes fewer calls than
/// these, or if the turn is longer than 16 KB.
[[nodiscard]] std::optional<format::CallSample> write_turn(const jinja::Template& chat_template,
                                                           const Capabilities& capabilities,
                                                           const PromptOptions& tokens,
                                                           std::vector<message::ToolCall> calls,
                                                           std::string_view content = {});

/// The turns from which format::as_written() learns the template's form: one with two calls (if the
/// template writes two), one with one call, and one whose arguments hold values inside a value.
[[nodiscard]] std::vector<format::CallSample> form_samples(const jinja::Template& chat_template,
                                                           const Capabilities& capabilities,
                                                           const PromptOptions& tokens);

/// The turns that detection reads: one with one call, and one with two if the template writes two.
[[nodiscard]] std::vector<format::CallSample> call_samples(const jinja::Template& chat_template,
                                                           const Capabilities& capabilities,
                                                           const PromptOptions& tokens);

}  // namespace tenon::prompt
