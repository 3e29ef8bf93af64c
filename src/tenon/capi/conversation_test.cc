#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon.h>

#include "tenon/capi/handles_for_test.h"
#include "tenon/capi/scripted_caller_for_test.h"
#include "tenon/json/value.h"

namespace tenon::capi {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::string call_of(std::string_view name, std::string_view arguments) {
  return "<tool_call>\n{\"name\": \"" + std::string(name) +
         "\", \"arguments\": " + std::string(arguments) + "}\n</tool_call>";
}

constexpr std::string_view kWeather =
    R"({"name": "get_weather", "description": "The weather in a city.", "parameters":
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}})";

std::string user(std::string_view content) {
  return json::to_string(json::Object{{"role", "user"}, {"content", content}});
}

Owned<tenon_conversation> begun(tenon_service* service, std::string_view request = "") {
  return made(tenon_conversation_new, service, text(request));
}

struct Told {
  std::string error;  // "ok"
  json::Value turn;

  /// The value in the turn at `pointer`, as JSON text.
  [[nodiscard]] std::string at(std::string_view pointer) const {
    const json::Value* const found = json::at_pointer(turn, pointer);
    return found == nullptr ? "nothing" : json::to_string(*found);
  }
};

Told read_turn(tenon_error* error, tenon_string* turn) {
  Told read{.error = told(error), .turn = {}};
  if (read.error != "ok") {
    EXPECT_EQ(turn, nullptr);
    return read;
  }
  const auto parsed = json::parse(take(turn));
  EXPECT_TRUE(parsed);
  if (parsed) read.turn = *parsed;
  return read;
}

Told send(tenon_conversation* conversation, std::string_view content,
          tenon_toolbox* tools = nullptr, std::string_view limits = "",
          tenon_event_fn on_event = nullptr, void* whose = nullptr) {
  tenon_string* turn = nullptr;
  tenon_error* const error = tenon_conversation_send(conversation, text(user(content)), tools,
                                                     text(limits), on_event, whose, &turn);
  return read_turn(error, turn);
}

Told submit(tenon_conversation* conversation, std::string_view results,
            tenon_toolbox* tools = nullptr) {
  tenon_string* turn = nullptr;
  tenon_error* const error =
      tenon_conversation_submit(conversation, text(results), tools, {}, nullptr, nullptr, &turn);
  return read_turn(error, turn);
}

json::Value pending(const tenon_conversation* conversation) {
  tenon_string* calls = nullptr;
  EXPECT_EQ(told(tenon_conversation_pending(conversation, &calls)), "ok");
  return *json::parse(take(calls));
}

std::string saved(const tenon_conversation* conversation) {
  tenon_string* text = nullptr;
  EXPECT_EQ(told(tenon_conversation_save(conversation, &text)), "ok");
  return take(text);
}

/// A toolbox whose get_weather is a function of the caller.
class Weather {
 public:
  explicit Weather(std::string_view options = "")
      : toolbox_(made(tenon_toolbox_new, text(options))) {
    EXPECT_EQ(told(tenon_toolbox_add(toolbox_.get(), text(kWeather), run, this)), "ok");
  }
  [[nodiscard]] tenon_toolbox* get() const { return toolbox_.get(); }
  [[nodiscard]] std::vector<std::string> arguments() const {
    const std::lock_guard lock(mutex_);
    return arguments_;
  }

 private:
  static void run(void* user, tenon_tool_call* call, tenon_text name, tenon_text arguments) {
    auto& self = *static_cast<Weather*>(user);
    EXPECT_EQ(read(name), "get_weather");
    {
      const std::lock_guard lock(self.mutex_);
      self.arguments_.push_back(read(arguments));
    }
    EXPECT_EQ(tenon_tool_call_is_cancelled(call), 0);
    tenon_tool_call_end(call, text("22 degrees"), 0);
  }

  const Owned<tenon_toolbox> toolbox_;
  mutable std::mutex mutex_;
  std::vector<std::string> arguments_;  // guarded by mutex_
};

// Whatever the model writes: the first answer must be a call, and the second gets no tools.
TEST(CapiConversation, GoesOnWithTheBundledModel) {
  const auto service = made(tenon_service_open, tenon_text{}, tenon_text{});
  const Weather weather;
  const auto talk =
      begun(service.get(), R"({"temperature": 0, "max_tokens": 100, "tool_choice": "required",
                               "parallel_tool_calls": false, "tenon": {"close_calls": true}})");
  const Told turn =
      send(talk.get(), "How is the weather in Rome?", weather.get(), R"({"max_rounds": 2})");
  ASSERT_EQ(turn.error, "ok");
  ASSERT_EQ(weather.arguments().size(), 1u);
  const auto arguments = json::parse(weather.arguments()[0]);
  ASSERT_TRUE(arguments && arguments->find("city") != nullptr) << weather.arguments()[0];
  EXPECT_NE(arguments->find("city")->if_string(), nullptr);
  EXPECT_EQ(turn.at("/rounds"), "2");
  EXPECT_EQ(turn.at("/tool_calls"), "[]");
  EXPECT_THAT(turn.at("/finish_reason"), testing::AnyOf("\"stop\"", "\"length\""));
}

TEST(CapiConversation, RunsToolsUntilThereIsAnAnswer) {
  ScriptedCaller caller({call_of("get_weather", R"({"city": "Rome"})") + "\n" +
                             call_of("get_weather", R"({"city": "Oslo"})"),
                         "Both have 22 degrees."});
  const auto service = empty_service();
  caller.add_to(service.get());
  const Weather weather;
  const auto talk = begun(service.get());
  const Told turn = send(talk.get(), "Rome or Oslo?", weather.get());
  ASSERT_EQ(turn.error, "ok");
  EXPECT_EQ(weather.arguments().size(), 2u);
  EXPECT_EQ(turn.at("/content"), "\"Both have 22 degrees.\"");
  EXPECT_EQ(turn.at("/reasoning_content"), "null");
  EXPECT_EQ(turn.at("/rounds"), "2");
  EXPECT_NE(caller.prompt(1).find("22 degrees"), std::string::npos) << caller.prompt(1);
}

TEST(CapiConversation, LeavesCallsToItsCaller) {
  ScriptedCaller caller({call_of("get_weather", R"({"city": "Rome"})"), "22 degrees."});
  const auto service = empty_service();
  caller.add_to(service.get());
  const auto talk = begun(service.get(), R"({"tools": [{"type": "function", "function": )" +
                                             std::string(kWeather) + "}]}");
  const Told asked = send(talk.get(), "Rome?");
  ASSERT_EQ(asked.error, "ok");
  EXPECT_EQ(asked.at("/finish_reason"), "\"tool_calls\"");
  EXPECT_EQ(asked.at("/tool_calls/0/function/name"), "\"get_weather\"");
  const json::Value calls = pending(talk.get());
  EXPECT_EQ(json::to_string(calls), asked.at("/tool_calls"));
  const std::string id = asked.at("/tool_calls/0/id");

  EXPECT_EQ(submit(talk.get(), "[]").error.substr(0, 9), "invalid: ");
  EXPECT_EQ(submit(talk.get(), R"([{"tool_call_id": "x", "content": ""}])").error.substr(0, 9),
            "invalid: ");
  EXPECT_EQ(json::to_string(pending(talk.get())), json::to_string(calls)) << "nothing has changed";
  const Told answered =
      submit(talk.get(), R"([{"tool_call_id": )" + id + R"(, "content": {"degrees": 22}}])");
  ASSERT_EQ(answered.error, "ok");
  EXPECT_EQ(answered.at("/content"), "\"22 degrees.\"");
  EXPECT_NE(caller.prompt(1).find(R"({"degrees":22})"), std::string::npos) << caller.prompt(1);
  EXPECT_EQ(json::to_string(pending(talk.get())), "[]");
}

// The toolbox runs one of two calls; the other is left to the caller.
TEST(CapiConversation, RunsWhatItCanAndLeavesTheRest) {
  ScriptedCaller caller(
      {call_of("get_weather", R"({"city": "Rome"})") + "\n" + call_of("ask_user", "{}"),
       "All is known."});
  const auto service = empty_service();
  caller.add_to(service.get());
  const Weather weather;
  constexpr std::string_view kAsksUser =
      R"({"tools": [{"type": "function", "function": {"name": "ask_user"}}]})";
  const auto talk = begun(service.get(), kAsksUser);
  const Told asked = send(talk.get(), "Go", weather.get());
  ASSERT_EQ(asked.error, "ok");
  EXPECT_EQ(weather.arguments().size(), 1u);
  EXPECT_EQ(asked.at("/tool_calls/0/function/name"), "\"ask_user\"");
  EXPECT_EQ(asked.at("/tool_calls/1"), "nothing");
  EXPECT_EQ(json::to_string(pending(talk.get())), asked.at("/tool_calls"));
  const std::string id = asked.at("/tool_calls/0/id");
  tenon_conversation* branch = nullptr;
  ASSERT_EQ(told(tenon_conversation_copy(talk.get(), &branch)), "ok");
  const Owned<tenon_conversation> owned(branch);
  const Told answered =
      submit(talk.get(), R"([{"tool_call_id": )" + id + R"(, "content": "yes"}])", weather.get());
  ASSERT_EQ(answered.error, "ok");
  EXPECT_EQ(answered.at("/content"), "\"All is known.\"");
  EXPECT_NE(caller.prompt(1).find("22 degrees"), std::string::npos) << caller.prompt(1);
  EXPECT_NE(caller.prompt(1).find("yes"), std::string::npos) << caller.prompt(1);

  // The branch and its saved copy are where they were: no tool runs twice.
  EXPECT_EQ(json::to_string(pending(branch)), asked.at("/tool_calls"));
  const std::string kept = saved(branch);
  EXPECT_NE(kept.find(R"("content":"22 degrees")"), std::string::npos) << kept;
  const auto again = made(tenon_conversation_restore, service.get(), text(kAsksUser), text(kept));
  EXPECT_EQ(json::to_string(pending(again.get())), asked.at("/tool_calls"));
  EXPECT_EQ(saved(again.get()), kept);
  for (const std::string_view wrong :
       {R"([{"tool_call_id": "x", "content": ""}])", "5", R"([{"content": ""}])"}) {
    std::string changed = kept;
    const std::size_t at = changed.find(R"("results":)") + 10;
    changed.replace(at, changed.size() - 1 - at, wrong);
    tenon_conversation* none = nullptr;
    EXPECT_TRUE(
        told(tenon_conversation_restore(service.get(), text(kAsksUser), text(changed), &none))
            .starts_with("invalid: the conversation: results: "))
        << changed;
    EXPECT_EQ(none, nullptr);
  }
  ASSERT_EQ(told(tenon_conversation_dismiss(branch, text("Nobody was there"))), "ok");
  EXPECT_EQ(json::to_string(pending(branch)), "[]");
  const std::string messages = saved(branch);
  EXPECT_NE(messages.find("22 degrees"), std::string::npos) << messages;
  EXPECT_NE(messages.find("Nobody was there"), std::string::npos) << messages;
}

// The choice names tools that come with the question.
TEST(CapiConversation, TakesAChoiceOfTheToolboxesTools) {
  constexpr std::string_view kOne = R"({"type": "function", "function": {"name": "get_weather"}})";
  const std::string allowed =
      R"({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [)" +
      std::string(kOne) + "]}}";
  for (const std::string_view choice :
       {std::string_view(R"("required")"), kOne, std::string_view(allowed)}) {
    SCOPED_TRACE(choice);
    ScriptedCaller caller({call_of("get_weather", R"({"city": "Rome"})"), "22 degrees."});
    const auto service = empty_service();
    caller.add_to(service.get());
    const Weather weather;
    const auto talk = begun(service.get(), R"({"tool_choice": )" + std::string(choice) + "}");
    const Told alone = send(talk.get(), "Rome?");
    EXPECT_TRUE(alone.error.starts_with("invalid: tool_choice ")) << alone.error;
    const Told turn = send(talk.get(), "Rome?", weather.get());
    ASSERT_EQ(turn.error, "ok");
    EXPECT_EQ(weather.arguments().size(), 1U);
    EXPECT_EQ(turn.at("/content"), "\"22 degrees.\"");
  }
}

TEST(CapiConversation, RefusesAChoiceOfNoTool) {
  ScriptedCaller caller({"Hello."});
  const auto service = empty_service();
  caller.add_to(service.get());
  const Weather weather;
  const auto talk = begun(
      service.get(), R"({"tool_choice": {"type": "function", "function": {"name": "get_news"}}})");
  EXPECT_EQ(send(talk.get(), "News?", weather.get()).error,
            "invalid: tool_choice names 'get_news', which is no tool of the request, and none of "
            "the toolbox");
}

// What the tools have done is not undone: the next question passes their results to the model.
TEST(CapiConversation, SaysHowToGoOnWhereItFailsAfterTools) {
  ScriptedCaller caller({call_of("get_weather", R"({"city": "Rome"})"),
                         std::string(ScriptedCaller::kRefuses), "22 degrees."});
  const auto service = empty_service();
  caller.add_to(service.get());
  const Weather weather;
  const auto talk = begun(service.get());
  const Told failed = send(talk.get(), "Rome?", weather.get());
  EXPECT_NE(failed.error.find("submit no results"), std::string::npos) << failed.error;
  EXPECT_EQ(json::to_string(pending(talk.get())), "[]");
  const Told again = send(talk.get(), "Rome?", weather.get());
  EXPECT_NE(again.error.find("submit no results ([]) to go on, or dismiss"), std::string::npos)
      << again.error;
  tenon_conversation* branch = nullptr;
  ASSERT_EQ(told(tenon_conversation_copy(talk.get(), &branch)), "ok");
  const Owned<tenon_conversation> owned(branch);

  const Told answered = submit(talk.get(), "[]", weather.get());
  ASSERT_EQ(answered.error, "ok");
  EXPECT_EQ(answered.at("/content"), "\"22 degrees.\"");
  EXPECT_EQ(weather.arguments().size(), 1U) << "no tool has run twice";

  ASSERT_EQ(told(tenon_conversation_dismiss(branch, text("Nothing"))), "ok");
  EXPECT_NE(saved(branch).find("22 degrees"), std::string::npos) << "what was made is kept";
  EXPECT_NE(send(branch, "Oslo?").error.find("ok"), std::string::npos);
}

TEST(CapiConversation, IsSavedRestoredAndReset) {
  ScriptedCaller caller({"One.", "Two."});
  const auto service = empty_service();
  caller.add_to(service.get());
  constexpr std::string_view kRequest =
      R"({"messages": [{"role": "system", "content": "Be brief."}]})";
  const auto talk = begun(service.get(), kRequest);
  ASSERT_EQ(send(talk.get(), "First").error, "ok");
  const std::string text_of_it = saved(talk.get());
  EXPECT_TRUE(text_of_it.starts_with(R"({"version":1,"messages":[{"role":"system")")) << text_of_it;
  const auto again =
      made(tenon_conversation_restore, service.get(), text(kRequest), text(text_of_it));
  EXPECT_EQ(saved(again.get()), text_of_it);
  const Told second = send(again.get(), "Second");
  EXPECT_EQ(second.at("/content"), "\"Two.\"");
  EXPECT_NE(caller.prompt(1).find("First"), std::string::npos);
  EXPECT_EQ(saved(talk.get()), text_of_it) << "the other goes its own way";
  tenon_conversation_reset(talk.get());
  EXPECT_EQ(saved(talk.get()),
            R"({"version":1,"messages":[{"role":"system","content":"Be brief."}]})");
}

struct Events {
  std::vector<std::string> seen;
  std::thread::id thread;
  std::string stops_at;  // the event at which it wants no more
};

int on_event(void* user, const tenon_event* event) {
  auto& events = *static_cast<Events*>(user);
  events.thread = std::this_thread::get_id();
  EXPECT_EQ(event->size, sizeof(tenon_event));
  const std::string what =
      std::to_string(event->type) + " " + read(event->name) + " " + read(event->text);
  events.seen.push_back(what);
  return !events.stops_at.empty() && what.starts_with(events.stops_at) ? 1 : 0;
}

TEST(CapiConversation, TellsEventsOnTheThreadThatAsks) {
  ScriptedCaller caller({"Hello." + call_of("get_weather", R"({"city": "Rome"})"), "22 degrees."});
  const auto service = empty_service();
  caller.add_to(service.get());
  const Weather weather;
  const auto talk = begun(service.get());
  Events events;
  ASSERT_EQ(send(talk.get(), "Rome?", weather.get(), "", on_event, &events).error, "ok");
  EXPECT_EQ(events.thread, std::this_thread::get_id());
  std::string types;
  for (const std::string& each : events.seen) {
    if (types.empty() || types.back() != each[0]) types += each[0];
  }
  EXPECT_EQ(types, "1345717") << "content, call, arguments, its end, finish, content, finish";
  EXPECT_TRUE(events.seen.back().starts_with(R"(7 stop {"usage":{"prompt_tokens":)"))
      << events.seen.back();
  EXPECT_NE(events.seen.back().find(R"("tenon":{"guarantee":)"), std::string::npos);
}

TEST(CapiConversation, IsCancelledByAnEventOrAnyThread) {
  ScriptedCaller caller({std::string(3000, 'a')}, milliseconds(5));
  const auto service = empty_service();
  caller.add_to(service.get());
  const auto talk = begun(service.get());
  Events events{.seen = {}, .thread = {}, .stops_at = "1 "};
  const Told by_event = send(talk.get(), "Go on", nullptr, "", on_event, &events);
  ASSERT_EQ(by_event.error, "ok");
  EXPECT_EQ(by_event.at("/finish_reason"), "\"cancelled\"");

  steady_clock::time_point cancelled;
  std::jthread other([&] {
    std::this_thread::sleep_for(milliseconds(50));
    cancelled = steady_clock::now();
    tenon_conversation_cancel(talk.get());
  });
  const Told by_thread = send(talk.get(), "Go on");
  const auto ended = steady_clock::now();
  other.join();
  ASSERT_EQ(by_thread.error, "ok");
  EXPECT_EQ(by_thread.at("/finish_reason"), "\"cancelled\"");
  EXPECT_LT(ended - cancelled, milliseconds(100));

  const Told by_time = send(talk.get(), "Go on", nullptr, R"({"max_time_s": 0.05})");
  EXPECT_EQ(by_time.at("/finish_reason"), "\"cancelled\"");
}

TEST(CapiConversation, MayGoOnWhenItsServiceIsFreed) {
  ScriptedCaller caller({"Still here."});
  auto service = empty_service();
  caller.add_to(service.get());
  const auto talk = begun(service.get());
  service.reset();
  EXPECT_EQ(send(talk.get(), "Hello?").at("/content"), "\"Still here.\"");
}

TEST(CapiConversation, SaysWhatIsWrong) {
  ScriptedCaller caller({"A."});
  const auto service = empty_service();
  caller.add_to(service.get());
  const std::pair<std::string_view, std::string_view> requests[] = {
      {"[]", "invalid: request: must be a JSON object"},
      {"{", "invalid: request: "},
      {R"({"model": 1})", "invalid: model: must be a string"},
      {R"({"model": "none"})", "invalid: there is no model 'none'"},
      {R"({"n": 2})", "invalid: request: n is not for conversations"},
      {R"({"stream": true})", "invalid: request: stream is not for conversations"},
      {R"({"temprature": 1})", "invalid: request: "},
      {R"({"messages": 1})", "invalid: request: "},
      {R"({"messages": [{"role": "system"}]})", "invalid: request: messages[0]"},
  };
  for (const auto& [request, error] : requests) {
    SCOPED_TRACE(request);
    tenon_conversation* talk = nullptr;
    const std::string said = told(tenon_conversation_new(service.get(), text(request), &talk));
    EXPECT_EQ(said.substr(0, error.size()), error);
    EXPECT_EQ(talk, nullptr);
  }
  const auto talk = begun(service.get());
  tenon_string* turn = nullptr;
  const auto say = [&](std::string_view message, std::string_view limits) {
    return told(tenon_conversation_send(talk.get(), text(message), nullptr, text(limits), nullptr,
                                        nullptr, &turn));
  };
  EXPECT_TRUE(say("Hello", "").starts_with("invalid: message: "));
  EXPECT_TRUE(say(R"({"role": "nobody", "content": ""})", "").starts_with("invalid: message: "));
  EXPECT_TRUE(say(user("a"), R"({"max_round": 1})").starts_with("invalid: limits: "));
  EXPECT_EQ(say(user("a"), R"({"max_rounds": 0})"),
            "invalid: max_rounds must be a whole number from 1 to 1000000");
  EXPECT_EQ(say(user("a"), R"({"max_time_s": "1"})"),
            "invalid: max_time_s must be a number from 0 to 1000000");
  for (const std::string_view results :
       {"{}", "[1]", R"([{"content": ""}])", R"([{"tool_call_id": "a"}])",
        R"([{"tool_call_id": "a", "content": "", "is_error": 1}])",
        R"([{"tool_call_id": "a", "content": "", "more": 1}])"}) {
    SCOPED_TRACE(results);
    EXPECT_TRUE(submit(talk.get(), results).error.starts_with("invalid: results: "));
  }
  tenon_conversation* restored = nullptr;
  EXPECT_TRUE(
      told(tenon_conversation_restore(service.get(), {}, text(R"({"version": 9})"), &restored))
          .starts_with("unsupported: "));
}

TEST(CapiConversation, RefusesNull) {
  tenon_conversation* talk = nullptr;
  tenon_string* out = nullptr;
  tenon_toolbox* toolbox = nullptr;
  EXPECT_EQ(told(tenon_conversation_new(nullptr, {}, &talk)), "invalid: service is NULL");
  EXPECT_EQ(told(tenon_conversation_copy(nullptr, &talk)), "invalid: conversation is NULL");
  EXPECT_EQ(told(tenon_conversation_restore(nullptr, {}, {}, &talk)), "invalid: service is NULL");
  EXPECT_EQ(told(tenon_conversation_send(nullptr, {}, nullptr, {}, nullptr, nullptr, &out)),
            "invalid: conversation is NULL");
  EXPECT_EQ(told(tenon_conversation_submit(nullptr, {}, nullptr, {}, nullptr, nullptr, &out)),
            "invalid: conversation is NULL");
  EXPECT_EQ(told(tenon_conversation_pending(nullptr, &out)), "invalid: conversation is NULL");
  EXPECT_EQ(told(tenon_conversation_dismiss(nullptr, {})), "invalid: conversation is NULL");
  EXPECT_EQ(told(tenon_conversation_save(nullptr, &out)), "invalid: conversation is NULL");
  EXPECT_EQ(told(tenon_toolbox_new({}, nullptr)), "invalid: toolbox is NULL");
  EXPECT_EQ(told(tenon_toolbox_add(nullptr, {}, nullptr, nullptr)), "invalid: toolbox is NULL");
  EXPECT_EQ(told(tenon_toolbox_add_mcp(nullptr, {}, {})), "invalid: toolbox is NULL");
  EXPECT_EQ(told(tenon_toolbox_tools(nullptr, &out)), "invalid: toolbox is NULL");
  ASSERT_EQ(told(tenon_toolbox_new({}, &toolbox)), "ok");
  const Owned<tenon_toolbox> owned(toolbox);
  EXPECT_EQ(told(tenon_toolbox_add(toolbox, text(kWeather), nullptr, nullptr)),
            "invalid: function is NULL");
  tenon_conversation_free(nullptr);
  tenon_conversation_cancel(nullptr);
  tenon_conversation_reset(nullptr);
  tenon_toolbox_free(nullptr);
  tenon_tool_call_end(nullptr, {}, 0);
  EXPECT_EQ(tenon_tool_call_is_cancelled(nullptr), 0);
}

TEST(CapiToolbox, ListsItsToolsAsRequestsHaveThem) {
  const Weather weather;
  tenon_string* tools = nullptr;
  ASSERT_EQ(told(tenon_toolbox_tools(weather.get(), &tools)), "ok");
  const std::string list = take(tools);
  EXPECT_TRUE(list.starts_with(R"([{"type":"function","function":{"name":"get_weather",)")) << list;
  const auto wrong = [&weather](std::string_view tool) {
    return told(tenon_toolbox_add(
        weather.get(), text(tool), [](void*, tenon_tool_call*, tenon_text, tenon_text) {},
        nullptr));
  };
  EXPECT_TRUE(wrong(kWeather).starts_with("invalid: ")) << "the name is taken";
  EXPECT_TRUE(wrong("").starts_with("invalid: tool: "));
  EXPECT_TRUE(wrong("{}").starts_with("invalid: "));
  EXPECT_TRUE(wrong(R"({"name": "a b"})").starts_with("invalid: "));
  EXPECT_TRUE(wrong(R"({"name": "a", "parameters": {"type": 1}})").starts_with("invalid: "));
  EXPECT_TRUE(told(tenon_toolbox_add_mcp(weather.get(), text("{}"), {})).starts_with("invalid: "));
  EXPECT_EQ(told(tenon_toolbox_add_mcp(weather.get(),
                                       text(R"({"mcpServers": {"a": {"command": "/none"}}})"), {})),
            "ok");
  tenon_toolbox* toolbox = nullptr;
  EXPECT_EQ(told(tenon_toolbox_new(text(R"({"max_concurrent": 0})"), &toolbox)),
            "invalid: max_concurrent must be a whole number from 1 to 1024");
  EXPECT_TRUE(
      told(tenon_toolbox_new(text(R"({"limit": 0})"), &toolbox)).starts_with("invalid: options: "));
}

// One tool ends on another thread, and one long after its result is not wanted any more.
TEST(CapiToolbox, ACallMayEndLater) {
  ScriptedCaller caller({call_of("later", "{}"), "Done."});
  const auto service = empty_service();
  caller.add_to(service.get());
  for (const bool is_late : {false, true}) {
    SCOPED_TRACE(is_late);
    struct Ending {
      std::jthread thread;
      std::atomic<bool> is_cancelled = false;
      bool is_late = false;
    } ending;
    ending.is_late = is_late;
    const auto toolbox = made(tenon_toolbox_new, text(R"({"time_limit_s": 0.2})"));
    ASSERT_EQ(told(tenon_toolbox_add(
                  toolbox.get(), text(R"({"name": "later"})"),
                  [](void* whose, tenon_tool_call* call, tenon_text, tenon_text) {
                    auto& own = *static_cast<Ending*>(whose);
                    own.thread = std::jthread([call, &own] {
                      std::this_thread::sleep_for(milliseconds(own.is_late ? 400 : 20));
                      own.is_cancelled = tenon_tool_call_is_cancelled(call) == 1;
                      tenon_tool_call_end(call, text("it is done"), 0);
                    });
                  },
                  &ending)),
              "ok");
    const auto talk = begun(service.get());
    const Told turn = send(talk.get(), "Do it", toolbox.get());
    ASSERT_EQ(turn.error, "ok");
    EXPECT_EQ(turn.at("/content"), "\"Done.\"");
    EXPECT_EQ(saved(talk.get()).find("it is done") != std::string::npos, !is_late);
    ending.thread.join();
    EXPECT_EQ(ending.is_cancelled, is_late);
  }
}

}  // namespace
}  // namespace tenon::capi
