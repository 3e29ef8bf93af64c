#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/message/message.h"

/// What happens while a model answers: one log of events, whatever the format of the model's output
/// and the dialect of the client.
namespace tenon::message {

struct TokenLogprob {
  std::string bytes;
  double logprob = 0.0;
  std::vector<std::pair<std::string, double>> top;  ///< (bytes, logprob), likeliest first.

  bool operator==(const TokenLogprob&) const = default;
};

/// Text of the answer. Never empty, always whole UTF-8 characters.
struct ContentDelta {
  std::string text;
  bool operator==(const ContentDelta&) const = default;
};

/// Text of the model's reasoning.
struct ReasoningDelta {
  std::string text;
  bool operator==(const ReasoningDelta&) const = default;
};

/// A call's id and name are known. `index` counts the calls of the answer from 0.
struct CallBegin {
  std::uint32_t index = 0;
  std::string id;
  std::string name;
  bool operator==(const CallBegin&) const = default;
};

/// More of the call's arguments: JSON text, passed on as it is generated. Never empty, always whole
/// UTF-8 characters.
struct CallArguments {
  std::uint32_t index = 0;
  std::string text;
  bool operator==(const CallArguments&) const = default;
};

/// The call is over. `incomplete`: the output was cut before the call's end, and its arguments are
/// what there was.
struct CallEnd {
  std::uint32_t index = 0;
  bool incomplete = false;
  bool operator==(const CallEnd&) const = default;
};

/// Something a maintainer should know; clients never see it as content.
struct Diagnostic {
  std::string code;  ///< Stable, like "unknown_tool" or "unclosed_call".
  std::string message;
  bool operator==(const Diagnostic&) const = default;
};

enum class FinishReason : std::uint8_t { stop, length, tool_calls, cancelled, error };

[[nodiscard]] std::string_view finish_reason_name(FinishReason reason);

struct Usage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens = 0;
  std::uint32_t cached_tokens = 0;  ///< Of the prompt, found in the prefix cache.
  std::uint32_t reasoning_tokens = 0;
  /// Not all of it was told by who counts tokens, nor are they known here: what is missing is made
  /// of pieces and bytes.
  bool is_estimated = false;

  Usage& operator+=(const Usage& other);
  bool operator==(const Usage&) const = default;
};

/// Why a server elsewhere answers nothing, where the request is not to blame.
struct Denial {
  enum class Reason : std::uint8_t {
    none,    ///< It did not say.
    denied,  ///< It takes our key not, or has not our model: until somebody mends it.
    busy,    ///< It has too much to do: for now.
  };
  Reason reason = Reason::none;
  std::uint32_t retry_after_s = 0;  ///< When to come again, as it says; 0: it does not.

  bool operator==(const Denial&) const = default;
};

/// By what means an answer's calls are valid: `masked`, no other token could be chosen; `upstream`,
/// so says the engine in front of which we stand; `validated`, they were when they were looked at;
/// `repaired`, they are now; `unenforced`, by nothing: they may not be. The weaker comes first.
enum class Guarantee : std::uint8_t { unenforced, repaired, validated, upstream, masked };

[[nodiscard]] std::string_view guarantee_name(Guarantee guarantee);

/// The last event of every answer. With FinishReason::error, `error` says what went wrong.
struct Finish {
  FinishReason reason = FinishReason::stop;
  Usage usage;
  Error error{};
  Denial denial{};            ///< With FinishReason::error, of an engine that runs elsewhere.
  std::string stop_sequence;  ///< The `stop` string that ended the answer, if one did.
  Guarantee guarantee = Guarantee::unenforced;
  std::string format;  ///< In which the first call was written; "": there was none.
  json::Object rlm{};  ///< Of a recursive model: what it did for the answer.
  bool operator==(const Finish&) const = default;
};

using ChatEvent = std::variant<ContentDelta, ReasoningDelta, CallBegin, CallArguments, CallEnd,
                               Diagnostic, Finish>;

/// Receives the events of one answer, in order, from one thread at a time, Finish last and once.
class ChatSink {
 public:
  virtual ~ChatSink() = default;
  /// Must not block. `logprobs` are those of the tokens behind this event, if they were asked for.
  virtual void on_event(const ChatEvent& event, const std::vector<TokenLogprob>& logprobs) = 0;
};

/// Folds events into the message they describe. The answer of a stream and the answer as a whole
/// are both this function's result, so they cannot differ. One fold serves one answer.
///
///     Fold fold;
///     for (const ChatEvent& event : events) fold.add(event);
///     send(fold.message(), fold.finish());
class Fold {
 public:
  void add(const ChatEvent& event);
  /// The assistant's message so far; `content` is absent if there was none.
  [[nodiscard]] const Message& message() const { return message_; }
  [[nodiscard]] const Finish& finish() const { return finish_; }
  /// Per call; true for a call that has not ended yet.
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
