#include "tenon/api/service.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tenon/base/log.h"
#include "tenon/base/trace.h"
#include "tenon/engine/scripted.h"
#include "tenon/http/sse.h"
#include "tenon/json/value.h"

namespace tenon::api {
namespace {

using engine::ScriptedEngine;
using json::Value;

constexpr std::string_view kTemplate =
    "{% for tool in tools or [] %}<tool_call>{{ tool | tojson }}</tool_call>\n{% endfor %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// An answer as it came by HTTP, with its chunks joined.
struct Reply {
  unsigned status = 0;
  std::vector<http::Header> headers;
  std::string body;

  std::string_view header(std::string_view name) const { return http::find_header(headers, name); }
  Value json() const { return json::parse(body).value_or(Value()); }
  std::string error_code() const {
    const json::Value document = json();
    const Value* code = json::at_pointer(document, "/error/code");
    return code != nullptr && code->if_string() != nullptr ? *code->if_string() : "";
  }
};

/// A blocking HTTP/1.1 client with one connection per request.
class Client {
 public:
  explicit Client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(std::string_view method, std::string_view path, std::string_view body,
            std::string_view headers = "") {
    std::string wire = std::string(method) + " " + std::string(path) +
                       " HTTP/1.1\r\nconnection: close\r\n" + std::string(headers);
    if (!headers.starts_with("host:")) wire += "host: localhost\r\n";
    if (!body.empty()) wire += "content-length: " + std::to_string(body.size()) + "\r\n";
    wire += "\r\n" + std::string(body);
    for (std::size_t sent = 0; sent < wire.size();) {
      const ssize_t n = ::send(socket_, wire.data() + sent, wire.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<std::size_t>(n);
    }
  }

  /// Reads at least one more byte; "" at the end.
  std::string read_some() {
    std::string buffer(65536, '\0');
    const ssize_t n = ::recv(socket_, buffer.data(), buffer.size(), 0);
    buffer.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return buffer;
  }

  Reply read() { return split(read_rest()); }
  std::string read_rest() {
    std::string wire;
    for (std::string piece = read_some(); !piece.empty(); piece = read_some()) wire += piece;
    return wire;
  }

 private:
  static Reply split(std::string_view wire) {
    Reply reply;
    const std::size_t end = wire.find("\r\n\r\n");
    if (end == std::string_view::npos) return reply;
    std::string_view head = wire.substr(0, end);
    std::string_view rest = wire.substr(end + 4);
    reply.status = static_cast<unsigned>(std::atoi(std::string(head.substr(9, 3)).c_str()));
    for (std::size_t at = head.find("\r\n"); at != std::string_view::npos;) {
      const std::size_t next = head.find("\r\n", at + 2);
      const std::string_view line = head.substr(at + 2, next - at - 2);
      const std::size_t colon = line.find(": ");
      reply.headers.push_back(
          {std::string(line.substr(0, colon)), std::string(line.substr(colon + 2))});
      at = next;
    }
    if (reply.header("transfer-encoding") != "chunked") {
      reply.body = rest;
      return reply;
    }
    while (!rest.empty()) {
      const std::size_t size = std::strtoul(std::string(rest.substr(0, 16)).c_str(), nullptr, 16);
      const std::size_t begin = rest.find("\r\n") + 2;
      if (size == 0) break;
      reply.body += rest.substr(begin, size);
      rest.remove_prefix(std::min(rest.size(), begin + size + 2));
    }
    return reply;
  }

  int socket_;
};

struct Setting {
  /// `play`: the scripts, or the function that chooses them.
  template <class Play>
  Setting(Play play, ServiceOptions options, ScriptedEngine::Options engine_options)
      : service(with_version(std::move(options))) {
    engine_options.chat_template = kTemplate;
    engine = std::make_shared<ScriptedEngine>(engine_options, std::move(play));
    auto model =
        chat::Model::create({.name = "m", .aliases = {"alias"}, .format = "hermes"}, engine);
    EXPECT_TRUE(model) << (model ? "" : model.error().message);
    EXPECT_TRUE(registry.add(model.value_or(nullptr)));
    auto started = http::Server::start(
        {.port = 0, .max_body_bytes = 8'000'000},
        [this](std::shared_ptr<http::Exchange> exchange) { service.handle(std::move(exchange)); },
        [this](unsigned, std::string_view code, std::string_view message, std::string_view path) {
          return service.error(code, message, path);
        });
    EXPECT_TRUE(started) << (started ? "" : started.error().message);
    server = *std::move(started);
  }

  static ServiceOptions with_version(ServiceOptions options) {
    options.version = "1.2.3";
    return options;
  }

  Reply ask(std::string_view method, std::string_view path, std::string_view body = "",
            std::string_view headers = "") const {
    Client client(server->port());
    client.send(method, path, body, headers);
    return client.read();
  }
  Reply chat(std::string_view fields) const {
    return ask("POST", "/v1/chat/completions", body(fields));
  }
  static std::string body(std::string_view fields) {
    return R"({"model": "m", "messages": [{"role": "user", "content": "hi"}], )"
           R"("tools": [{"type": "function", "function": {"name": "f"}}])" +
           std::string(fields.empty() ? "" : ", ") + std::string(fields) + "}";
  }
  /// Waits until /metrics has `line`.
  bool metrics_say(std::string_view line) const {
    for (int i = 0; i < 200; ++i) {
      if (ask("GET", "/metrics").body.find(line) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

  Service service;
  std::shared_ptr<ScriptedEngine> engine;  // after the service, which outlives its runs
  chat::ModelRegistry registry;
  std::unique_ptr<http::Server> server;  // before the service, whose handler it calls
};

struct Ready : Setting {
  explicit Ready(std::vector<engine::Script> scripts, ServiceOptions options = {},
                 ScriptedEngine::Options engine_options = {})
      : Setting(std::move(scripts), std::move(options), std::move(engine_options)) {
    service.set_models(std::move(registry));
  }
  explicit Ready(ScriptedEngine::Choice choice, ServiceOptions options = {})
      : Setting(std::move(choice), std::move(options), {}) {
    service.set_models(std::move(registry));
  }
};

constexpr std::string_view kCall =
    "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1.50, \"y\": [1, 2]}}\n"
    "</tool_call>";

/// What a stream adds up to, in the shape of the whole answer's choices.
struct Folded {
  std::map<std::int64_t, std::string> contents;
  std::map<std::int64_t, std::string> finishes;
  std::string call_names;
  std::string call_arguments;
  std::vector<Value> chunks;
  bool is_done = false;
};

std::string text_at(const Value& value, std::string_view pointer) {
  const Value* found = json::at_pointer(value, pointer);
  return found != nullptr && found->if_string() != nullptr ? *found->if_string() : "";
}

Folded fold(const Reply& reply) {
  Folded folded;
  http::SseDecoder decoder;
  std::vector<http::SseEvent> events;
  EXPECT_TRUE(decoder.feed(reply.body, events));
  EXPECT_FALSE(decoder.is_mid_event());
  for (const http::SseEvent& event : events) {
    EXPECT_FALSE(folded.is_done);
    if (event.data == "[DONE]") {
      folded.is_done = true;
      continue;
    }
    auto chunk = json::parse(event.data);
    EXPECT_TRUE(chunk) << event.data;
    if (!chunk) continue;
    if (const Value* choice = json::at_pointer(*chunk, "/choices/0")) {
      const std::int64_t index = choice->find("index")->if_number()->to_int64().value_or(-1);
      folded.contents[index] += text_at(*choice, "/delta/content");
      folded.finishes[index] += text_at(*choice, "/finish_reason");
      folded.call_names += text_at(*choice, "/delta/tool_calls/0/function/name");
      folded.call_arguments += text_at(*choice, "/delta/tool_calls/0/function/arguments");
    }
    folded.chunks.push_back(*std::move(chunk));
  }
  return folded;
}

TEST(Service, tool_calling_StreamAddsUpToTheWholeAnswer) {
  const Ready setting({{.text = std::string(kCall)}});
  const Reply whole = setting.chat("");
  EXPECT_EQ(whole.status, 200u) << whole.body;
  const Value message = *json::at_pointer(whole.json(), "/choices/0/message");
  EXPECT_EQ(text_at(message, "/tool_calls/0/function/name"), "f");
  EXPECT_EQ(text_at(message, "/tool_calls/0/function/arguments"), R"({"x": 1.50, "y": [1, 2]})");
  EXPECT_EQ(text_at(message, "/tool_calls/0/id").substr(0, 5), "call_");

  const Reply stream = setting.chat(R"("stream": true, "stream_options": {"include_usage": true})");
  EXPECT_EQ(stream.header("content-type").substr(0, 17), "text/event-stream");
  EXPECT_EQ(stream.header("cache-control"), "no-cache");
  const Folded folded = fold(stream);
  EXPECT_TRUE(folded.is_done);
  EXPECT_EQ(folded.contents.at(0), text_at(message, "/content"));
  EXPECT_EQ(folded.finishes.at(0), "tool_calls");
  EXPECT_EQ(folded.call_names, "f");
  EXPECT_EQ(folded.call_arguments, R"({"x": 1.50, "y": [1, 2]})");
  EXPECT_EQ(text_at(folded.chunks.front(), "/choices/0/delta/role"), "assistant");
  EXPECT_EQ(*json::at_pointer(folded.chunks.back(), "/usage/total_tokens"),
            *json::at_pointer(whole.json(), "/usage/total_tokens"));
  EXPECT_TRUE(
      setting.metrics_say("tenon_tool_calls_total{format=\"hermes\",guarantee=\"validated\",model="
                          "\"m\",outcome=\"complete\"} 2"));
}

// The tool takes no arguments, so the model cannot write those that it would like to.
TEST(Service, tool_calling_SaysThatCallsWereMasked) {
  const Ready setting({{.text = std::string(kCall)}}, {},
                      {.constrained_by = engine::ConstrainedBy::masks});
  const Value whole = setting.chat("").json();
  EXPECT_EQ(text_at(whole, "/choices/0/message/tool_calls/0/function/arguments"), "{}");
  EXPECT_EQ(text_at(whole, "/tenon/guarantee"), "masked");
  const Folded folded = fold(setting.chat(R"("stream": true)"));
  EXPECT_EQ(folded.call_arguments, "{}");
  EXPECT_EQ(text_at(folded.chunks.back(), "/tenon/guarantee"), "masked");
  EXPECT_TRUE(
      setting.metrics_say("tenon_tool_calls_total{format=\"hermes\",guarantee=\"masked\",model="
                          "\"m\",outcome=\"complete\"} 2"));
  const std::string metrics = setting.ask("GET", "/metrics").body;
  EXPECT_NE(metrics.find("tenon_grammar_compilations_total{model=\"m\"} 1\n"), std::string::npos);
  EXPECT_NE(metrics.find("tenon_grammar_cache_hits_total{model=\"m\"} 1\n"), std::string::npos);
  EXPECT_NE(metrics.find("tenon_grammar_cache_bytes{model=\"m\"} "), std::string::npos);
}

TEST(Service, AnswersInAResponseFormatOrSaysWhyNot) {
  constexpr std::string_view kFields = R"("tool_choice": "none", "response_format":
      {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "array"}}})";
  const Ready held({{.text = "Here: [1]"}}, {}, {.constrained_by = engine::ConstrainedBy::masks});
  EXPECT_EQ(text_at(held.chat(kFields).json(), "/choices/0/message/content"), "[1]");
  const Ready free({{.text = "Here: [1]"}});
  const Reply refused = free.chat(kFields);
  EXPECT_EQ(refused.status, 400u);
  EXPECT_EQ(refused.error_code(), "unsupported_parameter");
  EXPECT_EQ(text_at(refused.json(), "/error/param"), "response_format");
}

TEST(Service, tool_calling_OfAnUnknownToolStaysContentAndIsReported) {
  const std::string text = "<tool_call>\n{\"name\": \"nosuch\", \"arguments\": {}}\n</tool_call>";
  const Ready setting({{.text = text}});
  const Value whole = setting.chat("").json();
  EXPECT_EQ(text_at(whole, "/choices/0/message/content"), text);
  EXPECT_EQ(text_at(whole, "/choices/0/finish_reason"), "stop");
  EXPECT_EQ(text_at(whole, "/tenon/repairs/0/code"), "unknown_tool");
  const Folded folded = fold(setting.chat(R"("stream": true)"));
  EXPECT_EQ(folded.contents.at(0), text);
  EXPECT_EQ(text_at(folded.chunks.back(), "/tenon/repairs/0/code"), "unknown_tool");
  EXPECT_TRUE(setting.metrics_say("tenon_repairs_total{kind=\"unknown_tool\"} 2"));
  EXPECT_TRUE(setting.metrics_say("tenon_leaked_markers_total{model=\"m\"} 2"));
}

// The model writes calls in another form than its own format: each answer says so, in every
// dialect.
TEST(Service, tool_calling_InAnotherFormIsTold) {
  const Ready setting({{.text = R"({"name": "f", "arguments": {}})"}});
  const Value whole = setting.chat("").json();
  EXPECT_EQ(text_at(whole, "/choices/0/message/tool_calls/0/function/name"), "f");
  EXPECT_EQ(text_at(whole, "/tenon/format"), "json");
  EXPECT_EQ(text_at(whole, "/tenon/guarantee"), "validated");
  EXPECT_EQ(text_at(whole, "/tenon/repairs/0/code"), "fallback_format");
  const Folded folded = fold(setting.chat(R"("stream": true)"));
  EXPECT_EQ(text_at(folded.chunks.back(), "/tenon/format"), "json");
  const Value message =
      setting
          .ask("POST", "/v1/messages",
               R"({"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "hi"}],
                   "tools": [{"name": "f", "input_schema": {"type": "object"}}]})")
          .json();
  EXPECT_EQ(text_at(message, "/tenon/format"), "json");
  const Value response =
      setting
          .ask("POST", "/v1/responses",
               R"({"model": "m", "input": "hi", "tools": [{"type": "function", "name": "f",
                   "parameters": {"type": "object"}}]})")
          .json();
  EXPECT_EQ(text_at(response, "/tenon/format"), "json");
  EXPECT_TRUE(
      setting.metrics_say("tenon_tool_calls_total{format=\"json\",guarantee=\"validated\",model="
                          "\"m\",outcome=\"complete\"} 4"));
}

// With an engine that cannot be constrained, an invalid call is passed on and reported.
TEST(Service, tool_calling_ArgumentsThatBreakTheirSchemaAreReported) {
  const Ready setting(
      {{.text = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": null}}\n</tool_call>"}});
  const Reply reply = setting.ask(
      "POST", "/v1/chat/completions",
      R"({"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "function",
          "function": {"name": "f", "parameters": {"properties": {"x": {"type": "string"}}}}}]})");
  const Value whole = reply.json();
  EXPECT_EQ(text_at(whole, "/choices/0/message/tool_calls/0/function/arguments"), R"({"x": null})");
  EXPECT_EQ(text_at(whole, "/tenon/guarantee"), "unenforced");
  EXPECT_EQ(text_at(whole, "/tenon/repairs/0/code"), "invalid_arguments");
  EXPECT_NE(text_at(whole, "/tenon/repairs/0/message").find("/x"), std::string::npos);
  EXPECT_TRUE(
      setting.metrics_say("tenon_tool_calls_total{format=\"hermes\",guarantee=\"unenforced\",model="
                          "\"m\",outcome=\"invalid\"} 1"));
}

TEST(Service, ChoicesAreAnswersOfTheirOwn) {
  const Ready setting({{.text = "one"}, {.text = "two"}, {.text = "three"}});
  const Reply whole = setting.chat(R"("n": 3)");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(*json::at_pointer(whole.json(), "/choices/" + std::to_string(i) + "/index"),
              Value(i));
  }
  const Folded folded = fold(setting.chat(R"("n": 3, "stream": true)"));
  EXPECT_EQ(folded.contents,
            (std::map<std::int64_t, std::string>{{0, "one"}, {1, "two"}, {2, "three"}}));
  EXPECT_EQ(folded.finishes,
            (std::map<std::int64_t, std::string>{{0, "stop"}, {1, "stop"}, {2, "stop"}}));
}

TEST(Service, StopStringsNeverLeak) {
  const Ready setting({{.text = "Hello END of it"}});
  EXPECT_EQ(text_at(setting.chat(R"("stop": "END")").json(), "/choices/0/message/content"),
            "Hello ");
  EXPECT_EQ(fold(setting.chat(R"("stop": ["x", "END"], "stream": true)")).contents.at(0), "Hello ");
}

TEST(Service, LengthAndLogprobsAreTold) {
  const Ready setting({{.text = "Hello"}});
  const Value whole =
      setting.chat(R"("max_tokens": 2, "logprobs": true, "top_logprobs": 1)").json();
  EXPECT_EQ(text_at(whole, "/choices/0/message/content"), "He");
  EXPECT_EQ(text_at(whole, "/choices/0/finish_reason"), "length");
  EXPECT_EQ(text_at(whole, "/choices/0/logprobs/content/1/token"), "e");
  EXPECT_EQ(*json::at_pointer(whole, "/usage/completion_tokens"), Value(2));
}

std::string logprob_tokens(const Value& choice) {
  std::string tokens;
  const Value* content = json::at_pointer(choice, "/logprobs/content");
  if (content == nullptr || content->if_array() == nullptr) return tokens;
  for (const Value& token : *content->if_array()) tokens += text_at(token, "/token");
  return tokens;
}

TEST(Service, tool_calling_LogprobsOfAStreamAreThoseOfTheWholeAnswer) {
  const Ready setting({{.text = std::string(kCall)}});
  const Value whole = setting.chat(R"("logprobs": true)").json();
  std::string streamed;
  for (const Value& chunk : fold(setting.chat(R"("logprobs": true, "stream": true)")).chunks) {
    streamed += logprob_tokens(*json::at_pointer(chunk, "/choices/0"));
  }
  EXPECT_EQ(streamed, logprob_tokens(*json::at_pointer(whole, "/choices/0")));
  EXPECT_NE(streamed.find("</tool_call>"), std::string::npos);
}

struct Refused {
  std::string_view name;
  std::string_view method;
  std::string_view path;
  std::string_view body;
  unsigned status;
  std::string_view code;
};

std::string repeated(std::size_t times, std::string_view text) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

const std::string kDeepBody = repeated(129, "[");
const std::string kBodyOfManyValues = "[0" + repeated(1 << 20, ",0") + "]";
const std::string kManyTokens = "{\"tokens\": [0" + repeated(1 << 18, ",0") + "]}";

const Refused kRefused[] = {
    {"NotJson", "POST", "/v1/chat/completions", "{", 400, "invalid_json"},
    {"NoBody", "POST", "/v1/chat/completions", "", 400, "invalid_json"},
    {"UnknownModel", "POST", "/v1/chat/completions",
     R"({"model": "x", "messages": [{"role": "user", "content": "hi"}]})", 404, "model_not_found"},
    {"UnknownField", "POST", "/v1/chat/completions",
     R"({"model": "m", "messages": [{"role": "user", "content": "hi"}], "tenon": {"zz": 1}})", 400,
     "unknown_parameter"},
    {"UnknownPath", "GET", "/v2", "", 404, "not_found"},
    {"WrongMethod", "GET", "/v1/chat/completions", "", 405, "method_not_allowed"},
    {"UnknownModelById", "GET", "/v1/models/x", "", 404, "model_not_found"},
    {"TokensOfNobody", "POST", "/detokenize", R"({"tokens": [99999]})", 400, "invalid_value"},
    {"TokenizeWithoutText", "POST", "/tokenize", "{}", 400, "missing_required_parameter"},
    {"ADeepBody", "POST", "/tokenize", kDeepBody, 400, "limit_exceeded"},
    {"ABodyOfManyValues", "POST", "/tokenize", kBodyOfManyValues, 400, "limit_exceeded"},
    {"ManyTokens", "POST", "/detokenize", kManyTokens, 400, "invalid_value"},
    {"TokenizeAList", "POST", "/tokenize", "[]", 400, "invalid_type"},
    {"OptionsWithoutCors", "OPTIONS", "/v1/models", "", 405, "method_not_allowed"},
};

// ---- Anthropic Messages

std::string messages_body(std::string_view fields) {
  return R"({"model": "m", "max_tokens": 640, "messages": [{"role": "user", "content": "hi"}], )"
         R"("tools": [{"name": "f", "input_schema": {"type": "object"}}])" +
         std::string(fields.empty() ? "" : ", ") + std::string(fields) + "}";
}

std::string texts_of(const Value& completion) {
  std::string texts;
  const Value* choices = completion.find("choices");
  if (choices == nullptr) return texts;
  for (const Value& choice : *choices->if_array()) texts += text_at(choice, "/text") + "|";
  return texts;
}

TEST(Service, GoesOnFromTexts) {
  const Ready setting([](const engine::GenerateRequest& request) {
    return engine::Script{.text = std::to_string(request.prompt.size()) + "." +
                                  std::to_string(request.sampling.seed.value_or(0))};
  });
  const auto complete = [&](std::string_view fields) {
    return setting.ask("POST", "/v1/completions", R"({"model": "m", )" + std::string(fields) + "}");
  };
  EXPECT_EQ(texts_of(complete(R"("prompt": "abc")").json()), "3.0|");
  EXPECT_EQ(setting.engine->requests().back().max_tokens, 16u);
  EXPECT_EQ(texts_of(complete(R"("prompt": [97, 98])").json()), "2.0|");
  EXPECT_EQ(texts_of(complete(R"("echo": true, "prompt": [[97], [98, 99]])").json()),
            "a1.0|bc2.0|");
  const Reply several = complete(R"("prompt": ["a", "bc"], "n": 2, "seed": 5)");
  EXPECT_EQ(texts_of(several.json()), "1.5|1.6|2.5|2.6|");
  EXPECT_EQ(*json::at_pointer(several.json(), "/usage/prompt_tokens"), Value(3));
  EXPECT_EQ(several.json().find("choices")->if_array()->size(), 4u);
  EXPECT_EQ(texts_of(complete(R"("prompt": "a", "best_of": 3, "n": 2)").json()), "1.0|1.0|");
  EXPECT_EQ(
      texts_of(
          setting.ask("POST", "/api/v1/completions/", R"({"model": "m", "prompt": "abc"})").json()),
      "3.0|");
  const Reply suffix = complete(R"("prompt": "a", "suffix": "b")");
  EXPECT_EQ(suffix.status, 400u);
  EXPECT_EQ(text_at(suffix.json(), "/error/param"), "suffix");
  const Reply no_token = complete(R"("prompt": [100000])");
  EXPECT_EQ(no_token.status, 400u);
  EXPECT_EQ(text_at(no_token.json(), "/error/param"), "prompt");
}

TEST(Service, ACompletionsStreamAddsUpToTheWhole) {
  const Ready setting({{.text = "<tool_call> is text"}});
  constexpr std::string_view kAsked =
      R"({"model": "m", "prompt": "a", "logprobs": 2, "max_tokens": 99)";
  const Value whole = setting.ask("POST", "/v1/completions", std::string(kAsked) + "}").json();
  EXPECT_EQ(texts_of(whole), "<tool_call> is text|");
  const Folded stream =
      fold(setting.ask("POST", "/v1/completions", std::string(kAsked) + R"(, "stream": true})"));
  EXPECT_TRUE(stream.is_done);
  std::string text;
  for (const Value& chunk : stream.chunks) text += text_at(chunk, "/choices/0/text");
  EXPECT_EQ(text, "<tool_call> is text");
  EXPECT_EQ(stream.finishes.at(0), "stop");
}

TEST(Service, tool_calling_AnswersInAnthropicsDialect) {
  const Ready setting({{.text = std::string(kCall)}});
  const Reply reply = setting.ask("POST", "/v1/messages", messages_body(""));
  EXPECT_EQ(reply.status, 200u) << reply.body;
  EXPECT_EQ(reply.header("request-id"), reply.header("x-request-id"));
  const Value whole = reply.json();
  EXPECT_EQ(text_at(whole, "/content/0/text"), "Let me see.\n");
  EXPECT_EQ(text_at(whole, "/content/1/name"), "f");
  EXPECT_EQ(text_at(whole, "/content/1/id").substr(0, 6), "toolu_");
  EXPECT_EQ(json::to_string(*json::at_pointer(whole, "/content/1/input")),
            R"({"x":1.50,"y":[1,2]})");
  EXPECT_EQ(text_at(whole, "/stop_reason"), "tool_use");

  const Reply stream = setting.ask("POST", "/v1/messages", messages_body(R"("stream": true)"));
  http::SseDecoder decoder;
  std::vector<http::SseEvent> events;
  EXPECT_TRUE(decoder.feed(stream.body, events));
  std::string text;
  std::string input;
  for (const http::SseEvent& event : events) {
    const Value data = json::parse(event.data).value_or(Value());
    text += text_at(data, "/delta/text");
    input += text_at(data, "/delta/partial_json");
  }
  EXPECT_EQ(text, "Let me see.\n");
  EXPECT_EQ(input, R"({"x": 1.50, "y": [1, 2]})");
  EXPECT_EQ(events.front().type, "message_start");
  const Value begun = json::parse(events.front().data).value_or(Value());
  EXPECT_EQ(json::at_pointer(begun, "/message/usage/input_tokens")->if_number()->to_int64(),
            setting.engine->requests().back().prompt.size());
  EXPECT_EQ(events.back().type, "message_stop");
}

// Whatever code finds the error, the message has the client's name of the field.
TEST(Service, tool_calling_EachDialectHasItsOwnNamesForFields) {
  const Ready setting({{.text = "x"}}, {}, {.constrained_by = engine::ConstrainedBy::masks});
  constexpr std::string_view kSchema = R"({"type": "nonsense"})";
  const auto chat = [&](std::string_view fields) {
    return R"({"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9, )" +
           std::string(fields) + "}";
  };
  const std::string schema(kSchema);
  const struct {
    std::string_view path;
    std::string body;
    std::string_view param;
  } rows[] = {
      {"/v1/chat/completions",
       chat(R"("tools": [{"type": "function", "function": {"name": "f", "parameters": )" + schema +
            "}}]"),
       "tools[0].function.parameters"},
      {"/v1/chat/completions",
       chat(R"("functions": [{"name": "f", "parameters": )" + schema + "}]"),
       "functions[0].parameters"},
      {"/v1/messages", chat(R"("tools": [{"name": "f", "input_schema": )" + schema + "}]"),
       "tools[0].input_schema"},
      {"/v1/messages/count_tokens",
       chat(R"("tools": [{"name": "f", "input_schema": )" + schema + "}]"),
       "tools[0].input_schema"},
      {"/v1/responses",
       R"({"model": "m", "input": "hi", "tools": [{"type": "function", "name": "f", "parameters": )" +
           schema + "}]}",
       "tools[0].parameters"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.body);
    const Reply reply = setting.ask("POST", row.path, row.body);
    EXPECT_EQ(reply.status, 400u) << reply.body;
    EXPECT_EQ(text_at(reply.json(), "/error/param"), row.param) << reply.body;
  }
  const Ready free({{.text = "x"}});
  const Reply reply =
      free.ask("POST", "/v1/messages",
               chat(R"("output_config": {"format": {"type": "json_schema", "schema": {}}})"));
  EXPECT_EQ(text_at(reply.json(), "/error/param"), "output_config.format");
  EXPECT_TRUE(text_at(reply.json(), "/error/message").starts_with("output_config.format needs"));
}

TEST(Service, CountsTheTokensOfMessages) {
  const Ready setting({{.text = "Hello"}});
  const Reply counted = setting.ask("POST", "/v1/messages/count_tokens", messages_body(""));
  const Value whole = setting.ask("POST", "/v1/messages", messages_body("")).json();
  const Value cached = *json::at_pointer(whole, "/usage/cache_read_input_tokens");
  EXPECT_EQ(cached, Value(0));
  EXPECT_EQ(*counted.json().find("input_tokens"), *json::at_pointer(whole, "/usage/input_tokens"));
}

TEST(Service, RefusesInTheShapeOfAnthropic) {
  const Ready setting({{.text = "x"}},
                      {.access = {.keys = *ApiKeys::parse(ApiKeys::line("ann", "secret-key-1"))}});
  const struct {
    std::string_view path;
    std::string body;
    std::string_view headers;
    unsigned status;
    std::string_view type;
  } rows[] = {
      {"/v1/messages", "{", "x-api-key: secret-key-1\r\n", 400, "invalid_request_error"},
      {"/v1/messages", messages_body(R"("top_k": "x")"), "x-api-key: secret-key-1\r\n", 400,
       "invalid_request_error"},
      {"/v1/messages",
       R"({"model": "no", "max_tokens": 1, "messages": [{"role": "user", "content": ""}]})",
       "authorization: Bearer secret-key-1\r\n", 404, "not_found_error"},
      {"/v1/messages/count_tokens", messages_body(""), "", 401, "authentication_error"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.body);
    const Reply reply = setting.ask("POST", row.path, row.body, row.headers);
    EXPECT_EQ(reply.status, row.status);
    EXPECT_EQ(text_at(reply.json(), "/type"), "error");
    EXPECT_EQ(text_at(reply.json(), "/error/type"), row.type);
    EXPECT_EQ(text_at(reply.json(), "/request_id"), reply.header("request-id"));
  }
}

// ---- Responses

std::string response_body(std::string_view fields, std::string_view input = "\"hi\"") {
  return R"({"model": "m", "input": )" + std::string(input) +
         R"(, "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}])" +
         std::string(fields.empty() ? "" : ", ") + std::string(fields) + "}";
}

std::vector<Value> events_of(const Reply& reply) {
  http::SseDecoder decoder;
  std::vector<http::SseEvent> events;
  EXPECT_TRUE(decoder.feed(reply.body, events));
  EXPECT_FALSE(decoder.is_mid_event());
  if (!events.empty() && events.back().data == "[DONE]") events.pop_back();
  std::vector<Value> values;
  for (const http::SseEvent& event : events) {
    values.push_back(json::parse(event.data).value_or(Value()));
    EXPECT_EQ(*values.back().find("sequence_number"), Value(std::uint64_t{values.size() - 1}));
  }
  return values;
}

TEST(Service, tool_calling_AnswersWithResponses) {
  const Ready setting({{.text = std::string(kCall)}});
  const Value whole = setting.ask("POST", "/v1/responses", response_body("")).json();
  EXPECT_EQ(text_at(whole, "/status"), "completed");
  EXPECT_EQ(text_at(whole, "/output/0/content/0/text"), "Let me see.\n");
  EXPECT_EQ(text_at(whole, "/output/1/name"), "f");
  EXPECT_EQ(text_at(whole, "/output/1/arguments"), R"({"x": 1.50, "y": [1, 2]})");
  EXPECT_EQ(text_at(setting.ask("POST", "/v1/responses", R"({"input": "hi"})").json(), "/model"),
            "m");
  for (const std::string_view store : {"true", "false"}) {
    const Reply stream =
        setting.ask("POST", "/api/v1/responses",
                    response_body(R"("stream": true, "store": )" + std::string(store)));
    const std::vector<Value> events = events_of(stream);
    EXPECT_EQ(text_at(events.front(), "/type"), "response.created");
    EXPECT_EQ(text_at(events.back(), "/type"), "response.completed");
    EXPECT_EQ(text_at(events.back(), "/response/output/1/arguments"),
              text_at(whole, "/output/1/arguments"));
  }
}

TEST(Service, tool_calling_GoesOnFromAResponse) {
  const Ready setting({{.text = std::string(kCall)}, {.text = "18 degrees"}, {.text = "Bye"}});
  const Value first =
      setting.ask("POST", "/v1/responses", response_body(R"("instructions": "Be kind.")")).json();
  const std::string id = text_at(first, "/id");
  const std::string result = R"([{"type": "function_call_output", "call_id": ")" +
                             text_at(first, "/output/1/call_id") + R"(", "output": "18"}])";
  const std::string link = R"("previous_response_id": ")" + id + "\"";
  const Value second = setting.ask("POST", "/v1/responses", response_body(link, result)).json();
  EXPECT_EQ(text_at(second, "/output/0/content/0/text"), "18 degrees");
  EXPECT_EQ(text_at(second, "/previous_response_id"), id);
  EXPECT_EQ(*json::at_pointer(second, "/instructions"), Value());
  const std::string prompt = setting.engine->text_of(setting.engine->requests()[1].prompt);
  EXPECT_NE(prompt.find("user\nhi"), std::string::npos) << prompt;
  EXPECT_NE(prompt.find("18"), std::string::npos) << prompt;
  EXPECT_EQ(prompt.find("Be kind."), std::string::npos) << "instructions are not inherited";

  const std::string path = "/v1/responses/" + text_at(second, "/id");
  EXPECT_EQ(json::to_string(setting.ask("GET", path).json()), json::to_string(second));
  const Value items = setting.ask("GET", path + "/input_items?order=asc").json();
  ASSERT_EQ(json::at_pointer(items, "/data")->if_array()->size(), 4u);
  EXPECT_EQ(text_at(items, "/data/0/content/0/text"), "hi");
  EXPECT_EQ(text_at(items, "/data/2/id"), text_at(first, "/output/1/id"));
  EXPECT_EQ(text_at(items, "/data/3/output"), "18");

  // The first response may be deleted: the later one has its items.
  EXPECT_EQ(setting.ask("DELETE", "/v1/responses/" + id).body,
            R"({"id":")" + id + R"(","object":"response","deleted":true})");
  EXPECT_EQ(setting.ask("GET", "/v1/responses/" + id).error_code(), "response_not_found");
  EXPECT_EQ(setting.ask("POST", "/v1/responses", response_body(link)).error_code(),
            "previous_response_not_found");
  const std::string on = R"("previous_response_id": ")" + text_at(second, "/id") + "\"";
  EXPECT_EQ(setting.ask("POST", "/v1/responses", response_body(on)).status, 200u);
}

TEST(Service, KeepsNoResponseThatIsNotToBeStoredOrFailed) {
  const Ready setting({{.text = "x"}});
  const Value whole =
      setting.ask("POST", "/v1/responses", response_body(R"("store": false)")).json();
  EXPECT_EQ(*whole.find("store"), Value(false));
  EXPECT_EQ(setting.ask("GET", "/v1/responses/" + text_at(whole, "/id")).status, 404u);
}

// Polling and following the events give the same answer, which can be continued.
TEST(Service, AnswersInTheBackground) {
  const Ready setting({{.text = "Hello there"}});
  const Value begun =
      setting.ask("POST", "/v1/responses", response_body(R"("background": true)")).json();
  EXPECT_EQ(*begun.find("background"), Value(true));
  const std::string path = "/v1/responses/" + text_at(begun, "/id");
  Value polled = begun;
  for (int i = 0; i < 500 && text_at(polled, "/status") == "in_progress"; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    polled = setting.ask("GET", path).json();
  }
  EXPECT_EQ(text_at(polled, "/status"), "completed") << json::to_string(polled);
  EXPECT_EQ(text_at(polled, "/output/0/content/0/text"), "Hello there");
  const Reply stream = setting.ask("GET", path + "?stream=true&starting_after=1");
  EXPECT_NE(stream.body.find("\"sequence_number\":2,"), std::string::npos) << stream.body;
  EXPECT_EQ(stream.body.find("\"sequence_number\":1,"), std::string::npos);
  EXPECT_TRUE(stream.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(setting.ask("GET", path + "?stream=true&starting_after=x").status, 400u);
  EXPECT_EQ(setting.ask("POST", path + "/cancel").json(), polled) << "it is over";
  const std::string on = R"("previous_response_id": ")" + text_at(begun, "/id") + "\"";
  EXPECT_EQ(setting.ask("POST", "/v1/responses", response_body(on)).status, 200u);
  const Reply streamed =
      setting.ask("POST", "/v1/responses", response_body(R"("background": true, "stream": true)"));
  EXPECT_EQ(text_at(events_of(streamed).back(), "/type"), "response.completed");
  EXPECT_EQ(setting.ask("DELETE", path).status, 200u);
  EXPECT_EQ(setting.ask("GET", path).status, 404u);
}

TEST(Service, CancelsInTheBackground) {
  const Ready setting({{.text = std::string(4000, 'x'), .delay = std::chrono::milliseconds(5)}});
  const Value begun =
      setting.ask("POST", "/v1/responses", response_body(R"("background": true)")).json();
  const std::string path = "/v1/responses/" + text_at(begun, "/id");
  EXPECT_EQ(text_at(setting.ask("GET", path).json(), "/status"), "in_progress");
  EXPECT_EQ(text_at(setting.ask("POST", path + "/cancel").json(), "/status"), "cancelled");
  EXPECT_EQ(text_at(setting.ask("GET", path).json(), "/status"), "cancelled");
  EXPECT_TRUE(
      setting.metrics_say("tenon_answers_total{finish_reason=\"cancelled\",model=\"m\"} 1"));
}

TEST(Service, RefusesInTheBackgroundAtOnce) {
  const Ready setting({{.text = "x"}}, {}, {.context_tokens = 64});
  const Reply refused =
      setting.ask("POST", "/v1/responses",
                  R"({"background": true, "input": ")" + std::string(500, 'x') + "\"}");
  EXPECT_EQ(refused.status, 400u) << refused.body;
  EXPECT_EQ(refused.error_code(), "context_length_exceeded");
}

TEST(Service, LeavesTheOldestMessagesOutIfTheClientAllowsIt) {
  const Ready setting({{.text = "x"}, {.text = "y"}}, {}, {.context_tokens = 400});
  const std::string history =
      R"("input": [{"role": "user", "content": "first )" + std::string(500, 'a') +
      R"("}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "last"}]})";
  const Reply refused = setting.ask("POST", "/v1/responses", "{" + history);
  EXPECT_EQ(refused.error_code(), "context_length_exceeded") << refused.body;
  const Reply reply = setting.ask("POST", "/v1/responses", R"({"truncation": "auto", )" + history);
  ASSERT_EQ(reply.status, 200u) << reply.body;
  EXPECT_EQ(text_at(reply.json(), "/tenon/repairs/0/code"), "left_out");
  EXPECT_NE(text_at(reply.json(), "/tenon/repairs/0/message").find("oldest 1 message"),
            std::string::npos);
  // What always fits is not cut.
  const Reply whole =
      setting.ask("POST", "/v1/responses", R"({"truncation": "auto", "input": "short"})");
  EXPECT_EQ(json::at_pointer(whole.json(), "/tenon/repairs/0"), nullptr) << whole.body;
}

// Base addresses that end in a slash, in /v1 twice, or lack it.
TEST(Service, AnswersWhereClientsAskByMistake) {
  const Ready setting({{.text = "x"}, {.text = "x"}, {.text = "x"}, {.text = "x"}});
  for (const std::string path : {"/v1//chat/completions", "//v1/chat/completions",
                                 "/v1/v1/chat/completions", "/chat/completions"}) {
    const Reply reply =
        setting.ask("POST", path, R"({"messages": [{"role": "user", "content": "x"}]})");
    EXPECT_EQ(reply.status, 200u) << path << reply.body;
  }
  EXPECT_EQ(setting.ask("GET", "/models").status, 200u);
  EXPECT_EQ(setting.ask("GET", "/modelsx").status, 404u);
}

TEST(Service, SumsUpAHistoryThatLaterRequestsCarry) {
  const Ready setting({{.text = "They paint a boat blue."}, {.text = "Blue."}});
  const Value compacted = setting
                              .ask("POST", "/v1/responses/compact",
                                   R"({"input": [{"role": "user", "content": "We paint the boat."},
                   {"role": "assistant", "content": "Which colour?"},
                   {"role": "user", "content": [{"type": "input_image", "image_url": "x"},
                    {"type": "input_text", "text": "Blue."}]}]})")
                              .json();
  EXPECT_EQ(text_at(compacted, "/object"), "response.compaction") << json::to_string(compacted);
  EXPECT_EQ(text_at(compacted, "/output/0/role"), "user");
  EXPECT_EQ(text_at(compacted, "/output/2/type"), "compaction");
  const std::string sealed = text_at(compacted, "/output/2/encrypted_content");
  EXPECT_EQ(sealed.find("boat"), std::string::npos);
  const std::string item = R"({"type": "compaction", "encrypted_content": ")" + sealed + "\"}";
  const std::string question = R"({"role": "user", "content": "Which colour?"})";
  EXPECT_EQ(
      setting.ask("POST", "/v1/responses", R"({"input": [)" + item + ", " + question + "]}").status,
      200u);
  const std::string prompt = setting.engine->text_of(setting.engine->requests()[1].prompt);
  EXPECT_NE(prompt.find("They paint a boat blue."), std::string::npos) << prompt;
}

TEST(Service, KeepsConversations) {
  const Ready setting({{.text = "Blue?"}, {.text = "Done."}});
  const Reply made =
      setting.ask("POST", "/v1/conversations", R"({"metadata": {"topic": "boats"}})");
  const std::string id = text_at(made.json(), "/id");
  EXPECT_EQ(text_at(made.json(), "/object"), "conversation") << made.body;
  const std::string with = R"("conversation": ")" + id + "\"";
  EXPECT_EQ(
      setting.ask("POST", "/v1/responses", response_body(with, "\"We paint the boat.\"")).status,
      200u);
  const Value second = setting.ask("POST", "/v1/responses", response_body(with, "\"Yes.\"")).json();
  EXPECT_EQ(text_at(second, "/conversation/id"), id) << json::to_string(second);
  const std::string prompt = setting.engine->text_of(setting.engine->requests()[1].prompt);
  EXPECT_NE(prompt.find("We paint the boat."), std::string::npos) << prompt;
  EXPECT_NE(prompt.find("Blue?"), std::string::npos) << prompt;
  const std::string path = "/v1/conversations/" + id;
  const Value items = setting.ask("GET", path + "/items?order=asc").json();
  ASSERT_EQ(json::at_pointer(items, "/data")->if_array()->size(), 4u) << json::to_string(items);
  EXPECT_EQ(text_at(items, "/data/3/content/0/text"), "Done.");
  const std::string last = path + "/items/" + text_at(items, "/data/3/id");
  EXPECT_EQ(setting.ask("GET", last).json(), *json::at_pointer(items, "/data/3"));
  EXPECT_EQ(setting.ask("DELETE", last).status, 200u);
  EXPECT_EQ(setting.ask("GET", last).status, 404u);
  EXPECT_EQ(setting.ask("POST", path + "/items", R"({"items": [{"role": "user", "content": "x"}]})")
                .status,
            200u);
  EXPECT_EQ(setting.ask("POST", path, "{}").status, 400u);
  EXPECT_EQ(setting.ask("POST", path + "/items", "{}").status, 400u);
  constexpr std::string_view kBoth =
      R"({"metadata": {}, "items": [{"role": "user", "content": "x"}]})";
  EXPECT_EQ(setting.ask("POST", path, kBoth).error_code(), "unsupported_parameter");
  EXPECT_EQ(setting.ask("POST", path + "/items", kBoth).error_code(), "unsupported_parameter");
  EXPECT_EQ(setting.ask("POST", path, R"({"metadata": {}})").status, 200u);
  EXPECT_EQ(setting.ask("DELETE", path).status, 200u);
  EXPECT_EQ(setting.ask("GET", path).status, 404u);
  EXPECT_EQ(setting.ask("GET", path).error_code(), "conversation_not_found");
  EXPECT_EQ(setting.ask("POST", "/v1/responses", response_body(with)).status, 400u);
}

// What a client asks to clear is cleared, and the answer says so.
TEST(Service, ClearsOldResultsOfTools) {
  const Ready setting({{.text = "Done."}});
  const auto body = [](std::string_view more) {
    return R"({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "go"},
      {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content":
        "the gate is green, and so is the whole long fence around the garden"}]},
      {"role": "assistant", "content": [{"type": "tool_use", "id": "b", "name": "f", "input": {}}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b",
        "content": "the door is red"}]}], "context_management": {"edits": [
        {"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 1},
         "keep": {"type": "tool_uses", "value": 1}}]})" +
           std::string(more) + "}";
  };
  const Value whole = setting.ask("POST", "/v1/messages", body("")).json();
  EXPECT_EQ(*json::at_pointer(whole, "/context_management/applied_edits/0/cleared_tool_uses"),
            Value(1))
      << json::to_string(whole);
  const std::string prompt = setting.engine->text_of(setting.engine->requests()[0].prompt);
  EXPECT_EQ(prompt.find("green"), std::string::npos) << prompt;
  EXPECT_NE(prompt.find("the door is red"), std::string::npos) << prompt;
  const Reply stream = setting.ask("POST", "/v1/messages", body(R"(, "stream": true)"));
  EXPECT_NE(stream.body.find("\"cleared_tool_uses\":1"), std::string::npos) << stream.body;
  const Value counted = setting.ask("POST", "/v1/messages/count_tokens", body("")).json();
  const auto number = [&](std::string_view pointer) {
    const Value* value = json::at_pointer(counted, pointer);
    return value == nullptr ? -1 : value->if_number()->to_int64().value_or(-1);
  };
  EXPECT_GT(number("/context_management/original_input_tokens"), number("/input_tokens"));
}

// Counting and rendering report what was left out, too.
TEST(Service, TellsWhatWasLeftOutWhereNothingIsAnswered) {
  const Ready setting({{.text = "x"}});
  for (const auto& [path, body] :
       {std::pair("/v1/messages/count_tokens",
                  R"({"messages": [{"role": "user", "content": "a"}], "mood": 1})"),
        std::pair("/v1/responses/input_tokens", R"({"input": "a", "mood": 1})"),
        std::pair("/v1/chat/completions/render",
                  R"({"messages": [{"role": "user", "content": "a"}], "mood": 1})")}) {
    const Reply reply = setting.ask("POST", path, body);
    EXPECT_EQ(reply.status, 200u) << reply.body;
    EXPECT_EQ(reply.header("x-tenon-left-out"), "mood") << path;
  }
}

TEST(Service, KnowsTheWaysBelowResponses) {
  const Ready setting({{.text = "x"}});
  const std::string id =
      text_at(setting.ask("POST", "/v1/responses", response_body("")).json(), "/id");
  const struct {
    std::string_view method;
    std::string path;
    unsigned status;
  } rows[] = {
      {"GET", "/v1/responses/" + id, 200},
      {"GET", "/v1/responses/" + id + "/", 200},
      {"GET", "/v1/responses/" + id + "?include[]=message.output_text.logprobs", 200},
      {"GET", "/v1/responses/" + id + "?stream=true", 400},
      {"GET", "/v1/responses/" + id + "/input_items", 200},
      {"GET", "/v1/responses/" + id + "/output_items", 404},
      {"GET", "/v1/responses/resp_x/input_items", 404},
      {"GET", "/v1/responses", 405},
      {"POST", "/v1/responses/" + id + "/cancel", 400},
      {"POST", "/v1/responses/resp_x/cancel", 404},
      {"POST", "/v1/responses/" + id, 405},
      {"GET", "/v1/responses/input_tokens", 405},
      {"GET", "/v1/responses//input_items", 404},
      {"PUT", "/v1/responses/" + id, 405},
      {"DELETE", "/v1/responses/" + id, 200},
      {"DELETE", "/v1/responses/" + id, 404},
  };
  for (const auto& row : rows) {
    const Reply reply = setting.ask(row.method, row.path);
    EXPECT_EQ(reply.status, row.status) << row.method << " " << row.path << " " << reply.body;
  }
}

TEST(Service, TellsTheMethodsOfAPath) {
  const Ready setting({{.text = "x"}});
  const struct {
    std::string_view path;
    std::string_view allowed;
  } rows[] = {
      {"/v1/responses/input_tokens", "POST"},
      {"/v1/responses/resp_x", "GET, DELETE"},
      {"/v1/responses/resp_x/input_items", "GET"},
      {"/v1/responses/resp_x/cancel", "POST"},
      {"/v1/responses/compact", "POST"},
      {"/v1/conversations/conv_x", "GET, POST, DELETE"},
      {"/v1/conversations/conv_x/items/msg_1", "GET, DELETE"},
      {"/v1/models/org/name", "GET"},
  };
  for (const auto& row : rows) {
    const Reply reply = setting.ask("PUT", row.path);
    EXPECT_EQ(reply.status, 405u) << row.path;
    EXPECT_EQ(reply.header("allow"), row.allowed) << row.path;
  }
}

TEST(Service, CountsTheTokensOfResponses) {
  const Ready setting({{.text = "Hello"}});
  const Value counted = setting.ask("POST", "/v1/responses/input_tokens", response_body("")).json();
  const Value whole = setting.ask("POST", "/v1/responses", response_body("")).json();
  EXPECT_EQ(text_at(counted, "/object"), "response.input_tokens");
  EXPECT_EQ(*counted.find("input_tokens"), *json::at_pointer(whole, "/usage/input_tokens"));
  const Reply unnamed = setting.ask("POST", "/v1/responses/input_tokens", R"({"input": "hi"})");
  EXPECT_EQ(unnamed.status, 200u) << unnamed.body;
}

TEST(Service, AResponseThatFailsUnderWaySaysSo) {
  const Ready setting({{.text = "abc", .end = message::FinishReason::error}});
  EXPECT_EQ(setting.ask("POST", "/v1/responses", response_body("")).status, 503u);
  const std::vector<Value> events =
      events_of(setting.ask("POST", "/v1/responses", response_body(R"("stream": true)")));
  EXPECT_EQ(text_at(events.back(), "/type"), "response.failed");
  EXPECT_EQ(text_at(events.back(), "/response/error/code"), "server_error");
  const std::string id = text_at(events.back(), "/response/id");
  EXPECT_EQ(setting.ask("GET", "/v1/responses/" + id).status, 404u);
}

TEST(Service, RefusesInTheShapeOfOpenAi) {
  const Ready setting({{.text = "x"}});
  for (const Refused& test : kRefused) {
    SCOPED_TRACE(test.name);
    const Reply reply = setting.ask(test.method, test.path, test.body);
    EXPECT_EQ(reply.status, test.status) << reply.body;
    EXPECT_EQ(reply.error_code(), test.code);
    EXPECT_FALSE(text_at(reply.json(), "/error/message").empty());
    EXPECT_FALSE(text_at(reply.json(), "/error/type").empty());
    EXPECT_FALSE(reply.header("x-request-id").empty());
    EXPECT_EQ(reply.header("allow").empty(), test.status != 405);
  }
}

TEST(Service, RefusesWhatIsTooLarge) {
  const Ready setting({{.text = "x"}});
  const Reply body = setting.ask("POST", "/v1/chat/completions", std::string(8'000'001, ' '));
  EXPECT_EQ(body.status, 413u);
  EXPECT_FALSE(text_at(body.json(), "/error/message").empty());
  const std::string words(20'000, 'w');
  const Reply prompt =
      setting.ask("POST", "/v1/chat/completions",
                  R"({"model": "m", "messages": [{"role": "user", "content": ")" + words + "\"}]}");
  EXPECT_EQ(prompt.status, 400u);
  EXPECT_EQ(prompt.error_code(), "context_length_exceeded");
  EXPECT_EQ(text_at(prompt.json(), "/error/param"), "messages");
}

TEST(Service, IsNotReadyBeforeItsModels) {
  Setting setting(std::vector<engine::Script>{{.text = "x"}}, {}, {});
  EXPECT_EQ(setting.ask("GET", "/health").status, 503u);
  EXPECT_EQ(setting.ask("GET", "/v1/models").error_code(), "not_ready");
  setting.service.set_models(std::move(setting.registry));
  EXPECT_EQ(setting.ask("GET", "/health").body, R"({"status":"ok"})");
  EXPECT_EQ(setting.ask("GET", "/ready").status, 200u);
}

TEST(Service, TellsWhatThereIs) {
  const Ready setting({{.text = "x"}});
  const Value models = setting.ask("GET", "/v1/models").json();
  EXPECT_EQ(text_at(models, "/data/0/id"), "m");
  EXPECT_EQ(text_at(models, "/data/0/tool_call_format"), "hermes");
  EXPECT_EQ(*json::at_pointer(models, "/data/0/capabilities/tool_calls"), Value(true));
  EXPECT_EQ(text_at(setting.ask("GET", "/api/v1/models/alias").json(), "/id"), "m");
  EXPECT_EQ(text_at(setting.ask("GET", "/version").json(), "/version"), "1.2.3");
}

TEST(Service, HasPages) {
  const Ready setting({{.text = "x"}});
  const struct {
    std::string_view path;
    std::string_view type;
  } rows[] = {{"/", "text/html"},
              {"/home.js", "text/javascript"},
              {"/home.css", "text/css"},
              {"/inspector", "text/html"},
              {"/inspector/app.js", "text/javascript"},
              {"/inspector/app.css", "text/css"}};
  for (const auto& row : rows) {
    const Reply page = setting.ask("GET", row.path);
    EXPECT_EQ(page.status, 200U) << row.path;
    EXPECT_TRUE(page.header("content-type").starts_with(row.type)) << row.path;
    EXPECT_TRUE(page.header("content-security-policy").starts_with("default-src 'none';"))
        << row.path;
    EXPECT_GT(page.body.size(), 100U) << row.path;
  }
}

TEST(Service, HasOtherNamesForChatCompletions) {
  const Ready setting({{.text = "x"}});
  for (const std::string_view path : {"/api/generate", "/api/v1/chat/completions"}) {
    const Reply reply = setting.ask("POST", path, Setting::body(""));
    EXPECT_EQ(text_at(reply.json(), "/object"), "chat.completion") << path;
  }
}

TEST(Service, RendersAndTokenizes) {
  const Ready setting({{.text = "x"}});
  const Value rendered =
      setting.ask("POST", "/v1/chat/completions/render", Setting::body("")).json();
  EXPECT_NE(text_at(rendered, "/prompt").find("<|im_start|>user\nhi<|im_end|>"), std::string::npos);
  EXPECT_EQ(text_at(rendered, "/spans/0/2"), "template");
  const Value tokens =
      setting.ask("POST", "/tokenize", R"({"content": "h\u00e9<|im_end|>"})").json();
  EXPECT_EQ(*tokens.find("count"), Value(13));  // bytes: text is no control token
  const Value special =
      setting.ask("POST", "/tokenize", R"({"content": "<|im_end|>", "parse_special": true})")
          .json();
  EXPECT_EQ(*special.find("count"), Value(1));
  const Value back = setting
                         .ask("POST", "/detokenize",
                              "{\"tokens\": " + json::to_string(*tokens.find("tokens")) + "}")
                         .json();
  EXPECT_EQ(text_at(back, "/content"), "h\u00e9<|im_end|>");
}

TEST(Service, tool_calling_RendersTheOpeningOfARequiredCallToo) {
  const Ready setting({{.text = "g\", \"arguments\": {}}\n</tool_call>"}});
  const std::string fields = R"("tool_choice": "required")";
  const Value rendered =
      setting.ask("POST", "/v1/chat/completions/render", Setting::body(fields)).json();
  const std::string prompt = text_at(rendered, "/prompt");
  EXPECT_TRUE(prompt.ends_with("<tool_call>\n{\"name\": \"f\", \"arguments\": {")) << prompt;
  const json::Array& spans = *rendered.find("spans")->if_array();
  EXPECT_EQ((*spans.back().if_array())[1], Value(static_cast<std::uint64_t>(prompt.size())));
  EXPECT_EQ((*spans.back().if_array())[2], Value("template"));
  setting.chat(fields);
  const std::vector<vocab::TokenId> prompted = setting.engine->requests().back().prompt;
  json::Array seen;
  for (const vocab::TokenId id : prompted) seen.emplace_back(id);
  EXPECT_EQ(*rendered.find("tokens"), Value(seen));
}

TEST(Service, KeepsAKnownRequestIdAndReplacesAnUnfitOne) {
  const Ready setting({{.text = "x"}});
  EXPECT_EQ(setting.ask("GET", "/health", "", "x-request-id: mine-1\r\n").header("x-request-id"),
            "mine-1");
  EXPECT_EQ(setting.ask("GET", "/health", "", "x-request-id: a b\r\n")
                .header("x-request-id")
                .substr(0, 4),
            "req_");
}

TEST(Service, AsksForAKeyWhereThereIsOne) {
  const Ready setting({{.text = "x"}},
                      {.access = {.keys = *ApiKeys::parse(ApiKeys::line("ann", "secret-key-1"))}});
  EXPECT_EQ(setting.ask("GET", "/health").status, 200u);
  const Reply refused = setting.ask("GET", "/v1/models");
  EXPECT_EQ(refused.status, 401u);
  EXPECT_EQ(refused.error_code(), "invalid_api_key");
  EXPECT_EQ(refused.header("www-authenticate"), "Bearer");
  EXPECT_EQ(setting.ask("GET", "/v1/models", "", "authorization: Bearer secret-key-1\r\n").status,
            200u);
  EXPECT_EQ(setting.ask("POST", "/v1/chat/completions", Setting::body("")).status, 401u);
}

std::string key_header(std::string_view key) {
  return "authorization: Bearer " + std::string(key) + "\r\n";
}

TEST(Service, HoldsKeysToTheirLimits) {
  const std::string file = ApiKeys::line("ann", "key-of-ann", {.requests_per_minute = 1}) + "\n" +
                           ApiKeys::line("bob", "key-of-bob", {.tokens_per_minute = 1}) + "\n" +
                           ApiKeys::line("eve", "key-of-eve", {.running = 1});
  const Ready setting({{.text = "some words of an answer"}},
                      {.access = {.keys = *ApiKeys::parse(file)}});
  const auto chat = [&](std::string_view key) {
    return setting.ask("POST", "/v1/chat/completions", Setting::body(""), key_header(key));
  };
  for (const std::string_view key : {"key-of-ann", "key-of-bob"}) {
    EXPECT_EQ(chat(key).status, 200u) << key;
    const Reply refused = chat(key);
    EXPECT_EQ(refused.status, 429u) << key;
    EXPECT_EQ(refused.error_code(), "rate_limit_exceeded");
    EXPECT_GE(std::atoi(std::string(refused.header("retry-after")).c_str()), 55) << key;
    EXPECT_EQ(setting.ask("GET", "/v1/models", "", key_header(key)).status, 200u) << key;
  }
  // A client that has its answer may ask again at once.
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(chat("key-of-eve").status, 200u);
    EXPECT_EQ(
        setting.ask("POST", "/tokenize", R"({"content": "x"})", key_header("key-of-eve")).status,
        200u);
    EXPECT_EQ(fold(setting.ask("POST", "/v1/chat/completions", Setting::body(R"("stream": true)"),
                               key_header("key-of-eve")))
                  .is_done,
              true);
  }
}

TEST(Service, KeepsTheResponsesOfEachKeyToIt) {
  const std::string file =
      ApiKeys::line("ann", "key-of-ann") + "\n" + ApiKeys::line("bob", "key-of-bob");
  const Ready setting({{.text = "x"}}, {.access = {.keys = *ApiKeys::parse(file)}});
  const auto ask = [&](std::string_view method, const std::string& path, std::string_view body,
                       std::string_view key) {
    return setting.ask(method, path, body, key_header(key));
  };
  const std::string create = R"({"model": "m", "input": "hi")";
  const std::string id =
      text_at(ask("POST", "/v1/responses", create + "}", "key-of-ann").json(), "/id");
  const std::string path = "/v1/responses/" + id;
  const std::string next = create + R"(, "previous_response_id": ")" + id + "\"}";
  EXPECT_EQ(ask("GET", path, "", "key-of-bob").status, 404u);
  EXPECT_EQ(ask("GET", path + "/input_items", "", "key-of-bob").status, 404u);
  EXPECT_EQ(ask("GET", "/v1/responses/ann/" + id, "", "key-of-bob").status, 404u);
  EXPECT_EQ(ask("POST", path + "/cancel", "", "key-of-bob").status, 404u);
  EXPECT_EQ(ask("DELETE", path, "", "key-of-bob").status, 404u);
  EXPECT_EQ(ask("POST", "/v1/responses", next, "key-of-bob").error_code(),
            "previous_response_not_found");
  EXPECT_EQ(ask("POST", "/v1/responses/input_tokens", next, "key-of-bob").error_code(),
            "previous_response_not_found");
  EXPECT_EQ(ask("GET", path, "", "key-of-ann").status, 200u);
  EXPECT_EQ(ask("POST", "/v1/responses", next, "key-of-ann").status, 200u);
  EXPECT_EQ(ask("DELETE", path, "", "key-of-ann").status, 200u);
}

TEST(Service, AnswersNoForeignPagesWithoutKeys) {
  const std::string_view origin = "origin: http://evil.example\r\n";
  const Ready open({{.text = "x"}});
  const Reply refused = open.ask("POST", "/v1/chat/completions", Setting::body(""), origin);
  EXPECT_EQ(refused.status, 403u);
  EXPECT_EQ(refused.error_code(), "origin_not_allowed");
  EXPECT_EQ(open.ask("GET", "/v1/models", "", "origin: http://localhost\r\n").status, 200u);
  const Ready locked({{.text = "x"}},
                     {.access = {.keys = *ApiKeys::parse(ApiKeys::line("a", "key-of-a"))}});
  EXPECT_EQ(
      locked.ask("GET", "/v1/models", "", std::string(origin) + key_header("key-of-a")).status,
      200u);
}

TEST(Service, AnswersBrowsersOfKnownOriginsOnly) {
  const Ready setting({{.text = "x"}}, {.access = {.cors_origins = {"http://a"}}});
  const Reply known = setting.ask("GET", "/v1/models", "", "origin: http://a\r\n");
  EXPECT_EQ(known.header("access-control-allow-origin"), "http://a");
  const Reply other = setting.ask("GET", "/v1/models", "", "origin: http://b\r\n");
  EXPECT_TRUE(other.header("access-control-allow-origin").empty());
  const Reply preflight = setting.ask("OPTIONS", "/v1/chat/completions", "",
                                      "origin: http://a\r\naccess-control-request-method: POST\r\n"
                                      "access-control-request-headers: content-type,x-stainless-os"
                                      "\r\n");
  EXPECT_EQ(preflight.status, 204u);
  EXPECT_EQ(preflight.header("access-control-allow-origin"), "http://a");
  EXPECT_EQ(preflight.header("access-control-allow-headers"), "content-type,x-stainless-os");
  EXPECT_EQ(preflight.header("vary"), "origin, access-control-request-headers");
  const Reply refused =
      setting.ask("OPTIONS", "/v1/chat/completions", "",
                  "origin: http://b\r\naccess-control-request-headers: content-type\r\n");
  EXPECT_TRUE(refused.header("access-control-allow-headers").empty());
}

TEST(Service, AnswersToForeignNamesOnlyWithKeysOrWherePermitted) {
  const std::string_view foreign = "host: evil.example:8080\r\n";
  const Ready open({{.text = "x"}});
  const Reply refused = open.ask("GET", "/v1/models", "", foreign);
  EXPECT_EQ(refused.status, 403u);
  EXPECT_EQ(refused.error_code(), "host_not_allowed");
  EXPECT_EQ(open.ask("POST", "/v1/chat/completions", Setting::body(""), foreign).status, 403u);
  EXPECT_EQ(open.ask("GET", "/health", "", foreign).status, 200u);
  const Ready permitted({{.text = "x"}}, {.access = {.allowed_hosts = {"evil.example"}}});
  EXPECT_EQ(permitted.ask("GET", "/v1/models", "", foreign).status, 200u);
  const Ready locked({{.text = "x"}},
                     {.access = {.keys = *ApiKeys::parse(ApiKeys::line("ann", "secret-key-1"))}});
  EXPECT_EQ(locked.ask("GET", "/v1/models", "", foreign).status, 401u);
}

// ---- traces, stops and changes

TEST(Service, HandsOnTheTraceOfARequest) {
  static std::mutex mutex;
  static std::vector<trace::Context> seen;
  static std::vector<std::string> lines;
  const Ready setting([](const auto&) -> Expected<engine::Script> {
    const std::lock_guard lock(mutex);
    seen.push_back(trace::current());
    log::info("asked");
    return engine::Script{.text = "x"};
  });
  const std::string parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const std::string good = "traceparent: " + parent + "\r\n";
  const struct {
    std::string headers;
    trace::Context context;
  } rows[] = {
      {good + "tracestate: a=1\r\ntracestate: b=2\r\n", {parent, "a=1,b=2"}},
      {good + "tracestate: A=1\r\n", {parent, ""}},
      {good + good, {}},
      {"traceparent: " + parent + "-x\r\ntracestate: a=1\r\n", {}},
      {"", {}},
  };
  log::set_sink(
      [](log::Level, std::string_view line) {
        if (line.ends_with("asked")) lines.emplace_back(line);
      },
      log::Level::info);
  for (const auto& [headers, context] : rows) {
    EXPECT_EQ(setting
                  .ask("POST", "/v1/chat/completions", Setting::body(""),
                       headers + "x-request-id: mine\r\n")
                  .status,
              200u);
    EXPECT_EQ(seen.back(), context) << headers;
    EXPECT_EQ(lines.back(), context.parent.empty()
                                ? "mine asked"
                                : "mine trace=0af7651916cd43dd8448eb211c80319c asked");
  }
  log::set_sink(nullptr, log::Level::info);
}

TEST(Service, NamesTheKeyInItsLogAndNeverShowsIt) {
  static std::vector<std::string> lines;
  const Ready setting({{.text = "x"}},
                      {.access = {.keys = *ApiKeys::parse(ApiKeys::line("ann", "secret-key-1"))}});
  log::set_sink([](log::Level, std::string_view line) { lines.emplace_back(line); },
                log::Level::debug);
  EXPECT_EQ(setting.ask("GET", "/v1/models", "", key_header("secret-key-1")).status, 200u);
  EXPECT_EQ(setting.ask("GET", "/v1/models", "", key_header("secret-key-2")).status, 401u);
  log::set_sink(nullptr, log::Level::info);
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  EXPECT_NE(all.find(" key=ann GET /v1/models\n"), std::string::npos) << all;
  EXPECT_NE(all.find("refused 127.0.0.1:"), std::string::npos) << all;
  EXPECT_EQ(all.find("secret"), std::string::npos) << all;
}

TEST(Service, TakesOtherKeysWhileItRuns) {
  const std::string ann = ApiKeys::line("ann", "key-of-ann", {.requests_per_minute = 1});
  Ready setting({{.text = "x"}}, {.access = {.keys = *ApiKeys::parse(ann)}});
  const auto ask = [&](std::string_view key) {
    return setting.ask("POST", "/tokenize", R"({"content": "x"})", key_header(key)).status;
  };
  EXPECT_EQ(ask("key-of-ann"), 200u);
  EXPECT_EQ(ask("key-of-bob"), 401u);
  setting.service.set_access(
      {.keys = *ApiKeys::parse(ann + "\n" + ApiKeys::line("bob", "key-of-bob"))});
  EXPECT_EQ(ask("key-of-ann"), 429u) << "what was used is not forgotten";
  EXPECT_EQ(ask("key-of-bob"), 200u);
  setting.service.set_access({.keys = *ApiKeys::parse(ApiKeys::line("bob", "key-of-bob"))});
  EXPECT_EQ(ask("key-of-ann"), 401u);
  setting.service.set_access({.cors_origins = {"http://a"}});
  EXPECT_EQ(setting.ask("GET", "/v1/models", "", "origin: http://a\r\n").status, 200u);
}

TEST(Service, TakesOtherModelsWhileItRuns) {
  Ready setting({{.text = std::string(300, 'x'), .delay = std::chrono::milliseconds(2)}});
  Client client(setting.server->port());
  client.send("POST", "/v1/chat/completions", Setting::body(R"("stream": true)"));
  client.read_some();
  auto other = chat::Model::create({.name = "other", .format = "hermes"}, setting.engine);
  ASSERT_TRUE(other);
  std::vector<chat::ModelRegistry::Addition> added;
  added.push_back({.source = {.name = "other"}, .model = *std::move(other)});
  ASSERT_TRUE(setting.service.models().replace({"m"}, std::move(added)));
  EXPECT_EQ(setting.chat("").error_code(), "model_not_found");
  EXPECT_EQ(setting.ask("GET", "/v1/models/other").status, 200u);
  EXPECT_EQ(setting.ask("GET", "/v1/models/m").status, 404u);
  EXPECT_EQ(setting.service.models().sweep(), 1u) << "its answer goes on";
  EXPECT_NE(client.read_rest().find("[DONE]"), std::string::npos);
  // The engine reports the end of the run before it releases it.
  for (int i = 0; i < 500 && setting.service.models().sweep() > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(setting.service.models().sweep(), 0u);
}

struct CutRow {
  std::string_view path;
  std::string_view body;
  std::string_view says;  // the last event of the stream
};

const CutRow kCuts[] = {
    {"/v1/chat/completions", R"({"model": "m", "messages": [{"role": "user", "content": "hi"}])",
     R"("code":"server_stopping"}})"},
    {"/v1/responses", R"({"model": "m", "input": "hi")", "event: response.failed"},
    {"/v1/messages",
     R"({"model": "m", "max_tokens": 9999, "messages": [{"role": "user", "content": "hi"}])",
     "event: error"},
};

TEST(Service, TellsInEachDialectThatAnAnswerIsCut) {
  static std::mutex mutex;
  static std::vector<std::string> lines;
  for (const CutRow& row : kCuts) {
    SCOPED_TRACE(row.path);
    Ready setting({{.text = std::string(16'000, 'x'), .delay = std::chrono::milliseconds(5)}});
    Client stream(setting.server->port());
    stream.send("POST", row.path, std::string(row.body) + R"(, "stream": true})",
                "x-request-id: mine\r\n");
    while (stream.read_some().find('x') == std::string::npos) continue;
    Client whole(setting.server->port());
    whole.send("POST", row.path, std::string(row.body) + "}");
    while (setting.engine->requests().size() < 2) std::this_thread::yield();
    EXPECT_FALSE(setting.server->drain(std::chrono::milliseconds(20)));
    lines.clear();
    log::set_sink(
        [](log::Level, std::string_view line) {
          const std::lock_guard lock(mutex);
          lines.emplace_back(line);
        },
        log::Level::warn);
    setting.service.cut_answers();
    EXPECT_TRUE(setting.server->drain(std::chrono::seconds(10)));
    log::set_sink(nullptr, log::Level::warn);
    const std::string rest = stream.read_rest();
    EXPECT_NE(rest.find(row.says), std::string::npos) << rest.substr(rest.size() - 500);
    EXPECT_NE(rest.find("the server is being stopped"), std::string::npos);
    EXPECT_TRUE(rest.ends_with("0\r\n\r\n")) << "the stream has its end";
    const Reply reply = whole.read();
    EXPECT_EQ(reply.status, 503u);
    EXPECT_NE(reply.body.find("the server is being stopped"), std::string::npos);
    EXPECT_EQ(lines.size(), 3u);  // and that the second is a 503
    EXPECT_EQ(std::ranges::count(lines, "mine the answer was cut: the server is being stopped"), 1);
  }
}

struct EngineFault {
  std::string_view name;
  Error error;
  unsigned status;
  std::string_view code;
};

const EngineFault kEngineFaults[] = {
    {"Gone", {Errc::unavailable, "no server"}, 503, "engine_error"},
    {"RefusesTheRequest", {Errc::invalid, "status 400: bad grammar"}, 400, "invalid_value"},
    {"CannotDoIt", {Errc::unsupported, "no logprobs"}, 400, "invalid_value"},
    {"HasNoRoom", {Errc::limit_exceeded, "no room"}, 400, "context_length_exceeded"},
};

TEST(Service, TellsWhoseFaultAFailedAnswerIs) {
  for (const EngineFault& test : kEngineFaults) {
    SCOPED_TRACE(test.name);
    const Ready setting(
        {{.text = "Hel", .end = message::FinishReason::error, .error = test.error}});
    const Reply reply = setting.chat("");
    EXPECT_EQ(reply.status, test.status);
    EXPECT_EQ(reply.error_code(), test.code);
    EXPECT_EQ(reply.header("retry-after"), test.status == 503 ? "1" : "");
    EXPECT_EQ(text_at(reply.json(), "/error/message"), "the engine: " + test.error.message);
  }
}

TEST(Service, AnEngineThatFailsIsToldInEitherForm) {
  const Ready setting({{.text = "Hel", .end = message::FinishReason::error}});
  const Reply whole = setting.chat("");
  EXPECT_EQ(whole.status, 503u);
  EXPECT_EQ(whole.error_code(), "engine_error");
  const Folded folded = fold(setting.chat(R"("stream": true)"));
  EXPECT_EQ(folded.contents.at(0), "Hel");
  EXPECT_EQ(text_at(folded.chunks.back(), "/error/code"), "engine_error");
  EXPECT_TRUE(folded.is_done);
}

/// Stops the thread that starts an answer with max_tokens 7, until the test opens it.
class Gate {
 public:
  static constexpr std::string_view kHeld = R"("max_tokens": 7)";

  ScriptedEngine::Choice choice() {
    return [this](const engine::GenerateRequest& request) -> Expected<engine::Script> {
      if (request.max_tokens == 7) {
        ++held_;
        // With the limit a test fails, instead of hanging, if it is never opened.
        was_opened_ = opened_.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
      }
      return engine::Script{.text = "x"};
    };
  }
  void wait_until_held(int count) const {
    while (held_ < count) std::this_thread::yield();
  }
  void open() { open_.set_value(); }
  bool was_opened() const { return was_opened_; }

 private:
  std::promise<void> open_;
  std::shared_future<void> opened_ = open_.get_future().share();
  std::atomic<int> held_ = 0;
  std::atomic<bool> was_opened_ = true;
};

TEST(Service, HealthAndSmallRequestsWaitForNoOther) {
  Gate gate;
  const Ready setting(gate.choice());
  const std::string_view chat = "/v1/chat/completions";
  // Two large requests, of which one runs and one waits; and a small one.
  const std::string padding = ", \"user\": \"" + std::string(300'000, 'u') + '"';
  std::vector<std::unique_ptr<Client>> held;
  for (const std::string& more : {padding, padding, std::string()}) {
    held.push_back(std::make_unique<Client>(setting.server->port()));
    held.back()->send("POST", chat, Setting::body(std::string(Gate::kHeld) + more));
  }
  gate.wait_until_held(2);
  EXPECT_EQ(setting.ask("GET", "/health").status, 200u);
  EXPECT_EQ(setting.ask("GET", "/metrics").status, 200u);
  EXPECT_EQ(setting.chat("").status, 200u);
  EXPECT_EQ(fold(setting.chat(R"("stream": true)")).contents.at(0), "x");
  gate.open();
  for (const auto& client : held) EXPECT_EQ(client->read().status, 200u);
  EXPECT_TRUE(gate.was_opened());
}

// An upstream that does not answer delays its own requests, however many, and no others.
TEST(Service, ModelsWaitForNoOthersEngine) {
  Gate gate;
  Setting setting(gate.choice(), {}, {.is_remote = true});
  const auto other = std::make_shared<ScriptedEngine>(
      ScriptedEngine::Options{.chat_template = std::string(kTemplate)},
      std::vector<engine::Script>{{.text = "y"}});
  auto model = chat::Model::create({.name = "other", .format = "hermes"}, other);
  ASSERT_TRUE(model);
  ASSERT_TRUE(setting.registry.add(*model));
  setting.service.set_models(std::move(setting.registry));
  std::vector<std::unique_ptr<Client>> held;
  for (int i = 0; i < 6; ++i) {
    held.push_back(std::make_unique<Client>(setting.server->port()));
    held.back()->send("POST", "/v1/chat/completions", Setting::body(Gate::kHeld));
  }
  gate.wait_until_held(4);
  const Reply reply =
      setting.ask("POST", "/v1/chat/completions",
                  R"({"model": "other", "messages": [{"role": "user", "content": "hi"}]})");
  EXPECT_EQ(reply.status, 200u) << reply.body;
  gate.open();
  for (const auto& client : held) EXPECT_EQ(client->read().status, 200u);
  EXPECT_TRUE(gate.was_opened());
}

TEST(Service, RefusesWhatWouldWaitBehindTooMany) {
  Gate gate;
  const Ready setting(gate.choice(), {.max_waiting = 0});
  const Reply refused = setting.chat("");
  EXPECT_EQ(refused.status, 503u);
  EXPECT_EQ(refused.error_code(), "overloaded");
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_EQ(setting.ask("GET", "/health").status, 200u);
}

TEST(Service, EndsWhileRequestsWaitAndRun) {
  Gate gate;
  std::vector<std::unique_ptr<Client>> clients;
  {
    const Ready setting(gate.choice());
    for (int i = 0; i < 6; ++i) {
      clients.push_back(std::make_unique<Client>(setting.server->port()));
      clients.back()->send("POST", "/v1/chat/completions", Setting::body(Gate::kHeld));
    }
    gate.wait_until_held(4);
    gate.open();
  }
  // Each was cut off, or answered just before.
  for (const auto& client : clients) {
    const unsigned status = client->read().status;
    EXPECT_TRUE(status == 0 || status == 200) << status;
  }
  EXPECT_TRUE(gate.was_opened());
}

// Whatever fails, and at which choice, the client is told and the request counts as ended once.
TEST(Service, SurvivesAnEngineThatThrows) {
  for (const int good : {0, 1}) {
    auto started = std::make_shared<std::atomic<int>>(0);
    const Ready setting([good, started](const auto&) -> Expected<engine::Script> {
      if (started->fetch_add(1) >= good) throw std::bad_alloc();
      return engine::Script{.text = std::string(1000, 'x'), .delay = std::chrono::milliseconds(1)};
    });
    const Reply reply = setting.chat(R"("n": 2)");
    EXPECT_EQ(reply.status, 500u);
    EXPECT_EQ(reply.error_code(), "internal_error");
    EXPECT_TRUE(setting.metrics_say(
        "tenon_http_requests_total{route=\"/v1/chat/completions\",status=\"500\"} 1\n"));
    EXPECT_TRUE(setting.metrics_say("tenon_requests_running 1\n"));  // this one
  }
}

// If an engine fails before its first event, the stream has not begun, and there is a status.
TEST(Service, AStreamThatFailsAtOnceHasAStatus) {
  for (const std::string_view text : {"", "Hello"}) {
    const Ready setting({{.text = std::string(text), .end = message::FinishReason::error}});
    const Reply reply = setting.chat(R"("stream": true)");
    EXPECT_EQ(reply.status, text.empty() ? 503U : 200U) << reply.body;
    EXPECT_NE(reply.body.find("engine_error"), std::string::npos) << reply.body;
    EXPECT_EQ(reply.body.find("[DONE]") == std::string::npos, text.empty()) << reply.body;
  }
}

TEST(Service, SaysThatItIsBusy) {
  ScriptedEngine::Options options;
  options.max_concurrent = 1;
  options.queue_limit = 1;
  const Ready setting({{.text = std::string(500, 'x'), .delay = std::chrono::milliseconds(20)}}, {},
                      options);
  Client first(setting.server->port());
  first.send("POST", "/v1/chat/completions", Setting::body(R"("stream": true)"));
  first.read_some();
  Client second(setting.server->port());
  second.send("POST", "/v1/chat/completions", Setting::body(R"("stream": true)"));
  for (int i = 0; i < 1000 && setting.engine->requests().size() < 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const Reply refused = setting.chat("");
  EXPECT_EQ(refused.status, 429u) << refused.body;
  EXPECT_EQ(refused.header("retry-after"), "1");
}

TEST(Service, CancelsTheAnswerOfAClientThatGoesAway) {
  const Ready setting({{.text = std::string(100'000, 'x'), .delay = std::chrono::milliseconds(5)}});
  for (const std::string_view fields : {"\"stream\": true", "\"stream\": false"}) {
    Client client(setting.server->port());
    const std::size_t before = setting.engine->requests().size();
    client.send("POST", "/v1/chat/completions", Setting::body(fields));
    while (setting.engine->requests().size() == before) std::this_thread::yield();
  }
  EXPECT_TRUE(
      setting.metrics_say("tenon_answers_total{finish_reason=\"cancelled\",model=\"m\"} 2"));
  EXPECT_TRUE(setting.metrics_say("status=\"499\"} 2"));
}

// Two clients ask for 7 MB of chunks. One reads nothing while the other is answered whole, so its
// own answer must have stopped where the kernel's buffers and kPauseBytes were full.
TEST(Service, PausesTheEngineForASlowClientAndLosesNothing) {
  const std::string text(30'000, 'x');
  ScriptedEngine::Options options;
  options.context_tokens = 100'000;
  const Ready setting({{.text = text}}, {}, options);
  Client slow(setting.server->port());
  slow.send("POST", "/v1/chat/completions", Setting::body(R"("stream": true)"));
  EXPECT_EQ(fold(setting.chat(R"("stream": true)")).contents.at(0), text);
  EXPECT_TRUE(setting.metrics_say("tenon_answers_total{finish_reason=\"stop\",model=\"m\"} 1\n"));
  EXPECT_EQ(fold(slow.read()).contents.at(0), text);
  EXPECT_TRUE(setting.metrics_say("tenon_answers_total{finish_reason=\"stop\",model=\"m\"} 2\n"));
}

}  // namespace
}  // namespace tenon::api
