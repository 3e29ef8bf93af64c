#pragma once

#include <memory>

#include "tenon/base/expected.h"
#include "tenon/engine/engine.h"
#include "tenon/engine/upstream/server_address.h"

namespace tenon::engine {

struct LlamaServerOptions {
  /// The tokenizer of the server's model, from its files, so that prompts need no question to the
  /// server. Null: the server is asked for the tokens of each text (RemoteTokenizer).
  std::shared_ptr<const vocab::Tokenizer> tokenizer;
};

/// A llama-server as an engine: prompts go to its POST /completion as token ids, and tokens come
/// back as an event stream.
///
///     auto engine = connect_llama_server({.url = "http://127.0.0.1:8081"});
///
/// Context, slots, chat template and vocabulary are requested at once; fails with `unavailable` if
/// there is no llama-server or it does not tell them; with `invalid` for a bad URL, or if it makes
/// other tokens of texts than `options.tokenizer`. A run that the server refuses ends with
/// `invalid` and the server's message if the request is wrong, else with `unavailable`. Control
/// tokens come as text like any other (`Token::is_control` is false), and only those that the
/// server shows: start it with --special, or with a model whose tool markers are not control
/// tokens. Runs wait in the server's own queue. Without `options.tokenizer`, tokenizer().encode()
/// waits for the server; start() does not. Thread-safe; destroy it outside of a sink.
[[nodiscard]] Expected<std::unique_ptr<Engine>> connect_llama_server(
    ServerAddress server, LlamaServerOptions options = {});

}  // namespace tenon::engine
