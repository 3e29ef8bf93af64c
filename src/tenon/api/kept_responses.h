#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tenon/api/error.h"
#include "tenon/json/value.h"
#include "tenon/store/response_store.h"

namespace tenon::api {

/// The responses that clients may come back to, and what the paths below /v1/responses/ say of
/// them. Each belongs to the owner of the key that it was asked for with (KeyOwner::name, ""
/// without keys), and to others it is not there. Thread-safe; every method waits for the store.
class KeptResponses {
 public:
  /// `store` null: in memory.
  explicit KeptResponses(std::shared_ptr<store::ResponseStore> store);

  /// As FindResponse has it.
  [[nodiscard]] Result<json::Value, ApiError> find(std::string_view owner,
                                                   const std::string& id) const;
  /// ResponseHead::keep of the response `id`, whose items are `input`.
  [[nodiscard]] std::function<bool(const json::Value& response)> keeper(std::string_view owner,
                                                                        const std::string& id,
                                                                        json::Array input) const;

  /// Answers of the routes. 404 where nothing is kept under `id`; `query` is held to its fields as
  /// bodies are.
  [[nodiscard]] Result<json::Value, ApiError> get(std::string_view owner, const std::string& id,
                                                  std::string_view query) const;
  [[nodiscard]] Result<json::Value, ApiError> list_input(std::string_view owner,
                                                         const std::string& id,
                                                         std::string_view query) const;
  [[nodiscard]] Result<json::Value, ApiError> erase(std::string_view owner,
                                                    const std::string& id) const;
  /// Of one that was made in the background, and is over: itself. Others cannot be cancelled.
  [[nodiscard]] Result<json::Value, ApiError> cancel(std::string_view owner,
                                                     const std::string& id) const;

  /// The store of the responses; null where the server keeps none.
  [[nodiscard]] const std::shared_ptr<store::ResponseStore>& store() const { return store_; }

 private:
  [[nodiscard]] Result<json::Value, ApiError> existing(std::string_view owner,
                                                       const std::string& id) const;

  std::shared_ptr<store::ResponseStore> store_;
};

}  // namespace tenon::api
