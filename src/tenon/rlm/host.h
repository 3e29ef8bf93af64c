#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/chat/model.h"
#include "tenon/rlm/sandbox.h"
#include "tenon/rlm/session.h"
#include "tenon/store/response_store.h"

namespace tenon::rlm {

struct HostOptions {
  SandboxOptions sandbox;
  WorkerLimits worker;
  std::size_t warm_workers = 1;
  /// The number of runs at the same time. Each has a thread, and a worker once it runs code.
  std::size_t max_runs = 64;
  /// The number of paused sessions whose REPL stays alive; the REPL of an older one is made again
  /// from its cells.
  std::size_t max_live_sessions = 32;
  std::chrono::seconds live_session{600};  ///< How long a REPL waits for results.
  std::chrono::seconds session_ttl{24 * 3600};
  /// The file in which sessions are kept; "": in memory.
  std::string store;
  std::uint64_t store_max_bytes = std::uint64_t{1} << 30;
};

/// What all recursive models of a process share: the sandbox and its workers, threads, sessions
/// that wait for results, and access to other models.
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
  [[nodiscard]] const HostOptions& options() const;
  /// Sets how models are found, and whether a name has any. Before this call runs fail. Recursive
  /// models must not be among them, because the limits of a run would be multiplied.
  void connect(Find find, Has has);
  /// Ends all runs and releases all models. Later requests are refused.
  void close();

  /// Opens the file of sessions now, and not when the first one pauses. Fails as
  /// store::ResponseStore::open; sessions are then kept in memory.
  [[nodiscard]] Status open_store();
  /// Opens the sandbox, unless it is open. Fails as Sandbox::open.
  [[nodiscard]] Expected<std::shared_ptr<Sandbox>> sandbox();
  /// "bubblewrap" or another name; "": it has not been opened, or no tier works.
  [[nodiscard]] std::string_view tier() const;
  /// The number of runs under way.
  [[nodiscard]] std::size_t runs() const;

  // ---- For the models of this layer.

  /// Does `work` on a thread. It must end soon after `cancel` is called, which can be called from
  /// any thread. Behind it `after` is an errand, when the thread is free for other work. If the
  /// host is closed before, work and `after` may be dropped. False: all threads are busy, or the
  /// host is closed.
  [[nodiscard]] bool post(std::function<void()> work, std::function<void()> cancel,
                          std::function<void()> after = nullptr);
  /// For short work, such as starting answers. False: the host is closed.
  bool errand(std::function<void()> work);
  /// Calls `expire` at `deadline`, unless the result is destroyed before.
  [[nodiscard]] std::shared_ptr<void> alarm(std::chrono::steady_clock::time_point deadline,
                                            std::function<void()> expire);
  [[nodiscard]] Result<std::shared_ptr<chat::Model>, chat::Refusal> find(
      std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const;
  /// An empty REPL. Fails if the sandbox does not confine code, unless `unsafe_local`.
  [[nodiscard]] Expected<std::unique_ptr<Repl>> repl(bool unsafe_local);

  /// Keeps a session that is paused or over, with its REPL. It is in the store when this returns.
  /// If the store fails, that is logged, and the session is kept in memory only.
  void keep(std::unique_ptr<Session> session);
  enum class Taking : std::uint8_t {
    found,
    none,
    busy,    ///< A run is using it.
    failed,  ///< The store failed.
  };
  /// Takes the session `id` of `owner` and `model`, to go on with it. It may have lost its REPL. As
  /// long as Session::claim lives, no other request gets it; if the claim ends together with the
  /// session, the session is found again as the store has it. Reads the store.
  [[nodiscard]] Taking take(const std::string& id, std::string_view owner, std::string_view model,
                            std::unique_ptr<Session>& out);
  /// Gives back an unchanged session that was taken.
  void give_back(std::unique_ptr<Session> session);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::rlm
