#include "tenon/engine/upstream/chat_server.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/http/server.h"
#include "tenon/json/value.h"

namespace tenon::engine {
namespace {

using json::Value;
using message::FinishReason;

constexpr std::string_view kModels =
    R"({"object": "list", "data": [{"id": "a"}, {"id": "b", "context_length": 512}]})";

/// A server that lists two models, and answers every chat with what is written down, cut every
/// `step` bytes.
class Fake {
 public:
  explicit Fake(std::string answer, std::string type = "text/event-stream",
                std::size_t step = 1 << 20)
      : answer_(std::move(answer)), type_(std::move(type)), step_(step) {
    auto started = http::Server::start(
        {.port = 0}, [this](std::shared_ptr<http::Exchange> exchange) { handle(*exchange); });
    EXPECT_TRUE(started) << (started ? "" : started.error().message);
    server_ = *std::move(started);
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }
  std::string asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  void handle(http::Exchange& exchange) {
    const http::Request& request = exchange.request();
    if (request.path == "/v1/models") return exchange.respond({.body = std::string(kModels)});
    {
      const std::lock_guard lock(mutex_);
      asked_ = std::string(request.path) + " " + std::string(request.body);
    }
    exchange.begin_stream(type_, {});
    for (std::size_t at = 0; at < answer_.size(); at += step_) {
      exchange.write(answer_.substr(at, step_));
    }
    exchange.end_stream();
  }

  const std::string answer_;
  const std::string type_;
  const std::size_t step_;
  mutable std::mutex mutex_;
  std::string asked_;
  std::unique_ptr<http::Server> server_;  // last: its thread uses all of the above
};

/// All that comes, in few letters: text, "(reasoning)", "[index name arguments]" of calls whose
/// pieces are joined.
class ChatRecord final : public EventSink {
 public:
  void on_token(const Token& token) override { add(std::string(token.bytes), "text"); }
  void on_reasoning(std::string_view text) override { add("(" + std::string(text) + ")", "think"); }
  void on_call(const CallPiece& piece) override {
    add("[" + std::to_string(piece.index) + " " + std::string(piece.name) + " " +
            std::string(piece.arguments) + "]",
        "call");
  }
  void on_end(const RunEnd& end) override {
    const std::lock_guard lock(mutex_);
    end_ = end;
    changed_.notify_all();
  }
  bool wait_end() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [this] { return end_.has_value(); });
  }
  std::string all() {
    const std::lock_guard lock(mutex_);
    return all_;
  }
  RunEnd end() {
    const std::lock_guard lock(mutex_);
    return *end_;
  }

 private:
  void add(const std::string& text, std::string_view /*kind*/) {
    const std::lock_guard lock(mutex_);
    all_ += text;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string all_;
  std::optional<RunEnd> end_;
};

Expected<std::unique_ptr<Engine>> connect(const Fake& fake,
                                          ChatDialect dialect = ChatDialect::openai,
                                          std::string model = "b") {
  return connect_chat_server(
      {.dialect = dialect, .url = fake.url() + "/v1", .model = std::move(model)});
}

GenerateRequest request_of(message::ChatRequest chat) {
  return {.chat = std::make_shared<const message::ChatRequest>(std::move(chat))};
}

std::string chunk(std::string_view delta, std::string_view more = "") {
  return R"(data: {"id":"x","choices":[{"index":0,"delta":)" + std::string(delta) +
         std::string(more) + "}]}\n\n";
}

struct Case {
  std::string_view name;
  std::string answer;
  std::string_view all;
  FinishReason reason = FinishReason::stop;
  std::string_view error_part = {};
  std::string_view type = "text/event-stream";
  ChatDialect dialect = ChatDialect::openai;
};

const std::string kStop = chunk("{}", R"(,"finish_reason":"stop")");
constexpr std::string_view kDone = "data: [DONE]\n\n";

const Case kCases[] = {
    {"Text",
     chunk(R"({"role":"assistant","content":""})") + chunk(R"({"content":"h\u00e9"})") + kStop +
         std::string(kDone),
     "h\u00e9"},
    {"ReasoningOfTwoNames",
     chunk(R"({"reasoning_content":"a"})") + chunk(R"({"reasoning":"b","content":null})") + kStop,
     "(a)(b)"},
    {"CallInPieces",
     chunk(
         R"({"tool_calls":[{"index":0,"id":"1","type":"function","function":{"name":"f","arguments":""}}]})") +
         chunk(R"({"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]})") +
         chunk("{}", R"(,"finish_reason":"tool_calls")"),
     "[0 f ][0  {}]"},
    {"CallsWithoutIndices",
     chunk(R"({"tool_calls":[{"function":{"name":"f","arguments":"{"}}]})") +
         chunk(R"({"tool_calls":[{"function":{"arguments":"}"}}]})") +
         chunk(R"({"tool_calls":[{"function":{"name":"g","arguments":{"a":1}}}]})") + kStop,
     R"([0 f {][0  }][1 g {"a":1}])"},
    {"CommentsAndKeepAlives",
     ": OPENROUTER PROCESSING\n\n: keep-alive\n\n" + chunk(R"({"content":"a"})") + ": x\n\n" +
         kStop,
     "a"},
    {"WithoutDone", chunk(R"({"content":"a"})") + kStop, "a"},
    {"DoneWithoutReason", chunk(R"({"content":"a"})") + std::string(kDone), "a"},
    {"NothingButDone", std::string(kDone), "", FinishReason::error, "broke off"},
    {"Length", chunk(R"({"content":"a"})", R"(,"finish_reason":"length")"), "a",
     FinishReason::length},
    {"OtherChoices",
     R"(data: {"choices":[{"index":1,"delta":{"content":"b"}},{"index":0,"delta":{"content":"a"}}]})"
     "\n\n" +
         kStop,
     "a"},
    {"ErrorInAStream",
     chunk(R"({"content":"a"})") + "data: {\"error\":{\"message\":\"no memory\"}}\n\n", "a",
     FinishReason::error, "no memory"},
    {"ErrorOfNull",
     R"(data: {"error":null,"choices":[{"index":0,"delta":{"content":"a"}}]})"
     "\n\n" +
         kStop,
     "a"},
    {"Filtered", chunk(R"({"content":"a"})", R"(,"finish_reason":"content_filter")"), "a",
     FinishReason::error, "content_filter"},
    {"CutInTheMiddle", chunk(R"({"content":"a"})") + "data: {\"choices\":[{\"ind", "a",
     FinishReason::error, "broke off"},
    {"NoJson", "data: <html>\n\n", "", FinishReason::error, "not JSON"},
    {"NoObject", "data: []\n\n", "", FinishReason::error, "no object"},
    {"Document",
     R"({"choices":[{"index":0,"message":{"content":"a","reasoning_content":"r","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],)"
     R"("usage":{"prompt_tokens":3,"completion_tokens":7}})",
     "(r)a[0 f {}]", FinishReason::stop, "", "application/json; charset=utf-8"},
    {"DocumentWithError", R"({"error":{"message":"no memory"}})", "", FinishReason::error,
     "no memory", "application/json"},
    {"CutDocument", R"({"choices":[{"index":0,"message":{"content":"a"}}])", "",
     FinishReason::error, "not JSON", "application/json"},
    {"PartsAndRefusals", chunk(R"({"content":[{"type":"text","text":"a"}],"refusal":"b"})") + kStop,
     "ab"},
    {"FunctionCall", chunk(R"({"function_call":{"name":"f","arguments":"{}"}})") + kStop,
     "[0 f {}]"},
    {"ManyNodesAnswer",
     chunk(R"({"content":"a"})") +
         R"(data: {"id":"y","choices":[{"index":0,"delta":{"content":"a"}}]})"
         "\n\n" +
         kStop,
     "a", FinishReason::stop, "", "text/event-stream", ChatDialect::exo},
};

TEST(ChatServer, tool_calling_ReadsAnswersHoweverTheyAreCut) {
  for (const Case& test : kCases) {
    for (const std::size_t step : {std::size_t{1}, std::size_t{11}, std::size_t{1} << 20}) {
      SCOPED_TRACE(test.name);
      const Fake fake(test.answer, std::string(test.type), step);
      auto engine = connect(fake, test.dialect);
      ASSERT_TRUE(engine) << engine.error().message;
      auto sink = std::make_shared<ChatRecord>();
      auto run = (*engine)->start(request_of({}), sink);
      ASSERT_TRUE(run && sink->wait_end());
      EXPECT_EQ(sink->all(), test.all);
      EXPECT_EQ(sink->end().reason, test.reason);
      EXPECT_NE(sink->end().error.message.find(test.error_part), std::string::npos)
          << sink->end().error.message;
    }
  }
}

message::ChatRequest full_request() {
  message::ChatRequest chat;
  chat.messages = {{.role = message::Role::developer, .content = "d"},
                   {.role = message::Role::user, .parts = {{.text = "u"}}},
                   {.role = message::Role::assistant,
                    .reasoning = "r",
                    .tool_calls = {{.id = "1", .name = "f", .arguments = "{}"}}},
                   {.role = message::Role::tool, .content = "t", .tool_call_id = "1"}};
  chat.messages[1].extra.set("x", 1);
  chat.tools = {{.name = "f", .description = "F", .parameters = json::Object{{"type", "object"}}}};
  chat.tool_choice = {.mode = message::ToolMode::required, .allowed = {"f"}};
  chat.parallel_tool_calls = false;
  chat.template_kwargs.set("reasoning_effort", "low");
  chat.template_kwargs.set("enable_thinking", true);
  chat.response_format = {.kind = message::ResponseFormat::Kind::json,
                          .schema = json::Object{{"type", "object"}}};
  return chat;
}

constexpr std::string_view kMessages =
    R"("messages":[{"role":"system","content":"d"},)"
    R"({"role":"user","content":[{"type":"text","text":"u"}],"x":1},)"
    R"({"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[{"id":"1","type":"function",)"
    R"("function":{"name":"f","arguments":"{}"}}]},)"
    R"({"role":"tool","content":"t","tool_call_id":"1"}],"stream":true,"stream_options":{"include_usage":true},)";
constexpr std::string_view kTools =
    R"("tools":[{"type":"function","function":{"name":"f","description":"F","parameters":{"type":"object"}}}])";

TEST(ChatServer, tool_calling_PassesOnWhatTheDialectKnows) {
  const Fake fake(kStop);
  for (const ChatDialect dialect : {ChatDialect::openai, ChatDialect::exo}) {
    const bool is_exo = dialect == ChatDialect::exo;
    auto engine = connect(fake, dialect);
    ASSERT_TRUE(engine) << engine.error().message;
    EXPECT_EQ((*engine)->capabilities().context_tokens, 512u);
    EXPECT_EQ((*engine)->capabilities().takes, Takes::messages);
    EXPECT_EQ((*engine)->capabilities().holding, is_exo ? Holding::none : Holding::json_schema);
    EXPECT_TRUE((*engine)->check());
    GenerateRequest request = request_of(full_request());
    request.max_tokens = 9;
    request.sampling = {.temperature = 0, .top_k = 3, .seed = 7, .repetition_penalty = 2};
    request.printed = std::make_shared<const std::string>("{}");
    auto sink = std::make_shared<ChatRecord>();
    auto run = (*engine)->start(request, sink);
    ASSERT_TRUE(run && sink->wait_end());
    std::string body =
        R"(/v1/chat/completions {"model":"b",)" + std::string(kMessages) +
        R"("max_tokens":9,"temperature":0.0,"seed":7,"top_k":3,"repetition_penalty":2.0,)"
        R"("reasoning_effort":"low",)" +
        std::string(kTools);
    if (!is_exo) {
      body +=
          R"(,"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false,)"
          R"("response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"}}})";
    }
    EXPECT_EQ(fake.asked(), body + "}");
    request.logprobs = true;
    EXPECT_EQ((*engine)->start(request, sink).error().code, Errc::invalid);
    request.logprobs = false;
    request.sampling.presence_penalty = 1;
    EXPECT_EQ((*engine)->start(request, sink).has_value(), !is_exo);
    EXPECT_EQ((*engine)->start({.prompt = {1}}, sink).error().code, Errc::invalid);
  }
}

TEST(ChatServer, IsRefusedWhereItHasNoSuchModel) {
  const Fake fake("");
  EXPECT_EQ((*connect(fake, ChatDialect::openai, ""))->capabilities().context_tokens, 0u);
  const auto none = connect(fake, ChatDialect::exo, "c");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::unavailable);
}

}  // namespace
}  // namespace tenon::engine
