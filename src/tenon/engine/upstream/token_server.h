#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tenon/base/expected.h"
#include "tenon/engine/engine.h"
#include "tenon/engine/upstream/server_address.h"

namespace tenon::engine {

/// Servers that take token ids and return token ids.
enum class TokenDialect : std::uint8_t {
  vllm,    ///< POST /v1/completions with `return_token_ids` and `structured_outputs`.
  sglang,  ///< POST /generate with `input_ids` and `ebnf`.
};

struct TokenServerOptions {
  TokenDialect dialect = TokenDialect::vllm;
  std::string model;  ///< The server's name for it; "": the first that it lists.
  /// The tokenizer of the server's model, from its files: these servers do not tell control tokens.
  std::shared_ptr<const vocab::Tokenizer> tokenizer;
  std::string chat_template;  ///< "": none.
};

/// A vLLM or SGLang server as an engine: prompts are sent as token ids, and answers are read by
/// their ids, so no control token is hidden. Answers can be constrained to grammars in EBNF.
///
///     auto engine = connect_token_server({.url = "http://127.0.0.1:8000", .tokenizer =
///     tokenizer});
///
/// The model's name and context are requested at once; fails with `unavailable` if there is no such
/// server or model. Log probabilities are refused (`invalid`). Runs wait in the server's own queue.
/// Thread-safe; destroy it outside of a sink.
[[nodiscard]] Expected<std::unique_ptr<Engine>> connect_token_server(ServerAddress server,
                                                                     TokenServerOptions options);

}  // namespace tenon::engine
