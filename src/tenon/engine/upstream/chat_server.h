#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tenon/base/expected.h"
#include "tenon/engine/engine.h"
#include "tenon/engine/upstream/server_address.h"

namespace tenon::engine {

/// The servers that take messages: all speak OpenAI's Chat Completions, more of it or less.
enum class ChatDialect : std::uint8_t {
  openai,  ///< `tool_choice`, `response_format` and the rest are honoured.
  exo,     ///< They are read and left alone; messages and tools are all that counts.
};

struct ChatServerOptions {
  ChatDialect dialect = ChatDialect::openai;
  std::string model;  ///< As the server calls it; "": the first that it lists.
};

/// A chat endpoint as an engine that takes messages (Takes::messages): the server makes the prompt,
/// and may read its model's calls and reasoning by itself. Answers are asked for as streams, and
/// understood as one document, too. Of several choices, and of several answers that have been mixed
/// into one stream (by their ids; EXO's nodes), the first is the answer.
///
///     auto engine = connect_chat_server({.url = "https://api.example.com/v1", .api_key = key});
///
/// Its URL may also be the base address that OpenAI's clients take. The list of models is asked for
/// at once; fails with `unavailable` where there is no such server or model. Log probabilities are
/// refused (`invalid`), and so is what the dialect has no field for, `logit_bias` and penalties of
/// EXO. Thread-safe; destroy it outside of a sink.
[[nodiscard]] Expected<std::unique_ptr<Engine>> connect_chat_server(ServerAddress server,
                                                                    ChatServerOptions options = {});

}  // namespace tenon::engine
