// Whatever a client sends is decoded, or refused with an error that can be written; what is decoded
// keeps what the header promises, and its answers can be written down.
#include "tenon/api/completion_request.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz_api.h"

#include "tenon/api/completion_encode.h"

using tenon::fuzz::promise;
using namespace tenon;

namespace {

/// Answers whose tokens are cut anywhere.
void answer(const api::CompletionRequest& request, std::string_view text) {
  api::CompletionHead head{.id = "cmpl-1",
                           .prompts = request.prompts.size(),
                           .choices = request.choices,
                           .candidates = request.candidates,
                           .echoes = {},
                           .logprobs = true,
                           .include_usage = request.include_usage};
  if (request.echo) head.echoes.assign(request.prompts.size(), "echo");
  api::CompletionEncoder encoder(head);
  const std::vector<message::TokenLogprob> tokens = {
      {.bytes = std::string(text.substr(0, 1)), .logprob = -1.0},
      {.bytes = std::string(text.substr(std::min<std::size_t>(text.size(), 1), 5))}};
  std::string wire;
  encoder.begin(wire);
  for (unsigned i = 0; i < request.prompts.size() * request.candidates; ++i) {
    encoder.keep(i, message::ContentDelta{"a"}, tokens);
    encoder.add(i, message::ContentDelta{"a"}, tokens, wire);
    encoder.keep(i, message::Finish{}, {});
  }
  const json::Value whole = encoder.whole({});
  promise(whole.find("choices")->if_array()->size() == request.prompts.size() * request.choices,
          "each prompt has its choices");
  promise(json::parse(json::to_string(whole)).has_value(), "an answer is JSON");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const auto body = json::parse(text, {.max_depth = 64});
  if (!body) return 0;
  const auto decoded = api::decode_completion(*body);
  if (!decoded) {
    fuzz::promise_refusal(decoded.error());
    return 0;
  }
  promise(!decoded->prompts.empty(), "there is a prompt");
  promise(decoded->choices >= 1 && decoded->choices <= decoded->candidates, "best_of covers n");
  promise(decoded->prompts.size() * decoded->candidates <= api::kMaxAnswers, "answers are bounded");
  promise(decoded->candidates == decoded->choices || !decoded->stream, "a stream chooses nothing");
  promise(decoded->chat.max_tokens.value_or(0) >= 1, "a token limit leaves a token");
  for (const message::Continuation& prompt : decoded->prompts) {
    promise(prompt.tokens.empty() || (prompt.text.empty() && !prompt.suffix), "text or tokens");
    promise(prompt.tokens.size() <= api::kMaxPromptTokens, "tokens are bounded");
    for (const std::int32_t id : prompt.tokens) promise(id >= 0, "an id is no negative number");
  }
  answer(*decoded, text);
  return 0;
}
