#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/cancel.h"
#include "tenon/base/expected.h"
#include "tenon/chat/model.h"
#include "tenon/message/event.h"
#include "tenon/message/message.h"
#include "tenon/rlm/host.h"
#include "tenon/rlm/protocol.h"
#include "tenon/rlm/run_limits.h"
#include "tenon/rlm/session.h"

namespace tenon::rlm {

/// The events of a run, for traces, logs and people who watch: JSON objects with a `type` (listed
/// in docs/rlm.md). Thread-safe.
class Trace {
 public:
  using Listener = std::function<void(const json::Object& event)>;
  void listen(Listener listener);
  void add(const json::Object& event);
  /// After this call listeners receive nothing.
  void close();
  [[nodiscard]] bool is_on() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Listener> listeners_;  // guarded by mutex_
};

/// Places for the sub-calls of a run and of its children, which take them in turn. Thread-safe.
class Gate {
 public:
  explicit Gate(unsigned places) : places_(places) {}
  /// Takes a place. False: all places are taken; `wake` is then called once, from any thread, when
  /// one may be free.
  [[nodiscard]] bool enter(std::function<void()> wake);
  void leave();

 private:
  const unsigned places_;
  std::mutex mutex_;
  unsigned taken_ = 0;                       // guarded by mutex_
  std::deque<std::function<void()>> wakes_;  // guarded by mutex_
};

/// What a run and its children share.
struct Bounds {
  explicit Bounds(const RunLimits& chosen);

  const RunLimits limits;
  std::atomic<bool> is_cancelled = false;  ///< The answer is no longer wanted.
  std::atomic<bool> is_late = false;       ///< max_time is over.
  bool unsafe_local = false;
  std::shared_ptr<Trace> trace = std::make_shared<Trace>();
  /// The sink of the answer, which may watch what the models do for it. It may be gone before the
  /// last of them ends. Set before the run begins.
  std::weak_ptr<const message::ChatSink> client;
  /// A sink that watches an answer of a model at `depth`; null: it is not watched
  /// (ChatSink::inside).
  [[nodiscard]] std::shared_ptr<message::ChatSink> watcher(std::string_view part,
                                                           unsigned depth) const;
  Gate calls;  ///< For prompts to models.
  /// For children, one gate for each depth, because each run waits for those below it.
  [[nodiscard]] Gate& children_at(unsigned depth) { return *children_.at(depth); }

  /// What this request has taken so far.
  [[nodiscard]] RunFacts own() const;
  /// The same with the session's earlier requests, which count in the limits.
  [[nodiscard]] RunFacts spent() const;
  void spend(const message::Usage& usage, const chat::Prices& prices);
  /// Takes up to `count` sub-calls and returns how many were available.
  std::size_t take_sub_calls(std::size_t count);
  /// The budget that is used up, "tokens" or "funds"; "": none of them.
  [[nodiscard]] std::string_view used_up() const;
  void go_on_from(const RunFacts& earlier);

  /// A token that ends the cells and answers of a run; each run takes one.
  [[nodiscard]] CancelToken token();
  /// Sets all tokens, and those that are taken later.
  void halt();

 private:
  std::vector<std::unique_ptr<Gate>> children_;
  mutable std::mutex mutex_;
  RunFacts earlier_;                 // guarded by mutex_
  RunFacts own_;                     // guarded by mutex_
  bool is_halted_ = false;           // guarded by mutex_
  std::vector<CancelToken> tokens_;  // guarded by mutex_
};

/// Outcome::forced where the root model's context was full.
inline constexpr std::string_view kContext = "context";

/// How a run ended.
struct Outcome {
  enum class Kind : std::uint8_t { answer, calls, failure, cancelled };
  Kind kind = Kind::failure;
  std::string text;      ///< The answer.
  bool is_cut = false;   ///< It is the text that existed when a limit was reached.
  std::string forced{};  ///< The limit at which the answer was demanded: "max_iterations", ...
  std::vector<message::Diagnostic> diagnostics;  ///< From the turn with the calls.
  Error error;
};

/// The loop: asks the root model, runs its code, and gives it the output, until it answers or calls
/// a tool of the caller. The calls, and everything that is needed to go on, are in the session.
/// Blocks its thread.
class Run {
 public:
  /// `request` is the caller's; its tools, sampling and so on are used for every turn. All
  /// arguments must outlive this object. `depth` counts from 0.
  Run(std::shared_ptr<Host> host, std::shared_ptr<Bounds> bounds, const CancelToken& halt,
      Session& session, const message::ChatRequest& request, unsigned depth = 0);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// Begins the session's conversation.
  void begin();
  /// Goes on with the results of its calls, one for each; `others` is the user's text that came
  /// with them.
  void resume(const std::vector<message::Message>& results, const std::string& others);
  /// Goes on with another question about the same context.
  void ask_again(const std::string& question);
  /// The client has replaced the context while the session was paused.
  void change_context(Task task);

  [[nodiscard]] Outcome run();

 private:
  struct Turn {
    message::Message message;  // with our ids
    message::Finish finish;
    std::vector<bool> incomplete;
    std::vector<message::Diagnostic> diagnostics;
  };

  /// What the model may write in a turn.
  enum class Wish : std::uint8_t {
    any,    ///< Calls, code or the answer.
    calls,  ///< Calls, as the request's tool_choice demands.
    text,   ///< The answer.
  };
  [[nodiscard]] Result<Turn, Error> ask(Wish wish);
  [[nodiscard]] Result<Turn, chat::Refusal> ask_once(const message::ChatRequest& request,
                                                     bool heeds_halt, std::string_view part);
  [[nodiscard]] message::ChatRequest request_for(Wish wish) const;
  [[nodiscard]] std::optional<Outcome> take_calls(Turn& turn);
  [[nodiscard]] std::optional<std::string> run_cells(const RootAnswer& answer, std::string& told,
                                                     bool& has_failed);
  [[nodiscard]] std::optional<std::string> read_final(const RootAnswer& answer, std::string& told);
  [[nodiscard]] Outcome end_with(std::string answer);
  [[nodiscard]] Outcome force_answer(std::string_view limit, std::string_view why);
  [[nodiscard]] Outcome stopped();
  [[nodiscard]] Expected<std::unique_ptr<Repl>> make_repl(bool replays);
  [[nodiscard]] Status need_repl();
  [[nodiscard]] Status load(Repl& repl);
  [[nodiscard]] Status replay(Repl& repl);
  [[nodiscard]] Status load_results(Repl& repl, std::size_t count);
  [[nodiscard]] std::vector<std::string> importable() const;
  [[nodiscard]] CellLimits cell_limits(std::size_t max_output) const;
  void lose_repl();
  void note(CellRecord cell, bool may_be_repeated);
  [[nodiscard]] std::uint32_t window() const;
  [[nodiscard]] std::size_t most_output() const;
  [[nodiscard]] bool is_fuller_than(double part) const;
  [[nodiscard]] bool make_room();
  [[nodiscard]] bool shrink(bool may_sum_up);
  [[nodiscard]] bool sum_up();
  [[nodiscard]] std::string variables_now();
  void say(std::string text);
  void tell(std::string type, const json::Object& event);

  const std::shared_ptr<Host> host_;
  const std::shared_ptr<Bounds> bounds_;
  const CancelToken halt_;
  Session& session_;
  const message::ChatRequest& request_;
  const unsigned depth_;
  std::string lost_;  // what to tell the root model about a REPL that was lost
  // Tokens for a byte of the conversation, as the last prompt had them; 0: not known yet.
  double tokens_per_byte_ = 0;
  bool may_sum_up_ = true;  // false after a summary that failed, until older turns are left out
  bool is_full_ = false;    // a prompt did not fit, and nothing more could be cut
};

}  // namespace tenon::rlm
