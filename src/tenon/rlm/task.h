#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tenon/json/value.h"
#include "tenon/message/message.h"

namespace tenon::rlm {

/// The parts of a request to a recursive model.
struct Task {
  std::string question;              ///< The last message of the user.
  std::vector<std::string> context;  ///< Its pieces: one piece is a text in the REPL, several are a
                                     ///< list.
  json::Array history;  ///< `[{"role", "content"}]`: the earlier messages that are not context.
  bool is_question_context = false;  ///< The question is so long that it is part of the context.
  /// What the context is, where it is no text and no list of texts: "a dict of 2 keys: ...". Its
  /// one piece is JSON then.
  std::string shape{};

  [[nodiscard]] std::size_t context_chars() const;
};

/// A longer question becomes the last piece of the context.
inline constexpr std::size_t kMaxQuestionChars = 32'000;

/// The context is the text of system and developer messages. Without such messages, it is
/// everything before the last message of the user. A question longer than kMaxQuestionChars is
/// added at its end. Earlier messages that are not context are the history. A `context` that is
/// given (not null) takes the place of that in the messages, which are all history then: a text, a
/// list of texts, or any other JSON value.
[[nodiscard]] Task task_of(const std::vector<message::Message>& messages,
                           const json::Value* context = nullptr);

/// What can be said of a value without showing it: its type, its size, and the keys of a dict.
[[nodiscard]] std::string shape_of(const json::Value& value);

/// What a request brings for earlier calls: the messages after the last one of the assistant.
struct Results {
  std::vector<const message::Message*> results;  ///< From tools, in order.
  std::vector<const message::Message*> others;   ///< From the user.

  /// The text of the other messages.
  [[nodiscard]] std::string said() const;
};
[[nodiscard]] Results results_of(const std::vector<message::Message>& messages);

/// SHA-256 of the pieces and their lengths, in hexadecimal digits.
[[nodiscard]] std::string hash_of(const std::vector<std::string>& pieces);

}  // namespace tenon::rlm
