#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/engine/admission.h"
#include "tenon/engine/engine.h"
#include "tenon/engine/llama/constraint.h"
#include "tenon/engine/llama/decoder.h"
#include "tenon/engine/llama/drafter.h"
#include "tenon/engine/llama/llama_engine.h"
#include "tenon/engine/llama/mask_worker.h"
#include "tenon/engine/llama/sampler.h"
#include "tenon/engine/run_flags.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::engine {

/// Advances all runs over one model, from one thread of its own.
///
/// A run's task stays in one list from start() to its end, so no failure on the way, lack of memory
/// included, can lose it.
///
/// The one idea: a task is a list of tokens, of which the first `done` are in the cache. The tokens
/// that are not done are fed in the next batches, and when all are done the last logits give one
/// token more. So a prompt, a run that lost its place in the cache, and tokens that a grammar
/// forces are the same case, and generating is the case of one token.
class Scheduler {
 public:
  struct Options {
    std::uint32_t context_tokens = 0;  ///< For one run; at most decoder.cache_tokens().
    std::uint32_t max_concurrent = 1;  ///< At most decoder.sequences().
    std::uint32_t queue_limit = 0;
    bool prefix_cache = true;
    bool speculation = true;  ///< Guesses tokens of constrained runs, where that pays.
  };

  /// `tokenizer` outlives this.
  Scheduler(const Options& options, std::unique_ptr<Decoder> decoder,
            const vocab::Tokenizer& tokenizer);
  /// Cancels all runs and waits for their ends.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// `request` must have passed check_request(). Thread-safe.
  [[nodiscard]] Expected<std::unique_ptr<Run>> start(GenerateRequest request,
                                                     std::shared_ptr<EventSink> sink);
  /// Thread-safe.
  [[nodiscard]] EngineStats stats() const;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kNoSlot = static_cast<std::size_t>(-1);

  struct Task {
    Task(GenerateRequest asked, std::shared_ptr<EventSink> to, const vocab::Tokenizer& tokenizer,
         std::uint64_t seed);

    std::size_t pending() const { return tokens.size() - done; }
    bool is_waiting() const { return slot == kNoSlot; }
    bool is_paused() const { return flags->is_paused.load(std::memory_order_acquire); }
    bool is_cancelled() const { return flags->is_cancelled.load(std::memory_order_acquire); }

    std::shared_ptr<EventSink> sink;
    std::shared_ptr<RunFlags> flags = std::make_shared<RunFlags>();
    std::vector<TokenId> tokens;  // prompt and answer
    std::size_t prompt_size;
    std::size_t begun;            // GenerateRequest::begun
    std::size_t most_tokens = 0;  // at this many tokens the answer ends with `length`
    std::size_t done = 0;         // tokens in the cache
    std::size_t slot = kNoSlot;   // kNoSlot: it waits
    bool has_begun = false;       // it had a slot before
    bool is_suspect = false;      // it was in a batch that failed: is decoded alone
    std::uint32_t cached = 0;     // prompt tokens found in the cache
    std::uint32_t answered = 0;   // tokens the sink has seen
    std::vector<TokenId> ends;    // GenerateRequest::ends
    Sampler sampler;
    std::unique_ptr<Constraint> constraint;  // null: any text
    Drafter drafter;
    std::vector<TokenId> draft;  // tokens guessed to follow `tokens`
    std::size_t guessed = 0;     // tokens of `draft` that are in the cache after `done`
    bool wants_logprobs;
    bool ends_with_token;
    bool tells_legal;
    std::size_t top_logprobs;
    std::optional<std::uint32_t>
        legal{};  // how many tokens the mask allowed, of the token that comes next
    std::array<bool, kMaxTopLogprobs> top_is_legal{};  // the first legal_tops of raw_logprobs_.top
    std::size_t legal_tops = 0;
    message::TokenLogprob logprob;  // reused, so that its strings are allocated once
    std::optional<Clock::time_point> deadline;
  };

  /// One sequence of the cache.
  struct Slot {
    Task* task = nullptr;         // null: free, but `tokens` may be of use to a later prompt
    std::vector<TokenId> tokens;  // what the cache has while the slot is free
    std::uint64_t last_used = 0;
  };

  /// The part of the batch that belongs to one task.
  struct Share {
    Task* task;
    std::size_t count;           // tokens fed
    std::size_t guessed = 0;     // tokens of the draft after them
    std::size_t last_index = 0;  // index in the batch of the last of `count`
  };

  /// The common beginning of a task and a slot.
  struct Prefix {
    std::size_t slot = kNoSlot;
    std::size_t size = 0;
  };

  void work();
  void step();
  void take_incoming();
  void end_cancelled(Clock::time_point now, bool closes);
  std::optional<Clock::time_point> next_deadline() const;

  void admit_waiting();
  bool may_join(const Task& task) const;
  bool has_room_for(const Task& task) const;
  static std::span<const TokenId> in_cache(const Slot& slot);
  static std::uint64_t age_of(const Slot& slot);
  std::size_t usable(std::span<const TokenId> cached, const Task& task) const;
  Prefix longest_prefix(const Task& task) const;
  bool is_being_computed(const Task& task) const;
  bool is_wanted_by_another(std::size_t index, const Task& task) const;
  std::size_t choose_slot(const Task& task) const;
  void place(Task& task, std::size_t index);
  void begin(Task& task);
  void preempt(Slot& slot);
  bool preempt_paused();
  bool preempt_youngest();
  bool evict_oldest();
  std::size_t used_cells() const;
  void cut_back(Task& task);
  void lose_cache();

  void build_batch();
  Decoder::Result decode();
  void finish_masks();
  std::size_t plan_shares();
  std::size_t plan_guesses(std::size_t planned);
  std::size_t prompt_budget(bool others_wait) const;
  void learn_speed(Clock::duration took);

  void take_result(Decoder::Result result);
  void take_batch();
  void take_logits(const Share& share);
  bool take_row(Task& task, std::size_t index);
  void take_failure();
  void free_cells();
  void add_token(Task& task, TokenId id);
  bool go_on(Task& task);
  void guess(Task& task);
  void give_token(Task& task, TokenId id);
  [[nodiscard]] bool ends_turn(const Task& task, TokenId id) const {
    return engine::ends_turn(task.ends, tokenizer_, id);
  }
  void look_at(std::span<const std::uint32_t> mask, Task& task);
  void fill_logprob(Task& task, TokenId id);
  void end_full(Task& task);
  void end(Task& task, message::FinishReason reason, Error error = {});
  void leave_slot(Task& task);

  const Options options_;
  const std::unique_ptr<Decoder> decoder_;
  const vocab::Tokenizer& tokenizer_;
  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  std::atomic<bool> is_closing_ = false;

  mutable std::mutex mutex_;
  std::list<Task> incoming_;    // guarded by mutex_
  std::size_t unfinished_ = 0;  // guarded by mutex_
  std::random_device entropy_;  // guarded by mutex_

  // Used by the thread only.
  std::list<Task> tasks_;  // by arrival, both those in slots and those that wait
  std::vector<Slot> slots_;
  std::vector<Decoder::Item> batch_;
  std::vector<Share> shares_;
  SamplerScratch scratch_;
  RawLogprobs raw_logprobs_;
  MaskWorker masks_;
  std::vector<Constraint*> unmasked_;  // constraints that the batch's logits are for
  std::vector<TokenId> forced_;
  std::vector<TokenId> draft_;      // of the task whose logits are read
  std::uint64_t uses_ = 0;          // counter for `last_used`
  double seconds_per_token_ = 0.0;  // for prompts, smoothed; 0: not known yet
  BatchCost generation_cost_;
  bool is_full_ = false;    // a batch found no room, and none was done since: no task joins
  bool can_forget_ = true;  // false: the decoder keeps or copies whole sequences only
  std::uint64_t seen_interrupts_ = 0;
  bool is_interruptible_ = true;  // false in the step after an interrupted one
  const std::function<bool()> must_stop_;

  struct Counters {
    std::atomic<std::uint64_t> decodes = 0, decode_nanoseconds = 0, prompt_tokens = 0,
                               cached_tokens = 0, generated_tokens = 0, forced_tokens = 0,
                               closed_loops = 0, guessed_tokens = 0, accepted_guesses = 0,
                               preemptions = 0, masks = 0, mask_nanoseconds = 0,
                               mask_wait_nanoseconds = 0;
    std::atomic<std::uint32_t> running = 0, waiting = 0;
  };
  Counters counters_;

  std::thread thread_;  // last: it uses the members above
};

}  // namespace tenon::engine
