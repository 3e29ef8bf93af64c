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

/// What confines the code of cells (docs/sandbox.md), the strongest first.
enum class Tier : std::uint8_t {
  bubblewrap,  ///< Namespaces of its own, a root folder with only Python, the filter of system
               ///< calls.
  landlock,    ///< The same filter, and Landlock for files; whether other files exist can be found
               ///< out.
  unsafe_local,  ///< Resource limits only: the code can do whatever an unprivileged user can.
};
[[nodiscard]] std::string_view tier_name(Tier tier);
[[nodiscard]] std::optional<Tier> tier_named(std::string_view name);

struct SandboxOptions {
  std::filesystem::path
      python;  ///< Absolute; empty: /usr/bin/python3, else /usr/local/bin/python3.
  std::filesystem::path bubblewrap = "/usr/bin/bwrap";
  std::optional<Tier> only;   ///< Only this tier.
  bool unsafe_local = false;  ///< Allows Tier::unsafe_local if no other tier works.
  std::size_t max_workers = 256;
  /// Distributions that are installed for the interpreter, as PyPI names them. Cells may import
  /// them, and what they require.
  std::vector<std::string> packages;
  /// The size of a folder of each worker's own (Sandbox::folder), in memory: what is written there
  /// ends with the worker. 0: there is no folder. Only Tier::bubblewrap has it.
  std::uint64_t folder_bytes = 0;
};

/// One of SandboxOptions::packages.
struct Package {
  std::string name;  ///< As it was asked for.
  bool is_installed = true;
  bool is_standard = false;  ///< Not installed: a module of the standard library.
  /// What code imports, with the package where that has another name: "bs4 (beautifulsoup4)".
  std::vector<std::string> imports = {};
  /// If `name` is no installed package, but a module of one: that package; else "".
  std::string instead = {};
};

/// What code may import of all of them.
[[nodiscard]] std::vector<std::string> imports_of(const std::vector<Package>& packages);

/// The Python that runs cells.
struct Interpreter {
  std::string program;              ///< As it was named or found.
  std::string version;              ///< "3.11.2".
  std::vector<Package> packages;    ///< Those that were asked for, in that order.
  std::vector<std::string> closed;  ///< Folders with packages that its user may not read.
};
/// Looks at an interpreter without a sandbox. A package that is missing is no failure. Fails with
/// Errc::unavailable if the interpreter is not there, or does not run. This takes as long as
/// importing all packages does.
[[nodiscard]] Expected<Interpreter> look_at_interpreter(const SandboxOptions& options);

/// "/work", or the first of "/work2", "/work3", ... at which a folder hides none of `paths`.
[[nodiscard]] std::string folder_beside(const std::vector<std::string>& paths);

/// Starts workers: Python processes in which hostile code may run.
///
///     Expected<std::shared_ptr<Sandbox>> sandbox = Sandbox::open({});
///     if (!sandbox) refuse(sandbox.error());      // no tier works here: the sentence says why
///     log::info(tier_name((*sandbox)->tier()));
///     Expected<std::unique_ptr<Worker>> worker = (*sandbox)->start({});
///
/// Thread-safe. It must live as long as its workers.
class Sandbox : public std::enable_shared_from_this<Sandbox> {
 public:
  /// Takes the first tier in which a worker can be started and in which each thing that must be
  /// impossible failed when the worker tried it. This takes about 0.2 s, so do it once. From then
  /// on SIGPIPE is ignored in the whole process, unless it has a handler.
  ///
  /// Fails with Errc::unsupported if no tier works or none is allowed, with the reason for each
  /// tier, and with Errc::unavailable if a package is not there.
  [[nodiscard]] static Expected<std::shared_ptr<Sandbox>> open(const SandboxOptions& options);
  ~Sandbox();

  [[nodiscard]] Tier tier() const;
  /// Why the better tiers do not work here; empty if this is the best one.
  [[nodiscard]] const std::string& why_no_better() const;
  [[nodiscard]] const Interpreter& interpreter() const;
  /// Where cells begin and may write; "": nowhere.
  [[nodiscard]] const std::string& folder() const;
  /// The number of living workers.
  [[nodiscard]] std::size_t workers() const;

  /// Starts a worker that is ready for commands. Fails with Errc::limit_exceeded if there are
  /// `max_workers`, and with Errc::unavailable if the system cannot start one.
  [[nodiscard]] Expected<std::unique_ptr<Worker>> start(const WorkerLimits& limits);

 private:
  struct Impl;
  explicit Sandbox(std::unique_ptr<Impl> impl);
  [[nodiscard]] Status open_tier(Tier tier);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::rlm
