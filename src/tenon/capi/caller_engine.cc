#include "tenon/capi/caller_engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tenon/base/log.h"
#include "tenon/base/utf8.h"
#include "tenon/capi/handle.h"
#include "tenon/capi/matcher.h"
#include "tenon/engine/admission.h"
#include "tenon/engine/run_flags.h"
#include "tenon/engine/sampling_fields.h"
#include "tenon/json/value.h"

// An engine in the caller's hands
//
// start() puts a generation into `incoming`; the engine's thread (work) takes it to `waiting`, and
// to `begun` when the caller has room, where functions.start hands it to the caller. From then on
// two sides hold it: the reader's side is the sink, the caller's is `self`. Either may end first.
// If the caller does, end() tells the sink and drops `self`. If the reader's side does (cancelled,
// out of time, a wrong token, the last token), finish() tells the sink and sets is_over; the thread
// then tells the caller once, by functions.cancel, unless take() has said so. The caller still has
// to end it, and counts as busy (with_caller) until then.
//
// Locks: a generation's mutex guards its sink and what take() counts. The sink is called under it,
// so that no token comes after the end; it is destroyed after the lock, since that may free much.

namespace tenon::capi {
namespace {

using Clock = std::chrono::steady_clock;
using engine::EventSink;
using engine::GenerateRequest;
using message::FinishReason;
using vocab::TokenId;

// How many answers may wait for a place; further ones are refused.
constexpr std::uint32_t kQueueLimit = 256;

// The request's parameters, by the names in tenon.h: `{"max_tokens": 64, "temperature": 0.7}`. What
// was not given is left out, so that the caller's own default counts.
std::string described(const GenerateRequest& request) {
  json::Object said;
  if (request.max_tokens > 0) said.set("max_tokens", std::uint64_t{request.max_tokens});
  engine::set_sampling(said, request.sampling);
  if (request.sampling.seed) said.set("seed", *request.sampling.seed);
  engine::set_biases(said, request.sampling);
  if (!request.ends.empty()) {
    said.set("ends", json::Array(request.ends.begin(), request.ends.end()));
  }
  return json::to_string(said);
}

/// What an engine shares with the generations that may outlive it.
struct Shared {
  Shared(std::shared_ptr<const vocab::Tokenizer> chosen, std::uint32_t context)
      : tokenizer(std::move(chosen)), context_tokens(context) {}

  const std::shared_ptr<const vocab::Tokenizer> tokenizer;
  const std::uint32_t context_tokens;
  const std::shared_ptr<engine::Bell> bell = std::make_shared<engine::Bell>();
  std::atomic<std::uint32_t> with_caller = 0;  // generations that the caller has not ended
  std::atomic<std::uint32_t> unfinished = 0;   // runs whose readers have not got their end
};

}  // namespace
}  // namespace tenon::capi

namespace capi = tenon::capi;
namespace engine = tenon::engine;
namespace message = tenon::message;
namespace vocab = tenon::vocab;
using tenon::Errc;
using tenon::Error;

/// One answer, between its reader and the caller. The reader's side is the sink, which is released
/// when the reader has got the end; the caller's side is this object, which lives until the caller
/// ends it.
struct tenon_generation {
 public:
  tenon_generation(engine::GenerateRequest asked, std::shared_ptr<engine::EventSink> reader,
                   std::shared_ptr<capi::Shared> of)
      : request(std::move(asked)),
        text(capi::described(request)),
        shared(std::move(of)),
        most(std::min(request.max_tokens == 0 ? UINT32_MAX : request.max_tokens,
                      shared->context_tokens - static_cast<std::uint32_t>(request.prompt.size()))),
        sink(std::move(reader)) {
    if (request.time_limit.count() > 0) deadline = capi::Clock::now() + request.time_limit;
    if (request.grammar != nullptr) {
      matcher = std::make_unique<tenon_matcher>(request.grammar, shared->tokenizer);
    }
    ++shared->unfinished;
  }

  [[nodiscard]] bool is_unwanted() const {
    return flags->is_cancelled || (deadline && capi::Clock::now() >= *deadline);
  }

  // Ends the answer for its reader, if it is under way. Any thread may call.
  void give_up(message::FinishReason reason, Error error = {}) {
    // Gets the sink, which is destroyed behind the lock.
    Reader gone;
    const std::lock_guard lock(mutex);
    finish(reason, std::move(error), gone);
  }

  // Called by the caller; false once the answer is not wanted any more.
  bool take(vocab::TokenId id) {
    Reader gone;
    const std::lock_guard lock(mutex);
    const vocab::Tokenizer& tokenizer = *shared->tokenizer;
    if (sink == nullptr) {
      // The answer has already ended.
    } else if (is_unwanted()) {
      finish(message::FinishReason::cancelled, {}, gone);
    } else if (id < 0 || static_cast<std::size_t>(id) >= tokenizer.size()) {
      finish(message::FinishReason::error,
             fault("the engine gave token " + std::to_string(id) +
                   ", and the vocabulary has 0 to " + std::to_string(tokenizer.size() - 1)),
             gone);
    } else if (!accept(id)) {
      finish(message::FinishReason::error,
             fault("the engine gave token " + std::to_string(id) + " (" +
                   tenon::json::to_string(tenon::utf8::sanitized(tokenizer.bytes(id))) +
                   ") as number " + std::to_string(given + 1) +
                   " of the answer, which the mask did not allow"),
             gone);
    } else {
      const bool is_end = engine::ends_turn(request.ends, tokenizer, id);
      ++given;
      sink->on_token({.id = id,
                      .bytes = is_end ? std::string_view() : tokenizer.bytes(id),
                      .is_control = tokenizer.is_control(id)});
      if (is_end) {
        finish(message::FinishReason::stop, {}, gone);
      } else if (given == most) {
        finish(message::FinishReason::length, {}, gone);
      }
    }
    has_heard = sink == nullptr || flags->is_cancelled;
    return !has_heard;
  }

  // The last call by the caller.
  void end(std::string_view reason, std::string_view why) {
    std::shared_ptr<tenon_generation> own;
    Reader gone;
    {
      const std::lock_guard lock(mutex);
      own = std::move(self);
      if (is_unwanted() || reason == "cancelled") {
        finish(message::FinishReason::cancelled, {}, gone);
      } else if (reason == "stop" && is_whole()) {
        finish(message::FinishReason::stop, {}, gone);
        // An answer that stops where its grammar does not allow an end is cut, whatever the caller
        // says.
      } else if (reason == "stop" || reason == "length") {
        finish(message::FinishReason::length, {}, gone);
      } else if (reason == "error") {
        finish(message::FinishReason::error,
               fault(why.empty() ? "the engine failed, and does not say why" : std::string(why)),
               gone);
      } else {
        finish(message::FinishReason::error,
               fault("the engine ended for an unknown reason: '" + std::string(reason) + "'"),
               gone);
      }
    }
    if (own == nullptr) return;
    --shared->with_caller;
    shared->bell->ring();
  }

  const engine::GenerateRequest request;
  const std::string text;  // the request, for the caller
  const std::shared_ptr<capi::Shared> shared;
  const std::shared_ptr<engine::RunFlags> flags = std::make_shared<engine::RunFlags>();
  const std::uint32_t most;  // how many tokens the answer may have
  std::optional<capi::Clock::time_point> deadline;
  std::unique_ptr<tenon_matcher> matcher;  // used by the caller and take(), on the caller's thread

  std::mutex mutex;
  std::shared_ptr<tenon_generation> self;  // guarded by mutex; set while the caller has it
  bool has_heard = false;                  // the caller knows of the end; guarded by mutex

 private:
  using Reader = std::shared_ptr<engine::EventSink>;

  static Error fault(std::string what) { return {Errc::unavailable, std::move(what)}; }

  // Call under the lock. Whether a constrained answer may end here.
  bool is_whole() {
    return matcher == nullptr || !is_constrained || matcher->matcher.is_finished() ||
           matcher->matcher.is_accepting();
  }

  // Call under the lock. False: the grammar does not allow the token.
  bool accept(vocab::TokenId id) {
    if (matcher == nullptr || !is_constrained) return true;
    if (matcher->matcher.accept(id)) return true;
    // The matcher has passed a limit of its own: it cannot tell what is allowed, and the token may
    // be right. The answer goes on unconstrained, and says so (RunEnd::is_constrained).
    const auto& limit = matcher->matcher.error();
    if (!limit) return false;
    tenon::log::warn("the answer is not held to its grammar any more: " + limit->message);
    is_constrained = false;
    return true;
  }

  // Call under the lock. The caller of this destroys `gone` after releasing it.
  void finish(message::FinishReason reason, Error error, Reader& gone) {
    if (sink == nullptr) return;
    engine::RunEnd end{.reason = reason};
    end.usage.prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
    end.usage.completion_tokens = given;
    if (reason == message::FinishReason::error) end.error = std::move(error);
    end.is_constrained = matcher != nullptr && is_constrained;
    // Set before the reader hears of the end.
    flags->is_over = true;
    --shared->unfinished;
    gone = std::move(sink);
    gone->on_end(end);
    shared->bell->ring();
  }

  Reader sink;                 // guarded by mutex; null: it has got its end
  std::uint32_t given = 0;     // tokens so far; guarded by mutex
  bool is_constrained = true;  // guarded by mutex
};

namespace tenon::capi {

struct CallerEngine::Impl {
  Impl(const tenon_engine& given, std::shared_ptr<const vocab::Tokenizer> tokenizer)
      : functions(given),
        shared(std::make_shared<Shared>(std::move(tokenizer), given.context_tokens)),
        capabilities{.kind = "caller",
                     .context_tokens = given.context_tokens,
                     .max_concurrent = std::max(given.max_concurrent, 1U),
                     .constrained_by = engine::ConstrainedBy::masks},
        thread([this] { work(); }) {}

  using Generations = std::list<std::shared_ptr<tenon_generation>>;

  void work();
  void drop_unwanted(Generations& those, bool all);
  void tell_ended();
  void begin(const std::shared_ptr<tenon_generation>& generation);
  [[nodiscard]] std::optional<Clock::time_point> next_deadline() const;

  const tenon_engine functions;
  const std::shared_ptr<Shared> shared;
  const engine::Capabilities capabilities;
  std::mutex mutex;
  Generations incoming;  // guarded by mutex
  std::atomic<bool> is_closing = false;
  Generations waiting;  // this and the next are used by the thread only
  Generations begun;
  std::thread thread;  // last: it uses the members above
};

// One round for each ring of the bell: new, ended and unwanted generations are all looked for,
// however many rings came. At the end all readers are told, and generations that the caller has
// stay with it.
void CallerEngine::Impl::work() {
  while (true) {
    const bool closes = is_closing;  // read first: answers started before are in `incoming`
    {
      const std::lock_guard lock(mutex);
      waiting.splice(waiting.end(), incoming);
    }
    drop_unwanted(waiting, closes);
    drop_unwanted(begun, closes);
    waiting.remove_if([](const auto& each) { return each->flags->is_over.load(); });
    tell_ended();
    if (closes) return;
    while (!waiting.empty() && shared->with_caller < capabilities.max_concurrent) {
      begun.splice(begun.end(), waiting, waiting.begin());
      begin(begun.back());
    }
    shared->bell->wait(next_deadline());
  }
}

// Ends generations that are not wanted any more, for their readers.
void CallerEngine::Impl::drop_unwanted(Generations& those, bool all) {
  for (const auto& each : those) {
    if (all || each->is_unwanted()) each->give_up(FinishReason::cancelled);
  }
}

// Tells the caller once of each generation that has ended, unless the caller knows.
void CallerEngine::Impl::tell_ended() {
  for (auto each = begun.begin(); each != begun.end();) {
    if (!(*each)->flags->is_over) {
      ++each;
      continue;
    }
    bool wants_to_hear = false;
    {
      const std::lock_guard lock((*each)->mutex);
      wants_to_hear = (*each)->self != nullptr && !(*each)->has_heard;
    }
    // The caller may end it just now on another thread; our reference keeps the generation alive.
    if (wants_to_hear && functions.cancel != nullptr) {
      functions.cancel(functions.user, each->get());
    }
    each = begun.erase(each);
  }
}

void CallerEngine::Impl::begin(const std::shared_ptr<tenon_generation>& generation) {
  {
    const std::lock_guard lock(generation->mutex);
    generation->self = generation;
  }
  // Counted before the caller knows it, since it may end it at once.
  ++shared->with_caller;
  const std::vector<TokenId>& prompt = generation->request.prompt;
  const int failed = functions.start(functions.user, generation.get(), prompt.data(), prompt.size(),
                                     {generation->text.data(), generation->text.size()},
                                     generation->matcher.get());
  if (failed == 0) return;
  // The caller has not kept it, so it is ended for it.
  generation->end("error", "it could not begin");
}

std::optional<Clock::time_point> CallerEngine::Impl::next_deadline() const {
  std::optional<Clock::time_point> next;
  for (const Generations* const those : {&waiting, &begun}) {
    for (const auto& each : *those) {
      if (each->deadline) next = next ? std::min(*next, *each->deadline) : *each->deadline;
    }
  }
  return next;
}

CallerEngine::CallerEngine(const tenon_engine& functions,
                           std::shared_ptr<const vocab::Tokenizer> tokenizer)
    : impl_(std::make_unique<Impl>(functions, std::move(tokenizer))) {}

CallerEngine::~CallerEngine() {
  impl_->is_closing = true;
  impl_->shared->bell->ring();
  impl_->thread.join();
}

const engine::Capabilities& CallerEngine::capabilities() const {
  return impl_->capabilities;
}

const vocab::Tokenizer& CallerEngine::tokenizer() const {
  return *impl_->shared->tokenizer;
}

engine::EngineStats CallerEngine::stats() const {
  return {.unfinished = impl_->shared->unfinished};
}

Expected<std::unique_ptr<engine::Run>> CallerEngine::start(GenerateRequest request,
                                                           std::shared_ptr<EventSink> sink) {
  if (Status checked = engine::check_request(request, impl_->capabilities, tokenizer()); !checked) {
    return Unexpected(std::move(checked.error()));
  }
  // The caller passes only tokens, and chooses among all that the mask allows.
  for (const auto& [is_wanted, name] :
       {std::pair(request.logprobs, "logprobs"), std::pair(request.ends_whole, "close_calls")}) {
    if (!is_wanted) continue;
    return Unexpected(Error{Errc::invalid,
                            std::string(name) + " is not taken by an engine of the program's own",
                            name});
  }
  if (impl_->shared->unfinished >= impl_->capabilities.max_concurrent + kQueueLimit) {
    return Unexpected(engine::queue_is_full(kQueueLimit));
  }
  auto generation =
      std::make_shared<tenon_generation>(std::move(request), std::move(sink), impl_->shared);
  auto run = std::make_unique<engine::FlagRun>(generation->flags, impl_->shared->bell);
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->incoming.push_back(std::move(generation));
  }
  impl_->shared->bell->ring();
  return run;
}

}  // namespace tenon::capi

int tenon_generation_token(tenon_generation* generation, int32_t token) {
  if (generation == nullptr) return 1;
  return capi::guarded_or(1, [&] { return generation->take(token) ? 0 : 1; });
}

int tenon_generation_is_cancelled(const tenon_generation* generation) {
  return generation == nullptr || generation->flags->is_over || generation->is_unwanted() ? 1 : 0;
}

void tenon_generation_end(tenon_generation* generation, tenon_text reason, tenon_text message) {
  if (generation == nullptr) return;
  static_cast<void>(capi::guarded_or(0, [&] {
    generation->end(capi::view(reason), capi::view(message));
    return 0;
  }));
}
