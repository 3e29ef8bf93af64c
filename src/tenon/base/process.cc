#include "tenon/base/process.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

// Programs as child processes. Each is started with posix_spawn, which is safe in a process with
// threads, and in a process group of its own, so that a signal reaches its children too. Our ends
// of its three pipes do not block. A process that has ended stays unreaped until reap(), so its
// number cannot be given to a stranger that our signals would then hit. run_command() is built on
// that: it writes, reads and waits in one loop, and gives up by destroying the Process.
namespace tenon {
namespace {

constexpr int kFirstSignal = 128;  // as shells write a signal into a status

/// The programs that run, in a form that a signal handler may read.
class Running {
 public:
  void add(pid_t pid) {
    for (std::atomic<pid_t>& slot : slots_) {
      // Without a lock, which a signal handler could wait for for ever. If all slots are taken, the
      // program runs but gets no signal from ask_programs_to_end().
      pid_t none = 0;
      if (slot.compare_exchange_strong(none, pid)) return;
    }
  }
  void remove(pid_t pid) {
    for (std::atomic<pid_t>& slot : slots_) {
      pid_t expected = pid;
      if (slot.compare_exchange_strong(expected, 0)) return;
    }
  }
  void signal(int number) const noexcept {
    for (const std::atomic<pid_t>& slot : slots_) {
      const pid_t pid = slot;
      if (pid == 0) continue;
      // A negative number means the process group, which set_attributes() has made.
      ::kill(-pid, number);
      ::kill(pid, number);  // the program may have moved to another group
    }
  }

 private:
  std::array<std::atomic<pid_t>, 1000> slots_{};  // 0: free
};
static_assert(std::atomic<pid_t>::is_always_lock_free);

constinit Running running;

std::string reason(int number) {
  return std::error_code(number, std::generic_category()).message();
}

void close_fd(int& fd) {
  if (fd >= 0) ::close(std::exchange(fd, -1));
}

/// Both ends of three pipes; ends that were not taken over are closed.
struct Pipes {
  Pipes() = default;
  Pipes(const Pipes&) = delete;
  Pipes& operator=(const Pipes&) = delete;
  ~Pipes() {
    for (auto& ends : pipes) {
      close_fd(ends[0]);
      close_fd(ends[1]);
    }
  }
  [[nodiscard]] bool open() {
    // O_CLOEXEC, so that programs that other threads start at this moment do not inherit our ends:
    // a pipe with a second writer would never end.
    return std::ranges::all_of(pipes, [](auto& ends) {
      return pipe2(ends.data(), O_CLOEXEC) == 0 && lift(ends[0]) && lift(ends[1]);
    });
  }

  // Moves `fd` above 2, so that it is not overwritten when the program's stdin, stdout and stderr
  // are set.
  [[nodiscard]] static bool lift(int& fd) {
    if (fd > STDERR_FILENO) return true;
    const int low = std::exchange(fd, ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    ::close(low);
    return fd >= 0;
  }

  std::array<std::array<int, 2>, 3> pipes{{{-1, -1}, {-1, -1}, {-1, -1}}};  // in, out, err
};

struct Spawn {
  Spawn() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;
  ~Spawn() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }

  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
};

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): posix_spawn does not write
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// A process group of its own, no blocked signals, and the default action for each signal.
void set_attributes(posix_spawnattr_t& attributes) {
  sigset_t none;
  sigemptyset(&none);
  sigset_t all;
  sigfillset(&all);
  // Our threads may block or ignore signals (SIGPIPE); a program expects to get them.
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

void set_blocking_off(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

// While it lives, a write to a program that has ended is an error and not a SIGPIPE that kills us.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;
  ~NoPipeSignal() {
    constexpr timespec kNow{};
    if (sigismember(&before_, SIGPIPE) == 0) {
      // A SIGPIPE that came meanwhile is taken away before signals are unblocked. If the thread had
      // blocked SIGPIPE already, it stays blocked and may stay pending.
      while (sigtimedwait(&pipe_, nullptr, &kNow) > 0) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_{};
  sigset_t before_{};
};

}  // namespace

std::vector<std::string> plain_environment(const std::vector<std::string>& more) {
  // Keep in step with the header.
  constexpr const char* kNames[] = {"HOME", "LANG",   "LOGNAME", "PATH", "SHELL",
                                    "TERM", "TMPDIR", "TZ",      "USER"};
  std::vector<std::string> environment = more;
  for (const char* name : kNames) {
    const std::string begin = std::string(name) + "=";
    const bool is_given = std::ranges::any_of(
        more, [&begin](const std::string& text) { return text.starts_with(begin); });
    const char* const value = std::getenv(name);
    if (!is_given && value != nullptr) environment.push_back(begin + value);
  }
  return environment;
}

Expected<std::unique_ptr<Process>> Process::start(const ProcessOptions& options) {
  if (options.arguments.empty() || options.arguments[0].empty()) {
    return Unexpected(Error{Errc::invalid, "there is no program to start"});
  }
  const std::string& program = options.arguments[0];
  const auto failed = [&program](int number) {
    return Unexpected(Error{Errc::unavailable, "cannot start " + program + ": " + reason(number)});
  };
  Pipes ends;
  if (!ends.open()) return failed(errno);
  auto& [in, out, err] = ends.pipes;
  Spawn spawn;
  set_attributes(spawn.attributes);
  // Order matters: the ends become 0, 1 and 2, then everything above is closed in the program.
  posix_spawn_file_actions_adddup2(&spawn.actions, in[0], 0);
  posix_spawn_file_actions_adddup2(&spawn.actions, out[1], 1);
  posix_spawn_file_actions_adddup2(&spawn.actions, err[1], 2);
  posix_spawn_file_actions_addclosefrom_np(&spawn.actions, 3);
  // The program's name is looked up after the change of folder, so "./tool" means the one in there.
  if (!options.folder.empty()) {
    posix_spawn_file_actions_addchdir_np(&spawn.actions, options.folder.c_str());
  }
  pid_t pid = -1;
  const int error =
      posix_spawnp(&pid, program.c_str(), &spawn.actions, &spawn.attributes,
                   pointers_to(options.arguments).data(), pointers_to(options.environment).data());
  if (error != 0) return failed(error);
  std::unique_ptr<Process> process(new Process(pid));
  running.add(pid);
  process->input_ = std::exchange(in[1], -1);
  process->output_ = std::exchange(out[0], -1);
  process->errors_ = std::exchange(err[0], -1);
  // Only our ends: the program has blocking ones, as it expects.
  for (const int fd : {process->input_, process->output_, process->errors_}) set_blocking_off(fd);
  return process;
}

Process::~Process() {
  // In this order: once reaped, the process's number may be another's.
  kill_group(SIGKILL);
  reap();
  close_input();
  close_output();
  close_errors();
}

void Process::close_input() {
  close_fd(input_);
}
void Process::close_output() {
  close_fd(output_);
}
void Process::close_errors() {
  close_fd(errors_);
}

Expected<std::size_t> Process::write_input(std::string_view bytes) {
  const NoPipeSignal guard;
  const auto count = ::write(input_, bytes.data(), bytes.size());
  if (count >= 0) return static_cast<std::size_t>(count);
  if (errno == EAGAIN || errno == EINTR) return 0;
  return Unexpected(Error{Errc::unavailable, "the program reads no more: " + reason(errno)});
}

// Until the program is reaped, its number and that of its group cannot be given to another process.
// The program itself may have moved to another group, so it gets the signal, too.
void Process::kill_group(int signal) const {
  if (status_) return;
  ::kill(-pid_, signal);
  ::kill(pid_, signal);
}

bool Process::wait(std::chrono::milliseconds most) {
  // Polls, because waitid() has no time limit.
  constexpr std::chrono::milliseconds kMoment{2};
  const auto latest = std::chrono::steady_clock::now() + most;
  while (!status_) {
    siginfo_t info{};
    // WNOWAIT leaves the process to be reaped, so that its number stays ours. ECHILD: the system
    // has reaped it, as it does where SIGCHLD is ignored.
    const int seen = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
    if ((seen == 0 && info.si_pid == pid_) || (seen != 0 && errno == ECHILD)) return true;
    if (std::chrono::steady_clock::now() >= latest) return false;
    std::this_thread::sleep_for(kMoment);
  }
  return true;
}

void Process::reap() {
  if (status_) return;
  // Before the number becomes free: a handler must not signal a stranger.
  running.remove(pid_);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0) {
    if (errno != EINTR) break;
  }
  signal_ = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  status_ = signal_ != 0 ? kFirstSignal + signal_ : WEXITSTATUS(status);
}

std::string Process::ending() const {
  if (!status_) return "";
  if (signal_ == 0) return "exit status " + std::to_string(*status_);
  const char* const name = sigabbrev_np(signal_);
  return "killed by signal " + std::to_string(signal_) +
         (name == nullptr ? "" : " (SIG" + std::string(name) + ")");
}

void Process::stop(std::chrono::milliseconds grace) {
  close_input();
  // Many programs end when their input does; SIGTERM comes only if this one does not.
  if (!wait(grace)) {
    kill_group(SIGTERM);
    (void)wait(grace);
  }
  kill_group(SIGKILL);
  reap();
}

void ask_programs_to_end() noexcept {
  running.signal(SIGTERM);
}

namespace {

/// A running command: its three pipes are read and written as they become ready.
class Command {
 public:
  Command(Process& process, std::string_view input, const CommandLimits& limits)
      : process_(process), input_(input), limits_(limits) {
    // Else a program that reads its input to the end would wait for ever.
    if (input_.empty()) process_.close_input();
  }

  /// Returns false if both output pipes are closed, or if nothing came for `most`.
  bool step(std::chrono::milliseconds most) {
    // poll() leaves out descriptors below 0, which are pipes that are closed.
    std::array<pollfd, 3> fds{pollfd{process_.input(), POLLOUT, 0},
                              pollfd{process_.output(), POLLIN, 0},
                              pollfd{process_.errors(), POLLIN, 0}};
    if (process_.output() < 0 && process_.errors() < 0) return false;
    // An interrupted poll() counts as a moment in which nothing came.
    if (::poll(fds.data(), fds.size(), static_cast<int>(most.count())) <= 0) return false;
    if (fds[0].revents != 0) write_some();
    if (fds[1].revents != 0 && !read_output()) process_.close_output();
    if (fds[2].revents != 0 && !read_errors()) process_.close_errors();
    return true;
  }
  CommandOutput take() { return std::move(said_); }

 private:
  void write_some() {
    const auto written = process_.write_input(input_);
    // A program that has closed its input needs no more: the rest is given up, and that is no
    // error.
    input_.remove_prefix(written.value_or(input_.size()));
    if (input_.empty()) process_.close_input();
  }
  // No value: no bytes are there yet. "": the end of the pipe.
  std::optional<std::string_view> read_from(int fd) {
    const auto count = ::read(fd, buffer_.data(), buffer_.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
    return std::string_view(buffer_.data(), count < 0 ? 0 : static_cast<std::size_t>(count));
  }
  // Reads on beyond the limit and counts the bytes, since a full pipe would stop the program.
  bool read_output() {
    const auto bytes = read_from(process_.output());
    if (!bytes) return true;
    const std::size_t room = limits_.max_output_bytes - said_.output.size();
    said_.output += bytes->substr(0, room);
    said_.output_bytes += bytes->size();
    return !bytes->empty();
  }
  // The last bytes of stderr are kept: an error is at the end.
  bool read_errors() {
    const auto bytes = read_from(process_.errors());
    if (!bytes) return true;
    said_.errors += *bytes;
    if (said_.errors.size() > limits_.max_error_bytes) {
      said_.errors.erase(0, said_.errors.size() - limits_.max_error_bytes);
    }
    return !bytes->empty();
  }

  Process& process_;
  std::string_view input_;
  const CommandLimits limits_;
  CommandOutput said_;
  std::array<char, 16384> buffer_{};
};

}  // namespace

Expected<CommandOutput> run_command(const ProcessOptions& options, std::string_view input,
                                    const CommandLimits& limits, const CancelToken& cancel) {
  // kMoment is also how late the end of the process or a cancellation may be noticed.
  constexpr std::chrono::milliseconds kMoment{10};
  constexpr std::chrono::milliseconds kDrain{500};
  auto process = Process::start(options);
  if (!process) return Unexpected(std::move(process.error()));
  const auto latest = std::chrono::steady_clock::now() + limits.time;
  Command command(**process, input, limits);
  // The command has ended when its process has: children in its group may keep the pipes open.
  // Every early return destroys the process, which kills its group.
  while (!(*process)->wait(std::chrono::milliseconds(0))) {
    if (!command.step(kMoment)) (void)(*process)->wait(std::chrono::milliseconds(1));
    if (cancel.is_cancelled()) {
      return Unexpected(Error{Errc::unavailable, options.arguments[0] + " was cancelled"});
    }
    if (std::chrono::steady_clock::now() >= latest) {
      return Unexpected(Error{Errc::limit_exceeded, options.arguments[0] + " took longer than " +
                                                        std::to_string(limits.time.count()) +
                                                        " ms"});
    }
  }
  (*process)->stop(std::chrono::milliseconds(0));
  // Reads what is still in the pipes, for a bounded time: a process that left the group may write
  // into them for ever.
  const auto soon = std::chrono::steady_clock::now() + kDrain;
  while (std::chrono::steady_clock::now() < soon && command.step(std::chrono::milliseconds(0))) {
  }
  CommandOutput said = command.take();
  said.status = *(*process)->status();
  said.ending = (*process)->ending();
  return said;
}

}  // namespace tenon
