#include "tenon/rlm/code_interpreter.h"

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tenon/base/log.h"
#include "tenon/rlm/repl.h"

namespace tenon::rlm {
namespace {

using Job = chat::CodeInterpreter::Job;

constexpr std::uint64_t kSeed = 1;  // a run that is made anew must do the same

/// What stops a job, wherever it is: before its worker starts, or while that runs.
class Brake {
 public:
  /// From now on stop() interrupts `repl`, which must live until release(). False: the job has been
  /// stopped already.
  [[nodiscard]] bool hold(Repl& repl) {
    const std::lock_guard lock(mutex_);
    repl_ = is_stopped_ ? nullptr : &repl;
    return !is_stopped_;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    repl_ = nullptr;
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    if (repl_ != nullptr) repl_->interrupt();
  }

 private:
  std::mutex mutex_;
  Repl* repl_ = nullptr;     // guarded by mutex_
  bool is_stopped_ = false;  // guarded by mutex_
};

/// Tells what a job gave, once: also if the work is dropped before it has run.
class Report {
 public:
  explicit Report(std::function<void(Expected<chat::CodeResult>)> done) : done_(std::move(done)) {}
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;
  ~Report() { tell(); }

  void set(Expected<chat::CodeResult> result) { result_ = std::move(result); }
  void tell() {
    const auto done = std::exchange(done_, nullptr);
    if (!done) return;
    try {
      done(std::move(result_));
    } catch (const std::exception& thrown) {  // out of memory
      log::error("code: " + std::string(thrown.what()));
    }
  }
  /// Nothing is told.
  void drop() { done_ = nullptr; }

 private:
  std::function<void(Expected<chat::CodeResult>)> done_;
  Expected<chat::CodeResult> result_ =
      Unexpected(Error{Errc::unavailable, "it was not run, since the server is being stopped"});
};

class ToolCalls final : public SubCalls {
 public:
  explicit ToolCalls(const Job& job) : job_(job) {}

  void ask(SubCall call, Answer answer) override {
    const std::size_t count = call.prompts.size();
    if (call.kind != SubCall::Kind::tool || count != 1 || !call.model) {
      return answer(std::vector<std::string>(count, "!only tools can be called here"));
    }
    job_.ask(*std::move(call.model), std::move(call.prompts.front()),
             [answer = std::move(answer)](const Expected<std::string>& result) {
               answer({result ? "=" + *result : "!" + result.error().message});
             });
  }

 private:
  const Job& job_;
};

std::string with_cut(std::string text, std::size_t cut) {
  if (cut > 0) text += "\n... [" + std::to_string(cut) + " more characters were printed]\n";
  return text;
}

chat::CodeResult result_of(CellResult cell) {
  std::string err = with_cut(std::move(cell.err), cell.err_cut);
  if (!cell.error.empty()) {
    if (!err.empty() && !err.ends_with('\n')) err += '\n';
    err += cell.error;
  }
  return {.out = with_cut(std::move(cell.out), cell.out_cut),
          .err = std::move(err),
          .is_error = !cell.error.empty() || cell.is_timed_out};
}

Expected<chat::CodeResult> run_in(Repl& repl, const Job& job) {
  const CellLimits limits{.wall = job.limits.time_limit,
                          .max_output_chars = job.limits.max_output_chars};
  ToolCalls calls(job);
  if (Status seeded = repl.seed(kSeed, limits, &job.cancel); !seeded) {
    return Unexpected(seeded.error());
  }
  if (Status defined = repl.define(job.functions, limits, &job.cancel); !defined) {
    return Unexpected(defined.error());
  }
  auto cell = repl.run_cell(job.code, calls, limits, &job.cancel);
  if (!cell) return Unexpected(cell.error());
  return result_of(*std::move(cell));
}

Expected<chat::CodeResult> run(Host& host, const Job& job, Brake& brake) try {
  auto repl = host.repl(/*unsafe_local=*/false);
  if (!repl) return Unexpected(repl.error());
  // Destroyed before the REPL, however this function is left.
  const std::shared_ptr<void> held(nullptr, [&brake](void*) { brake.release(); });
  if (!brake.hold(**repl)) return Unexpected(Error{Errc::unavailable, "it was stopped"});
  return run_in(**repl, job);
} catch (const std::exception& thrown) {  // out of memory
  return Unexpected(Error{Errc::unavailable, thrown.what()});
}

class SandboxedCode final : public chat::CodeInterpreter {
 public:
  explicit SandboxedCode(std::shared_ptr<Host> host) : host_(std::move(host)) {}

  Expected<Stop> start(Job job) override {
    const auto brake = std::make_shared<Brake>();
    const auto report = std::make_shared<Report>(std::exchange(job.done, nullptr));
    const auto shared = std::make_shared<const Job>(std::move(job));
    Host* const host = host_.get();  // it outlives its threads
    // Told once the thread is free, since the next program may need it.
    const bool is_posted =
        host_->post([host, brake, shared, report] { report->set(run(*host, *shared, *brake)); },
                    [brake] { brake->stop(); }, [report] { report->tell(); });
    if (!is_posted) {
      report->drop();
      return Unexpected(
          Error{Errc::unavailable, "too many programs run at this time; try again later"});
    }
    return [brake] { brake->stop(); };
  }

  std::shared_ptr<void> alarm(std::chrono::steady_clock::time_point deadline,
                              std::function<void()> expire) override {
    return host_->alarm(deadline, std::move(expire));
  }

 private:
  const std::shared_ptr<Host> host_;
};

}  // namespace

std::shared_ptr<chat::CodeInterpreter> make_code_interpreter(std::shared_ptr<Host> host) {
  return std::make_shared<SandboxedCode>(std::move(host));
}

}  // namespace tenon::rlm
