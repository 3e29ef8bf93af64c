#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/grammar.h"
#include "tenon/message/event.h"
#include "tenon/message/message.h"
#include "tenon/vocab/tokenizer.h"

/// What makes tokens: the embedded libllama, or a server upstream. Engines know nothing of tools.
namespace tenon::engine {

using vocab::TokenId;

/// How an engine holds answers to a grammar.
enum class Holding : std::uint8_t {
  none,         ///< Not at all: calls are validated when they have come.
  masks,        ///< Token by token, by GenerateRequest::grammar.
  gbnf,         ///< By GenerateRequest::printed, in the language of llama.cpp.
  ebnf,         ///< By the same, in the language of xgrammar.
  json_schema,  ///< JSON only, by the same: a JSON Schema, or `"json"` for any object.
};

[[nodiscard]] std::string_view holding_name(Holding holding);

/// What a run is started from.
enum class Takes : std::uint8_t {
  tokens,  ///< GenerateRequest::prompt.
  /// GenerateRequest::text alone, in which control tokens are read wherever they are spelled.
  /// Tokens come as text, too.
  text,
  /// GenerateRequest::chat: prompts, and tokens, are the engine's own. It has no chat template and
  /// its tokenizer stands for none; it may say by itself what is reasoning and what are calls.
  messages,
};

[[nodiscard]] std::string_view takes_name(Takes takes);

struct GenerateRequest {
  std::vector<TokenId> prompt;  ///< Never empty, but for engines that take messages.
  /// The same as text; what of it came from outside spells no control token.
  std::string text;
  /// Instead, with the tools that may be called. Sampling and max_tokens are those of this request.
  std::shared_ptr<const message::ChatRequest> chat;
  message::Sampling sampling;
  std::uint32_t max_tokens = 0;  ///< 0: until the context is full.
  bool logprobs = false;
  int top_logprobs = 0;
  std::chrono::milliseconds time_limit{0};  ///< 0: none.
  /// Of it, what an engine that runs elsewhere may take to its first byte; 0: all.
  std::chrono::milliseconds first_limit{0};
  /// What the answer is a text of, in one of two ways, as Capabilities::holding says; null: any
  /// text. The first is over this engine's vocabulary; in the second markers are text.
  std::shared_ptr<grammar::Grammar> grammar;
  std::shared_ptr<const std::string> printed;
  /// It was asked for by name, so that an answer which nothing holds is none.
  bool must_hold = false;
  /// Tokens that end the turn, beside the tokenizer's own. Engines that run elsewhere, and take no
  /// grammar, end turns as they know their models.
  std::vector<TokenId> ends;
  /// Control tokens whose text the answer is read by, for engines that hide such tokens; null:
  /// none.
  std::shared_ptr<const std::vector<std::string>> markers;
  /// Where max_tokens or the context come near, only such tokens are chosen after which the answer
  /// can still become whole, by the grammar. An answer that would not fit whole is cut as without.
  bool ends_whole = false;
};

/// Whether a run with these GenerateRequest::ends ends with `id`.
[[nodiscard]] inline bool ends_turn(std::span<const TokenId> ends,
                                    const vocab::Tokenizer& tokenizer, TokenId id) {
  return tokenizer.ends_generation(id) || std::ranges::find(ends, id) != ends.end();
}

/// One generated token. `bytes` is valid during the call only; "" for a token that ends the turn.
struct Token {
  TokenId id = 0;
  std::string_view bytes;
  bool is_control = false;
  const message::TokenLogprob* logprob = nullptr;  ///< If they were asked for.
  /// Tokens in it: more than one where a server has held back half of a character.
  std::uint32_t count = 1;
};

/// Why a run ended: `stop` after an end-of-turn token, `length` at max_tokens or a full context,
/// `cancelled` after Run::cancel or the time limit, `error` with the error.
struct RunEnd {
  message::FinishReason reason = message::FinishReason::stop;
  message::Usage usage;
  Error error{};
  message::Denial denial{};  ///< More of the error, from engines that run elsewhere.
  /// All of the answer was held to the request's grammar; of engines that run elsewhere, as far as
  /// they were asked to. False without one, and where a limit of the grammar was reached: from
  /// there on the model was free.
  bool is_held = false;
  /// Why nothing was held, although it was asked for: the server elsewhere refused; else "".
  std::string unheld{};
};

/// More of a call, as an engine says it that reads its model's calls itself. What is "" has been
/// said before, or comes later.
struct CallPiece {
  std::uint32_t index = 0;  ///< Which of the answer's calls.
  std::string_view name;
  std::string_view arguments;  ///< JSON text.
};

/// Receives one run's tokens, from one thread at a time, `on_end` last and exactly once. The calls
/// come from the engine's thread and must not block; a slow consumer calls Run::pause. What views
/// show is valid during the call only.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_token(const Token& token) = 0;
  /// These two come from engines that take messages alone.
  virtual void on_reasoning(std::string_view /*text*/) {}
  virtual void on_call(const CallPiece& /*piece*/) {}
  virtual void on_end(const RunEnd& end) = 0;
};

/// A generation under way. Any thread may call. Destroying it cancels; `on_end` still comes.
class Run {
 public:
  virtual ~Run() = default;
  /// Ends the run soon (within 100 ms): no token after the one in flight.
  virtual void cancel() = 0;
  /// Stops making tokens until resume(); the run keeps its place.
  virtual void pause() = 0;
  virtual void resume() = 0;
};

struct Capabilities {
  std::string kind;                  ///< "llama", "vllm", ...
  std::uint32_t context_tokens = 0;  ///< Prompt and answer together.
  std::uint32_t max_concurrent = 1;  ///< Runs that advance at the same time.
  bool assumes_concurrent = false;   ///< Nobody has told the number: it is what is usual.
  Holding holding = Holding::none;
  /// It runs elsewhere: its tokenizer may ask over a network, and keep its caller waiting.
  bool is_remote = false;
  Takes takes = Takes::tokens;
  /// Its tokenizer knows all texts that it makes control tokens of; else only what looks like one
  /// is kept from becoming one in data.
  bool knows_controls = true;
};

/// One server of an engine that runs elsewhere: what it was asked since the start, and how it is.
struct UpstreamStats {
  std::string url;
  bool is_up = false;              ///< Runs go to it.
  std::string trouble{};           ///< Why not; else what it failed with last; "": it never has.
  std::uint32_t running = 0;       ///< Runs there now.
  std::uint64_t answered = 0;      ///< Runs that ended well,
  std::uint64_t refused = 0;       ///< that it found at fault,
  std::uint64_t failed = 0;        ///< that failed by its own fault,
  std::uint64_t cancelled = 0;     ///< and that were cancelled.
  std::uint64_t first_tokens = 0;  ///< Runs that had one.
  std::uint64_t first_token_nanoseconds = 0;  ///< From their starts to it, together.

  bool operator==(const UpstreamStats&) const = default;
};

/// What an engine has done since its start, and what it does now.
struct EngineStats {
  std::uint64_t decodes = 0;             ///< Calls of the model.
  std::uint64_t decode_nanoseconds = 0;  ///< In them.
  std::uint64_t prompt_tokens = 0;       ///< Computed, without those found in the cache.
  std::uint64_t cached_tokens = 0;       ///< Prompt tokens found in the cache.
  std::uint64_t generated_tokens = 0;    ///< Chosen from logits.
  std::uint64_t forced_tokens = 0;       ///< Of answers too, but a grammar left no choice.
  std::uint64_t guessed_tokens = 0;      ///< Computed ahead of their choice.
  std::uint64_t accepted_guesses = 0;    ///< Of them, those that were chosen.
  std::uint64_t preemptions = 0;         ///< Runs that lost their place in the cache for a while.
  std::uint64_t masks = 0;
  std::uint64_t mask_nanoseconds = 0;       ///< Of making them; of runs that have ended.
  std::uint64_t mask_wait_nanoseconds = 0;  ///< Of it, what came after the model was done.
  std::uint32_t running = 0;                ///< Runs in the cache now.
  std::uint32_t waiting = 0;                ///< Runs in the queue now.
  std::uint32_t unfinished = 0;             ///< Runs that were started and have not ended: exact.
  std::vector<UpstreamStats> upstreams;     ///< In the order of the configuration.

  /// Of two engines together; servers of both are as `other` found them.
  EngineStats& operator+=(const EngineStats& other);
  /// Nothing of it is going on any more: the engine is gone.
  void come_to_rest();
};

class Engine {
 public:
  virtual ~Engine() = default;
  [[nodiscard]] virtual const Capabilities& capabilities() const = 0;
  [[nodiscard]] virtual const vocab::Tokenizer& tokenizer() const = 0;
  /// The chat template that came with the model; "" if there is none.
  [[nodiscard]] virtual std::string_view chat_template() const = 0;

  /// Of engines that run elsewhere what is known here. Thread-safe.
  [[nodiscard]] virtual EngineStats stats() const { return {}; }

  /// Asks an engine that runs elsewhere whether it is there and what it was at the start; may take
  /// seconds. Fails with `unavailable`. Thread-safe.
  [[nodiscard]] virtual Status check() const { return {}; }

  /// Queues a run and returns at once. Fails with limit_exceeded where the prompt leaves no room in
  /// the context (with the numbers) or the queue is full, `invalid` for an impossible request.
  [[nodiscard]] virtual Expected<std::unique_ptr<Run>> start(GenerateRequest request,
                                                             std::shared_ptr<EventSink> sink) = 0;
};

}  // namespace tenon::engine
