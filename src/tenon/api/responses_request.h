#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/api/client_tools.h"
#include "tenon/api/error.h"
#include "tenon/api/request_reader.h"
#include "tenon/json/value.h"
#include "tenon/message/message.h"

/// Decodes OpenAI's Responses. Source: the types of the Python package `openai` 3.52.0.
namespace tenon::api {

/// The client's name for a tool, if it differs from the model's.
struct CalledAs {
  std::string name_space;            ///< For a tool of type `namespace`; "": it is in no namespace.
  std::string name;                  ///< Within the namespace.
  const ClientTool* tool = nullptr;  ///< Null: a function or a custom tool.
};
using CalledAsByName = std::map<std::string, CalledAs, std::less<>>;

/// The model's name for the tool that runs code (`programmatic_tool_calling`), which has none in
/// this dialect.
inline constexpr std::string_view kProgram = "run_code";

struct ResponsesRequest {
  message::ChatRequest chat;
  bool stream = false;
  bool store = true;
  bool background = false;  ///< The answer goes on without its client.
  /// The conversation whose items come before `input`, and to which new items are added; "": none.
  std::string conversation;
  bool truncates = false;  ///< `truncation: auto`: the oldest parts that do not fit are left out.
  bool wants_sealed = false;  ///< `include` asks for encrypted reasoning, which clients keep.
  json::Object echo;          ///< What the response repeats of the request.
  /// All items that the model reads, those of earlier responses first, each with its id.
  json::Array input;
  std::size_t first_new = 0;                  ///< The first item that is not in the conversation.
  CalledAsByName called_as;                   ///< By the model's name of the tool.
  std::vector<message::Diagnostic> left_out;  ///< What was left out, each with its path.
  json::Object found;                         ///< What FindResponse found, by id.
};

/// A conversation that is to be made, or items to add to it.
struct ConversationRequest {
  json::Array items;  ///< Each with its id.
  json::Object metadata;
  bool has_metadata = false;
  std::vector<message::Diagnostic> left_out;  ///< What was left out, each with its path.
};

/// What the store has for an id. For a response `{"input": [...], "response": {...}}`, which are
/// ResponsesRequest::input and the response itself; for a conversation, "conv_...",
/// `{"conversation": {...}, "items": [...]}`. Null: nothing is kept under this id.
using FindResponse = std::function<Result<json::Value, ApiError>(const std::string& id)>;

/// Every field that a request may have, in the order of docs/api.md.
[[nodiscard]] std::span<const FieldInfo> responses_fields();

/// Decodes a request, with the errors of decode_chat_completion(). `id`, "resp_...", is that of the
/// response to come; items without an id get one that is made from it. `find` is called for what
/// `previous_response_id` and item references name. Text, calls and reasoning of the assistant in a
/// row become one message. A tool of a namespace becomes a function called `NAMESPACE__NAME`.
[[nodiscard]] Result<ResponsesRequest, ApiError> decode_response(const json::Value& body,
                                                                 const std::string& id,
                                                                 const FindResponse& find,
                                                                 const DecodeOptions& options = {});

/// `{"items", "metadata"}`. Items get their ids from `id`, as in decode_response().
[[nodiscard]] Result<ConversationRequest, ApiError> decode_conversation(
    const json::Value& body, const std::string& id, const DecodeOptions& options = {});

/// The id of an item of the response `id`: "msg_...", with `place` to distinguish it from its other
/// items. item_reference finds the response by it.
[[nodiscard]] std::string item_id(std::string_view type, std::string_view response,
                                  const std::string& place);

}  // namespace tenon::api
