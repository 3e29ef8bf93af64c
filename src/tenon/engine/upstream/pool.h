#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/engine/engine.h"
#include "tenon/engine/upstream/balancer.h"

namespace tenon::engine {

/// One server of a pool, and how it is met: asked what it is. `connect` is called again, from
/// another thread, until it succeeds; it may block.
struct PoolServer {
  std::string url;
  std::function<Expected<std::unique_ptr<Engine>>()> connect;
};

/// Several servers of one model as one engine, whatever they speak. A Balancer says which server a
/// run goes to.
///
///     auto engine = connect_pool({{url, [url] { return connect_llama_server({.url = url}); }}});
///
/// A run that fails by its server's fault before its first token goes to another one, to each
/// server once; `time_limit` is that of all attempts together. A run that a server refuses with a
/// grammar is tried once more without it (RunEnd::unheld says so). Servers are checked while
/// nothing is heard of them. One that is not there at the start joins when it comes.
///
/// The servers must have the same vocabulary and hold answers in the same way; the context is that
/// of the smallest, and where contexts or chat templates differ, the log says so. One that comes
/// later and does not fit stays out.
///
/// Waits until all servers were tried. Fails with `invalid` where a server is not to be met in this
/// way at all or two differ, `unavailable` where no server is there. Thread-safe; destroy it
/// outside of a sink, which waits for the checks under way.
[[nodiscard]] Expected<std::unique_ptr<Engine>> connect_pool(std::vector<PoolServer> servers,
                                                             Balancer::Options options = {});

}  // namespace tenon::engine
