#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "command.h"
#include "conversation.h"
#include "terminal.h"
#include <CLI/CLI.hpp>
#include <unistd.h>

namespace tenon::app {
namespace {

constexpr std::string_view kHelp =
    "  /tools   the tools that the model may call\n"
    "  /reset   forgets the conversation\n"
    "  /quit    ends it (as do Ctrl-D and an end of input)\n"
    "  /help    this list\n"
    "When the model calls a tool you are the tool: type its result.\n";

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

class Chat {
 public:
  Chat(std::shared_ptr<chat::Model> model, json::Object body)
      : model_(std::move(model)),
        body_(std::move(body)),
        start_(*body_["messages"].if_array()),
        is_terminal_(isatty(STDIN_FILENO) == 1) {}

  int run() {
    if (is_terminal_) {
      std::cout << "Chat with " << shown(model_->name(), STDOUT_FILENO)
                << ". /help lists the commands.\n";
    }
    std::string line;
    while (read("> ", line)) {
      if (line.empty()) continue;
      if (line[0] == '/') {
        if (!command(line)) break;
        continue;
      }
      if (const int status = turn(line); status != kOk && !is_terminal_) return status;
    }
    if (is_terminal_) std::cout << '\n';
    return kOk;
  }

 private:
  json::Array& messages() { return *body_["messages"].if_array(); }

  bool read(std::string_view prompt, std::string& line) {
    if (is_terminal_) std::cout << shown(prompt, STDOUT_FILENO) << std::flush;
    return static_cast<bool>(std::getline(std::cin, line));
  }

  // False: the conversation is over.
  bool command(const std::string& line) {
    if (line == "/quit" || line == "/exit") return false;
    if (line == "/reset") {
      messages() = start_;
    } else if (line == "/tools") {
      list_tools();
    } else {
      if (line != "/help") std::cout << "There is no command " << line << ".\n";
      std::cout << kHelp;
    }
    return true;
  }

  void list_tools() {
    const json::Value* tools = body_.find("tools");
    if (tools == nullptr || tools->if_array() == nullptr || tools->if_array()->empty()) {
      std::cout << "There are no tools; --tools FILE names some.\n";
      return;
    }
    for (const json::Value& tool : *tools->if_array()) {
      const std::string kind = tool.find("custom") != nullptr ? "/custom" : "/function";
      const json::Value* name = json::at_pointer(tool, kind + "/name");
      const json::Value* text = json::at_pointer(tool, kind + "/description");
      std::string line = "  ";
      line += name != nullptr && name->if_string() != nullptr ? *name->if_string() : "?";
      if (text != nullptr && text->if_string() != nullptr) line += "  " + *text->if_string();
      std::cout << shown(line, STDOUT_FILENO) << '\n';
    }
  }

  // What a turn added that failed would make every later one fail, too.
  int turn(const std::string& question) {
    const auto before = static_cast<json::Array::difference_type>(messages().size());
    messages().emplace_back(json::Object{{"role", "user"}, {"content", question}});
    const auto done = converse();
    if (done) return kOk;
    messages().erase(messages().begin() + before, messages().end());
    return complain(done.error());
  }

  // Answers, and goes on with the tools' results, until the model says something without a call.
  OrComplaint<void> converse() {
    while (true) {
      const auto request = decode_request(body_);
      if (!request) return Failure<Complaint>(request.error());
      Printer printer(has_colours());
      const auto fold =
          answer(*model_, *request, [&](const message::ChatEvent& event) { printer.show(event); });
      if (!fold) return Failure<Complaint>(fold.error());
      const bool wants_results = fold->finish().reason == message::FinishReason::tool_calls;
      keep(fold->message(), wants_results);
      if (!wants_results) return {};
      for (const message::ToolCall& call : fold->message().tool_calls) {
        std::string result;
        if (!read("result of " + call.name + "> ", result)) return {};
        messages().emplace_back(json::Object{
            {"role", "tool"}, {"tool_call_id", call.id}, {"name", call.name}, {"content", result}});
      }
    }
  }

  // A call that was cut short gets no result, and many templates refuse calls without one.
  void keep(const message::Message& message, bool with_calls) {
    json::Object kept{{"role", "assistant"}};
    if (message.content || !with_calls) {
      kept.set("content", message.content.value_or(""));
    } else {
      kept.set("content", nullptr);
    }
    json::Array calls;
    for (const message::ToolCall& call : message.tool_calls) {
      calls.emplace_back(json::Object{
          {"id", call.id},
          {"type", "function"},
          {"function", json::Object{{"name", call.name}, {"arguments", call.arguments}}}});
    }
    if (with_calls) kept.set("tool_calls", std::move(calls));
    messages().emplace_back(std::move(kept));
  }

  const std::shared_ptr<chat::Model> model_;
  json::Object body_;
  const json::Array start_;  // the messages of a conversation that has not begun
  const bool is_terminal_;
};

int run(const AskOptions& options) {
  auto body = request_body(options);
  if (!body) return complain(body.error());
  auto model = load_model(options);
  if (!model) return complain(model.error());
  return Chat(*std::move(model), *std::move(body)).run();
}

}  // namespace

Command add_chat(CLI::App& tenon) {
  CLI::App* app =
      tenon.add_subcommand("chat", "Talks with a model; shows its calls as it makes them");
  auto options = std::make_shared<AskOptions>();
  add_ask_options(*app, *options);
  app->footer(
      "When the model calls a tool you are the tool: the next line is its result.\n"
      "Example:\n  tenon chat --tools examples/tools.json\n  echo 'Hello!' | tenon chat");
  return {app, [options] { return run(*options); }};
}

}  // namespace tenon::app
