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
  /// The lines of the template, from 1, that write the one and the other; 0: not known, as where
  /// the history was rewritten or nothing stands there.
  std::size_t was_line = 0;
  std::size_t is_line = 0;
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
/// system and of a tool; then the strings of each tag together, with and without spaces between
/// them, for words that are put together from parts or needed beside each other. Only the
/// template's own text is compared, never what it makes of data. Stops after 5 seconds. A word
/// whose parts stand in several tags, or are turned round, is not found.
[[nodiscard]] std::vector<WordGate> word_gates(const ChatTemplate& chat_template);

/// Both, as `tenon inspect` prints them.
[[nodiscard]] json::Object habits_of(const ChatTemplate& chat_template);

}  // namespace tenon::prompt
