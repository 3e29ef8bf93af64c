#pragma once

#include <thread>
#include <vector>

#include "tenon/base/expected.h"

namespace boost::asio {
class io_context;
}

/// The threads of server and client.
namespace tenon::http {

/// Starts a thread for each of `contexts` that runs it until it has no more work. All signals are
/// blocked in them: signals are the application's and must find its threads. What a callback throws
/// is logged. Fails with `unavailable`; the threads that were started are then in `threads`.
[[nodiscard]] Status start_threads(const std::vector<boost::asio::io_context*>& contexts,
                                   std::vector<std::thread>& threads);

}  // namespace tenon::http
