#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "command.h"
#include "conversation.h"
#include "terminal.h"
#include "trace_view.h"
#include "user.h"
#include <unistd.h>

#include "tenon/base/process.h"
#include "tenon/base/utf8.h"
#include "tenon/chat/conversation.h"
#include "tenon/chat/converse.h"
#include "tenon/chat/hosts.h"
#include "tenon/chat/mcp_source.h"
#include "tenon/chat/toolbox.h"
#include "tenon/config/tools.h"

// `tenon chat`: a loop of lines from a terminal or a pipe. Chat reads a line, which is a command
// (kHelp) or a question, asks with chat::Conversation, which runs the tools of a file or of
// servers, and prints the events while they come (Printer). At a terminal the user allows each run
// of a tool, answers for tools that nothing runs, and answers what a server of tools asks
// meanwhile. Without a terminal tools run only with --yes.

namespace tenon::app {
namespace {

constexpr std::string_view kHelp =
    "  /tools   the tools that the model may call\n"
    "  /prompts          texts that servers offer; /prompt SERVER:NAME [ARGUMENT=TEXT ...] asks "
    "one\n"
    "  /resources        what servers let read; @SERVER:URI in a question adds its text\n"
    "  /reset   forgets the conversation\n"
    "  /quit    ends it (as do Ctrl-D and an end of input)\n"
    "  /help    this list\n"
    "When the model calls a tool that nothing runs you are the tool: type its result.\n";

// A signal that ends us at a prompt, or while a model is loaded, ends the programs that we started,
// too: a server of tools may not notice that its client has gone.
void end_programs_with_us() {
  struct sigaction action{};
  action.sa_handler = [](int signal) {
    ask_programs_to_end();
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before{};
    sigaction(signal, nullptr, &before);
    // As with nohup: a signal that was ignored when we were started stays ignored.
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

/// Prints an answer while it comes: text as it is, reasoning dim, calls in colour.
class Printer {
 public:
  explicit Printer(bool colours) : colours_(colours) {}

  void show(const message::ChatEvent& event) {
    if (const auto* content = std::get_if<message::ContentDelta>(&event)) {
      write("", content->text);
    } else if (const auto* reasoning = std::get_if<message::ReasoningDelta>(&event)) {
      write("\033[2m", reasoning->text);
    } else if (const auto* begin = std::get_if<message::CallBegin>(&event)) {
      write("\033[36m", (is_mid_line_ ? "\n" : "") + ("-> " + begin->name + " "));
    } else if (const auto* arguments = std::get_if<message::CallArguments>(&event)) {
      write("\033[36m", arguments->text);
    } else if (std::holds_alternative<message::CallEnd>(event)) {
      write("", "\n");
    } else if (const auto* finish = std::get_if<message::Finish>(&event)) {
      if (finish->reason == message::FinishReason::length) write("\033[2m", " [cut: no room]");
      if (finish->reason == message::FinishReason::cancelled) write("\033[2m", " [stopped]");
      if (is_mid_line_) write("", "\n");
    }
  }

 private:
  void write(std::string_view colour, std::string_view text) {
    if (text.empty()) return;
    const bool paints = colours_ && !colour.empty();
    std::cout << (paints ? colour : "") << shown(text, STDOUT_FILENO) << (paints ? "\033[0m" : "")
              << std::flush;
    is_mid_line_ = text.back() != '\n';
  }

  const bool colours_;
  bool is_mid_line_ = false;
};

struct ChatOptions {
  AskOptions ask;
  std::string mcp;                   // JSON file of mcpServers; "": no servers
  bool yes = false;                  // runs tools without asking
  std::int64_t max_rounds = 20;      // answers of the model to one question
  std::int64_t tool_timeout_s = 60;  // for one run of a tool
  bool remembers = false;            // a repeated call gets the result from before
  bool resources = false;            // the model may list and read what servers offer
  bool trace = false;                // see trace_view.h
};

/// The tools, and the servers that some of them belong to.
struct Tools {
  std::unique_ptr<chat::Toolbox> box;
  std::vector<std::shared_ptr<chat::McpServer>> servers;
};

class Chat {
 public:
  Chat(std::shared_ptr<chat::Model> model, message::ChatRequest request, Tools tools,
       const ChatOptions& options, std::shared_ptr<std::string> trace)
      : model_(std::move(model)),
        toolbox_(std::move(tools.box)),
        servers_(std::move(tools.servers)),
        options_(options),
        trace_(std::move(trace)),
        talk_(model_, chat::Conversation::Options{.request = std::move(request)}),
        memory_(options.remembers ? std::make_shared<chat::ToolMemory>() : nullptr),
        is_terminal_(isatty(STDIN_FILENO) == 1) {}

  int run() {
    if (is_terminal_) {
      std::cout << "Chat with " << shown(model_->name(), STDOUT_FILENO)
                << ". /help lists the commands.\n";
    }
    std::string line;
    while (read("> ", line)) {
      if (line.empty()) continue;
      const auto outcome = line[0] == '/' ? command(line) : ask_with_resources(line);
      if (!outcome) break;
      const int status = *outcome;
      // At a terminal a failed answer is told and the conversation goes on; in a pipe it ends the
      // command.
      if (status > kSignal || (status != kOk && !is_terminal_)) return status;
    }
    if (is_terminal_) std::cout << '\n';
    return kOk;
  }

 private:
  // False: there is no more input, or Ctrl-C came.
  bool read(std::string_view prompt, std::string& line) const {
    if (is_terminal_) std::cout << shown(prompt, STDOUT_FILENO) << std::flush;
    if (is_terminal_ && !Interruption::wait_for_input()) return false;
    errno = 0;
    // Ctrl-C during the read makes it fail with EINTR. The stream's error is cleared, so that the
    // next question can be read; the end of the input stays.
    if (std::getline(std::cin, line)) return true;
    if (errno == EINTR || !std::cin.eof()) std::cin.clear();
    return false;
  }

  [[nodiscard]] ReadLine reader() const {
    return [this](std::string_view prompt, std::string& line) { return read(prompt, line); };
  }

  // The status that a pipe ends with if it is not kOk. No value: the user has ended the
  // conversation.
  std::optional<int> command(const std::string& line) {
    if (line == "/quit" || line == "/exit") return std::nullopt;
    if (line == "/reset") {
      talk_.reset();
    } else if (line == "/tools") {
      list_tools();
    } else if (line == "/prompts") {
      list_prompts();
    } else if (line == "/resources") {
      list_resources();
    } else if (line == "/prompt" || line.starts_with("/prompt ")) {
      const auto text = prompt_of(line);
      return text ? turn(*text) : int{kEngine};
    } else {
      if (line != "/help") std::cout << "There is no command " << line << ".\n";
      std::cout << kHelp;
    }
    return kOk;
  }

  void list_tools() const {
    std::vector<message::Tool> tools = talk_.request().tools;
    const chat::ToolSet others = toolbox_->tools().beside(tools);
    tools.insert(tools.end(), others.list().begin(), others.list().end());
    if (tools.empty()) tell_why_no_tools();
    for (const message::Tool& tool : tools) {
      std::string line = "  " + tool.name;
      if (!tool.description.empty()) line += "  " + tool.description;
      std::cout << shown(line, STDOUT_FILENO) << '\n';
    }
    for (const chat::LeftOutTool& one : toolbox_->left_out()) {
      say("  not offered: " + config::left_out_note(one));
    }
  }

  void tell_why_no_tools() const {
    if (options_.mcp.empty())
      return say("There are no tools; --tools FILE and --mcp FILE name some.");
    say("There are no tools:");
    if (servers_.empty()) say("  " + options_.mcp + " has no server that can be used");
    const auto silent = toolbox_->silent_sources();
    for (const auto& server : servers_) {
      const auto found =
          std::ranges::find(silent, server->name(), &std::pair<std::string, std::string>::first);
      say("  " + server->name() + ": " +
          (found != silent.end() ? found->second
                                 : "it has no tools, or all of them are left out (includeTools, "
                                   "disabledTools)"));
    }
  }

  static void say(const std::string& line) { std::cout << shown(line, STDOUT_FILENO) << '\n'; }

  // How long a server may take that the user asks.
  [[nodiscard]] chat::ToolContext moment(const Interruption& interruption) {
    return {.cancel = interruption.token(),
            .deadline =
                std::chrono::steady_clock::now() + std::chrono::seconds(options_.tool_timeout_s),
            .on_question = [this](const std::string& server, const json::Value& params) {
              return ask(server, params);
            }};
  }

  std::optional<json::Object> ask(const std::string& server, const json::Value& params) {
    const std::lock_guard lock(asking_);  // tools that run at a time ask in turn
    return ask_user(server, params, reader());
  }

  void list_prompts() {
    const Interruption interruption;
    std::size_t count = 0;
    for (const auto& server : servers_) {
      const auto prompts = server->prompts(moment(interruption));
      if (!prompts) say("  " + server->name() + ": " + prompts.error().message);
      for (const mcp::Prompt& one : prompts.value_or(std::vector<mcp::Prompt>())) {
        std::string line = "  " + server->name() + ":" + one.name;
        for (const auto& argument : one.arguments) {
          line +=
              argument.is_required ? " " + argument.name + "=..." : " [" + argument.name + "=...]";
        }
        say(line + (one.description.empty() ? "" : "  " + one.description));
        ++count;
      }
    }
    if (count == 0) say("There are no prompts.");
  }

  void list_resources() {
    const Interruption interruption;
    std::size_t count = 0;
    for (const auto& server : servers_) {
      const auto resources = server->resources(moment(interruption));
      if (!resources) say("  " + server->name() + ": " + resources.error().message);
      for (const mcp::Resource& one : resources.value_or(std::vector<mcp::Resource>())) {
        const std::string& about = one.description.empty() ? one.name : one.description;
        say("  @" + server->name() + ":" + one.uri + (about.empty() ? "" : "  " + about));
        ++count;
      }
    }
    if (count == 0) say("There are no resources.");
  }

  // The server that a word such as "files:readme" begins with, and the rest; null: no server has
  // the name. The rest may have colons, as addresses do.
  [[nodiscard]] std::pair<chat::McpServer*, std::string> server_in(std::string_view word) const {
    for (const auto& server : servers_) {
      const std::string& name = server->name();
      if (word.starts_with(name) && word.size() > name.size() && word[name.size()] == ':') {
        return {server.get(), std::string(word.substr(name.size() + 1))};
      }
    }
    return {nullptr, ""};
  }

  // The text of "/prompt SERVER:NAME ARGUMENT=TEXT ..."; a text goes on up to the next "NAME=".
  std::optional<std::string> prompt_of(const std::string& line) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() < 2) {
      complain(
          {kEngine, "/prompt SERVER:NAME [ARGUMENT=TEXT ...] asks a prompt; /prompts lists them"});
      return std::nullopt;
    }
    const auto [server, name] = server_in(words[1]);
    if (server == nullptr) {
      complain({kEngine, "there is no prompt " + words[1] + "; /prompts lists them"});
      return std::nullopt;
    }
    json::Object arguments;
    std::string last;
    for (std::size_t i = 2; i < words.size(); ++i) {
      const auto equals = words[i].find('=');
      if (equals != std::string::npos) {
        last = words[i].substr(0, equals);
        arguments.set(last, words[i].substr(equals + 1));
      } else if (!last.empty()) {
        arguments.set(last, *arguments.find(last)->if_string() + " " + words[i]);
      }
    }
    const Interruption interruption;
    const auto messages = server->prompt(name, arguments, moment(interruption));
    if (!messages) {
      complain({kEngine, words[1] + ": " + messages.error().message});
      return std::nullopt;
    }
    const bool has_others = std::ranges::any_of(
        *messages, [](const mcp::PromptMessage& one) { return one.role != "user"; });
    std::string text;
    for (const mcp::PromptMessage& one : *messages) {
      text += (text.empty() ? "" : "\n\n") + (has_others ? one.role + ": " : "") + one.text;
    }
    say(text);
    return text;
  }

  // Asks the question, with the texts of the resources that it names behind it. If one of them
  // cannot be read, it is not asked: the model would answer without what the user meant it to read.
  int ask_with_resources(const std::string& line) {
    std::string text = line;
    for (const std::string& word : addresses_in(line)) {
      const auto [server, uri] = server_in(word);
      if (server == nullptr) continue;
      const Interruption interruption;
      const auto content = server->read(uri, moment(interruption));
      if (!content) {
        return complain({kEngine, "@" + word + ": " + content.error().message +
                                      ": the question was not asked; ask it again with another "
                                      "address, or without it"});
      }
      text += "\n\n[" + uri + " of " + server->name() + ", as it was read:]\n" + *content;
    }
    return turn(text);
  }

  // Answers, and goes on with the tools' results, until the model writes an answer without a call.
  // A signal that asks the program to end waits until no tool runs.
  int turn(const std::string& question) {
    const Interruption interruption(/*ends=*/true);
    Printer printer(has_colours());
    const chat::Report report = chat::converse(
        talk_, question, *toolbox_,
        {.on_event =
             [&](const message::ChatEvent& event) {
               printer.show(event);
               if (std::holds_alternative<message::Finish>(event)) show_trace();
             },
         .cancel = interruption.token(),
         .max_rounds = static_cast<std::size_t>(options_.max_rounds),
         .approve = [this](const message::ToolCall& call,
                           const std::string& identity) { return is_allowed(call, identity); },
         .on_result = &Chat::show,
         .on_question = [this](const std::string& server,
                               const json::Value& params) { return ask(server, params); },
         .memory = memory_,
         .other_tools = [this](const message::ToolCall& call) { return result_of(call); }});
    if (report.refusal) {
      show_trace();
      // The calls that wait get an answer, so that the next question can be asked.
      talk_.dismiss_calls("The conversation was interrupted.", report.results);
      return complain(complaint_of(*report.refusal));
    }
    if (report.end == chat::Report::End::calls_left)
      talk_.dismiss_calls("There is no result.", report.results);
    const int signal = interruption.signal();
    return signal != 0 && signal != SIGINT ? kSignal + signal : kOk;
  }

  void show_trace() {
    std::cout << std::flush;
    std::cerr << std::exchange(*trace_, "") << std::flush;
  }

  // `identity` says who runs the tool and how it is described, so "always" does not cover another
  // tool that has the name later.
  bool is_allowed(const message::ToolCall& call, const std::string& identity) {
    if (options_.yes || allowed_.contains(identity)) return true;
    // Without a terminal the next line is not meant as the answer to this question.
    if (!is_terminal_) return false;
    const chat::ToolSet known = toolbox_->known_tools();
    const chat::ToolOrigin* const origin = known.origin(call.name);
    const std::string hints = origin == nullptr ? "" : chat::hints_of(origin->annotations);
    const std::string told = hints.empty() ? "" : " " + origin->source + " says: it " + hints + ".";
    const std::string word =
        ask_word("run " + described(call) + "?" + told, {"yes", "no", "always"}, reader());
    if (word == "always") allowed_.insert(identity);
    return word == "always" || word == "yes";
  }

  // The first line of a result, in short.
  static void show(const message::ToolCall& call, const chat::ToolResult& result) {
    constexpr std::size_t kMost = 200;
    std::string line = result.output.substr(0, std::min(result.output.find('\n'), kMost));
    if (line.size() < result.output.size()) {
      line += " ... (" + std::to_string(result.output.size()) + " bytes)";
    }
    std::cout << (has_colours() ? "\033[2m" : "")
              << shown("<- " + call.name + " " + utf8::sanitized(line), STDOUT_FILENO)
              << (has_colours() ? "\033[0m" : "") << '\n'
              << std::flush;
  }

  std::optional<chat::ToolResult> result_of(const message::ToolCall& call) const {
    std::string line;
    if (!read("result of " + call.name + "> ", line)) return std::nullopt;
    return chat::ToolResult{.tool_call_id = call.id, .output = line};
  }

  const std::shared_ptr<chat::Model> model_;
  const std::unique_ptr<chat::Toolbox> toolbox_;
  const std::vector<std::shared_ptr<chat::McpServer>> servers_;
  const ChatOptions& options_;
  const std::shared_ptr<std::string> trace_;  // of the answer that has ended; "": it was shown
  chat::Conversation talk_;
  const std::shared_ptr<chat::ToolMemory> memory_;  // null: each call is run
  const bool is_terminal_;
  std::mutex asking_;
  std::set<std::string> allowed_;  // identities of tools that may run without asking
};

OrComplaint<Tools> make_tools(const ChatOptions& options, const config::ToolsFile& file) {
  Tools tools{.box = std::make_unique<chat::Toolbox>(chat::Toolbox::Options{
                  .time_limit = std::chrono::seconds(options.tool_timeout_s)})};
  if (auto added = config::add_commands(file, options.ask.tools_file, *tools.box); !added) {
    return complaint(added.error());
  }
  if (!options.mcp.empty()) {
    config::ServerOptions user{.on_server = [&tools](std::shared_ptr<chat::McpServer> server) {
      tools.servers.push_back(std::move(server));
    }};
    // A server may ask the user only where there is one.
    user.asks_user = isatty(STDIN_FILENO) == 1;
    const WaitNotice waiting("waiting for the servers of " + options.mcp + ", 10 s at most");
    const auto notes = config::add_servers(options.mcp, *tools.box, /*must_answer=*/true, user);
    if (!notes) return complaint(notes.error());
    for (const std::string& note : *notes) std::cerr << shown(note, STDERR_FILENO) << '\n';
  }
  if (options.resources) {
    if (auto added = config::add_resources(tools.servers, *tools.box); !added) {
      return complaint(added.error());
    }
  }
  if (!tools.box->tools().list().empty() && !options.yes && isatty(STDIN_FILENO) != 1) {
    return complaint(kUsage,
                     "tools would be run, and no user can be asked, because the input is not a "
                     "terminal: --yes allows all of them");
  }
  return tools;
}

std::string name_in(const json::Value& tool) {
  for (const std::string_view pointer : {"/function/name", "/custom/name"}) {
    const json::Value* const name = json::at_pointer(tool, pointer);
    if (name != nullptr && name->if_string() != nullptr) return *name->if_string();
  }
  return "";
}

// What each request has. Tools of MCP servers come and go, so they are not in it; they are only
// known when the request is checked, because --tool-choice may name one. A question is needed for
// the check, too; both are taken off again.
OrComplaint<message::ChatRequest> beginning(const AskOptions& options,
                                            const config::ToolsFile& file,
                                            const chat::Toolbox& toolbox) {
  json::Array tools;
  std::set<std::string> own;
  for (std::size_t i = 0; i < file.tools.size(); ++i) {
    if (!file.commands[i].empty()) continue;
    tools.push_back(file.tools[i]);
    own.insert(name_in(file.tools[i]));
  }
  const std::size_t count = tools.size();
  const chat::ToolSet others = toolbox.tools();
  for (const message::Tool& tool : others.list()) {
    if (!own.contains(tool.name)) tools.push_back(tool.raw);
  }
  auto body = request_body(options, std::move(tools));
  if (!body) return Failure<Complaint>(body.error());
  json::Array& messages = *body->find("messages")->if_array();
  const std::size_t before = messages.size();
  messages.emplace_back(json::Object{{"role", "user"}, {"content", "A request has a question."}});
  auto request = decode_request(*body);
  if (!request) return request;
  request->messages.resize(before);
  request->tools.resize(count);
  return request;
}

// Options that only matter with another one are refused without it, since their user expects
// something of them.
OrComplaint<void> refuse_useless_options(App app, const ChatOptions& options) {
  if (options.mcp.empty()) {
    if (auto told = refuse_options(app, {"--resources"}, "without --mcp"); !told) return told;
  }
  if (!options.mcp.empty() || !options.ask.tools_file.empty()) return {};
  return refuse_options(app, {"--yes", "--max-rounds", "--remember", "--tool-timeout"},
                        "without tools (--tools, --mcp)");
}

int run_chat(App app, const ChatOptions& options) {
  if (auto told = refuse_useless_options(app, options); !told) return complain(told.error());
  end_programs_with_us();
  const auto file = config::read_tools(options.ask.tools_file);
  if (!file) return complain(file.error());
  auto tools = make_tools(options, *file);
  if (!tools) return complain(tools.error());
  auto request = beginning(options.ask, *file, *tools->box);
  if (!request) return complain(request.error());
  auto model = load_model(options.ask);
  if (!model) return complain(model.error());
  const auto trace = std::make_shared<std::string>();
  if (options.trace) {
    // It is printed behind the answer, whose text another thread prints.
    model = with_trace(*std::move(model),
                       [trace](const AnswerTrace& one) { *trace = one.text(paints_traces()); });
  }
  return Chat(*std::move(model), *std::move(request), *std::move(tools), options, trace).run();
}

}  // namespace

Command add_chat(App tenon) {
  const App app =
      tenon.add_subcommand("chat", "Talks with a model; shows its calls as it makes them");
  auto options = std::make_shared<ChatOptions>();
  add_ask_options(app, options->ask);
  app.add_option("--mcp", options->mcp,
                 "JSON file of mcpServers, as Claude Desktop, Cursor and others read it");
  app.add_flag("--resources", options->resources,
               "Tools with which the model lists and reads what the servers of --mcp let read");
  app.add_flag("--yes", options->yes, "Runs tools without asking");
  app.add_option("--max-rounds", options->max_rounds,
                 "Most answers of the model to one question, those with calls included")
      .between(1, 1000);
  app.add_flag("--remember", options->remembers,
               "A repeated call is not run again: it gets the result from before");
  app.add_option("--tool-timeout", options->tool_timeout_s, "Seconds that a tool may take")
      .between(1, 86'400);
  app.add_flag("--trace", options->trace,
               "Prints after each answer its prompt, the tokens and events with their times, and "
               "why a call failed, to stderr");
  app.footer(
      "A tool of --tools with a \"command\" is run: it gets its arguments as JSON on stdin, and "
      "its\n"
      "stdout is the result. A tool without a command is you: type its result on the next line.\n"
      "The model runs here. A server is asked with `tenon call --url` or on its page /, and shows\n"
      "at /inspector what `tenon serve --record FOLDER` has kept, as --trace does here.\n"
      "Example:\n  tenon chat --tools examples/tools.json\n"
      "  tenon chat --mcp mcp.json\n  echo 'Hello!' | tenon chat");
  return {app, [app, options] { return run_chat(app, *options); }};
}

}  // namespace tenon::app
