#include "tenon/api/call_runner.h"

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "tenon/base/cancel.h"
#include "tenon/base/log.h"
#include "tenon/base/patience.h"
#include "tenon/base/trace.h"

namespace tenon::api {
namespace {

constexpr std::size_t kLargeBody = std::size_t{256} << 10;

}  // namespace

// The hand-over costs 20 us of CPU (api_bench/whole_call: 65 us in place, 85 us so; 2 cores of an
// AMD EPYC, 2026-11-21), which is little beside a model. In place, a template or the tokenizer of
// an upstream would stop every stream.
void CallRunner::hand_over(Task task, Call call) {
  const bool is_large = call.exchange->request().body.size() > kLargeBody;
  post(is_large ? large_ : quick_, std::move(task), std::move(call));
}

// Refused at once where too many wait: a client that is told can go elsewhere.
void CallRunner::post(Workers& workers, Task task, Call call) {
  if (workers.waiting() >= options_.max_waiting) return respond_error(call, overloaded());
  // std::function must be copyable, which a Call is not.
  auto shared = std::make_shared<Call>(std::move(call));
  workers.post([this, task = std::move(task), shared = std::move(shared)] { run(task, *shared); });
}

// Sets for this thread what the layers below ask for without a parameter: the beginning of log
// lines, the trace, the deadline and the cancellation (patience). Another thread that goes on with
// the call comes through here again.
void CallRunner::run(const Task& task, Call& call) try {
  if (call.exchange->is_closed()) return call.running.ended(kClientGone);
  // Copies, since the call may move to another thread.
  const std::string own = call.about;
  const trace::Context trace = call.trace;
  const log::About about(own);
  const trace::Scope scope(trace);
  // A call that waits for an upstream stops waiting once the client has gone.
  const CancelToken gone;
  if (call.is_apart) call.exchange->on_closed([gone] { gone.cancel(); });
  const patience::Scope patience(
      {.deadline = patience::after(options_.time_limit), .cancel = gone});
  const http::Gathering gathering;  // a stream's head is sent together with its first event
  if (is_cutting_) return respond_error(call, is_stopping());
  task(call);
} catch (const std::exception& thrown) {
  // Out of memory, or a library threw: this request fails, the others go on.
  const log::About about(call.about);
  log::error(std::string("a request failed: ") + thrown.what());
  if (call.exchange) respond_error(call, internal_error());
}

void CallRunner::stop() {
  quick_.stop();
  large_.stop();
}

}  // namespace tenon::api
