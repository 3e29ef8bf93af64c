#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tenon/json/value.h"
#include "tenon/message/message.h"

/// Removes parts of a prompt: `context_management` of Messages, `truncation` of Responses.
namespace tenon::api {

/// `clear_tool_uses_20250919` or `clear_thinking_20251015`, with the defaults for values that the
/// request does not name.
struct ContextEdit {
  enum class Kind : std::uint8_t { tool_uses, thinking };
  Kind kind = Kind::tool_uses;
  std::string type;  ///< As the client wrote it.
  /// Uses are cleared only if the prompt has more than `trigger` tokens (or more uses than that).
  std::uint64_t trigger = 100'000;
  bool triggers_by_uses = false;
  /// The newest uses, or turns with reasoning, stay.
  std::uint64_t keep = 3;
  bool keeps_all = false;
  std::uint64_t at_least_tokens = 0;  ///< Nothing is cleared unless that saves so many tokens.
  std::vector<std::string> excluded;  ///< Tools whose results stay.
  bool clears_all_inputs = false;     ///< Also clears the arguments of calls with cleared results.
  std::vector<std::string> input_tools;  ///< The same for calls of these tools.
};

/// How many tokens a request's prompt has.
using CountTokens = std::function<std::uint64_t(const message::ChatRequest& request)>;

/// The estimated tokens of a prompt if there is no tokenizer: a quarter of its bytes.
[[nodiscard]] std::uint64_t guessed_tokens(const message::ChatRequest& request);

/// Leaves the oldest parts of the conversation out, as few as make `fits` true: a part is a
/// message, or a message with calls and their results. Instructions, the last text of the user's
/// and the part that the conversation ends with stay. Returns how many messages were left out; 0
/// also if nothing can help, and then `request` is unchanged. `fits` is called a logarithmic number
/// of times.
[[nodiscard]] std::size_t drop_oldest(
    message::ChatRequest& request,
    const std::function<bool(const message::ChatRequest& request)>& fits);

/// Applies the edits in order: results of tools that are cleared are replaced by a sentence that
/// says so. Returns `applied_edits` for the answer. `count` is called only if an edit depends on it
/// or has changed something.
[[nodiscard]] json::Array apply_edits(const std::vector<ContextEdit>& edits,
                                      message::ChatRequest& request, const CountTokens& count);

}  // namespace tenon::api
