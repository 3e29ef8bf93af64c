#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tenon/api/error.h"
#include "tenon/json/value.h"
#include "tenon/store/response_store.h"

namespace tenon::api {

/// Conversations of OpenAI's Responses: lists of items that requests name instead of sending them,
/// and to which their input and output are added. They belong to owners of keys as KeptResponses
/// do, and are in the same store. Thread-safe; every method waits for the store. Changes of one
/// conversation come one after the other, also where two processes share a store.
class KeptConversations {
 public:
  static constexpr std::size_t kMaxItems = 4096;  ///< In one conversation.
  static constexpr std::size_t kMaxBytes = std::size_t{16} << 20;

  explicit KeptConversations(std::shared_ptr<store::ResponseStore> store)
      : store_(std::move(store)) {}

  /// `items` must have ids (ConversationRequest).
  [[nodiscard]] Result<json::Value, ApiError> create(std::string_view owner, json::Array items,
                                                     json::Object metadata, std::int64_t now);
  /// `{"conversation", "items"}`; null if no conversation has this id.
  [[nodiscard]] Result<json::Value, ApiError> find(std::string_view owner,
                                                   const std::string& id) const;

  /// Answers of the routes. 404 if nothing is kept under `id`.
  [[nodiscard]] Result<json::Value, ApiError> get(std::string_view owner,
                                                  const std::string& id) const;
  [[nodiscard]] Result<json::Value, ApiError> update(std::string_view owner, const std::string& id,
                                                     json::Object metadata);
  [[nodiscard]] Result<json::Value, ApiError> erase(std::string_view owner, const std::string& id);
  [[nodiscard]] Result<json::Value, ApiError> add(std::string_view owner, const std::string& id,
                                                  const json::Array& items);
  [[nodiscard]] Result<json::Value, ApiError> list(std::string_view owner, const std::string& id,
                                                   std::string_view query) const;
  /// `place` is "CONVERSATION/ITEM".
  [[nodiscard]] Result<json::Value, ApiError> item(std::string_view owner,
                                                   std::string_view place) const;
  [[nodiscard]] Result<json::Value, ApiError> erase_item(std::string_view owner,
                                                         std::string_view place);

 private:
  [[nodiscard]] Result<json::Value, ApiError> existing(std::string_view owner,
                                                       const std::string& id) const;
  /// Changes the document of a conversation and keeps it, and returns what `edit` does. If that is
  /// an error, nothing is changed.
  using Edit = std::function<Result<json::Value, ApiError>(json::Value& document)>;
  [[nodiscard]] Result<json::Value, ApiError> change(std::string_view owner, const std::string& id,
                                                     const Edit& edit);

  const std::shared_ptr<store::ResponseStore> store_;
};

}  // namespace tenon::api
