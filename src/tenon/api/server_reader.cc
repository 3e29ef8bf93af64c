// Servers of tools that a request names, and what its client decides about their calls. The
// dialects say the same in different places: OpenAI's tool of type `mcp` is a server, its rules and
// its tools in one object (mcp_tool); Anthropic's request lists servers (mcp_server_list) and names
// them among its tools (mcp_toolset), so toolsets_fit() checks at the end that each server has a
// set and each set a server. All of it becomes message::HostedServer.
//
// In the history, a call of such a server and its result may stand in one message of the assistant.
// The model's history has the result in a message of its own behind that: place_result() finds the
// call by its id in an index (index_calls), and results whose place lies before other messages
// are put there in one pass when everything is read (add_late_results), so that a long history
// takes linear time.

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/api/request_reader.h"

namespace tenon::api {
namespace {

using json::Kind;
using json::Value;
using message::Approvals;
using message::HostedServer;

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// The characters of a token in RFC 9110, section 5.6.2.
bool is_header_name(std::string_view name) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !name.empty() && name.size() <= 128 && std::ranges::all_of(name, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kOthers.find(c) != kOthers.npos;
  });
}

// ASCII without control characters: a line break would begin another header.
bool is_header_value(std::string_view value) {
  return value.size() <= kMaxHeaderBytes &&
         std::ranges::all_of(value, [](char c) { return (c >= ' ' && c < 0x7F) || c == '\t'; });
}

// Headers that we send ourselves, or that would change how the request is read on its way.
bool is_own_header(std::string_view name) {
  constexpr std::string_view kOwn[] = {"accept",
                                       "accept-encoding",
                                       "connection",
                                       "content-type",
                                       "content-length",
                                       "expect",
                                       "host",
                                       "keep-alive",
                                       "last-event-id",
                                       "te",
                                       "trailer",
                                       "transfer-encoding",
                                       "upgrade",
                                       "forwarded",
                                       "x-original-url",
                                       "x-rewrite-url",
                                       "x-http-method-override",
                                       "traceparent",
                                       "tracestate"};
  const std::string lower = in_lower_case(name);
  return lower.starts_with("mcp-") || lower.starts_with("proxy-") ||
         lower.starts_with("x-forwarded-") || std::ranges::find(kOwn, lower) != std::end(kOwn);
}

// Servers may give tools any name, but models' formats and upstreams take only these characters:
// "repo/list" becomes "repo_list".
std::string name_for_models(std::string name) {
  constexpr std::size_t kMost = 64;
  for (char& c : name) {
    const bool is_legal = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (!is_legal) c = '_';
  }
  name.resize(std::min(name.size(), kMost));
  return name.empty() ? "tool" : name;
}

}  // namespace

HostedServer* RequestReader::server_named(const std::string& label) {
  const auto found = std::ranges::find(chat_.servers, label, &HostedServer::label);
  return found == chat_.servers.end() ? nullptr : &*found;
}

// The values of headers are secrets, so no message has them.
bool RequestReader::server_headers(const Value& value, const std::string& path,
                                   HostedServer& server) {
  if (!kind(value, Kind::object, path)) return false;
  const json::Object& members = *value.if_object();
  if (!at_most(kMaxServerHeaders, members.size(), path, "headers")) return false;
  for (const json::Member& member : members) {
    const std::string where = in(path, member.key);
    const std::string* const text = member.value.if_string();
    if (!is_header_name(member.key) || is_own_header(member.key)) {
      return fail("invalid_value", where,
                  where + (is_header_name(member.key) ? " is a header that this server sets itself"
                                                      : " is not the name of a header"));
    }
    if (text == nullptr || !is_header_value(*text)) {
      return fail("invalid_value", where,
                  where + " must be a text of one line, of ASCII and at most 8,192 bytes");
    }
    server.headers.emplace_back(member.key, *text);
  }
  return true;
}

// The token becomes a header like those of `headers`, which may not have it as well.
bool RequestReader::bearer(const Value& value, const std::string& path, HostedServer& server) {
  const std::string* const token = value.if_string();
  if (token == nullptr || token->empty() || !is_header_value(*token)) {
    return fail("invalid_value", path, path + " must be a token: a text of one line, of ASCII");
  }
  const bool is_twice = std::ranges::any_of(server.headers, [](const auto& header) {
    return in_lower_case(header.first) == "authorization";
  });
  if (is_twice) {
    return fail("invalid_value", path, path + " and headers both have the authorization");
  }
  server.headers.emplace_back("Authorization", "Bearer " + *token);
  return true;
}

bool RequestReader::tool_names(const Value& value, const std::string& path,
                               std::vector<std::string>& out) {
  if (!kind(value, Kind::array, path)) return false;
  const json::Array& items = *value.if_array();
  if (!at_most(kMaxTools, items.size(), path, "names")) return false;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!string(items[i], at(path, i), out.emplace_back())) return false;
  }
  return true;
}

// `{"tool_names": [...], "read_only": true}`
bool RequestReader::tool_filter(const Value& value, const std::string& path,
                                std::vector<std::string>& names, bool& only_reading) {
  if (!kind(value, Kind::object, path) || !only(value, path, {"tool_names", "read_only"})) {
    return false;
  }
  const Value* const given = present(value, "tool_names");
  if (given != nullptr && !tool_names(*given, in(path, "tool_names"), names)) return false;
  const Value* const reads = present(value, "read_only");
  return reads == nullptr || boolean(*reads, in(path, "read_only"), only_reading);
}

// A list of names, or a filter. Both may be empty lists, which allow no tool.
bool RequestReader::allowed_of_server(const Value& value, const std::string& path,
                                      HostedServer& server) {
  if (value.if_array() != nullptr) return tool_names(value, path, server.only_tools.emplace());
  std::vector<std::string> names;
  if (!tool_filter(value, path, names, server.only_reading)) return false;
  if (present(value, "tool_names") != nullptr) server.only_tools = std::move(names);
  return true;
}

// "always", "never", or an object with a filter for each: `{"never": {"tool_names": ["search"]}}`.
// Tools that neither names need an approval. "by_annotation" asks the server which tools only read.
bool RequestReader::approval_rule(const Value& value, const std::string& path, Approvals& out) {
  out.rule = Approvals::Rule::always;
  if (value.if_string() != nullptr) {
    if (value == Value("never")) out.rule = Approvals::Rule::never;
    return one_of(value, path, {"always", "never"});
  }
  if (!kind(value, Kind::object, path) || !only(value, path, {"always", "never"})) return false;
  bool always_reading = false;
  bool never_reading = false;
  const Value* const always = present(value, "always");
  const Value* const never = present(value, "never");
  if (always != nullptr && !tool_filter(*always, in(path, "always"), out.always, always_reading)) {
    return false;
  }
  if (never != nullptr && !tool_filter(*never, in(path, "never"), out.never, never_reading)) {
    return false;
  }
  if (never_reading && !always_reading) out.rule = Approvals::Rule::by_annotation;
  return true;
}

// Adds a server that the operator allows (server.mcp_allow). This is the one place that every
// dialect passes, so no address gets around the list.
bool RequestReader::add_server(HostedServer server, const std::string& path,
                               const std::string& url_path) {
  if (!at_most(kMaxServers, chat_.servers.size() + 1, path, "servers of tools")) return false;
  if (server_named(server.label) != nullptr) {
    return fail("invalid_value", path,
                path + " names the server " + shown(server.label) + " a second time");
  }
  if (!at_most(kMaxServerUrl, server.url.size(), url_path, "bytes")) return false;
  const mcp::AllowList::Access access = allowed_->find(server.url);
  if (!access.is_allowed) {
    return fail("mcp_server_not_allowed", url_path,
                url_path + " is not an address that server.mcp_allow of this server allows");
  }
  server.may_be_private = access.may_be_private;
  chat_.servers.push_back(std::move(server));
  return true;
}

// `{"type": "mcp", "server_label", "server_url", ...}`. As at OpenAI, calls need an approval unless
// require_approval says otherwise.
bool RequestReader::mcp_tool(const Value& value, const std::string& path) {
  if (!calls_servers()) return leave_out(path, kCallsNoServers);
  if (!only(value, path,
            {"type", "server_label", "server_url", "server_description", "connector_id",
             "tunnel_id", "allowed_tools", "require_approval", "headers", "authorization",
             "allowed_callers", "defer_loading"})) {
    return false;
  }
  for (const std::string_view other : {"connector_id", "tunnel_id"}) {
    if (present(value, other) != nullptr) {
      return refuse(in(path, other), "this server has none: give server_url");
    }
  }
  HostedServer server;
  server.approvals.rule = Approvals::Rule::always;
  const std::string label = in(path, "server_label");
  if (!required_string(value, path, "server_label", server.label)) return false;
  if (!is_tool_name(server.label, label)) return false;
  if (!required_string(value, path, "server_url", server.url)) return false;
  if (const Value* given = present(value, "headers")) {
    if (!server_headers(*given, in(path, "headers"), server)) return false;
  }
  if (const Value* given = present(value, "authorization")) {
    if (!bearer(*given, in(path, "authorization"), server)) return false;
  }
  if (const Value* given = present(value, "allowed_tools")) {
    if (!allowed_of_server(*given, in(path, "allowed_tools"), server)) return false;
  }
  if (const Value* given = present(value, "require_approval")) {
    if (!approval_rule(*given, in(path, "require_approval"), server.approvals)) return false;
  }
  if (!callers(value, path, server.for_model, server.for_code)) return false;
  // A call that waits for an approval would have to end the code.
  if (!server.for_model && server.approvals.rule == Approvals::Rule::always &&
      server.approvals.never.empty()) {
    const std::string where = in(path, "allowed_callers");
    return fail("invalid_value", where,
                where +
                    " lets only code call tools whose calls wait for an approval, which code "
                    "cannot: add \"require_approval\": \"never\"");
  }
  return add_server(std::move(server), path, in(path, "server_url"));
}

// Anthropic's servers are named here and their tools chosen in `tools` (mcp_toolset). Their calls
// need no approval there; require_approval is our addition.
bool RequestReader::mcp_server_list(const Value& value, const std::string& path) {
  if (!kind(value, Kind::array, path)) return false;
  const json::Array& items = *value.if_array();
  if (items.empty()) return true;
  if (!calls_servers()) return leave_out(path, kCallsNoServers);
  if (!at_most(kMaxServers, items.size(), path, "servers of tools")) return false;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string where = at(path, i);
    HostedServer server;
    if (!kind(items[i], Kind::object, where)) return false;
    if (!only(items[i], where,
              {"type", "name", "url", "authorization_token", "tool_configuration",
               "require_approval"})) {
      return false;
    }
    if (required_word(items[i], where, "type", {"url"}).empty()) return false;
    if (!required_string(items[i], where, "name", server.label)) return false;
    if (!is_tool_name(server.label, in(where, "name"))) return false;
    if (!required_string(items[i], where, "url", server.url)) return false;
    if (const Value* given = present(items[i], "authorization_token")) {
      if (!bearer(*given, in(where, "authorization_token"), server)) return false;
    }
    if (const Value* given = present(items[i], "require_approval")) {
      if (!approval_rule(*given, in(where, "require_approval"), server.approvals)) return false;
    }
    // The form of the beta of 2025-04-04, before there were toolsets.
    if (const Value* given = present(items[i], "tool_configuration")) {
      const std::string inner = in(where, "tool_configuration");
      bool is_enabled = true;
      if (!kind(*given, Kind::object, inner) ||
          !only(*given, inner, {"enabled", "allowed_tools"})) {
        return false;
      }
      const Value* enabled = present(*given, "enabled");
      if (enabled != nullptr && !boolean(*enabled, in(inner, "enabled"), is_enabled)) return false;
      const Value* names = present(*given, "allowed_tools");
      if (names != nullptr &&
          !tool_names(*names, in(inner, "allowed_tools"), server.only_tools.emplace())) {
        return false;
      }
      // An empty list allows no tool.
      if (!is_enabled) server.only_tools.emplace();
      // The old form has said which tools there are, so no toolset is required.
      with_toolset_.insert(server.label);
    }
    if (!add_server(std::move(server), where, in(where, "url"))) return false;
  }
  return true;
}

// `{"type": "mcp_toolset", "mcp_server_name", "default_config", "configs": {NAME: {"enabled"}}}`.
// By default all tools are enabled and `configs` takes some away; with `"enabled": false` in
// default_config no tool is, and `configs` adds some.
bool RequestReader::mcp_toolset(const Value& value, const std::string& path) {
  if (!calls_servers()) return leave_out(path, kCallsNoServers);
  if (!only(value, path,
            {"type", "mcp_server_name", "default_config", "configs", "cache_control", "tools"})) {
    return false;
  }
  std::string name;
  if (!required_string(value, path, "mcp_server_name", name)) return false;
  HostedServer* const server = server_named(name);
  if (server == nullptr || !with_toolset_.insert(name).second) {
    const std::string where = in(path, "mcp_server_name");
    return fail("invalid_value", where,
                where + (server == nullptr ? " names no server of mcp_servers"
                                           : " names a server that has a toolset already"));
  }
  const auto enabled_in = [&](const Value& config, const std::string& where, bool& is_enabled) {
    if (!kind(config, Kind::object, where) || !only(config, where, {"enabled", "defer_loading"})) {
      return false;
    }
    const Value* const given = present(config, "enabled");
    return given == nullptr || boolean(*given, in(where, "enabled"), is_enabled);
  };
  bool by_default = true;
  const Value* const common = present(value, "default_config");
  if (common != nullptr && !enabled_in(*common, in(path, "default_config"), by_default)) {
    return false;
  }
  if (!by_default) server->only_tools.emplace();
  const Value* const configs = present(value, "configs");
  if (configs == nullptr) return true;
  const std::string where = in(path, "configs");
  if (!kind(*configs, Kind::object, where)) return false;
  if (!at_most(kMaxTools, configs->if_object()->size(), where, "tools")) return false;
  for (const json::Member& member : *configs->if_object()) {
    bool is_enabled = by_default;
    if (!enabled_in(member.value, in(where, member.key), is_enabled)) return false;
    if (is_enabled && !by_default) server->only_tools->push_back(member.key);
    if (!is_enabled && by_default) server->without_tools.push_back(member.key);
  }
  return true;
}

bool RequestReader::toolsets_fit() {
  if (with_toolset_.empty()) return true;
  for (const HostedServer& server : chat_.servers) {
    if (with_toolset_.contains(server.label)) continue;
    return fail(
        "invalid_value", "mcp_servers",
        "mcp_servers has " + shown(server.label) + ", to which no mcp_toolset of tools belongs");
  }
  return true;
}

bool RequestReader::chosen_server(const Value& value, const std::string& path) {
  if (!only(value, path, {"type", "server_label", "name"})) return false;
  message::ServerTool chosen;
  if (!required_string(value, path, "server_label", chosen.server)) return false;
  if (!optional_string(value, path, "name", chosen.tool)) return false;
  if (server_named(chosen.server) == nullptr) {
    const std::string where = in(path, "server_label");
    return fail("invalid_value", where, where + " names no server of the request's tools");
  }
  chat_.chosen_tools.push_back(std::move(chosen));
  return true;
}

// The answer's writer must tell the server's name of the tool, which the model may not be able to
// have; server_calls remembers it by the call's id.
void RequestReader::add_server_call(message::ToolCall& call, std::string server, std::string tool) {
  call.name = name_for_models(tool);
  chat_.server_calls.emplace_back(
      call.id, message::ServerTool{.server = std::move(server), .tool = std::move(tool)});
}

// Brings call_places_ up to date. Each call is read once over the whole request, because the
// counters remember how far it came.
void RequestReader::index_calls() {
  const std::vector<message::Message>& messages = chat_.messages;
  for (std::size_t i = indexed_messages_; i < messages.size(); ++i) {
    const auto& calls = messages[i].tool_calls;
    for (; indexed_calls_ < calls.size(); ++indexed_calls_) {
      call_places_.insert_or_assign(calls[indexed_calls_].id, i);
    }
    if (messages[i].role != message::Role::tool) last_other_ = i;
    indexed_messages_ = i;
    if (i + 1 < messages.size()) indexed_calls_ = 0;  // the last message may get more calls
  }
}

bool RequestReader::has_call(std::string_view id) {
  index_calls();
  return call_places_.contains(id);
}

// The result may stand at the end if only results follow the message with its call. Otherwise it is
// kept, and add_late_results() puts all of them into their places in one pass: to insert each one
// at once would cost the square of the number of messages.
void RequestReader::place_result(message::Message result) {
  index_calls();
  const auto place = call_places_.find(result.tool_call_id);
  if (place == call_places_.end() || place->second >= last_other_) {
    chat_.messages.push_back(std::move(result));
  } else {
    late_results_.emplace(place->second, std::move(result));
  }
}

void RequestReader::add_late_results() {
  if (late_results_.empty()) return;
  std::vector<message::Message> all;
  all.reserve(message_count());
  auto late = late_results_.begin();
  for (std::size_t i = 0; i < chat_.messages.size(); ++i) {
    const bool is_result = chat_.messages[i].role == message::Role::tool;
    // Those of the messages before come behind the results that are there.
    for (; !is_result && late != late_results_.end() && late->first < i; ++late) {
      all.push_back(std::move(late->second));
    }
    all.push_back(std::move(chat_.messages[i]));
  }
  for (; late != late_results_.end(); ++late) all.push_back(std::move(late->second));
  chat_.messages = std::move(all);
  late_results_.clear();
}

// `{"CALL ID": true, "CALL ID": {"approve": false, "reason": "..."}}`
bool RequestReader::approvals(const Value& value, const std::string& path) {
  if (!kind(value, Kind::object, path)) return false;
  if (!at_most(kMaxDecisions, value.if_object()->size(), path, "decisions")) return false;
  for (const json::Member& member : *value.if_object()) {
    const std::string where = in(path, member.key);
    message::Decision decision{.call_id = member.key};
    if (member.value.if_object() == nullptr) {
      if (!boolean(member.value, where, decision.approves)) return false;
    } else {
      if (!only(member.value, where, {"approve", "reason"})) return false;
      const Value* const given = required(member.value, where, "approve");
      if (given == nullptr || !boolean(*given, in(where, "approve"), decision.approves)) {
        return false;
      }
      if (!optional_string(member.value, where, "reason", decision.reason)) return false;
    }
    if (!add_decision(std::move(decision), where)) return false;
  }
  return true;
}

bool RequestReader::add_decision(message::Decision decision, const std::string& path) {
  const std::vector<message::Decision>& all = chat_.decisions;
  if (!at_most(kMaxDecisions, all.size() + 1, path, "decisions")) return false;
  if (std::ranges::find(all, decision.call_id, &message::Decision::call_id) != all.end()) {
    repeated_decisions_.emplace(std::move(decision.call_id), path);
  } else {
    chat_.decisions.push_back(std::move(decision));
  }
  return true;
}

// A call that has its result is decided: what a history or a repeated request says of it again has
// no effect.
bool RequestReader::decisions_differ() {
  std::set<std::string_view> answered;
  for (const message::Message& message : chat_.messages) {
    if (message.role == message::Role::tool) answered.insert(message.tool_call_id);
  }
  for (const auto& [place, result] : late_results_) answered.insert(result.tool_call_id);
  for (const auto& [id, path] : repeated_decisions_) {
    if (answered.contains(id)) continue;
    return fail("invalid_value", path,
                path + " decides on the call " + shown(id) + " a second time");
  }
  return true;
}

// Such a decision would have no effect, and its sender would wait for a call that never runs. One
// on a call that has its result is not a mistake: histories keep the decisions of before.
bool RequestReader::decisions_fit() {
  for (const message::Decision& decision : chat_.decisions) {
    if (has_call(decision.call_id)) continue;
    const std::string path = in("tenon.approvals", decision.call_id);
    return fail("invalid_value", path,
                path +
                    " decides on a call that no message has: send the answer that asked for "
                    "it, too");
  }
  return decisions_differ();
}

}  // namespace tenon::api
