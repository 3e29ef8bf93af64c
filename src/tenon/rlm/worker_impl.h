#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tenon/rlm/spawn.h"
#include "tenon/rlm/worker.h"

namespace tenon::rlm {

struct Worker::Impl {
  Descriptor to, from;  // our ends of the two pipes, not blocking
  pid_t pid = -1;       // what we started; -1: waited for
  Descriptor inner;     // the interpreter where that is another process (a pidfd)
  pid_t inner_pid = -1;
  bool has_inner = false;
  std::chrono::seconds cpu{0};  // its limit
  std::string ending;
  std::string buffer;             // bytes that came and are no whole frame yet
  std::function<void()> release;  // gives the place among the sandbox's workers back, and keeps the
                                  // sandbox alive until then
};

}  // namespace tenon::rlm
