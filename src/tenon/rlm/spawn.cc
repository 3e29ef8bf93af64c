#include "tenon/rlm/spawn.h"

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <ctime>
#include <deque>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Programs are started by vfork and execve, on one thread. vfork copies nothing: the child runs in
// our memory until execve, so it must not allocate or take a lock. Everything is prepared in a
// Plan, run_child() makes system calls only, and its error comes back through the Plan.

namespace tenon::rlm {
namespace {

constexpr int kFirstFree = 16;  // a started program has descriptors below this only
#ifndef SYS_close_range
constexpr long SYS_close_range = 436;
#endif
#ifndef SYS_landlock_restrict_self
constexpr long SYS_landlock_restrict_self = 446;
#endif

// Everything that the child needs, as plain arrays.
struct Plan {
  std::vector<char*> arguments, environment;
  const Start* start;
  sock_fprog filter{};
  pid_t parent = 0;
  bool is_root = false;
  int error = 0;  // written by the child, which shares our memory
};

// The null-terminated array that execve wants; it points into `texts`.
std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): execve does not write
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// dup2() also clears close-on-exec. Sources are above kFirstFree, so no dup2() overwrites one that
// is still needed.
bool take_descriptors(const std::vector<int>& descriptors) {
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    if (dup2(descriptors[i], static_cast<int>(i)) < 0) return false;
  }
  return true;
}

// The system calls themselves: glibc's setuid would change all threads of the host.
bool leave_privileges(const Plan& plan) {
  if (!plan.is_root) return true;
  return syscall(SYS_setgroups, 0, nullptr) == 0 &&
         syscall(SYS_setresgid, kWorkerUser, kWorkerUser, kWorkerUser) == 0 &&
         syscall(SYS_setresuid, kWorkerUser, kWorkerUser, kWorkerUser) == 0;
}

bool set_limits(const std::vector<ResourceLimit>& limits) {
  for (const ResourceLimit& limit : limits) {
    const std::array<std::uint64_t, 2> pair{limit.soft, limit.hard};
    if (syscall(SYS_prlimit64, 0, limit.resource, pair.data(), nullptr) != 0) return false;
  }
  return true;
}

// execve keeps ignored signals ignored: the host ignores SIGPIPE, and Python would inherit that. 64
// is the last signal of Linux.
void default_signals() {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  for (int number = 1; number < 65; ++number) sigaction(number, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Runs between vfork and exec: it makes system calls, and must not allocate or lock.
[[noreturn]] __attribute__((noinline)) void run_child(Plan& plan) {
  const Start& start = *plan.start;
  if (start.notices >= 0) {
    const pid_t self = getpid();
    send(start.notices, &self, sizeof(self), MSG_NOSIGNAL | MSG_DONTWAIT);
    errno = 0;
  }
  default_signals();
  // The order matters: setres*id() clears the parent-death signal, so that is set after it, and
  // getppid() shows whether the parent has ended before. no_new_privs comes before Landlock, which
  // demands it.
  const bool is_ready =
      take_descriptors(start.descriptors) && chdir("/") == 0 && leave_privileges(plan) &&
      prctl(PR_SET_PDEATHSIG, start.outlives ? 0 : SIGKILL, 0, 0, 0) == 0 &&
      getppid() == plan.parent && set_limits(start.limits) &&
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
      (start.landlock < 0 || syscall(SYS_landlock_restrict_self, start.landlock, 0) == 0);
  if (is_ready) {
    setsid();
    syscall(SYS_close_range, static_cast<unsigned>(start.descriptors.size()), ~0U, 0);
    // The filter comes last, because it refuses most of the calls above.
    if (plan.filter.len == 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &plan.filter) == 0) {
      execve(plan.arguments[0], plan.arguments.data(), plan.environment.data());
    }
  }
  plan.error = errno == 0 ? ECHILD : errno;
  _exit(127);
}

__attribute__((noinline)) pid_t vfork_child(Plan& plan) {
  // posix_spawn supports neither limits nor filters, and run_child does only what is allowed after
  // vfork.
  const pid_t child = vfork();      // NOLINT
  if (child == 0) run_child(plan);  // NOLINT
  return child;
}

Expected<pid_t> start_now(const Start& start) {
  Plan plan{.arguments = pointers(start.arguments),
            .environment = pointers(start.environment),
            .start = &start};
  plan.parent = getpid();
  plan.is_root = geteuid() == 0;
  if (!start.filter.empty()) {
    plan.filter.len = static_cast<unsigned short>(start.filter.size() / sizeof(sock_filter));
    // NOLINTNEXTLINE: the kernel's type has no const
    plan.filter.filter =
        reinterpret_cast<sock_filter*>(const_cast<std::byte*>(start.filter.data()));
  }
  sigset_t all;
  sigset_t old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);  // our signal handlers must not run in the child
  const pid_t child = vfork_child(plan);
  // vfork() returns once the child has called execve() or _exit(), so plan.error is final.
  const int error = child < 0 ? errno : plan.error;
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  if (child > 0 && error != 0) {
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  if (error != 0) return system_error(start.arguments.front(), error);
  return child;
}

}  // namespace

Unexpected system_error(std::string_view what, int number) {
  return Unexpected(
      Error{Errc::unavailable, std::string(what) + ": " + std::generic_category().message(number)});
}

Expected<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return system_error("pipe", errno);
  Descriptor read(ends[0]);
  Descriptor write(ends[1]);
  Pipe pipe{Descriptor(fcntl(read.get(), F_DUPFD_CLOEXEC, kFirstFree)),
            Descriptor(fcntl(write.get(), F_DUPFD_CLOEXEC, kFirstFree))};
  if (!pipe.read.is_open() || !pipe.write.is_open()) return system_error("pipe", errno);
  return pipe;
}

std::chrono::nanoseconds cpu_time_of(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) {
    return {};
  }
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

bool StartWait::is_over(TimePoint now, std::chrono::nanoseconds cpu) {
  if (cpu > cpu_) {
    cpu_ = cpu;
    worked_ = now;
  }
  return is_still(now) || now - begun_ >= kMost;
}

struct Spawner::Impl {
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::packaged_task<Expected<pid_t>()>> tasks;
  bool is_over = false;
  std::thread thread;  // last, because it uses the others

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      wake.wait(lock, [this] { return is_over || !tasks.empty(); });
      if (tasks.empty()) return;
      auto task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }
};

Spawner::Spawner() : impl_(std::make_unique<Impl>()) {
  impl_->thread = std::thread([this] { impl_->run(); });
}

Spawner::~Spawner() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->is_over = true;
  }
  impl_->wake.notify_one();
  impl_->thread.join();
}

Expected<pid_t> Spawner::start(const Start& start) {
  std::packaged_task<Expected<pid_t>()> task([&start] { return start_now(start); });
  auto result = task.get_future();
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->tasks.push_back(std::move(task));
  }
  impl_->wake.notify_one();
  return result.get();
}

}  // namespace tenon::rlm
