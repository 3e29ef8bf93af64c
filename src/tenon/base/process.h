#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/cancel.h"
#include "tenon/base/expected.h"

namespace tenon {

/// A program to start.
struct ProcessOptions {
  std::vector<std::string> arguments;  ///< The first is the program: a path, or looked for in PATH.
  std::vector<std::string> environment;  ///< NAME=value; see plain_environment().
  std::string folder;                    ///< "": ours.
};

/// HOME, LANG, LOGNAME, PATH, SHELL, TERM, TMPDIR, TZ and USER of our own environment, as far as it
/// has them, with `more` beside or instead: what programs need, and none of our secrets.
[[nodiscard]] std::vector<std::string> plain_environment(const std::vector<std::string>& more = {});

/// A program that runs, in a process group of its own, with three pipes. Its signals are the
/// default ones, and it inherits nothing else that is open. Of one thread but for stop().
class Process {
 public:
  /// Fails with `invalid` where there are no arguments, and `unavailable`, naming the program, with
  /// the system's reason.
  [[nodiscard]] static Expected<std::unique_ptr<Process>> start(const ProcessOptions& options);
  /// Kills the group, without grace.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Writes to its input what fits into the pipe now, and says how much. Fails with `unavailable`
  /// where it reads no more.
  [[nodiscard]] Expected<std::size_t> write_input(std::string_view bytes);
  /// Our ends of its pipes: they do not block. -1: closed.
  [[nodiscard]] int input() const { return input_; }
  [[nodiscard]] int output() const { return output_; }
  [[nodiscard]] int errors() const { return errors_; }
  void close_input();
  void close_output();
  void close_errors();

  /// Waits until it has ended or `most` is over; true: it has ended. Whatever else is in its group
  /// lives on.
  [[nodiscard]] bool wait(std::chrono::milliseconds most);
  /// "exit status 1", "killed by signal 9 (Killed)"; "" while it runs.
  [[nodiscard]] std::string ending() const;
  /// Its exit status, 128 and the number of the signal that killed it; nothing while it runs.
  [[nodiscard]] std::optional<int> status() const { return status_; }

  /// Closes its input, waits for `grace`, asks the group to end (SIGTERM), waits for `grace` again,
  /// and kills what is left of the group.
  void stop(std::chrono::milliseconds grace);

 private:
  explicit Process(int pid) : pid_(pid) {}
  void kill_group(int signal) const;
  void reap();

  const int pid_;
  int input_ = -1;
  int output_ = -1;
  int errors_ = -1;
  std::optional<int> status_;
  int signal_ = 0;  // that ended it; 0: it ended by itself
};

/// Asks the groups of all programs that run to end (SIGTERM). For a handler of a signal that is
/// about to end us; of more than a thousand programs some are not asked.
void ask_programs_to_end() noexcept;

struct CommandLimits {
  std::chrono::milliseconds time{30'000};
  std::size_t max_output_bytes = std::size_t{1} << 20;  ///< What comes beyond is counted only.
  std::size_t max_error_bytes = std::size_t{16} << 10;  ///< Of stderr the last are kept.
};

struct CommandOutput {
  int status = 0;  ///< As Process::status().
  std::string ending;
  std::string output;            ///< The first max_output_bytes.
  std::size_t output_bytes = 0;  ///< All that came.
  std::string errors;
};

/// Runs a program to its end: `input` goes to its stdin, what it writes comes back. Its group is
/// killed when it has ended, when the time is over (`limit_exceeded`), or after `cancel`
/// (`unavailable`). Blocks.
///
///     auto said = run_command({.arguments = {"jq", "."}, .environment = plain_environment()},
///                             "{}", {});
[[nodiscard]] Expected<CommandOutput> run_command(const ProcessOptions& options,
                                                  std::string_view input,
                                                  const CommandLimits& limits,
                                                  const CancelToken& cancel = {});

}  // namespace tenon
