// Whatever a client sends is decoded, or refused with an error that can be written; what is decoded
// keeps what the header promises.
#include "tenon/api/chat_request.h"

#include <algorithm>

#include "fuzz_api.h"

using tenon::fuzz::promise;
using namespace tenon;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto body = json::parse(fuzz::text_of(data, size), {.max_depth = 64});
  if (!body) return 0;
  const auto decoded = api::decode_chat_completion(*body);
  if (!decoded) {
    fuzz::promise_refusal(decoded.error());
    return 0;
  }
  const message::ChatRequest& chat = decoded->chat;
  promise(!chat.messages.empty(), "there is a message");
  promise(decoded->choices >= 1 && decoded->choices <= api::kMaxChoices, "n is in its range");
  promise(chat.max_tokens.value_or(1) >= 1, "a token limit leaves a token");
  promise(chat.stop.size() <= api::kMaxStops, "stop strings are few");
  for (const std::string& stop : chat.stop) promise(!stop.empty(), "no stop string is empty");
  promise(chat.tool_choice.mode != message::ToolMode::required || !chat.tools.empty(),
          "a demanded call has a tool");
  for (const message::Tool& tool : chat.tools) {
    promise(!tool.name.empty() && tool.name.find('<') == std::string::npos,
            "names spell no marker");
  }
  for (const std::string& name : chat.tool_choice.allowed) {
    promise(std::any_of(chat.tools.begin(), chat.tools.end(),
                        [&](const message::Tool& tool) { return tool.name == name; }),
            "a choice is among the tools");
  }
  return 0;
}
