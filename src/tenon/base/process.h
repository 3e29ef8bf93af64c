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
  std::vector<std::string> arguments;    ///< The first is the program: a path, or a name in PATH.
  std::vector<std::string> environment;  ///< NAME=value; see plain_environment().
  std::string folder;                    ///< The working folder; "": ours.
};

/// HOME, LANG, LOGNAME, PATH, SHELL, TERM, TMPDIR, TZ and USER of our own environment, those that
/// are set, with the entries of `more` added or replaced: what programs need, and none of our
/// secrets.
[[nodiscard]] std::vector<std::string> plain_environment(const std::vector<std::string>& more = {});

/// A running program, in a process group of its own, with three pipes. Its signal actions are the
/// defaults, and it inherits no other open file. For one thread, except stop().
class Process {
 public:
  /// Fails with `invalid` if there are no arguments, and with `unavailable`, the program's name and
  /// the system's reason if it cannot be started.
  [[nodiscard]] static Expected<std::unique_ptr<Process>> start(const ProcessOptions& options);
  /// Kills the group, without grace.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Writes as much of `bytes` as fits into the input pipe now, and returns how much that was.
  /// Fails with `unavailable` if the program has closed its input.
  [[nodiscard]] Expected<std::size_t> write_input(std::string_view bytes);
  /// Our ends of the pipes, which are non-blocking. -1: closed.
  [[nodiscard]] int input() const { return input_; }
  [[nodiscard]] int output() const { return output_; }
  [[nodiscard]] int errors() const { return errors_; }
  void close_input();
  void close_output();
  void close_errors();

  /// Waits until the program has ended (true) or `most` is over (false). Other processes of its
  /// group live on.
  [[nodiscard]] bool wait(std::chrono::milliseconds most);
  /// "exit status 1", "killed by signal 9 (SIGKILL)"; "" while it runs.
  [[nodiscard]] std::string ending() const;
  /// The exit status, or 128 plus the number of the signal that killed it; no value while it runs.
  [[nodiscard]] std::optional<int> status() const { return status_; }

  /// Closes the input, waits for `grace`, asks the group to end (SIGTERM), waits for `grace` again,
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
  int signal_ = 0;  // the signal that ended it; 0: it exited by itself
};

/// Asks the groups of all running programs to end (SIGTERM). For the handler of a signal that is
/// about to end us. If more than a thousand programs run, some are not asked.
void ask_programs_to_end() noexcept;

struct CommandLimits {
  std::chrono::milliseconds time{30'000};
  std::size_t max_output_bytes = std::size_t{1} << 20;  ///< Bytes beyond this are only counted.
  std::size_t max_error_bytes = std::size_t{16} << 10;  ///< The last bytes of stderr are kept.
};

struct CommandOutput {
  int status = 0;  ///< As Process::status().
  std::string ending;
  std::string output;            ///< The first max_output_bytes of stdout.
  std::size_t output_bytes = 0;  ///< How many bytes came in all.
  std::string errors;
};

/// Runs a program to its end: `input` goes to its stdin, and its output is returned. Its group is
/// killed when the program has ended, when the time is over (`limit_exceeded`), or after `cancel`
/// (`unavailable`). Blocks.
///
///     auto said = run_command({.arguments = {"jq", "."}, .environment = plain_environment()},
///                             "{}", {});
[[nodiscard]] Expected<CommandOutput> run_command(const ProcessOptions& options,
                                                  std::string_view input,
                                                  const CommandLimits& limits,
                                                  const CancelToken& cancel = {});

}  // namespace tenon
