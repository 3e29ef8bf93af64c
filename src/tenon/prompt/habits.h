#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tenon/json/value.h"
#include "tenon/prompt/chat_template.h"

/// What an operator wants to know of a chat template before serving the model. It is found by
/// rendering conversations, without the model.
namespace tenon::prompt {

/// A place at which the prompt of a turn stops being the prompt and answer of the turn before it.
/// An engine cannot reuse what it has kept of the earlier turn behind that place.
struct PrefixBreak {
  std::size_t message = 0;  ///< The message, from 0, that the earlier prompt was for.
  std::string was;          ///< The text at that place before, at most 80 bytes.
  std::string is;           ///< The text there once more messages follow.
  /// The lines of the template, from 1, that write the one and the other; 0: unknown, for example
  /// because the history was rewritten or no text stands there.
  std::size_t was_line = 0;
  std::size_t is_line = 0;
};

/// The first break in a conversation of three questions, with calls and reasoning if the template
/// writes them. Empty if every prompt begins with what came before.
[[nodiscard]] std::optional<PrefixBreak> prefix_break(const ChatTemplate& chat_template);

/// A word that makes the template write other text of its own if a message contains it.
struct WordGate {
  std::string word;
  std::string role;  ///< The role of the message.
  std::string adds;  ///< What the template then writes, at most 80 bytes; "": it writes less.
};

/// Tries each string in the template's expressions (at most 512) in a message of the user, of the
/// system and of a tool, among other words and as the whole message. Then it tries the strings of
/// each tag together, with and without spaces between them, because a word may be put together from
/// parts or needed beside another. Only text of the template is compared, never text that it makes
/// from data. Stops after 5 seconds. Words whose parts stand in several tags, or are reversed, are
/// not found.
[[nodiscard]] std::vector<WordGate> word_gates(const ChatTemplate& chat_template);

/// Both, as `tenon inspect` prints them.
[[nodiscard]] json::Object habits_of(const ChatTemplate& chat_template);

}  // namespace tenon::prompt
