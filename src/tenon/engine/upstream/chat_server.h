#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tenon/base/expected.h"
#include "tenon/engine/engine.h"
#include "tenon/engine/upstream/server_address.h"

namespace tenon::engine {

/// Servers that take messages. All speak OpenAI's Chat Completions, more of it or less.
enum class ChatDialect : std::uint8_t {
  openai,  ///< Honours `tool_choice`, `response_format` and the rest.
  exo,     ///< Reads those and ignores them; only messages and tools have an effect.
};

struct ChatServerOptions {
  ChatDialect dialect = ChatDialect::openai;
  std::string model;  ///< The server's name for it; "": the first that it lists.
};

/// A chat endpoint as an engine that takes messages (Takes::messages): the server makes the prompt,
/// and may parse its model's calls and reasoning itself. Answers are asked for as streams; one that
/// comes as a document is understood, too. If there are several choices, or if several answers are
/// mixed into one stream (EXO's nodes do that; ids tell them apart), the first one is used.
///
///     auto engine = connect_chat_server({.url = "https://api.example.com/v1", .api_key = key});
///
/// The URL may also be the base address that OpenAI's clients take. The list of models is requested
/// at once; fails with `unavailable` if there is no such server or model. Refused as `invalid` are
/// log probabilities and what the dialect has no field for; for EXO that is `logit_bias` and
/// penalties. Thread-safe; destroy it outside of a sink.
[[nodiscard]] Expected<std::unique_ptr<Engine>> connect_chat_server(ServerAddress server,
                                                                    ChatServerOptions options = {});

}  // namespace tenon::engine
