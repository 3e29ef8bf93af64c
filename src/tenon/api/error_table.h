#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

/// Every error that a client can get, in one table. docs/errors.md has the same table, and a test
/// compares the two.
namespace tenon::api {

/// Whether `param` names a field.
enum class ParamKind : std::uint8_t { none, field, perhaps };

struct ErrorRow {
  std::string_view code;
  unsigned status = 500;
  ParamKind param = ParamKind::none;
  std::string_view hint;  ///< What it means, and what the client can do.
};

/// Ordered by status. Clients repeat requests that got 408, 429 or 5xx, so an error that trying
/// again cannot solve has another 4xx.
inline constexpr auto kErrors = std::to_array<ErrorRow>({
    {"invalid_json", 400, ParamKind::none, "the body is not JSON; the message has line and column"},
    {"limit_exceeded", 400, ParamKind::none,
     "the body has more than 1,048,576 JSON values, or more than 128 levels"},
    {"invalid_type", 400, ParamKind::perhaps, "the field, or the body, is of another JSON type"},
    {"invalid_value", 400, ParamKind::perhaps, "the message says which values there are"},
    {"missing_required_parameter", 400, ParamKind::field, "the request needs this field"},
    {"unknown_parameter", 400, ParamKind::field, "a misspelt field, or another API's: see api.md"},
    {"unsupported_parameter", 400, ParamKind::field,
     "this server, or the model's engine, cannot do it: leave the field out"},
    {"thread_unsupported_request", 400, ParamKind::field,
     "this server keeps no messages of Anthropic's dialect: send them all"},
    {"previous_response_not_found", 400, ParamKind::field,
     "the response is not kept, or no more: send its messages as `input`"},
    {"item_not_found", 400, ParamKind::field,
     "the item is not kept, or no more: send the item itself"},
    {"context_length_exceeded", 400, ParamKind::perhaps,
     "the prompt does not fit: send less; the message has the numbers"},
    {"template_error", 400, ParamKind::field,
     "the model's chat template refuses these messages, in its own words"},
    {"tools_not_supported", 400, ParamKind::field,
     "no tool-call format is known for the model: ask another one, or without tools"},
    {"code_execution_off", 400, ParamKind::field,
     "leave out what needs code, or set `code_execution = true` for the model"},
    {"bad_request", 400, ParamKind::none, "what came is not HTTP/1.1"},
    {"transfer_encoding_unsupported", 400, ParamKind::none,
     "send the body with its length, or chunked"},
    {"http_version_unsupported", 400, ParamKind::none, "speak HTTP/1.1"},
    {"invalid_api_key", 401, ParamKind::none,
     "the server needs a key, as `Authorization: Bearer KEY` or `x-api-key: KEY`"},
    {"host_not_allowed", 403, ParamKind::none,
     "the server has no keys and answers to names of its own machine only"},
    {"origin_not_allowed", 403, ParamKind::none,
     "the server has no keys and answers no pages of other origins"},
    {"mcp_server_not_allowed", 403, ParamKind::field,
     "`server.mcp_allow` of the server's configuration does not have this address"},
    {"recordings_closed", 403, ParamKind::none,
     "recordings are for the owners of keys that `server.inspectors` names"},
    {"model_not_found", 404, ParamKind::field, "`GET /v1/models` lists the models"},
    {"response_not_found", 404, ParamKind::none,
     "the response was not stored, or was deleted, or is too old"},
    {"conversation_not_found", 404, ParamKind::perhaps,
     "the conversation, or its item, was deleted, or is too old"},
    {"recording_not_found", 404, ParamKind::none,
     "nothing is recorded, or the recording is too old"},
    {"not_found", 404, ParamKind::none, "there is nothing at this path"},
    {"method_not_allowed", 405, ParamKind::none, "the header `allow` has the methods"},
    {"request_timeout", 408, ParamKind::none, "the request took more than 30 seconds to arrive"},
    {"body_too_large", 413, ParamKind::none, "the body is over `server.max_body_bytes`"},
    {"target_too_long", 414, ParamKind::none, "the request line is over its limit"},
    {"content_encoding_unsupported", 415, ParamKind::none, "send the body as it is"},
    {"expectation_failed", 417, ParamKind::none, "leave out the header `expect`"},
    {"engine_busy", 429, ParamKind::none,
     "the model, its memory or its upstream is busy: again after `retry-after` seconds"},
    {"rate_limit_exceeded", 429, ParamKind::none,
     "the key's limit is reached: again after `retry-after` seconds"},
    {"headers_too_large", 431, ParamKind::none, "send fewer or smaller header fields"},
    {"internal_error", 500, ParamKind::none, "the server failed; its log says why"},
    {"engine_denied", 502, ParamKind::none,
     "the upstream refuses this server's key, or lacks the model: the operator's log says which"},
    {"engine_error", 503, ParamKind::none,
     "the engine has failed or cannot be reached; refusals are 400 with its words"},
    {"store_error", 503, ParamKind::none,
     "the file of the responses that are kept cannot be read; the log says why"},
    {"not_ready", 503, ParamKind::none, "the models are being loaded: again in a while"},
    {"overloaded", 503, ParamKind::none, "too many requests wait: again in a while"},
    {"server_stopping", 503, ParamKind::none, "the server is being stopped: ask another one"},
    {"too_many_connections", 503, ParamKind::none, "too many connections are open"},
    {"timeout", 504, ParamKind::none, "the answer took longer than `server.request_timeout_s`"},
});

/// The index of the row of `code`; kErrors.size() if there is no such row.
[[nodiscard]] constexpr std::size_t place_of(std::string_view code) {
  std::size_t at = 0;
  while (at < kErrors.size() && kErrors[at].code != code) ++at;
  return at;
}

/// A row of the table. A literal that is not in the table does not compile.
class ErrorCode {
 public:
  consteval ErrorCode(const char* code) : at_(place_of(code)) {  // NOLINT: made for literals
    if (at_ == kErrors.size()) throw std::logic_error("no such code in kErrors");
  }

  /// For codes from the layers below; internal_error for one that is not in the table.
  [[nodiscard]] static ErrorCode named(std::string_view code) {
    ErrorCode found = "internal_error";
    if (const std::size_t at = place_of(code); at < kErrors.size()) found.at_ = at;
    return found;
  }

  [[nodiscard]] constexpr const ErrorRow& row() const { return kErrors[at_]; }
  [[nodiscard]] constexpr std::string_view name() const { return row().code; }
  [[nodiscard]] constexpr unsigned status() const { return row().status; }

  template <std::same_as<ErrorCode> Other>
  friend bool operator==(const ErrorCode& one, const Other& other) {
    return one.at_ == other.at_;
  }
  friend bool operator==(const ErrorCode& one, std::string_view name) { return one.name() == name; }

 private:
  std::size_t at_;
};

}  // namespace tenon::api
