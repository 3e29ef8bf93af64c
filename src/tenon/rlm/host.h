#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/chat/responder.h"
#include "tenon/rlm/sandbox.h"
#include "tenon/rlm/session.h"
#include "tenon/store/response_store.h"

namespace tenon::rlm {

struct HostOptions {
  SandboxOptions sandbox;
  WorkerLimits worker;
  std::size_t warm_workers = 1;
  /// Runs at the same time, each with a thread and, once it runs code, a worker.
  std::size_t max_runs = 64;
  /// Sessions that pause with their REPL alive; older ones are made again from their cells.
  std::size_t max_live_sessions = 32;
  std::chrono::seconds live_session{600};  ///< So long a REPL waits for results.
  std::chrono::seconds session_ttl{24 * 3600};
  /// File where sessions are kept; "": in memory.
  std::string store;
  std::uint64_t store_max_bytes = std::uint64_t{1} << 30;
};

/// What all recursive models of a process share: the sandbox and its workers, threads, sessions
/// that wait for results, and the way to other models.
///
///     auto host = std::make_shared<Host>(HostOptions{.store = "sessions.db"});
///     registry.add(make_recursive_model({.name = "rlm", .root = "a", .sub = "b"}, host));
///     host->connect([&](auto name) { return registry.use(name); },
///                   [&](auto name) { return registry.has_single(name); });
///     ...
///     host->close();                                    // before the registry goes
///
/// Thread-safe.
class Host {
 public:
  using Find =
      std::function<Result<std::shared_ptr<chat::Model>, chat::Refusal>(std::string_view name)>;

  explicit Host(HostOptions options);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  using Has = std::function<bool(std::string_view name)>;
  /// How models are found from now on, and whether there are any of a name; before, runs fail.
  /// Recursive models are none of them: what limits a run would be multiplied.
  void connect(Find find, Has has);
  /// Ends all runs, and lets go of all models. What is asked afterwards is refused.
  void close();

  /// Opens the file of sessions now, not when the first one pauses. Fails as
  /// store::ResponseStore::open; what is asked of it later is kept in memory then.
  [[nodiscard]] Status open_store();
  /// Opens the sandbox, unless it is open. Fails as Sandbox::open.
  [[nodiscard]] Expected<std::shared_ptr<Sandbox>> sandbox();
  /// "bubblewrap"; "": it has not been opened, or there is none.
  [[nodiscard]] std::string_view tier() const;
  /// Runs under way.
  [[nodiscard]] std::size_t runs() const;

  // ---- For the models of this layer.

  /// A thread does `work`, which must end soon after `cancel` is called, from any thread. False:
  /// all are busy, or the host is closed.
  [[nodiscard]] bool post(std::function<void()> work, std::function<void()> cancel);
  /// For what does not take long: starting answers. False: the host is closed.
  bool errand(std::function<void()> work);
  /// Calls `expire`, unless the result is destroyed before `deadline`.
  [[nodiscard]] std::shared_ptr<void> alarm(std::chrono::steady_clock::time_point deadline,
                                            std::function<void()> expire);
  [[nodiscard]] Result<std::shared_ptr<chat::Model>, chat::Refusal> find(
      std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const;
  /// A REPL with nothing in it. Refuses a sandbox that keeps nothing in unless `unsafe_local`.
  [[nodiscard]] Expected<std::unique_ptr<Repl>> repl(bool unsafe_local);

  /// Keeps a session that is paused or over, REPL included. What it says is in the store when this
  /// returns; where the store fails that is logged, and the session lives in memory alone.
  void keep(std::unique_ptr<Session> session);
  enum class Taking : std::uint8_t {
    found,
    none,
    busy,    ///< It is under way.
    failed,  ///< The store cannot say.
  };
  /// The session `id` of `owner` and `model`, to go on with. Its REPL may be gone. While there is
  /// Session::claim nobody else gets it; where it goes with the session, that is found again as the
  /// store has it. Reads the store.
  [[nodiscard]] Taking take(const std::string& id, std::string_view owner, std::string_view model,
                            std::unique_ptr<Session>& out);
  /// Gives back a session that was taken, unchanged.
  void give_back(std::unique_ptr<Session> session);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::rlm
