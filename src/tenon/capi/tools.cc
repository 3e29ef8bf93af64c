#include "tenon/capi/tools.h"

#include <initializer_list>
#include <utility>

#include "tenon/api/chat_request.h"

namespace tenon::capi {
namespace {

// An empty message, since every request must have one.
json::Object a_message() {
  return {{"role", "user"}, {"content", ""}};
}

// The caller has given one field alone and has its own name for it.
Expected<message::ChatRequest> decoded(json::Object fields,
                                       std::initializer_list<api::FieldName> names = {}) {
  auto request = api::decode_chat_completion(std::move(fields), {.refuses_unknown_fields = true});
  if (request) return std::move(request->chat);
  const api::ApiError error =
      api::renamed(std::move(request.error()), {names.begin(), names.size()});
  const bool is_ours = error.code.name() == "unsupported_parameter";
  return Unexpected(Error{is_ours ? Errc::unsupported : Errc::invalid, error.message, error.param});
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

Expected<message::Tool> tool_of(json::Value tool) {
  auto request = decoded({{"model", "model"},
                          {"messages", json::Array{a_message()}},
                          {"tools", json::Array{std::move(tool)}}},
                         {{"tools[0]", "tool"}});
  if (!request) return Unexpected(request.error());
  return std::move(request->tools.front());
}

Expected<std::vector<message::ToolCall>> calls_of(json::Value list) {
  const json::Array messages{a_message(),
                             json::Object{{"role", "assistant"}, {"tool_calls", std::move(list)}}};
  auto request =
      decoded({{"model", "model"}, {"messages", messages}}, {{"messages[1].tool_calls", "calls"}});
  if (!request) return Unexpected(request.error());
  return std::move(request->messages.at(1).tool_calls);
}

}  // namespace tenon::capi
