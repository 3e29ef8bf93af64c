#pragma once

#include <memory>
#include <thread>

#include <tenon.h>

#include "tenon/config/instance.h"
#include "tenon/http/local_exchange.h"

struct tenon_service {
  std::shared_ptr<tenon::config::Instance> instance;  // its conversations have it, too
};

/// An answer, and the thread that tells the caller of its pieces, where it does not take them by
/// itself: one that is slow keeps nobody waiting but itself.
struct tenon_call {
  std::unique_ptr<tenon::http::LocalAnswer> answer;
  bool is_told = false;
  std::thread teller;  // last: it uses the above
};
