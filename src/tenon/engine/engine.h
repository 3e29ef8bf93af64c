#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/machine/grammar.h"
#include "tenon/message/event.h"
#include "tenon/message/message.h"
#include "tenon/vocab/tokenizer.h"

/// What generates tokens: the embedded libllama, or an upstream. Engines know nothing about tools.
namespace tenon::engine {

using vocab::TokenId;

/// How an engine constrains answers to a grammar.
enum class ConstrainedBy : std::uint8_t {
  none,         ///< Not at all: calls are validated once they have come.
  masks,        ///< Token by token, by GenerateRequest::grammar.
  gbnf,         ///< By GenerateRequest::printed, in the language of llama.cpp.
  ebnf,         ///< By GenerateRequest::printed, in the language of xgrammar.
  json_schema,  ///< JSON only, by `printed`: a JSON Schema, or `"json"` for any object.
};

[[nodiscard]] std::string_view constrained_by_name(ConstrainedBy constrained_by);

/// What an engine starts a run from.
enum class Takes : std::uint8_t {
  tokens,  ///< GenerateRequest::prompt.
  /// Only GenerateRequest::text, in which the engine reads control tokens wherever their text
  /// stands. Generated tokens come as text, too.
  text,
  /// GenerateRequest::chat: the engine makes the prompt itself and has its own tokens. It has no
  /// chat template and no real tokenizer; it may report reasoning and calls by itself.
  messages,
};

[[nodiscard]] std::string_view takes_name(Takes takes);

struct GenerateRequest {
  std::vector<TokenId> prompt;  ///< Never empty, except for engines that take messages.
  /// The prompt as text; parts that came from outside spell no control token.
  std::string text;
  /// So many of the last tokens of `prompt` are the beginning of the answer: `grammar` has read
  /// them. 0 with `printed`.
  std::size_t begun = 0;
  /// For engines that take messages: the messages and the tools that may be called. Sampling and
  /// max_tokens are those of this GenerateRequest.
  std::shared_ptr<const message::ChatRequest> chat;
  message::Sampling sampling;
  std::uint32_t max_tokens = 0;  ///< 0: until the context is full.
  bool logprobs = false;
  int top_logprobs = 0;
  /// The answer is watched: tokens say how many the mask allowed (Token::legal), and upstreams pass
  /// on what they send (EventSink::on_upstream).
  bool is_watched = false;
  std::chrono::milliseconds time_limit{0};  ///< 0: no limit.
  /// The part of it that an upstream may take until its first byte; 0: all of it.
  std::chrono::milliseconds first_limit{0};
  /// The language of the answer, in one of two forms, as Capabilities::constrained_by says; null:
  /// any text. The first is over this engine's vocabulary; in the second, markers are text.
  std::shared_ptr<grammar::Grammar> grammar;
  std::shared_ptr<const std::string> printed;
  /// The client asked for the grammar explicitly, so an unconstrained answer is an error.
  bool must_be_constrained = false;
  /// Tokens that end the turn, besides the tokenizer's own. Upstreams that get no grammar end turns
  /// as they know their models.
  std::vector<TokenId> ends;
  /// Texts of the control tokens that are needed to parse the answer, for engines that hide such
  /// tokens; null: none is needed.
  std::shared_ptr<const std::vector<std::string>> markers;
  /// Near max_tokens or the end of the context, only tokens are chosen after which the answer can
  /// still end as the grammar demands. An answer that could never fit is cut as without this.
  bool ends_whole = false;
  /// A value that repeats itself without end is closed, where the grammar lets it end.
  bool closes_loops = false;
  /// An answer that the grammar has completed still gets the token that ends its turn.
  bool ends_with_token = false;
};

/// Whether a run with these GenerateRequest::ends ends with `id`.
[[nodiscard]] inline bool ends_turn(std::span<const TokenId> ends,
                                    const vocab::Tokenizer& tokenizer, TokenId id) {
  return tokenizer.ends_generation(id) || std::ranges::find(ends, id) != ends.end();
}

/// One generated token. `bytes` is valid only during the call; "" for a token that ends the turn.
struct Token {
  TokenId id = 0;
  std::string_view bytes;
  bool is_control = false;
  const message::TokenLogprob* logprob =
      nullptr;  ///< Null unless log probabilities were asked for.
  /// How many tokens the mask allowed, if the request asks and there was a mask; and which of
  /// logprob->top it allowed.
  std::optional<std::uint32_t> legal{};
  std::span<const bool> top_is_legal{};
  /// How many tokens it stands for: more than one if a server held back half of a character.
  std::uint32_t count = 1;
};

/// Why a run ended: `stop` after an end-of-turn token, `length` at max_tokens or a full context,
/// `cancelled` after Run::cancel or at the time limit, `error` with the error.
struct RunEnd {
  message::FinishReason reason = message::FinishReason::stop;
  message::Usage usage;
  Error error{};
  message::Denial denial{};  ///< More about the error, from upstreams.
  /// The whole answer was constrained to the request's grammar; for upstreams, as far as we asked
  /// for it. False without a grammar, and if a limit of the grammar was reached: from there on the
  /// model was unconstrained.
  bool is_constrained = false;
  /// Why a requested grammar was not applied: the upstream refused it; else "".
  std::string unconstrained_because{};
  /// How many values were closed because they repeated themselves (GenerateRequest::closes_loops).
  std::uint32_t closed_loops = 0;
  /// The servers that were asked, in order; empty for an engine in this process.
  std::vector<message::Attempt> attempts{};
};

/// A piece of a call, from an engine that reads its model's calls itself. A member that is "" has
/// come before, or comes later.
struct CallPiece {
  std::uint32_t index = 0;  ///< Which of the answer's calls.
  std::string_view name;
  std::string_view arguments;  ///< A piece of JSON text.
};

/// Receives one run's tokens, from one thread at a time, `on_end` last and exactly once. The calls
/// come from the engine's thread and must not block; a slow consumer calls Run::pause. Views are
/// valid only during the call.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_token(const Token& token) = 0;
  /// Only engines that take messages call these two.
  virtual void on_reasoning(std::string_view /*text*/) {}
  virtual void on_call(const CallPiece& /*piece*/) {}
  /// Only upstreams call it, for requests that are watched, and before what they read in the part.
  virtual void on_upstream(const message::UpstreamPart& /*part*/) {}
  virtual void on_end(const RunEnd& end) = 0;
};

/// A generation under way. Any thread may call. Destroying it cancels; `on_end` is still called.
class Run {
 public:
  virtual ~Run() = default;
  /// Ends the run soon (within 100 ms): no token comes after the one in flight.
  virtual void cancel() = 0;
  /// Stops making tokens until resume(); the run keeps its place.
  virtual void pause() = 0;
  virtual void resume() = 0;
};

struct Capabilities {
  std::string kind;                  ///< "llama", "vllm", ...
  std::uint32_t context_tokens = 0;  ///< Prompt and answer together.
  std::uint32_t max_concurrent = 1;  ///< Runs that advance at the same time.
  bool assumes_concurrent = false;   ///< The server did not tell max_concurrent: a usual number.
  ConstrainedBy constrained_by = ConstrainedBy::none;
  /// An upstream: its tokenizer may ask over the network, and keep its caller waiting.
  bool is_remote = false;
  Takes takes = Takes::tokens;
  /// Its tokenizer knows every text that becomes a control token. If not, data is only kept from
  /// becoming a token that looks like one.
  bool knows_controls = true;
};

/// One server of an upstream engine: its runs since the start, and its state.
struct UpstreamStats {
  std::string url;
  bool is_up = false;              ///< Runs are sent to it.
  std::string trouble{};           ///< Why it is not up; else its last failure; "": no failure yet.
  std::uint32_t running = 0;       ///< Runs there now.
  std::uint64_t answered = 0;      ///< Runs that ended well,
  std::uint64_t refused = 0;       ///< whose request the server refused,
  std::uint64_t failed = 0;        ///< that the server failed,
  std::uint64_t cancelled = 0;     ///< and that were cancelled.
  std::uint64_t first_tokens = 0;  ///< Runs that had a first token.
  std::uint64_t first_token_nanoseconds = 0;  ///< Time from start to first token, summed up.

  bool operator==(const UpstreamStats&) const = default;
};

/// What an engine has done since its start, and what it is doing now.
struct EngineStats {
  std::uint64_t decodes = 0;             ///< Calls of the model.
  std::uint64_t decode_nanoseconds = 0;  ///< Time in those calls.
  std::uint64_t prompt_tokens = 0;       ///< Computed, without those found in the cache.
  std::uint64_t cached_tokens = 0;       ///< Prompt tokens found in the cache.
  std::uint64_t generated_tokens = 0;    ///< Chosen from logits.
  std::uint64_t forced_tokens = 0;       ///< Tokens of answers for which a grammar left no choice.
  std::uint64_t closed_loops = 0;        ///< Values closed because they repeated themselves.
  std::uint64_t guessed_tokens = 0;      ///< Computed before they were chosen.
  std::uint64_t accepted_guesses = 0;    ///< Guessed tokens that were then chosen.
  std::uint64_t preemptions = 0;         ///< Runs that lost their place in the cache for a while.
  std::uint64_t masks = 0;
  std::uint64_t mask_nanoseconds = 0;       ///< Time to make masks, for runs that have ended.
  std::uint64_t mask_wait_nanoseconds = 0;  ///< The part of it after the model was done.
  std::uint32_t running = 0;                ///< Runs in the cache now.
  std::uint32_t waiting = 0;                ///< Runs in the queue now.
  std::uint32_t unfinished = 0;             ///< Runs that were started and have not ended: exact.
  std::vector<UpstreamStats> upstreams;     ///< In the order of the configuration.

  /// Adds the figures of another engine; for servers that both have, the state is that of `other`.
  EngineStats& operator+=(const EngineStats& other);
  /// Clears what describes the present, because the engine is gone.
  void come_to_rest();
};

class Engine {
 public:
  virtual ~Engine() = default;
  [[nodiscard]] virtual const Capabilities& capabilities() const = 0;
  [[nodiscard]] virtual const vocab::Tokenizer& tokenizer() const = 0;
  /// The chat template that came with the model; "" without one.
  [[nodiscard]] virtual std::string_view chat_template() const = 0;

  /// For upstreams, what is known on this side. Thread-safe.
  [[nodiscard]] virtual EngineStats stats() const { return {}; }

  /// Asks an upstream whether it is there and still what it was at the start; may take seconds.
  /// Fails with `unavailable`. Thread-safe.
  [[nodiscard]] virtual Status check() const { return {}; }

  /// Queues a run and returns at once. Fails with limit_exceeded if the prompt leaves no room in
  /// the context (with the numbers) or the queue is full, with `invalid` for an impossible request.
  [[nodiscard]] virtual Expected<std::unique_ptr<Run>> start(GenerateRequest request,
                                                             std::shared_ptr<EventSink> sink) = 0;
};

}  // namespace tenon::engine
