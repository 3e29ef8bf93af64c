// The inspector: a page over recordings (docs/recording.md).

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/api/kept_query.h"
#include "tenon/api/routes.h"
#include "tenon/record/list.h"
#include "tenon/record/recorder.h"

namespace tenon::api {
namespace {

constexpr std::size_t kMostListed = 1000;
constexpr std::size_t kListed = 200;

ApiError no_recording(std::string message) {
  return {.message = std::move(message), .param = {}, .code = "recording_not_found"};
}

// Recordings hold what all clients said, so a key alone does not open them. A server without keys
// is reached from its own machine only.
bool may_see(const ServiceParts& parts, const Call& call) {
  const std::string_view name = call.key.name();
  if (name.empty()) return true;
  const auto& names = parts.options.inspectors;
  return std::ranges::find(names, name) != names.end();
}

// False: the call has been answered with an error.
bool is_open(const ServiceParts& parts, Call& call) {
  if (!may_see(parts, call)) {
    respond_error(call, {.message = "the owner of this key may not see recordings: name it in "
                                    "server.inspectors",
                         .param = {},
                         .code = "recordings_closed"});
    return false;
  }
  if (parts.options.recorder != nullptr) return true;
  respond_error(call, no_recording("nothing is recorded: start the server with --record FOLDER"));
  return false;
}

// A number of the query; `otherwise` if it is missing.
Result<std::uint64_t, ApiError> number_in(const std::vector<QueryField>& fields,
                                          std::string_view name, std::uint64_t least,
                                          std::uint64_t most, std::uint64_t otherwise) {
  const auto field = std::ranges::find(fields, name, &QueryField::name);
  if (field == fields.end()) return otherwise;
  std::uint64_t number = 0;
  const char* const end = field->value.data() + field->value.size();
  const auto read = std::from_chars(field->value.data(), end, number);
  const bool is_number = read.ec == std::errc() && read.ptr == end;
  if (is_number && number >= least && number <= most) return number;
  return Failure<ApiError>(
      invalid_value(std::string(name), std::string(name) + " must be a whole number from " +
                                           std::to_string(least) + " to " + std::to_string(most)));
}

// The newest recordings, `limit` of them, those before the one named `before`.
void list_all(ServiceParts& parts, Call& call) {
  if (!is_open(parts, call)) return;
  const auto fields = fields_of_query(call.exchange->request().query, {"limit", "before"});
  if (!fields) return respond_error(call, fields.error());
  const auto limit = number_in(*fields, "limit", 1, kMostListed, kListed);
  if (!limit) return respond_error(call, limit.error());
  const auto before = std::ranges::find(*fields, "before", &QueryField::name);
  auto listed = record::list_recordings(parts.options.recorder->folder(),
                                        before == fields->end() ? "" : before->value,
                                        static_cast<std::size_t>(*limit));
  if (!listed && listed.error().code == Errc::invalid) {
    return respond_error(
        call, invalid_value("before", "before must be the name of a recording, as a list has it: " +
                                          listed.error().message));
  }
  if (!listed) return respond_error(call, no_recording(listed.error().message));
  json::Array recordings;
  for (json::Value& one : listed->recordings) recordings.push_back(std::move(one));
  respond_json(call,
               json::Object{{"recordings", std::move(recordings)}, {"more", listed->has_more}});
}

// The lines of a recording from byte `from` on, so that a page can follow one that is being
// written.
void get_one(ServiceParts& parts, Call& call) {
  if (!is_open(parts, call)) return;
  const auto fields = fields_of_query(call.exchange->request().query, {"from"});
  if (!fields) return respond_error(call, fields.error());
  const auto from = number_in(*fields, "from", 0, record::kMaxFileBytes * 2, 0);
  if (!from) return respond_error(call, from.error());
  auto text = record::read_recorded(parts.options.recorder->folder(), call.tail, *from);
  if (!text) return respond_error(call, no_recording(text.error().message));
  respond(call, {.content_type = "application/jsonl; charset=utf-8", .body = *std::move(text)});
}

}  // namespace

std::vector<Route> inspector_routes(ServiceParts& parts) {
  return routes_of(parts, {{"GET", "/inspector/api/recordings", list_all},
                           {"GET", "/inspector/api/recordings/{name}", get_one}});
}

}  // namespace tenon::api
