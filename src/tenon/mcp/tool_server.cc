#include "tenon/mcp/tool_server.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tenon/mcp/encoding.h"
#include "tenon/mcp/tool_server_parts.h"
#include "tenon/mcp/transport.h"

// The messages are those of the specification's schema.ts: revision 2025-11-25 for clients that
// begin with `initialize`, and 2026-07-28 for those that do not. What a message and a POST are is
// here; what each method answers is in tool_server_methods.cc.
namespace tenon::mcp {
namespace {

constexpr std::string_view kServedRevisionKey = "io.modelcontextprotocol/protocolVersion";
constexpr std::string_view kServedInfoKey = "io.modelcontextprotocol/serverInfo";

// `member` is "result" or "error".
json::Object served_reply(const json::Value& id, std::string_view member, json::Object content) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {std::string(member), std::move(content)}};
}

// The revision that a request without a handshake names; "" if it names none.
std::string revision_asked(const json::Value& params) {
  const json::Value* const named = served_meta(params, kServedRevisionKey);
  const std::string* const text = named == nullptr ? nullptr : named->if_string();
  return text == nullptr ? std::string() : *text;
}

bool is_before(std::string_view revision) {
  return std::ranges::find(kServedBefore, revision) != std::end(kServedBefore);
}

json::Object unsupported_revision(std::string_view asked) {
  json::Object error = served_error(
      kServedUnsupported,
      is_before(asked) ? "Unsupported protocol version: " + std::string(asked) +
                             ": its clients begin with initialize and do not name it in _meta"
                       : "Unsupported protocol version");
  error.set("data", json::Object{{"supported", served_revisions()}, {"requested", asked}});
  return error;
}

// Whether the header says `text`, perhaps in the form for texts that are not safe in headers.
bool says(std::string_view header, std::string_view text) {
  return header == text || header == header_value(text) ||
         header == "=?base64?" + base64(text) + "?=";
}

// Why a request of 2026-07-28 is refused for what its headers or its `_meta` say. Empty: it is not.
// Headers repeat parts of the body so that proxies can route by them. If the two could differ, a
// proxy would let through what it means to refuse, so a difference is an error.
json::Object refused_for_form(const http::Request& request, const json::Value& message) {
  const std::string_view revision = request.header("mcp-protocol-version");
  const json::Value* const params = message.find("params");
  const json::Value* const meta = params == nullptr ? nullptr : params->find("_meta");
  const std::string asked = meta == nullptr ? "" : served_text(*meta, kServedRevisionKey);
  const json::Value* const able =
      meta == nullptr ? nullptr : meta->find("io.modelcontextprotocol/clientCapabilities");
  if (!asked.empty() && asked != revision) {
    return served_error(kServedHeaderMismatch,
                        "MCP-Protocol-Version is not the revision that _meta names");
  }
  if (revision != kServedModern) return unsupported_revision(revision);
  if (asked.empty() || able == nullptr || able->if_object() == nullptr) {
    return served_error(kServedInvalidParams,
                        "_meta must have io.modelcontextprotocol/protocolVersion and "
                        "io.modelcontextprotocol/clientCapabilities");
  }
  const std::string method = served_text(message, "method");
  if (!says(request.header("mcp-method"), method)) {
    return served_error(kServedHeaderMismatch, "Mcp-Method is not the method");
  }
  const bool has_name = method == "tools/call" || method == "prompts/get";
  const std::string named = served_text(*params, has_name ? "name" : "uri");
  if ((has_name || method == "resources/read") && !says(request.header("mcp-name"), named)) {
    return served_error(kServedHeaderMismatch, "Mcp-Name is not what the request names");
  }
  return {};
}

// An error as the response to a POST, with the id of the message if it has one that can be
// repeated.
http::Response refused_post(unsigned status, const json::Value& message, json::Object error) {
  const json::Value* const id = message.if_object() == nullptr ? nullptr : message.find("id");
  const bool has_id = id != nullptr && (id->if_string() != nullptr || id->if_number() != nullptr);
  return {.status = status,
          .body = json::to_string(
              served_reply(has_id ? *id : json::Value(), "error", std::move(error)))};
}

// Whether the message, or one in the list, names a revision in its `_meta`.
bool names_revision(const json::Value& message) {
  if (const json::Array* const list = message.if_array()) {
    return std::ranges::any_of(*list, names_revision);
  }
  const json::Value* const params =
      message.if_object() == nullptr ? nullptr : message.find("params");
  return params != nullptr && params->if_object() != nullptr && !revision_asked(*params).empty();
}

// Whether a POST is of a revision that begins with `initialize`: its `_meta` names no revision, and
// its header one of those, or none, as in `initialize` itself.
bool is_of_handshake(const http::Request& request, const json::Value& message) {
  const std::string_view revision = request.header("mcp-protocol-version");
  return !names_revision(message) && (revision.empty() || is_before(revision));
}

// The refusal of a POST whose headers do not fit its body. No value: they do.
std::optional<http::Response> refusal_of_post(const http::Request& request,
                                              const json::Value& message) {
  const bool is_object = message.if_object() != nullptr;
  if (is_of_handshake(request, message)) {
    const std::string_view method = request.header("mcp-method");
    if (method.empty() || (is_object && says(method, served_text(message, "method")))) {
      return std::nullopt;
    }
    return refused_post(400, message,
                        served_error(kServedHeaderMismatch, "Mcp-Method is not the method"));
  }
  if (!is_object) {
    return refused_post(400, message,
                        served_error(kServedInvalidRequest, "a message is an object"));
  }
  json::Object refusal = refused_for_form(request, message);
  if (refusal.empty()) return std::nullopt;
  return refused_post(400, message, std::move(refusal));
}

// What each result of the revision without handshakes has, if the method did not say it.
void mark_complete(json::Object& result, std::string_view method) {
  constexpr int kListsStayMs = 3'600'000;
  constexpr std::string_view kLists[] = {"tools/list", "prompts/list", "resources/list",
                                         "resources/templates/list", "server/discover"};
  if (!result.contains("resultType")) result.set("resultType", "complete");
  if (std::ranges::find(kLists, method) != std::end(kLists)) {
    result.set("ttlMs", kListsStayMs);
    result.set("cacheScope", "public");
  } else if (method == "resources/read" && result.contains("contents")) {
    result.set("ttlMs", 0);
    result.set("cacheScope", "private");
  }
}

}  // namespace

json::Array served_revisions() {
  json::Array all{std::string(kServedModern)};
  for (const std::string_view revision : kServedBefore) all.emplace_back(revision);
  return all;
}

json::Object served_error(ServedCode code, std::string message) {
  return {{"code", static_cast<int>(code)}, {"message", std::move(message)}};
}

std::string served_text(const json::Value& object, std::string_view key) {
  const json::Value* member = object.if_object() == nullptr ? nullptr : object.find(key);
  const std::string* text = member == nullptr ? nullptr : member->if_string();
  return text == nullptr ? std::string() : *text;
}

const json::Value* served_meta(const json::Value& params, std::string_view key) {
  const json::Value* const meta = params.find("_meta");
  return meta == nullptr || meta->if_object() == nullptr ? nullptr : meta->find(key);
}

ToolServer::ToolServer(ServerInfo info, Offer offer)
    : info_(std::move(info)),
      offer_(std::move(offer)),
      sessions_(std::make_unique<ClientSessions>()) {}

bool ToolServer::knows_revision(std::string_view revision) {
  return revision == kServedModern || is_before(revision);
}

std::optional<std::string> ToolServer::answer_text(std::string_view text,
                                                   const Caller& caller) const {
  const auto message = json::parse(text);
  if (!message) {
    const json::Object error =
        served_error(kServedParseError, "not JSON: " + message.error().message);
    return json::to_string(served_reply(nullptr, "error", error));
  }
  const auto answer = this->answer(*message, caller);
  return answer ? std::optional(json::to_string(*answer)) : std::nullopt;
}

std::optional<json::Value> ToolServer::answer(const json::Value& message,
                                              const Caller& caller) const {
  const json::Array* list = message.if_array();
  if (list == nullptr) return answer_one(message, caller);
  // A batch, which JSON-RPC 2.0 and 2025-03-26 know: the answers come in one array.
  if (list->empty() || list->size() > kMaxBatch) {
    return served_reply(nullptr, "error",
                        served_error(kServedInvalidRequest, "a list has 1 to 64 messages"));
  }
  json::Array answers;
  for (const json::Value& one : *list) {
    if (auto answer = answer_one(one, caller)) answers.push_back(*std::move(answer));
  }
  if (answers.empty()) return std::nullopt;
  return answers;
}

// Answers one message. The checks go from the outside to the inside: what has no id gets no answer
// at all, what has an id of a wrong type is answered with the id null.
std::optional<json::Value> ToolServer::answer_one(const json::Value& message,
                                                  const Caller& caller) const {
  if (message.if_object() == nullptr) {
    return served_reply(nullptr, "error",
                        served_error(kServedInvalidRequest, "a message is an object"));
  }
  const json::Value* id = message.find("id");
  const json::Value* method = message.find("method");
  if (id == nullptr || id->is_null()) return std::nullopt;  // a notification needs no answer
  const bool is_answer = message.find("result") != nullptr || message.find("error") != nullptr;
  if (method == nullptr && is_answer) {
    if (caller.session) caller.session->take_answer(message);
    return std::nullopt;
  }
  if (id->if_string() == nullptr && id->if_number() == nullptr) {
    return served_reply(nullptr, "error",
                        served_error(kServedInvalidRequest, "an id is a text or a number"));
  }
  if (method == nullptr || method->if_string() == nullptr) {
    return served_reply(*id, "error",
                        served_error(kServedInvalidRequest, "a request has a method"));
  }
  static const json::Value kNone = json::Object();
  const json::Value* params = message.find("params");
  if (params == nullptr || params->is_null()) params = &kNone;
  if (params->if_object() == nullptr) {
    return served_reply(*id, "error", served_error(kServedInvalidParams, "params is an object"));
  }
  const std::string revision = revision_asked(*params);
  if (!revision.empty() && revision != kServedModern) {
    return served_reply(*id, "error", unsupported_revision(revision));
  }
  const std::string& name = *method->if_string();
  Answer answer = result_of(
      {.method = name, .params = *params, .is_modern = !revision.empty(), .caller = caller});
  if (!answer) return served_reply(*id, "error", std::move(answer.error()));
  if (!revision.empty()) {
    mark_complete(*answer, name);
    answer->set("_meta", json::Object{{std::string(kServedInfoKey), identity()}});
  }
  return served_reply(*id, "result", *std::move(answer));
}

bool ToolServer::takes_long(const json::Value& message) const {
  if (const json::Array* const list = message.if_array()) {
    return std::ranges::any_of(*list, [this](const auto& one) { return takes_long(one); });
  }
  if (message.if_object() == nullptr) return false;
  const std::string method = served_text(message, "method");
  const json::Value* const params = message.find("params");
  const std::string name = params == nullptr ? std::string() : served_text(*params, "name");
  const auto is_long = [&name](const auto& list) {
    return std::ranges::any_of(list,
                               [&](const auto& one) { return one.name == name && one.takes_long; });
  };
  return (method == "tools/call" && is_long(offer_.tools)) ||
         (method == "prompts/get" && is_long(offer_.prompts));
}

std::shared_ptr<ClientSession> ToolServer::session_of(const http::Request& request) const {
  const std::string_view id = request.header("mcp-session-id");
  return id.empty() ? nullptr : sessions_->find(id);
}

bool ToolServer::end_session_of(const http::Request& request) const {
  return sessions_->end(request.header("mcp-session-id"));
}

// Finds the session that the message belongs to, or says why the message is refused.
std::optional<http::Response> ToolServer::refusal_of_session(
    const http::Request& request, const json::Value& message,
    std::shared_ptr<ClientSession>& session) const {
  if (!offer_.keeps_sessions || !is_of_handshake(request, message)) return std::nullopt;
  session = session_of(request);
  const bool begins =
      message.if_object() != nullptr && served_text(message, "method") == "initialize";
  if (session || begins) return std::nullopt;
  const bool is_named = !request.header("mcp-session-id").empty();
  return refused_post(is_named ? 404 : 400, message,
                      served_error(kServedInvalidRequest,
                                   is_named ? "this session has ended: begin with initialize"
                                            : "Mcp-Session-Id is missing: begin with initialize"));
}

// The message, if it calls what takes long and is not refused for its headers.
std::optional<ToolServer::LongCall> ToolServer::long_call(const http::Request& request) const {
  auto message = json::parse(request.body);
  if (!message || !takes_long(*message) || refusal_of_post(request, *message)) return std::nullopt;
  std::shared_ptr<ClientSession> session;
  if (refusal_of_session(request, *message, session)) return std::nullopt;
  return LongCall{.message = *std::move(message), .session = std::move(session)};
}

http::Response ToolServer::answer_post(const http::Request& request) const {
  const auto message = json::parse(request.body);
  // An error, with the reason.
  if (!message) return {.status = 400, .body = *answer_text(request.body)};
  if (auto refusal = refusal_of_post(request, *message)) return *std::move(refusal);
  Caller caller;
  if (auto refusal = refusal_of_session(request, *message, caller.session)) {
    return *std::move(refusal);
  }
  const bool is_of_session = offer_.keeps_sessions && is_of_handshake(request, *message);
  // Without an id there is no answer to tell the session's id.
  const bool begins = is_of_session && message->find("id") != nullptr &&
                      served_text(*message, "method") == "initialize";
  if (begins) caller.session = sessions_->open();
  const auto answer = this->answer(*message, caller);
  // Notifications only. The transport of MCP wants 202 without a body for them.
  if (!answer) return {.status = 202, .body = ""};
  http::Response response{.body = json::to_string(*answer)};
  if (begins) response.headers.push_back({"mcp-session-id", caller.session->id()});
  // 2026-07-28 has a status for these errors; before that every answer of JSON-RPC has 200.
  if (!is_of_handshake(request, *message)) {
    const json::Value* const code = json::at_pointer(*answer, "/error/code");
    const auto is = [code](ServedCode one) {
      return code != nullptr && *code == json::Value(static_cast<int>(one));
    };
    if (is(kUnknownMethod)) response.status = 404;
    if (is(kServedMissingAbility)) response.status = 400;
  }
  return response;
}

}  // namespace tenon::mcp
