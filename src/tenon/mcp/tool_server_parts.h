#pragma once

#include <string>
#include <string_view>

#include "tenon/json/value.h"
#include "tenon/mcp/tool_server.h"

// What the two files of ToolServer share: the codes of errors and the parts of messages.
namespace tenon::mcp {

/// Those of JSON-RPC 2.0, and of the protocol.
enum ServedCode : int {
  kServedParseError = -32700,
  kServedInvalidRequest = -32600,
  kUnknownMethod = -32601,
  kServedInvalidParams = -32602,
  kServedInternal = -32603,
  kServedNoResource = -32002,  // up to 2025-11-25; later it is kServedInvalidParams
  kServedHeaderMismatch = -32020,
  kServedMissingAbility = -32021,
  kServedUnsupported = -32022,
};

/// A request while it is answered.
struct ToolServer::Asked {
  const std::string& method;
  const json::Value& params;  ///< An object.
  bool is_modern;             ///< It names its revision, 2026-07-28, and stands alone.
  const Caller& caller;
};

/// All revisions that are spoken, the newest first, so that a client of either era finds one.
[[nodiscard]] json::Array served_revisions();
[[nodiscard]] json::Object served_error(ServedCode code, std::string message);
/// The member of an object if it is a text; else "".
[[nodiscard]] std::string served_text(const json::Value& object, std::string_view key);
/// A member of `_meta` of a request; null: the request lacks it.
[[nodiscard]] const json::Value* served_meta(const json::Value& params, std::string_view key);

inline constexpr std::string_view kServedModern = "2026-07-28";
inline constexpr std::string_view kServedBefore[] = {"2025-11-25", "2025-06-18", "2025-03-26",
                                                     "2024-11-05"};

}  // namespace tenon::mcp
