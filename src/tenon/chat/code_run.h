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
/// then, and those calls must not. By the ids of the calls that it waits for, which cannot be
/// guessed. The oldest are dropped first. Thread-safe.
class CodeNotes {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
  static constexpr std::size_t kMaxEntries = 4096;

  void keep(const std::vector<message::ToolCall>& calls,
            std::shared_ptr<const CodeAnswers> answers);
  /// Null: there are no notes, since the server has begun anew or had to drop them.
  [[nodiscard]] std::shared_ptr<const CodeAnswers> find(const std::string& call_id) const;

 private:
  struct Entry {
    std::string id;
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
  std::vector<message::ToolCall> waits;
  std::vector<std::pair<message::ToolCall, ToolResult>> ran;  ///< Calls that were run here.
};

/// One run of code. Calls of tools that run here are run at once. With a call of a client's tool
/// the code ends, and the client is asked; once it has answered, the code runs anew and finds the
/// answers of all its calls, in their order. So nothing of it needs to be kept meanwhile but what
/// CodeNotes has, and code that is no function of its calls (clocks) may call other tools then.
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

  /// Runs it. `done` is called once, on any thread.
  static void start(std::shared_ptr<CodeInterpreter> interpreter, Options options, Done done);

 private:
  CodeRun(std::shared_ptr<CodeInterpreter> interpreter, Options options, Done done);
  void begin();
  void ask(std::string tool, std::string arguments, const CodeInterpreter::Answer& answer);
  [[nodiscard]] std::string refusal_of(const std::string& tool, std::string_view arguments);
  void answered(const std::string& key, message::ToolCall call, ToolResult result,
                const CodeInterpreter::Answer& answer);
  void settle_later();
  void settle();
  void end(Expected<CodeResult> result);

  const std::shared_ptr<CodeInterpreter> interpreter_;
  const Options options_;
  Done done_;

  std::mutex mutex_;  // guards the members below
  CodeInterpreter::Stop stop_;
  std::shared_ptr<void> alarm_;
  std::shared_ptr<void> deadline_;
  CallCheck check_;
  CodeAnswers known_;       // from notes and earlier calls
  std::vector<bool> used_;  // of known_
  CodeAnswers answers_;     // of tools that run here
  std::vector<message::ToolCall> waits_;
  std::vector<std::pair<message::ToolCall, ToolResult>> ran_;
  std::size_t calls_ = 0;
  std::size_t bytes_ = 0;
  std::size_t running_ = 0;  // calls that run here now
  bool is_paused_ = false;
  bool is_over_ = false;
};

}  // namespace tenon::chat
