#include "tenon/engine/upstream/chat_server.h"

#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/http/server.h"
#include "tenon/json/value.h"

namespace tenon::engine {
namespace {

using json::Value;
using message::FinishReason;

constexpr std::string_view kChatServerModels =
    R"({"object": "list", "data": [{"id": "a"}, {"id": "b", "context_length": 512}]})";

/// A server that lists two models and answers every chat with a given text, cut every `step` bytes.
class ChatServerFake {
 public:
  explicit ChatServerFake(std::string answer, std::string type = "text/event-stream",
                          std::size_t step = 1 << 20, bool goes_on = false)
      : answer_(std::move(answer)), type_(std::move(type)), step_(step), goes_on_(goes_on) {
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
    if (request.path == "/v1/models")
      return exchange.respond({.body = std::string(kChatServerModels)});
    {
      const std::lock_guard lock(mutex_);
      asked_ = std::string(request.path) + " " + std::string(request.body);
    }
    exchange.begin_stream(type_, {});
    for (std::size_t at = 0; at < answer_.size(); at += step_) {
      exchange.write(answer_.substr(at, step_));
    }
    if (!goes_on_) exchange.end_stream();
  }

  const std::string answer_;
  const std::string type_;
  const std::size_t step_;
  const bool goes_on_;
  mutable std::mutex mutex_;
  std::string asked_;
  std::unique_ptr<http::Server> server_;  // last: its thread uses the members above
};

/// Everything that comes, in short: text, "(reasoning)", "[index name arguments]" for calls, whose
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

Expected<std::unique_ptr<Engine>> connect(const ChatServerFake& fake,
                                          ChatDialect dialect = ChatDialect::openai,
                                          std::string model = "b") {
  return connect_chat_server({.url = fake.url() + "/v1"},
                             {.dialect = dialect, .model = std::move(model)});
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
    {"DoneBehindACallThatIsOnlyNamed",
     chunk(R"({"tool_calls":[{"index":0,"function":{"name":"next"}}]})") + std::string(kDone),
     "[0 next ]"},
    {"CountsAloneAreNoAnswer",
     "data: {\"choices\":[],\"usage\":{\"completion_tokens\":0}}\n\n" + std::string(kDone), "",
     FinishReason::error, "broke off"},
    {"AnotherChoiceAloneIsNoAnswer",
     "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"b\"}}]}\n\n" + std::string(kDone),
     "", FinishReason::error, "broke off"},
    {"TheAnswerIsEmpty", chunk(R"({"role":"assistant"})") + std::string(kDone), ""},
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
    {"TextBesideABadEnd", chunk(R"({"content":"a"})", R"(,"finish_reason":"error")"), "a",
     FinishReason::error, "'error'"},
    {"Filtered", chunk(R"({"content":"a"})", R"(,"finish_reason":"content_filter")"), "a",
     FinishReason::error, "content_filter"},
    {"CutInTheMiddle", chunk(R"({"content":"a"})") + "data: {\"choices\":[{\"ind", "a",
     FinishReason::error, "broke off"},
    {"NoJson", "data: <html>\n\n", "", FinishReason::error, "not JSON"},
    {"Null", chunk(R"({"content":"a"})") + "data: null\n\n", "a", FinishReason::error, "no object"},
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
    {"OneIndexForAllCalls",
     chunk(R"({"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]})") +
         chunk(R"({"tool_calls":[{"index":0,"id":"b","function":{"name":"f","arguments":"{"}}]})") +
         chunk(R"({"tool_calls":[{"index":0,"function":{"arguments":"}"}}]})") + kStop,
     "[0 f {}][1 f {][1  }]"},
    {"OneIdForAllPieces",
     chunk(R"({"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]})") +
         chunk(R"({"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"}"}}]})") +
         kStop,
     "[0 f {][0  }]"},
    {"OneIndexWithoutIds",
     chunk(R"({"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{"}}]})") +
         chunk(R"({"tool_calls":[{"index":0,"function":{"arguments":"}"}}]})") +
         chunk(R"({"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]})") +
         chunk(R"({"tool_calls":[{"index":0,"function":{"name":"g","arguments":"{}"}}]})") + kStop,
     "[0 f {][0  }][1 f {}][2 g {}]"},
    {"OneIndexWithoutIdsNorArguments",
     chunk(R"({"tool_calls":[{"index":0,"function":{"name":"f"}}]})") +
         chunk(R"({"tool_calls":[{"index":0,"function":{"name":"g","arguments":""}}]})") +
         chunk(R"({"tool_calls":[{"index":0,"function":{"name":"g"}}]})") + kStop,
     "[0 f ][1 g ][2 g ]"},
    {"NameWithEachPiece",
     chunk(R"({"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{"}}]})") +
         chunk(R"({"tool_calls":[{"index":0,"function":{"name":"f","arguments":"}"}}]})") + kStop,
     "[0 f {][0  }]"},
    {"NameAndIdBeforeTheArguments",
     chunk(R"({"tool_calls":[{"index":0,"id":"a","function":{"name":"next","arguments":""}}]})") +
         chunk(
             R"({"tool_calls":[{"index":0,"id":"a","function":{"name":"next","arguments":"{}"}}]})") +
         kStop,
     "[0 next {}]"},
    {"NameThatWaitsComesBeforeTheNextCall",
     chunk(R"({"tool_calls":[{"index":0,"id":"a","function":{"name":"next"}}]})") +
         chunk(
             R"({"tool_calls":[{"index":1,"id":"b","function":{"name":"f","arguments":"{}"}}]})") +
         kStop,
     "[0 next ][1 f {}]"},
    {"NameInPieces",
     chunk(R"({"tool_calls":[{"index":0,"function":{"name":"next_"}}]})") +
         chunk(R"({"tool_calls":[{"index":0,"function":{"name":"train"}}]})") +
         chunk(R"({"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]})") + kStop,
     "[0 next_train ][0  {}]"},
    {"NameInPiecesWithAnIdEach",
     chunk(R"({"tool_calls":[{"index":0,"id":"a","function":{"name":"ne","arguments":""}}]})") +
         chunk(
             R"({"tool_calls":[{"index":0,"id":"a","function":{"name":"xt_t","arguments":""}}]})") +
         chunk(
             R"({"tool_calls":[{"index":0,"id":"a","function":{"name":"rain","arguments":"{}"}}]})") +
         chunk(
             R"({"tool_calls":[{"index":1,"id":"b","function":{"name":"f","arguments":"{}"}}]})") +
         kStop,
     "[0 next_train {}][1 f {}]"},
    {"NameThatAnotherGoesOnFrom",
     chunk(R"({"tool_calls":[{"index":0,"function":{"name":"next"}}]})") +
         chunk(R"({"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]})") + kStop,
     "[0 next ][1 f {}]"},
    {"NameOfNoToolInPieces",
     chunk(R"({"tool_calls":[{"index":0,"function":{"name":"oth"}}]})") +
         chunk(R"({"tool_calls":[{"index":0,"function":{"name":"er","arguments":"{}"}}]})") + kStop,
     "[0 other {}]"},
    {"NameWithoutArguments",
     chunk(R"({"tool_calls":[{"index":0,"function":{"name":"other"}}]})") + kStop, "[0 other ]"},
    {"ErrorByItsType",
     chunk(R"({"content":"a"})") + "event: error\ndata: {\"message\":\"no room\"}\n\n", "a",
     FinishReason::error, "no room"},
    {"ErrorByItsTypeInDetail", "event: error\ndata: {\"detail\":\"too hot\",\"code\":503}\n\n", "",
     FinishReason::error, "too hot"},
    {"ErrorByItsTypeInWords", "event: error\ndata: no room\n\n", "", FinishReason::error,
     "no room"},
    {"ErrorByItsTypeInAList",
     "event: error\ndata: {\"detail\":[{\"loc\":[],\"msg\":\"no room\"}]}\n\n", "",
     FinishReason::error, "no room"},
    {"ErrorByItsTypeInAReason", "event: error\ndata: {\"detail\":{\"reason\":\"no room\"}}\n\n", "",
     FinishReason::error, "no room"},
    {"ErrorByItsTypeAsText", "event: error\ndata: \"no room\"\n\n", "", FinishReason::error,
     "no room"},
    {"ErrorByItsObject", "data: {\"object\":\"error\",\"message\":\"no room\"}\n\n", "",
     FinishReason::error, "no room"},
    {"ErrorOfAChoice",
     chunk(R"({"content":"a"})") +
         chunk("{}", R"(,"finish_reason":"error","error":{"message":"no room"})"),
     "a", FinishReason::error, "no room"},
    {"ErrorOnALineOfItsOwn", chunk(R"({"content":"a"})") + "error: {\"message\":\"no room\"}\n\n",
     "a", FinishReason::error, "no room"},
    {"ErrorWithoutAField", chunk(R"({"content":"a"})") + "{\"error\":\"no room\"}\n", "a",
     FinishReason::error, "no room"},
    {"ErrorWithTheAddress", "event: error\ndata: {\"message\":\"lost http://localhost:81/v1\"}\n\n",
     "", FinishReason::error, "lost the server/v1"},
    {"OneIdForAll",
     chunk(R"({"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]})") +
         chunk(
             R"({"tool_calls":[{"index":0,"id":"a","function":{"name":"g","arguments":"{}"}}]})") +
         kStop,
     "[0 f {}][1 g {}]"},
    {"Cancelled", chunk(R"({"content":"a"})", R"(,"finish_reason":"cancelled")"), "a",
     FinishReason::error, "cancelled"},
    {"OutOfResources",
     chunk(R"({"content":"a"})", R"(,"finish_reason":"insufficient_system_resource")"), "a",
     FinishReason::error, "insufficient_system_resource"},
    {"EndInCapitals", chunk(R"({"content":"a"})", R"(,"finish_reason":"MAX_TOKENS")"), "a",
     FinishReason::length},
    {"BrokenOff", chunk(R"({"content":"a"})", R"(,"finish_reason":"abort")"), "a",
     FinishReason::error, "abort"},
    {"ThinkingParts",
     chunk(
         R"({"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"}]})") +
         kStop,
     "(hm)a"},
    {"FunctionCallBesideItself",
     chunk(
         R"({"function_call":{"name":"f","arguments":"{}"},"tool_calls":[{"index":0,"id":"1","function":{"name":"f","arguments":"{}"}}]})") +
         kStop,
     "[0 f {}]"},
    {"ManyNodesAnswer",
     chunk(R"({"content":"a"})") +
         R"(data: {"id":"y","choices":[{"index":0,"delta":{"content":"a"}}]})"
         "\n\n" +
         kStop,
     "a", FinishReason::stop, "", "text/event-stream", ChatDialect::exo},
};

TEST(ChatServer, tool_calling_ReadsAnswersHoweverTheyAreCut) {
  Sample sample(3);
  for (const Case& test : kCases) {
    for (const std::size_t step : {std::size_t{1}, std::size_t{11}, std::size_t{1} << 20}) {
      if (!sample.takes_next()) continue;
      SCOPED_TRACE(test.name);
      const ChatServerFake fake(test.answer, std::string(test.type), step);
      auto engine = connect(fake, test.dialect);
      ASSERT_TRUE(engine) << engine.error().message;
      auto sink = std::make_shared<ChatRecord>();
      message::ChatRequest asked;
      for (const char* name : {"f", "g", "next", "next_train"})
        asked.tools.push_back({.name = name});
      auto run = (*engine)->start(request_of(std::move(asked)), sink);
      ASSERT_TRUE(run && sink->wait_end());
      EXPECT_EQ(sink->all(), test.all);
      EXPECT_EQ(sink->end().reason, test.reason);
      EXPECT_NE(sink->end().error.message.find(test.error_part), std::string::npos)
          << sink->end().error.message;
    }
  }
}

// OpenAI's API takes names of [a-zA-Z0-9_-]{1,64}, and wants `properties` in an object's schema.
TEST(ChatServer, tool_calling_SendsLegalNamesAndReadsThemBack) {
  const ChatServerFake fake(
      chunk(R"({"tool_calls":[{"index":0,"function":{"name":"look_up_2","arguments":"{}"}}]})") +
      kStop);
  auto engine = connect(fake, ChatDialect::openai);
  ASSERT_TRUE(engine) << engine.error().message;
  message::ChatRequest chat;
  chat.messages = {{.role = message::Role::assistant,
                    .tool_calls = {{.id = "1", .name = "look/up", .arguments = "{}"}}},
                   {.role = message::Role::tool, .content = "t", .tool_call_id = "1"}};
  for (const std::string& name : {std::string("look_up"), std::string("look.up"),
                                  std::string("look/up"), std::string(70, 'x')}) {
    chat.tools.push_back({.name = name, .parameters = json::Object{{"type", "object"}}});
  }
  chat.tools[1].raw = json::Object{
      {"type", "function"}, {"function", json::Object{{"name", "look.up"}, {"strict", true}}}};
  chat.tool_choice = {.mode = message::ToolMode::required, .allowed = {"look/up"}};
  auto sink = std::make_shared<ChatRecord>();
  auto run = (*engine)->start(request_of(chat), sink);
  ASSERT_TRUE(run && sink->wait_end());
  EXPECT_EQ(sink->all(), "[0 look.up {}]");
  for (const std::string& part :
       {std::string(R"("function":{"name":"look_up_3","arguments":"{}"})"),
        std::string(
            R"("name":"look_up","description":"","parameters":{"type":"object","properties":{}}})"),
        std::string(R"({"name":"look_up_2","strict":true})"), '"' + std::string(64, 'x') + '"',
        std::string(R"("tool_choice":{"type":"function","function":{"name":"look_up_3"}})")}) {
    EXPECT_NE(fake.asked().find(part), std::string::npos) << part << "\n" << fake.asked();
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
    R"("tools":[{"type":"function","function":{"name":"f","description":"F","parameters":{"type":"object","properties":{}}}}])";

TEST(ChatServer, tool_calling_SaysInWordsThatAToolFailed) {
  struct Row {
    const char* name;
    message::Message result;
    std::string_view content;
  };
  const auto told = [](std::string text) {
    message::Message result{
        .role = message::Role::tool, .content = std::move(text), .tool_call_id = "1"};
    result.extra.set("is_error", true);
    return result;
  };
  message::Message in_parts = told("");
  in_parts.content.reset();
  in_parts.parts = {{.text = "no"}};
  const Row rows[] = {
      {"Plain", told("no such key"), R"("Error: no such key")"},
      {"ItSaysSo", told("Error: no"), R"("Error: no")"},
      {"Nothing", told(""), R"("Error: ")"},
      {"Parts", in_parts, R"([{"type":"text","text":"Error: "},{"type":"text","text":"no"}])"},
  };
  for (const Row& row : rows) {
    const ChatServerFake fake(kStop);
    message::ChatRequest chat = full_request();
    chat.messages.back() = row.result;
    auto engine = connect(fake, ChatDialect::openai);
    ASSERT_TRUE(engine) << engine.error().message;
    auto sink = std::make_shared<ChatRecord>();
    auto run = (*engine)->start(request_of(chat), sink);
    ASSERT_TRUE(run && sink->wait_end()) << row.name;
    EXPECT_NE(fake.asked().find(R"("role":"tool","content":)" + std::string(row.content)),
              std::string::npos)
        << row.name << ": " << fake.asked();
    EXPECT_EQ(fake.asked().find("is_error"), std::string::npos) << row.name;
  }
}

TEST(ChatServer, tool_calling_PassesOnWhatTheDialectKnows) {
  const ChatServerFake fake(kStop);
  for (const ChatDialect dialect : {ChatDialect::openai, ChatDialect::exo}) {
    const bool is_exo = dialect == ChatDialect::exo;
    auto engine = connect(fake, dialect);
    ASSERT_TRUE(engine) << engine.error().message;
    EXPECT_EQ((*engine)->capabilities().context_tokens, 512u);
    EXPECT_EQ((*engine)->capabilities().takes, Takes::messages);
    EXPECT_EQ((*engine)->capabilities().constrained_by,
              is_exo ? ConstrainedBy::none : ConstrainedBy::json_schema);
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
        R"("max_tokens":9,"temperature":0.0,"top_k":3,"repetition_penalty":2.0,"seed":7,)"
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
    request.sampling = {.presence_penalty = 0};
    request.chat = std::make_shared<const message::ChatRequest>();
    request.printed = nullptr;
    auto plain = std::make_shared<ChatRecord>();
    run = (*engine)->start(request, plain);
    ASSERT_TRUE(run && plain->wait_end());
    EXPECT_EQ(fake.asked(),
              R"(/v1/chat/completions {"model":"b","messages":[],"stream":true,)"
              R"("stream_options":{"include_usage":true},"max_tokens":9,"presence_penalty":0.0})");
    request.sampling.presence_penalty = 1;
    EXPECT_EQ((*engine)->start(request, sink).has_value(), !is_exo);
    EXPECT_EQ((*engine)->start({.prompt = {1}}, sink).error().code, Errc::invalid);
  }
}

/// Cancels its run at the first piece.
class Stopping final : public EventSink {
 public:
  void on_token(const Token& /*token*/) override { is_here_.set_value(); }
  void on_end(const RunEnd& end) override { end_.set_value(end); }
  RunEnd stop(Run& run) {
    is_here_.get_future().wait();
    run.cancel();
    return end_.get_future().get();
  }

 private:
  std::promise<void> is_here_;
  std::promise<RunEnd> end_;
};

struct Counted {
  std::string_view name;
  std::string answer;
  message::Usage usage;
  std::string_view type = "text/event-stream";
};

// The estimate for a request without messages, whose body has 82 bytes.
constexpr std::uint32_t kGuess = 20;

const Counted kCounted[] = {
    {"Told",
     chunk(R"({"content":"a"})") + kStop +
         "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":7,"
         "\"completion_tokens_details\":{\"reasoning_tokens\":2}}}\n\n",
     {.prompt_tokens = 3, .completion_tokens = 7, .reasoning_tokens = 2}},
    {"ToldInADocument",
     R"({"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}],)"
     R"("usage":{"prompt_tokens":3,"completion_tokens":7}})",
     {.prompt_tokens = 3, .completion_tokens = 7},
     "application/json"},
    {"Untold",
     chunk(R"({"content":"a"})") + chunk(R"({"content":"b"})") + kStop,
     {.prompt_tokens = kGuess, .completion_tokens = 2, .is_estimated = true}},
    {"UntoldInADocument",
     R"({"choices":[{"index":0,"message":{"content":"eight bytes a token, more or less"},)"
     R"("finish_reason":"stop"}]})",
     {.prompt_tokens = kGuess, .completion_tokens = 4, .is_estimated = true},
     "application/json"},
    {"ToldInPart",
     chunk(R"({"content":"a"})") + kStop +
         "data: {\"choices\":[],\"usage\":{\"completion_tokens\":7}}\n\n",
     {.prompt_tokens = kGuess, .completion_tokens = 7, .is_estimated = true}},
    {"ToldAllAlong",
     R"(data: {"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":3,"completion_tokens":5}})"
     "\n\n" +
         chunk(R"({"content":"b"})") + kStop,
     {.prompt_tokens = 3, .completion_tokens = 6, .is_estimated = true}},
};

TEST(ChatServer, CountsWhatIsToldAndSaysWhatIsNot) {
  for (const Counted& test : kCounted) {
    SCOPED_TRACE(test.name);
    const ChatServerFake fake(test.answer, std::string(test.type));
    auto engine = connect(fake);
    ASSERT_TRUE(engine) << engine.error().message;
    auto sink = std::make_shared<ChatRecord>();
    auto run = (*engine)->start(request_of({}), sink);
    ASSERT_TRUE(run && sink->wait_end());
    EXPECT_EQ(sink->end().usage, test.usage)
        << sink->end().usage.prompt_tokens << " " << sink->end().usage.completion_tokens;
  }
}

TEST(ChatServer, AnAnswerThatIsEndedEarlyIsCountedByItsPieces) {
  const ChatServerFake fake(chunk(R"({"content":"a"})"), "text/event-stream", 1 << 20,
                            /*goes_on=*/true);
  auto engine = connect(fake);
  ASSERT_TRUE(engine) << engine.error().message;
  auto sink = std::make_shared<Stopping>();
  auto run = (*engine)->start(request_of({}), sink);
  ASSERT_TRUE(run);
  const message::Usage usage = sink->stop(**run).usage;
  EXPECT_EQ(usage, (message::Usage{
                       .prompt_tokens = kGuess, .completion_tokens = 1, .is_estimated = true}));
}

TEST(ChatServer, IsRefusedWhereItHasNoSuchModel) {
  const ChatServerFake fake("");
  EXPECT_EQ((*connect(fake, ChatDialect::openai, ""))->capabilities().context_tokens, 0u);
  const auto none = connect(fake, ChatDialect::exo, "c");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::unavailable);
}

// A server need not list its models: mlx-lm's lists nothing if it has no cache of them.
TEST(ChatServer, OfWhichNothingIsListedIsBelievedToHaveTheModelThatIsNamed) {
  struct Row {
    std::string_view name;
    unsigned status;
    std::string_view body;
    std::string_view model;
    std::string_view error;  // "": it is accepted
  };
  const Row rows[] = {
      {"Listed", 200, kChatServerModels, "b", ""},
      {"NotListed", 200, kChatServerModels, "z", "/models lists no model 'z'"},
      {"NoList", 404, "", "z", ""},
      {"NotAllowed", 405, "{}", "z", ""},
      {"Nothing", 200, "", "z", ""},
      {"Empty", 200, R"({"data": []})", "z", ""},
      {"NoListAndNoName", 404, "", "", "upstream_model must name the one to ask for"},
      {"WrongKey", 401, "", "z", "status 401"},
      {"Broken", 500, "", "z", "status 500"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const auto server = http::Server::start({.port = 0}, [&row](const auto& exchange) {
      EXPECT_EQ(exchange->request().path, "/api/paas/v4/models");
      exchange->respond({.status = row.status, .body = std::string(row.body)});
    });
    ASSERT_TRUE(server);
    const auto engine = connect_chat_server(
        {.url = "http://127.0.0.1:" + std::to_string((*server)->port()) + "/api/paas/v4/"},
        {.model = std::string(row.model)});
    EXPECT_EQ(engine.has_value(), row.error.empty());
    if (!engine) {
      EXPECT_NE(engine.error().message.find(row.error), std::string::npos)
          << engine.error().message;
    }
  }
}

}  // namespace
}  // namespace tenon::engine
