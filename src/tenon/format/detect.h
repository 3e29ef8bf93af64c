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

/// Finds the format in which a model writes its calls, from what is known of the model.
namespace tenon::format {

/// A turn with calls, as a model's chat template writes it into history.
struct CallSample {
  std::string before;                    ///< The prompt before the turn.
  std::string text;                      ///< The text that the model would have generated.
  std::vector<message::ToolCall> calls;  ///< The calls in it.
};

/// What is known of a model; every member may be empty.
struct Clues {
  std::vector<CallSample> samples;  ///< The first has a single call; see tenon/prompt/call_probe.h.
  std::string_view chat_template;   ///< The source of the template.
  /// True for a text that is one of the vocabulary's control tokens, or part of one.
  std::function<bool(std::string_view)> in_vocabulary;
  /// The format from the model's own response_template (response_template.h); null if it has none.
  std::shared_ptr<const Format> imported;
  std::string_view model_name;  ///< Such as "NousResearch/Hermes-3-Llama-3.1-8B", or a file name.
  bool has_tool_template = false;  ///< It comes with a separate template for tools.
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
  std::shared_ptr<const Format> format;  ///< Null: not found.
  DecidedBy by = DecidedBy::nothing;
  std::string evidence;  ///< What decided it, for a person.
};

/// The first of these that decides:
///
/// 1. a call that the template writes: the format whose parser reads it back with the correct name
///    and arguments. Among several formats: the one that leaves the least text unread, then the one
///    that reads several calls best, then the one that would write them in the same way;
/// 2. the model's own response_template, unless the template writes a call that it does not read;
/// 3. markers in the template's source, by the rules of the definitions (`[[detect]]`); the rule
///    with the most bytes wins. If the template writes calls, only formats that know how one begins
///    are considered;
/// 4. the same markers as control tokens of the vocabulary;
/// 5. the model's name, if a definition lists a part of it; the longest part wins;
/// 6. a separate template for tools, if a definition asks for no more.
[[nodiscard]] Detection detect(const Clues& clues);

[[nodiscard]] std::string_view name_of(DecidedBy by);

/// The calls of `sample` as the format's parser reads them, with exact arguments. Nothing if they
/// differ, or if there is other text than white space.
[[nodiscard]] std::optional<std::vector<message::ToolCall>> read_back(
    const std::shared_ptr<const Format>& format, const CallSample& sample);

}  // namespace tenon::format
