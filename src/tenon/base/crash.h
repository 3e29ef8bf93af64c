#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"

/// Reports of a process that dies by a signal (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) or by
/// std::terminate.
///
///     crash::report({.version = "0.1.0", .folder = "/var/lib/tenon/crashes"});
///     const crash::ThreadStack stack;      // in each thread whose stack may overflow
///     crash::Request request;              // of each request that is being answered
///     request.tell("/v1/messages", "req_1");
///
/// A report has the version, the build, the signal, the route and id of each request in work, and
/// the stack of the thread that met the signal (as offsets in modules, for addr2line). It has no
/// content of requests or answers, except an `x-request-id` that the client chose. The report goes
/// into a file of its own and to stderr. Then the process dies by the same signal, with the same
/// status and core file as without a report. If the stack is corrupt, the report may end before the
/// stack, and the process dies by the fault that reading it caused.
namespace tenon::crash {

struct Options {
  std::string version;
  /// The folder for the files; made with the first file. "": reports go to stderr alone.
  std::string folder;
};

/// Begins to report. A signal that already has a handler, such as a sanitizer's, keeps that
/// handler. Call it once, before other threads are started.
void report(const Options& options);

/// A stack for the signal handlers of this thread, so that an overflow of the thread's own stack is
/// reported, too. Declare it in the function that the thread runs. Without it, or if there is no
/// memory for it, an overflow ends the process without a report.
class ThreadStack {
 public:
  ThreadStack();
  ~ThreadStack();
  ThreadStack(const ThreadStack&) = delete;
  ThreadStack& operator=(const ThreadStack&) = delete;

 private:
  std::unique_ptr<std::byte[]> bytes_;  // null: the thread already had a stack for signals
};

/// A request that reports name while this object lives. It takes no lock and allocates nothing. A
/// report names up to 1,024 requests and counts the others.
class Request {
 public:
  Request() = default;
  ~Request() { end(); }
  Request(Request&& other) noexcept;
  Request& operator=(Request&&) = delete;

  /// `route` lives as long as the program. The first 64 bytes of `id` are kept.
  void tell(std::string_view route, std::string_view id);
  void end();

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t place_ = kNone;
};

/// Files of reports in `folder`, the newest last. Removes all but the newest 20, since a loop of
/// crashes writes many.
[[nodiscard]] std::vector<std::string> reports_in(const std::string& folder);

}  // namespace tenon::crash
