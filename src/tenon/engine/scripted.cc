#include "tenon/engine/scripted.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "tenon/engine/admission.h"
#include "tenon/engine/run_flags.h"
#include "tenon/grammar/machine/matcher.h"

// One thread plays all runs: work() takes what start() has put into `incoming`, gives each play
// with a place its next token when that is due, and sleeps until the next token, deadline or ring.
// A script is text; its tokens are the bytes of the text, and the texts of control tokens become
// control tokens.

namespace tenon::engine {
namespace {

using Clock = std::chrono::steady_clock;
using message::FinishReason;

// One run.
struct Play {
  GenerateRequest request;
  std::shared_ptr<EventSink> sink;
  std::shared_ptr<RunFlags> flags;
  std::vector<TokenId> tokens;
  std::size_t next = 0;                     // index of the next token
  std::optional<grammar::Matcher> matcher;  // for the request's grammar
  FinishReason end = FinishReason::stop;
  Error error;
  std::chrono::microseconds delay{0};
  Clock::time_point due;
  std::optional<Clock::time_point> deadline;
  std::uint32_t given = 0;  // tokens the sink has seen
};

// What a model would generate: nothing comes behind a token that ends generation, and a script that
// stops ends with one.
std::vector<TokenId> tokens_of(const Script& script, const vocab::Tokenizer& tokenizer) {
  std::vector<TokenId> tokens;
  const Status encoded = tokenizer.encode(script.text, vocab::Controls::on, true, tokens);
  assert(encoded);
  const auto end = std::find_if(tokens.begin(), tokens.end(),
                                [&](TokenId id) { return tokenizer.ends_generation(id); });
  if (end != tokens.end()) {
    tokens.erase(end + 1, tokens.end());
  } else if (script.end == FinishReason::stop && tokenizer.eos()) {
    tokens.push_back(*tokenizer.eos());
  }
  return tokens;
}

}  // namespace

struct ScriptedEngine::Impl {
  Impl(const Options& options, Choice chosen)
      : tokenizer(options.controls,
                  {.bos = options.bos, .eos = options.eos, .adds_bos = options.adds_bos}),
        chat_template(options.chat_template),
        capabilities{.kind = "scripted",
                     .context_tokens = options.context_tokens,
                     .max_concurrent = options.max_concurrent,
                     .constrained_by = options.constrained_by,
                     .is_remote = options.is_remote},
        queue_limit(options.queue_limit),
        choice(std::move(chosen)),
        thread([this] { work(); }) {}

  void work();
  void take_incoming();
  bool advance(Play& play, Clock::time_point now);
  void give(Play& play, TokenId id) const;
  static void skip_forbidden(Play& play);
  static bool must_go_on(Play& play);
  static void finish(Play& play, FinishReason reason, Error error = {});
  std::optional<Clock::time_point> next_due() const;

  const vocab::ByteTokenizer tokenizer;
  const std::string chat_template;
  const Capabilities capabilities;
  const std::uint32_t queue_limit;
  const Choice choice;
  const std::shared_ptr<Bell> bell = std::make_shared<Bell>();

  mutable std::mutex mutex;
  std::vector<Play> incoming;             // guarded by mutex
  std::vector<GenerateRequest> requests;  // guarded by mutex
  std::size_t unfinished = 0;             // guarded by mutex

  std::atomic<bool> is_closing = false;
  std::list<Play> plays;  // used by the thread; the first max_concurrent advance
  std::thread thread;     // last: it uses the members above
};

// Plays are advanced in their order, as many at once as the engine has places for; the others wait,
// as in a real engine's queue.
void ScriptedEngine::Impl::work() {
  while (true) {
    const bool closes = is_closing;  // read first: runs started before are in `incoming`
    take_incoming();
    if (closes && plays.empty()) return;
    const auto now = Clock::now();
    std::uint32_t places = capabilities.max_concurrent;
    for (auto play = plays.begin(); play != plays.end();) {
      const bool has_place = places > 0;
      if (has_place) --places;
      const bool must_end =
          closes || play->flags->is_cancelled || (play->deadline && now >= *play->deadline);
      if (must_end) finish(*play, FinishReason::cancelled);
      if (must_end || (has_place && advance(*play, now))) {
        const std::lock_guard lock(mutex);
        --unfinished;
        play = plays.erase(play);
      } else {
        ++play;
      }
    }
    if (closes) continue;
    const auto due = next_due();
    if (!due || *due > Clock::now()) bell->wait(due);
  }
}

void ScriptedEngine::Impl::take_incoming() {
  const std::lock_guard lock(mutex);
  for (Play& play : incoming) plays.push_back(std::move(play));
  incoming.clear();
}

/// Gives one token if one is due. True: that was the end of the run.
bool ScriptedEngine::Impl::advance(Play& play, Clock::time_point now) {
  if (play.flags->is_paused || now < play.due) return false;
  const auto room =
      capabilities.context_tokens - static_cast<std::uint32_t>(play.request.prompt.size());
  const std::uint32_t most =
      play.request.max_tokens == 0 ? room : std::min(room, play.request.max_tokens);
  skip_forbidden(play);
  if (play.next < play.tokens.size() && play.given < most) {
    const TokenId id = play.tokens[play.next++];
    if (play.matcher) static_cast<void>(play.matcher->accept(id));
    ++play.given;
    give(play, id);
    play.due = now + play.delay;
    if (!ends_turn(play.request.ends, tokenizer, id)) return false;
    finish(play, FinishReason::stop);
  } else if (play.next < play.tokens.size() || must_go_on(play)) {
    finish(play, FinishReason::length);
  } else {
    finish(play, play.end, play.error);
  }
  return true;
}

// A script may have text that the grammar forbids. A mask would never let these tokens come, so
// they are left out.
void ScriptedEngine::Impl::skip_forbidden(Play& play) {
  if (!play.matcher) return;
  const auto may_come = [&](TokenId id) {
    return play.matcher->validate_draft(std::span(&id, 1)) == 1;
  };
  while (play.next < play.tokens.size() && !may_come(play.tokens[play.next])) ++play.next;
}

// The script is at its end, but the grammar allows no end here: a model would be cut by its length.
bool ScriptedEngine::Impl::must_go_on(Play& play) {
  return play.end == FinishReason::stop && play.matcher && !play.matcher->is_finished() &&
         !play.matcher->is_accepting();
}

void ScriptedEngine::Impl::give(Play& play, TokenId id) const {
  Token token{.id = id, .is_control = tokenizer.is_control(id)};
  if (!ends_turn(play.request.ends, tokenizer, id)) token.bytes = tokenizer.bytes(id);
  message::TokenLogprob logprob;
  if (play.request.logprobs) {
    logprob.bytes = std::string(token.bytes);
    if (play.request.top_logprobs > 0) logprob.top.emplace_back(logprob.bytes, 0.0);
    token.logprob = &logprob;
  }
  play.sink->on_token(token);
}

void ScriptedEngine::Impl::finish(Play& play, FinishReason reason, Error error) {
  RunEnd end{.reason = reason};
  end.usage.prompt_tokens = static_cast<std::uint32_t>(play.request.prompt.size());
  end.usage.completion_tokens = play.given;
  if (reason == FinishReason::error) end.error = std::move(error);
  end.is_constrained = play.matcher.has_value();
  // Before the sink hears of it: a run that is destroyed from then on wakes no thread.
  play.flags->is_over = true;
  play.sink->on_end(end);
}

/// When something happens without a ring; nullopt: never.
std::optional<Clock::time_point> ScriptedEngine::Impl::next_due() const {
  std::optional<Clock::time_point> due;
  const auto consider = [&due](Clock::time_point time) { due = due ? std::min(*due, time) : time; };
  std::uint32_t places = capabilities.max_concurrent;
  for (const Play& play : plays) {
    if (play.deadline) consider(*play.deadline);
    if (places == 0) continue;
    --places;
    if (!play.flags->is_paused) consider(play.due);
  }
  return due;
}

ScriptedEngine::ScriptedEngine(const Options& options, Choice choice)
    : impl_(std::make_unique<Impl>(options, std::move(choice))) {}

ScriptedEngine::ScriptedEngine(const Options& options, std::vector<Script> scripts)
    : ScriptedEngine(options, Choice([scripts = std::move(scripts),
                                      next = std::make_shared<std::atomic<std::size_t>>(0)](
                                         const GenerateRequest&) -> Expected<Script> {
                       return scripts[next->fetch_add(1) % scripts.size()];
                     })) {}

ScriptedEngine::~ScriptedEngine() {
  impl_->is_closing = true;
  impl_->bell->ring();
  impl_->thread.join();
}

const Capabilities& ScriptedEngine::capabilities() const {
  return impl_->capabilities;
}
const vocab::Tokenizer& ScriptedEngine::tokenizer() const {
  return impl_->tokenizer;
}
std::string_view ScriptedEngine::chat_template() const {
  return impl_->chat_template;
}

EngineStats ScriptedEngine::stats() const {
  const std::lock_guard lock(impl_->mutex);
  return {.unfinished = static_cast<std::uint32_t>(impl_->unfinished)};
}

Expected<std::unique_ptr<Run>> ScriptedEngine::start(GenerateRequest request,
                                                     std::shared_ptr<EventSink> sink) {
  if (Status checked = check_request(request, impl_->capabilities, impl_->tokenizer); !checked) {
    return Unexpected(checked.error());
  }
  auto script = impl_->choice(request);
  if (!script) return Unexpected(script.error());

  auto flags = std::make_shared<RunFlags>();
  const auto now = Clock::now();
  Play play{.request = request,
            .sink = std::move(sink),
            .flags = flags,
            .tokens = tokens_of(*script, impl_->tokenizer),
            .end = script->end,
            .error = script->error,
            .delay = script->delay,
            .due = now + script->delay};
  if (request.grammar != nullptr) {
    play.matcher.emplace(request.grammar);
    for (const TokenId id : std::span(request.prompt).last(request.begun)) {
      static_cast<void>(play.matcher->accept(id));
    }
  }
  if (request.time_limit.count() > 0) play.deadline = now + request.time_limit;
  {
    const std::lock_guard lock(impl_->mutex);
    // A run counts until its end was told, also while it is only in the queue.
    if (impl_->unfinished >= impl_->capabilities.max_concurrent + impl_->queue_limit) {
      return Unexpected(queue_is_full(impl_->queue_limit));
    }
    ++impl_->unfinished;
    impl_->incoming.push_back(std::move(play));
    impl_->requests.push_back(std::move(request));
  }
  impl_->bell->ring();
  return std::make_unique<FlagRun>(std::move(flags), impl_->bell);
}

std::vector<GenerateRequest> ScriptedEngine::requests() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->requests;
}

std::string ScriptedEngine::text_of(const std::vector<TokenId>& prompt) const {
  std::string text;
  for (TokenId id : prompt) text += impl_->tokenizer.bytes(id);
  return text;
}

}  // namespace tenon::engine
