#include "tenon/chat/server_tools.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/chat/conversation.h"
#include "tenon/chat/conversation_for_test.h"
#include "tenon/chat/event_queue.h"
#include "tenon/message/build.h"

namespace tenon::chat {
namespace {

using message::FinishReason;
using message::ToolMode;
using std::chrono::milliseconds;

// A model whose server has the tool get_weather, and a client that has the tool book.
struct Server {
  explicit Server(std::vector<engine::Script> scripts, ServerToolsOptions options = {},
                  UnknownTool on_unknown = UnknownTool::content)
      : at(std::move(scripts)) {
    at.model =
        *Model::create({.name = "m", .format = "hermes", .on_unknown_tool = on_unknown}, at.engine);
    auto tools = std::make_shared<Toolbox>();
    EXPECT_TRUE(
        tools->add(weather_tool(), [](const json::Object& arguments, const ToolContext& context) {
          const std::string city = *arguments.find("city")->if_string();
          while (city == "Nowhere" && !context.cancel.is_cancelled()) {
            std::this_thread::sleep_for(milliseconds(1));
          }
          return ToolOutput{"rain in " + city};
        }));
    model = with_server_tools(at.model, std::move(tools), options);
  }
  ConversationTurn ask(message::ChatRequest request, const AskOptions& options = {}) {
    Conversation talk(model, Conversation::Options{.request = std::move(request)});
    auto turn = talk.send_message("Weather?", options);
    EXPECT_TRUE(turn) << turn.error().error.message;
    return turn ? *std::move(turn) : ConversationTurn{};
  }

  Setting at;
  std::shared_ptr<Model> model;
};

message::ChatRequest with_book() {
  return {.tools = {*message::ToolDefinition("book").build()}};
}

// The end of a run is counted a moment after its last event.
bool becomes_idle(const Model& model) {
  for (int i = 0; i < 5000 && model.stats().unfinished > 0; ++i) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  return model.stats().unfinished == 0;
}

std::string codes_of(const ConversationTurn& turn) {
  std::string codes;
  for (const message::Diagnostic& one : turn.diagnostics) {
    codes += one.code + "(" + one.message + ") ";
  }
  return codes;
}

struct ServerToolsRow {
  const char* name;
  std::vector<std::string> texts;  // model outputs
  message::ChatRequest request;

  std::optional<std::string> content;
  std::vector<std::string> calls;  // calls that the client gets
  FinishReason finish = FinishReason::stop;
  std::size_t asked = 1;
  std::string codes = "";
};

// The name is the model's or the server's; a tool of a server may have two.
TEST(ServerTools, ToldAreNamesOfNoTool) {
  class Town : public ToolSource {
   public:
    const std::string& name() const override { return name_; }
    std::uint64_t version() const override { return 1; }
    Expected<std::vector<message::Tool>> tools(const ToolContext& /*context*/) override {
      return std::vector{message::function_tool("get.it", "", {})};
    }
    Expected<ToolOutput> call(const std::string& /*tool*/, const json::Object& /*arguments*/,
                              const ToolContext& /*context*/) override {
      return ToolOutput{};
    }

   private:
    std::string name_{"town"};
  };
  Toolbox tools;
  ASSERT_TRUE(tools.add(weather_tool(), [](const json::Object&, const ToolContext&) {
    return Expected<ToolOutput>(ToolOutput{});
  }));
  tools.add(std::make_shared<Town>());
  EXPECT_EQ(
      names_of_no_tool({"get_weather", "get_wether", "get.it", "get_it", "town"}, tools.tools()),
      (std::vector<std::string>{"get_wether", "town"}));
  EXPECT_EQ(names_that_wait({"get_weather", "get_wether", "get.it"}, tools.tools(),
                            {.rule = message::Approvals::Rule::never, .always = {"get_it"}}),
            std::vector<std::string>{"get.it"});
}

// "Runs" code that calls one tool, whose name and arguments are the code.
class OneCall final : public CodeInterpreter {
 public:
  Expected<Stop> start(Job job) override {
    const std::size_t space = job.code.find(' ');
    job.ask(job.code.substr(0, space), job.code.substr(space + 1),
            [done = job.done](const Expected<std::string>& result) {
              done(CodeResult{.out = result ? *result : "failed: " + result.error().message,
                              .err = {},
                              .is_error = !result});
            });
    return [] {};
  }
  std::shared_ptr<void> alarm(std::chrono::steady_clock::time_point,
                              std::function<void()>) override {
    return nullptr;
  }
};

// Code may call what code_calls names, and a call of code is one that tool_choice has required.
TEST(ServerTools, tool_calling_CodeCallsTheToolsThatItMay) {
  const std::string code = call_of("run", R"({"code": "get_weather {\"city\": \"Rome\"}"})");
  const std::string_view opening = "<tool_call>\n{\"name\": \"";  // with which the answer is begun
  for (const bool may : {true, false}) {
    Server server(
        {{code.substr(opening.size())}, {"Done."}},
        {.code = std::make_shared<OneCall>(),
         .code_calls = may ? std::vector<std::string>{"get_weather"} : std::vector<std::string>{}});
    EXPECT_TRUE(server.model->runs_code());
    message::ChatRequest request{.code = message::CodeTool{.name = "run", .type = "t"}};
    request.tool_choice.mode = ToolMode::required;
    const ConversationTurn turn = server.ask(std::move(request));
    EXPECT_EQ(turn.content, "Done.");
    EXPECT_EQ(server.at.engine->requests().size(), 2U);
    const std::string told = server.at.prompt(1);
    EXPECT_EQ(told.find("rain in Rome") != told.npos, may) << told;
    EXPECT_EQ(told.find("there is no tool \"get_weather\" that code may call") != told.npos, !may);
  }
}

// They are checked as those of other tools are, although no mask is made of them.
TEST(ServerTools, tool_calling_SchemasOfToolsOfCodeAreChecked) {
  Server server({{"Done."}}, {.code = std::make_shared<OneCall>()});
  message::ChatRequest request{.code = message::CodeTool{.name = "run", .type = "t"}};
  request.tools = {{.name = "theirs",
                    .parameters = *json::parse(R"({"type": 3})"),
                    .for_model = false,
                    .for_code = true}};
  request.messages = {{.role = message::Role::user, .content = "Hi"}};
  const auto started = server.model->start(request, std::make_shared<EventQueue>());
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().param, "tools[0].function.parameters");
}

// A tool that only code may call is offered in no other way, also where there is no code.
TEST(ServerTools, tool_calling_ToolsOfCodeAreNotOffered) {
  for (const ToolMode mode : {ToolMode::automatic, ToolMode::none}) {
    Server server({{call_of("theirs", "{}")}}, {.code = std::make_shared<OneCall>()});
    message::ChatRequest request{.code = message::CodeTool{.name = "run", .type = "t"}};
    request.tools = {*message::ToolDefinition("theirs").build()};
    request.tools[0].for_model = false;
    request.tools[0].for_code = true;
    request.tool_choice.mode = mode;
    const ConversationTurn turn = server.ask(std::move(request));
    EXPECT_TRUE(turn.tool_calls.empty());
  }
}

TEST(ServerTools, tool_calling_AreRunUntilTheClientHasAnAnswer) {
  const ServerToolsRow rows[] = {
      {"NoCall", {"Hello."}, {}, "Hello.", {}},
      {"OneCall",
       {call("Rome"), "It rains."},
       {},
       "It rains.",
       {},
       FinishReason::stop,
       2,
       "ran_tool(get_weather gave 12 bytes) "},
      {"ACallThatDoesNotFit",
       {call_of("get_weather", "{}"), "Where?"},
       {},
       "Where?",
       {},
       FinishReason::stop,
       2,
       "*tool_failed"},
      {"TextBetween",
       {"I look." + call("Rome"), call("Oslo"), "It rains."},
       {},
       "I look.\n\nIt rains.",
       {},
       FinishReason::stop,
       3,
       "ran_tool(get_weather gave 12 bytes) ran_tool(get_weather gave 12 bytes) "},
      {"ClientsCall",
       {call_of("book", "{}")},
       with_book(),
       std::nullopt,
       {"book"},
       FinishReason::tool_calls},
      {"ClientsCallAfterOurs",
       {call("Rome"), call_of("book", "{}") + call_of("book", "{}")},
       with_book(),
       std::nullopt,
       {"book", "book"},
       FinishReason::tool_calls,
       2,
       "ran_tool(get_weather gave 12 bytes) "},
      {"BothAtATime",
       {call("Rome") + call_of("book", "{}")},
       with_book(),
       std::nullopt,
       {"book"},
       FinishReason::tool_calls,
       1,
       "left_call(get_weather was not run, since the answer has calls of the client's tools, "
       "too) "},
      {"TheClientsToolComesFirst",
       {call("Rome")},
       {.tools = {weather_tool()}},
       std::nullopt,
       {"get_weather"},
       FinishReason::tool_calls},
      {"NoneMayBeCalled", {"Hello."}, {.tool_choice = {.mode = ToolMode::none}}, "Hello.", {}},
  };
  for (const ServerToolsRow& row : rows) {
    std::vector<engine::Script> scripts;
    for (const std::string& text : row.texts) scripts.push_back({.text = text});
    Server server(scripts);
    const ConversationTurn turn = server.ask(row.request);
    EXPECT_EQ(turn.content, row.content) << row.name;
    std::vector<std::string> calls;
    for (const message::ToolCall& one : turn.tool_calls) calls.push_back(one.name);
    EXPECT_EQ(calls, row.calls) << row.name;
    EXPECT_EQ(turn.finish.reason, row.finish) << row.name;
    EXPECT_EQ(turn.finish.format.empty(), row.calls.empty()) << row.name;
    EXPECT_EQ(server.at.engine->requests().size(), row.asked) << row.name;
    if (row.codes.starts_with('*')) {
      EXPECT_NE(codes_of(turn).find(row.codes.substr(1)), std::string::npos) << codes_of(turn);
    } else {
      EXPECT_EQ(codes_of(turn), row.codes) << row.name;
    }
  }
}

TEST(ServerTools, tool_calling_MayRememberResults) {
  Server server({{.text = call("Rome")}, {.text = call("Rome")}, {.text = "It rains."}},
                {.remembers = true});
  const ConversationTurn turn = server.ask({});
  EXPECT_EQ(turn.content, "It rains.");
  EXPECT_EQ(codes_of(turn),
            "ran_tool(get_weather gave 12 bytes) remembered_tool(get_weather gave 12 bytes) ");
}

TEST(ServerTools, tool_calling_TheModelIsToldOfTheResults) {
  Server server({{.text = "I look." + call("Rome") + call("Oslo")}, {.text = "Rain."}});
  const ConversationTurn turn = server.ask({});
  EXPECT_NE(server.at.prompt(0).find("get_weather"), std::string::npos);
  EXPECT_NE(
      server.at.prompt(1).find("tool\nrain in Rome<|im_end|>\n<|im_start|>tool\nrain in Oslo"),
      std::string::npos)
      << server.at.prompt(1);
  const std::size_t first = server.at.engine->requests()[0].prompt.size();
  const std::size_t second = server.at.engine->requests()[1].prompt.size();
  EXPECT_EQ(turn.finish.usage.prompt_tokens, first + second);
  EXPECT_TRUE(becomes_idle(*server.model));
}

TEST(ServerTools, tool_calling_ToolsAreFoundBeforeTheyAreCalled) {
  // One of the client's tools and one of the server's are found; the server runs its own.
  Server server({{.text = call_of("tool_search", R"({"query": "book"})")},
                 {.text = call_of("tool_search", R"({"query": "weather"})")},
                 {.text = call("Rome")},
                 {.text = call_of("book", "{}")}},
                {.search = {.is_on = true, .from = 2}});
  const ConversationTurn turn = server.ask(with_book());
  ASSERT_EQ(turn.tool_calls.size(), 1U);
  EXPECT_EQ(turn.tool_calls[0].name, "book");
  for (std::size_t i = 0; i < 4; ++i) {
    const std::string prompt = server.at.prompt(i);
    EXPECT_NE(prompt.find("- tool_search"), std::string::npos) << prompt;
    EXPECT_EQ(prompt.find("- book"), std::string::npos) << prompt;
    EXPECT_EQ(prompt.find("- get_weather"), std::string::npos) << prompt;
    // What came before stays as it was, so that its cache does.
    if (i > 0) {
      const std::string before = server.at.prompt(i - 1);
      EXPECT_TRUE(prompt.starts_with(before)) << before << "\n---\n" << prompt;
    }
  }
  EXPECT_NE(server.at.prompt(2).find("These tools can be called now:"), std::string::npos);
  EXPECT_NE(server.at.prompt(3).find("rain in Rome"), std::string::npos);
}

TEST(ServerTools, tool_calling_ARequestThatDefersNothingIsAskedAsItIs) {
  Server server({{.text = call("Rome")}, {.text = "Rain."}}, {.search = {.is_on = true}});
  EXPECT_EQ(server.ask({}).content, "Rain.");
  EXPECT_NE(server.at.prompt(0).find("- get_weather"), std::string::npos);
  EXPECT_EQ(server.at.prompt(0).find("tool_search"), std::string::npos);
}

TEST(ServerTools, tool_calling_TheLastAnswerIsWithoutThem) {
  Server server({{.text = call("Rome")}}, {.max_rounds = 3});
  const ConversationTurn turn = server.ask(with_book());
  EXPECT_TRUE(turn.tool_calls.empty());
  EXPECT_EQ(server.at.engine->requests().size(), 3U);
  EXPECT_NE(server.at.prompt(1).find("- get_weather"), std::string::npos);
  EXPECT_EQ(server.at.prompt(2).find("- get_weather"), std::string::npos);
  EXPECT_NE(server.at.prompt(2).find("- book"), std::string::npos);
}

TEST(ServerTools, tool_calling_OneAnswerIsOneWithoutThem) {
  Server server({{.text = call("Rome")}}, {.max_rounds = 1});
  EXPECT_TRUE(server.ask(with_book()).tool_calls.empty());
  EXPECT_EQ(server.at.engine->requests().size(), 1U);
  EXPECT_EQ(server.at.prompt(0).find("- get_weather"), std::string::npos);
}

TEST(ServerTools, tool_calling_AreCancelledWithTheAnswer) {
  Server server({{.text = call("Nowhere")}});
  AskOptions options;
  std::thread canceller([cancel = options.cancel] {
    std::this_thread::sleep_for(milliseconds(50));
    cancel.cancel();
  });
  const ConversationTurn turn = server.ask({}, options);
  canceller.join();
  EXPECT_EQ(turn.finish.reason, FinishReason::cancelled);
  EXPECT_EQ(server.at.engine->requests().size(), 1U);
}

TEST(ServerTools, tool_calling_AnAnswerThatIsLetGoEndsThem) {
  Server server({{.text = call("Nowhere")}});
  const auto queue = std::make_shared<EventQueue>();
  {
    auto answer = server.model->start({.messages = {message::user("hi")}}, queue);
    ASSERT_TRUE(answer);
    std::this_thread::sleep_for(milliseconds(30));
  }
  server.model.reset();  // waits for the tool to end
}

TEST(ServerTools, tool_calling_AModelThatFailsThenIsAnError) {
  Server server({{.text = call("Rome")}, {.end = FinishReason::error}});
  Conversation talk(server.model, Conversation::Options{});
  const auto turn = talk.send_message("Weather?");
  ASSERT_FALSE(turn);
  EXPECT_EQ(turn.error().code, "engine_error");
}

// All events of the answer to `request`.
std::vector<message::ChatEvent> events_of(Server& server, const message::ChatRequest& request) {
  std::vector<message::ChatEvent> all;
  const auto queue = std::make_shared<EventQueue>();
  const auto answer = server.model->start(request, queue);
  EXPECT_TRUE(answer) << answer.error().error.message;
  for (int i = 0; answer && i < 500; ++i) {
    for (message::ChatEvent& event : queue->wait(milliseconds(20))) {
      all.push_back(std::move(event));
      if (std::holds_alternative<message::Finish>(all.back())) return all;
    }
  }
  ADD_FAILURE() << "the answer does not end";
  return all;
}

template <class Event>
const Event* first_of(const std::vector<message::ChatEvent>& events) {
  for (const message::ChatEvent& event : events) {
    if (const auto* const found = std::get_if<Event>(&event)) return found;
  }
  return nullptr;
}

// A request in which one answer has written `count` codes, each with its arguments and `id`, and
// each of which waits for the call of a client's tool, "t" and its number.
message::ChatRequest with_codes(std::size_t count, const std::string& arguments,
                                const std::function<std::string(std::size_t)>& id) {
  message::ChatRequest request{.code = message::CodeTool{.name = "run", .type = "t"}};
  message::Message answer{.role = message::Role::assistant};
  for (std::size_t i = 0; i < count; ++i) {
    answer.tool_calls.push_back({.id = id(i), .name = "run", .arguments = arguments});
    request.code_calls.push_back(
        {.code_id = id(i),
         .call = {.id = "t" + std::to_string(i), .name = "theirs", .arguments = "{}"},
         .result = "x"});
  }
  request.messages = {message::user("Weather?"), std::move(answer)};
  request.tools = {*message::ToolDefinition("theirs").build()};
  request.tools[0].for_code = true;
  return request;
}

std::size_t count_of(const std::vector<message::ChatEvent>& events, std::string_view code) {
  return static_cast<std::size_t>(std::ranges::count_if(events, [&](const auto& event) {
    const auto* const told = std::get_if<message::Diagnostic>(&event);
    return told != nullptr && told->code == code;
  }));
}

// "Runs" code at once. What it does can be set.
class AtOnce final : public CodeInterpreter {
 public:
  Expected<Stop> start(Job job) override {
    const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    lowest = std::min(lowest, here);
    highest = std::max(highest, here);
    thread = std::this_thread::get_id();
    ++started;
    if (is_busy) return Unexpected(Error{Errc::unavailable, "too many run"});
    job.done(CodeResult{.out = "done\n", .err = {}});
    return [] {};
  }
  std::shared_ptr<void> alarm(std::chrono::steady_clock::time_point,
                              std::function<void()>) override {
    return nullptr;
  }

  bool is_busy = false;
  std::size_t started = 0;
  std::thread::id thread;
  std::uintptr_t lowest = UINTPTR_MAX;
  std::uintptr_t highest = 0;
};

constexpr std::string_view kCode = R"({"code": "x"})";

std::string numbered(std::size_t i) {
  return "s" + std::to_string(i);
}

// Code that ends at once takes no more of the stack for each.
TEST(ServerTools, tool_calling_CodesRunOneBehindTheOther) {
  const auto code = std::make_shared<AtOnce>();
  Server server({{"Done."}}, {.code = code});
  const auto events = events_of(server, with_codes(10, std::string(kCode), numbered));
  EXPECT_EQ(first_of<message::Finish>(events)->reason, FinishReason::stop);
  EXPECT_EQ(count_of(events, "ran_tool"), 10U);
  EXPECT_EQ(code->started, 10U);
  EXPECT_LT(code->highest - code->lowest, 2000U);
}

// Where several codes have one id, it is not known which of them has made the calls.
TEST(ServerTools, tool_calling_CodesOfOneIdAreNotRun) {
  const auto code = std::make_shared<AtOnce>();
  Server server({{"Done."}}, {.code = code});
  const auto events =
      events_of(server, with_codes(2, std::string(kCode), [](std::size_t) { return "s"; }));
  EXPECT_EQ(code->started, 0U);
  EXPECT_NE(server.at.prompt(0).find("has not come to its end"), std::string::npos);
}

// An answer runs so many programs, whatever a client has written in the model's name.
TEST(ServerTools, tool_calling_AnAnswerRunsSoMuchCode) {
  const auto code = std::make_shared<AtOnce>();
  Server server({{"Done."}}, {.code = code});
  const auto events = events_of(server, with_codes(20, std::string(kCode), numbered));
  EXPECT_EQ(code->started, 16U);
  EXPECT_EQ(count_of(events, "tool_failed"), 4U);
  EXPECT_NE(server.at.prompt(0).find("an answer may run 16 programs"), std::string::npos);
}

// The client can send its results again.
TEST(ServerTools, tool_calling_ABusyHostEndsTheRequest) {
  const auto code = std::make_shared<AtOnce>();
  code->is_busy = true;
  Server server({{"Done."}}, {.code = code});
  const auto events = events_of(server, with_codes(2, std::string(kCode), numbered));
  const auto* const finish = first_of<message::Finish>(events);
  EXPECT_EQ(finish->reason, FinishReason::error);
  EXPECT_EQ(finish->error.code, Errc::unavailable);
  EXPECT_EQ(code->started, 1U);
  EXPECT_TRUE(server.at.engine->requests().empty());
  EXPECT_TRUE(becomes_idle(*server.model));
}

// Asking the model again may wait for its tokenizer, which the thread of its engine must not do.
TEST(ServerTools, tool_calling_NothingRunsOnTheEnginesThread) {
  class Events final : public message::ChatSink {
   public:
    void on_event(const message::ChatEvent& event,
                  const std::vector<message::TokenLogprob>&) override {
      if (std::holds_alternative<message::ServerCallBegin>(event)) {
        engine = std::this_thread::get_id();
      }
      if (std::holds_alternative<message::Finish>(event)) is_over.set_value();
    }
    std::thread::id engine;
    std::promise<void> is_over;
  };
  for (const bool is_busy : {false, true}) {
    const auto code = std::make_shared<AtOnce>();
    code->is_busy = is_busy;
    Server server({{call_of("run", kCode)}, {"Done."}}, {.code = code});
    const auto events = std::make_shared<Events>();
    const auto answer = server.model->start({.messages = {message::user("Weather?")},
                                             .code = message::CodeTool{.name = "run", .type = "t"}},
                                            events);
    ASSERT_TRUE(answer);
    events->is_over.get_future().get();
    EXPECT_EQ(code->started, 1U);
    EXPECT_NE(code->thread, events->engine);
  }
}

// A tool that only code may call is not run for the model, nor is the client asked to.
TEST(ServerTools, tool_calling_ToolsOfCodeAreNotCalledDirectly) {
  Server server({{call_of("theirs", "{}")}, {"Sorry."}}, {.code = std::make_shared<AtOnce>()},
                UnknownTool::forward);
  message::ChatRequest request = with_codes(0, "", numbered);
  request.messages.pop_back();
  request.tools[0].for_model = false;
  const auto events = events_of(server, request);
  EXPECT_EQ(first_of<message::CallBegin>(events), nullptr);
  EXPECT_EQ(count_of(events, "tool_failed"), 1U);
  EXPECT_NE(server.at.prompt(1).find("only code may call"), std::string::npos);
}

// What the prompt is said to be is what it is, also with a tool that is named as the one of code.
TEST(ServerTools, tool_calling_TheToolOfCodeTakesItsName) {
  Server server({{"Done."}}, {.code = std::make_shared<AtOnce>()});
  const message::ChatRequest request{.messages = {message::user("Weather?")},
                                     .code = message::CodeTool{.name = "get_weather", .type = "t"}};
  (void)events_of(server, request);
  const auto prepared = server.model->prepare(request);
  ASSERT_TRUE(prepared);
  EXPECT_EQ(prepared->prompt.text, server.at.prompt(0));
}

constexpr message::Approvals::Rule kAlways = message::Approvals::Rule::always;

TEST(ServerTools, tool_calling_ACallThatNeedsAnApprovalEndsTheAnswer) {
  Server server({{.text = "I look." + call("Rome")}, {.text = "It rains."}},
                {.approvals = {.rule = kAlways}});
  message::ChatRequest request{.messages = {message::user("Weather?")}, .can_approve = true};
  const auto asked = events_of(server, request);
  const auto* const wanted = first_of<message::ApprovalsWanted>(asked);
  ASSERT_NE(wanted, nullptr);
  ASSERT_EQ(wanted->calls.size(), 1U);
  EXPECT_EQ(wanted->calls[0].call.name, "get_weather");
  EXPECT_EQ(first_of<message::Finish>(asked)->reason, FinishReason::tool_calls);
  EXPECT_EQ(server.at.engine->requests().size(), 1U);

  request.messages.insert(request.messages.end(), wanted->messages.begin(), wanted->messages.end());
  request.decisions = {{.call_id = wanted->calls[0].call.id, .approves = true}};
  const auto approved = events_of(server, request);
  const auto* const begin = first_of<message::ServerCallBegin>(approved);
  ASSERT_NE(begin, nullptr);
  EXPECT_TRUE(begin->was_approved);
  EXPECT_EQ(first_of<message::ServerCallResult>(approved)->output, "rain in Rome");
  EXPECT_EQ(first_of<message::Finish>(approved)->reason, FinishReason::stop);
  EXPECT_NE(server.at.prompt(1).find("tool\nrain in Rome"), std::string::npos);

  for (const bool is_decided : {true, false}) {
    request.decisions.clear();
    if (is_decided) {
      request.decisions = {{.call_id = wanted->calls[0].call.id, .reason = "too wet"}};
    }
    const auto refused = events_of(server, request);
    EXPECT_EQ(first_of<message::ServerCallBegin>(refused), nullptr);
    const std::string prompt = server.at.prompt(server.at.engine->requests().size() - 1);
    EXPECT_NE(prompt.find("the user did not approve this call"), std::string::npos) << prompt;
    EXPECT_EQ(prompt.find("too wet") != std::string::npos, is_decided);
    EXPECT_EQ(prompt.find("rain in Rome"), std::string::npos);
  }
}

TEST(ServerTools, tool_calling_AResultOfNoCallBesideAnApprovalIsTold) {
  Server server({{.text = "It rains."}}, {.approvals = {.rule = kAlways}});
  message::ChatRequest request{.messages = {message::user("Weather?")}, .can_approve = true};
  request.messages.push_back(
      {.role = message::Role::assistant,
       .tool_calls = {{.id = "c1", .name = "get_weather", .arguments = R"({"city": "Rome"})"}}});
  request.messages.push_back(
      {.role = message::Role::tool, .content = "x", .tool_call_id = "no_such"});
  request.decisions = {{.call_id = "c1", .approves = true}};
  const auto events = events_of(server, request);
  const auto* const told = first_of<message::Diagnostic>(events);
  ASSERT_NE(told, nullptr);
  EXPECT_EQ(told->code, "result_without_call");
  EXPECT_NE(told->message.find("\"no_such\""), std::string::npos) << told->message;
  EXPECT_EQ(first_of<message::ServerCallResult>(events)->output, "rain in Rome");
}

TEST(ServerTools, tool_calling_ADecisionRunsNoCallOfAToolThatNeedsNone) {
  Server server({{.text = "Done."}}, {});
  message::ChatRequest request{.messages = {message::user("Weather?")}, .can_approve = true};
  request.messages.push_back(
      {.role = message::Role::assistant,
       .tool_calls = {{.id = "c1", .name = "get_weather", .arguments = R"({"city": "Rome"})"}}});
  request.decisions = {{.call_id = "c1", .approves = true}};
  const auto events = events_of(server, request);
  EXPECT_EQ(first_of<message::ServerCallResult>(events), nullptr);
  EXPECT_EQ(server.at.prompt(0).find("rain in Rome"), std::string::npos);
}

TEST(ServerTools, tool_calling_OneDecisionDoesNotRunTwoCalls) {
  for (const char* const second : {R"({"city": "Rome"})", R"({"city": "Oslo"})"}) {
    Server server({{.text = "Done."}}, {.approvals = {.rule = kAlways}});
    message::ChatRequest request{.messages = {message::user("Weather?")}, .can_approve = true};
    request.messages.push_back(
        {.role = message::Role::assistant,
         .tool_calls = {{.id = "c1", .name = "get_weather", .arguments = R"({"city": "Rome"})"},
                        {.id = "c1", .name = "get_weather", .arguments = second},
                        {.id = "c2", .name = "get_weather", .arguments = R"({"city": "Bonn"})"}}});
    request.decisions = {{.call_id = "c1", .approves = true}, {.call_id = "c2", .approves = true}};
    std::vector<std::string> outputs;
    for (const message::ChatEvent& event : events_of(server, request)) {
      const auto* const result = std::get_if<message::ServerCallResult>(&event);
      if (result != nullptr) outputs.push_back(result->output);
    }
    EXPECT_EQ(outputs, std::vector<std::string>{"rain in Bonn"}) << second;
    EXPECT_NE(server.at.prompt(0).find("several calls have the id of this one"), std::string::npos)
        << second;
  }
}

TEST(ServerTools, tool_calling_WithoutSomebodyToAskACallIsNotRun) {
  Server server({{.text = call("Rome")}, {.text = "Sorry."}}, {.approvals = {.rule = kAlways}});
  const auto events = events_of(server, {.messages = {message::user("Weather?")}});
  EXPECT_EQ(first_of<message::ApprovalsWanted>(events), nullptr);
  EXPECT_NE(server.at.prompt(1).find("which cannot be asked for here"), std::string::npos);
}

TEST(ServerTools, tool_calling_ListsGoBeforeTheRule) {
  struct Row {
    const char* name;
    message::Approvals approvals;
    bool is_asked;
  };
  using Rule = message::Approvals::Rule;
  const Row rows[] = {
      {"Never", {}, false},
      {"Always", {.rule = Rule::always}, true},
      {"WithoutAnnotations", {.rule = Rule::by_annotation}, true},
      {"NamedInNever", {.rule = Rule::always, .never = {"get_weather"}}, false},
      {"NamedInAlways", {.always = {"get_weather"}}, true},
      {"NamedInBoth", {.always = {"get_weather"}, .never = {"get_weather"}}, true},
      {"OthersAreNamed", {.always = {"x"}, .never = {"y"}}, false},
  };
  for (const Row& row : rows) {
    Server server({{.text = call("Rome")}, {.text = "Done."}}, {.approvals = row.approvals});
    const auto events =
        events_of(server, {.messages = {message::user("Weather?")}, .can_approve = true});
    EXPECT_EQ(first_of<message::ApprovalsWanted>(events) != nullptr, row.is_asked) << row.name;
  }
}

TEST(ServerTools, tool_calling_ManyRequestsAtATime) {
  Server server({{.text = call("Rome")}});
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&server] {
      for (int turn = 0; turn < 3; ++turn) (void)server.ask({});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(becomes_idle(*server.model));
}

}  // namespace
}  // namespace tenon::chat
