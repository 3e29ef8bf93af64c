#pragma once

#include <thread>
#include <vector>

#include "tenon/base/expected.h"

namespace boost::asio {
class io_context;
}

/// The threads of server and client.
namespace tenon::http {

/// Starts a thread for each of `contexts`, which runs it until it has no more work. The threads
/// block all signals, since the application handles signals on its own threads. What a callback
/// throws is logged. Fails with `unavailable`; `threads` then has those that were started.
[[nodiscard]] Status start_threads(const std::vector<boost::asio::io_context*>& contexts,
                                   std::vector<std::thread>& threads);

}  // namespace tenon::http
