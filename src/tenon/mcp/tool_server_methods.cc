// What each method of a server answers: lists, calls of tools, prompts, resources, completions.
//
// A tool, a prompt or a resource may need answers from the client (Outcome::needs). It is a
// function that runs from its beginning each time, with the answers and the state of the run
// before. So outcome_of() can serve both eras: a client that began with `initialize` is asked by
// requests while the call waits, and a client of 2026-07-28 gets a result `input_required`, with
// the state sealed, and sends the request again.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "tenon/mcp/tool_server_parts.h"

namespace tenon::mcp {
namespace {

// How long a client may think about a question, for instance because a person is asked.
constexpr std::chrono::minutes kAskPatience{10};
// How often one call may ask.
constexpr int kMostRounds = 16;
constexpr std::size_t kMostCompletions = 100;  // as the protocol bounds them
const json::Value kNoArguments = json::Object();

json::Object failed_call(std::string_view text) {
  return {{"content", json::Array{text_block(text)}}, {"isError", true}};
}

// The capability that a client needs in order to be asked by `method`.
std::string_view ability_for(std::string_view method) {
  return method.substr(0, method.find('/'));
}

json::Object missing_abilities(const Outcome& outcome, const json::Object& able) {
  json::Object missing;
  for (const InputRequest& need : outcome.needs) {
    const std::string ability(ability_for(need.method));
    if (!able.contains(ability)) missing.set(ability, json::Object());
  }
  return missing;
}

std::string names_of(const json::Object& members) {
  std::string names;
  for (const json::Member& member : members) names += (names.empty() ? "" : ", ") + member.key;
  return names;
}

// Each answer is an object. Others are left out, so that they are asked for again.
json::Object answers_in(const json::Value* responses) {
  json::Object answers;
  const json::Object* const members = responses == nullptr ? nullptr : responses->if_object();
  if (members == nullptr) return answers;
  for (const json::Member& member : *members) {
    if (member.value.if_object() != nullptr) answers.set(member.key, member.value);
  }
  return answers;
}

json::Object able_of(const json::Value& params, bool is_modern, const Caller& caller) {
  if (!is_modern) return caller.session ? caller.session->able() : json::Object();
  const json::Value* const able = served_meta(params, "io.modelcontextprotocol/clientCapabilities");
  return able == nullptr || able->if_object() == nullptr ? json::Object() : *able->if_object();
}

// The least level that the client wants to see. No value: none.
std::optional<std::size_t> level_of(const json::Value& params, bool is_modern,
                                    const Caller& caller) {
  if (!is_modern) return caller.session ? std::optional(caller.session->level()) : std::nullopt;
  const json::Value* const level = served_meta(params, "io.modelcontextprotocol/logLevel");
  const std::string* const name = level == nullptr ? nullptr : level->if_string();
  return name == nullptr ? std::nullopt : log_level(*name);
}

json::Object notification(std::string_view method, json::Object params) {
  return {{"jsonrpc", "2.0"}, {"method", method}, {"params", std::move(params)}};
}

}  // namespace

// Requests of 2026-07-28 have no handshake and no sessions.
ToolServer::Answer ToolServer::result_of(const Asked& asked) const {
  const std::string& method = asked.method;
  if (method == "server/discover") return about(/*is_modern=*/true);
  if (method == "tools/list") return list_tools();
  if (method == "tools/call") return call_tool(asked);
  if (!offer_.prompts.empty()) {
    if (method == "prompts/list") return list_prompts();
    if (method == "prompts/get") return get_prompt(asked);
  }
  if (!offer_.resources.empty()) {
    if (method == "resources/list") return list_resources(/*templates=*/false);
    if (method == "resources/templates/list") return list_resources(/*templates=*/true);
    if (method == "resources/read") return read_resource(asked);
  }
  if (method == "completion/complete" && offer_.complete) return complete(asked.params);
  if (!asked.is_modern) return result_of_handshake(asked);
  return Failure<json::Object>(served_error(kUnknownMethod, "Method not found"));
}

ToolServer::Answer ToolServer::result_of_handshake(const Asked& asked) const {
  const std::string& method = asked.method;
  if (method == "initialize") return initialized(asked);
  if (method == "ping") return json::Object();
  if (asked.caller.session) {
    if (method == "logging/setLevel" && offer_.logs) return set_level(asked);
    const bool watches = method == "resources/subscribe" || method == "resources/unsubscribe";
    if (watches && !offer_.resources.empty()) return watch(asked);
  }
  return Failure<json::Object>(served_error(kUnknownMethod, "Method not found"));
}

// ---- what the server is

// The answer to `initialize`: the client's revision if it is known, else our newest one, which the
// client may refuse.
json::Object ToolServer::initialized(const Asked& asked) const {
  const std::string version = served_text(asked.params, "protocolVersion");
  const bool is_known = std::ranges::find(kServedBefore, version) != std::end(kServedBefore);
  const json::Value* const able = asked.params.find("capabilities");
  if (asked.caller.session && able != nullptr && able->if_object() != nullptr) {
    asked.caller.session->set_able(*able->if_object());
  }
  json::Object result = about(/*is_modern=*/false);
  result.erase("supportedVersions");
  result.set("protocolVersion", is_known ? version : std::string(kServedBefore[0]));
  return result;
}

json::Object ToolServer::identity() const {
  return {{"name", info_.name}, {"title", info_.title}, {"version", info_.version}};
}

json::Object ToolServer::about(bool is_modern) const {
  json::Object able{{"tools", json::Object{}}};
  if (!offer_.prompts.empty()) able.set("prompts", json::Object{});
  if (!offer_.resources.empty()) {
    json::Object resources;
    if (offer_.keeps_sessions && !is_modern) resources.set("subscribe", true);
    able.set("resources", std::move(resources));
  }
  if (offer_.complete) able.set("completions", json::Object{});
  if (offer_.logs) able.set("logging", json::Object{});
  json::Object about{{"supportedVersions", served_revisions()},
                     {"capabilities", std::move(able)},
                     {"serverInfo", identity()}};
  if (!info_.instructions.empty()) about.set("instructions", info_.instructions);
  return about;
}

// ---- lists

// All tools in one page. They only compute: they change nothing and reach no other system, which is
// what the two hints say.
json::Object ToolServer::list_tools() const {
  json::Array tools;
  for (const OfferedTool& tool : offer_.tools) {
    tools.emplace_back(json::Object{
        {"name", tool.name},
        {"title", tool.title},
        {"description", tool.description},
        {"inputSchema", tool.input_schema},
        {"annotations", json::Object{{"readOnlyHint", true}, {"openWorldHint", false}}}});
  }
  return {{"tools", std::move(tools)}};
}

json::Object ToolServer::list_prompts() const {
  json::Array prompts;
  for (const OfferedPrompt& prompt : offer_.prompts) {
    json::Array arguments;
    for (const OfferedPrompt::Argument& argument : prompt.arguments) {
      arguments.emplace_back(json::Object{{"name", argument.name},
                                          {"description", argument.description},
                                          {"required", argument.is_required}});
    }
    prompts.emplace_back(json::Object{{"name", prompt.name},
                                      {"title", prompt.title},
                                      {"description", prompt.description},
                                      {"arguments", std::move(arguments)}});
  }
  return {{"prompts", std::move(prompts)}};
}

json::Object ToolServer::list_resources(bool templates) const {
  json::Array list;
  for (const OfferedResource& resource : offer_.resources) {
    if (resource.is_template() != templates) continue;
    list.emplace_back(json::Object{{templates ? "uriTemplate" : "uri", resource.uri},
                                   {"name", resource.name},
                                   {"description", resource.description},
                                   {"mimeType", resource.mime_type}});
  }
  return {{templates ? "resourceTemplates" : "resources", std::move(list)}};
}

// ---- calls

// A tool that fails is a result with `isError`, which a model can read and act on; an error of
// JSON-RPC says that the call itself was wrong.
ToolServer::Answer ToolServer::call_tool(const Asked& asked) const {
  const std::string name = served_text(asked.params, "name");
  const auto tool = std::ranges::find(offer_.tools, name, &OfferedTool::name);
  if (tool == offer_.tools.end()) {
    return Failure<json::Object>(
        served_error(kServedInvalidParams, "Unknown tool: " + name.substr(0, 64)));
  }
  const json::Value* arguments = asked.params.find("arguments");
  if (arguments == nullptr || arguments->is_null()) arguments = &kNoArguments;
  if (arguments->if_object() == nullptr) return failed_call("arguments must be an object");
  std::string failure;
  Answer answer = outcome_of(asked, [&](const CallWatch& watch) {
    auto outcome = tool->run(*arguments->if_object(), watch);
    if (!outcome) failure = outcome.error().message;
    return outcome;
  });
  if (!answer && !failure.empty()) return failed_call(failure);
  return answer;
}

ToolServer::Answer ToolServer::get_prompt(const Asked& asked) const {
  const std::string name = served_text(asked.params, "name");
  const auto prompt = std::ranges::find(offer_.prompts, name, &OfferedPrompt::name);
  const auto refused = [](const std::string& why) {
    return Failure<json::Object>(served_error(kServedInvalidParams, why));
  };
  if (prompt == offer_.prompts.end()) return refused("Unknown prompt: " + name.substr(0, 64));
  const json::Value* arguments = asked.params.find("arguments");
  if (arguments == nullptr || arguments->is_null()) arguments = &kNoArguments;
  if (arguments->if_object() == nullptr) return refused("arguments must be an object");
  for (const json::Member& member : *arguments->if_object()) {
    if (member.value.if_string() == nullptr) {
      return refused("the argument " + member.key.substr(0, 64) + " is not a text");
    }
  }
  for (const OfferedPrompt::Argument& argument : prompt->arguments) {
    if (argument.is_required && arguments->find(argument.name) == nullptr) {
      return refused("the argument " + argument.name + " is missing");
    }
  }
  return outcome_of(
      asked, [&](const CallWatch& watch) { return prompt->run(*arguments->if_object(), watch); });
}

ToolServer::Answer ToolServer::read_resource(const Asked& asked) const {
  const std::string uri = served_text(asked.params, "uri");
  for (const OfferedResource& resource : offer_.resources) {
    const auto values = template_values(resource.uri, uri);
    if (!values) continue;
    return outcome_of(asked,
                      [&](const CallWatch& watch) { return resource.read(uri, *values, watch); });
  }
  json::Object error = served_error(asked.is_modern ? kServedInvalidParams : kServedNoResource,
                                    "Resource not found");
  error.set("data", json::Object{{"uri", uri.substr(0, 1024)}});
  return Failure<json::Object>(std::move(error));
}

ToolServer::Answer ToolServer::complete(const json::Value& params) const {
  const json::Value* const ref = params.find("ref");
  const json::Value* const argument = params.find("argument");
  if (ref == nullptr || ref->if_object() == nullptr || argument == nullptr ||
      argument->if_object() == nullptr) {
    return Failure<json::Object>(
        served_error(kServedInvalidParams, "a completion has ref and argument, both objects"));
  }
  std::vector<std::string> all =
      offer_.complete(*ref, served_text(*argument, "name"), served_text(*argument, "value"));
  const std::size_t total = all.size();
  all.resize(std::min(total, kMostCompletions));
  json::Array values;
  for (std::string& one : all) values.emplace_back(std::move(one));
  return json::Object{{"completion", json::Object{{"values", std::move(values)},
                                                  {"total", static_cast<std::int64_t>(total)},
                                                  {"hasMore", total > kMostCompletions}}}};
}

// ---- sessions

bool ToolServer::has_resource(std::string_view uri) const {
  return std::ranges::any_of(offer_.resources, [uri](const OfferedResource& resource) {
    return template_values(resource.uri, uri).has_value();
  });
}

ToolServer::Answer ToolServer::watch(const Asked& asked) const {
  const std::string uri = served_text(asked.params, "uri");
  ClientSession& session = *asked.caller.session;
  if (asked.method == "resources/unsubscribe") {
    session.unwatch(uri);
    return json::Object();
  }
  if (!has_resource(uri)) {
    return Failure<json::Object>(served_error(kServedNoResource, "Resource not found"));
  }
  if (!session.watch(uri)) {
    return Failure<json::Object>(served_error(
        kServedInvalidParams, "this session watches " + std::to_string(ClientSession::kMaxWatched) +
                                  " resources: unsubscribe from some"));
  }
  return json::Object();
}

ToolServer::Answer ToolServer::set_level(const Asked& asked) const {
  const auto level = log_level(served_text(asked.params, "level"));
  if (!level) {
    return Failure<json::Object>(
        served_error(kServedInvalidParams, "level is one from debug to emergency"));
  }
  asked.caller.session->set_level(*level);
  return json::Object();
}

// ---- what a call needs from the client

// Runs `run`, with the client's answers where it comes back with some, until there is a result or
// the client has to be asked by one.
ToolServer::Answer ToolServer::outcome_of(const Asked& asked, const Run& run) const {
  const Caller& caller = asked.caller;
  const json::Value* const token = served_meta(asked.params, "progressToken");
  const auto level = level_of(asked.params, asked.is_modern, caller);
  CallWatch watch{
      .cancel = caller.cancel,
      .tell =
          [&caller, token](double progress, std::string_view message) {
            if (!caller.send || token == nullptr) return;  // without a token no progress is wanted
            caller.send(notification(
                "notifications/progress",
                {{"progressToken", *token}, {"progress", progress}, {"message", message}}));
          },
      .log =
          [&caller, level](std::string_view name, json::Value data) {
            if (!caller.send || !level || log_level(name).value_or(0) < *level) return;
            caller.send(notification("notifications/message",
                                     {{"level", name}, {"data", std::move(data)}}));
          },
      .able = able_of(asked.params, asked.is_modern, caller)};
  const json::Value* const arguments = asked.params.find("arguments");
  // As JSON, so that no two requests give the same text.
  const std::string request = json::to_string(
      json::Array{asked.method, served_text(asked.params, "name"), served_text(asked.params, "uri"),
                  arguments == nullptr ? kNoArguments : *arguments});
  if (asked.is_modern) {
    const json::Value* const responses = asked.params.find("inputResponses");
    if (responses != nullptr && responses->if_object() == nullptr) {
      return Failure<json::Object>(
          served_error(kServedInvalidParams, "inputResponses is an object"));
    }
    watch.answers = answers_in(responses);
    if (const json::Value* const sealed = asked.params.find("requestState")) {
      auto state =
          states_.open(sealed->if_string() == nullptr ? "" : *sealed->if_string(), request);
      if (!state) {
        return Failure<json::Object>(served_error(
            kServedInvalidParams,
            "requestState is not what this server gave for this request, or is too old: send the "
            "request again without it"));
      }
      watch.state = *std::move(state);
    }
  }
  for (int round = 0; round < kMostRounds; ++round) {
    auto outcome = run(watch);
    if (!outcome) {
      return Failure<json::Object>(served_error(kServedInternal, outcome.error().message));
    }
    if (outcome->needs.empty()) return std::move(outcome->result);
    if (asked.is_modern) return ask_by_result(asked, *outcome, request);
    auto answers = ask_by_requests(asked, *outcome);
    if (!answers) {
      if (asked.method == "tools/call") return failed_call(answers.error().message);
      return Failure<json::Object>(served_error(kServedInternal, answers.error().message));
    }
    watch.answers = *std::move(answers);
    watch.state = std::move(outcome->state);
  }
  return Failure<json::Object>(served_error(
      kServedInternal, "it asked the client " + std::to_string(kMostRounds) + " times"));
}

ToolServer::Answer ToolServer::ask_by_result(const Asked& asked, const Outcome& outcome,
                                             const std::string& request) const {
  json::Object missing =
      missing_abilities(outcome, able_of(asked.params, /*is_modern=*/true, asked.caller));
  if (!missing.empty()) {
    json::Object error =
        served_error(kServedMissingAbility, "The client must have declared: " + names_of(missing));
    error.set("data", json::Object{{"requiredCapabilities", std::move(missing)}});
    return Failure<json::Object>(std::move(error));
  }
  json::Object requests;
  for (const InputRequest& need : outcome.needs) {
    requests.set(need.key, json::Object{{"method", need.method}, {"params", need.params}});
  }
  json::Object result{{"resultType", "input_required"}, {"inputRequests", std::move(requests)}};
  if (!outcome.state.is_null()) result.set("requestState", states_.seal(outcome.state, request));
  return result;
}

Expected<json::Object> ToolServer::ask_by_requests(const Asked& asked,
                                                   const Outcome& outcome) const {
  const Caller& caller = asked.caller;
  if (!caller.send || !caller.session) {
    return Unexpected(Error{Errc::unsupported, "this client cannot be asked for what is needed"});
  }
  const json::Object missing = missing_abilities(outcome, caller.session->able());
  if (!missing.empty()) {
    return Unexpected(
        Error{Errc::unsupported, "the client must have declared: " + names_of(missing)});
  }
  json::Object answers;
  for (const InputRequest& need : outcome.needs) {
    auto answer =
        caller.session->ask(caller.send, need.method, need.params, caller.cancel, kAskPatience);
    if (!answer) return Unexpected(answer.error());
    if (answer->if_object() != nullptr) answers.set(need.key, *std::move(answer));
  }
  return answers;
}

}  // namespace tenon::mcp
