#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "agents.h"
#include "command.h"
#include "running_server.h"
#include <unistd.h>

#include "tenon/base/descriptor.h"
#include "tenon/config/files.h"
#include "tenon/json/members.h"

// `tenon launch AGENT`: asks a running server for its model and the size of its context, fills the
// row of the agent (agents.cc) with them, and becomes the agent (execvp), or prints what it would
// do as lines for a shell.

namespace tenon::app {
namespace {

// The context of a model, if the server does not tell it.
constexpr std::uint64_t kUnknownContext = 32'768;

struct LaunchOptions {
  std::string agent;
  std::string url = "http://127.0.0.1:8080";
  std::string model;                   // "": the server's only one
  bool print = false;                  // do not start the agent, print how
  std::vector<std::string> arguments;  // of the agent itself
};

std::string names_of(const json::Array& models) {
  std::string names;
  for (const json::Value& model : models) {
    const json::Value* const id = model.find("id");
    if (id == nullptr || id->if_string() == nullptr) continue;
    names += (names.empty() ? "'" : ", '") + *id->if_string() + "'";
  }
  return names;
}

bool is_called(const json::Value& model, const std::string& name) {
  const json::Value* const id = model.find("id");
  if (id != nullptr && id->if_string() != nullptr && *id->if_string() == name) return true;
  const json::Value* const aliases = model.find("aliases");
  if (aliases == nullptr || aliases->if_array() == nullptr) return false;
  return std::ranges::any_of(*aliases->if_array(), [&](const json::Value& alias) {
    return alias.if_string() != nullptr &&
           (*alias.if_string() == name || *alias.if_string() == "*");
  });
}

// Asks the server for its models. With several, one must be named; what is wrong is told with what
// the user can do about it.
OrComplaint<Served> served_by(const LaunchOptions& options) {
  const std::string server(server_of(options.url));
  auto client = http::Client::create();
  if (!client) return complaint(kEngine, client.error().message);
  http::ClientRequest request{.url = server + "/v1/models"};
  request.time_limit = std::chrono::seconds(30);
  auto listed = fetch_json(**client, std::move(request));
  if (!listed && listed.error().status == kEngine) {
    return complaint(kEngine,
                     listed.error().message +
                         "; start a server with `tenon serve`, or say with --url where one "
                         "is");
  }
  if (!listed) {
    return complaint(listed.error().status,
                     listed.error().message + " (TENON_API_KEY holds the server's key)");
  }
  const json::Value* const data = listed->find("data");
  const json::Array* const models = data == nullptr ? nullptr : data->if_array();
  if (models == nullptr || models->empty()) return complaint(kEngine, server + " has no model");
  const auto found = options.model.empty()
                         ? models->begin()
                         : std::ranges::find_if(*models, [&](const json::Value& model) {
                             return is_called(model, options.model);
                           });
  if (found == models->end()) {
    return complaint(kBadInput,
                     server + " has no model '" + options.model + "'; it has " + names_of(*models));
  }
  if (options.model.empty() && models->size() > 1) {
    return complaint(kUsage,
                     server + " has several models; name one with --model: " + names_of(*models));
  }
  Served served{.server = server, .model = options.model, .key = server_key()};
  // The client's own name for it, which may be an alias.
  if (served.model.empty()) served.model = json::text_in(*found, "id");
  // A server without keys takes any, and agents want one.
  if (served.key.empty()) served.key = "none";
  const std::int64_t tokens = json::number_in(*found, "context_length");
  served.context = tokens > 0 ? static_cast<std::uint64_t>(tokens) : kUnknownContext;
  return served;
}

// For a shell: what stands between the apostrophes is taken as it is.
std::string shell_word(const std::string& word) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr("-_./:=", c) != nullptr;
  };
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return word;
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

// Lines that a shell takes: `unset`, `export`, and the command.
void print(const AgentRow& agent, const Launch& launch) {
  for (const std::string_view name : agent.unset) std::cout << "unset " << name << "\n";
  for (const auto& [name, value] : launch.environment) {
    std::cout << "export " << name << "=" << shell_word(value) << "\n";
  }
  const char* before = "";
  for (const std::string& word : launch.command) {
    std::cout << before << shell_word(word);
    before = " ";
  }
  std::cout << std::endl;
}

// Writes what the agent is told of, for the user alone: it may hold the server's key.
OrComplaint<void> write_file(const AgentRow& agent, const Served& served, const std::string& text) {
  namespace fs = std::filesystem;
  if (agent.file_name.empty()) return {};
  if (served.folder.empty()) {
    return complaint(kBadInput, std::string(agent.name) +
                                    " is told of a file, and neither XDG_STATE_HOME nor HOME says "
                                    "where it may be");
  }
  std::error_code failed;
  fs::create_directories(served.folder, failed);
  const std::string path = served.folder + "/" + std::string(agent.file_name);
  // Another launch may read it meanwhile, so the new file takes the place of the old one whole.
  std::string partial = path + ".XXXXXX";
  const Descriptor file(failed ? -1 : ::mkstemp(partial.data()));  // mkstemp: mode 0600.
  const bool is_written = file.is_open() && ::write(file.get(), text.data(), text.size()) ==
                                                static_cast<ssize_t>(text.size());
  if (is_written && std::rename(partial.c_str(), path.c_str()) == 0) return {};
  const int error = failed ? failed.value() : errno;
  if (file.is_open()) ::unlink(partial.c_str());
  return complaint(kBadInput, path + " cannot be written: " + std::strerror(error) +
                                  "; XDG_STATE_HOME names another folder");
}

int start(const AgentRow& agent, Launch launch) {
  for (const std::string_view name : agent.unset) unsetenv(std::string(name).c_str());
  for (const auto& [name, value] : launch.environment) {
    setenv(name.c_str(), value.c_str(), /*replace=*/1);
  }
  std::vector<char*> command;
  for (std::string& word : launch.command) command.push_back(word.data());
  command.push_back(nullptr);
  // Returns only if it fails. The agent has our terminal and our process id, so signals and its
  // status need no forwarding.
  execvp(command.front(), command.data());
  const int error = errno;
  const std::string program(agent.program);
  if (error == ENOENT) {
    return complain({kBadInput, "there is no program '" + program +
                                    "' on the PATH; install it: " + std::string(agent.install)});
  }
  return complain({kBadInput, program + " cannot be started: " + std::strerror(error)});
}

int list_agents() {
  for (const AgentRow& agent : agents()) {
    std::cout << agent.name << std::string(10 - std::min<std::size_t>(agent.name.size(), 9), ' ')
              << agent.install << "\n";
  }
  return kOk;
}

// The agent's file is written in both cases: with --print the lines that are printed name it.
int run_launch(const LaunchOptions& options) {
  if (options.agent.empty()) return list_agents();
  const AgentRow* const agent = find_agent(options.agent);
  if (agent == nullptr) {
    std::string names;
    for (const AgentRow& each : agents())
      names += (names.empty() ? "" : ", ") + std::string(each.name);
    return complain({kUsage, "there is no agent '" + options.agent + "'; there are " + names});
  }
  auto served = served_by(options);
  if (!served) return complain(served.error());
  if (served->context < agent->least_context) {
    std::cerr << "tenon: " << agent->name << " needs a context of " << agent->least_context
              << " tokens or more, and '" << served->model << "' has " << served->context
              << ": its requests may be refused" << std::endl;
  }
  if (std::string state = config::state_folder(); !state.empty()) {
    served->folder = state + "/launch/" + std::string(agent->name);
  }
  Launch launch = launch_of(*agent, *served, options.arguments);
  if (const auto written = write_file(*agent, *served, launch.file); !written) {
    return complain(written.error());
  }
  if (options.print) {
    print(*agent, launch);
    return kOk;
  }
  return start(*agent, std::move(launch));
}

}  // namespace

Command add_launch(App tenon) {
  const App app =
      tenon.add_subcommand("launch", "Starts a coding agent that uses a running server");
  auto options = std::make_shared<LaunchOptions>();
  app.add_option("agent", options->agent, "Which; without it, the agents are listed");
  app.add_option("arguments", options->arguments, "What the agent itself is told, behind `--`");
  app.add_option("--url", options->url, "The server's address")
      .envname("TENON_URL")
      .capture_default_str();
  app.add_option("--model", options->model,
                 "A name of GET /v1/models; needed if there are several");
  app.add_flag("--print", options->print,
               "Print the environment and the command for a shell instead");
  app.footer(
      "The agent gets the server's address, the model and the key (TENON_API_KEY) by its\n"
      "environment and command line; none of its files is written (docs/clients).\n"
      "Examples:\n  tenon launch claude\n  tenon launch codex -- exec \"Which file is the "
      "largest?\"");
  return {app, [options] { return run_launch(*options); }};
}

}  // namespace tenon::app
