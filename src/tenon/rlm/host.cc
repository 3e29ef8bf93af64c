#include "tenon/rlm/host.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "tenon/base/crash.h"
#include "tenon/base/log.h"
#include "tenon/json/value.h"
#include "tenon/rlm/worker_pool.h"

// The parts that all recursive models share. Impl has, each with its mutex: the store, the sandbox
// with its pool of workers, the functions that find models, the live sessions, the cancel functions
// of runs, and the alarms.
//
// A session is in one of three places: with the run that has taken it, in the store (as JSON,
// without its REPL), or live in `sessions` with its REPL. take() looks at the live ones first; if
// only the store has it, the run makes the REPL again from the session's cells. `taken` holds the
// ids of sessions that a request is using, so that two requests cannot go on with the same one.
// Sessions are destroyed outside of the locks, because that ends a worker process.
//
// One thread (watch) ends live sessions that are too old and calls alarms. It ticks every 50 ms
// while there is something to look after, and sleeps otherwise.

namespace tenon::rlm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kErrandThreads = 16;
constexpr std::chrono::milliseconds kTick{50};

void guarded(const std::function<void()>& work) try {
  work();
} catch (const std::exception& thrown) {
  log::error(std::string("rlm: ") + thrown.what());
}

/// A pool of at most `most` threads, which are started when they are needed.
class Threads {
 public:
  explicit Threads(std::size_t most) : most_(most) {}
  ~Threads() { close(); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  /// `waits`: if all threads are busy, the work waits for one.
  /// A thread is idle for each task that waits, or a new one is started; so runs never wait behind
  /// each other. `after` is called behind the work, when its thread is idle again; it must be
  /// short.
  bool post(std::function<void()> work, bool waits, std::function<void()> after = nullptr) {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return false;
    if (idle_ <= tasks_.size() && threads_.size() < most_) {
      threads_.emplace_back([this] { run(); });
    } else if (idle_ <= tasks_.size() && !waits) {
      return false;
    }
    tasks_.push_back({.work = std::move(work), .after = std::move(after)});
    changed_.notify_one();
    return true;
  }
  [[nodiscard]] std::size_t busy() const {
    const std::lock_guard lock(mutex_);
    return working_ + tasks_.size();
  }
  /// Drops the work that waits, and waits for the work that runs.
  void close() {
    std::vector<std::thread> threads;
    std::deque<Task> dropped;
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
      threads.swap(threads_);
      dropped.swap(tasks_);
      changed_.notify_all();
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  struct Task {
    std::function<void()> work;
    std::function<void()> after;
  };
  void run() {
    const crash::ThreadStack stack;
    std::function<void()> after;  // of the last task
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      if (after) {
        lock.unlock();
        guarded(after);
        after = nullptr;
        lock.lock();
      }
      changed_.wait(lock, [this] { return is_closed_ || !tasks_.empty(); });
      --idle_;
      if (tasks_.empty()) return;
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      ++working_;
      lock.unlock();
      guarded(task.work);
      // What the task holds is destroyed without the lock, because destructors may post again.
      task.work = nullptr;
      after = std::move(task.after);
      lock.lock();
      --working_;
    }
  }

  const std::size_t most_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  std::size_t idle_ = 0;  // threads that wait for work; a new thread counts once it waits
  std::size_t working_ = 0;
  bool is_closed_ = false;
  std::vector<std::thread> threads_;
};

struct Alarm {
  Clock::time_point deadline;
  std::function<void()> expire;
};

// Two documents for a session: the context may be large and seldom changes, so it is written once
// and found by its hash.
std::string session_key(const std::string& id) {
  return "session:" + id;
}
std::string context_key(const std::string& id, const std::string& hash) {
  return "context:" + id + ":" + hash;
}

}  // namespace

struct Host::Impl {
  explicit Impl(HostOptions chosen) : options(std::move(chosen)), runs(options.max_runs) {}

  void tick();
  void has_something();
  void watch();
  void store_session(Session& session);
  Expected<std::unique_ptr<Session>> stored(const std::string& id);
  void keep_live(std::unique_ptr<Session> session, std::vector<std::unique_ptr<Session>>& gone);
  void release(const std::string& id);

  Status open_store();
  store::ResponseStore& opened_store();

  const HostOptions options;
  std::mutex store_mutex;
  std::unique_ptr<store::ResponseStore> store;  // guarded by store_mutex, and set once

  std::mutex sandbox_mutex;
  std::shared_ptr<Sandbox> sandbox;     // guarded by sandbox_mutex
  std::unique_ptr<WorkerPool> workers;  // guarded by sandbox_mutex, and set once
  std::atomic<const char*> tier = "";

  mutable std::mutex find_mutex;
  Find find;  // guarded by find_mutex
  Has has;    // guarded by find_mutex

  std::mutex sessions_mutex;
  // Guarded by sessions_mutex: paused sessions that have a REPL or could not be stored.
  std::map<std::string, std::unique_ptr<Session>> sessions;
  std::set<std::string> taken;  // guarded by sessions_mutex

  std::mutex cancels_mutex;
  std::list<std::function<void()>> cancels;  // guarded by cancels_mutex; one for each run
  bool is_closed = false;                    // guarded by cancels_mutex

  std::mutex alarms_mutex;
  std::condition_variable wake;
  std::vector<std::weak_ptr<Alarm>> alarms;  // guarded by alarms_mutex
  bool has_work = false;                     // guarded by alarms_mutex; the watcher must tick
  bool has_new_work = false;  // guarded by alarms_mutex; new work since the last tick
  bool ends = false;          // guarded by alarms_mutex

  Threads errands{kErrandThreads};
  Threads runs;
  std::thread watcher{[this] { watch(); }};  // last, because it uses the members above
};

// Called with sessions_mutex. Sessions that must go are moved to `gone`, so that they end without
// the lock.
void Host::Impl::keep_live(std::unique_ptr<Session> session,
                           std::vector<std::unique_ptr<Session>>& gone) {
  // A session that is stored and has no REPL is read from the store as well.
  const bool is_worth_it = session->repl != nullptr || !session->is_stored;
  const bool may_go_on =
      session->state == Session::State::paused || session->state == Session::State::open;
  if (!may_go_on || !is_worth_it) {
    gone.push_back(std::move(session));
    return;
  }
  while (!sessions.empty() && sessions.size() >= options.max_live_sessions) {
    const auto oldest = std::ranges::min_element(
        sessions, {}, [](const auto& each) { return each.second->live_until; });
    gone.push_back(std::move(oldest->second));
    sessions.erase(oldest);
  }
  std::string id = session->id;
  sessions[std::move(id)] = std::move(session);
  has_something();
}

void Host::Impl::release(const std::string& id) {
  const std::lock_guard lock(sessions_mutex);
  taken.erase(id);
}

void Host::Impl::tick() {
  const Clock::time_point now = Clock::now();
  std::vector<std::shared_ptr<Alarm>> due;
  {
    const std::lock_guard lock(alarms_mutex);
    std::erase_if(alarms, [&](const std::weak_ptr<Alarm>& each) {
      const auto alarm = each.lock();
      if (alarm == nullptr) return true;
      if (alarm->deadline > now) return false;
      due.push_back(alarm);
      return true;
    });
  }
  // Alarms and destructors run without the locks, because they call back into this class.
  for (const auto& alarm : due) guarded(alarm->expire);
  std::vector<std::unique_ptr<Session>> gone;
  bool has_sessions = false;
  {
    const std::lock_guard lock(sessions_mutex);
    for (auto each = sessions.begin(); each != sessions.end();) {
      const bool is_old = each->second->live_until <= now;
      if (is_old) gone.push_back(std::move(each->second));
      each = is_old ? sessions.erase(each) : std::next(each);
    }
    has_sessions = !sessions.empty();
  }
  const std::lock_guard lock(alarms_mutex);
  // What came while this tick ran (has_new_work) may not be in the counts above.
  has_work = has_new_work || has_sessions || !alarms.empty();
  has_new_work = false;
}

void Host::Impl::has_something() {
  const std::lock_guard lock(alarms_mutex);
  has_work = has_new_work = true;
  wake.notify_all();
}

void Host::Impl::watch() {
  const crash::ThreadStack stack;
  std::unique_lock lock(alarms_mutex);
  while (true) {
    wake.wait(lock, [this] { return ends || has_work; });
    // The pause between two ticks, which only the end of the host cuts short.
    if (wake.wait_for(lock, kTick, [this] { return ends; })) return;
    lock.unlock();
    guarded([this] { tick(); });
    lock.lock();
  }
}

Status Host::Impl::open_store() {
  const std::lock_guard lock(store_mutex);
  if (store != nullptr) return {};
  store::StoreOptions chosen{.path = options.store,
                             .max_bytes = options.store_max_bytes,
                             .max_documents = 100'000,
                             .ttl = options.session_ttl,
                             .now = {}};
  const std::filesystem::path folder = std::filesystem::path(options.store).parent_path();
  if (std::error_code failed; !folder.empty()) {
    std::filesystem::create_directories(folder, failed);  // open() reports the failure
  }
  auto opened = store::ResponseStore::open(chosen);
  if (!opened) return Unexpected(opened.error());
  store = *std::move(opened);
  return {};
}

store::ResponseStore& Host::Impl::opened_store() {
  if (Status opened = open_store(); !opened) {
    log::error("rlm: sessions are kept in memory alone: " + opened.error().message);
    const std::lock_guard lock(store_mutex);
    // Without a path the store is in memory; another thread may have made it meanwhile.
    if (store == nullptr) {
      store = store::ResponseStore::open(
                  {.max_bytes = options.store_max_bytes, .ttl = options.session_ttl, .now = {}})
                  .value();
    }
  }
  return *store;
}

Host::Host(HostOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

Status Host::open_store() {
  return impl_->open_store();
}

Host::~Host() {
  close();
  {
    const std::lock_guard lock(impl_->alarms_mutex);
    impl_->ends = true;
    impl_->wake.notify_all();
  }
  impl_->watcher.join();
}

const HostOptions& Host::options() const {
  return impl_->options;
}

void Host::connect(Find find, Has has) {
  const std::lock_guard lock(impl_->find_mutex);
  impl_->find = std::move(find);
  impl_->has = std::move(has);
}

void Host::close() {
  {
    const std::lock_guard lock(impl_->cancels_mutex);
    impl_->is_closed = true;
    // Runs are cancelled before their threads are waited for. Errands end after them, because a run
    // may wait for one.
    for (const auto& cancel : impl_->cancels) guarded(cancel);
  }
  impl_->runs.close();
  impl_->errands.close();
  // Later calls of find() fail, and models that the functions hold are released.
  connect(nullptr, nullptr);
  std::map<std::string, std::unique_ptr<Session>> gone;
  const std::lock_guard lock(impl_->sessions_mutex);
  gone.swap(impl_->sessions);
}

Expected<std::shared_ptr<Sandbox>> Host::sandbox() {
  const std::lock_guard lock(impl_->sandbox_mutex);
  if (impl_->sandbox != nullptr) return impl_->sandbox;
  auto opened = Sandbox::open(impl_->options.sandbox);
  if (!opened) return Unexpected(opened.error());
  impl_->sandbox = *std::move(opened);
  impl_->workers = std::make_unique<WorkerPool>(
      impl_->sandbox,
      WorkerPool::Options{.limits = impl_->options.worker, .warm = impl_->options.warm_workers});
  impl_->tier = tier_name(impl_->sandbox->tier()).data();  // a literal, which lives forever
  return impl_->sandbox;
}

std::string_view Host::tier() const {
  return impl_->tier.load();
}

std::size_t Host::runs() const {
  return impl_->runs.busy();
}

bool Host::post(std::function<void()> work, std::function<void()> cancel,
                std::function<void()> after) {
  std::list<std::function<void()>>::iterator place;
  {
    const std::lock_guard lock(impl_->cancels_mutex);
    if (impl_->is_closed) return false;
    place = impl_->cancels.insert(impl_->cancels.end(), std::move(cancel));
  }
  // Called once: by the thread of the run, or here if there is no thread for it.
  const auto leave = [impl = impl_.get(), place] {
    const std::lock_guard lock(impl->cancels_mutex);
    impl->cancels.erase(place);
  };
  const auto later = [this, after = std::move(after)] {
    if (after) (void)errand(after);
  };
  bool is_posted = false;
  guarded([&] {
    is_posted = impl_->runs.post(
        [work = std::move(work), leave] {
          guarded(work);
          leave();
        },
        /*waits=*/false, later);
  });
  if (!is_posted) leave();
  return is_posted;
}

bool Host::errand(std::function<void()> work) {
  return impl_->errands.post(std::move(work), /*waits=*/true);
}

std::shared_ptr<void> Host::alarm(Clock::time_point deadline, std::function<void()> expire) {
  auto alarm = std::make_shared<Alarm>(Alarm{deadline, std::move(expire)});
  {
    const std::lock_guard lock(impl_->alarms_mutex);
    impl_->alarms.push_back(alarm);
  }
  impl_->has_something();
  return alarm;
}

Result<std::shared_ptr<chat::Model>, chat::Refusal> Host::find(std::string_view name) const {
  Find find;
  {
    const std::lock_guard lock(impl_->find_mutex);
    find = impl_->find;
  }
  if (find) {
    auto found = find(name);
    if (!found) return found;
    if ((*found)->takes_rlm()) {
      return Failure<chat::Refusal>(
          {.error = {Errc::invalid, "'" + std::string(name) +
                                        "' is a recursive model itself, and cannot be part of one"},
           .param = "model",
           .code = "invalid_value"});
    }
    // Code in the sandbox must not run anything outside of it through a model's tools.
    return std::shared_ptr<chat::Model>(*found, (*found)->without_tools());
  }
  return Failure<chat::Refusal>({.error = {Errc::unavailable, "the server is being stopped"},
                                 .param = {},
                                 .code = "engine_error"});
}

bool Host::has(std::string_view name) const {
  const std::lock_guard lock(impl_->find_mutex);
  return impl_->has && impl_->has(name);
}

Expected<std::unique_ptr<Repl>> Host::repl(bool unsafe_local) {
  const auto opened = sandbox();
  if (!opened) return Unexpected(opened.error());
  if ((*opened)->tier() == Tier::unsafe_local && !unsafe_local) {
    return Unexpected(
        Error{Errc::unsupported, "no sandbox works here (" + (*opened)->why_no_better() +
                                     "), and the model does not have unsafe_local = true"});
  }
  auto worker = impl_->workers->take();
  if (!worker) return Unexpected(worker.error());
  return std::make_unique<Repl>(*std::move(worker));
}

// ---- sessions

// The session is put first: documents put later are deleted later, and a session is useless without
// its context.
void Host::Impl::store_session(Session& session) {
  store::ResponseStore& to = opened_store();
  const bool is_over = session.state == Session::State::over;
  Status kept = to.put(session_key(session.id), write_session(session));
  const bool has_changed = session.kept_context != session.context_hash;
  if (kept && !session.kept_context.empty() && (is_over || has_changed)) {
    const auto gone = to.erase(context_key(session.id, session.kept_context));
    session.kept_context.clear();
    if (!gone) kept = Unexpected(gone.error());
  }
  if (kept && !is_over && !session.task.context.empty()) {
    const std::string key = context_key(session.id, session.context_hash);
    bool is_there = false;
    if (!session.kept_context.empty()) {
      const auto touched = to.touch(key);
      is_there = touched && *touched;
    }
    if (!is_there) {
      const json::Value pieces =
          json::Array(session.task.context.begin(), session.task.context.end());
      kept = to.put(key, json::to_string(pieces));
    }
    if (kept) session.kept_context = session.context_hash;
  }
  session.is_stored = kept.has_value();
  if (kept) return;
  log::error("rlm: a session is not kept on disk (server.sessions): " + kept.error().message);
}

// Null: there is no such session. Fails if the store fails.
Expected<std::unique_ptr<Session>> Host::Impl::stored(const std::string& id) {
  const auto text = opened_store().get(session_key(id));
  if (!text) return Unexpected(text.error());
  if (!*text) return nullptr;
  auto session = read_session(**text);
  if (!session) {
    log::error("rlm: session " + id + ": " + session.error().message);
    return nullptr;
  }
  (*session)->is_stored = true;
  if ((*session)->state == Session::State::over || (*session)->context_hash.empty()) {
    return session;
  }
  const auto context = opened_store().get(context_key(id, (*session)->context_hash));
  if (!context) return Unexpected(context.error());
  const auto pieces = *context ? json::parse(**context) : json::parse("null");
  if (!pieces || pieces->if_array() == nullptr) {
    log::warn("rlm: session " + id + " has lost its context: server.sessions_max_bytes is low");
    return nullptr;
  }
  (*session)->kept_context = (*session)->context_hash;
  for (const json::Value& piece : *pieces->if_array()) {
    if (piece.if_string() != nullptr) (*session)->task.context.push_back(*piece.if_string());
  }
  return session;
}

void Host::keep(std::unique_ptr<Session> session) {
  impl_->store_session(*session);
  session->live_until = Clock::now() + impl_->options.live_session;
  give_back(std::move(session));
}

void Host::give_back(std::unique_ptr<Session> session) {
  const auto claim = std::move(session->claim);       // destroyed last,
  std::vector<std::unique_ptr<Session>> gone;         // after the sessions,
  const std::lock_guard lock(impl_->sessions_mutex);  // and after the lock is released
  impl_->keep_live(std::move(session), gone);
}

Host::Taking Host::take(const std::string& id, std::string_view owner, std::string_view model,
                        std::unique_ptr<Session>& out) {
  const auto is_theirs = [&](const Session& session) {
    return session.owner == owner && session.model == model;
  };
  std::unique_ptr<Session> found;
  {
    const std::lock_guard lock(impl_->sessions_mutex);
    if (impl_->taken.contains(id)) return Taking::busy;
    const auto live = impl_->sessions.find(id);
    if (live != impl_->sessions.end()) {
      if (!is_theirs(*live->second)) return Taking::none;
      found = std::move(live->second);
      impl_->sessions.erase(live);
    }
    // The store is read without the lock; the id in `taken` keeps other requests off meanwhile.
    impl_->taken.insert(id);
  }
  // Its deleter is what counts: each way out of here, and the end of the session, releases the id.
  const std::shared_ptr<void> claim(nullptr,
                                    [impl = impl_.get(), id](void*) { impl->release(id); });
  if (found == nullptr) {
    auto stored = impl_->stored(id);
    if (!stored) {
      log::error("rlm: " + stored.error().message);
      return Taking::failed;
    }
    if (*stored == nullptr || !is_theirs(**stored)) return Taking::none;
    found = *std::move(stored);
  }
  found->claim = claim;
  out = std::move(found);
  return Taking::found;
}

}  // namespace tenon::rlm
