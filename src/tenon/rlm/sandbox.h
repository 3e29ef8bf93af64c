#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/rlm/limits.h"
#include "tenon/rlm/worker.h"

namespace tenon::rlm {

/// What keeps the code of cells in (docs/sandbox.md), best first.
enum class Tier : std::uint8_t {
  bubblewrap,    ///< Namespaces of its own, a root with nothing but Python, the filter of calls.
  landlock,      ///< The same filter, and files by Landlock; names of files elsewhere can be asked.
  unsafe_local,  ///< Limits only: the code can do what an unprivileged user can.
};
[[nodiscard]] std::string_view tier_name(Tier tier);
[[nodiscard]] std::optional<Tier> tier_named(std::string_view name);

struct SandboxOptions {
  std::filesystem::path
      python;  ///< Absolute; empty: /usr/bin/python3, else /usr/local/bin/python3.
  std::filesystem::path bubblewrap = "/usr/bin/bwrap";
  std::optional<Tier> only;   ///< This tier or none.
  bool unsafe_local = false;  ///< Allows Tier::unsafe_local where there is no other.
  std::size_t max_workers = 256;
};

/// Starts workers: Python processes that hostile code may run in.
///
///     Expected<std::shared_ptr<Sandbox>> sandbox = Sandbox::open({});
///     if (!sandbox) refuse(sandbox.error());      // no tier works here: the sentence says why
///     log::info(tier_name((*sandbox)->tier()));
///     Expected<std::unique_ptr<Worker>> worker = (*sandbox)->start({});
///
/// Thread-safe. It lives as long as its workers do.
class Sandbox : public std::enable_shared_from_this<Sandbox> {
 public:
  /// Takes the first tier in which a worker really starts and in which none of the things that must
  /// be impossible was possible when the worker tried them. Takes some 0.2 s: do it once. SIGPIPE
  /// is ignored from then on, in the whole process, unless it has a handler.
  ///
  /// Fails with Errc::unsupported where no tier works or none is allowed, with the reason of each.
  [[nodiscard]] static Expected<std::shared_ptr<Sandbox>> open(const SandboxOptions& options);
  ~Sandbox();

  [[nodiscard]] Tier tier() const;
  /// Why the tiers above do not work here; empty: there is none above.
  [[nodiscard]] const std::string& why_no_better() const;
  /// "3.11.2".
  [[nodiscard]] const std::string& python_version() const;
  /// Workers that live.
  [[nodiscard]] std::size_t workers() const;

  /// A worker that is ready for commands. Fails with Errc::limit_exceeded where there are
  /// `max_workers`, with Errc::unavailable where the system does not give one.
  [[nodiscard]] Expected<std::unique_ptr<Worker>> start(const WorkerLimits& limits);

 private:
  struct Impl;
  explicit Sandbox(std::unique_ptr<Impl> impl);
  [[nodiscard]] Status open_tier(Tier tier);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::rlm
