#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tenon/base/expected.h"
#include "tenon/engine/engine.h"
#include "tenon/engine/upstream/server_address.h"

namespace tenon::engine {

struct OllamaOptions {
  std::string model;  ///< As the server calls it; "": the first that it lists.
  /// That of the server's model, from its files.
  std::shared_ptr<const vocab::Tokenizer> tokenizer;
  std::string chat_template;  ///< "": none.
  /// For prompt and answer (`num_ctx`); 0: what the model's own parameters say, else 4096.
  std::uint32_t context_tokens = 0;
};

/// An Ollama server as an engine: prompts go to its POST /api/generate as text (`raw`), answers
/// come as text. Answers are held to JSON Schemas (`format`), and to nothing else.
///
///     auto engine = connect_ollama({.url = "http://127.0.0.1:11434"}, {.tokenizer = tokenizer});
///
/// The version and the model are asked for at once; fails with `unavailable` where there is no such
/// server or model. Nothing of a prompt is left out to make it fit: one that is too long is
/// refused. Refused (`invalid`) are also log probabilities and logit_bias. Whatever spells the end
/// of a turn in an answer ends it, as the server tells no control tokens. A sampling parameter that
/// a request does not have is the server's. The server's own queue is the queue. Thread-safe;
/// destroy it outside of a sink.
[[nodiscard]] Expected<std::unique_ptr<Engine>> connect_ollama(ServerAddress server,
                                                               OllamaOptions options);

}  // namespace tenon::engine
