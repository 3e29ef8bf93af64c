#include "tenon/engine/upstream/pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "tenon/base/cancel.h"
#include "tenon/base/crash.h"
#include "tenon/base/failure.h"
#include "tenon/base/log.h"
#include "tenon/base/patience.h"
#include "tenon/base/trace.h"
#include "tenon/engine/run_slot.h"

// How a run finds its server
//
// A Balancer (balancer.h) chooses a server, and Attempts::launch() starts the run there; Attempts
// stands as the sink between that engine and ours. Until the first token nothing has been passed
// on, so the run can be started again: on_end() reports the failure to the balancer, and launch()
// tries the next server, each of them once. After the first token (begin()) the stored request is
// dropped, and a failure is the answer's end. A server that refuses the request with a grammar is
// asked once more without it; if it then accepts, the grammar was the cause. Each server has a
// thread (Pool::keep) that connects to it, checks it while it has no runs, and asks again after
// failures. A server joins once its vocabulary and its way to constrain answers are those of the
// first one (Pool::compare). Engines are never removed while the pool lives, so Core::engines can
// be read without a lock.

namespace tenon::engine {
namespace {

using Clock = Balancer::Clock;
using message::FinishReason;

constexpr std::chrono::seconds kMeetingLimit{60};  // to connect, reading the texts of all tokens
constexpr int kMisfitPauses = 10;  // until a server that does not fit is asked again

/// What the runs, the tokenizer and the checks of a pool share. Servers are added, never removed.
struct Core {
  Core(std::vector<PoolServer> all, Balancer::Options chosen)
      : servers(std::move(all)),
        options(chosen),
        balancer(urls_of(servers), chosen),
        engines(servers.size()) {}

  static std::vector<std::string> urls_of(const std::vector<PoolServer>& servers) {
    std::vector<std::string> urls;
    for (const PoolServer& server : servers) urls.push_back(server.url);
    return urls;
  }

  /// Connects to a server, within its time limit and until the pool closes.
  Expected<std::unique_ptr<Engine>> meet(std::size_t server) const {
    const patience::Scope scope({.deadline = Clock::now() + kMeetingLimit, .cancel = closed});
    return servers[server].connect();
  }

  const std::vector<PoolServer> servers;
  const Balancer::Options options;
  // Set when the pool closes: waits for servers end with it.
  const CancelToken closed;
  Balancer balancer;
  std::vector<std::atomic<Engine*>> engines;  // null: not connected yet

  // Locked shared while a run moves to another server; once is_closing is set, no engine is called.
  std::shared_mutex closing_mutex;
  bool is_closing = false;
};

/// Uses the tokenizer of any server that is there, since they have the same vocabulary.
class PoolTokenizer final : public vocab::Tokenizer {
 public:
  PoolTokenizer(const Core& core, const vocab::Tokenizer& first) : core_(core), first_(first) {}

  std::size_t size() const override { return first_.size(); }
  Status encode(std::string_view text, vocab::Controls controls, bool at_start,
                std::vector<TokenId>& ids) const override;
  std::string_view bytes(TokenId id) const override { return first_.bytes(id); }
  std::size_t max_token_bytes() const override { return first_.max_token_bytes(); }
  // A tokenizer that asks its server learns this from the texts that it has encoded.
  bool is_control(TokenId id) const override {
    return std::ranges::any_of(core_.engines, [id](const std::atomic<Engine*>& one) {
      const Engine* const engine = one.load(std::memory_order_acquire);
      return engine != nullptr && engine->tokenizer().is_control(id);
    });
  }
  bool ends_generation(TokenId id) const override { return first_.ends_generation(id); }
  std::optional<TokenId> control_token(std::string_view text) const override {
    return first_.control_token(text);
  }
  std::optional<TokenId> bos() const override { return first_.bos(); }
  std::optional<TokenId> eos() const override { return first_.eos(); }
  bool adds_bos() const override { return first_.adds_bos(); }

 private:
  const Core& core_;
  const vocab::Tokenizer& first_;
  mutable std::atomic<std::size_t> last_{0};  // the server that answered last
  // What a text takes of which a server is asked: the latest one, or a little less than before.
  mutable std::atomic<Clock::duration> usual_{Clock::duration::zero()};
};

// Asks the server that answered last first, and those that are left alone at the very end. One that
// takes much longer than questions usually do is given up for the next. If all do, they are asked
// again with more time, until each had as long as a question may take.
Status PoolTokenizer::encode(std::string_view text, vocab::Controls controls, bool at_start,
                             std::vector<TokenId>& ids) const {
  constexpr std::chrono::milliseconds kSoon{100};
  constexpr std::chrono::seconds kLong{5};
  constexpr std::chrono::milliseconds kAsked{1};  // a server was asked if it took longer
  constexpr int kMuch = 3;                        // times what questions usually take
  constexpr int kMore = 4;                        // times the limit of the round before
  const std::size_t size = ids.size();
  const std::size_t count = core_.engines.size();
  const std::size_t last = last_.load(std::memory_order_relaxed);
  const Clock::duration usual = usual_.load(std::memory_order_relaxed);
  Status done = Unexpected(Error{Errc::unavailable, "no server of the model is there"});
  // Whether one of the servers has answered, or none will be waited for any more.
  const auto ask_all = [&](bool is_up, Clock::duration limit) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = (last + i) % count;
      const Engine* const engine = core_.engines[at].load(std::memory_order_acquire);
      if (engine == nullptr || core_.balancer.is_up(at) != is_up) continue;
      // A server that failed may have added some ids.
      ids.resize(size);
      const auto begun = Clock::now();
      {
        const patience::Scope scope({.deadline = begun + limit});
        done = engine->tokenizer().encode(text, controls, at_start, ids);
      }
      if (done || done.error().code != Errc::unavailable) {
        last_.store(at, std::memory_order_relaxed);
        const Clock::duration took = Clock::now() - begun;
        if (took > kAsked) {
          usual_.store(std::max(took, (7 * usual + took) / 8), std::memory_order_relaxed);
        }
        return true;
      }
      if (patience::current().is_over()) return true;
    }
    return false;
  };
  // A server reads a megabyte in a second, at worst.
  Clock::duration limit =
      std::max<Clock::duration>(kSoon, kMuch * usual) + std::chrono::microseconds(text.size());
  while (core_.balancer.count_up() > 1 && limit < kLong) {
    if (ask_all(true, limit)) return done;
    limit *= kMore;
  }
  constexpr std::chrono::hours kNoLimit{1};  // each question has its own
  if (!ask_all(true, kNoLimit)) ask_all(false, kNoLimit);
  return done;
}

/// One run, tried on one server after the other until one begins to answer. It is the sink of each
/// attempt; there is one attempt at a time.
class Attempts final : public EventSink, public std::enable_shared_from_this<Attempts> {
 public:
  Attempts(Core& core, GenerateRequest request, std::shared_ptr<EventSink> sink)
      : core_(core),
        sink_(std::move(sink)),
        pending_(std::make_unique<Pending>(Pending{.request = std::move(request)})) {
    if (core_.servers.size() == 1) return;
    pending_->prefixes = prefixes(pending_->request);
    pending_->tokens = prompt_tokens(pending_->request);
  }

  /// Fails if no server accepts the run.
  Status launch();

  void on_token(const Token& token) override;
  void on_reasoning(std::string_view text) override;
  void on_call(const CallPiece& piece) override;
  void on_upstream(const message::UpstreamPart& part) override { sink_->on_upstream(part); }
  void on_end(const RunEnd& end) override;

  /// The run of the present attempt.
  RunSlot<Run>& run() { return run_; }

 private:
  /// What is needed to launch the run again.
  struct Pending {
    GenerateRequest request;
    std::vector<std::uint64_t> prefixes{};
    std::uint64_t tokens = 0;
    trace::Context trace = trace::current();
    Clock::time_point begun = Clock::now();
    Clock::time_point attempt_begun{};
    Balancer::Servers tried{};
    std::optional<RunEnd> refusal{};  // an error that the grammar may have caused
  };

  void begin();
  void note(std::string error);
  void tell(const RunEnd& end);
  [[nodiscard]] bool has_others() const;
  [[nodiscard]] bool goes_on_elsewhere(const RunEnd& end);
  [[nodiscard]] GenerateRequest next_request();
  void end(RunEnd end);

  Core& core_;
  // Used by the thread that launches, and between two attempts by the engine's thread.
  std::shared_ptr<EventSink> sink_;
  std::unique_ptr<Pending> pending_;  // null: the answer has begun
  Balancer::Ticket ticket_;           // of the present attempt
  std::vector<message::Attempt> attempts_;
  std::string unconstrained_because_;

  RunSlot<Run> run_;
};

// Whether another server is left, should this attempt fail.
bool Attempts::has_others() const {
  for (std::size_t i = 0; i < core_.servers.size(); ++i) {
    if (!pending_->tried[i] && core_.balancer.is_up(i)) return true;
  }
  return false;
}

// The request with the time that is left. If other servers remain, this one may take half of it
// until its first token, since it may hang.
GenerateRequest Attempts::next_request() {
  const auto spent =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - pending_->begun);
  // A copy is kept only if another server, or the same one without the grammar, may be asked.
  const bool is_last = core_.servers.size() == 1 && pending_->request.printed == nullptr;
  GenerateRequest next = is_last ? std::move(pending_->request) : pending_->request;
  if (next.time_limit.count() > 0) {
    next.time_limit = std::max(std::chrono::milliseconds(1), next.time_limit - spent);
    if (has_others())
      next.first_limit = std::max(std::chrono::milliseconds(1), next.time_limit / 2);
  }
  return next;
}

// After start() has succeeded, the engine's thread owns all members except run_.
Status Attempts::launch() {
  const trace::Context trace = pending_->trace;
  const trace::Scope scope(trace);
  std::optional<Error> last;
  while (true) {
    const auto chosen =
        core_.balancer.choose(pending_->prefixes, pending_->tried, Clock::now(), pending_->tokens);
    if (!chosen) {
      return Unexpected(last ? *last : Error{Errc::unavailable, core_.balancer.troubles()});
    }
    ticket_ = *chosen;
    pending_->tried.set(ticket_.server);
    pending_->attempt_begun = Clock::now();
    // The run may have failed and moved to another server before start() returns it.
    const unsigned attempt = run_.next();
    Engine* const engine = core_.engines[ticket_.server].load(std::memory_order_acquire);
    auto run = engine->start(next_request(), shared_from_this());
    if (run) {
      run_.attach(*std::move(run), attempt);
      return {};
    }
    // An error of another kind is the request's, and would come from every server.
    const bool is_its_fault = run.error().code == Errc::unavailable;
    core_.balancer.ended(ticket_, is_its_fault ? Balancer::End::failed : Balancer::End::unsent,
                         run.error().message, Clock::now());
    note(run.error().message);
    if (!is_its_fault) return Unexpected(std::move(run.error()));
    last = std::move(run.error());
  }
}

// The present attempt has begun to answer, or has ended with an error.
void Attempts::note(std::string error) {
  attempts_.push_back({.server = core_.servers[ticket_.server].url,
                       .took = std::chrono::duration_cast<std::chrono::milliseconds>(
                           Clock::now() - pending_->attempt_begun),
                       .error = std::move(error)});
}

void Attempts::begin() {
  if (pending_ == nullptr) return;
  const auto now = Clock::now();
  note("");
  core_.balancer.began(ticket_, now - pending_->attempt_begun, now);
  pending_.reset();
}

void Attempts::on_token(const Token& token) {
  begin();
  sink_->on_token(token);
}

void Attempts::on_reasoning(std::string_view text) {
  begin();
  sink_->on_reasoning(text);
}

void Attempts::on_call(const CallPiece& piece) {
  begin();
  sink_->on_call(piece);
}

void Attempts::on_end(const RunEnd& end) {
  tell(end);
  if (goes_on_elsewhere(end)) return;
  this->end(end);
}

// Reports what the run's end says about the server. A run that ended as `cancelled` although the
// client did not cancel it has reached its deadline.
void Attempts::tell(const RunEnd& end) {
  using End = Balancer::End;
  End told = End::answered;
  std::string why = end.error.message;
  if (end.reason == FinishReason::error) {
    told = end.error.code == Errc::invalid ? End::refused : End::failed;
    if (end.denial.reason == message::Denial::Reason::busy) told = End::busy;
  }
  if (end.reason == FinishReason::cancelled) {
    const bool is_hanging = pending_ != nullptr && !run_.is_cancelled();
    told = is_hanging ? End::failed : End::cancelled;
    why = "it said nothing until the deadline";
  }
  core_.balancer.ended(ticket_, told, why, Clock::now());
  if (pending_ != nullptr) note(told == End::answered || told == End::cancelled ? "" : why);
}

// Whether the run was launched again. A run that fails after its first token is not.
bool Attempts::goes_on_elsewhere(const RunEnd& end) {
  if (pending_ == nullptr || end.reason != FinishReason::error) return false;
  // The destructor waits for this lock before engines go; launch() below calls one.
  const std::shared_lock open(core_.closing_mutex);
  if (core_.is_closing) return false;
  if (run_.is_cancelled()) return false;
  if (end.error.code == Errc::invalid) {
    // If the server accepts the request without the grammar, the grammar was the cause.
    if (pending_->request.printed == nullptr || pending_->request.must_be_constrained) return false;
    pending_->request.printed = nullptr;
    pending_->refusal = end;
    pending_->tried.reset(ticket_.server);
    unconstrained_because_ = "the server refused the grammar: " + end.error.message;
  }
  return launch().has_value();
}

void Attempts::end(RunEnd end) {
  const bool is_refused = end.reason == FinishReason::error && pending_ != nullptr;
  if (is_refused && pending_->refusal && end.error.code == Errc::invalid) {
    end = *std::move(pending_->refusal);
  }
  if (!is_refused) end.unconstrained_because = std::move(unconstrained_because_);
  end.attempts = std::move(attempts_);
  run_.clear();
  const std::shared_ptr<EventSink> sink = std::move(sink_);
  sink->on_end(end);
}

class PoolRun final : public Run {
 public:
  explicit PoolRun(std::shared_ptr<Attempts> attempts) : attempts_(std::move(attempts)) {}
  ~PoolRun() override { attempts_->run().detach(); }
  PoolRun(const PoolRun&) = delete;
  PoolRun& operator=(const PoolRun&) = delete;

  void cancel() override { attempts_->run().cancel(); }
  void pause() override { attempts_->run().set_paused(true); }
  void resume() override { attempts_->run().set_paused(false); }

 private:
  const std::shared_ptr<Attempts> attempts_;
};

class Pool final : public Engine {
 public:
  Pool(std::vector<PoolServer> servers, Balancer::Options options)
      : core_(std::move(servers), options), owned_(core_.servers.size()) {}
  ~Pool() override;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Connects to all servers at once and waits until each was tried.
  Status open();

  const Capabilities& capabilities() const override { return capabilities_; }
  const vocab::Tokenizer& tokenizer() const override { return *tokenizer_; }
  std::string_view chat_template() const override { return first_->chat_template(); }
  EngineStats stats() const override;
  Expected<std::unique_ptr<Run>> start(GenerateRequest request,
                                       std::shared_ptr<EventSink> sink) override;

 private:
  Status join(std::size_t server, std::unique_ptr<Engine> engine);
  [[nodiscard]] Status compare(const std::string& url, const Engine& engine) const;
  void warn_of_differences(const std::string& url, const Engine& engine) const;
  void keep(std::size_t server);
  void look_at(std::size_t server);
  void meet_again(std::size_t server);

  Core core_;
  std::vector<std::unique_ptr<Engine>> owned_;  // published in core_.engines
  Engine* first_ = nullptr;
  std::optional<PoolTokenizer> tokenizer_;
  Capabilities capabilities_;
  bool is_open_ = false;  // from then on the properties of the pool do not change
  /// A server that answers but does not fit; used by its keeper only.
  struct Misfit {
    std::string why{};
    Clock::time_point until{};  // it is left alone until then
  };
  std::vector<Misfit> misfits_ = std::vector<Misfit>(owned_.size());
  std::vector<std::thread> keepers_;
  std::mutex mutex_;  // guards is_closing_
  std::condition_variable closing_;
  bool is_closing_ = false;
};

// Meets all servers at the same time, so that one that does not answer delays the start by its own
// time-out only. One server that is there is enough; the others join when they come. Servers that
// answer but do not fit are an error at once, because that is a mistake in the configuration.
Status Pool::open() {
  const std::size_t count = core_.servers.size();
  std::vector<Expected<std::unique_ptr<Engine>>> met(count);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < count; ++i) {
      threads.emplace_back([this, &met, i] {
        const crash::ThreadStack stack;
        met[i] = core_.meet(i);
      });
    }
    met[0] = core_.meet(0);
  }
  std::optional<Error> failure;
  for (std::size_t i = 0; i < count; ++i) {
    if (met[i]) {
      if (Status joined = join(i, *std::move(met[i])); !joined) return joined;
      continue;
    }
    if (met[i].error().code != Errc::unavailable) return Unexpected(std::move(met[i].error()));
    core_.balancer.checked(i, Unexpected(met[i].error()), Clock::now());
    if (count > 1) {
      log::warn("upstream " + core_.servers[i].url +
                ": is not there: " + std::string(log::content(met[i].error().message)));
    }
    failure = std::move(met[i].error());
  }
  if (first_ == nullptr && count == 1) return Unexpected(*std::move(failure));
  if (first_ == nullptr) return Unexpected(Error{Errc::unavailable, core_.balancer.troubles()});
  is_open_ = true;
  for (std::size_t i = 0; i < count; ++i) keepers_.emplace_back([this, i] { keep(i); });
  return {};
}

// Compares all tokens if both tokenizers know them without asking a server.
Status Pool::compare(const std::string& url, const Engine& engine) const {
  const vocab::Tokenizer& own = first_->tokenizer();
  const vocab::Tokenizer& other = engine.tokenizer();
  const auto differs = [&](std::string_view in) {
    return invalid("upstream " + url + ": has not the same " + std::string(in) +
                   " as the other servers of the model");
  };
  if (engine.capabilities().constrained_by != capabilities_.constrained_by)
    return differs("grammars");
  if (engine.capabilities().takes != capabilities_.takes) return differs("way to be asked");
  if (is_open_ && capabilities_.knows_controls && !engine.capabilities().knows_controls) {
    return differs("answers to /tokenize");
  }
  const std::uint32_t context = engine.capabilities().context_tokens;
  if (is_open_ && context != 0 && context < capabilities_.context_tokens) {
    return invalid("upstream " + url + ": has a context of " + std::to_string(context) +
                   " tokens, less than the others' " +
                   std::to_string(capabilities_.context_tokens));
  }
  if (other.size() != own.size() || other.bos() != own.bos() || other.eos() != own.eos()) {
    return differs("vocabulary");
  }
  if (&own == &other || own.max_token_bytes() == 0 || other.max_token_bytes() == 0) return {};
  for (std::size_t id = 0; id < own.size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    if (own.bytes(token) != other.bytes(token)) return differs("vocabulary");
  }
  return {};
}

void Pool::warn_of_differences(const std::string& url, const Engine& engine) const {
  if (engine.chat_template() != first_->chat_template()) {
    log::warn("upstream " + url + ": has another chat template, which is not used");
  }
  const std::uint32_t context = engine.capabilities().context_tokens;
  if (context == capabilities_.context_tokens) return;
  const auto told = [](std::uint32_t tokens) {
    return tokens == 0 ? "untold" : std::to_string(tokens) + " tokens";
  };
  log::warn("upstream " + url + ": its context is " + told(context) + ", that of others " +
            told(capabilities_.context_tokens) + ": the least of them is the model's");
}

// The smaller one of those that are told; 0: neither is told.
std::uint32_t least_context(std::uint32_t one, std::uint32_t other) {
  return one == 0 || other == 0 ? std::max(one, other) : std::min(one, other);
}

// The first server decides what the model is; the others must be the same model. Capabilities are
// the least of all, and are settled once the pool is open, because requests have been planned with
// them. The pointer is published last: from then on other threads use the engine.
Status Pool::join(std::size_t server, std::unique_ptr<Engine> engine) {
  const std::string& url = core_.servers[server].url;
  const Capabilities& its = engine->capabilities();
  if (first_ == nullptr) {
    first_ = engine.get();
    capabilities_ = its;
    tokenizer_.emplace(core_, first_->tokenizer());
  } else {
    if (Status same = compare(url, *engine); !same) return same;
    warn_of_differences(url, *engine);
    if (!is_open_) {
      capabilities_.context_tokens =
          least_context(capabilities_.context_tokens, its.context_tokens);
      capabilities_.max_concurrent += its.max_concurrent;
      capabilities_.knows_controls = capabilities_.knows_controls && its.knows_controls;
    }
  }
  const std::uint32_t places = its.max_concurrent;  // read before the engine is moved
  owned_[server] = std::move(engine);
  core_.engines[server].store(owned_[server].get(), std::memory_order_release);
  core_.balancer.joined(server, places);
  return {};
}

// A thread for each server, which looks at it when it is due. It holds the lock only while it
// waits, never while it asks.
void Pool::keep(std::size_t server) {
  const crash::ThreadStack stack;
  std::unique_lock lock(mutex_);
  while (!is_closing_) {
    const auto due = std::max(core_.balancer.next_check(server), misfits_[server].until);
    const auto now = Clock::now();
    if (now < due) {  // a failure may make the check due earlier than it seems now
      closing_.wait_until(lock, std::min(due, now + core_.options.first_pause));
      continue;
    }
    lock.unlock();
    look_at(server);
    lock.lock();
  }
}

void Pool::look_at(std::size_t server) try {
  Engine* const engine = core_.engines[server].load(std::memory_order_acquire);
  if (engine == nullptr) return meet_again(server);
  const patience::Scope scope({.cancel = core_.closed});
  core_.balancer.checked(server, engine->check(), Clock::now());
} catch (const std::exception& thrown) {  // out of memory
  core_.balancer.checked(server, Unexpected(Error{Errc::unavailable, thrown.what()}), Clock::now());
}

// A misfit is logged once, and asked again later: another server may have been started in its
// place.
void Pool::meet_again(std::size_t server) {
  Misfit& misfit = misfits_[server];
  const std::string& url = core_.servers[server].url;
  auto met = core_.meet(server);
  Status seen = met ? join(server, *std::move(met)) : Unexpected(met.error());
  if (seen) {
    misfit.why.clear();
    log::info("upstream " + url + ": is there");
    return;
  }
  if (seen.error().code == Errc::invalid) {
    misfit.until = Clock::now() + kMisfitPauses * core_.options.longest_pause;
    if (misfit.why != seen.error().message) {
      misfit.why = seen.error().message;
      log::warn("upstream " + url + ": " + std::string(log::content(misfit.why)) +
                ": it stays out");
    }
  }
  core_.balancer.checked(server, seen, Clock::now());
}

// Cancels what waits before it joins the keepers, so that closing does not wait for a server that
// does not answer.
Pool::~Pool() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  closing_.notify_all();
  core_.closed.cancel();
  {
    const std::lock_guard lock(core_.closing_mutex);
    core_.is_closing = true;
  }
  for (std::thread& keeper : keepers_) keeper.join();
}

EngineStats Pool::stats() const {
  EngineStats stats;
  stats.upstreams = core_.balancer.stats();
  for (const UpstreamStats& server : stats.upstreams) stats.unfinished += server.running;
  stats.running = stats.unfinished;
  return stats;
}

Expected<std::unique_ptr<Run>> Pool::start(GenerateRequest request,
                                           std::shared_ptr<EventSink> sink) {
  auto attempts = std::make_shared<Attempts>(core_, std::move(request), std::move(sink));
  if (Status launched = attempts->launch(); !launched) {
    return Unexpected(std::move(launched.error()));
  }
  return std::make_unique<PoolRun>(std::move(attempts));
}

}  // namespace

Expected<std::unique_ptr<Engine>> connect_pool(std::vector<PoolServer> servers,
                                               Balancer::Options options) try {
  if (servers.empty() || servers.size() > Balancer::kMaxServers) {
    return invalid("a model has from 1 to " + std::to_string(Balancer::kMaxServers) + " servers");
  }
  auto pool = std::make_unique<Pool>(std::move(servers), options);
  if (Status opened = pool->open(); !opened) return Unexpected(std::move(opened.error()));
  return pool;
} catch (const std::system_error& error) {
  return Unexpected(Error{Errc::unavailable, std::string("no thread: ") + error.what()});
}

}  // namespace tenon::engine
