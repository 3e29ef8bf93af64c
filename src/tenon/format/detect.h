#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/format/format.h"
#include "tenon/message/message.h"

/// Which format a model writes its calls in, from what can be known of it.
namespace tenon::format {

/// A turn with calls as a model's own chat template writes it into history.
struct CallSample {
  std::string before;                    ///< The prompt that the turn follows.
  std::string text;                      ///< What the model would have written.
  std::vector<message::ToolCall> calls;  ///< What it means.
};

/// What is known of a model; nothing is needed.
struct Clues {
  std::vector<CallSample> samples;  ///< A single call first; see tenon/prompt/call_probe.h.
  std::string_view chat_template;   ///< Its source.
  /// True for a text that is, or is part of, one of the vocabulary's control tokens.
  std::function<bool(std::string_view)> in_vocabulary;
  /// What the model's own response_template says (response_template.h); null: it has none.
  std::shared_ptr<const Format> imported;
  std::string_view model_name;     ///< As "NousResearch/Hermes-3-Llama-3.1-8B", or a file's.
  bool has_tool_template = false;  ///< It comes with a template of its own for tools.
};

enum class DecidedBy : std::uint8_t {
  nothing,
  call,
  response_template,
  markers,
  vocabulary,
  name,
  tool_template
};

struct Detection {
  std::shared_ptr<const Format> format;  ///< Null: none.
  DecidedBy by = DecidedBy::nothing;
  std::string evidence;  ///< For a person: what decided it.
};

/// The first of these that decides it:
///
/// 1. a call that the template writes: the format whose parser reads it back, the right name and
///    the right arguments. Of several the one that leaves the least of it unread, then the one that
///    reads several calls best, then the one that would write them the same;
/// 2. the model's own response_template, unless the template writes a call that it does not read;
/// 3. markers that the template's source holds, by the rules in the definitions (`[[detect]]`); the
///    rule with most bytes wins. Where the template does write calls, only formats that know the
///    beginning of one are asked;
/// 4. the same markers as control tokens of the vocabulary;
/// 5. the model's name, where a definition lists a part of it; the longest part wins;
/// 6. a template of its own for tools, where a definition asks for no more.
[[nodiscard]] Detection detect(const Clues& clues);

[[nodiscard]] std::string_view name_of(DecidedBy by);

/// The calls of `sample` as the format's parser reads them, their arguments to the byte; nothing if
/// they are others, or if there is anything else but white space.
[[nodiscard]] std::optional<std::vector<message::ToolCall>> read_back(
    const std::shared_ptr<const Format>& format, const CallSample& sample);

}  // namespace tenon::format
