#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/api/error_table.h"
#include "tenon/chat/responder.h"
#include "tenon/http/message.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"

/// The errors that clients see, each with a row of error_table.h.
namespace tenon::api {

/// nginx's own word for a client that went away before the answer; in logs and metrics only.
inline constexpr unsigned kClientGone = 499;

/// In whose shapes a client speaks.
enum class Dialect : std::uint8_t { openai, anthropic };

/// A failure as OpenAI's clients expect it.
struct ApiError {
  std::string message;  ///< A sentence: what is wrong, where, and how to mend it.
  std::string param;    ///< The field, like "messages[0].role"; "" if none is to blame.
  ErrorCode code = "internal_error";
  std::chrono::seconds retry_after{1};  ///< Of 429 and 503.

  [[nodiscard]] unsigned status() const { return code.status(); }

  bool operator==(const ApiError&) const = default;
};

/// The dialect's word for the kind of error that goes with a status.
[[nodiscard]] std::string_view error_type(unsigned status, Dialect dialect = Dialect::openai);
/// `{"error": {"message", "type", "param", "code"}}`, null for what is empty. For Anthropic's
/// clients `"type": "error"` stands before it and the request's id behind it.
[[nodiscard]] json::Value to_json(const ApiError& error, Dialect dialect = Dialect::openai,
                                  std::string_view request_id = {});

/// A field of Chat Completions, or a part of its path, and what another dialect calls it.
struct FieldName {
  std::string_view chat;
  std::string_view own;
};
/// `error` about the field as its client knows it: the request's checks below the dialects name
/// Chat Completions' own.
[[nodiscard]] ApiError renamed(ApiError error, std::span<const FieldName> names);

[[nodiscard]] ApiError time_is_up();
/// For a request that memory or a library failed: it fails, the others go on.
[[nodiscard]] ApiError internal_error();
[[nodiscard]] ApiError from_refusal(const chat::Refusal& refusal);
/// For an answer that failed under way. Who has no key, no model or no time for us is told of so
/// that the client does what helps: nothing, or to come again later.
[[nodiscard]] ApiError from_engine(const Error& error, const message::Denial& denial = {});

/// The whole answer; its headers say how to come in, or when to come again. Among `headers` is the
/// request's id, as x-request-id.
[[nodiscard]] http::Response to_response(const ApiError& error, std::vector<http::Header> headers,
                                         Dialect dialect = Dialect::openai);

}  // namespace tenon::api
