#include "tenon/capi/tools.h"

#include <cstddef>
#include <utility>

#include "tenon/api/chat_request.h"

namespace tenon::capi {
namespace {

// An empty message, since every request must have one.
json::Object a_message() {
  return {{"role", "user"}, {"content", ""}};
}

Expected<message::ChatRequest> decoded(json::Object fields) {
  auto request = api::decode_chat_completion(std::move(fields), {.refuses_unknown_fields = true});
  if (request) return std::move(request->chat);
  const api::ApiError& error = request.error();
  const bool is_ours = error.code.name() == "unsupported_parameter";
  return Unexpected(Error{is_ours ? Errc::unsupported : Errc::invalid, error.message, error.param});
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

// Replaces the server's name of a field by the caller's; the caller has given only that field.
Unexpected renamed(Error error, std::string_view field, std::string_view name) {
  replace_all(error.message, field, name);
  replace_all(error.path, field, name);
  return Unexpected(std::move(error));
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
                          {"tools", json::Array{std::move(tool)}}});
  if (!request) return renamed(std::move(request.error()), "tools[0]", "tool");
  return std::move(request->tools.front());
}

Expected<std::vector<message::ToolCall>> calls_of(json::Value list) {
  const json::Array messages{a_message(),
                             json::Object{{"role", "assistant"}, {"tool_calls", std::move(list)}}};
  auto request = decoded({{"model", "model"}, {"messages", messages}});
  if (!request) return renamed(std::move(request.error()), "messages[1].tool_calls", "calls");
  return std::move(request->messages.at(1).tool_calls);
}

}  // namespace tenon::capi
