#pragma once

#include <memory>
#include <thread>

#include <tenon.h>

#include "tenon/config/instance.h"
#include "tenon/http/local_exchange.h"

struct tenon_service {
  std::shared_ptr<tenon::config::Instance> instance;  // its conversations share it
};

/// An answer, and the thread that passes its pieces to the caller, if the caller does not take them
/// itself. Each call has its own thread, so a slow caller delays only itself.
struct tenon_call {
  std::unique_ptr<tenon::http::LocalAnswer> answer;
  bool is_told = false;
  std::thread teller;  // last: it uses the members above
};
