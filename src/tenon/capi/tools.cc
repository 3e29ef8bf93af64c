#include "tenon/capi/tools.h"

#include <utility>

#include "tenon/api/chat_request.h"

namespace tenon::capi {
namespace {

// Says nothing, since no request is without messages.
json::Object a_message() {
  return {{"role", "user"}, {"content", ""}};
}

Expected<message::ChatRequest> decoded(json::Object fields) {
  auto request = api::decode_chat_completion(std::move(fields));
  if (request) return std::move(request->chat);
  const api::ApiError& error = request.error();
  const bool is_ours = error.code.name() == "unsupported_parameter";
  return Unexpected(Error{is_ours ? Errc::unsupported : Errc::invalid, error.message});
}

}  // namespace

Expected<message::ChatRequest> request_with(json::Object fields) {
  fields["model"] = "model";
  fields["messages"] = json::Array{a_message()};
  return decoded(std::move(fields));
}

Expected<std::vector<message::Tool>> tools_of(json::Value list) {
  auto request = request_with({{"tools", std::move(list)}});
  if (!request) return Unexpected(request.error());
  return std::move(request->tools);
}

Expected<std::vector<message::ToolCall>> calls_of(json::Value list) {
  const json::Array messages{a_message(),
                             json::Object{{"role", "assistant"}, {"tool_calls", std::move(list)}}};
  auto request = decoded({{"model", "model"}, {"messages", messages}});
  if (!request) return Unexpected(request.error());
  return std::move(request->messages.at(1).tool_calls);
}

}  // namespace tenon::capi
