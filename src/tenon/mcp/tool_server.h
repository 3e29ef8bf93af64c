#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/cancel.h"
#include "tenon/base/expected.h"
#include "tenon/http/message.h"
#include "tenon/json/value.h"
#include "tenon/mcp/client_session.h"
#include "tenon/mcp/offer.h"
#include "tenon/mcp/request_state.h"

namespace tenon::mcp {

/// What a server says of itself.
struct ServerInfo {
  std::string name;
  std::string title;
  std::string version;
  std::string instructions;
};

/// Who asked.
struct Caller {
  CancelToken cancel{};
  /// Sends a message to the client before the answer, from any thread; empty: there is no way to.
  ClientSession::Send send{};
  std::shared_ptr<ClientSession> session{};  ///< Null: the client has none.
};

/// Answers the messages of MCP clients, in both eras of the protocol at once: revisions up to
/// 2025-11-25, which begin with `initialize`, and 2026-07-28, whose requests each name their
/// revision in `_meta`. It keeps nothing between messages but the sessions of clients that begin
/// with `initialize`, where the offer has them. Nothing that a client sends is trusted. Thread-safe
/// if the offer is.
///
///     const ToolServer server({.name = "tenon"}, {.tools = {validate_tool()}});
///     if (const auto answer = server.answer_text(line)) std::cout << *answer << '\n';
///
/// What a tool, a prompt or a resource needs from the client (Outcome::needs) is asked for as the
/// client's revision has it: by requests through Caller::send, or by a result `input_required`, to
/// which the client comes back. The offer need not know which.
class ToolServer {
 public:
  static constexpr std::size_t kMaxBatch = 64;  ///< Messages in a list.

  ToolServer(ServerInfo info, Offer offer);

  /// The answer to one message, or to a list of them, as revision 2025-03-26 allows. No value:
  /// nothing is to be answered, because the message is a notification or an answer itself.
  [[nodiscard]] std::optional<json::Value> answer(const json::Value& message,
                                                  const Caller& caller = {}) const;
  /// The same for JSON text, on one line. Text that is not JSON is answered with a parse error.
  [[nodiscard]] std::optional<std::string> answer_text(std::string_view text,
                                                       const Caller& caller = {}) const;

  /// The response to a POST of "streamable HTTP". Requests of 2026-07-28 say the same in their
  /// headers and their body, or are refused with 400; methods that they do not have, with 404.
  /// Where the offer has sessions, `initialize` begins one, and later messages must name it.
  [[nodiscard]] http::Response answer_post(const http::Request& request) const;

  /// Whether an answer to the message, or to one in the list, waits for something that takes long.
  [[nodiscard]] bool takes_long(const json::Value& message) const;
  /// The message of a POST that answer_post() would not refuse, if it takes_long(), and its
  /// session.
  struct LongCall {
    json::Value message;
    std::shared_ptr<ClientSession> session;
  };
  [[nodiscard]] std::optional<LongCall> long_call(const http::Request& request) const;

  /// A session for a client that is connected by pipes.
  [[nodiscard]] std::shared_ptr<ClientSession> open_session() const { return sessions_->open(); }
  /// The session that a request over HTTP names. Null: it names no session that lives.
  [[nodiscard]] std::shared_ptr<ClientSession> session_of(const http::Request& request) const;
  /// False: the request names no session.
  [[nodiscard]] bool end_session_of(const http::Request& request) const;
  [[nodiscard]] bool keeps_sessions() const { return offer_.keeps_sessions; }
  /// Tells the clients that watch a resource that it has changed. Any thread may call.
  void resource_updated(const std::string& uri) const { sessions_->tell_updated(uri); }

  /// Whether a client may name this revision.
  [[nodiscard]] static bool knows_revision(std::string_view revision);

 private:
  struct Asked;
  using Answer = Result<json::Object, json::Object>;  // the result, or the error
  using Run = std::function<Expected<Outcome>(const CallWatch& watch)>;

  [[nodiscard]] std::optional<json::Value> answer_one(const json::Value& message,
                                                      const Caller& caller) const;
  [[nodiscard]] Answer result_of(const Asked& asked) const;
  [[nodiscard]] Answer result_of_handshake(const Asked& asked) const;
  [[nodiscard]] json::Object initialized(const Asked& asked) const;
  [[nodiscard]] json::Object identity() const;
  [[nodiscard]] json::Object about(bool is_modern) const;
  [[nodiscard]] json::Object list_tools() const;
  [[nodiscard]] json::Object list_prompts() const;
  [[nodiscard]] json::Object list_resources(bool templates) const;
  [[nodiscard]] Answer call_tool(const Asked& asked) const;
  [[nodiscard]] Answer get_prompt(const Asked& asked) const;
  [[nodiscard]] Answer read_resource(const Asked& asked) const;
  [[nodiscard]] Answer complete(const json::Value& params) const;
  [[nodiscard]] Answer watch(const Asked& asked) const;
  [[nodiscard]] Answer set_level(const Asked& asked) const;
  [[nodiscard]] bool has_resource(std::string_view uri) const;
  [[nodiscard]] std::optional<http::Response> refusal_of_session(
      const http::Request& request, const json::Value& message,
      std::shared_ptr<ClientSession>& session) const;

  [[nodiscard]] Answer outcome_of(const Asked& asked, const Run& run) const;
  [[nodiscard]] Answer ask_by_result(const Asked& asked, const Outcome& outcome,
                                     const std::string& request) const;
  [[nodiscard]] Expected<json::Object> ask_by_requests(const Asked& asked,
                                                       const Outcome& outcome) const;

  const ServerInfo info_;
  const Offer offer_;
  const RequestStates states_;
  const std::unique_ptr<ClientSessions> sessions_;
};

}  // namespace tenon::mcp
