#include "tenon/api/kept_query.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <utility>

#include "tenon/api/fields.h"
#include "tenon/base/log.h"
#include "tenon/http/wire.h"

namespace tenon::api {
namespace {

using json::Value;

constexpr std::size_t kMostItems = 100;
constexpr std::size_t kItems = 20;

ApiError wrong_query(ErrorCode code, std::string_view param, std::string message) {
  return {.message = std::move(message), .param = std::string(param), .code = code};
}

// What the query says about the page. As at OpenAI, the newest items come first unless `order=asc`.
struct Page {
  std::size_t limit = kItems;
  bool is_ascending = false;  // the oldest first
  std::string after;          // id of the item before the page; "": it begins the list
};

Result<Page, ApiError> page_of(const std::vector<QueryField>& fields) {
  Page page;
  for (const auto& [name, value] : fields) {
    if (name == "after") {
      page.after = value;
    } else if (name == "order") {
      if (value != "asc" && value != "desc") {
        return Failure<ApiError>(
            wrong_query("invalid_value", "order", "order must be asc or desc"));
      }
      page.is_ascending = value == "asc";
    } else if (name == "limit") {
      const auto [end, error] =
          std::from_chars(value.data(), value.data() + value.size(), page.limit);
      if (error != std::errc() || end != value.data() + value.size() || page.limit < 1 ||
          page.limit > kMostItems) {
        return Failure<ApiError>(
            wrong_query("invalid_value", "limit", "limit must be an integer from 1 to 100"));
      }
    }
  }
  return page;
}

}  // namespace

// `?include[]=a&limit=5` has the fields include and limit: some SDKs write lists with brackets.
Result<std::vector<QueryField>, ApiError> fields_of_query(
    std::string_view query, std::initializer_list<std::string_view> known) {
  std::vector<QueryField> fields;
  while (!query.empty()) {
    std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    if (pair.empty()) continue;
    const std::size_t equals = std::min(pair.find('='), pair.size());
    auto name = http::percent_decoded(pair.substr(0, equals));
    auto value = http::percent_decoded(pair.substr(std::min(pair.size(), equals + 1)));
    if (!name || !value) {
      return Failure<ApiError>(
          wrong_query("invalid_value", {}, "the query is not percent-encoded"));
    }
    if (name->ends_with("[]")) name->resize(name->size() - 2);
    if (std::find(known.begin(), known.end(), *name) == known.end()) {
      return Failure<ApiError>(wrong_query(
          "unknown_parameter", *name, shown(*name) + " is not a field of this request's query"));
    }
    fields.push_back({*std::move(name), *std::move(value)});
  }
  return fields;
}

// A page of a list as OpenAI's SDKs walk through it: they ask again with `after` = last_id while
// has_more is true.
Result<Value, ApiError> page_of_items(json::Array items, std::string_view query) {
  const auto fields = fields_of_query(query, {"after", "include", "limit", "order"});
  if (!fields) return Failure<ApiError>(fields.error());
  const auto page = page_of(*fields);
  if (!page) return Failure<ApiError>(page.error());
  if (!page->is_ascending) std::ranges::reverse(items);
  const auto id_of = [](const Value& item) {
    const Value* id = present(item, "id");
    return id == nullptr ? Value() : *id;
  };
  auto begin = items.begin();
  if (!page->after.empty()) {
    begin = std::ranges::find(items, Value(page->after), id_of);
    if (begin == items.end()) {
      return Failure<ApiError>(
          wrong_query("invalid_value", "after",
                      "after names " + shown(page->after) + ", which is not one of the items"));
    }
    ++begin;
  }
  const auto rest = static_cast<std::size_t>(items.end() - begin);
  const std::size_t count = std::min(rest, page->limit);
  json::Array data(std::make_move_iterator(begin),
                   std::make_move_iterator(begin + static_cast<std::ptrdiff_t>(count)));
  Value first = data.empty() ? Value("") : id_of(data.front());
  Value last = data.empty() ? Value("") : id_of(data.back());
  return Value(json::Object{{"object", "list"},
                            {"data", std::move(data)},
                            {"first_id", std::move(first)},
                            {"last_id", std::move(last)},
                            {"has_more", rest > page->limit}});
}

// Each owner of a key has ids of its own: "alice/resp_1". An id of a client that contains a '/'
// could name another owner's document, so is_kept_id() comes before every look-up.
std::string place_in_store(std::string_view owner, const std::string& id) {
  return owner.empty() ? id : std::string(owner) + "/" + id;
}

bool is_kept_id(const std::string& id) {
  return id.find('/') == std::string::npos;
}

ApiError store_failed(const Error& error) {
  log::error("the store of responses: " + error.message);
  return {.message = "the store of responses failed", .param = {}, .code = "store_error"};
}

}  // namespace tenon::api
