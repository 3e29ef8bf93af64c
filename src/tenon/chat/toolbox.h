#pragma once

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
#include <utility>
#include <vector>

#include "tenon/base/cancel.h"
#include "tenon/base/expected.h"
#include "tenon/chat/conversation.h"
#include "tenon/json/value.h"
#include "tenon/message/message.h"

/// Tools that run here.
namespace tenon::chat {

struct ToolOutput {
  std::string text;
  bool is_error = false;           ///< The tool failed, and says why.
  std::size_t left_out_bytes = 0;  ///< That came behind the text, and are not in it.
};

/// Results of tools that only look things up, for calls that come again: by who runs the tool, how
/// it is described, and its arguments, however they are spelled. Failures are not kept, and the
/// oldest go first. One conversation has one. Thread-safe.
class ToolMemory {
 public:
  static constexpr std::size_t kMaxResults = 256;
  static constexpr std::size_t kMaxBytes = std::size_t{8} << 20U;

  [[nodiscard]] std::optional<ToolOutput> find(const std::string& key) const;
  void keep(std::string key, const ToolOutput& output);

 private:
  mutable std::mutex mutex_;
  std::deque<std::pair<std::string, ToolOutput>> results_;  // guarded by mutex_, the newest last
  std::size_t bytes_ = 0;                                   // guarded by mutex_
};

/// How long something is wanted, and what a tool is told beside its arguments.
struct ToolContext {
  /// Set when the result is no longer wanted: the time is over, or the conversation was cancelled.
  CancelToken cancel{};
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::shared_ptr<ToolMemory> memory{};  ///< Of Toolbox::start(); null: each call is made.
  /// Told how far a call has come, in words, from any thread. Empty: nobody wants to know.
  std::function<void(const std::string& told)> on_progress{};

  [[nodiscard]] bool is_over() const {
    return cancel.is_cancelled() || std::chrono::steady_clock::now() >= deadline;
  }
};

/// Runs a tool: `arguments` is an object that fits its schema. Called from a thread of the toolbox,
/// for several calls at a time. What it throws, or fails with, the model is told.
using ToolFunction =
    std::function<Expected<ToolOutput>(const json::Object& arguments, const ToolContext& context)>;

/// Tools that come and go: those of a server elsewhere. Thread-safe.
class ToolSource {
 public:
  virtual ~ToolSource() = default;
  /// Stands before the names of its tools where they clash with others.
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// Rises when tools() would give others. Waits for nobody.
  [[nodiscard]] virtual std::uint64_t version() const = 0;
  /// May wait for the server, within what `context` says.
  [[nodiscard]] virtual Expected<std::vector<message::Tool>> tools(const ToolContext& context) = 0;
  /// How its tools are to be used, as it says itself; "": it says nothing. Asked after tools().
  [[nodiscard]] virtual std::string instructions() const { return ""; }
  [[nodiscard]] virtual Expected<ToolOutput> call(const std::string& tool,
                                                  const json::Object& arguments,
                                                  const ToolContext& context) = 0;
};

/// The tools of a toolbox at one moment: what a model is offered, and who its calls are for. What
/// was offered is what runs, whatever the toolbox has learnt since. Cheap to copy, never changes.
class ToolSet {
 public:
  ToolSet();
  [[nodiscard]] const std::vector<message::Tool>& list() const;
  [[nodiscard]] bool has(std::string_view name) const;
  /// Those whose names are none of `own`, to be offered beside these.
  [[nodiscard]] ToolSet beside(const std::vector<message::Tool>& own) const;
  /// Who runs the tool and how it is described: another text for any other tool that has its name
  /// later. "": there is none.
  [[nodiscard]] std::string identity(std::string_view name) const;
  /// What the sources say about the use of these tools, as a text that says so and belongs into the
  /// system prompt; "": they say nothing.
  [[nodiscard]] const std::string& instructions() const;
  /// Puts them behind the system prompt with which `messages` begin, or before the messages.
  void add_instructions(std::vector<message::Message>& messages) const;

 private:
  friend class Toolbox;
  struct Impl;
  explicit ToolSet(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

/// Functions that a model may call, and who runs them. Thread-safe.
///
///     Toolbox tools;
///     tools.add(*ToolDefinition("add").parameter("a", JsonSchema::integer()).build(),
///               [](const json::Object& arguments, const ToolContext&) -> Expected<ToolOutput> {
///                 return ToolOutput{sum_of(arguments)};
///               });
///     auto report = converse(talk, "What is 1 + 2?", tools);
///
/// Before a tool runs its arguments are held to its schema; what does not fit is told to the model
/// and no function sees it. Every call has a result: of a tool that fails, throws, takes too long
/// or is not there it is an error that says so, and so it is of a call that cannot be run since
/// those before it do not end when they are cancelled. Results are UTF-8, and cut where they are
/// too long, with the size told.
class Toolbox {
 public:
  struct Options {
    std::size_t max_concurrent = 8;                ///< Calls that run at a time; others wait.
    std::chrono::milliseconds time_limit{60'000};  ///< Of one call, from when it runs.
    std::size_t max_result_bytes = std::size_t{256} << 10;
    std::size_t max_calls = 64;  ///< Of one start(); those behind them are not run, and told so.
    /// For how long tools() waits for a source, from when that was asked.
    std::chrono::milliseconds patience{10'000};
  };

  explicit Toolbox(Options options);
  Toolbox() : Toolbox(Options{}) {}
  /// Cancels what runs, and waits for functions that do not heed it. Calls that wait still have no
  /// result.
  ~Toolbox();
  Toolbox(const Toolbox&) = delete;
  Toolbox& operator=(const Toolbox&) = delete;

  /// Fails with `invalid` where the name is taken or none, or as Schema::compile does.
  [[nodiscard]] Status add(message::Tool tool, ToolFunction function);
  /// Its tools have names that every engine takes, 1 to 64 of a-z A-Z 0-9 _ and -: other characters
  /// become '_', and one whose name is taken is called `source_tool`, or has a number behind it.
  /// Their parameters say `"type": "object"` and have `properties`. A tool that no request may have
  /// (check_parameters()) is left out, with a warning in the log.
  void add(std::shared_ptr<ToolSource> source);

  /// All tools, as they are now: sources with news are asked, each in a thread of its own, and
  /// waited for within `context`, and no longer than Options::patience. One that does not answer
  /// keeps the tools that it had; one that fails is not asked again for 5 s, nor for as long as it
  /// took to fail, and not waited for until it answers.
  [[nodiscard]] ToolSet tools(const ToolContext& context = {}) const;
  /// The same, and waits for nobody: what sources say now is there later.
  [[nodiscard]] ToolSet known_tools() const;
  /// The sources that have told no tools so far, by name, and why.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> silent_sources() const;

  using Done = std::function<void(std::vector<ToolResult>)>;
  /// Runs the calls and gives the results, in their order, to `done`, from a thread of the toolbox
  /// (from this one where there are no calls, or no threads to be had). When `context` is over,
  /// what has not ended has a result that says so. `done` must not destroy the toolbox.
  void start(const ToolSet& tools, const std::vector<message::ToolCall>& calls, Done done,
             const ToolContext& context = {}) const;
  /// The same, and waits.
  [[nodiscard]] std::vector<ToolResult> run(const ToolSet& tools,
                                            const std::vector<message::ToolCall>& calls,
                                            const ToolContext& context = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::chat
