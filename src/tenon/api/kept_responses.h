#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tenon/api/error.h"
#include "tenon/json/value.h"
#include "tenon/store/response_store.h"

namespace tenon::api {

/// The responses that clients may come back to, and the answers of the routes below /v1/responses/.
/// Each belongs to the owner of the key with which it was made (KeyOwner::name, "" without keys);
/// for others it does not exist. Thread-safe; every method waits for the store.
class KeptResponses {
 public:
  /// `store` null: responses are kept in memory.
  explicit KeptResponses(std::shared_ptr<store::ResponseStore> store);

  /// A FindResponse for this owner.
  [[nodiscard]] Result<json::Value, ApiError> find(std::string_view owner,
                                                   const std::string& id) const;
  /// ResponseHead::keep of the response `id`, whose items are `input`.
  [[nodiscard]] std::function<bool(const json::Value& response)> keeper(std::string_view owner,
                                                                        const std::string& id,
                                                                        json::Array input) const;

  /// Answers of the routes. 404 if nothing is kept under `id`; unknown fields in `query` are
  /// errors, as in bodies.
  [[nodiscard]] Result<json::Value, ApiError> get(std::string_view owner, const std::string& id,
                                                  std::string_view query) const;
  [[nodiscard]] Result<json::Value, ApiError> list_input(std::string_view owner,
                                                         const std::string& id,
                                                         std::string_view query) const;
  [[nodiscard]] Result<json::Value, ApiError> erase(std::string_view owner,
                                                    const std::string& id) const;
  /// Returns a response that was made in the background and is over. Others cannot be cancelled.
  [[nodiscard]] Result<json::Value, ApiError> cancel(std::string_view owner,
                                                     const std::string& id) const;

  /// The store of the responses; null if the server keeps none.
  [[nodiscard]] const std::shared_ptr<store::ResponseStore>& store() const { return store_; }

 private:
  [[nodiscard]] Result<json::Value, ApiError> existing(std::string_view owner,
                                                       const std::string& id) const;

  std::shared_ptr<store::ResponseStore> store_;
};

}  // namespace tenon::api
