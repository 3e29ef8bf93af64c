// Whatever a client sends is decoded, or refused with an error that can be written; what is decoded
// keeps what the header promises, and what is kept of it can be read again.
#include "tenon/api/responses_request.h"

#include <string>
#include <string_view>

#include "fuzz_api.h"

using tenon::fuzz::promise;
using namespace tenon;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto body = json::parse(fuzz::text_of(data, size), {.max_depth = 64});
  if (!body) return 0;
  const api::FindResponse nothing = [](const std::string&) -> Result<json::Value, api::ApiError> {
    return json::Value();
  };
  // A conversation, and what a client carries.
  const api::FindResponse known = [&](const std::string& id) {
    return id.starts_with("conv_") ? json::Value(json::Object{{"items", json::Array{*body}}})
                                   : json::Value();
  };
  const api::DecodeOptions how{
      .unseal = [](std::string_view sealed) { return std::string(sealed); }};
  if (const auto made = api::decode_conversation(*body, "resp_1", how)) {
    for (const json::Value& item : made->items) {
      promise(item.find("id") != nullptr && item.find("id")->if_string() != nullptr,
              "an item of a conversation has an id");
    }
  } else {
    fuzz::promise_refusal(made.error());
  }
  const auto with_more = api::decode_response(*body, "resp_1", known, how);
  if (!with_more) fuzz::promise_refusal(with_more.error());
  const auto decoded = api::decode_response(*body, "resp_1", nothing);
  if (!decoded) {
    fuzz::promise_refusal(decoded.error());
    return 0;
  }
  const message::ChatRequest& chat = decoded->chat;
  promise(!chat.messages.empty(), "there is a message");
  promise(chat.max_tokens.value_or(1) >= 1, "a token limit leaves a token");
  promise(chat.tool_choice.mode != message::ToolMode::required || !chat.tools.empty(),
          "a demanded call has a tool");
  for (const json::Value& item : decoded->input) {
    promise(item.find("id") != nullptr && item.find("id")->if_string() != nullptr,
            "an item that is kept has an id");
  }
  const api::FindResponse kept = [&](const std::string&) -> Result<json::Value, api::ApiError> {
    return json::Value(json::Object{{"input", decoded->input}});
  };
  const json::Value next =
      json::Object{{"model", "m"}, {"previous_response_id", "resp_1"}, {"input", "x"}};
  const auto again = api::decode_response(next, "resp_2", kept);
  promise(again.has_value(), "what is kept can be read again");
  promise(again->input.size() == decoded->input.size() + 1, "and nothing of it is lost");
  return 0;
}
