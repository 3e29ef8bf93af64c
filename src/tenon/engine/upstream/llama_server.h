#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "tenon/base/expected.h"
#include "tenon/engine/engine.h"

namespace tenon::engine {

struct LlamaServerOptions {
  std::string url;                                   ///< "http://host:port"
  std::string api_key;                               ///< "": none.
  std::chrono::milliseconds silence_limit{120'000};  ///< Between two tokens.
  bool verifies_certificates = true;
};

/// A llama-server as an engine: prompts go to its POST /completion as token ids, tokens come back
/// as an event stream.
///
///     auto engine = connect_llama_server({.url = "http://127.0.0.1:8081"});
///
/// Context, slots, chat template and vocabulary are asked for at once; fails with `unavailable`
/// where there is no llama-server or it does not tell, `invalid` for a bad URL. A run that the
/// server refuses ends with `invalid` and the server's words where the request is to blame, else
/// with `unavailable`. Control tokens come as text like any other (`Token::is_control` is false),
/// and only those that the server shows: start it with --special, or with a model whose tool
/// markers are no control tokens. The server's own queue is the queue. start() may wait for the
/// tokenizer of the server, 5 s at most for each text. Thread-safe; destroy it outside of a sink.
[[nodiscard]] Expected<std::unique_ptr<Engine>> connect_llama_server(LlamaServerOptions options);

}  // namespace tenon::engine
