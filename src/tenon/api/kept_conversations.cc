#include "tenon/api/kept_conversations.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "tenon/api/fields.h"
#include "tenon/api/kept_query.h"
#include "tenon/base/ids.h"

// A conversation is one document of the store:
//
//     {"conversation": {"id": "conv_...", "created_at", "metadata", ...}, "items": [...]}
//
// Every change reads, edits and writes the whole document in one transaction of the store (change),
// so two responses that end at the same time both get their items in. The document is bounded
// (kMaxItems, kMaxBytes), and so is the cost of a change. Responses and conversations share the
// store; their ids differ by the prefix.

namespace tenon::api {
namespace {

using json::Value;

ApiError no_conversation(const std::string& id) {
  return {.message =
              "there is no conversation " + shown(id) + " here: it was deleted, or it is too old",
          .param = {},
          .code = "conversation_not_found"};
}

ApiError no_item(std::string_view id) {
  return {.message = "the conversation has no item " + shown(id),
          .param = {},
          .code = "conversation_not_found"};
}

json::Array& items_in(Value& document) {
  return *document.find("items")->if_array();
}

auto with_id(json::Array& items, std::string_view id) {
  return std::ranges::find_if(items, [&](const Value& item) {
    const Value* own = present(item, "id");
    return own != nullptr && *own == Value(id);
  });
}

// The open parts of a path with two of them, as the Router joins them: "conv_1/msg_2".
struct ItemPlace {
  std::string conversation;
  std::string_view item;
};

ItemPlace split_place(std::string_view place) {
  const std::size_t at = std::min(place.find('/'), place.size());
  return {.conversation = std::string(place.substr(0, at)),
          .item = place.substr(std::min(place.size(), at + 1))};
}

bool is_id(const std::string& id) {
  return is_kept_id(id) && id.starts_with("conv_");
}

// The document that a text is; null: it is something else.
Result<Value, ApiError> read_document(std::string_view text) {
  auto document = json::parse(text);
  if (!document) return Failure<ApiError>(store_failed(document.error()));
  const bool is_one = document->if_object() != nullptr && document->find("items") != nullptr &&
                      document->find("items")->if_array() != nullptr &&
                      document->find("conversation") != nullptr;
  return is_one ? *std::move(document) : Value();
}

Result<std::string, ApiError> text_to_keep(const Value& document) {
  std::string text = json::to_string(document);
  if (text.size() <= KeptConversations::kMaxBytes &&
      document.find("items")->if_array()->size() <= KeptConversations::kMaxItems) {
    return text;
  }
  return Failure<ApiError>(ApiError{
      .message = "a conversation has at most " + std::to_string(KeptConversations::kMaxItems) +
                 " items and " + std::to_string(KeptConversations::kMaxBytes) + " bytes",
      .param = "items",
      .code = "invalid_value"});
}

}  // namespace

// The limits are checked before the store is asked, so the error says which one was passed.
Result<Value, ApiError> KeptConversations::create(std::string_view owner, json::Array items,
                                                  json::Object metadata, std::int64_t now) {
  const std::string id = random_id("conv_");
  Value document(json::Object{{"conversation", json::Object{{"id", id},
                                                            {"object", "conversation"},
                                                            {"created_at", now},
                                                            {"metadata", std::move(metadata)}}},
                              {"items", std::move(items)}});
  const auto text = text_to_keep(document);
  if (!text) return Failure<ApiError>(text.error());
  if (store_ == nullptr) {
    return Failure<ApiError>(store_failed({Errc::unavailable, "there is no store"}));
  }
  if (const Status kept = store_->put(place_in_store(owner, id), *text); !kept) {
    return Failure<ApiError>(store_failed(kept.error()));
  }
  return std::move(*document.find("conversation"));
}

Result<Value, ApiError> KeptConversations::change(std::string_view owner, const std::string& id,
                                                  const Edit& edit) {
  // The result stays this error if the store has no such document.
  Result<Value, ApiError> result = Failure<ApiError>(no_conversation(id));
  if (store_ == nullptr || !is_id(id)) return result;
  // No value leaves the document as it is.
  const Status done =
      store_->change(place_in_store(owner, id),
                     [&](std::optional<std::string> kept) -> std::optional<std::string> {
                       if (!kept) return std::nullopt;
                       auto document = read_document(*kept);
                       if (!document) {
                         result = Failure<ApiError>(document.error());
                         return std::nullopt;
                       }
                       if (document->is_null()) return std::nullopt;
                       result = edit(*document);
                       if (!result) return std::nullopt;
                       auto text = text_to_keep(*document);
                       if (!text) {
                         result = Failure<ApiError>(text.error());
                         return std::nullopt;
                       }
                       return *std::move(text);
                     });
  if (!done) return Failure<ApiError>(store_failed(done.error()));
  return result;
}

Result<Value, ApiError> KeptConversations::find(std::string_view owner,
                                                const std::string& id) const {
  if (store_ == nullptr || !is_id(id)) return Value();
  auto kept = store_->get(place_in_store(owner, id));
  if (!kept) return Failure<ApiError>(store_failed(kept.error()));
  return *kept ? read_document(**kept) : Value();
}

Result<Value, ApiError> KeptConversations::existing(std::string_view owner,
                                                    const std::string& id) const {
  auto kept = find(owner, id);
  if (kept && kept->is_null()) return Failure<ApiError>(no_conversation(id));
  return kept;
}

Result<Value, ApiError> KeptConversations::get(std::string_view owner,
                                               const std::string& id) const {
  auto kept = existing(owner, id);
  if (!kept) return kept;
  return std::move(*kept->find("conversation"));
}

Result<Value, ApiError> KeptConversations::update(std::string_view owner, const std::string& id,
                                                  json::Object metadata) {
  return change(owner, id, [&](Value& document) -> Result<Value, ApiError> {
    Value& conversation = *document.find("conversation");
    conversation.if_object()->set("metadata", std::move(metadata));
    return conversation;
  });
}

Result<Value, ApiError> KeptConversations::erase(std::string_view owner, const std::string& id) {
  if (auto kept = existing(owner, id); !kept) return kept;
  const auto erased = store_->erase(place_in_store(owner, id));
  if (!erased) return Failure<ApiError>(store_failed(erased.error()));
  if (!*erased) return Failure<ApiError>(no_conversation(id));  // it has gone meanwhile
  return Value(json::Object{{"id", id}, {"object", "conversation.deleted"}, {"deleted", true}});
}

Result<Value, ApiError> KeptConversations::add(std::string_view owner, const std::string& id,
                                               const json::Array& items) {
  return change(owner, id, [&](Value& document) -> Result<Value, ApiError> {
    json::Array& all = items_in(document);
    all.insert(all.end(), items.begin(), items.end());
    // The answer lists the added items alone, in their order.
    return page_of_items(items, "order=asc&limit=100");
  });
}

Result<Value, ApiError> KeptConversations::list(std::string_view owner, const std::string& id,
                                                std::string_view query) const {
  auto kept = existing(owner, id);
  if (!kept) return kept;
  return page_of_items(std::move(items_in(*kept)), query);
}

Result<Value, ApiError> KeptConversations::item(std::string_view owner,
                                                std::string_view place) const {
  const ItemPlace wanted = split_place(place);
  auto kept = existing(owner, wanted.conversation);
  if (!kept) return kept;
  const auto found = with_id(items_in(*kept), wanted.item);
  if (found == items_in(*kept).end()) return Failure<ApiError>(no_item(wanted.item));
  return std::move(*found);
}

Result<Value, ApiError> KeptConversations::erase_item(std::string_view owner,
                                                      std::string_view place) {
  const ItemPlace wanted = split_place(place);
  return change(owner, wanted.conversation, [&](Value& document) -> Result<Value, ApiError> {
    json::Array& items = items_in(document);
    const auto found = with_id(items, wanted.item);
    if (found == items.end()) return Failure<ApiError>(no_item(wanted.item));
    items.erase(found);
    return *document.find("conversation");
  });
}

}  // namespace tenon::api
