#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/message/message.h"
#include "tenon/message/watch.h"

/// What happens while a model answers: one sequence of events, whatever the format of the model
/// output and the dialect of the client.
namespace tenon::message {

struct TokenLogprob {
  std::string bytes;
  double logprob = 0.0;
  std::vector<std::pair<std::string, double>> top;  ///< (bytes, logprob), likeliest first.

  bool operator==(const TokenLogprob&) const = default;
};

/// Text of the answer. It is never empty and always whole UTF-8 characters.
struct ContentDelta {
  std::string text;
  bool operator==(const ContentDelta&) const = default;
};

/// Text of the model's reasoning.
struct ReasoningDelta {
  std::string text;
  bool operator==(const ReasoningDelta&) const = default;
};

/// The id and the name of a call are known. `index` counts the calls of the answer from 0.
struct CallBegin {
  std::uint32_t index = 0;
  std::string id;
  std::string name;
  std::string code_id{};  ///< The call of the CodeTool whose code makes this one; "": the model.
  bool operator==(const CallBegin&) const = default;
};

/// More of the call's arguments: JSON text, passed on as it is generated. It is never empty and
/// always whole UTF-8 characters.
struct CallArguments {
  std::uint32_t index = 0;
  std::string text;
  bool operator==(const CallArguments&) const = default;
};

/// The call is over. `incomplete`: the output was cut before the end of the call, and its arguments
/// are what had been generated.
struct CallEnd {
  std::uint32_t index = 0;
  bool incomplete = false;
  bool operator==(const CallEnd&) const = default;
};

/// The tools of a server that the request names (HostedServer), as the client is told of them.
struct ServerTools {
  std::string server;
  json::Array tools;  ///< `{"name", "description", "input_schema", "annotations"}`
  std::string error;  ///< Why the server told no tools; "": it told them.
  bool operator==(const ServerTools&) const = default;
};

/// A call of a tool that the server runs and the client sees. Other events may come between its
/// events, also those of another such call.
struct ServerCallBegin {
  std::string id;
  ServerTool tool;
  bool was_approved = false;  ///< `id` is that of ApprovalsWanted.
  bool operator==(const ServerCallBegin&) const = default;
};

/// More of its arguments, as in CallArguments.
struct ServerCallArguments {
  std::string id;
  std::string text;
  bool operator==(const ServerCallArguments&) const = default;
};

/// It has been run, or says why not.
struct ServerCallResult {
  std::string id;
  std::string output;
  bool is_error = false;
  /// What code wrote to stderr; `output` is without it. Absent: it was no call of the CodeTool.
  std::optional<std::string> error_output{};
  bool operator==(const ServerCallResult&) const = default;
};

/// The answer ends here, because these calls run only once the client approves them. The client
/// goes on with a request that has the answer and ChatRequest::decisions.
struct ApprovalsWanted {
  struct Call {
    ToolCall call;  ///< With the model's name for the tool.
    ServerTool tool;
    bool operator==(const Call&) const = default;
  };
  std::vector<Call> calls;
  /// All messages of the answer: those before the calls, the message with the calls, and the
  /// results of its other calls.
  std::vector<Message> messages;
  bool operator==(const ApprovalsWanted& other) const { return calls == other.calls; }
};

/// Something that the reader of an answer should know; it is never part of the content.
struct Diagnostic {
  std::string code;  ///< A stable name, such as "unknown_tool" or "unclosed_call".
  std::string message;
  std::string path = {};  ///< What of the request it is about, such as `tools[1]`; may be empty.
  bool operator==(const Diagnostic&) const = default;
};

enum class FinishReason : std::uint8_t { stop, length, tool_calls, cancelled, error };

[[nodiscard]] std::string_view finish_reason_name(FinishReason reason);

struct Usage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens = 0;
  std::uint32_t cached_tokens = 0;  ///< The part of the prompt that was found in the prefix cache.
  std::uint32_t reasoning_tokens = 0;
  /// The upstream did not report all counts, and they are not known here: missing ones are
  /// estimated from pieces and bytes.
  bool is_estimated = false;

  Usage& operator+=(const Usage& other);
  bool operator==(const Usage&) const = default;
};

/// Why an upstream did not answer although the request was valid.
struct Denial {
  enum class Reason : std::uint8_t {
    none,    ///< The upstream did not say.
    denied,  ///< The upstream refuses our key or does not have the model; the operator must correct
             ///< it.
    busy,    ///< The upstream is overloaded for the moment.
  };
  Reason reason = Reason::none;
  std::uint32_t retry_after_s = 0;  ///< When to try again, as the upstream says; 0: it did not say.

  bool operator==(const Denial&) const = default;
};

/// How it is known that the calls of an answer are valid. `masked`: no other token could be chosen;
/// `upstream`: the upstream says that it enforces them; `validated`: they were valid when they were
/// checked; `repaired`: they are valid after repair; `unenforced`: nothing ensures it, they may be
/// invalid. The weaker one comes first.
enum class Guarantee : std::uint8_t { unenforced, repaired, validated, upstream, masked };

[[nodiscard]] std::string_view guarantee_name(Guarantee guarantee);

/// Where a stretch of an answer's tokens comes from.
struct TokenSource {
  enum class From : std::uint8_t {
    chat_template,
    message,  ///< `message` says which.
    tools,    ///< The description of the tools.
    other,    ///< From the request, and of no single message.
    given,    ///< The client sent them as tokens.
    model,    ///< Generated.
  };
  From from = From::chat_template;
  std::uint32_t message = 0;  ///< Index in the request.
  Role role = Role::user;     ///< The role of that message.
  std::uint32_t tokens = 0;   ///< How many tokens it has.

  bool operator==(const TokenSource&) const = default;
};

/// What a prompt has kept of ChatRequest::previous_token_ids.
struct KeptPrefix {
  std::size_t of = 0;    ///< The number of those tokens.
  std::size_t kept = 0;  ///< How many of them the prompt begins with.
  std::string why;       ///< Why not all of them: a stable name; "": all of them.

  bool operator==(const KeptPrefix&) const = default;
};

/// The tokens that an answer was made from, and those that it is.
struct AnswerTokens {
  std::vector<std::int32_t> prompt;
  /// They cover `prompt`, in order. Empty if the tokens' bytes are not known here.
  std::vector<TokenSource> sources;
  std::vector<std::int32_t> output;  ///< With the token that ended the turn.
  std::vector<double> logprobs;      ///< One for each token of `output`, if asked for; else empty.

  bool operator==(const AnswerTokens&) const = default;
};

/// A conversation that repeats its calls: the same ones with the same results, in each round.
struct Loop {
  std::string tool;           ///< The last call's.
  std::uint32_t repeats = 0;  ///< How often it has been so, in a row; 0: without a loop.
  std::uint32_t steps = 0;    ///< How many answers with calls one round has.

  bool operator==(const Loop&) const = default;
};

/// The last event of every answer. With FinishReason::error, `error` says what went wrong.
struct Finish {
  FinishReason reason = FinishReason::stop;
  Usage usage;
  Error error{};
  Denial denial{};            ///< With FinishReason::error of an upstream.
  std::string stop_sequence;  ///< The `stop` string that ended the answer, or "".
  Guarantee guarantee = Guarantee::unenforced;
  std::string format;  ///< The format of the first call; "": there was no call.
  json::Object rlm{};  ///< For a recursive model: what it did for the answer.
  std::shared_ptr<const AnswerTokens> tokens{};  ///< If they were asked for and are known.
  Loop loop{};                                   ///< The request's messages end in one.
  KeptPrefix prefix{};
  bool operator==(const Finish&) const = default;
};

using ChatEvent = std::variant<ContentDelta, ReasoningDelta, CallBegin, CallArguments, CallEnd,
                               ServerTools, ServerCallBegin, ServerCallArguments, ServerCallResult,
                               ApprovalsWanted, Diagnostic, Finish>;

/// Receives the events of one answer in order, from one thread at a time. Finish comes last and
/// once.
class ChatSink {
 public:
  virtual ~ChatSink() = default;
  /// Must not block. `logprobs` are those of the tokens of this event, if the client asked for
  /// them.
  virtual void on_event(const ChatEvent& event, const std::vector<TokenLogprob>& logprobs) = 0;

  /// Whether it wants what follows, which costs time. The same for all of an answer.
  [[nodiscard]] virtual bool watches() const { return false; }
  /// How many of the likeliest tokens it wants with each token; 0: no log probabilities.
  [[nodiscard]] virtual std::uint32_t watched_logprobs() const { return 0; }
  /// What the answer is made of, between its events. They must not block.
  virtual void on_run(const RunBegin& /*run*/) {}
  virtual void on_made(const MadeToken& /*token*/) {}
  virtual void on_piece(const MadePiece& /*piece*/) {}
  virtual void on_upstream(const UpstreamPart& /*part*/) {}
  virtual void on_run_end(const RunEnded& /*end*/) {}
  virtual void on_own_tools(const OwnTools& /*tools*/) {}
  virtual void on_tool_run(const ToolRun& /*run*/) {}
  /// A sink for an answer that is made inside of this one, such as a question of a recursive model:
  /// it watches what that answer is made of, and its events are not told. Null: it is not watched.
  /// `part` says what the answer is for. Any thread may call this; several such answers may be
  /// under way at once.
  [[nodiscard]] virtual std::shared_ptr<ChatSink> inside(std::string_view /*part*/) const {
    return nullptr;
  }
};

/// A sink before another one, which sees what the answer is made of.
class ChatSinkBefore : public ChatSink {
 public:
  [[nodiscard]] bool watches() const override { return watches_; }
  [[nodiscard]] std::uint32_t watched_logprobs() const override { return logprobs_; }
  void on_run(const RunBegin& run) override {
    if (const auto sink = watcher_.lock()) sink->on_run(run);
  }
  void on_made(const MadeToken& token) override {
    if (const auto sink = watcher_.lock()) sink->on_made(token);
  }
  void on_piece(const MadePiece& piece) override {
    if (const auto sink = watcher_.lock()) sink->on_piece(piece);
  }
  void on_upstream(const UpstreamPart& part) override {
    if (const auto sink = watcher_.lock()) sink->on_upstream(part);
  }
  void on_run_end(const RunEnded& end) override {
    if (const auto sink = watcher_.lock()) sink->on_run_end(end);
  }
  void on_own_tools(const OwnTools& tools) override {
    if (const auto sink = watcher_.lock()) sink->on_own_tools(tools);
  }
  void on_tool_run(const ToolRun& run) override {
    if (const auto sink = watcher_.lock()) sink->on_tool_run(run);
  }
  [[nodiscard]] std::shared_ptr<ChatSink> inside(std::string_view part) const override {
    const auto sink = watcher_.lock();
    return sink == nullptr ? nullptr : sink->inside(part);
  }

 protected:
  explicit ChatSinkBefore(const std::shared_ptr<ChatSink>& sink)
      : watcher_(sink), watches_(sink->watches()), logprobs_(sink->watched_logprobs()) {}

 private:
  const std::weak_ptr<ChatSink> watcher_;  // weak: the sink may own the answer, which owns this
  const bool watches_;
  const std::uint32_t logprobs_;
};

/// The sink of an answer that is made inside of another one, which sees what it is made of
/// (ChatSink::inside).
class ChatSinkInside : public ChatSink {
 public:
  [[nodiscard]] bool watches() const override { return watcher_ != nullptr; }
  [[nodiscard]] std::uint32_t watched_logprobs() const override {
    return watcher_ == nullptr ? 0 : watcher_->watched_logprobs();
  }
  void on_run(const RunBegin& run) override { watcher_->on_run(run); }
  void on_made(const MadeToken& token) override { watcher_->on_made(token); }
  void on_piece(const MadePiece& piece) override { watcher_->on_piece(piece); }
  void on_upstream(const UpstreamPart& part) override { watcher_->on_upstream(part); }
  void on_run_end(const RunEnded& end) override { watcher_->on_run_end(end); }

 protected:
  /// Null: the answer is not watched.
  explicit ChatSinkInside(std::shared_ptr<ChatSink> watcher) : watcher_(std::move(watcher)) {}

 private:
  const std::shared_ptr<ChatSink> watcher_;
};

/// Collects events into the message that they describe. Calls that wait for an approval are calls
/// of that message; those that the server has run are not. A streamed answer and a whole answer are
/// both results of this class, so they cannot differ. One object serves one answer.
///     Fold fold;
///     for (const ChatEvent& event : events) fold.add(event);
///     send(fold.message(), fold.finish());
class Fold {
 public:
  void add(const ChatEvent& event);
  /// The assistant's message so far; `content` is absent if there was no content.
  [[nodiscard]] const Message& message() const { return message_; }
  [[nodiscard]] const Finish& finish() const { return finish_; }
  /// One for each call; true for a call that has not ended yet.
  [[nodiscard]] const std::vector<bool>& incomplete() const { return incomplete_; }
  [[nodiscard]] const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  ToolCall& call_at(std::uint32_t index);

  Message message_{.role = Role::assistant};
  Finish finish_;
  std::vector<bool> incomplete_;
  std::vector<Diagnostic> diagnostics_;
};

}  // namespace tenon::message
