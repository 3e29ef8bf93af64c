// OpenAI's conversations: lists of items that responses add to.

#include <string>
#include <string_view>
#include <utility>

#include "tenon/api/responses_request.h"
#include "tenon/api/routes.h"
#include "tenon/base/ids.h"

namespace tenon::api {
namespace {

// A conversation's metadata and its items are changed by other routes.
ApiError not_here(std::string_view field) {
  return {.message = std::string(field) + " is not supported here: items are added at " +
                     "/v1/conversations/{id}/items, metadata is changed at the conversation",
          .param = std::string(field),
          .code = "unsupported_parameter"};
}

// Items get ids like those of a response's input.
Result<ConversationRequest, ApiError> conversation_in(const ServiceParts& parts, Call& call) {
  const std::string id = random_id("resp_");
  auto request = body_of(call).and_then([&](const json::Value& value) {
    return decode_conversation(
        value, id,
        with_seal(parts, call, {.refuses_unknown_fields = parts.options.refuses_unknown}));
  });
  if (request) add_left_out(call, request->left_out);
  return request;
}

void create_conversation(ServiceParts& parts, Call& call) {
  auto request = conversation_in(parts, call);
  if (!request) return respond_error(call, request.error());
  respond_result(call, parts.conversations.create(call.key.name(), std::move(request->items),
                                                  std::move(request->metadata), unix_time()));
}

void get_conversation(ServiceParts& parts, Call& call) {
  respond_result(call, parts.conversations.get(call.key.name(), call.tail));
}

// Replaces the metadata, as OpenAI does; items have a route of their own.
void update_conversation(ServiceParts& parts, Call& call) {
  auto request = conversation_in(parts, call);
  if (!request) return respond_error(call, request.error());
  if (!request->has_metadata) {
    return respond_error(call, {.message = "metadata is required",
                                .param = "metadata",
                                .code = "missing_required_parameter"});
  }
  if (!request->items.empty()) return respond_error(call, not_here("items"));
  respond_result(
      call, parts.conversations.update(call.key.name(), call.tail, std::move(request->metadata)));
}

void delete_conversation(ServiceParts& parts, Call& call) {
  respond_result(call, parts.conversations.erase(call.key.name(), call.tail));
}

void add_items(ServiceParts& parts, Call& call) {
  const auto request = conversation_in(parts, call);
  if (!request) return respond_error(call, request.error());
  if (request->has_metadata) return respond_error(call, not_here("metadata"));
  if (request->items.empty()) {
    return respond_error(call, {.message = "items must have at least one item",
                                .param = "items",
                                .code = "invalid_value"});
  }
  respond_result(call, parts.conversations.add(call.key.name(), call.tail, request->items));
}

void list_items(ServiceParts& parts, Call& call) {
  respond_result(
      call, parts.conversations.list(call.key.name(), call.tail, call.exchange->request().query));
}

void get_item(ServiceParts& parts, Call& call) {
  respond_result(call, parts.conversations.item(call.key.name(), call.tail));
}

void delete_item(ServiceParts& parts, Call& call) {
  respond_result(call, parts.conversations.erase_item(call.key.name(), call.tail));
}

}  // namespace

std::vector<Route> conversation_routes(ServiceParts& parts) {
  return routes_of(parts, {{"POST", "/v1/conversations", create_conversation},
                           {"GET", "/v1/conversations/{id}", get_conversation},
                           {"POST", "/v1/conversations/{id}", update_conversation},
                           {"DELETE", "/v1/conversations/{id}", delete_conversation},
                           {"POST", "/v1/conversations/{id}/items", add_items},
                           {"GET", "/v1/conversations/{id}/items", list_items},
                           {"GET", "/v1/conversations/{id}/items/{item}", get_item},
                           {"DELETE", "/v1/conversations/{id}/items/{item}", delete_item}});
}

}  // namespace tenon::api
