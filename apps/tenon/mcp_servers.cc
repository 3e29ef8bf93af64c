#include "mcp_servers.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "conversation.h"
#include "terminal.h"
#include "user.h"
#include <unistd.h>

#include "tenon/chat/mcp_source.h"
#include "tenon/chat/toolbox.h"
#include "tenon/config/tools.h"
#include "tenon/json/value.h"
#include "tenon/mcp/client.h"
#include "tenon/mcp/token_store.h"

// `tenon mcp list` shows what a file of mcpServers has. `login`, `logout`, `tools` and `call` are
// about one server of it: server_named() finds its entry, and tells the faults of others. Each of
// these makes a Visit, which connects, answers what the server asks (the user at a terminal, or
// --answers), and ends at Ctrl-C or at --timeout. Logins are kept in the token file that all
// commands and the server share.

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
  // For all of it, a login included. Without a value a server gets as long as `tenon serve` gives
  // it to connect and to list its tools, and the command kMost.
  std::optional<std::int64_t> timeout_s;
};

constexpr std::chrono::seconds kMost{300};

void note(const std::string& text) {
  std::cerr << "tenon: " << shown(text, STDERR_FILENO) << '\n';
}

// The server of that name. Faults of other entries are told, and hinder nothing.
OrComplaint<mcp::ServerConfig> server_named(const ServersOptions& options) {
  auto entries = config::read_servers(options.file);
  if (!entries) return complaint(entries.error());
  std::string names;
  const mcp::ServerEntry* found = nullptr;
  for (const mcp::ServerEntry& entry : *entries) {
    const std::string& name = entry.config.name;
    if (!entry.is_disabled) names += (names.empty() ? "" : ", ") + name;
    if (name == options.name) {
      found = &entry;
    } else if (entry.fault) {
      note(entry.fault->message);
    }
  }
  const std::string asked = "'" + options.name + "'";
  if (found == nullptr) {
    return complaint(kBadInput, options.file + " has no server " + asked + "; it has " +
                                    (names.empty() ? "none" : names));
  }
  if (found->is_disabled) {
    return complaint(kBadInput, options.file + " has the server " + asked +
                                    " with \"disabled\": true: take that out to use it");
  }
  if (found->fault) return complaint(kBadInput, found->fault->message);
  return found->config;
}

bool is_at_terminal() {
  return isatty(STDIN_FILENO) == 1;
}

/// A tool in the list of a server.
struct ListedTool {
  mcp::Tool tool;
  std::string fault;  // why models are not offered it; "": they are
};

/// A connection to one server, for one command.
class Visit {
 public:
  Visit(const ServersOptions& options, mcp::ServerConfig server, bool logs_in)
      : options_(options),
        logs_in_(logs_in),
        limits_(Clock::now() + most()),
        server_(std::move(server)) {
    if (!options_.scope.empty()) server_.oauth.scope = options_.scope;
    if (!options_.answers.empty()) {
      const auto given = json::parse(options_.answers);
      if (given && given->if_object() != nullptr) given_ = *given->if_object();
    }
  }

  // Connects, and asks for the tools: they say how a call is sent.
  OrComplaint<std::vector<mcp::Tool>> open() {
    mcp::ClientOptions how{
        .version = std::string(kVersion), .asks_user = answers(), .tokens = config::tokens_file()};
    // A login takes as long as the user does.
    if (options_.timeout_s || logs_in_) how.connect_timeout = how.list_timeout = most();
    const auto longest = std::chrono::ceil<std::chrono::seconds>(
        std::min<std::chrono::milliseconds>(how.connect_timeout + how.list_timeout, most()));
    waiting_.emplace("waiting for " + server_.name + " of " + options_.file + ", " +
                     std::to_string(longest.count()) + " s at most (--timeout)");
    if (logs_in_) {
      // A call of a tool may ask for a login, too, long after this.
      how.on_login = [this](const std::string& address) {
        waiting_.reset();
        has_logged_in_ = true;
        show_login(address, !options_.no_browser);
      };
    }
    auto client = mcp::Client::connect(server_, how, call());
    if (!client) return Failure<Complaint>(failed(client.error()));
    client_ = *std::move(client);
    auto listed = client_->list_tools(call());
    waiting_.reset();
    if (!listed) return Failure<Complaint>(failed(listed.error()));
    return *std::move(listed);
  }

  OrComplaint<mcp::CallResult> run(const json::Object& arguments) {
    mcp::CallOptions how = call();
    if (answers()) {
      how.on_question = [this](const json::Value& params) { return answer(params); };
    }
    auto result = client_->call_tool(options_.tool, arguments, how);
    if (misfit_) {
      return complaint(kUsage, "--answers does not fit what " + server_.name +
                                   " asks, and was not sent: " + misfit_->message);
    }
    // Ctrl-C at a form declines it, and the server may still have answered.
    if (interruption_.signal() != 0) return Failure<Complaint>(failed({}));
    if (!result) return Failure<Complaint>(failed(result.error()));
    return *std::move(result);
  }

  // What the server lists, but for what the file leaves out, and then faulty entries of its list.
  [[nodiscard]] std::vector<ListedTool> listed(const std::vector<mcp::Tool>& tools) const {
    std::vector<ListedTool> all;
    for (const mcp::Tool& tool : tools) {
      const Status fit = chat::check_tool({.name = tool.name, .parameters = tool.input_schema});
      all.push_back({tool, fit ? "" : fit.error().message});
    }
    for (const auto& [name, why] : client_->left_out()) all.push_back({{.name = name}, why});
    std::erase_if(all, [this](const auto& one) { return !server_.has_tool(one.tool.name); });
    return all;
  }

  // Names in the file that no tool of the server has, and why they are told.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> strangers(
      const std::vector<mcp::Tool>& tools) const {
    return chat::strangers_in(server_, tools, client_->left_out());
  }

  [[nodiscard]] const mcp::ServerConfig& server() const { return server_; }
  [[nodiscard]] bool has_logged_in() const { return has_logged_in_; }
  /// The members of --answers that no form of the server had.
  [[nodiscard]] std::vector<std::string> unasked() const {
    std::vector<std::string> names;
    if (!given_) return names;
    for (const json::Member& one : *given_) {
      if (!asked_.contains(one.key)) names.push_back(one.key);
    }
    return names;
  }

 private:
  [[nodiscard]] std::chrono::seconds most() const {
    return options_.timeout_s ? std::chrono::seconds(*options_.timeout_s) : kMost;
  }
  // A command that a signal ends has the signal's status.
  [[nodiscard]] Complaint failed(const Error& why) const {
    const int signal = interruption_.signal();
    if (signal != 0) return {kSignal + signal, "it was interrupted"};
    return {kEngine, why.message};
  }
  // Told to the server at once: it may ask only a client that can answer.
  [[nodiscard]] bool answers() const { return given_ || is_at_terminal(); }
  [[nodiscard]] mcp::CallOptions call() const {
    return {.deadline = limits_, .cancel = interruption_.token()};
  }

  // What does not fit is not sent: the question is declined, and the command fails.
  [[nodiscard]] std::optional<json::Object> answer(const json::Value& params) {
    if (given_) {
      const json::Value* const members = json::at_pointer(params, "/requestedSchema/properties");
      if (members != nullptr && members->if_object() != nullptr) {
        for (const json::Member& one : *members->if_object()) asked_.insert(one.key);
      }
      auto content = answer_form(*given_, params);
      if (content) return *std::move(content);
      misfit_ = std::move(content.error());
      return std::nullopt;
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
  std::optional<json::Object> given_;  // --answers
  std::set<std::string> asked_;        // members of the forms that the server has sent
  std::optional<Error> misfit_;        // why --answers did not fit what the server asked
  std::optional<WaitNotice> waiting_;  // while the connection is made and the tools are listed
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
  Visit visit(options, *server, /*logs_in=*/true);
  const auto tools = visit.open();
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

// How a server is reached. The address may have secrets in its query, and arguments may be secrets.
std::string place_of(const mcp::ServerConfig& server) {
  return server.url.empty() ? server.command.front() : server.url.substr(0, server.url.find('?'));
}

// Lists the entries of the file without connecting to any of them.
int run_list(const ServersOptions& options) {
  const auto entries = config::read_servers(options.file);
  if (!entries) return complain(entries.error());
  bool is_whole = true;
  for (const mcp::ServerEntry& entry : *entries) {
    const std::string& name = entry.config.name;
    is_whole = is_whole && !entry.fault;
    const std::string place = entry.is_usable() ? place_of(entry.config) : "";
    const std::string fault = entry.fault ? entry.fault->message : "";
    if (options.json) {
      json::Object line{{"name", name}, {"disabled", entry.is_disabled}};
      if (!place.empty()) line.set(entry.config.url.empty() ? "command" : "url", place);
      if (!fault.empty()) line.set("fault", fault);
      std::cout << json::to_string(line) << '\n';
      continue;
    }
    const std::string about = !fault.empty()      ? "faulty: " + fault
                              : entry.is_disabled ? "disabled"
                                                  : place;
    std::cout << shown(name + "  " + about, STDOUT_FILENO) << '\n';
  }
  return is_whole ? kOk : kNegative;
}

int run_tools(const ServersOptions& options) {
  auto server = server_named(options);
  if (!server) return complain(server.error());
  Visit visit(options, *std::move(server), options.logs_in);
  const auto tools = visit.open();
  if (!tools) return complain(tools.error());
  const auto tell = [&options](const std::string& tool, const std::string& why) {
    note(options.file + ": " + config::left_out_note({options.name, tool, why}));
  };
  for (const auto& [name, why] : visit.strangers(*tools)) tell(name, why);
  for (const auto& [tool, fault] : visit.listed(*tools)) {
    if (!fault.empty()) tell(tool.name, fault);
    if (options.json) {
      Object line{{"name", tool.name},
                  {"title", tool.title},
                  {"description", tool.description},
                  {"inputSchema", tool.input_schema},
                  {"outputSchema", tool.output_schema},
                  {"annotations", tool.annotations}};
      if (!fault.empty()) line.set("fault", fault);
      std::cout << json::to_string(line) << '\n';
    } else {
      const std::string line = (tool.name.empty() ? "(without a name)" : tool.name) +
                               (fault.empty() ? "" : "  [faulty]") +
                               (tool.description.empty() ? "" : "  " + tool.description);
      std::cout << shown(line, STDOUT_FILENO) << '\n';
    }
  }
  return kOk;
}

// What can be wrong in the arguments is told before a server is started for the call.
OrComplaint<mcp::CallResult> call_tool(const ServersOptions& options) {
  Object arguments;
  if (!options.arguments.empty()) {
    auto given = json::parse(options.arguments);
    if (!given || given->if_object() == nullptr) {
      return complaint(kUsage,
                       "the arguments must be an object of JSON, as in '{\"city\": \"Bled\"}'");
    }
    arguments = std::move(*given->if_object());
  }
  if (const auto answers = json::parse(options.answers.empty() ? "{}" : options.answers);
      !answers || answers->if_object() == nullptr) {
    return complaint(kUsage, "--answers must be an object of JSON");
  }
  auto server = server_named(options);
  if (!server) return Failure<Complaint>(server.error());
  Visit visit(options, *std::move(server), options.logs_in);
  const auto tools = visit.open();
  if (!tools) return Failure<Complaint>(tools.error());
  if (!visit.server().has_tool(options.tool)) {
    return complaint(kBadInput, options.file + " leaves out the tool '" + options.tool + "'");
  }
  auto result = visit.run(arguments);
  if (!result) return result;
  for (const std::string& name : visit.unasked()) {
    note("--answers: " + options.name + " did not ask for " + json::quoted(name));
  }
  return result;
}

int run_call_tool(const ServersOptions& options) {
  const auto result = call_tool(options);
  if (!result) {
    const Complaint& why = result.error();
    if (options.json) {
      const Object error{{"message", why.message}, {"status", why.status}};
      std::cout << json::to_string(Object{{"error", error}}) << '\n';
    }
    return complain(why);
  }
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

Option add_file(App app, ServersOptions& options) {
  return app.add_option("--mcp", options.file, "JSON file of mcpServers").required();
}

void add_server(App app, ServersOptions& options) {
  app.add_option("name", options.name, "The server's name in the file").required();
  add_file(app, options);
}

void add_timeout(App app, ServersOptions& options) {
  app.add_option(
         "--timeout", options.timeout_s,
         "Seconds for all of it; default: 300, of which a server has 30 to connect and 30 to "
         "list its tools, unless there is a login")
      .between(std::int64_t{1}, std::int64_t{86'400});
}

}  // namespace

std::function<int()> add_mcp_servers(App mcp) {
  auto options = std::make_shared<ServersOptions>();
  const App list = mcp.add_subcommand("list", "Lists the servers of a file of mcpServers");
  add_file(list, *options);
  list.add_flag("--json", options->json, "One object per line");
  list.footer(
      "Connects to none of them. Exit status 1 if an entry is faulty; the other servers can still "
      "be used.\n"
      "Example:\n  tenon mcp list --mcp mcp.json");
  const App login = mcp.add_subcommand("login", "Logs in at a server of tools (OAuth)");
  add_server(login, *options);
  add_timeout(login, *options);
  login.add_option("--scope", options->scope, "Scopes to ask for, besides those that are needed");
  login.add_flag("--no-browser", options->no_browser, "Only shows the address");
  login.footer(
      "Shows the address of the login, opens it in a browser ($BROWSER, xdg-open), and waits.\n"
      "Example:\n  tenon mcp login crm --mcp mcp.json");
  const App logout = mcp.add_subcommand("logout", "Forgets a login");
  add_server(logout, *options);
  const App tools = mcp.add_subcommand("tools", "Lists the tools of a server");
  add_server(tools, *options);
  add_timeout(tools, *options);
  tools.add_flag("--json", options->json, "One object per line, with schemas and annotations");
  const App call = mcp.add_subcommand("call", "Calls a tool of a server");
  add_server(call, *options);
  add_timeout(call, *options);
  call.add_option("tool", options->tool, "The tool's name").required();
  call.add_option("arguments", options->arguments, "An object of JSON (default: {})");
  call.add_flag("--json", options->json, "The result, or the error, as JSON");
  call.add_option("--answers", options->answers,
                  "Object of JSON with the answers to what the server asks; defaults are added");
  call.footer(
      "Example:\n  tenon mcp call weather get_weather '{\"city\": \"Bled\"}' --mcp mcp.json");
  for (const App app : {tools, call}) {
    app.add_flag("--login", options->logs_in, "Logs in if the server asks for it");
  }
  return [=] {
    // None of them: `tenon mcp` itself is to run.
    const auto subcommands = {list, login, logout, tools, call};
    if (std::ranges::none_of(subcommands, &App::parsed)) return -1;
    const auto told = refuse_options(
        mcp, {"--http", "--folder", "--config", "--model", "--root", "--ask-timeout"},
        "here: it is for tenon mcp as a server");
    if (!told) return complain(told.error());
    if (list.parsed()) return run_list(*options);
    if (login.parsed()) return run_login(*options);
    if (logout.parsed()) return run_logout(*options);
    if (tools.parsed()) return run_tools(*options);
    return run_call_tool(*options);
  };
}

}  // namespace tenon::app
