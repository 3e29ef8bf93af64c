#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tenon/json/value.h"
#include "tenon/message/message.h"

/// What a Messages request's `context_management` takes out of its prompt.
namespace tenon::api {

/// `clear_tool_uses_20250919` or `clear_thinking_20251015`, with the values that hold where the
/// request names none.
struct ContextEdit {
  enum class Kind : std::uint8_t { tool_uses, thinking };
  Kind kind = Kind::tool_uses;
  std::string type;  ///< As the client wrote it.
  /// Tool uses go only from a prompt of more than `trigger` tokens, or with more than so many uses.
  std::uint64_t trigger = 100'000;
  bool triggers_by_uses = false;
  /// The newest uses, or turns with thinking, stay.
  std::uint64_t keep = 3;
  bool keeps_all = false;
  std::uint64_t at_least_tokens = 0;     ///< Nothing goes unless so many tokens do.
  std::vector<std::string> excluded;     ///< Tools whose results stay.
  bool clears_all_inputs = false;        ///< The arguments of calls whose results go, go too.
  std::vector<std::string> input_tools;  ///< The same for calls of these tools.
};

/// How many tokens a request's prompt has.
using CountTokens = std::function<std::uint64_t(const message::ChatRequest& request)>;

/// Tokens of a prompt, where no tokenizer is here to count them: a quarter of its bytes.
[[nodiscard]] std::uint64_t guessed_tokens(const message::ChatRequest& request);

/// Carries the edits out, in their order: results of tools that go are replaced by a sentence that
/// says so. Gives `applied_edits` as the answer tells them. `count` is asked only where an edit
/// depends on it, or has done something.
[[nodiscard]] json::Array apply_edits(const std::vector<ContextEdit>& edits,
                                      message::ChatRequest& request, const CountTokens& count);

}  // namespace tenon::api
