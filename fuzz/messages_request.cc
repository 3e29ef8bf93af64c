// Whatever a client sends is decoded, or refused with an error that can be written; what is decoded
// keeps what the header promises.
#include "tenon/api/messages_request.h"

#include <algorithm>
#include <string>

#include "fuzz_api.h"

using tenon::fuzz::promise;
using namespace tenon;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto body = json::parse(fuzz::text_of(data, size), {.max_depth = 64});
  if (!body) return 0;
  const auto counted = api::decode_count_tokens(*body);
  const auto decoded = api::decode_messages(*body);
  promise(!decoded || counted, "what can be answered can be counted");
  if (!decoded) {
    fuzz::promise_refusal(decoded.error(), api::Dialect::anthropic);
    return 0;
  }
  const message::ChatRequest& chat = decoded->chat;
  promise(!chat.messages.empty() || !chat.prefill.empty(), "there is something to answer");
  promise(chat.max_tokens.has_value() && *chat.max_tokens >= 1, "a token limit leaves a token");
  for (const std::string& stop : chat.stop) promise(!stop.empty(), "no stop string is empty");
  promise(chat.tool_choice.mode != message::ToolMode::required || !chat.tools.empty(),
          "a demanded call has a tool");
  for (const std::string& name : chat.tool_choice.allowed) {
    promise(std::ranges::any_of(chat.tools, [&](const auto& tool) { return tool.name == name; }),
            "a choice is among the tools");
  }
  for (const message::Message& each : chat.messages) {
    promise(each.tool_calls.empty() || each.role == message::Role::assistant,
            "only the assistant calls");
  }
  return 0;
}
