#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tenon/api/client_tools.h"
#include "tenon/api/error.h"
#include "tenon/api/request_reader.h"
#include "tenon/json/value.h"
#include "tenon/message/message.h"

/// OpenAI's Responses, the way in. Source: the types of the Python package `openai` 3.52.0.
namespace tenon::api {

/// How calls of a tool are told to the client, where it is not by the name that the model knows.
struct CalledAs {
  std::string name_space;            ///< Of a tool of type `namespace`; "": it stands in none.
  std::string name;                  ///< Within it.
  const ClientTool* tool = nullptr;  ///< Null: a function or a custom tool.
};
using CalledAsByName = std::map<std::string, CalledAs, std::less<>>;

struct ResponsesRequest {
  message::ChatRequest chat;
  bool stream = false;
  bool store = true;
  bool background = false;  ///< The answer goes on without its client.
  /// Of the conversation whose items stand before `input`, and to which what is new is added; "":
  /// none.
  std::string conversation;
  bool wants_sealed = false;  ///< `include` asks for what clients carry of thoughts.
  json::Object echo;          ///< What the response repeats of the request.
  /// All items that the model reads, those of earlier responses first, each with its id.
  json::Array input;
  std::size_t first_new = 0;                  ///< Of `input`, behind the conversation's.
  CalledAsByName called_as;                   ///< By the name that the model knows.
  std::vector<message::Diagnostic> left_out;  ///< What was not read, each with its path.
};

/// A conversation that is to be made, or what is to be added to it.
struct ConversationRequest {
  json::Array items;  ///< Each with its id.
  json::Object metadata;
  bool has_metadata = false;
  std::vector<message::Diagnostic> left_out;  ///< What was not read, each with its path.
};

/// What is kept of a response: `{"input": [...], "response": {...}}`, ResponsesRequest::input and
/// the response itself; of a conversation, "conv_...", `{"conversation": {...}, "items": [...]}`.
/// Null: nothing is kept under this id.
using FindResponse = std::function<Result<json::Value, ApiError>(const std::string& id)>;

/// Every field that a request may have, in the order of docs/api.md.
[[nodiscard]] std::span<const FieldInfo> responses_fields();

/// Decodes a request, as decode_chat_completion() does its own. `id`, "resp_...", is that of the
/// response to come; items that the client has not named get theirs from it. `find` is asked for
/// what `previous_response_id` and item references name. What the assistant has said, called and
/// thought in a row becomes one message. A tool of a namespace is a function called
/// `NAMESPACE__NAME` to the model.
[[nodiscard]] Result<ResponsesRequest, ApiError> decode_response(const json::Value& body,
                                                                 const std::string& id,
                                                                 const FindResponse& find,
                                                                 const DecodeOptions& options = {});

/// `{"items", "metadata"}`. Items get their ids from `id`, as in decode_response().
[[nodiscard]] Result<ConversationRequest, ApiError> decode_conversation(
    const json::Value& body, const std::string& id, const DecodeOptions& options = {});

/// The id of an item of the response `id`: "msg_...", with `place` telling it from its other items.
/// item_reference finds the response by it.
[[nodiscard]] std::string item_id(std::string_view type, std::string_view response,
                                  const std::string& place);

}  // namespace tenon::api
