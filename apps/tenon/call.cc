#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "command.h"
#include "conversation.h"
#include <CLI/CLI.hpp>

#include "tenon/api/chat_encode.h"

namespace tenon::app {
namespace {

struct Options {
  AskOptions ask;
  bool json = false;
  std::string question;
};

// The shape of a choice's message, with what else a program may want to know.
json::Value to_json(const chat::Model& model, const message::Fold& fold) {
  const format::Format* format = model.format();
  api::ChoiceResult choice{.fold = fold};
  const json::Value whole =
      api::encode_completion({.format = format == nullptr ? "" : format::info(*format).name},
                             {choice}, fold.finish().usage);
  const json::Value* message = json::at_pointer(whole, "/choices/0/message");
  json::Object out{{"content", *message->find("content")}};
  const json::Value* calls = message->find("tool_calls");
  out.set("tool_calls", calls == nullptr ? json::Value(json::Array()) : *calls);
  out.set("finish_reason", *json::at_pointer(whole, "/choices/0/finish_reason"));
  out.set("usage", *whole.find("usage"));
  out.set("tenon", *whole.find("tenon"));
  return out;
}

void print(const message::Fold& fold) {
  const bool colours = has_colours();
  const std::string text = fold.message().text();
  if (!text.empty()) std::cout << text << '\n';
  for (const message::ToolCall& call : fold.message().tool_calls) {
    std::cout << (colours ? "\033[36m" : "") << described(call) << (colours ? "\033[0m" : "")
              << '\n';
  }
}

int run(const Options& options) {
  auto body = request_body(options.ask);
  if (!body) return complain(body.error().status, body.error().message);
  (*body)["messages"].if_array()->emplace_back(
      json::Object{{"role", "user"}, {"content", options.question}});
  const auto request = decode_request(*body);
  if (!request) return complain(request.error().status, request.error().message);
  const auto model = load_model(options.ask);
  if (!model) return complain(model.error().status, model.error().message);
  const auto fold = answer(**model, *request);
  if (!fold) return complain(fold.error().status, fold.error().message);
  if (options.json) {
    std::cout << json::to_string(to_json(**model, *fold)) << '\n';
  } else {
    print(*fold);
  }
  return fold->message().tool_calls.empty() ? kNegative : kOk;
}

}  // namespace

Command add_call(CLI::App& tenon) {
  CLI::App* app =
      tenon.add_subcommand("call", "Asks one question, shows which tools the model calls");
  auto options = std::make_shared<Options>();
  add_ask_options(*app, options->ask);
  app->add_flag("--json", options->json, "The answer as JSON, for programs");
  app->add_option("QUESTION", options->question, "What the user says")->required();
  app->footer(
      "Exit status 1: the model called no tool.\n"
      "Example:\n  tenon call --tools tools.json \"What is the weather in Paris?\"");
  return {app, [options] { return run(*options); }};
}

}  // namespace tenon::app
