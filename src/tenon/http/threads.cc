#include "tenon/http/threads.h"

#include <exception>
#include <string>

#include <boost/asio/io_context.hpp>
#include <pthread.h>
#include <signal.h>

#include "tenon/base/crash.h"
#include "tenon/base/log.h"

namespace tenon::http {
namespace {

// Threads inherit the mask of the thread that starts them. Signals are for the main thread, which
// waits for them (apps/tenon/serve.cc).
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all{};
    sigfillset(&all);
    // A fault whose signal is blocked would end the process without a crash report.
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

// A callback that throws ends context.run(); it may be called again and goes on with the others.
void run(boost::asio::io_context& context) {
  const crash::ThreadStack stack;
  while (true) {
    try {
      context.run();
      return;
    } catch (const std::exception& thrown) {
      log::error(std::string("http: a callback threw: ") + thrown.what());
    }
  }
}

}  // namespace

Status start_threads(const std::vector<boost::asio::io_context*>& contexts,
                     std::vector<std::thread>& threads) {
  const SignalsBlocked blocked;
  try {
    for (boost::asio::io_context* context : contexts) {
      threads.emplace_back([context] { run(*context); });
    }
  } catch (const std::exception& thrown) {
    return Unexpected(
        Error{Errc::unavailable, std::string("cannot start a thread: ") + thrown.what()});
  }
  return {};
}

}  // namespace tenon::http
