#include "mcp_servers.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "conversation.h"
#include "terminal.h"
#include "user.h"
#include <unistd.h>

#include "tenon/config/tools.h"
#include "tenon/json/value.h"
#include "tenon/mcp/client.h"
#include "tenon/mcp/token_store.h"

// `tenon mcp login`, `logout`, `tools` and `call`: one server of a file of mcpServers, for one
// command. Each command makes a Visit, which connects, answers what the server asks (the user at a
// terminal, or --answers), and ends at Ctrl-C or at --timeout. Logins are kept in the token file
// that all commands and the server share.

namespace tenon::app {
namespace {

using Clock = std::chrono::steady_clock;
using json::Object;

struct ServersOptions {
  std::string file;       // of mcpServers
  std::string name;       // of the server in the file
  std::string tool;       // for `call`
  std::string arguments;  // for `call`: an object of JSON; "": {}
  std::string answers;    // to what the server asks, as an object of JSON; "": the user is asked
  std::string scope;      // of OAuth, besides what is needed
  bool json = false;
  bool logs_in = false;
  bool no_browser = false;
  std::int64_t timeout_s = 300;  // for all of it, a login included
};

OrComplaint<mcp::ServerConfig> server_named(const ServersOptions& options) {
  auto servers = config::read_servers(options.file);
  if (!servers) return complaint(servers.error());
  const auto found = std::ranges::find(*servers, options.name, &mcp::ServerConfig::name);
  if (found != servers->end()) return std::move(*found);
  std::string names;
  for (const mcp::ServerConfig& one : *servers) names += (names.empty() ? "" : ", ") + one.name;
  return complaint(kBadInput, options.file + " has no server '" + options.name + "'; it has " +
                                  (names.empty() ? "none" : names));
}

bool is_at_terminal() {
  return isatty(STDIN_FILENO) == 1;
}

/// A connection to one server, for one command.
class Visit {
 public:
  Visit(const ServersOptions& options, bool logs_in)
      : options_(options),
        logs_in_(logs_in),
        limits_(Clock::now() + std::chrono::seconds(options.timeout_s)) {}

  OrComplaint<void> connect() {
    auto server = server_named(options_);
    if (!server) return Failure<Complaint>(std::move(server.error()));
    server_ = *std::move(server);
    if (!options_.scope.empty()) server_.oauth.scope = options_.scope;
    const std::chrono::milliseconds most = std::chrono::seconds(options_.timeout_s);
    mcp::ClientOptions how{.connect_timeout = most,
                           .list_timeout = most,
                           .version = std::string(kVersion),
                           .asks_user = answers(),
                           .tokens = config::tokens_file()};
    if (logs_in_) {
      how.on_login = [this](const std::string& address) {
        has_logged_in_ = true;
        show_login(address, !options_.no_browser);
      };
    }
    auto client = mcp::Client::connect(server_, how, call());
    if (!client) return complaint(kEngine, client.error().message);
    client_ = *std::move(client);
    return {};
  }

  OrComplaint<std::vector<mcp::Tool>> tools() {
    auto listed = client_->list_tools(call());
    if (!listed) return complaint(kEngine, listed.error().message);
    return *std::move(listed);
  }

  Result<mcp::CallResult, mcp::CallFailure> run(const json::Object& arguments) {
    mcp::CallOptions how = call();
    if (answers()) {
      how.on_question = [this](const json::Value& params) { return answer(params); };
    }
    return client_->call_tool(options_.tool, arguments, how);
  }

  [[nodiscard]] const mcp::ServerConfig& server() const { return server_; }
  [[nodiscard]] bool has_logged_in() const { return has_logged_in_; }

 private:
  // Told to the server at once: it may ask only a client that can answer.
  [[nodiscard]] bool answers() const { return !options_.answers.empty() || is_at_terminal(); }
  [[nodiscard]] mcp::CallOptions call() const {
    return {.deadline = limits_, .cancel = interruption_.token()};
  }

  [[nodiscard]] std::optional<json::Object> answer(const json::Value& params) const {
    if (!options_.answers.empty()) {
      const auto given = json::parse(options_.answers);
      return given && given->if_object() != nullptr ? std::optional(*given->if_object())
                                                    : std::nullopt;
    }
    return ask_user(server_.name, params, [](std::string_view prompt, std::string& line) {
      std::cout << shown(prompt, STDOUT_FILENO) << std::flush;
      return Interruption::wait_for_input() && static_cast<bool>(std::getline(std::cin, line));
    });
  }

  const ServersOptions& options_;
  const bool logs_in_;
  const Clock::time_point limits_;  // when all of it must be done
  const Interruption interruption_;
  mcp::ServerConfig server_;
  bool has_logged_in_ = false;
  std::unique_ptr<mcp::Client> client_;
};

mcp::TokenStore store() {
  return mcp::TokenStore(config::tokens_file());
}

// Under the lock of the token file, since another process may be refreshing the same token.
Expected<bool> forget(const std::string& url) {
  bool was_there = false;
  const mcp::TokenStore tokens = store();
  const Status done = tokens.alone(Clock::now() + std::chrono::seconds(10), {}, [&]() -> Status {
    auto forgotten = tokens.forget(url);
    if (!forgotten) return Unexpected(std::move(forgotten.error()));
    was_there = *forgotten;
    return {};
  });
  if (!done) return Unexpected(done.error());
  return was_there;
}

// Keeps a grant again that forget() took, unless there is a new one.
Status restore(const std::string& url, const mcp::Grant& grant) {
  const mcp::TokenStore tokens = store();
  return tokens.alone(Clock::now() + std::chrono::seconds(10), {}, [&]() -> Status {
    const auto present = tokens.find(url);
    if (!present) return Unexpected(present.error());
    return *present ? Status() : tokens.keep(url, grant);
  });
}

// Forgets the old login, connects, and asks for the tools: a server may ask for a login only then.
// If that fails, the old login is there again.
int run_login(const ServersOptions& options) {
  auto server = server_named(options);
  if (!server) return complain(server.error());
  if (server->url.empty()) {
    return complain({kBadInput, options.name + " is a program on this machine, and has no logins"});
  }
  if (server->oauth.is_machine) {
    return complain({kBadInput, options.name + " gets tokens by its clientSecret, without logins"});
  }
  // A login that still works would be used, and no new one asked for.
  const auto before = store().find(server->url);
  if (!before) return complain(before.error());
  if (const auto forgotten = forget(server->url); !forgotten) return complain(forgotten.error());
  Visit visit(options, /*logs_in=*/true);
  const auto connected = visit.connect();
  const auto tools = connected ? visit.tools() : Failure<Complaint>(connected.error());
  if (!tools) {
    if (*before) {
      const Status restored = restore(server->url, **before);
      if (!restored)
        std::cerr << "the login of before is lost: " << restored.error().message << '\n';
    }
    return complain(tools.error());
  }
  if (!visit.has_logged_in()) {
    std::cout << shown(options.name, STDOUT_FILENO) << " asks for no login.\n";
    return kOk;
  }
  std::cout << "Logged in at " << shown(options.name, STDOUT_FILENO) << ", which has "
            << tools->size() << (tools->size() == 1 ? " tool" : " tools") << ". Tokens are in "
            << config::tokens_file() << ".\n";
  return kOk;
}

// Forgets the tokens here; it cannot make the server refuse them.
int run_logout(const ServersOptions& options) {
  const auto server = server_named(options);
  if (!server) return complain(server.error());
  const auto forgotten = forget(server->url);
  if (!forgotten) return complain(forgotten.error());
  std::cout << (*forgotten ? "The login is forgotten; the server may still accept its tokens until "
                             "they run out.\n"
                           : "There was no login.\n");
  return *forgotten ? kOk : kNegative;
}

int run_tools(const ServersOptions& options) {
  Visit visit(options, options.logs_in);
  if (auto connected = visit.connect(); !connected) return complain(connected.error());
  const auto tools = visit.tools();
  if (!tools) return complain(tools.error());
  for (const mcp::Tool& tool : *tools) {
    // The file may leave tools out (allowed and denied names), as the server and `tenon chat` do.
    if (!visit.server().has_tool(tool.name)) continue;
    if (options.json) {
      std::cout << json::to_string(Object{{"name", tool.name},
                                          {"title", tool.title},
                                          {"description", tool.description},
                                          {"inputSchema", tool.input_schema},
                                          {"outputSchema", tool.output_schema},
                                          {"annotations", tool.annotations}})
                << '\n';
    } else {
      const std::string line =
          tool.name + (tool.description.empty() ? "" : "  " + tool.description);
      std::cout << shown(line, STDOUT_FILENO) << '\n';
    }
  }
  return kOk;
}

// What can be wrong in the arguments is told before a server is started for the call.
int run_call_tool(const ServersOptions& options) {
  Object arguments;
  if (!options.arguments.empty()) {
    auto given = json::parse(options.arguments);
    if (!given || given->if_object() == nullptr) {
      return complain(
          {kUsage, "the arguments must be an object of JSON, as in '{\"city\": \"Bled\"}'"});
    }
    arguments = std::move(*given->if_object());
  }
  if (const auto answers = json::parse(options.answers.empty() ? "{}" : options.answers);
      !answers || answers->if_object() == nullptr) {
    return complain({kUsage, "--answers must be an object of JSON"});
  }
  Visit visit(options, options.logs_in);
  if (auto connected = visit.connect(); !connected) return complain(connected.error());
  const auto tools = visit.tools();  // they say how a call is sent
  if (!tools) return complain(tools.error());
  if (!visit.server().has_tool(options.tool)) {
    return complain({kBadInput, options.file + " leaves out the tool '" + options.tool + "'"});
  }
  const auto result = visit.run(arguments);
  if (!result) return complain({kEngine, result.error().message});
  if (options.json) {
    std::cout << json::to_string(Object{{"text", result->text},
                                        {"is_error", result->is_error},
                                        {"structured", result->structured}})
              << '\n';
  } else {
    std::cout << shown(result->text, STDOUT_FILENO) << '\n';
  }
  return result->is_error ? kNegative : kOk;
}

void add_common(App app, ServersOptions& options) {
  app.add_option("name", options.name, "The server's name in the file").required();
  app.add_option("--mcp", options.file, "JSON file of mcpServers").required();
  app.add_option("--timeout", options.timeout_s, "Seconds for all of it, a login included")
      .between(1, 86'400);
}

}  // namespace

std::function<int()> add_mcp_servers(App mcp) {
  auto options = std::make_shared<ServersOptions>();
  const App login = mcp.add_subcommand("login", "Logs in at a server of tools (OAuth)");
  add_common(login, *options);
  login.add_option("--scope", options->scope, "Scopes to ask for, besides those that are needed");
  login.add_flag("--no-browser", options->no_browser, "Only shows the address");
  login.footer(
      "Shows the address of the login, opens it in a browser ($BROWSER, xdg-open), and waits.\n"
      "Example:\n  tenon mcp login crm --mcp mcp.json");
  const App logout = mcp.add_subcommand("logout", "Forgets a login");
  add_common(logout, *options);
  const App tools = mcp.add_subcommand("tools", "Lists the tools of a server");
  add_common(tools, *options);
  tools.add_flag("--json", options->json, "One object per line, with schemas and annotations");
  const App call = mcp.add_subcommand("call", "Calls a tool of a server");
  add_common(call, *options);
  call.add_option("tool", options->tool, "The tool's name").required();
  call.add_option("arguments", options->arguments, "An object of JSON (default: {})");
  call.add_flag("--json", options->json, "The result as JSON");
  call.add_option("--answers", options->answers,
                  "Object of JSON with the answers to what the server asks; defaults are added");
  call.footer(
      "Example:\n  tenon mcp call weather get_weather '{\"city\": \"Bled\"}' --mcp mcp.json");
  for (const App app : {tools, call}) {
    app.add_flag("--login", options->logs_in, "Logs in if the server asks for it");
  }
  return [=] {
    if (login.parsed()) return run_login(*options);
    if (logout.parsed()) return run_logout(*options);
    if (tools.parsed()) return run_tools(*options);
    if (call.parsed()) return run_call_tool(*options);
    // None of them: `tenon mcp` itself is to run.
    return -1;
  };
}

}  // namespace tenon::app
