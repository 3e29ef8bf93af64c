#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/cancel.h"
#include "tenon/base/expected.h"
#include "tenon/chat/call_check.h"
#include "tenon/chat/code_functions.h"
#include "tenon/chat/conversation.h"
#include "tenon/message/message.h"

/// Code that a model writes, and the tools that it calls.
namespace tenon::chat {

/// What code may use in one run.
struct CodeLimits {
  std::size_t max_calls = 100;                    ///< Calls of tools.
  std::chrono::milliseconds time_limit{30'000};   ///< Without the time in which it waits for calls.
  std::size_t max_output_chars = 20'000;          ///< Each of stdout and stderr.
  std::size_t max_bytes = std::size_t{16} << 20;  ///< Arguments and results of its calls together.
};

/// What code printed.
struct CodeResult {
  std::string out;
  std::string err;        ///< And the traceback, if it failed.
  bool is_error = false;  ///< It raised an exception, or was stopped.

  bool operator==(const CodeResult&) const = default;
};

/// Runs code where it can do no harm. Thread-safe.
class CodeInterpreter {
 public:
  /// Takes the result of a call, as text. An error becomes an exception of the code.
  using Answer = std::function<void(Expected<std::string> result)>;
  struct Job {
    std::string functions;  ///< CodeFunctions::source()
    std::string code;
    CodeLimits limits;
    CancelToken cancel;
    /// The code calls a tool. It must return at once, and answer from any thread.
    std::function<void(std::string tool, std::string arguments, Answer answer)> ask;
    /// Called once, with an error if the code could not be run or has been stopped from outside.
    std::function<void(Expected<CodeResult> result)> done;
  };
  /// Ends the code, and `done` is called.
  using Stop = std::function<void()>;

  virtual ~CodeInterpreter() = default;
  /// Runs a job in a process of its own. Fails, without a call of `done`, if too many run.
  [[nodiscard]] virtual Expected<Stop> start(Job job) = 0;
  /// Calls `expire` at `deadline`, unless the result is destroyed before.
  [[nodiscard]] virtual std::shared_ptr<void> alarm(std::chrono::steady_clock::time_point deadline,
                                                    std::function<void()> expire) = 0;
};

/// The calls that code has made, and what they gave.
using CodeAnswers = std::vector<std::pair<std::string, ToolResult>>;

/// What code was told by tools that run here, for as long as it waits for its client: it runs anew
/// then, and those calls must not. By its owner, and the ids of the calls that it waits for. The
/// oldest are dropped first. Thread-safe.
class CodeNotes {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
  static constexpr std::size_t kMaxEntries = 4096;

  void keep(const std::string& owner, const std::vector<message::ToolCall>& calls,
            std::shared_ptr<const CodeAnswers> answers);
  /// Null: there are no notes, since the server has begun anew or had to drop them.
  [[nodiscard]] std::shared_ptr<const CodeAnswers> find(const std::string& owner,
                                                        const std::string& call_id) const;
  /// Drops the notes of code that waited for these calls.
  void forget(const std::string& owner, const std::vector<message::CodeCall>& calls);

 private:
  struct Entry {
    std::string owner;
    std::vector<std::string> call_ids;
    std::shared_ptr<const CodeAnswers> answers;
    std::size_t bytes = 0;
  };
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;  // guarded by mutex_, the newest last
  std::size_t bytes_ = 0;      // guarded by mutex_
};

/// How a run of code has ended, or where it waits.
struct CodeOutcome {
  CodeResult result;
  /// The client's tools that it has called. If there are any it waits for them, without a result.
  std::vector<message::ToolCall> waits{};
  std::vector<std::pair<message::ToolCall, ToolResult>> ran{};  ///< Calls that were run here.
  /// Why code that has waited could not go on. It may later: nothing has been run or forgotten.
  std::optional<Error> not_run{};
};

/// One run of code. Calls of tools that run here are run at once. With a call of a client's tool
/// the code ends, and the client is asked; once it has answered, the code runs anew and finds the
/// answers of all its calls, in their order. So nothing of it needs to be kept meanwhile but what
/// CodeNotes has. Code that reads a clock may make other calls then: it is ended as soon as it
/// waits with a call of before not made again, and calls no tool here a second time.
///
/// The host decides what code may call, whatever the code does to its own process: a tool that is
/// no function of `functions` is refused, and so are arguments that do not fit the tool's schema.
class CodeRun : public std::enable_shared_from_this<CodeRun> {
 public:
  /// Runs a call here, and passes its result on from any thread.
  using RunHere =
      std::function<void(const message::ToolCall& call, std::function<void(ToolResult)> done)>;
  struct Options {
    std::string code;
    std::shared_ptr<const CodeFunctions> functions;
    std::function<bool(const std::string& tool)> runs_here;
    RunHere run_here;
    std::string owner;                       ///< ChatRequest::owner
    std::vector<message::CodeCall> earlier;  ///< The calls of this run that the client knows.
    std::shared_ptr<CodeNotes> notes;
    std::shared_ptr<CompiledSchemas> schemas;
    CodeLimits limits;
    std::string id_prefix = "call_";  ///< The ids of its calls begin so.
    bool parallel = true;             ///< Several calls may wait for the client together.
    CancelToken cancel;
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  };
  using Done = std::function<void(CodeOutcome outcome)>;

  /// How long code may be silent before the client is asked: calls that are made at the same time
  /// reach it together.
  static constexpr std::chrono::milliseconds kSettle{100};
  /// The same while calls of before are not made again: threads may be on their way to them.
  static constexpr std::chrono::milliseconds kSettleAnew{1000};

  /// Runs it. `done` is called once, on any thread.
  static void start(std::shared_ptr<CodeInterpreter> interpreter, Options options, Done done);

 private:
  /// A call of a tool that runs here.
  struct Own {
    std::string key;
    message::ToolCall call;
    CodeInterpreter::Answer answer;
  };

  CodeRun(std::shared_ptr<CodeInterpreter> interpreter, Options options, Done done);
  void begin();
  void know(const std::string& key, const std::string& tool, const ToolResult& result);
  void ask(std::string tool, std::string arguments, const CodeInterpreter::Answer& answer);
  [[nodiscard]] std::string count(std::size_t bytes);
  [[nodiscard]] std::string refusal_of(const message::ToolCall& call);
  [[nodiscard]] std::string over_bytes() const;
  [[nodiscard]] std::optional<Expected<std::string>> take_known(const std::string& key,
                                                                const std::string& tool);
  [[nodiscard]] std::vector<Own> take_ready();
  void run_here(Own own);
  void answered(const Own& own, ToolResult result);
  void settle_later();
  void settle();
  void end(Expected<CodeResult> result);
  void tell();

  const std::shared_ptr<CodeInterpreter> interpreter_;
  const Options options_;
  bool has_own_ = false;  // it may call tools that run here
  CallCheck check_;       // used by ask() alone

  std::mutex mutex_;  // guards the members below
  Done done_;
  CodeInterpreter::Stop stop_;
  std::shared_ptr<void> alarm_;
  std::shared_ptr<void> deadline_;
  // Answers from notes and earlier calls that the code has not asked for again, by key.
  std::map<std::string, std::deque<ToolResult>> known_;
  std::map<std::string, std::size_t> own_known_;  // how many of them, by tools that run here
  CodeAnswers answers_;                           // of tools that run here
  std::vector<message::ToolCall> waits_;
  std::vector<Own> held_;  // new calls, as long as an answer of the same tool is known
  std::vector<std::pair<message::ToolCall, ToolResult>> ran_;
  std::size_t calls_ = 0;
  std::size_t bytes_ = 0;
  std::size_t running_ = 0;  // calls that run here now
  bool is_paused_ = false;
  std::string changed_;  // why it cannot go on; "": it can
  bool is_over_ = false;
  std::optional<Expected<CodeResult>> result_;  // once it is over
};

}  // namespace tenon::chat
