#include "tenon/base/patience.h"

#include <algorithm>
#include <utility>

namespace tenon::patience {
namespace {

const Limit kNone;
thread_local const Limit* innermost = &kNone;
thread_local Host* host_of_this_thread = nullptr;
thread_local unsigned waits_of_this_thread = 0;  // one within another is one

}  // namespace

Scope::Scope(Limit limit) : limit_(std::move(limit)), outer_(innermost) {
  // An inner scope can only shorten the time.
  limit_.deadline = std::min(limit_.deadline, outer_->deadline);
  if (!limit_.cancel) limit_.cancel = outer_->cancel;
  innermost = &limit_;
}

Scope::~Scope() {
  innermost = outer_;
}

Hosted::Hosted(Host& host) {
  host_of_this_thread = &host;
}

Hosted::~Hosted() {
  host_of_this_thread = nullptr;
}

Waiting::Waiting() {
  if (waits_of_this_thread++ > 0 || host_of_this_thread == nullptr) return;
  try {
    host_of_this_thread->begins_to_wait();
  } catch (...) {
    --waits_of_this_thread;
    throw;
  }
}

Waiting::~Waiting() {
  if (--waits_of_this_thread > 0 || host_of_this_thread == nullptr) return;
  host_of_this_thread->has_waited();
}

const Limit& current() {
  return *innermost;
}

Clock::time_point after(std::chrono::milliseconds limit) {
  return limit.count() == 0 ? Clock::time_point::max() : Clock::now() + limit;
}

std::chrono::milliseconds time_left() {
  using std::chrono::milliseconds;
  const Clock::time_point deadline = current().deadline;
  if (deadline == Clock::time_point::max()) return milliseconds(0);
  // 0 would mean that there is no limit.
  return std::max(milliseconds(1),
                  std::chrono::duration_cast<milliseconds>(deadline - Clock::now()));
}

}  // namespace tenon::patience
