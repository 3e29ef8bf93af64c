#include "tenon/rlm/code_interpreter.h"

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tenon/rlm/repl.h"

namespace tenon::rlm {
namespace {

using Job = chat::CodeInterpreter::Job;

constexpr std::uint64_t kSeed = 1;  // a run that is made anew must do the same

/// What stops a job, wherever it is: before its worker starts, or while that runs.
class Brake {
 public:
  /// False: the job has been stopped already.
  [[nodiscard]] bool hold(Repl* repl) {
    const std::lock_guard lock(mutex_);
    repl_ = repl;
    return !is_stopped_;
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

Expected<chat::CodeResult> run(Host& host, const Job& job, Brake& brake) {
  auto repl = host.repl(/*unsafe_local=*/false);
  if (!repl) return Unexpected(repl.error());
  const CellLimits limits{.wall = job.limits.time_limit,
                          .max_output_chars = job.limits.max_output_chars};
  if (!brake.hold(repl->get())) return Unexpected(Error{Errc::unavailable, "it was stopped"});
  ToolCalls calls(job);
  Expected<chat::CodeResult> result = [&]() -> Expected<chat::CodeResult> {
    if (Status seeded = (*repl)->seed(kSeed, limits, &job.cancel); !seeded) {
      return Unexpected(seeded.error());
    }
    if (Status defined = (*repl)->define(job.functions, limits, &job.cancel); !defined) {
      return Unexpected(defined.error());
    }
    auto cell = (*repl)->run_cell(job.code, calls, limits, &job.cancel);
    if (!cell) return Unexpected(cell.error());
    return result_of(*std::move(cell));
  }();
  (void)brake.hold(nullptr);
  return result;
}

class SandboxedCode final : public chat::CodeInterpreter {
 public:
  explicit SandboxedCode(std::shared_ptr<Host> host) : host_(std::move(host)) {}

  Expected<Stop> start(Job job) override {
    const auto brake = std::make_shared<Brake>();
    const auto shared = std::make_shared<Job>(std::move(job));
    Host* const host = host_.get();  // it outlives its threads
    const bool is_posted = host_->post(
        [host, brake, shared] {
          auto result = run(*host, *shared, *brake);
          shared->done(std::move(result));
        },
        [brake] { brake->stop(); });
    if (!is_posted) {
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
