#include "tenon/chat/hosts.h"

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>

#include "tenon/base/utf8.h"
#include "tenon/mcp/allow_list.h"

namespace tenon::chat {
namespace {

// Connections are shared only by requests of the same owner with the same headers, which may be
// secrets of that owner.
std::string key_of_host(const std::string& owner, const message::HostedServer& server) {
  json::Array parts{owner, server.label, server.url, server.may_be_private};
  for (const auto& [name, value] : server.headers) {
    parts.emplace_back(name);
    parts.emplace_back(value);
  }
  return json::to_string(parts);
}

std::shared_ptr<McpServer> connection_to(const message::HostedServer& server,
                                         const std::string& version) {
  mcp::ServerConfig config{.name = server.label, .url = server.url};
  for (const auto& [name, value] : server.headers) config.headers.push_back({name, value});
  mcp::ClientOptions options{.connect_timeout = std::chrono::seconds(20),
                             .list_timeout = std::chrono::seconds(20),
                             .max_message_bytes = Hosts::kMaxMessageBytes,
                             .max_tools = Hosts::kMaxTools,
                             .version = version,
                             .gets_tokens = false};
  if (!server.may_be_private) options.admits = mcp::is_public_address;
  return mcp_source(std::move(config), std::move(options));
}

// Whether the request allows the tool.
bool is_wanted(const message::HostedServer& server, const std::string& tool,
               const json::Value& annotations) {
  const auto& only = server.only_tools;
  if (only && std::ranges::find(*only, tool) == only->end()) return false;
  if (server.only_reading && !only_reads(annotations)) return false;
  return std::ranges::find(server.without_tools, tool) == server.without_tools.end();
}

bool has_hint(const json::Value& annotations, std::string_view name) {
  const json::Value* const hint =
      annotations.if_object() == nullptr ? nullptr : annotations.find(name);
  return hint != nullptr && *hint == json::Value(true);
}

}  // namespace

// A server that says both has made a mistake, and asking is the safe reading of it.
bool only_reads(const json::Value& annotations) {
  return has_hint(annotations, "readOnlyHint") && !has_hint(annotations, "destructiveHint");
}

std::string hints_of(const json::Value& annotations) {
  std::string hints;
  const auto add = [&](std::string_view name, std::string_view says) {
    if (!has_hint(annotations, name)) return;
    hints.append(hints.empty() ? "" : ", ").append(says);
  };
  add("readOnlyHint", "only reads");
  add("destructiveHint", "may destroy");
  add("openWorldHint", "reaches other systems");
  return hints;
}

// Finds or makes the connection, and lets go of those that were not used for long. One that a
// request still uses is retired first: it ends here, in a later call, once it is free.
std::shared_ptr<Hosts::Host> Hosts::host(const std::string& owner,
                                         const message::HostedServer& server) {
  std::string key = key_of_host(owner, server);
  std::vector<std::shared_ptr<McpServer>> gone;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  std::erase_if(hosts_, [&](const auto& one) {
    const bool is_over = one->used + kIdle < now;
    if (is_over) retired_.push_back(one->source);
    return is_over;
  });
  std::erase_if(retired_, [&](auto& one) {
    // retired_ has the only reference, and a new one can be made from hosts_ alone.
    const bool is_free = one.use_count() == 1;
    if (is_free) gone.push_back(std::move(one));
    return is_free;
  });
  const auto known = std::ranges::find(hosts_, key, &Host::key);
  if (known != hosts_.end()) {
    (*known)->used = now;
    return *known;
  }
  if (hosts_.size() >= kMost) {
    const auto oldest = std::ranges::min_element(hosts_, {}, &Host::used);
    retired_.push_back((*oldest)->source);
    hosts_.erase(oldest);
  }
  auto made = std::make_shared<Host>();
  made->key = std::move(key);
  made->source = connection_to(server, version_);
  made->used = now;
  hosts_.push_back(made);
  return made;
}

// One request asks at a time; the others wait, each within its own context, and find the list.
Expected<std::vector<message::Tool>> Hosts::all_tools(Host& host, const ToolContext& context) {
  constexpr std::chrono::milliseconds kMoment{20};
  std::unique_lock lock(host.mutex);
  while (host.is_asked) {
    if (context.is_over()) {
      return Unexpected(Error{Errc::unavailable, host.source->name() + " has not answered yet"});
    }
    host.changed.wait_for(lock, kMoment);
  }
  const std::uint64_t version = host.source->version();
  if (host.version && *host.version == version) return host.tools;
  host.is_asked = true;
  lock.unlock();
  const auto ask = [&]() -> Expected<std::vector<message::Tool>> {
    try {
      return host.source->tools(context);
    } catch (const std::exception& thrown) {
      return Unexpected(Error{Errc::unavailable, thrown.what()});
    }
  };
  auto told = ask();
  lock.lock();
  host.is_asked = false;
  host.changed.notify_all();
  if (!told) return told;
  host.tools = *told;
  host.version = version;  // a change meanwhile is asked for the next time
  return told;
}

Expected<HostedTools> Hosts::tools(const std::string& owner, const message::HostedServer& server,
                                   const ToolContext& context) {
  const std::shared_ptr<Host> found = host(owner, server);
  auto all = all_tools(*found, context);
  if (!all) return Unexpected(std::move(all.error()));
  HostedTools out{.source = found->source, .tools = {}, .listed = {}};
  // The connection's list is shared; what the request allows of it is chosen here.
  for (message::Tool& tool : *all) {
    const json::Value annotations = found->source->annotations(tool.name);
    if (!is_wanted(server, tool.name, annotations)) continue;
    json::Object listed{{"name", utf8::sanitized(tool.name)},
                        {"description", utf8::sanitized(tool.description)}};
    listed.set("input_schema",
               tool.parameters.is_null() ? json::Value(json::Object()) : tool.parameters);
    listed.set("annotations", annotations);
    out.listed.emplace_back(std::move(listed));
    out.tools.push_back(std::move(tool));
  }
  return out;
}

}  // namespace tenon::chat
