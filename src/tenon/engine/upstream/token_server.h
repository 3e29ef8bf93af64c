#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tenon/base/expected.h"
#include "tenon/engine/engine.h"
#include "tenon/engine/upstream/server_address.h"

namespace tenon::engine {

/// The servers that take token ids and give token ids.
enum class TokenDialect : std::uint8_t {
  vllm,    ///< POST /v1/completions with `return_token_ids` and `structured_outputs`.
  sglang,  ///< POST /generate with `input_ids` and `ebnf`.
};

struct TokenServerOptions {
  TokenDialect dialect = TokenDialect::vllm;
  std::string model;  ///< As the server calls it; "": the first that it lists.
  /// That of the server's model, from its files: these servers tell no control tokens.
  std::shared_ptr<const vocab::Tokenizer> tokenizer;
  std::string chat_template;  ///< "": none.
};

/// A vLLM or SGLang server as an engine: prompts are sent as token ids, and what comes is read by
/// its ids, so that no control token is hidden. Answers are held to grammars in EBNF.
///
///     auto engine = connect_token_server({.url = "http://127.0.0.1:8000", .tokenizer =
///     tokenizer});
///
/// The model's name and context are asked for at once; fails with `unavailable` where there is no
/// such server, or no such model. Log probabilities are refused (`invalid`). The server's own queue
/// is the queue. Thread-safe; destroy it outside of a sink.
[[nodiscard]] Expected<std::unique_ptr<Engine>> connect_token_server(ServerAddress server,
                                                                     TokenServerOptions options);

}  // namespace tenon::engine
