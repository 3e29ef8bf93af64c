#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tenon/rlm/spawn.h"
#include "tenon/rlm/worker.h"

namespace tenon::rlm {

struct Worker::Impl {
  Descriptor to, from;  // our ends of the two pipes, non-blocking
  pid_t pid = -1;       // the started process; -1: it has been waited for
  Descriptor inner;     // the interpreter if it is another process (a pidfd)
  pid_t inner_pid = -1;
  bool has_inner = false;
  std::chrono::seconds cpu{0};  // its limit
  std::string ending;
  std::string buffer;             // bytes that are not a whole frame yet
  std::function<void()> release;  // gives the worker's place in the sandbox back, and keeps the
                                  // sandbox alive until then
};

}  // namespace tenon::rlm
