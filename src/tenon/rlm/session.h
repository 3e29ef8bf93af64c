#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"
#include "tenon/message/message.h"
#include "tenon/rlm/repl.h"
#include "tenon/rlm/task.h"

namespace tenon::rlm {

/// A question of a cell, with the answers that it got.
struct AskedRecord {
  std::string hash;  ///< Of kind, model and prompts.
  std::vector<std::string> texts;

  bool operator==(const AskedRecord&) const = default;
};
[[nodiscard]] std::string hash_of(const SubCall& call);

/// A cell that was run, and all that is needed to run it again without asking a model.
struct CellRecord {
  std::string code;
  std::size_t results = 0;  ///< So many tool results were there.
  std::string error;        ///< Of which kind; "": none.
  std::vector<AskedRecord> asked;

  bool operator==(const CellRecord&) const = default;
};

/// What has been spent. Of a run with all of its sub-calls.
struct Spent {
  message::Usage usage;
  std::uint64_t sub_calls = 0;
  double cost = 0;

  bool operator==(const Spent&) const = default;
};

/// One conversation with a recursive model, from its question to its answer, pauses included: all
/// that must be known to go on. Its REPL is no part of what is kept, for it can be made again from
/// `cells`.
struct Session {
  enum class State : std::uint8_t {
    running,
    paused,  ///< `calls` wait for their results.
    over,    ///< `final_text` is the answer.
  };

  std::string id;     ///< Part of the ids of its calls.
  std::string owner;  ///< Whose it is; nobody else finds it.
  std::string model;  ///< Whose it is: its name, or that of the pair.
  std::string root;
  std::string sub;
  std::uint64_t seed = 0;  ///< Of the REPL's `random`.
  State state = State::running;

  Task task;
  std::string context_hash;                ///< "": there is none.
  std::string kept_context;                ///< Of the context that the store has.
  std::vector<message::Message> messages;  ///< With the root model.
  std::vector<CellRecord> cells;           ///< Since the REPL began.
  bool is_replayable = true;               ///< False: `cells` would have been too long.
  std::vector<std::string> tool_results;
  unsigned turns = 0;   ///< Answers that the root model has given.
  unsigned errors = 0;  ///< Turns in a row whose cells failed.
  std::string note;     ///< What the root model must be told with the results.
  Spent spent;

  std::vector<message::ToolCall> calls;  ///< That wait.
  std::vector<std::string> answered;     ///< Ids of those that waited before.
  std::string answered_hash;             ///< Of all that came with their results.
  message::Guarantee guarantee = message::Guarantee::unenforced;  ///< Of `calls`.
  std::string format;
  std::string final_text;
  std::string forced;  ///< The limit at which it was demanded; "": none.
  message::FinishReason reason = message::FinishReason::stop;

  std::unique_ptr<Repl> repl;                          ///< Null: there is none now.
  std::chrono::steady_clock::time_point live_until{};  ///< A REPL that waits for results.
  bool is_stored = false;                              ///< Else it is in memory alone.
  std::shared_ptr<void> claim;                         ///< Of who has it (Host::take).
  std::optional<std::size_t> loaded_results;           ///< Of `tool_results`, those in the REPL.
};

/// All but context and REPL, as JSON; and back. `read_session` fails with Errc::invalid where it is
/// no session of this version.
[[nodiscard]] std::string write_session(const Session& session);
[[nodiscard]] Expected<std::unique_ptr<Session>> read_session(std::string_view text);

/// An id that nobody can guess, and ids of calls that name their session.
[[nodiscard]] std::string new_session_id();
[[nodiscard]] std::string new_call_id(std::string_view prefix, std::string_view session);
/// "": it is none of ours.
[[nodiscard]] std::string session_of_call(std::string_view call_id);

}  // namespace tenon::rlm
