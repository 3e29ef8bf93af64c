#include <csignal>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "command.h"
#include "conversation.h"
#include "running_server.h"
#include "terminal.h"
#include "trace_view.h"
#include <unistd.h>

#include "tenon/api/chat_encode.h"
#include "tenon/config/tools.h"
#include "tenon/http/client.h"

// `tenon call`: one question, asked of a model in this process or of a running server. Both answers
// are brought into one form (summary), a part of a Chat Completions answer, and printed in the same
// way.

namespace tenon::app {
namespace {

struct CallOptions {
  AskOptions ask;
  std::string url;  // of a running server; "": a model in this process
  bool json = false;
  bool trace = false;  // see trace_view.h
  std::string question;
};

std::string text_at(const json::Value& value, std::string_view pointer) {
  const json::Value* found = json::at_pointer(value, pointer);
  return found != nullptr && found->if_string() != nullptr ? *found->if_string() : "";
}

// The message of a choice, with what else a program may want to know.
OrComplaint<json::Value> summary(const json::Value& completion) {
  const json::Value* message = json::at_pointer(completion, "/choices/0/message");
  const json::Value* reason = json::at_pointer(completion, "/choices/0/finish_reason");
  if (message == nullptr || reason == nullptr) {
    return complaint(kEngine, "the server's answer is no chat completion");
  }
  json::Object out;
  const json::Value* content = message->find("content");
  out.set("content", content == nullptr ? json::Value() : *content);
  const json::Value* calls = message->find("tool_calls");
  out.set("tool_calls", calls == nullptr || calls->is_null() ? json::Value(json::Array()) : *calls);
  out.set("finish_reason", *reason);
  for (const std::string_view key : {"usage", "tenon"}) {
    if (const json::Value* value = completion.find(key)) out.set(std::string(key), *value);
  }
  return out;
}

// ---- a model in this process

OrComplaint<json::Value> ask_model(const AskOptions& options, bool traces,
                                   const json::Object& body) {
  const auto request = decode_request(body);
  if (!request) return Failure<Complaint>(request.error());
  auto model = load_model(options);
  if (!model) return Failure<Complaint>(model.error());
  if (traces) model = with_trace(*std::move(model), &print_trace);
  const format::Format* format = (*model)->format();
  // The same encoder as the server's, so both ways print the same summary.
  api::ChatCompletionEncoder encoder({.format = format == nullptr ? "" : format::info(*format).name,
                                      .custom_tools = api::custom_names(request->tools),
                                      .is_json = api::wants_json(*request)},
                                     {});
  const auto fold = answer(**model, *request,
                           [&](const message::ChatEvent& event) { encoder.keep(0, event, {}); });
  if (!fold) return Failure<Complaint>(fold.error());
  if (fold->finish().reason == message::FinishReason::cancelled) {
    return complaint(kSignal + SIGINT, "the answer was interrupted");
  }
  return summary(encoder.whole(fold->finish().usage));
}

// ---- a running server

// Without --model the server's first model answers.
OrComplaint<json::Value> ask_server(const CallOptions& options, json::Object body) {
  const std::string server(server_of(options.url));
  auto client = http::Client::create();
  if (!client) return complaint(kEngine, client.error().message);
  std::string name = options.ask.model;
  if (name.empty()) {
    const auto models = fetch_json(**client, {.url = server + "/v1/models"});
    if (!models) return Failure<Complaint>(models.error());
    const json::Value* id = json::at_pointer(*models, "/data/0/id");
    if (id == nullptr || id->if_string() == nullptr) {
      return complaint(kEngine, server + " has no model");
    }
    name = *id->if_string();
  }
  body.set("model", name);
  http::ClientRequest request{.method = "POST", .url = server + "/v1/chat/completions"};
  request.silence_limit = {};  // the answer comes whole, when the model is done
  request.headers.push_back({"content-type", "application/json"});
  request.body = json::to_string(body);
  const auto completion = fetch_json(**client, std::move(request));
  if (!completion) return Failure<Complaint>(completion.error());
  return summary(*completion);
}

// ---- both

const json::Array& calls_of(const json::Value& summary) {
  static const json::Array kNone;
  const json::Value* calls = summary.find("tool_calls");
  return calls == nullptr || calls->if_array() == nullptr ? kNone : *calls->if_array();
}

// The text, then a line for each call: `get_weather(city: "Paris")`.
void print_call(const json::Value& summary) {
  const bool colours = has_colours();
  if (const std::string text = text_at(summary, "/content"); !text.empty()) {
    std::cout << shown(text, STDOUT_FILENO) << '\n';
  }
  for (const json::Value& call : calls_of(summary)) {
    const std::string kind = call.find("custom") != nullptr ? "/custom" : "/function";
    const std::string text = described(
        {.name = text_at(call, kind + "/name"),
         .arguments = kind == "/custom" ? message::arguments_of(text_at(call, "/custom/input"))
                                        : text_at(call, "/function/arguments")});
    std::cout << (colours ? "\033[36m" : "") << shown(text, STDOUT_FILENO)
              << (colours ? "\033[0m" : "") << '\n';
  }
}

int run_call(const CallOptions& options, App app) {
  if (!options.url.empty()) {
    const auto refused = refuse_options(app, {"--chat-template", "--format", "--threads"},
                                        "with --url: how a model is loaded is the server's matter, "
                                        "in its configuration");
    if (!refused) return complain(refused.error());
    if (options.trace) {
      return complain({kUsage,
                       "--trace cannot be used with --url: a server records what happens, with "
                       "`tenon serve --record FOLDER`, and shows it at /inspector"});
    }
  }
  auto file = config::read_tools(options.ask.tools_file);
  if (!file) return complain(file.error());
  auto body = request_body(options.ask, std::move(file->tools));
  if (!body) return complain(body.error());
  (*body)["messages"].if_array()->emplace_back(
      json::Object{{"role", "user"}, {"content", options.question}});
  const auto answered = options.url.empty() ? ask_model(options.ask, options.trace, *body)
                                            : ask_server(options, *std::move(body));
  if (!answered) return complain(answered.error());
  if (options.json) {
    std::cout << shown(json::to_string(*answered), STDOUT_FILENO) << '\n';
  } else {
    print_call(*answered);
  }
  return calls_of(*answered).empty() ? kNegative : kOk;
}

}  // namespace

Command add_call(App tenon) {
  const App app =
      tenon.add_subcommand("call", "Asks one question, shows which tools the model calls");
  auto options = std::make_shared<CallOptions>();
  add_ask_options(app, options->ask);
  app.add_option(
      "--url", options->url,
      "Asks a running server, like http://127.0.0.1:8080, with TENON_API_KEY as its key; "
      "--model is then a name");
  app.add_flag("--json", options->json, "The answer as JSON, for programs");
  app.add_flag("--trace", options->trace,
               "Prints the prompt, the tokens and events with their times, and why a call failed, "
               "to stderr");
  app.add_option("QUESTION", options->question, "What the user says").required();
  app.footer(
      "Exit status 1: the model called no tool.\n"
      "Example:\n  tenon call --tools examples/tools.json \"What is the weather in Paris?\"");
  return {app, [options, app] { return run_call(*options, app); }};
}

}  // namespace tenon::app
