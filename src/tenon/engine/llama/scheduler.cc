#include "tenon/engine/llama/scheduler.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <exception>
#include <span>
#include <string>
#include <utility>

#include "tenon/base/crash.h"
#include "tenon/base/log.h"
#include "tenon/engine/admission.h"

// How a step goes
//
// scheduler.h has the one idea: a task is a list of tokens of which the first `done` are in the
// cache. Each step (step()):
//  1. admit_waiting() gives free slots to waiting tasks, and lets them begin with tokens that a
//     slot has already: their own conversation, or a beginning that another conversation shares.
//  2. build_batch() plans: one token for each run that generates, guessed tokens after it where
//     they pay (drafter.h), and shares of the prompts in what is left. If the plan does not fit
//     into the cache, old tokens are evicted first, then the youngest run is preempted; it keeps
//     its list of tokens and is computed again later.
//  3. decode() runs the model, while MaskWorker makes the masks for its logits.
//  4. take_result() reads the logits: take_row() samples, take_logits() goes on as long as guesses
//     came true, go_on() adds the tokens that a grammar forces.
// Every failure leads back to the same state: cut_back() makes the cache agree with `done`, and
// lose_cache() sets `done` to 0, so that the next steps compute the tokens again.
namespace tenon::engine {
namespace {

using message::FinishReason;

// While others generate, a step with a prompt in it should not take longer than this, because they
// and any cancellation wait for it.
constexpr double kStepSeconds = 0.05;
// Fewer prompt tokens would waste most of a matrix kernel: 16 at a time cost five times as much per
// token as 512 (engine_bench prompt/8 over the bundled model, 2,255 ms of CPU against 434).
constexpr std::size_t kLeastPromptShare = 64;
// A task that joins must find room for at least this many tokens more than it has, or it would be
// preempted again at once.
constexpr std::size_t kHeadroom = 32;
// A new prompt continues in a free slot if it keeps this share of the slot's tokens: then it is the
// next turn of the same conversation. With less, the slot is left to its conversation, and what
// both share, often a list of tools, is copied.
constexpr double kSameConversation = 0.9;
// Fewer tokens are computed as fast as they are copied: a divided cache copies the whole sequence
// (up to 64 MiB, some 10 ms). A task does not wait either until another run has computed fewer.
constexpr std::size_t kWorthCopying = 32;

std::size_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const std::size_t most = std::min(a.size(), b.size());
  return static_cast<std::size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(most), b.begin()).first -
      a.begin());
}

void add(std::atomic<std::uint64_t>& counter, std::size_t value) {
  counter.fetch_add(value, std::memory_order_relaxed);
}

}  // namespace

Scheduler::Task::Task(GenerateRequest asked, std::shared_ptr<EventSink> to,
                      const vocab::Tokenizer& tokenizer, std::uint64_t seed)
    : sink(std::move(to)),
      tokens(std::move(asked.prompt)),
      prompt_size(tokens.size()),
      begun(asked.begun),
      ends(std::move(asked.ends)),
      sampler(asked.sampling, tokenizer.size(), seed),
      constraint(asked.grammar == nullptr
                     ? nullptr
                     : std::make_unique<Constraint>(
                           std::move(asked.grammar), tokenizer,
                           Constraint::Options{.ends_whole = asked.ends_whole,
                                               .closes_repetitions = asked.closes_loops})),
      wants_logprobs(asked.logprobs),
      ends_with_token(asked.ends_with_token),
      tells_legal(asked.is_watched),
      top_logprobs(static_cast<std::size_t>(asked.top_logprobs)) {
  if (constraint == nullptr) return;
  for (const TokenId id : std::span(tokens).last(begun)) constraint->accept(id);
}

Scheduler::Scheduler(const Options& options, std::unique_ptr<Decoder> decoder,
                     const vocab::Tokenizer& tokenizer)
    : options_(options),
      decoder_(std::move(decoder)),
      tokenizer_(tokenizer),
      slots_(options.max_concurrent),
      must_stop_([this] { return is_interruptible_ && bell_->interrupts() != seen_interrupts_; }) {
  assert(options_.context_tokens <= decoder_->cache_tokens());
  assert(options_.max_concurrent <= decoder_->sequences());
  batch_.reserve(decoder_->batch_tokens());
  shares_.reserve(slots_.size());
  unmasked_.reserve(slots_.size());
  thread_ = std::thread([this] { work(); });
}

Scheduler::~Scheduler() {
  is_closing_ = true;
  bell_->interrupt();
  thread_.join();
}

// The task is made in a list of its own and spliced in, so that a failed allocation leaves the
// queue as it was. The number of tokens is bounded by the context at once; later code relies on
// that.
Expected<std::unique_ptr<Run>> Scheduler::start(GenerateRequest request,
                                                std::shared_ptr<EventSink> sink) {
  const std::size_t room = options_.context_tokens - request.prompt.size();
  const std::size_t answer =
      request.max_tokens == 0 ? room : std::min<std::size_t>(room, request.max_tokens);
  const auto time_limit = request.time_limit;
  auto run = [&]() -> Expected<std::unique_ptr<Run>> {
    const std::lock_guard lock(mutex_);
    if (unfinished_ >= options_.max_concurrent + options_.queue_limit) {
      return Unexpected(queue_is_full(options_.queue_limit));
    }
    const std::uint64_t seed = request.sampling.seed.value_or((std::uint64_t{entropy_()} << 32) |
                                                              std::uint64_t{entropy_()});
    std::list<Task> one;
    Task& task = one.emplace_back(std::move(request), std::move(sink), tokenizer_, seed);
    task.most_tokens = task.prompt_size + answer;
    if (time_limit.count() > 0) task.deadline = Clock::now() + time_limit;
    auto handle = std::make_unique<FlagRun>(task.flags, bell_);
    incoming_.splice(incoming_.end(), one);
    ++unfinished_;
    return handle;
  }();
  if (run) bell_->ring();
  return run;
}

// Counters are read one by one while the thread goes on, so they need not agree with each other.
EngineStats Scheduler::stats() const {
  const auto read = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
  const auto unfinished = [this] {
    const std::lock_guard lock(mutex_);
    return static_cast<std::uint32_t>(unfinished_);
  };
  return {.decodes = read(counters_.decodes),
          .decode_nanoseconds = read(counters_.decode_nanoseconds),
          .prompt_tokens = read(counters_.prompt_tokens),
          .cached_tokens = read(counters_.cached_tokens),
          .generated_tokens = read(counters_.generated_tokens),
          .forced_tokens = read(counters_.forced_tokens),
          .closed_loops = read(counters_.closed_loops),
          .guessed_tokens = read(counters_.guessed_tokens),
          .accepted_guesses = read(counters_.accepted_guesses),
          .preemptions = read(counters_.preemptions),
          .masks = read(counters_.masks),
          .mask_nanoseconds = read(counters_.mask_nanoseconds),
          .mask_wait_nanoseconds = read(counters_.mask_wait_nanoseconds),
          .running = read(counters_.running),
          .waiting = read(counters_.waiting),
          .unfinished = unfinished()};
}

// The scheduler's thread. One step is one batch for all runs. Interrupts that ring while a batch is
// computed abort it if it is interruptible; those that rang before it are seen here.
void Scheduler::work() {
  const crash::ThreadStack stack;
  while (true) {
    const bool closes = is_closing_;  // read first: runs started before are in `incoming_`
    seen_interrupts_ = bell_->interrupts();
    take_incoming();
    end_cancelled(Clock::now(), closes);
    if (closes) return;
    try {
      step();
    } catch (const std::exception& error) {  // out of memory: gives up what holds most of it,
      log::error(error.what());              // without an allocation
      for (const Slot& slot : slots_) {
        if (slot.task == nullptr) continue;
        end(*slot.task, FinishReason::error, {Errc::unavailable, "out of memory"});
      }
      lose_cache();
    }
  }
}

/// Computes one batch, or sleeps until there is something to do.
void Scheduler::step() {
  admit_waiting();
  build_batch();
  const auto waiting = std::count_if(tasks_.begin(), tasks_.end(),
                                     [](const Task& task) { return task.is_waiting(); });
  counters_.waiting.store(static_cast<std::uint32_t>(waiting), std::memory_order_relaxed);
  counters_.running.store(
      static_cast<std::uint32_t>(tasks_.size()) - static_cast<std::uint32_t>(waiting),
      std::memory_order_relaxed);
  if (batch_.empty()) {
    bell_->wait(next_deadline());
    return;
  }
  const auto begin = Clock::now();
  const Decoder::Result result = decode();
  // If it stayed interruptible, a client that keeps cancelling could stop every step of the others.
  is_interruptible_ = result != Decoder::Result::interrupted;
  if (result == Decoder::Result::done) learn_speed(Clock::now() - begin);
  take_result(result);
}

void Scheduler::take_incoming() {
  const std::lock_guard lock(mutex_);
  tasks_.splice(tasks_.end(), incoming_);
}

void Scheduler::end_cancelled(Clock::time_point now, bool closes) {
  for (auto next = tasks_.begin(); next != tasks_.end();) {
    Task& task = *next++;
    const bool must_end = closes || task.is_cancelled() || (task.deadline && now >= *task.deadline);
    if (must_end) end(task, FinishReason::cancelled);
  }
}

std::optional<Scheduler::Clock::time_point> Scheduler::next_deadline() const {
  std::optional<Clock::time_point> next;
  for (const Task& task : tasks_) {
    if (task.deadline) next = next ? std::min(*next, *task.deadline) : *task.deadline;
  }
  return next;
}

// ---- Places in the cache ----

/// First come, first served: no task overtakes the first one that finds no room. A paused task
/// wants no place, and gives its own to waiting tasks. A task whose prompt another run is computing
/// right now waits for that, and lets others go first.
void Scheduler::admit_waiting() {
  const auto runs = [](const Slot& slot) {
    return slot.task != nullptr && !slot.task->is_paused();
  };
  // The decoder had less room than it says: until a batch has been computed, no task joins.
  if (is_full_ && std::ranges::any_of(slots_, runs)) return;
  std::size_t looks = slots_.size();
  for (auto next = tasks_.begin(); next != tasks_.end();) {
    Task& task = *next++;
    if (!task.is_waiting() || task.is_paused()) continue;
    if (!may_join(task)) return;  // tested first: the search for prefixes is slow
    if (is_being_computed(task)) {
      if (--looks == 0) return;
      continue;
    }
    std::size_t index = choose_slot(task);
    while (index == kNoSlot || !has_room_for(task)) {
      if (!preempt_paused()) return;
      index = choose_slot(task);
    }
    place(task, index);
    if (!task.has_begun) begin(task);
  }
}

/// Whether there is a free place with room, or a paused task that can give one up.
bool Scheduler::may_join(const Task& task) const {
  bool has_free = false;
  for (const Slot& slot : slots_) {
    if (slot.task != nullptr && slot.task->is_paused()) return true;
    has_free = has_free || slot.task == nullptr;
  }
  return has_free && has_room_for(task);
}

/// Whether the task and all running ones fit into the cache, as far as their tokens are known.
bool Scheduler::has_room_for(const Task& task) const {
  std::size_t needed =
      std::min<std::size_t>(task.tokens.size() + kHeadroom, options_.context_tokens);
  for (const Slot& slot : slots_) {
    if (slot.task) needed += slot.task->tokens.size();
  }
  return needed <= decoder_->cache_tokens();
}

std::span<const TokenId> Scheduler::in_cache(const Slot& slot) {
  if (slot.task == nullptr) return slot.tokens;
  return std::span(slot.task->tokens).first(slot.task->done);
}

/// How many of the `cached` tokens the task can begin with. Its last token is computed in any case,
/// because logits are not kept.
std::size_t Scheduler::usable(std::span<const TokenId> cached, const Task& task) const {
  if (!options_.prefix_cache) return 0;
  const std::size_t size = std::min(common_prefix(cached, task.tokens), task.tokens.size() - 1);
  return can_forget_ || size == cached.size() ? size : 0;
}

/// The slot, free or not, that has the longest beginning of the task.
Scheduler::Prefix Scheduler::longest_prefix(const Task& task) const {
  Prefix best;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const std::size_t size = usable(in_cache(slots_[i]), task);
    if (size > best.size) best = {i, size};
  }
  return best;
}

/// Whether a run is about to compute more of the task's beginning than the cache has now. False if
/// the decoder cannot copy a part of a sequence, since then waiting would be useless.
bool Scheduler::is_being_computed(const Task& task) const {
  if (!options_.prefix_cache || !can_forget_) return false;
  const std::size_t now = longest_prefix(task).size;
  return std::ranges::any_of(slots_, [&](const Slot& slot) {
    const Task* const other = slot.task;
    if (other == nullptr || other->done >= other->prompt_size || other->is_paused()) return false;
    const auto prompt = std::span(other->tokens).first(other->prompt_size);
    const std::size_t soon = common_prefix(prompt, task.tokens);
    return soon > other->done && soon >= now + kWorthCopying;
  });
}

/// The free slot that has the conversation so far, or else the one that was used longest ago; slots
/// that another waiting task would continue come last.
std::size_t Scheduler::choose_slot(const Task& task) const {
  const Prefix best = longest_prefix(task);
  if (best.slot != kNoSlot && slots_[best.slot].task == nullptr &&
      static_cast<double>(best.size) >=
          kSameConversation * static_cast<double>(slots_[best.slot].tokens.size())) {
    return best.slot;
  }
  std::size_t oldest = kNoSlot;
  bool is_oldest_wanted = false;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].task) continue;
    const bool is_wanted = is_wanted_by_another(i, task);
    const bool is_better =
        oldest == kNoSlot || (is_oldest_wanted && !is_wanted) ||
        (is_oldest_wanted == is_wanted && age_of(slots_[i]) < age_of(slots_[oldest]));
    if (!is_better) continue;
    oldest = i;
    is_oldest_wanted = is_wanted;
  }
  return oldest;
}

/// Empty slots count as the oldest.
std::uint64_t Scheduler::age_of(const Slot& slot) {
  return slot.tokens.empty() ? 0 : slot.last_used;
}

/// Whether one of the first few waiting tasks would find most of its prompt in the slot.
bool Scheduler::is_wanted_by_another(std::size_t index, const Task& task) const {
  const std::span<const TokenId> tokens = slots_[index].tokens;
  if (tokens.empty()) return false;
  std::size_t looks = slots_.size();
  for (const Task& other : tasks_) {
    if (!other.is_waiting() || &other == &task) continue;
    if (looks-- == 0) return false;
    if (2 * common_prefix(tokens, other.tokens) > other.tokens.size()) return true;
  }
  return false;
}

// Puts a task into a slot and takes what the cache has for it: the slot's own tokens stay where
// they are, and a longer common beginning in another slot is copied within the cache, if that saves
// more than a copy costs.
void Scheduler::place(Task& task, std::size_t index) {
  Slot& slot = slots_[index];
  slot.task = &task;  // first: a task in a slot is ended if the rest throws
  task.slot = index;
  task.done = 0;
  if (!decoder_->reserve(static_cast<std::uint32_t>(task.tokens.size()))) lose_cache();
  const std::size_t own = usable(slot.tokens, task);
  const Prefix other = longest_prefix(task);  // in another slot: in this one `done` is still 0
  if (other.size >= own + kWorthCopying) {
    const bool is_there =
        decoder_->copy(static_cast<std::int32_t>(other.slot), static_cast<std::int32_t>(index),
                       static_cast<std::int32_t>(other.size));
    task.done = is_there ? other.size : 0;
    can_forget_ = can_forget_ && is_there;
  } else {
    task.done = own;
    if (own < slot.tokens.size()) cut_back(task);
  }
  slot.tokens.clear();
}

void Scheduler::begin(Task& task) {
  task.has_begun = true;
  task.cached = static_cast<std::uint32_t>(task.done);
  const std::size_t prompt = task.prompt_size - task.begun;
  task.sampler.see_prompt(std::span(task.tokens).first(prompt));
  for (std::size_t i = prompt; i < task.prompt_size; ++i) task.sampler.see_answer(task.tokens[i]);
  task.tokens.reserve(task.most_tokens);
  add(counters_.cached_tokens, task.cached);
  go_on(task);
}

/// Takes the slot away from its task, which waits again. The task's tokens stay in the cache until
/// the room is needed.
void Scheduler::preempt(Slot& slot) {
  Task& task = *slot.task;
  slot.tokens.assign(task.tokens.begin(),
                     task.tokens.begin() + static_cast<std::ptrdiff_t>(task.done));
  slot.last_used = 0;
  slot.task = nullptr;
  task.slot = kNoSlot;
  task.done = 0;
  add(counters_.preemptions, 1);
}

bool Scheduler::preempt_paused() {
  const auto paused = std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) {
    return slot.task != nullptr && slot.task->is_paused();
  });
  if (paused == slots_.end()) return false;
  preempt(*paused);
  return true;
}

/// If there are several tasks, preempts a paused one or else the youngest. False: only one is left.
bool Scheduler::preempt_youngest() {
  if (preempt_paused()) return true;
  const auto runs = [](const Task& task) { return !task.is_waiting(); };
  if (std::count_if(tasks_.begin(), tasks_.end(), runs) < 2) return false;
  const auto youngest = std::find_if(tasks_.rbegin(), tasks_.rend(), runs);
  preempt(slots_[youngest->slot]);
  return true;
}

/// Forgets the tokens without a task that were used longest ago. False: there are no such tokens.
bool Scheduler::evict_oldest() {
  Slot* oldest = nullptr;
  for (Slot& slot : slots_) {
    if (slot.task || slot.tokens.empty()) continue;
    if (oldest == nullptr || slot.last_used < oldest->last_used) oldest = &slot;
  }
  if (oldest == nullptr) return false;
  oldest->tokens.clear();
  static_cast<void>(
      decoder_->truncate(static_cast<std::int32_t>(oldest - slots_.data()), /*from=*/0));
  return true;
}

std::size_t Scheduler::used_cells() const {
  std::size_t used = 0;
  for (const Slot& slot : slots_) used += slot.task ? slot.task->done : slot.tokens.size();
  return used;
}

/// Removes from the cache what is beyond task.done.
void Scheduler::cut_back(Task& task) {
  task.guessed = 0;
  if (!decoder_->truncate(static_cast<std::int32_t>(task.slot),
                          static_cast<std::int32_t>(task.done))) {
    task.done = 0;
    can_forget_ = false;
  }
}

void Scheduler::lose_cache() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].tokens.clear();
    if (slots_[i].task) slots_[i].task->done = slots_[i].task->guessed = 0;
    static_cast<void>(decoder_->truncate(static_cast<std::int32_t>(i), /*from=*/0));
  }
}

// ---- One step ----

/// Plans until the plan fits into the cache, then fills the batch. One task alone always fits,
/// because no context is larger than the cache.
void Scheduler::build_batch() {
  while (used_cells() + plan_shares() > decoder_->cache_tokens()) {
    if (!evict_oldest() && !preempt_youngest()) break;
  }
  // Sorted by sequence, because libllama computes neighbouring sequences together.
  std::sort(shares_.begin(), shares_.end(),
            [](const Share& a, const Share& b) { return a.task->slot < b.task->slot; });
  batch_.clear();
  for (Share& share : shares_) {
    Task& task = *share.task;
    // Cuts the guess to what the batch has room for and the grammar allows.
    task.draft.resize(share.guessed);
    if (!task.draft.empty()) task.constraint->expect(task.draft);
    share.guessed = task.draft.size();
    for (std::size_t position = task.done; position < task.done + share.count; ++position) {
      batch_.push_back({.token = task.tokens[position],
                        .position = static_cast<std::int32_t>(position),
                        .sequence = static_cast<std::int32_t>(task.slot),
                        .wants_logits = position + 1 == task.tokens.size()});
    }
    share.last_index = batch_.size() - 1;
    for (std::size_t i = 0; i < share.guessed; ++i) {
      batch_.push_back({.token = task.draft[i],
                        .position = static_cast<std::int32_t>(task.tokens.size() + i),
                        .sequence = static_cast<std::int32_t>(task.slot),
                        .wants_logits = true});
    }
  }
}

void Scheduler::finish_masks() {
  if (unmasked_.empty()) return;
  const auto begin = Clock::now();
  masks_.finish();
  const Clock::duration waited = Clock::now() - begin;
  add(counters_.mask_wait_nanoseconds, static_cast<std::size_t>(waited.count()));
  for (const Constraint* constraint : unmasked_) add(counters_.masks, constraint->masks_made());
}

/// Runs the model; the masks for the batch's logits are made meanwhile.
Decoder::Result Scheduler::decode() {
  unmasked_.clear();
  for (const Share& share : shares_) {
    if (share.task->constraint != nullptr && share.count == share.task->pending()) {
      unmasked_.push_back(share.task->constraint.get());
    }
  }
  masks_.begin(unmasked_);
  struct Finish {  // runs also if decode() throws
    Scheduler& self;
    ~Finish() { self.finish_masks(); }
  } const finish{*this};
  const auto begin = Clock::now();
  const Decoder::Result result = decoder_->decode(batch_, must_stop_);
  const Clock::duration took = Clock::now() - begin;
  add(counters_.decodes, 1);
  add(counters_.decode_nanoseconds, static_cast<std::size_t>(took.count()));
  return result;
}

/// Fills `shares_` and returns the number of tokens: one token for each run that generates, then
/// equal shares of the budget for the prompts. The shortest prompt comes first, so that what it
/// does not need goes to the others.
std::size_t Scheduler::plan_shares() {
  shares_.clear();
  for (const Slot& slot : slots_) {
    if (!slot.task || slot.task->is_paused()) continue;
    if (slot.task->is_suspect) {
      shares_.assign(1, {slot.task, slot.task->pending()});
      break;
    }
    shares_.push_back({slot.task, slot.task->pending()});
  }
  std::sort(shares_.begin(), shares_.end(),
            [](const Share& a, const Share& b) { return a.count < b.count; });

  std::size_t planned = 0;
  std::size_t budget = 0;
  std::size_t prompts = 0;
  for (Share& share : shares_) {
    if (share.count > 1) {
      if (prompts == 0) {
        prompts = static_cast<std::size_t>(&shares_.back() - &share) + 1;
        budget = std::min(prompt_budget(/*others_wait=*/planned > 0),
                          decoder_->batch_tokens() - planned);
      }
      share.count = std::min(share.count, std::max<std::size_t>(budget / prompts, 1));
      share.count = std::min(share.count, budget);
      budget -= share.count;
      --prompts;
    }
    planned += share.count;
  }
  std::erase_if(shares_, [](const Share& share) { return share.count == 0; });
  return plan_guesses(planned);
}

/// Adds the guessed tokens of runs that generate, as far as they are worth it and there is room.
/// Returns the number of tokens.
std::size_t Scheduler::plan_guesses(std::size_t planned) {
  const auto left = [](std::size_t most, std::size_t taken) {
    return most - std::min(taken, most);
  };
  std::size_t room = std::min({left(decoder_->batch_rows(), shares_.size()),
                               left(decoder_->batch_tokens(), planned),
                               left(decoder_->cache_tokens(), used_cells() + planned)});
  for (Share& share : shares_) {
    const Task& task = *share.task;
    if (task.is_suspect || share.count != task.pending()) continue;
    share.guessed = std::min(task.draft.size(), room);
    room -= share.guessed;
    planned += share.guessed;
  }
  return planned;
}

/// How many prompt tokens the next batch may have: a full batch, unless other runs generate and
/// wait for it, or it cannot be interrupted.
std::size_t Scheduler::prompt_budget(bool others_wait) const {
  const std::size_t most = decoder_->batch_tokens();
  if (!others_wait && is_interruptible_) return most;
  if (seconds_per_token_ <= 0.0) {
    return is_interruptible_ ? most : std::min(kLeastPromptShare, most);
  }
  const double tokens = std::min(kStepSeconds / seconds_per_token_, static_cast<double>(most));
  return std::max(static_cast<std::size_t>(tokens), std::min(kLeastPromptShare, most));
}

void Scheduler::learn_speed(Clock::duration took) {
  if (batch_.size() < kLeastPromptShare) {  // generation, whose cost per token is another
    generation_cost_.learn(batch_.size(), std::chrono::duration<double>(took).count());
    return;
  }
  const double per_token =
      std::chrono::duration<double>(took).count() / static_cast<double>(batch_.size());
  seconds_per_token_ =
      seconds_per_token_ <= 0.0 ? per_token : 0.7 * seconds_per_token_ + 0.3 * per_token;
}

// A decoder without room is no failure: cells of idle slots are freed, or a run is preempted and
// goes on later. `interrupted` gives back what the batch would have added. After `reset` the cache
// is gone, whatever was in it.
void Scheduler::take_result(Decoder::Result result) {
  switch (result) {
    case Decoder::Result::done:
      return take_batch();
    case Decoder::Result::no_room:
      return free_cells();
    case Decoder::Result::emptied:
      return lose_cache();
    case Decoder::Result::interrupted:
      for (const Share& share : shares_) cut_back(*share.task);
      return;
    case Decoder::Result::failed:
      for (const Share& share : shares_) cut_back(*share.task);
      return take_failure();
    case Decoder::Result::reset:
      lose_cache();
      return take_failure();
  }
}

// What the batch has computed now counts. Only shares that have reached the end of their tokens
// have logits to sample from; long prompts take several batches.
void Scheduler::take_batch() {
  is_full_ = false;
  for (const Share& share : shares_) {
    Task& task = *share.task;
    const std::size_t before = std::min(task.done, task.prompt_size);
    task.done += share.count;
    task.guessed = share.guessed;
    task.is_suspect = false;
    add(counters_.prompt_tokens, std::min(task.done, task.prompt_size) - before);
    if (task.pending() == 0) take_logits(share);
  }
}

/// Takes one token from each row of logits as long as it is the guessed one.
void Scheduler::take_logits(const Share& share) {
  Task& task = *share.task;
  const std::size_t begin = task.tokens.size();
  std::swap(draft_, task.draft);
  task.draft.clear();
  std::size_t accepted = 0;
  add(counters_.guessed_tokens, share.guessed);
  while (true) {
    if (!take_row(task, share.last_index + accepted)) return;
    while (accepted < share.guessed && begin + accepted < task.tokens.size() &&
           task.tokens[begin + accepted] == draft_[accepted]) {
      ++accepted;
      ++task.done;
      --task.guessed;
      add(counters_.accepted_guesses, 1);
    }
    // Logits after a guess are useful only if exactly the guessed token came.
    if (task.pending() > 0 || (task.constraint && !task.constraint->has_mask())) break;
  }
  if (task.pending() == 0) {
    // A guess came true, but there was no mask after it: its token is computed again, with a mask.
    --task.done;
    ++task.guessed;
  }
  if (task.guessed > 0) cut_back(task);
  if (share.guessed == 0) {
    task.drafter.forget();
  } else {
    task.drafter.learn(share.guessed, accepted);
  }
  guess(task);
}

/// Adds the token that row `index` gives, and what follows from it. False: the task was destroyed,
/// or is about to end.
bool Scheduler::take_row(Task& task, std::size_t index) {
  if (task.is_cancelled()) return false;  // it ends before the next step
  const std::span<const std::uint32_t> mask =
      task.constraint ? task.constraint->mask() : std::span<const std::uint32_t>();
  RawLogprobs* const logprobs = task.wants_logprobs ? &raw_logprobs_ : nullptr;
  auto id =
      task.sampler.sample(decoder_->logits(index), scratch_, mask, logprobs, task.top_logprobs);
  if (!id) {
    end(task, FinishReason::error, {Errc::unavailable, "the model's output is not a number"});
    return false;
  }
  if (task.constraint) {
    const TokenId chosen = *id;
    id = task.constraint->next(chosen, task.most_tokens - task.tokens.size());
    if (!id) {
      end_full(task);
      return false;
    }
    if (*id != chosen) task.sampler.take_instead(chosen, *id, scratch_, logprobs);
  }
  add(counters_.generated_tokens, 1);
  if (task.tells_legal) look_at(mask, task);
  add_token(task, *id);
  if (ends_turn(task, *id)) {
    end(task, FinishReason::stop);
    return false;
  }
  if (task.constraint) task.constraint->accept(*id);
  return go_on(task);
}

/// Adds the tokens that the grammar forces. False: the answer is complete and the task was
/// destroyed, or it is about to end.
bool Scheduler::go_on(Task& task) {
  // A client that wants log probabilities wants them for all tokens, so none is forced.
  if (task.constraint && !task.wants_logprobs) {
    task.constraint->take_forced(forced_, task.most_tokens - task.tokens.size());
    add(counters_.forced_tokens, forced_.size());
    for (const TokenId id : forced_) {
      if (task.is_cancelled()) return false;  // the sink has cancelled it
      task.sampler.see_answer(id);
      task.legal = 1;
      add_token(task, id);
      if (ends_turn(task, id)) {
        end(task, FinishReason::stop);
        return false;
      }
    }
  }
  const bool is_whole = task.constraint && !task.ends_with_token && task.constraint->is_complete();
  if (!is_whole && task.tokens.size() < task.most_tokens) return true;
  if (is_whole) {
    end(task, FinishReason::stop);
  } else {
    end_full(task);
  }
  return false;
}

/// Ends a task that has no room for another token. Destroys the task.
void Scheduler::end_full(Task& task) {
  const bool is_whole = task.constraint && task.constraint->is_closed();
  end(task, is_whole ? FinishReason::stop : FinishReason::length);
}

/// Guesses only for constrained answers: other answers stay the same to the last bit.
void Scheduler::guess(Task& task) {
  if (!options_.speculation || !can_forget_) return;
  if (!task.constraint || task.constraint->is_free()) return;
  if (!generation_cost_.is_worth(task.drafter.hope(), shares_.size())) return;
  task.drafter.guess(task.tokens, task.most_tokens - task.tokens.size() - 1, task.draft);
  const auto end =
      std::ranges::find_if(task.draft, [&](TokenId id) { return ends_turn(task, id); });
  task.draft.erase(end, task.draft.end());
}

void Scheduler::add_token(Task& task, TokenId id) {
  task.tokens.push_back(id);
  ++task.answered;
  give_token(task, id);
}

/// A failure is certainly the task's own only if it was alone, and without guesses. Otherwise each
/// task is tried by itself, without guesses.
void Scheduler::take_failure() {
  if (shares_.size() == 1 && shares_.front().guessed == 0) {
    return end(*shares_.front().task, FinishReason::error,
               {Errc::unavailable, "the model could not compute this request"});
  }
  for (const Share& share : shares_) share.task->is_suspect = true;
}

/// The cache has less room than it said: gives up guesses, then old tokens, then runs.
void Scheduler::free_cells() {
  bool has_guesses = false;
  for (const Share& share : shares_) {
    has_guesses = has_guesses || share.guessed > 0;
    share.task->draft.clear();
  }
  if (has_guesses || evict_oldest()) return;
  is_full_ = true;
  if (preempt_youngest()) {
    evict_oldest();
    return;
  }
  end(*shares_.front().task, FinishReason::error,
      {Errc::limit_exceeded, "the model's cache has no room for this request"});
}

// ---- What the sinks see ----

// The token that ends the turn is told without bytes: it is counted, but is not part of the text.
void Scheduler::give_token(Task& task, TokenId id) {
  Token token{.id = id, .is_control = tokenizer_.is_control(id)};
  if (!ends_turn(task, id)) token.bytes = tokenizer_.bytes(id);
  if (task.wants_logprobs) {
    fill_logprob(task, id);
    token.logprob = &task.logprob;
  }
  if (task.tells_legal) {
    token.legal = task.legal;
    token.top_is_legal = {task.top_is_legal.data(), task.legal_tops};
  }
  task.sink->on_token(token);
}

/// Notes for the next token what the mask allows.
void Scheduler::look_at(std::span<const std::uint32_t> mask, Task& task) {
  task.legal.reset();
  task.legal_tops = 0;
  if (mask.empty()) return;
  std::uint32_t count = 0;
  for (const std::uint32_t word : mask) count += static_cast<std::uint32_t>(std::popcount(word));
  task.legal = count;
  if (!task.wants_logprobs) return;
  task.legal_tops = std::min(raw_logprobs_.top.size(), task.top_is_legal.size());
  for (std::size_t i = 0; i < task.legal_tops; ++i) {
    const auto id = static_cast<std::uint32_t>(raw_logprobs_.top[i].first);
    task.top_is_legal[i] = (mask[id / 32] >> id % 32 & 1U) != 0;
  }
}

void Scheduler::fill_logprob(Task& task, TokenId id) {
  task.logprob.bytes = tokenizer_.bytes(id);
  task.logprob.logprob = raw_logprobs_.chosen;
  task.logprob.top.resize(raw_logprobs_.top.size());
  for (std::size_t i = 0; i < raw_logprobs_.top.size(); ++i) {
    task.logprob.top[i].first = tokenizer_.bytes(raw_logprobs_.top[i].first);
    task.logprob.top[i].second = raw_logprobs_.top[i].second;
  }
}

/// Destroys `task`.
void Scheduler::end(Task& task, FinishReason reason, Error error) {
  if (!task.is_waiting()) leave_slot(task);
  RunEnd ended{.reason = reason, .error = std::move(error)};
  if (task.constraint) {
    add(counters_.mask_nanoseconds, static_cast<std::size_t>(task.constraint->mask_time().count()));
    ended.closed_loops = task.constraint->closed_repetitions();
    add(counters_.closed_loops, ended.closed_loops);
  }
  ended.is_constrained = task.constraint != nullptr && !task.constraint->is_free();
  ended.usage.prompt_tokens = static_cast<std::uint32_t>(task.prompt_size);
  ended.usage.completion_tokens = task.answered;
  ended.usage.cached_tokens = task.cached;
  task.flags->is_over.store(true, std::memory_order_release);
  {
    const std::lock_guard lock(mutex_);
    --unfinished_;  // first: a sink that hears of the end may start the next run at once
  }
  task.sink->on_end(ended);
  tasks_.remove_if([&task](const Task& each) { return &each == &task; });
}

// The slot keeps its tokens, so that the next turn of a conversation finds them. Guesses that were
// not accepted are cut off first, since they are not part of the text.
void Scheduler::leave_slot(Task& task) {
  Slot& slot = slots_[task.slot];
  slot.task = nullptr;
  if (task.guessed > 0) cut_back(task);
  slot.tokens = std::move(task.tokens);
  slot.tokens.resize(task.done);
  slot.last_used = ++uses_;
  if (!options_.prefix_cache) {  // tokens left in the cache would slow down attention for others
    slot.tokens.clear();
    static_cast<void>(decoder_->truncate(static_cast<std::int32_t>(task.slot), /*from=*/0));
  }
}

}  // namespace tenon::engine
