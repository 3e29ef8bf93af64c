#include "tenon/api/kept_responses.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tenon/api/fields.h"
#include "tenon/api/kept_query.h"
#include "tenon/base/log.h"

namespace tenon::api {
namespace {

using json::Value;

ApiError no_response(const std::string& id) {
  return {.message = "there is no response " + shown(id) +
                     " here: it was not stored, or it was deleted, or it is too old",
          .param = {},
          .code = "response_not_found"};
}

ApiError wrong(ErrorCode code, std::string_view param, std::string message) {
  return {.message = std::move(message), .param = std::string(param), .code = code};
}

// A server without a store keeps responses until it ends; clients need them for the next turn.
std::shared_ptr<store::ResponseStore> or_in_memory(std::shared_ptr<store::ResponseStore> store) {
  if (store != nullptr) return store;
  auto made = store::ResponseStore::open({});
  if (made) return *std::move(made);
  log::error("responses are not kept: " + made.error().message);
  return nullptr;
}

}  // namespace

KeptResponses::KeptResponses(std::shared_ptr<store::ResponseStore> store)
    : store_(or_in_memory(std::move(store))) {}

Result<Value, ApiError> KeptResponses::find(std::string_view owner, const std::string& id) const {
  if (store_ == nullptr || !is_kept_id(id)) return Value();
  auto kept = store_->get(place_in_store(owner, id));
  if (!kept) return Failure<ApiError>(store_failed(kept.error()));
  if (!*kept) return Value();
  auto document = json::parse(**kept);
  if (!document) return Failure<ApiError>(store_failed(document.error()));
  return *std::move(document);
}

// The items are kept as text: as values they would take several times the memory while the answer
// is made, which may be minutes.
std::function<bool(const Value& response)> KeptResponses::keeper(std::string_view owner,
                                                                 const std::string& id,
                                                                 json::Array input) const {
  std::string document = R"({"input":)";
  json::append(document, input);
  document += R"(,"response":)";
  return [store = store_, id = place_in_store(owner, id),
          document = std::move(document)](const Value& response) {
    if (store == nullptr) return false;
    std::string whole = document;
    json::append(whole, response);
    whole += '}';
    const Status kept = store->put(id, whole);
    if (!kept) log::error("the response " + id + " is not kept: " + kept.error().message);
    return kept.has_value();
  };
}

Result<Value, ApiError> KeptResponses::existing(std::string_view owner,
                                                const std::string& id) const {
  auto kept = find(owner, id);
  if (kept && kept->is_null()) return Failure<ApiError>(no_response(id));
  return kept;
}

// The query is that of a response under way, too. Here a stream cannot be followed any more, so
// only what asks for nothing is accepted.
Result<Value, ApiError> KeptResponses::get(std::string_view owner, const std::string& id,
                                           std::string_view query) const {
  const auto fields =
      fields_of_query(query, {"include", "include_obfuscation", "starting_after", "stream"});
  if (!fields) return Failure<ApiError>(fields.error());
  for (const auto& [name, value] : *fields) {
    if (name == "include" || value == "false") continue;  // the response has everything already
    return Failure<ApiError>(wrong("unsupported_parameter", name,
                                   name + " is not supported: a response that is kept is whole"));
  }
  auto kept = existing(owner, id);
  if (!kept) return kept;
  Value* response = kept->find("response");
  if (response == nullptr) return Failure<ApiError>(no_response(id));
  return std::move(*response);
}

Result<Value, ApiError> KeptResponses::list_input(std::string_view owner, const std::string& id,
                                                  std::string_view query) const {
  auto kept = existing(owner, id);
  if (!kept) return kept;
  Value* input = kept->find("input");
  json::Array items;
  if (input != nullptr && input->if_array() != nullptr) items = std::move(*input->if_array());
  return page_of_items(std::move(items), query);
}

Result<Value, ApiError> KeptResponses::erase(std::string_view owner, const std::string& id) const {
  if (store_ == nullptr || !is_kept_id(id)) return Failure<ApiError>(no_response(id));
  const auto erased = store_->erase(place_in_store(owner, id));
  if (!erased) return Failure<ApiError>(store_failed(erased.error()));
  if (!*erased) return Failure<ApiError>(no_response(id));
  return Value(json::Object{{"id", id}, {"object", "response"}, {"deleted", true}});
}

// A response that is kept is over. One of the background is answered as it is, as OpenAI does for a
// second cancellation.
Result<Value, ApiError> KeptResponses::cancel(std::string_view owner, const std::string& id) const {
  auto kept = existing(owner, id);
  if (!kept) return kept;
  Value* response = kept->find("response");
  const Value* background = response == nullptr ? nullptr : present(*response, "background");
  if (background != nullptr && *background == Value(true)) return std::move(*response);
  return Failure<ApiError>(wrong("invalid_value", {},
                                 "this response is whole; only one that is made in the background "
                                 "can be cancelled"));
}

}  // namespace tenon::api
