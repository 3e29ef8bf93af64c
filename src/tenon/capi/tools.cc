#include "tenon/capi/tools.h"

#include <cstddef>
#include <utility>

#include "tenon/api/chat_request.h"

namespace tenon::capi {
namespace {

// An empty message, since every request must have one; "model" is there for the same reason.
json::Object a_message() {
  return {{"role", "user"}, {"content", ""}};
}

Unexpected error_of(const api::ApiError& error) {
  const bool is_ours = error.code.name() == "unsupported_parameter";
  return Unexpected(Error{is_ours ? Errc::unsupported : Errc::invalid, error.message, error.param});
}

}  // namespace

Expected<message::ChatRequest> request_with(json::Object fields) {
  fields["model"] = "model";
  fields["messages"] = json::Array{a_message()};
  auto request = api::decode_chat_completion(std::move(fields), {.refuses_unknown_fields = true});
  if (!request) return error_of(request.error());
  return std::move(request->chat);
}

Expected<std::vector<message::Tool>> tools_of(json::Value list) {
  auto request = request_with({{"tools", std::move(list)}});
  if (!request) return Unexpected(request.error());
  return std::move(request->tools);
}

Expected<message::Tool> tool_of(const json::Value& tool) {
  auto decoded = api::decode_tool(tool, "tool");
  if (!decoded) return error_of(decoded.error());
  return *std::move(decoded);
}

Expected<std::vector<message::ToolCall>> calls_of(const json::Value& list) {
  if (list.is_null()) return std::vector<message::ToolCall>();
  auto decoded = api::decode_tool_calls(list, "calls");
  if (!decoded) return error_of(decoded.error());
  return *std::move(decoded);
}

}  // namespace tenon::capi
