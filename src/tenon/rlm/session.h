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

/// A question of a cell, with its answers.
struct AskedRecord {
  std::string hash;  ///< A hash of kind, model and prompts.
  std::vector<std::string> texts;

  bool operator==(const AskedRecord&) const = default;
};
[[nodiscard]] std::string hash_of(const SubCall& call);

/// A cell that was run, with all that is needed to run it again without asking a model.
struct CellRecord {
  std::string code;
  std::size_t results = 0;  ///< The number of tool results at that time.
  std::string error;        ///< The kind of its error; "": no error.
  std::vector<AskedRecord> asked;

  bool operator==(const CellRecord&) const = default;
};

/// What a run has taken with all its sub-calls and children.
struct RunFacts {
  message::Usage usage;
  std::uint64_t sub_calls = 0;
  double cost = 0;

  RunFacts& operator+=(const RunFacts& other);
  bool operator==(const RunFacts&) const = default;
};

/// One conversation with a recursive model, from its question to its answer, pauses included:
/// everything that is needed to go on. The REPL is not stored, because it can be made again from
/// `cells`.
struct Session {
  enum class State : std::uint8_t {
    running,
    paused,  ///< `calls` wait for their results.
    over,    ///< `final_text` is the answer.
    open,    ///< So it is, and the session waits for another question.
  };

  std::string id;     ///< Part of the ids of its calls.
  std::string owner;  ///< The owner; other owners do not find it.
  std::string model;  ///< The name of its model, or of its pair of models.
  std::string root;
  std::string sub;
  std::uint64_t seed = 0;  ///< For the REPL's `random`.
  State state = State::running;

  Task task;
  std::string context_hash;                ///< "": there is no context.
  std::string kept_context;                ///< The hash of the context that is in the store.
  std::vector<message::Message> messages;  ///< The conversation with the root model.
  std::vector<CellRecord> cells;           ///< Since the REPL was started.
  bool is_replayable = true;               ///< False: `cells` would have become too long.
  std::vector<std::string> tool_results;
  unsigned turns = 0;        ///< The number of outputs of the root model.
  unsigned errors = 0;       ///< Turns in a row whose cells failed.
  unsigned compactions = 0;  ///< How often earlier turns were summed up.
  std::string note;          ///< What to tell the root model together with the results.
  RunFacts spent;            ///< By all requests of the session, since its last question.

  std::vector<message::ToolCall> calls;  ///< The calls that wait for results.
  std::vector<std::string> answered;     ///< The ids of earlier calls that have their results.
  std::string answered_hash;             ///< The hash of all messages that came with those results.
  message::Guarantee guarantee = message::Guarantee::unenforced;  ///< For `calls`.
  std::string format;
  std::string final_text;
  std::string forced;  ///< The limit at which the answer was demanded; "": no limit.
  message::FinishReason reason = message::FinishReason::stop;

  std::unique_ptr<Repl> repl;                          ///< Null: it has none at present.
  std::chrono::steady_clock::time_point live_until{};  ///< How long the REPL waits for results.
  bool is_stored = false;                              ///< Otherwise it is only in memory.
  std::shared_ptr<void> claim;  ///< Held by the request that has taken it (Host::take).
  std::optional<std::size_t> loaded_results;  ///< How many of `tool_results` are in the REPL.
};

/// Everything except context and REPL, as JSON, and back. `read_session` fails with Errc::invalid
/// at a text that is not a session of this version.
[[nodiscard]] std::string write_session(const Session& session);
[[nodiscard]] Expected<std::unique_ptr<Session>> read_session(std::string_view text);

/// An id that cannot be guessed, and ids of calls that contain the id of their session.
[[nodiscard]] std::string new_session_id();
[[nodiscard]] std::string new_call_id(std::string_view prefix, std::string_view session);
/// "": it is not an id of ours.
[[nodiscard]] std::string session_of_call(std::string_view call_id);

}  // namespace tenon::rlm
