#include "tenon/mcp/servers.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "tenon/http/client.h"

// Reads the object `mcpServers` that many programs share (docs/mcp.md): a server has a command with
// arguments, environment and folder, or a url with headers. Members that Tenon does not know are
// left out and told (ServerConfig::ignored), because each program adds its own; members that it
// knows must have the right type. Texts may have variables of the environment in them. An entry
// with a fault takes only itself, since many programs and people write into one file.

namespace tenon::mcp {
namespace {

// `text` with its variables replaced: "${HOME}/x", or "${PORT:-80}" with a value for a variable
// that is not set. Nothing if one is not set; `missing` is then its name.
std::optional<std::string> expanded(std::string_view text, std::string& missing) {
  std::string out;
  while (true) {
    const auto begin = text.find("${");
    const auto end = begin == text.npos ? begin : text.find('}', begin);
    out += text.substr(0, end == text.npos ? text.npos : begin);
    if (end == text.npos) return out;
    const std::string_view inner = text.substr(begin + 2, end - begin - 2);
    const auto otherwise = inner.find(":-");
    const std::string name(inner.substr(0, otherwise));
    const char* const value = std::getenv(name.c_str());
    if (value == nullptr && otherwise == inner.npos) {
      missing = name;
      return std::nullopt;
    }
    out += value != nullptr ? value : inner.substr(otherwise + 2);
    text.remove_prefix(end + 1);
  }
}

constexpr std::size_t kMaxShown = 64;  // bytes of a text of the file in an error

// `disabledTools` and `excludeTools` are two programs' names for the same thing.
constexpr std::string_view kKnown[] = {"disabled",     "type",         "command",       "args",
                                       "env",          "cwd",          "url",           "headers",
                                       "includeTools", "excludeTools", "disabledTools", "oauth"};

// These have no effect for a server with a url.
constexpr std::string_view kOfCommands[] = {"args", "env", "cwd"};

// Whether the member changes anything for a server with a command, or for one with a url.
bool has_effect(std::string_view key, bool is_command) {
  const auto in = [&](const auto& keys) { return std::ranges::find(keys, key) != std::end(keys); };
  return in(kKnown) && (is_command ? key != "headers" && key != "oauth" : !in(kOfCommands));
}

// Names that programs have for the two transports. A command or a url says which one it is.
constexpr std::string_view kTypes[] = {
    "stdio", "local", "http", "streamable-http", "streamableHttp", "streamable_http", "remote"};

/// Reads one server. The first error is kept.
class Reader {
 public:
  Reader(const std::string& name, const json::Object& from) : from_(from) { server_.name = name; }

  Expected<ServerConfig> read() {
    if (server_.name.empty()) fail(Errc::invalid, "an entry must have a name");
    std::string type;
    std::string program;
    text("type", type);
    text("command", program);
    text("cwd", server_.folder);
    text("url", server_.url);
    if (!program.empty()) {
      server_.command.push_back(program);
      list("args", server_.command);
    }
    // "KEY=value", as execve() takes them.
    pairs("env", [this](std::string key, std::string value) {
      server_.environment.push_back(std::move(key) + "=" + std::move(value));
    });
    // An empty list allows no tool; without the member all are allowed.
    if (from_.contains("includeTools")) list("includeTools", server_.only_tools.emplace());
    list("excludeTools", server_.without_tools);
    list("disabledTools", server_.without_tools);
    for (const json::Member& member : from_) {
      if (!has_effect(member.key, !program.empty())) server_.ignored.push_back(member.key);
    }
    pairs("headers", [this](std::string key, std::string value) {
      server_.headers.push_back({std::move(key), std::move(value)});
    });
    if (const json::Value* const oauth = from_.find("oauth")) read_oauth(*oauth);
    check_type(type);
    if (program.empty() == server_.url.empty()) {
      fail(Errc::invalid, "it must have a command or a url, and not both");
    } else if (!server_.url.empty()) {
      if (const auto url = http::parse_url(server_.url); !url) {
        fail(Errc::invalid, "url is " + url.error().message);
      }
    }
    if (fault_) return Unexpected(*fault_);
    return server_;
  }

 private:
  void fail(Errc code, const std::string& what) {
    if (!fault_) fault_ = Error{code, "mcpServers." + server_.name + ": " + what};
  }
  void check_type(const std::string& type) {
    if (type == "sse") {
      return fail(Errc::unsupported,
                  "type \"sse\" is the transport of before 2025-03-26: give the server's url for "
                  "streamable HTTP, with the type \"http\"");
    }
    if (type.empty() || std::ranges::find(kTypes, type) != std::end(kTypes)) return;
    fail(Errc::invalid, "type " + json::quoted(type.substr(0, kMaxShown)) +
                            " is no transport: write \"stdio\" beside a command, \"http\" beside a "
                            "url, or leave it out");
  }
  // Takes a string with its variables replaced. The error names the variable, not the text.
  void take(const json::Value& value, const std::string& key, std::string& out) {
    if (value.if_string() == nullptr) return fail(Errc::invalid, key + " must be a string");
    std::string missing;
    if (auto text = expanded(*value.if_string(), missing)) {
      out = *std::move(text);
    } else {
      fail(Errc::invalid, key + ": the environment has no variable " + missing +
                              ": set it, or give a text for its absence, as in ${" + missing +
                              ":-text}");
    }
  }
  void read_oauth(const json::Value& oauth) {
    if (oauth.if_object() == nullptr) return fail(Errc::invalid, "oauth must be an object");
    OAuthConfig& read = server_.oauth;
    std::string grant;
    const std::pair<std::string_view, std::string*> texts[] = {
        {"clientId", &read.client_id},
        {"clientSecret", &read.client_secret},
        {"clientMetadataUrl", &read.client_metadata_url},
        {"scope", &read.scope},
        {"grant", &grant}};
    for (const json::Member& member : *oauth.if_object()) {
      const auto text =
          std::ranges::find(texts, member.key, [](const auto& one) { return one.first; });
      if (text != std::end(texts)) {
        take(member.value, "oauth." + member.key, *text->second);
      } else if (member.key == "callbackPort") {
        const json::Number* const number = member.value.if_number();
        const std::int64_t port = number == nullptr ? 0 : number->to_int64().value_or(0);
        if (port < 1 || port > 65'535) fail(Errc::invalid, "oauth.callbackPort must be a port");
        read.callback_port = static_cast<std::uint16_t>(port);
      } else {
        server_.ignored.push_back("oauth." + member.key);
      }
    }
    read.is_machine = grant == "client_credentials";
    if (!grant.empty() && !read.is_machine && grant != "authorization_code") {
      fail(Errc::invalid, "oauth.grant must be \"authorization_code\" or \"client_credentials\"");
    }
    if (read.is_machine && read.client_id.empty()) {
      fail(Errc::invalid, "oauth.grant \"client_credentials\" needs a clientId");
    }
    if (!read.client_metadata_url.empty() && !read.client_metadata_url.starts_with("https://")) {
      fail(Errc::invalid, "oauth.clientMetadataUrl must begin with https://");
    }
  }
  void text(std::string_view key, std::string& out) {
    if (const json::Value* const value = from_.find(key)) take(*value, std::string(key), out);
  }
  void list(std::string_view key, std::vector<std::string>& out) {
    const json::Value* const value = from_.find(key);
    if (value == nullptr) return;
    if (value->if_array() == nullptr) {
      return fail(Errc::invalid, std::string(key) + " must be an array of strings");
    }
    for (const json::Value& item : *value->if_array())
      take(item, std::string(key), out.emplace_back());
  }
  template <class Add>
  void pairs(std::string_view key, Add add) {
    const json::Value* const value = from_.find(key);
    if (value == nullptr) return;
    if (value->if_object() == nullptr) {
      return fail(Errc::invalid, std::string(key) + " must be an object of strings");
    }
    for (const json::Member& member : *value->if_object()) {
      std::string out;
      take(member.value, std::string(key) + "." + member.key, out);
      add(member.key, std::move(out));
    }
  }

  const json::Object& from_;
  ServerConfig server_;
  std::optional<Error> fault_;
};

ServerEntry entry_of(const std::string& name, const json::Value& value) {
  ServerEntry entry{.config = {.name = name}, .is_disabled = false, .fault = {}};
  const auto fail = [&](const std::string& what) {
    entry.fault = Error{Errc::invalid, "mcpServers." + name + what};
    return entry;
  };
  if (value.if_object() == nullptr) return fail(" must be an object");
  if (const json::Value* const disabled = value.find("disabled")) {
    if (disabled->if_bool() == nullptr) return fail(".disabled must be true or false");
    entry.is_disabled = *disabled->if_bool();
    if (entry.is_disabled) return entry;
  }
  auto read = Reader(name, *value.if_object()).read();
  if (read) {
    entry.config = *std::move(read);
  } else {
    entry.fault = std::move(read.error());
  }
  return entry;
}

}  // namespace

bool ServerConfig::operator==(const ServerConfig& other) const {
  const auto is_same = [](const http::Header& a, const http::Header& b) {
    return a.name == b.name && a.value == b.value;
  };
  return name == other.name && command == other.command && environment == other.environment &&
         folder == other.folder && url == other.url &&
         std::ranges::equal(headers, other.headers, is_same) && only_tools == other.only_tools &&
         without_tools == other.without_tools && ignored == other.ignored && oauth == other.oauth;
}

bool ServerConfig::has_tool(const std::string& tool) const {
  const auto is_in = [&tool](const std::vector<std::string>& names) {
    return std::ranges::find(names, tool) != names.end();
  };
  return !is_in(without_tools) && (!only_tools || is_in(*only_tools));
}

Expected<std::vector<ServerEntry>> read_servers(const json::Value& config) {
  const json::Value* const servers = config.find("mcpServers");
  if (servers == nullptr || servers->if_object() == nullptr) {
    return Unexpected(Error{Errc::invalid, "there is no object mcpServers"});
  }
  std::vector<ServerEntry> entries;
  for (const json::Member& member : *servers->if_object()) {
    entries.push_back(entry_of(member.key, member.value));
  }
  return entries;
}

}  // namespace tenon::mcp
