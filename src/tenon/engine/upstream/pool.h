#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/engine/engine.h"
#include "tenon/engine/upstream/balancer.h"

namespace tenon::engine {

/// One server of a pool, and how to connect to it. `connect` is called again, from another thread,
/// until it succeeds; it may block.
struct PoolServer {
  std::string url;
  std::function<Expected<std::unique_ptr<Engine>>()> connect;
};

/// Several servers of one model as one engine, of any kind. A Balancer decides to which server a
/// run goes.
///
///     auto engine = connect_pool({{url, [url] { return connect_llama_server({.url = url}); }}});
///
/// A run whose server fails before its first token goes to another server, to each of them once;
/// `time_limit` holds for all attempts together. A run that a server refuses with a grammar is
/// tried once more without it (RunEnd::unconstrained_because says so). Servers are checked while
/// nothing is heard of them. A server that is not there at the start joins when it comes.
///
/// The servers must have the same vocabulary and constrain answers in the same way. The context is
/// that of the smallest; if contexts or chat templates differ, the log says so. A server that comes
/// later and does not fit is not used.
///
/// Waits until all servers were tried. Fails with `invalid` if a server can never be connected to
/// in this way or if two servers differ, with `unavailable` if no server is there. Thread-safe;
/// destroy it outside of a sink. Destroying it waits for the checks under way.
[[nodiscard]] Expected<std::unique_ptr<Engine>> connect_pool(std::vector<PoolServer> servers,
                                                             Balancer::Options options = {});

}  // namespace tenon::engine
