#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tenon/base/expected.h"
#include "tenon/engine/engine.h"
#include "tenon/engine/upstream/server_address.h"

namespace tenon::engine {

struct OllamaOptions {
  std::string model;  ///< The server's name for it; "": the first that it lists.
  /// The tokenizer of the server's model, from its files.
  std::shared_ptr<const vocab::Tokenizer> tokenizer;
  std::string chat_template;  ///< "": none.
  /// For prompt and answer (`num_ctx`); 0: what the model's own parameters say, else 4096.
  std::uint32_t context_tokens = 0;
};

/// An Ollama server as an engine: prompts go to its POST /api/generate as text (`raw`), and answers
/// come as text. Answers can be constrained to JSON Schemas (`format`), and to nothing else.
///
///     auto engine = connect_ollama({.url = "http://127.0.0.1:11434"}, {.tokenizer = tokenizer});
///
/// Version and model are requested at once; fails with `unavailable` if there is no such server or
/// model. A prompt is never shortened to make it fit: one that is too long is refused. Log
/// probabilities and logit_bias are refused (`invalid`), too. Any text in an answer that spells the
/// end of a turn ends it, since the server does not tell control tokens from text. A sampling
/// parameter that a request lacks is left to the server. Runs wait in the server's own queue.
/// Thread-safe; destroy it outside of a sink.
[[nodiscard]] Expected<std::unique_ptr<Engine>> connect_ollama(ServerAddress server,
                                                               OllamaOptions options);

}  // namespace tenon::engine
