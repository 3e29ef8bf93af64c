// `tenon mcp`: what this program can do, as a server of the Model Context Protocol.
//
// The protocol itself is mcp::ToolServer, which is given tools and answers one message with
// another. Here are the tools and the two transports. Most tools answer a line of a command's
// `--batch`; ask_about_files is FileQuestions. Over pipes a line is a message: short calls are
// answered at once, by the thread that reads, and a call that takes long gets a thread of its own,
// so that a ping or a cancellation is read meanwhile; one lock keeps the lines of answers whole.
// Over HTTP each POST is a message; a call that takes long is answered by a stream of events, and a
// client that closes the stream cancels the call.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "command.h"
#include "file_questions.h"
#include "mcp_servers.h"

#include "tenon/api/auth.h"
#include "tenon/batch/parse.h"
#include "tenon/batch/render.h"
#include "tenon/batch/validate.h"
#include "tenon/config/model_template.h"
#include "tenon/format/json_filter.h"
#include "tenon/http/server.h"
#include "tenon/json/value.h"
#include "tenon/mcp/tool_server.h"
#include "tenon/repair/argument_repairer.h"
#include "tenon/schema/schema.h"

namespace tenon::app {
namespace {

using json::Object;
using json::Value;

constexpr std::size_t kMaxMessageBytes = std::size_t{16} << 20;

struct McpOptions {
  std::optional<int> port;
  FileQuestionOptions questions;
};

// ---- tools

Value schema_of(std::string_view json) {
  return json::parse(json).value_or(Value());  // a constant of this file
}

// A call's arguments as a line of `--batch`: the members that the tool has, and no others.
Expected<Object> line_of(const Object& arguments, const Value& schema) {
  const Value* properties = schema.find("properties");
  for (const json::Member& member : arguments) {
    if (properties->find(member.key) == nullptr) {
      return Unexpected(
          Error{Errc::invalid, "this tool has no argument " + member.key.substr(0, 64)});
    }
  }
  const Value* required = schema.find("required");
  for (const Value& name : *required->if_array()) {
    if (!arguments.contains(*name.if_string())) {
      return Unexpected(Error{Errc::invalid, "the argument " + *name.if_string() + " is missing"});
    }
  }
  return arguments;
}

template <class Answer>
mcp::OfferedTool tool(std::string name, std::string title, std::string description,
                      std::string_view schema, Answer answer) {
  Value parameters = schema_of(schema);
  return {.name = std::move(name),
          .title = std::move(title),
          .description = std::move(description),
          .input_schema = parameters,
          .run = [parameters, answer = std::move(answer)](const Object& arguments,
                                                          const mcp::CallWatch&) {
            return line_of(arguments, parameters).and_then(answer);
          }};
}

std::string text_member(const Object& object, std::string_view key) {
  const Value* member = object.find(key);
  const std::string* text = member == nullptr ? nullptr : member->if_string();
  return text == nullptr ? std::string() : *text;
}

// Arguments as a model wrote them, first made JSON and then fitted to the schema.
Expected<Object> repair(const Object& line) {
  const Value* source = line.find("schema");
  const auto schema = schema::Schema::compile(*source);
  if (!schema) return Unexpected(schema.error());
  const Value* given = line.find("arguments");
  const std::string* text = given->if_string();
  const std::string written = text == nullptr ? json::to_string(*given) : *text;
  std::string copy;
  format::JsonFilter filter(format::JsonFilter::Want::object);
  // The filter stops behind the object. What it skipped inside of it and what comes after it are
  // told as `left_out`.
  const std::size_t used = filter.feed(written, copy);
  const std::string left_out = filter.left_out() + written.substr(used);
  // What close() adds is the end of a text that broke off.
  const std::size_t read = copy.size();
  filter.close(copy);
  const bool is_closed_here = copy.size() > read;
  if (copy.empty()) {
    return Unexpected(Error{Errc::invalid, "arguments do not begin as an object of JSON"});
  }
  repair::ArgumentRepairer repairer(
      {.name = text_member(line, "tool"), .schema = *schema, .source = source});
  std::string repaired;
  repairer.feed(copy, repaired);
  repairer.finish(/*incomplete=*/false, repaired);
  const auto value = json::parse(repaired);
  if (!value) return Unexpected(value.error());
  const auto violations = (*schema)->validate(*value);
  if (!violations) return Unexpected(violations.error());
  json::Array repairs;
  if (filter.is_repaired()) {
    repairs.emplace_back(Object{{"kind", "mended_arguments"},
                                {"path", ""},
                                {"message", "the text was not JSON and could be made so"}});
  }
  if (is_closed_here) {
    repairs.emplace_back(Object{
        {"kind", "completed"}, {"path", ""}, {"message", "the text broke off; its end was added"}});
  }
  for (const repair::Repair& each : repairer.repairs()) {
    repairs.emplace_back(
        Object{{"kind", each.kind}, {"path", each.path}, {"message", each.message}});
  }
  return Object{{"arguments", *value},
                {"valid", violations->empty()},
                {"errors", batch::violations_json(*violations)},
                {"repairs", std::move(repairs)},
                {"left_out", left_out}};
}

mcp::OfferedTool question_tool(const std::shared_ptr<FileQuestions>& questions) {
  const Value parameters = schema_of(R"({"type": "object", "properties": {
      "question": {"type": "string", "description": "What to find out"},
      "files": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 16,
                "description": "Names of text files, relative to a folder that may be read, or absolute"}},
      "required": ["question", "files"], "additionalProperties": false})");
  return {.name = "ask_about_files",
          .title = "Ask about files",
          .description =
              "Answers a question about text files of any length. A recursive model reads "
              "them with code, so that they need not be in your context. It may take "
              "minutes.",
          .input_schema = parameters,
          .run =
              [parameters, questions](const Object& arguments, const mcp::CallWatch& watch) {
                return line_of(arguments, parameters).and_then([&](const Object& line) {
                  return questions->answer(line, watch);
                });
              },
          .takes_long = true};
}

// The schemas are what an agent sees. line_of() checks the names against them; the lines' own
// readers check the values.
std::vector<mcp::OfferedTool> offered_tools() {
  std::vector<mcp::OfferedTool> tools;
  tools.push_back(tool("validate_json", "Validate JSON",
                       "Says whether a value fits a JSON Schema, and each place where it does not.",
                       R"({"type": "object", "properties": {
          "schema": {"type": ["object", "boolean"], "description": "The JSON Schema"},
          "instance": {"description": "The value"},
          "instance_text": {"type": "string", "description": "The value as text, instead of instance"},
          "draft": {"type": "string", "description": "draft4 to draft2020-12, if $schema is absent"},
          "assert_format": {"type": "boolean", "description": "Whether format constrains"}},
          "required": ["schema"], "additionalProperties": false})",
                       [](const Object& line) { return batch::validate_line(line); }));
  tools.push_back(tool(
      "repair_arguments", "Repair arguments",
      "Makes the arguments of a tool call valid: slips of JSON, wrong types and misspelt fields "
      "are repaired where there is one meaning, and each change is told.",
      R"({"type": "object", "properties": {
          "arguments": {"type": ["string", "object"], "description": "As the model wrote them"},
          "schema": {"type": "object", "description": "The tool's parameters, a JSON Schema"},
          "tool": {"type": "string", "description": "The tool's name, for rules about it"}},
          "required": ["arguments", "schema"], "additionalProperties": false})",
      repair));
  tools.push_back(
      tool("parse_tool_calls", "Parse tool calls",
           "Reads text, reasoning and tool calls out of a model's output.",
           R"({"type": "object", "properties": {
          "text": {"type": "string", "description": "The model's output"},
          "format": {"type": "string", "description": "Name of the tool-call format, as tenon formats lists it"},
          "template": {"type": "string", "description": "The model's chat template, instead of format"},
          "tools": {"type": "array", "description": "The tools of the request, as in Chat Completions"}},
          "required": ["text"], "additionalProperties": false})",
           [](const Object& line) { return batch::parse_line(line, /*events=*/false); }));
  tools.push_back(
      tool("render_prompt", "Render a prompt",
           "Renders a conversation by a chat template, and says which bytes of the prompt are the "
           "template's and which are data.",
           R"({"type": "object", "properties": {
          "template": {"type": "string", "description": "The chat template, in Jinja"},
          "messages": {"type": "array", "description": "As in Chat Completions"},
          "tools": {"type": "array", "description": "As in Chat Completions"},
          "add_generation_prompt": {"type": "boolean"},
          "bos_token": {"type": "string"}, "eos_token": {"type": "string"},
          "kwargs": {"type": "object", "description": "Further variables of the template"}},
          "required": ["template", "messages"], "additionalProperties": false})",
           [](const Object& line) { return batch::render_line(line, {.spans = true}); }));
  return tools;
}

// ---- calls that take long

std::string text_of_member(const Value& object, std::string_view key) {
  const Object* const members = object.if_object();
  return members == nullptr ? std::string() : text_member(*members, key);
}

// Calls on threads of their own, at most kMost at once. Its end cancels them and waits for them.
// Thread-safe. Threads of calls that are over are joined when the next one begins.
class LongCalls {
 public:
  static constexpr std::size_t kMost = 4;

  LongCalls() = default;
  LongCalls(const LongCalls&) = delete;
  LongCalls& operator=(const LongCalls&) = delete;
  ~LongCalls() { end(); }

  // `key` names the call for cancel(). False: too many are under way.
  [[nodiscard]] bool begin(std::string key, std::function<void(const CancelToken&)> work) {
    const std::lock_guard lock(mutex_);
    calls_.remove_if([](const std::unique_ptr<One>& one) { return one->is_done.load(); });
    if (calls_.size() >= kMost) return false;
    calls_.push_back(std::make_unique<One>());
    One& one = *calls_.back();
    one.key = std::move(key);
    one.thread = std::jthread([&one, work = std::move(work)] {
      work(one.cancel);
      one.is_done = true;
    });
    return true;
  }
  void cancel(std::string_view key) {
    const std::lock_guard lock(mutex_);
    for (const auto& one : calls_) {
      if (one->key == key) one->cancel.cancel();
    }
  }
  void end() {
    const std::lock_guard lock(mutex_);
    for (const auto& one : calls_) one->cancel.cancel();
    calls_.clear();
  }

 private:
  struct One {
    std::string key;
    CancelToken cancel;
    std::atomic<bool> is_done = false;
    std::jthread thread;  // last, so that it ends first
  };

  std::mutex mutex_;
  std::list<std::unique_ptr<One>> calls_;  // guarded by mutex_
};

// -32000 is the first of the codes that JSON-RPC leaves to servers.
std::string too_many(const Value* id) {
  const Object error{{"code", -32000},
                     {"message", std::to_string(LongCalls::kMost) +
                                     " calls that take long are under way: wait for one of them"}};
  return json::to_string(
      Object{{"jsonrpc", "2.0"}, {"id", id == nullptr ? Value() : *id}, {"error", error}});
}

// ---- pipes

// The next line, without its end; no value at the end of the input. A line over the limit is cut
// behind it, so that it is no JSON.
std::optional<std::string> next_line(std::istream& in) {
  std::string line;
  for (int byte = in.get(); byte != std::istream::traits_type::eof(); byte = in.get()) {
    if (byte == '\n') return line;
    if (line.size() <= kMaxMessageBytes) line += static_cast<char>(byte);
  }
  return line.empty() ? std::nullopt : std::optional(line);
}

// Answers come from several threads, each as a line of its own.
class Lines {
 public:
  void write(const std::string& line) {
    const std::lock_guard lock(mutex_);
    std::cout << line << std::endl;
  }

 private:
  std::mutex mutex_;
};

// The id of a request as a key: 1 and "1" differ.
std::string key_of(const Value* id) {
  return id == nullptr ? std::string() : json::to_string(*id);
}

// Begins a long call, or cancels one. False: the message is to be answered at once.
bool took_long_message(const mcp::ToolServer& server, const Value& message, Lines& out,
                       LongCalls& calls) {
  if (text_of_member(message, "method") == "notifications/cancelled") {
    // A cancellation of a call that is over, or is not known, has no effect and no answer.
    calls.cancel(key_of(json::at_pointer(message, "/params/requestId")));
    return true;
  }
  if (!server.takes_long(message)) return false;
  const std::string key = key_of(message.find("id"));
  const bool has_begun = calls.begin(key, [&server, &out, message](const CancelToken& cancel) {
    const auto answer =
        server.answer(message, {.cancel = cancel, .notify = [&out](const Value& notification) {
                                  out.write(json::to_string(notification));
                                }});
    // The protocol wants no answer to a request that was cancelled.
    if (answer && !cancel.is_cancelled()) out.write(json::to_string(*answer));
  });
  if (!has_begun) out.write(too_many(message.find("id")));
  return true;
}

int answer_lines(const mcp::ToolServer& server) {
  Lines out;
  LongCalls calls;  // ends before `out`
  while (auto line = next_line(std::cin)) {
    if (line->find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto message = json::parse(*line);
    if (message && took_long_message(server, *message, out, calls)) continue;
    if (const auto answer = server.answer_text(*line)) out.write(*answer);
  }
  return kOk;
}

// ---- HTTP

// -32600 is "invalid request" in JSON-RPC. The id is null, since the message was not read.
http::Response refused(unsigned status, std::string message) {
  const Object error{{"code", -32600}, {"message", std::move(message)}};
  return {.status = status,
          .body = json::to_string(Object{{"jsonrpc", "2.0"}, {"id", nullptr}, {"error", error}})};
}

// Streamable HTTP without sessions: each message is a POST, and its answer is JSON. Pages of other
// origins may not ask, nor pages that came under a name that their owner points here.
std::optional<http::Response> refusal_of(const http::Request& request) {
  if (request.path != "/mcp") return refused(404, "the tools are at /mcp");
  if (!api::admits_host(request, {})) {
    return refused(403, "this server answers to names of this machine only, like localhost");
  }
  if (!api::admits_origin(request, {})) return refused(403, "this origin may not ask");
  if (request.method != "POST") {
    http::Response response = refused(405, "this path takes POST only");
    response.headers.push_back({"allow", "POST"});
    return response;
  }
  return std::nullopt;
}

// The answer to a call that takes long is a stream of events: progress, then the result. A client
// that goes away cancels the call, because its answer could not be told any more.
void begin_stream(const mcp::ToolServer& server, const std::shared_ptr<http::Exchange>& exchange,
                  const Value& message, LongCalls& calls) {
  const bool has_begun = calls.begin("", [&server, exchange, message](const CancelToken& cancel) {
    exchange->on_closed([cancel] { cancel.cancel(); });
    exchange->begin_stream("text/event-stream", {{"cache-control", "no-store"}});
    const auto write = [&exchange](const Value& event) {
      exchange->write("event: message\ndata: " + json::to_string(event) + "\n\n");
    };
    const auto answer = server.answer(message, {.cancel = cancel, .notify = write});
    if (answer && !cancel.is_cancelled()) write(*answer);
    exchange->end_stream();
  });
  if (!has_begun) exchange->respond({.status = 503, .body = too_many(message.find("id"))});
}

void answer_exchange(const mcp::ToolServer& server, const std::shared_ptr<http::Exchange>& exchange,
                     LongCalls& calls) {
  const http::Request& request = exchange->request();
  if (auto refusal = refusal_of(request)) return exchange->respond(*std::move(refusal));
  if (const auto message = server.long_call(request)) {
    return begin_stream(server, exchange, *message, calls);
  }
  exchange->respond(server.answer_post(request));
}

// Those that end the server. run_mcp blocks them before threads begin, which inherit it.
sigset_t ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

int serve_http(const mcp::ToolServer& server, std::uint16_t port) {
  const sigset_t signals = ending_signals();
  LongCalls calls;
  auto http = http::Server::start({.port = port, .threads = 2, .max_body_bytes = kMaxMessageBytes},
                                  [&](const std::shared_ptr<http::Exchange>& exchange) {
                                    answer_exchange(server, exchange, calls);
                                  });
  if (!http) return complain({kEngine, http.error().message});
  std::cout << "Tools are at http://127.0.0.1:" << (*http)->port() << "/mcp" << std::endl;
  int signal = 0;
  sigwait(&signals, &signal);
  // The streams are given time to end before their calls are cancelled.
  (*http)->stop(std::chrono::seconds(2));
  calls.end();
  return kOk;
}

// The signals are blocked before a thread exists, so that all threads inherit that.
int run_mcp(const McpOptions& options) {
  if (options.port) {
    const sigset_t signals = ending_signals();
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  }
  std::vector<mcp::OfferedTool> tools = offered_tools();
  if (!options.questions.folders.empty()) {
    const auto questions = FileQuestions::open(options.questions);
    if (!questions) return complain(questions.error());
    tools.push_back(question_tool(*questions));
  }
  const mcp::ToolServer server(
      {.name = "tenon",
       .title = "Tenon",
       .version = std::string(kVersion),
       .instructions = "Tools about tool calls: check and repair their JSON, read them out of a "
                       "model's output, and see the prompt that a model reads."},
      std::move(tools));
  return options.port ? serve_http(server, static_cast<std::uint16_t>(*options.port))
                      : answer_lines(server);
}

}  // namespace

Command add_mcp(App tenon) {
  const App app = tenon.add_subcommand(
      "mcp", "Offers validation, repair, parsing and rendering to agents (Model Context Protocol)");
  const auto run_servers = add_mcp_servers(app);
  auto options = std::make_shared<McpOptions>();
  app.add_option(
         "--http", options->port,
         "Serves at http://127.0.0.1:PORT/mcp, instead of over stdin and stdout; 0: any port")
      .between(0, 65'535);
  app.add_option("--folder", options->questions.folders,
                 "Folder whose files agents may ask a recursive model about; may be repeated")
      .allow_extra_args(false);
  add_recursive_choice(app, options->questions.choice);
  app.add_option("--ask-timeout", options->questions.timeout_s,
                 "Seconds until the model must answer a question about files")
      .between(1.0, 86'400.0);
  app.footer(
      "Example: an entry of an agent's mcpServers\n"
      "  {\"mcpServers\": {\"tenon\": {\"command\": \"tenon\", \"args\": [\"mcp\"]}}}");
  return {app, [options, run_servers] {
            const int status = run_servers();
            return status >= 0 ? status : run_mcp(*options);
          }};
}

}  // namespace tenon::app
