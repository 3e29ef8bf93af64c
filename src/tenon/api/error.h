#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/api/error_table.h"
#include "tenon/chat/refusal.h"
#include "tenon/http/message.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"

/// The errors that clients see, each with a row of error_table.h.
namespace tenon::api {

/// nginx's status for a client that went away before the answer; in logs and metrics only.
inline constexpr unsigned kClientGone = 499;

/// The API family whose shapes a client speaks.
enum class Dialect : std::uint8_t { openai, anthropic };

/// A failure as OpenAI's clients expect it.
struct ApiError {
  std::string message;  ///< A sentence: what is wrong, where, and what helps.
  std::string param;    ///< The field, like "messages[0].role"; "" if no field is to blame.
  ErrorCode code = "internal_error";
  std::chrono::seconds retry_after{1};  ///< For 429 and 503.

  [[nodiscard]] unsigned status() const { return code.status(); }

  bool operator==(const ApiError&) const = default;
};

/// The dialect's type of error for a status.
[[nodiscard]] std::string_view error_type(unsigned status, Dialect dialect = Dialect::openai);
/// `{"error": {"message", "type", "param", "code"}}`, null for empty values. For Anthropic's
/// clients `"type": "error"` comes before it and the request's id after it.
[[nodiscard]] json::Value to_json(const ApiError& error, Dialect dialect = Dialect::openai,
                                  std::string_view request_id = {});

/// A field of Chat Completions, or a part of its path, and another dialect's name for it.
struct FieldName {
  std::string_view chat;
  std::string_view own;
};
[[nodiscard]] ApiError time_is_up();
/// For a request that fails for lack of memory or by a library; other requests go on.
[[nodiscard]] ApiError internal_error();
/// `names`: what the client's dialect calls the fields. Checks below the dialects use the names of
/// Chat Completions.
[[nodiscard]] ApiError from_refusal(const chat::Refusal& refusal,
                                    std::span<const FieldName> names = {});
/// For an answer that failed under way. If an upstream refused our key, lacks the model or is busy,
/// the client is told what helps: nothing, or to try again later.
[[nodiscard]] ApiError from_engine(const Error& error, const message::Denial& denial = {});

/// The whole answer; its headers say how to authenticate, or when to try again. `headers` include
/// the request's id, as x-request-id.
[[nodiscard]] http::Response to_response(const ApiError& error, std::vector<http::Header> headers,
                                         Dialect dialect = Dialect::openai);

}  // namespace tenon::api
