#include "tenon/mcp/tool_server.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tenon/mcp/encoding.h"
#include "tenon/mcp/transport.h"

// The messages are those of the specification's schema.ts: revision 2025-11-25 for clients that
// begin with `initialize`, and 2026-07-28 for those that do not.

namespace tenon::mcp {
namespace {

constexpr std::string_view kServedModern = "2026-07-28";  // each request names it
constexpr std::string_view kServedBefore[] = {"2025-11-25", "2025-06-18", "2025-03-26",
                                              "2024-11-05"};
constexpr std::string_view kServedRevisionKey = "io.modelcontextprotocol/protocolVersion";
constexpr std::string_view kServedInfoKey = "io.modelcontextprotocol/serverInfo";

// The first four are those of JSON-RPC 2.0, the last two those of 2026-07-28.
enum ServedCode : int {
  kServedParseError = -32700,
  kServedInvalidRequest = -32600,
  kUnknownMethod = -32601,
  kServedInvalidParams = -32602,
  kServedUnsupported = -32022,
  kServedHeaderMismatch = -32020,
};

json::Object served_error(ServedCode code, std::string message) {
  return {{"code", static_cast<int>(code)}, {"message", std::move(message)}};
}

// `member` is "result" or "error".
json::Object served_reply(const json::Value& id, std::string_view member, json::Object content) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {std::string(member), std::move(content)}};
}

// "" if there is no such string.
std::string served_text(const json::Value& object, std::string_view key) {
  const json::Value* member = object.find(key);
  const std::string* text = member == nullptr ? nullptr : member->if_string();
  return text == nullptr ? std::string() : *text;
}

// The revision that a request without a handshake names; "" if it names none.
std::string revision_asked(const json::Value& params) {
  const json::Value* meta = params.find("_meta");
  return meta == nullptr ? std::string() : served_text(*meta, kServedRevisionKey);
}

json::Object unsupported_revision(std::string_view asked) {
  json::Object error = served_error(kServedUnsupported, "Unsupported protocol version");
  error.set("data", json::Object{{"supported", json::Array{std::string(kServedModern)}},
                                 {"requested", asked}});
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
  if (!ToolServer::knows_revision(revision)) return unsupported_revision(revision);
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

// Whether a POST is of a revision that begins with `initialize`: its header says so, or neither its
// header nor its `_meta` names a revision, as in `initialize` itself.
bool is_of_handshake(const http::Request& request, const json::Value& message) {
  const std::string_view revision = request.header("mcp-protocol-version");
  if (std::ranges::find(kServedBefore, revision) != std::end(kServedBefore)) return true;
  const json::Value* const params =
      message.if_object() == nullptr ? nullptr : message.find("params");
  return revision.empty() &&
         (params == nullptr || params->if_object() == nullptr || revision_asked(*params).empty());
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

// What each result of the revision without handshakes has.
void mark_complete(json::Object& result, std::string_view method) {
  constexpr int kListsStayMs = 3'600'000;
  result.set("resultType", "complete");
  if (method == "tools/list" || method == "server/discover") {
    result.set("ttlMs", kListsStayMs);
    result.set("cacheScope", "public");
  }
}

json::Object failed_call(std::string text) {
  return {{"content", json::Array{json::Object{{"type", "text"}, {"text", std::move(text)}}}},
          {"isError", true}};
}

}  // namespace

ToolServer::ToolServer(ServerInfo info, std::vector<OfferedTool> tools)
    : info_(std::move(info)), tools_(std::move(tools)) {}

bool ToolServer::knows_revision(std::string_view revision) {
  return revision == kServedModern ||
         std::ranges::find(kServedBefore, revision) != std::end(kServedBefore);
}

std::optional<std::string> ToolServer::answer_text(std::string_view text) const {
  const auto message = json::parse(text);
  if (!message) {
    const json::Object error =
        served_error(kServedParseError, "not JSON: " + message.error().message);
    return json::to_string(served_reply(nullptr, "error", error));
  }
  const auto answer = this->answer(*message);
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
  // Notifications need no answer, and answers of the client are to questions that were not asked.
  if (id == nullptr || id->is_null()) return std::nullopt;
  const bool is_answer = message.find("result") != nullptr || message.find("error") != nullptr;
  if (method == nullptr && is_answer) return std::nullopt;
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
  Answer answer = result_of(name, *params, !revision.empty(), caller);
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
  if (message.if_object() == nullptr || served_text(message, "method") != "tools/call") {
    return false;
  }
  const json::Value* const params = message.find("params");
  if (params == nullptr || params->if_object() == nullptr) return false;
  const auto tool = std::ranges::find(tools_, served_text(*params, "name"), &OfferedTool::name);
  return tool != tools_.end() && tool->takes_long;
}

// The message, if it calls a tool that takes long and is not refused for its headers.
std::optional<json::Value> ToolServer::long_call(const http::Request& request) const {
  auto message = json::parse(request.body);
  if (!message || !takes_long(*message) || refusal_of_post(request, *message)) return std::nullopt;
  return *std::move(message);
}

http::Response ToolServer::answer_post(const http::Request& request) const {
  const auto message = json::parse(request.body);
  if (!message) return {.body = *answer_text(request.body)};  // an error, with the reason
  if (auto refusal = refusal_of_post(request, *message)) return *std::move(refusal);
  const auto answer = this->answer(*message);
  // Notifications only. The transport of MCP wants 202 without a body for them.
  if (!answer) return {.status = 202, .body = ""};
  // 2026-07-28 answers an unknown method with 404; before that every answer of JSON-RPC has 200.
  const json::Value* const code = json::at_pointer(*answer, "/error/code");
  const bool is_unknown = !is_of_handshake(request, *message) && code != nullptr &&
                          *code == json::Value(static_cast<int>(kUnknownMethod));
  return {.status = is_unknown ? 404U : 200U, .body = json::to_string(*answer)};
}

// Requests of 2026-07-28 have no handshake and no `ping`.
ToolServer::Answer ToolServer::result_of(std::string_view method, const json::Value& params,
                                         bool is_modern, const Caller& caller) const {
  if (method == "initialize" && !is_modern) return initialized(params);
  if (method == "server/discover") return about();
  if (method == "ping" && !is_modern) return json::Object();
  if (method == "tools/list") return list();
  if (method == "tools/call") return call(params, caller);
  return Failure<json::Object>(served_error(kUnknownMethod, "Method not found"));
}

// The answer to `initialize`: the client's revision if it is known, else our newest one, which the
// client may refuse.
json::Object ToolServer::initialized(const json::Value& params) const {
  const std::string asked = served_text(params, "protocolVersion");
  const bool is_known = std::ranges::find(kServedBefore, asked) != std::end(kServedBefore);
  json::Object result = about();
  result.erase("supportedVersions");
  result.set("protocolVersion", is_known ? asked : std::string(kServedBefore[0]));
  return result;
}

json::Object ToolServer::identity() const {
  return {{"name", info_.name}, {"title", info_.title}, {"version", info_.version}};
}

json::Object ToolServer::about() const {
  json::Object about{{"supportedVersions", json::Array{std::string(kServedModern)}},
                     {"capabilities", json::Object{{"tools", json::Object{}}}},
                     {"serverInfo", identity()}};
  if (!info_.instructions.empty()) about.set("instructions", info_.instructions);
  return about;
}

// All tools in one page. They only compute: they change nothing and reach no other system, which is
// what the two hints say.
json::Object ToolServer::list() const {
  json::Array tools;
  for (const OfferedTool& tool : tools_) {
    tools.emplace_back(json::Object{
        {"name", tool.name},
        {"title", tool.title},
        {"description", tool.description},
        {"inputSchema", tool.input_schema},
        {"annotations", json::Object{{"readOnlyHint", true}, {"openWorldHint", false}}}});
  }
  return {{"tools", std::move(tools)}};
}

// Runs a tool. A tool that fails is a result with `isError`, which a model can read and act on; an
// error of JSON-RPC says that the call itself was wrong.
ToolServer::Answer ToolServer::call(const json::Value& params, const Caller& caller) const {
  const std::string name = served_text(params, "name");
  const auto tool = std::ranges::find(tools_, name, &OfferedTool::name);
  if (tool == tools_.end()) {
    return Failure<json::Object>(
        served_error(kServedInvalidParams, "Unknown tool: " + name.substr(0, 64)));
  }
  static const json::Value kNone = json::Object();
  const json::Value* arguments = params.find("arguments");
  if (arguments == nullptr || arguments->is_null()) arguments = &kNone;
  if (arguments->if_object() == nullptr) return failed_call("arguments must be an object");
  const json::Value* const meta = params.find("_meta");
  // Without a token the client wants no progress. The views are valid until the tool returns.
  const json::Value* const token = meta == nullptr ? nullptr : meta->find("progressToken");
  const CallWatch watch{
      .cancel = caller.cancel, .tell = [&caller, token](double progress, std::string_view message) {
        if (!caller.notify || token == nullptr) return;
        caller.notify(json::Object{{"jsonrpc", "2.0"},
                                   {"method", "notifications/progress"},
                                   {"params", json::Object{{"progressToken", *token},
                                                           {"progress", progress},
                                                           {"message", message}}}});
      }};
  auto result = tool->run(*arguments->if_object(), watch);
  if (!result) return failed_call(result.error().message);
  json::Value structured = *std::move(result);
  // Clients from before structuredContent (2025-06-18) read the same as text.
  std::string text = json::to_string(structured);
  return json::Object{
      {"content", json::Array{json::Object{{"type", "text"}, {"text", std::move(text)}}}},
      {"structuredContent", std::move(structured)},
      {"isError", false}};
}

}  // namespace tenon::mcp
