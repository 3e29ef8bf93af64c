#include "tenon/rlm/worker.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tenon/rlm/spawn.h"
#include "tenon/rlm/worker_impl.h"

// The host's end of the pipes to a worker, and the end of its process. Both pipes are non-blocking:
// each wait is a poll() of at most kWorkerTick, after which deadline and cancel tokens are checked.
// receive() keeps bytes that are no whole frame yet in the buffer, so a wait that is over can be
// taken up again by the next call.

namespace tenon::rlm {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kWorkerTick{50};  // how often a cancel token is checked
constexpr milliseconds kKillWait{2000};
// The least that one read asks for: a small frame is read with its length.
constexpr std::size_t kReadBytes = std::size_t{64} << 10;
// A buffer that held a larger frame gives its memory back.
constexpr std::size_t kKeptBytes = std::size_t{1} << 20;
// The most that the kernel gives an unprivileged user by default (fs.pipe-max-size), and what a
// pipe has at first.
constexpr int kWidePipe = 1 << 20;
constexpr int kPipe = 64 << 10;
// A frame has a few long texts; one with many values is meant to fill our memory.
constexpr json::ParseOptions kFrameOptions{
    .max_depth = 16, .max_bytes = Worker::kMaxFrameBytes, .max_values = 200'000};

std::string signal_text(int number) {
  switch (number) {
    case SIGXCPU:
      return "it reached the limit of CPU time";
    case SIGKILL:
      return "it was killed, by the system for lack of memory or by another process";
    case SIGSEGV:
      return "it crashed (SIGSEGV)";
    case SIGABRT:
      return "it crashed (SIGABRT)";
    case SIGBUS:
      return "it crashed (SIGBUS)";
    case SIGSYS:
      return "it made a system call of another architecture (SIGSYS)";
    default:
      return "it was ended by signal " + std::to_string(number);
  }
}

// `used` is the resource usage of the process and its children. SIGXCPU does not end the first
// process of a namespace; SIGKILL ends it a second later.
std::string ending_text(int status, const rusage& used, std::chrono::seconds cpu) {
  if (used.ru_utime.tv_sec + used.ru_stime.tv_sec >= cpu.count()) return signal_text(SIGXCPU);
  if (WIFSIGNALED(status)) return signal_text(WTERMSIG(status));
  const int code = WEXITSTATUS(status);
  // How bubblewrap reports a signal.
  if (code > 128 && code <= 128 + 64) return signal_text(code - 128);
  return "it ended itself with status " + std::to_string(code);
}

int send_signal(int pidfd, int signal) {
  return static_cast<int>(syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0));
}

// At most kWorkerTick, so that a loop around poll() also sees cancel tokens.
int milliseconds_to(TimePoint deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, kWorkerTick.count()));
}

std::array<char, 4> length_of(std::size_t size) {
  return {static_cast<char>(size >> 24 & 0xFF), static_cast<char>(size >> 16 & 0xFF),
          static_cast<char>(size >> 8 & 0xFF), static_cast<char>(size & 0xFF)};
}

std::size_t length_at(const char* bytes) {
  std::size_t size = 0;
  for (int i = 0; i < 4; ++i) size = size << 8 | static_cast<unsigned char>(bytes[i]);
  return size;
}

const Error kLate{Errc::limit_exceeded, "the worker did not answer in time"};

}  // namespace

Worker::Worker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Worker::~Worker() {
  kill();
}

Unexpected Worker::ended() {
  kill();
  return Unexpected(
      Error{Errc::unavailable,
            "the worker is gone" + (impl_->ending.empty() ? "" : ": " + impl_->ending)});
}

Status Worker::send(std::string_view json, const Wait& wait) {
  if (json.size() > kMaxFrameBytes) {
    return Unexpected(Error{Errc::limit_exceeded, "a message to the worker is too long"});
  }
  const auto length = length_of(json.size());
  if (Status sent = send_bytes({length.data(), length.size()}, wait); !sent) return sent;
  return send_bytes(json, wait);
}

Status Worker::send_bytes(std::string_view bytes, const Wait& wait) {
  while (!bytes.empty()) {
    if (!impl_->to.is_open()) return ended();
    const ssize_t written = write(impl_->to.get(), bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
      continue;
    }
    if (errno == EINTR) continue;
    // EPIPE: the worker has closed its end. SIGPIPE is ignored since Sandbox::open().
    if (errno != EAGAIN) return ended();
    if (wait.is_cancelled() || Clock::now() >= wait.deadline) return Unexpected(kLate);
    pollfd room{.fd = impl_->to.get(), .events = POLLOUT, .revents = 0};
    poll(&room, 1, milliseconds_to(wait.deadline));
  }
  return {};
}

// Reads until the buffer has `bytes`.
Status Worker::fill(std::size_t bytes, const Wait& wait, bool& woken) {
  std::string& buffer = impl_->buffer;
  while (buffer.size() < bytes) {
    if (!impl_->from.is_open()) return ended();
    const std::size_t had = buffer.size();
    const std::size_t want = std::clamp(bytes - had, kReadBytes, std::size_t{1} << 20);
    buffer.resize(had + want);
    const ssize_t count = read(impl_->from.get(), buffer.data() + had, want);
    const int error = errno;
    buffer.resize(had + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count > 0) continue;
    if (count == 0 || (error != EAGAIN && error != EINTR)) return ended();
    if (wait.is_cancelled()) {
      woken = true;
      return {};
    }
    std::array<pollfd, 2> waits{pollfd{.fd = impl_->from.get(), .events = POLLIN, .revents = 0},
                                pollfd{.fd = wait.wake, .events = POLLIN, .revents = 0}};
    poll(waits.data(), waits.size(), milliseconds_to(wait.deadline));
    if (waits[1].revents != 0) {
      woken = true;
      return {};
    }
    if (waits[0].revents == 0 && Clock::now() >= wait.deadline) return Unexpected(kLate);
  }
  return {};
}

Expected<json::Value> Worker::receive(const Wait& wait) {
  bool woken = false;
  if (Status filled = fill(4, wait, woken); !filled) {
    return Unexpected(filled.error());
  }
  if (woken) return json::Value();
  const std::size_t size = length_at(impl_->buffer.data());
  const auto broken = [this](const std::string& how) {
    kill();
    return Unexpected(Error{Errc::invalid, "the worker broke the protocol: " + how});
  };
  // Checked before the body is waited for, so that four bytes cannot make us wait for 4 GiB.
  if (size > kMaxFrameBytes) return broken("a message of " + std::to_string(size) + " bytes");
  if (Status filled = fill(4 + size, wait, woken); !filled) {
    return Unexpected(filled.error());
  }
  if (woken) return json::Value();
  auto frame = json::parse(std::string_view(impl_->buffer).substr(4, size), kFrameOptions);
  impl_->buffer.erase(0, 4 + size);
  if (size > kKeptBytes) impl_->buffer.shrink_to_fit();
  if (!frame) return broken(frame.error().message);
  const json::Value* op = frame->find("op");
  if (op == nullptr || op->if_string() == nullptr) return broken("a message without \"op\"");
  return frame;
}

void Worker::widen(bool wide) {
  // The kernel may refuse it if the user has too many pages in pipes; then it is slower.
  fcntl(impl_->to.get(), F_SETPIPE_SZ, wide ? kWidePipe : kPipe);
}

void Worker::interrupt() const {
  if (impl_->inner.is_open()) {
    send_signal(impl_->inner.get(), SIGINT);
  } else if (impl_->pid > 0 && !impl_->has_inner) {
    ::kill(impl_->pid, SIGINT);
  }
}

std::chrono::nanoseconds Worker::cpu_time() const {
  return cpu_time_of(impl_->inner.is_open() ? impl_->inner_pid : impl_->pid);
}

// Asks the pipe instead of waitpid(), which would take the exit status away from kill().
bool Worker::is_alive() {
  if (impl_->pid < 0) return false;
  pollfd wait{.fd = impl_->from.get(), .events = POLLIN, .revents = 0};
  return poll(&wait, 1, 0) >= 0 && (wait.revents & (POLLHUP | POLLERR)) == 0;
}

// Also finds out how a worker ended that is dead already: then `ending` is set, and nothing is
// killed. In the bubblewrap tier `pid` is the outer process, which ends when the interpreter below
// it does.
void Worker::kill() {
  if (impl_->pid < 0) return;
  const pid_t pid = impl_->pid;
  int status = 0;
  rusage used{};
  // It has ended by itself and will be waited for; its pipes close a moment earlier.
  pollfd gone{.fd = impl_->from.get(), .events = POLLIN, .revents = 0};
  poll(&gone, 1, 0);
  bool has_ended = false;
  if ((gone.revents & POLLHUP) != 0) {
    const auto most = Clock::now() + milliseconds(100);
    while (!(has_ended = wait4(pid, &status, WNOHANG, &used) == pid) && Clock::now() < most) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  if (has_ended) {
    impl_->ending = ending_text(status, used, impl_->cpu);
  } else {
    // The inner process is killed first, so that the outer one sees its child's end and leaves no
    // orphan.
    if (impl_->inner.is_open()) {
      send_signal(impl_->inner.get(), SIGKILL);
    } else {
      ::kill(pid, SIGKILL);
    }
    const auto most = Clock::now() + kKillWait;
    while (!(has_ended = wait4(pid, &status, WNOHANG, &used) == pid) && Clock::now() < most) {
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    if (!has_ended) {
      ::kill(pid, SIGKILL);
      while (wait4(pid, &status, 0, &used) < 0 && errno == EINTR) {
      }
    }
  }
  impl_->pid = -1;
  impl_->to.close();
  impl_->from.close();
  impl_->inner.close();
  // Last: it may destroy the sandbox.
  if (impl_->release) impl_->release();
  impl_->release = nullptr;
}

const std::string& Worker::ending() const {
  return impl_->ending;
}

pid_t Worker::pid() const {
  return impl_->pid;
}

}  // namespace tenon::rlm
