#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tenon/json/value.h"
#include "tenon/prompt/chat_template.h"

/// What a chat template does that those who serve a model want to know before they do: found by
/// rendering conversations, without the model.
namespace tenon::prompt {

/// Where the prompt of a turn does not begin with the prompt and the answer of the turn before it:
/// from there on nothing that an engine has kept of that turn can be used again.
struct PrefixBreak {
  std::size_t message = 0;  ///< The message, from 0, that the earlier prompt was for.
  std::string was;          ///< What stood there, as far as 80 bytes.
  std::string is;           ///< And what stands there once more messages follow.
};

/// The first break in a conversation of three questions, with calls and reasoning where the
/// template takes them; nothing: every prompt begins with what came before.
[[nodiscard]] std::optional<PrefixBreak> prefix_break(const ChatTemplate& chat_template);

/// The template writes other text of its own where a message has this word in it.
struct WordGate {
  std::string word;
  std::string role;  ///< The role of the message.
  std::string adds;  ///< What the template then writes, as far as 80 bytes; "": it writes less.
};

/// Tries each string in the template's expressions, 512 at most, in a message of the user, of the
/// system and of a tool. Only the template's own text is compared, never what it makes of data. A
/// word that is put together from parts, or that needs other words beside it, is not found.
[[nodiscard]] std::vector<WordGate> word_gates(const ChatTemplate& chat_template);

/// Both, as `tenon inspect` prints them.
[[nodiscard]] json::Object habits_of(const ChatTemplate& chat_template);

}  // namespace tenon::prompt
