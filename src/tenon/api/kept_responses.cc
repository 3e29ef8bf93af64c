#include "tenon/api/kept_responses.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "tenon/api/fields.h"
#include "tenon/base/log.h"
#include "tenon/http/wire.h"

namespace tenon::api {
namespace {

using json::Value;

constexpr std::size_t kMostItems = 100;
constexpr std::size_t kItems = 20;

// The client learns that it failed, the log why: the reason names files of this machine.
ApiError failed(const Error& error) {
  log::error("the store of responses: " + error.message);
  return {.message = "the store of responses failed", .param = {}, .code = "store_error"};
}

ApiError no_response(const std::string& id) {
  return {.message = "there is no response " + shown(id) +
                     " here: it was not stored, or it was deleted, or it is too old",
          .param = {},
          .code = "response_not_found"};
}

ApiError wrong(ErrorCode code, std::string_view param, std::string message) {
  return {.message = std::move(message), .param = std::string(param), .code = code};
}

struct QueryField {
  std::string name;
  std::string value;
};

// `a=1&b[]=x`; a list's brackets are no part of its name.
Result<std::vector<QueryField>, ApiError> fields_of(std::string_view query,
                                                    std::initializer_list<std::string_view> known) {
  std::vector<QueryField> fields;
  while (!query.empty()) {
    std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    if (pair.empty()) continue;
    const std::size_t equals = std::min(pair.find('='), pair.size());
    auto name = http::percent_decoded(pair.substr(0, equals));
    auto value = http::percent_decoded(pair.substr(std::min(pair.size(), equals + 1)));
    if (!name || !value) {
      return Failure<ApiError>(wrong("invalid_value", {}, "the query is not percent-encoded"));
    }
    if (name->ends_with("[]")) name->resize(name->size() - 2);
    if (std::find(known.begin(), known.end(), *name) == known.end()) {
      return Failure<ApiError>(wrong("unknown_parameter", *name,
                                     shown(*name) + " is not a field of this request's query"));
    }
    fields.push_back({*std::move(name), *std::move(value)});
  }
  return fields;
}

// The list that a page is cut from.
struct Page {
  std::size_t limit = kItems;
  bool is_ascending = false;
  std::string after;
};

Result<Page, ApiError> page_of(const std::vector<QueryField>& fields) {
  Page page;
  for (const auto& [name, value] : fields) {
    if (name == "after") {
      page.after = value;
    } else if (name == "order") {
      if (value != "asc" && value != "desc") {
        return Failure<ApiError>(wrong("invalid_value", "order", "order must be asc or desc"));
      }
      page.is_ascending = value == "asc";
    } else if (name == "limit") {
      const auto [end, error] =
          std::from_chars(value.data(), value.data() + value.size(), page.limit);
      if (error != std::errc() || end != value.data() + value.size() || page.limit < 1 ||
          page.limit > kMostItems) {
        return Failure<ApiError>(
            wrong("invalid_value", "limit", "limit must be an integer from 1 to 100"));
      }
    }
  }
  return page;
}

Result<Value, ApiError> cut(json::Array items, const Page& page) {
  if (!page.is_ascending) std::ranges::reverse(items);
  const auto id_of = [](const Value& item) {
    const Value* id = present(item, "id");
    return id == nullptr ? Value() : *id;
  };
  auto begin = items.begin();
  if (!page.after.empty()) {
    begin = std::ranges::find(items, Value(page.after), id_of);
    if (begin == items.end()) {
      return Failure<ApiError>(
          wrong("invalid_value", "after",
                "after names " + shown(page.after) + ", which is none of the items"));
    }
    ++begin;
  }
  const auto rest = static_cast<std::size_t>(items.end() - begin);
  json::Array data(
      std::make_move_iterator(begin),
      std::make_move_iterator(begin + static_cast<std::ptrdiff_t>(std::min(rest, page.limit))));
  Value first = data.empty() ? Value("") : id_of(data.front());
  Value last = data.empty() ? Value("") : id_of(data.back());
  return Value(json::Object{{"object", "list"},
                            {"data", std::move(data)},
                            {"first_id", std::move(first)},
                            {"last_id", std::move(last)},
                            {"has_more", rest > page.limit}});
}

// Where the store has it. A client's id has no '/', so it names nothing of another owner.
std::string place_of(std::string_view owner, const std::string& id) {
  return owner.empty() ? id : std::string(owner) + "/" + id;
}

bool is_id(const std::string& id) {
  return id.find('/') == std::string::npos;
}

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
  if (store_ == nullptr || !is_id(id)) return Value();
  auto kept = store_->get(place_of(owner, id));
  if (!kept) return Failure<ApiError>(failed(kept.error()));
  if (!*kept) return Value();
  auto document = json::parse(**kept);
  if (!document) return Failure<ApiError>(failed(document.error()));
  return *std::move(document);
}

// The items are written down at once: as values they would take several times the room.
std::function<bool(const Value& response)> KeptResponses::keeper(std::string_view owner,
                                                                 const std::string& id,
                                                                 json::Array input) const {
  std::string document = R"({"input":)";
  json::append(document, input);
  document += R"(,"response":)";
  return [store = store_, id = place_of(owner, id),
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

Result<Value, ApiError> KeptResponses::get(std::string_view owner, const std::string& id,
                                           std::string_view query) const {
  const auto fields =
      fields_of(query, {"include", "include_obfuscation", "starting_after", "stream"});
  if (!fields) return Failure<ApiError>(fields.error());
  for (const auto& [name, value] : *fields) {
    if (name == "include" || value == "false") continue;  // all that there is stands in it
    return Failure<ApiError>(wrong("unsupported_parameter", name,
                                   name + " is not supported: a response that is kept is whole"));
  }
  auto kept = existing(owner, id);
  if (!kept) return kept;
  Value* response = kept->find("response");
  return response == nullptr ? Value() : std::move(*response);
}

Result<Value, ApiError> KeptResponses::list_input(std::string_view owner, const std::string& id,
                                                  std::string_view query) const {
  const auto fields = fields_of(query, {"after", "include", "limit", "order"});
  if (!fields) return Failure<ApiError>(fields.error());
  const auto page = page_of(*fields);
  if (!page) return Failure<ApiError>(page.error());
  auto kept = existing(owner, id);
  if (!kept) return kept;
  Value* input = kept->find("input");
  json::Array items;
  if (input != nullptr && input->if_array() != nullptr) items = std::move(*input->if_array());
  return cut(std::move(items), *page);
}

Result<Value, ApiError> KeptResponses::erase(std::string_view owner, const std::string& id) const {
  if (store_ == nullptr || !is_id(id)) return Failure<ApiError>(no_response(id));
  const auto erased = store_->erase(place_of(owner, id));
  if (!erased) return Failure<ApiError>(failed(erased.error()));
  if (!*erased) return Failure<ApiError>(no_response(id));
  return Value(json::Object{{"id", id}, {"object", "response"}, {"deleted", true}});
}

ApiError KeptResponses::cancel(std::string_view owner, const std::string& id) const {
  const auto kept = existing(owner, id);
  if (!kept) return kept.error();
  return wrong("invalid_value", {},
               "this response is whole; only one that runs in the background could be cancelled");
}

}  // namespace tenon::api
