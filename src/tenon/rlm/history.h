#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tenon/message/message.h"

/// How the conversation with a root model is made shorter. The first two messages, what the model
/// is told about its abilities and the question, always stay. After them come turns: a message of
/// the assistant, and what it was told about it. What older turns were summed up to stands before
/// the first turn that is left, as a turn of its own.
///
///     if (const auto end = end_of_old_turns(messages)) {
///       ... ask the model for a summary of the messages before *end ...
///       put_summary(messages, *end, summary, variables);
///     }
namespace tenon::rlm {

/// The bytes of all texts and calls.
[[nodiscard]] std::size_t size_of(const std::vector<message::Message>& messages);

/// Cuts the texts of turns to their first `most` characters, those of the last turn to `most_last`,
/// and drops reasoning. A text that is cut again tells the sum of what is missing. False: nothing
/// was longer.
bool cut_turns(std::vector<message::Message>& messages, std::size_t most, std::size_t most_last);

/// Where the last turn begins; nullopt: no turn is before it, except a summary.
[[nodiscard]] std::optional<std::size_t> end_of_old_turns(
    const std::vector<message::Message>& messages);

/// Whether turns before the last one are a fifth of the conversation: fewer are not worth a
/// summary.
[[nodiscard]] bool are_old_turns_long(const std::vector<message::Message>& messages);

/// What a model is asked so that it sums up the conversation. `variables` is the text of
/// variables_text().
[[nodiscard]] std::string summary_question(std::size_t max_words, const std::string& variables);

/// Puts the summary in the place of the turns before `end`.
void put_summary(std::vector<message::Message>& messages, std::size_t end, std::string summary,
                 const std::string& variables);

/// Leaves out the older half of the turns, but no summary. False: there is one turn, or none.
bool drop_oldest(std::vector<message::Message>& messages);

/// Leaves out all turns, and at the next call the summary, but not the last message. False: nothing
/// of that is there.
bool drop_turns(std::vector<message::Message>& messages);

}  // namespace tenon::rlm
