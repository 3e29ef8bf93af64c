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

/// Tools that run in this process.
namespace tenon::chat {

struct ToolOutput {
  std::string text;
  bool is_error = false;           ///< The tool failed, and says why.
  std::size_t left_out_bytes = 0;  ///< Bytes that followed the text and are not in it.
};

/// Results of tools that only look things up, for calls that come again. The key is who runs the
/// tool, how it is described, and its arguments in any order and spelling. Failures are not kept,
/// and the oldest results are dropped first. Each conversation has one memory. Thread-safe.
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

/// How long a result is wanted, and what a tool gets besides its arguments.
struct ToolContext {
  /// Cancelled when the result is no longer wanted: at the deadline, or with the conversation.
  CancelToken cancel{};
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::shared_ptr<ToolMemory> memory{};  ///< For Toolbox::start(); null: each call is run.
  /// Called from any thread with the progress of a call, in words. May be empty.
  std::function<void(const std::string& told)> on_progress{};
  /// Called from any thread, for several calls at a time, when `server` needs to know something of
  /// the user (mcp::CallOptions::on_question). May be empty.
  std::function<std::optional<json::Object>(const std::string& server, const json::Value& params)>
      on_question{};

  [[nodiscard]] bool is_over() const {
    return cancel.is_cancelled() || std::chrono::steady_clock::now() >= deadline;
  }
};

/// Runs a tool: `arguments` is an object that its schema allows. Called from a thread of the
/// toolbox, for several calls at a time. The model gets its error or exception as the result.
using ToolFunction =
    std::function<Expected<ToolOutput>(const json::Object& arguments, const ToolContext& context)>;

/// Tools that come and go, such as those of another server. Thread-safe.
class ToolSource {
 public:
  virtual ~ToolSource() = default;
  /// Goes before the names of its tools if they clash with others.
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// Rises when tools() would return other tools. Does not wait.
  [[nodiscard]] virtual std::uint64_t version() const = 0;
  /// May wait for the server, within the limits of `context`.
  [[nodiscard]] virtual Expected<std::vector<message::Tool>> tools(const ToolContext& context) = 0;
  /// What tools() has left out because it is faulty: the name ("": it has none), and why.
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::string>> left_out() const {
    return {};
  }
  /// The server's own text on how to use its tools; "": none. Call it after tools().
  [[nodiscard]] virtual std::string instructions() const { return ""; }
  /// What the server says of a tool, such as `readOnlyHint`; null: nothing. Call it after tools().
  [[nodiscard]] virtual json::Value annotations(const std::string& /*tool*/) const { return {}; }
  [[nodiscard]] virtual Expected<ToolOutput> call(const std::string& tool,
                                                  const json::Object& arguments,
                                                  const ToolContext& context) = 0;
};

/// A tool that a source lists and that models are not offered.
struct LeftOutTool {
  std::string source;  ///< ToolSource::name()
  std::string tool;    ///< "": it has no name.
  std::string why;
};

/// Whether a request can have the tool. Fails, saying why, if its parameters are no schema, or one
/// that no object fits.
[[nodiscard]] Status check_tool(const message::Tool& tool);

/// Where a tool comes from.
struct ToolOrigin {
  std::string source;       ///< ToolSource::name(); "": the toolbox itself.
  std::string tool;         ///< The source's name for it.
  json::Value annotations;  ///< ToolSource::annotations().
};

/// The tools of a toolbox at one moment: what a model is offered, and what runs its calls. A call
/// runs the tool that was offered, even if the toolbox has changed since. Cheap to copy, immutable.
class ToolSet {
 public:
  ToolSet();
  [[nodiscard]] const std::vector<message::Tool>& list() const;
  [[nodiscard]] bool has(std::string_view name) const;
  /// The tools whose names are not in `own`, to be offered beside those.
  [[nodiscard]] ToolSet beside(const std::vector<message::Tool>& own) const;
  /// The same tools, and those of `source`, which get their names as in Toolbox::add().
  /// Any toolbox can run their calls.
  [[nodiscard]] ToolSet with(const std::shared_ptr<ToolSource>& source,
                             const std::vector<message::Tool>& tools) const;
  /// One tool without parameters, which is not checked.
  [[nodiscard]] static ToolSet of(std::string name, ToolFunction function);
  /// Null: there is no such tool.
  [[nodiscard]] const ToolOrigin* origin(std::string_view name) const;
  /// A text for who runs the tool and how it is described: it differs for any other tool that has
  /// the name later. "": there is no such tool.
  [[nodiscard]] std::string identity(std::string_view name) const;
  /// What the sources say about using these tools, as a text for the system prompt; "": they say
  /// nothing.
  [[nodiscard]] const std::string& instructions() const;
  /// Appends them to the system prompt at the beginning of `messages`, or inserts one.
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
/// Before a tool runs, its arguments are validated by its schema; if they are invalid, the model is
/// told so and the function is not called. Every call has a result. It is an error that says so for
/// a tool that fails, throws, takes too long or does not exist, and for a call that cannot run
/// because earlier ones do not end although they were cancelled. Results are UTF-8, and cut if they
/// are too long, with a note on their size.
class Toolbox {
 public:
  struct Options {
    std::size_t max_concurrent = 8;                ///< Calls that run at a time; others wait.
    std::chrono::milliseconds time_limit{60'000};  ///< For one call, from when it runs.
    std::size_t max_result_bytes = std::size_t{256} << 10;
    std::size_t max_calls = 64;  ///< For one start(); further calls get an error as their result.
    /// How long tools() waits for a source, from when the source was asked.
    std::chrono::milliseconds patience{10'000};
  };

  explicit Toolbox(Options options);
  Toolbox() : Toolbox(Options{}) {}
  /// Cancels what runs, and waits also for functions that ignore that. Calls that still wait get no
  /// result.
  ~Toolbox();
  Toolbox(const Toolbox&) = delete;
  Toolbox& operator=(const Toolbox&) = delete;

  /// Fails with `invalid` if the name is taken or not allowed, or as Schema::compile does.
  [[nodiscard]] Status add(message::Tool tool, ToolFunction function);
  /// Its tools get names that every engine accepts, 1 to 64 of a-z A-Z 0-9 _ and -: other
  /// characters become '_', and a tool whose name is taken is called `source_tool`, or gets a
  /// number at its end. Their parameters get `"type": "object"` and `properties`. A tool that
  /// check_tool() refuses is left out, with a warning in the log.
  void add(std::shared_ptr<ToolSource> source);

  /// All tools at this time. Sources with news are asked, each in a thread of its own, and waited
  /// for within `context` and at most Options::patience. A source that does not answer keeps its
  /// earlier tools. One that fails is not asked again for 5 s, or for as long as it took to fail if
  /// that is longer, and not waited for until it answers.
  [[nodiscard]] ToolSet tools(const ToolContext& context = {}) const;
  /// The same without waiting: news of the sources are in a later result.
  [[nodiscard]] ToolSet known_tools() const;
  /// The sources that have told no tools so far, by name, and why.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> silent_sources() const;
  /// The tools that sources have told so far and that are left out.
  [[nodiscard]] std::vector<LeftOutTool> left_out() const;

  using Done = std::function<void(std::vector<ToolResult>)>;
  /// Runs the calls and passes the results, in the order of the calls, to `done` on a thread of the
  /// toolbox (on this one if there are no calls, or if no thread can be started). When `context` is
  /// over, each call that has not ended gets a result that says so. `done` must not destroy the
  /// toolbox.
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
