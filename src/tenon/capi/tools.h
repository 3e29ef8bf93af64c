#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"
#include "tenon/message/message.h"

/// Parts of a Chat Completions request, read as the server reads them.
namespace tenon::capi {

/// The request that consists of these fields: "tools", "tool_choice" and so on. Fails as the server
/// would, naming the field.
[[nodiscard]] Expected<message::ChatRequest> request_with(json::Object fields);
/// A list of tools.
[[nodiscard]] Expected<std::vector<message::Tool>> tools_of(json::Value list);
/// One tool; errors call it `tool`.
[[nodiscard]] Expected<message::Tool> tool_of(const json::Value& tool);
/// A list of calls, as in "tool_calls" of an assistant's message; errors call it `calls`.
[[nodiscard]] Expected<std::vector<message::ToolCall>> calls_of(const json::Value& list);

}  // namespace tenon::capi
