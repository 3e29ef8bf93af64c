#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tenon/json/value.h"
#include "tenon/message/message.h"

namespace tenon::rlm {

/// What a request asks of a recursive model.
struct Task {
  std::string question;              ///< The last message of the user.
  std::vector<std::string> context;  ///< Its pieces: one is a text to the REPL, more are a list.
  json::Array history;               ///< `[{"role", "content"}]`: what was said before, beside it.
  bool is_question_context = false;  ///< The question is so long that it is part of the context.

  [[nodiscard]] std::size_t context_chars() const;
};

/// Questions of more characters become the context's last piece.
inline constexpr std::size_t kMaxQuestionChars = 32'000;

/// The context is what system and developer messages say; where there are none, all that stands
/// before the last message of the user; and behind that the question, where it is longer than
/// kMaxQuestionChars. What was said before beside it is history.
[[nodiscard]] Task task_of(const std::vector<message::Message>& messages);

/// What a request brings for calls that were made before: the messages behind the last one of the
/// assistant.
struct Results {
  std::vector<const message::Message*> results;  ///< Of tools, in order.
  std::vector<const message::Message*> others;   ///< Of the user.

  /// What the others say.
  [[nodiscard]] std::string said() const;
};
[[nodiscard]] Results results_of(const std::vector<message::Message>& messages);

/// SHA-256 of the pieces and their lengths, in hexadecimal digits.
[[nodiscard]] std::string hash_of(const std::vector<std::string>& pieces);

}  // namespace tenon::rlm
