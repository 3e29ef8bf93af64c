#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <tenon.h>

#include "tenon/capi/handles_for_test.h"
#include "tenon/capi/scripted_caller_for_test.h"

namespace tenon::capi {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::string_view kCall =
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>";

/// A request to the model "scripted", with `more` members.
std::string request(std::string_view more = "") {
  return R"({"model": "scripted", "messages": [{"role": "user", "content": "Hi!"}])" +
         std::string(more) + "}";
}

constexpr std::string_view kWeatherTools =
    R"(, "tools": [{"type": "function", "function": {"name": "get_weather", "parameters":
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}])";

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(CallerEngine, AnswersWhatItsCallerWrites) {
  ScriptedCaller caller({"Hello there."});
  const auto service = empty_service();
  caller.add_to(service.get());
  const std::string answer = answer_to(
      service.get(), request(R"(, "temperature": 0.5, "max_tokens": 50, "seed": 7, "stop": ["x"],
                                 "logit_bias": {"3": 1.5})"));
  EXPECT_TRUE(answer.starts_with("200 ")) << answer;
  EXPECT_TRUE(has(answer, R"("content":"Hello there.")")) << answer;
  EXPECT_TRUE(has(answer, R"("finish_reason":"stop")")) << answer;
  EXPECT_EQ(caller.request(0),
            R"({"max_tokens":50,"temperature":0.5,"seed":7,"logit_bias":{"3":1.5}})");
  EXPECT_TRUE(has(caller.prompt(0), "Hi!")) << caller.prompt(0);
  EXPECT_EQ(caller.cancels(), 0u);
}

TEST(CallerEngine, RefusesWhatNoCallerIsAskedFor) {
  ScriptedCaller caller({"Hello there."});
  const auto service = empty_service();
  caller.add_to(service.get());
  const std::string tools(kWeatherTools);
  for (const auto& [field, name] :
       {std::pair(std::string(R"(, "logprobs": true)"), "logprobs"),
        std::pair(tools + R"(, "tenon": {"close_calls": true})", "close_calls")}) {
    const std::string answer = answer_to(service.get(), request(field));
    EXPECT_TRUE(answer.starts_with("400 ")) << answer;
    EXPECT_TRUE(has(answer, std::string(name) + " is not taken by an engine of the program's own"))
        << answer;
  }
}

TEST(CallerEngine, IsHeldByTheMatcher) {
  ScriptedCaller caller({"Let me see. " + std::string(kCall)});
  const auto service = empty_service();
  caller.add_to(service.get());
  const std::string answer = answer_to(
      service.get(), request(std::string(kWeatherTools) + R"(, "tool_choice": "required")"));
  EXPECT_TRUE(has(answer, R"("name":"get_weather","arguments":"{\"city\": \"Rome\"}")")) << answer;
  EXPECT_TRUE(has(answer, R"("content":null)")) << answer;
  EXPECT_TRUE(has(answer, R"("guarantee":"masked")")) << answer;
  EXPECT_GT(caller.left_out(), 0u);
}

TEST(CallerEngine, MayAnswerFreely) {
  ScriptedCaller caller({"Let me see. " + std::string(kCall)});
  const auto service = empty_service();
  caller.add_to(service.get());
  const std::string answer = answer_to(service.get(), request(kWeatherTools));
  EXPECT_TRUE(has(answer, R"("content":"Let me see.)")) << answer;
  EXPECT_TRUE(has(answer, R"("name":"get_weather")")) << answer;
}

TEST(CallerEngine, IsToldWhenThereIsEnough) {
  ScriptedCaller caller({"One two three four five six seven eight nine ten."});
  const auto service = empty_service();
  caller.add_to(service.get());
  const std::string cut = answer_to(service.get(), request(R"(, "max_tokens": 3)"));
  EXPECT_TRUE(has(cut, R"("finish_reason":"length")")) << cut;
  EXPECT_TRUE(has(cut, R"("completion_tokens":3,)")) << cut;
  const std::string stopped = answer_to(service.get(), request(R"(, "stop": [" four"])"));
  EXPECT_TRUE(has(stopped, R"("content":"One two three")")) << stopped;
  EXPECT_TRUE(has(stopped, R"("finish_reason":"stop")")) << stopped;
}

/// An engine whose start is a function.
struct Engine {
  using Start = std::function<int(tenon_generation* generation, tenon_matcher* matcher)>;

  Start start;
  std::atomic<int> cancels = 0;

  void add_to(tenon_service* service, std::uint32_t max_concurrent = 4) {
    const tenon_engine functions{
        .size = sizeof(tenon_engine),
        .user = this,
        .start =
            [](void* user, tenon_generation* generation, const std::int32_t*, std::size_t,
               tenon_text, tenon_matcher* matcher) {
              return static_cast<Engine*>(user)->start(generation, matcher);
            },
        .cancel = [](void* user, tenon_generation*) { ++static_cast<Engine*>(user)->cancels; },
        .context_tokens = 4096,
        .max_concurrent = max_concurrent};
    const auto chat_template = made(tenon_template_load, text(model_path()));
    ASSERT_EQ(told(tenon_service_add_engine(service, text("scripted"), &functions, bundled_vocab(),
                                            chat_template.get())),
              "ok");
  }
};

std::int32_t end_token() {
  std::size_t count = 0;
  return tenon_vocab_ends(bundled_vocab(), &count)[0];
}

std::int32_t letter(std::string_view a) {
  std::int32_t id = -1;
  std::size_t count = 0;
  EXPECT_EQ(told(tenon_vocab_encode(bundled_vocab(), text(a), 0, &id, 1, &count)), "ok");
  return id;
}

struct Ending {
  std::string_view name;
  Engine::Start start;
  std::string_view more;    // members of the request
  std::string_view status;  // of the answer
  std::string_view part;    // of the answer's body
};

const Ending kEndings[] = {
    {"AtOnce",
     [](auto* generation, auto*) {
       EXPECT_EQ(tenon_generation_token(generation, letter("a")), 0);
       EXPECT_EQ(tenon_generation_is_cancelled(generation), 0);
       EXPECT_EQ(tenon_generation_token(generation, end_token()), 1);
       EXPECT_EQ(tenon_generation_token(generation, letter("a")), 1);
       EXPECT_EQ(tenon_generation_is_cancelled(generation), 1);
       tenon_generation_end(generation, text("stop"), {});
       return 0;
     },
     "", "200 ", R"("content":"a")"},
    {"WithoutAnEndToken",
     [](auto* generation, auto*) {
       EXPECT_EQ(tenon_generation_token(generation, letter("a")), 0);
       tenon_generation_end(generation, text("stop"), {});
       return 0;
     },
     "", "200 ", R"("finish_reason":"stop")"},
    {"ByLength",
     [](auto* generation, auto*) {
       EXPECT_EQ(tenon_generation_token(generation, letter("a")), 0);
       tenon_generation_end(generation, text("length"), {});
       return 0;
     },
     "", "200 ", R"("finish_reason":"length")"},
    {"BeforeTheGrammarIsWhole",
     [](auto* generation, auto* matcher) {
       EXPECT_NE(matcher, nullptr);
       EXPECT_EQ(tenon_generation_token(generation, letter("{")), 0);
       tenon_generation_end(generation, text("stop"), {});
       return 0;
     },
     R"(, "response_format": {"type": "json_object"})", "200 ", R"("finish_reason":"length")"},
    {"ByAnError",
     [](auto* generation, auto*) {
       tenon_generation_end(generation, text("error"), text("the GPU is on fire"));
       return 0;
     },
     "", "503 ", "the GPU is on fire"},
    {"ForNoKnownReason",
     [](auto* generation, auto*) {
       tenon_generation_end(generation, text("bored"), {});
       return 0;
     },
     "", "503 ", "'bored'"},
    {"CannotBegin", [](auto*, auto*) { return 1; }, "", "503 ", "engine_error"},
    {"EndsAndSaysThatItCannotBegin",
     [](auto* generation, auto*) {
       tenon_generation_end(generation, text("stop"), {});
       return 1;
     },
     "", "200 ", R"("finish_reason":"stop")"},
    {"ATokenOutOfRange",
     [](auto* generation, auto*) {
       EXPECT_EQ(tenon_generation_token(generation, -1), 1);
       tenon_generation_end(generation, text("stop"), {});
       return 0;
     },
     "", "503 ", "engine_error"},
    {"ATokenThatTheMaskDoesNotAllow",
     [](auto* generation, auto*) {
       EXPECT_EQ(tenon_generation_token(generation, letter("a")), 1);
       tenon_generation_end(generation, text("stop"), {});
       return 0;
     },
     R"(, "response_format": {"type": "json_object"})", "503 ", "engine_error"},
};

TEST(CallerEngine, Ends) {
  for (const Ending& row : kEndings) {
    SCOPED_TRACE(row.name);
    Engine engine{.start = row.start};
    const auto service = empty_service();
    engine.add_to(service.get());
    const std::string answer = answer_to(service.get(), request(row.more));
    EXPECT_EQ(answer.substr(0, row.status.size()), row.status) << answer;
    EXPECT_TRUE(has(answer, row.part)) << answer;
  }
}

TEST(CallerEngine, BeginsAsManyAtATimeAsItsCallerTakes) {
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  std::vector<std::jthread> threads;
  std::mutex mutex;  // guards threads
  Engine engine{.start = [&](tenon_generation* generation, tenon_matcher*) {
    const int now = ++running;
    int before = most;
    while (before < now && !most.compare_exchange_weak(before, now)) {
    }
    const std::lock_guard lock(mutex);
    threads.emplace_back([generation, &running] {
      std::this_thread::sleep_for(milliseconds(5));
      --running;
      tenon_generation_end(generation, text("stop"), {});
    });
    return 0;
  }};
  const auto service = empty_service();
  engine.add_to(service.get(), 2);
  {
    std::vector<std::jthread> askers;
    for (int i = 0; i < 8; ++i) {
      askers.emplace_back(
          [&] { EXPECT_TRUE(answer_to(service.get(), request()).starts_with("200 ")); });
    }
  }
  EXPECT_EQ(most, 2);
}

// The answer's reader gets its end at once, though the caller never reacts.
TEST(CallerEngine, ACallerThatDoesNotHeedKeepsNobodyWaiting) {
  std::promise<tenon_generation*> begun;
  Engine engine{.start = [&](tenon_generation* generation, tenon_matcher*) {
    begun.set_value(generation);
    return 0;
  }};
  auto service = empty_service();
  engine.add_to(service.get());
  std::atomic<int> ends = 0;
  tenon_call* call = nullptr;
  ASSERT_EQ(told(tenon_service_call(
                service.get(), text("POST"), text("/v1/chat/completions"), text(request()),
                [](void* user, int, tenon_text, int is_end) {
                  *static_cast<std::atomic<int>*>(user) += is_end;
                },
                &ends, &call)),
            "ok");
  tenon_generation* const generation = begun.get_future().get();
  EXPECT_EQ(tenon_generation_token(generation, letter("a")), 0);
  const auto before = steady_clock::now();
  tenon_call_cancel(call);
  while (ends == 0 || engine.cancels == 0) {
    ASSERT_LT(steady_clock::now() - before, milliseconds(100));
    std::this_thread::sleep_for(milliseconds(1));
  }
  tenon_call_free(call);
  EXPECT_EQ(tenon_generation_is_cancelled(generation), 1);
  service.reset();
  EXPECT_EQ(tenon_generation_token(generation, letter("a")), 1);
  tenon_generation_end(generation, text("cancelled"), {});
  EXPECT_EQ(engine.cancels, 1);
}

TEST(CallerEngine, IsHeldToTheTimeOfRequests) {
  std::promise<tenon_generation*> begun;
  Engine engine{.start = [&](tenon_generation* generation, tenon_matcher*) {
    begun.set_value(generation);
    return 0;
  }};
  const auto service = empty_service("[server]\nrequest_timeout_s = 1");
  engine.add_to(service.get());
  const std::string answer = answer_to(service.get(), request());
  EXPECT_TRUE(answer.starts_with("504 ")) << answer;
  tenon_generation_end(begun.get_future().get(), text("cancelled"), {});
}

TEST(CallerEngine, IsRefusedWhereItCannotWork) {
  const auto service = empty_service();
  Engine engine;
  engine.add_to(service.get());
  const tenon_engine good{.size = sizeof(tenon_engine),
                          .start = [](void*, tenon_generation*, const std::int32_t*, std::size_t,
                                      tenon_text, tenon_matcher*) { return 1; },
                          .context_tokens = 16};
  tenon_engine other_size = good;
  other_size.size = 8;
  tenon_engine no_start = good;
  no_start.start = nullptr;
  tenon_engine no_context = good;
  no_context.context_tokens = 0;
  tenon_engine boundless = good;
  boundless.max_concurrent = 0xffffff00;
  std::vector<tenon_token> tokens;
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  for (std::size_t byte = 0; byte < 256; ++byte) {
    tokens.push_back({.bytes = {&bytes[byte], 1}, .kind = TENON_TOKEN_TEXT});
  }
  const std::int32_t end = 0;
  tenon_vocab* made_vocab = nullptr;
  ASSERT_EQ(told(tenon_vocab_new(tokens.data(), tokens.size(), &end, 1, &made_vocab)), "ok");
  const Owned<tenon_vocab> without_tokenizer(made_vocab);

  struct Row {
    std::string_view error;  // its beginning
    tenon_service* service;
    std::string_view name;
    const tenon_engine* engine;
    const tenon_vocab* vocab;
  };
  const tenon_vocab* const vocab = bundled_vocab();
  const Row rows[] = {
      {"invalid: service is NULL", nullptr, "a", &good, vocab},
      {"invalid: engine is NULL", service.get(), "a", nullptr, vocab},
      {"invalid: vocab is NULL", service.get(), "a", &good, nullptr},
      {"invalid: engine.size must be sizeof(tenon_engine)", service.get(), "a", &other_size, vocab},
      {"invalid: engine.start is NULL", service.get(), "a", &no_start, vocab},
      {"invalid: engine.context_tokens is 0", service.get(), "a", &no_context, vocab},
      {"invalid: engine.max_concurrent is over 1048576", service.get(), "a", &boundless, vocab},
      {"invalid: name is not UTF-8", service.get(), "a\xff", &good, vocab},
      {"invalid: name is empty", service.get(), "", &good, vocab},
      {"invalid: ", service.get(), "scripted", &good, vocab},
      {"unsupported: ", service.get(), "a", &good, without_tokenizer.get()},
      {"ok", service.get(), "a", &good, vocab},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.error);
    const std::string error =
        told(tenon_service_add_engine(row.service, text(row.name), row.engine, row.vocab, nullptr));
    EXPECT_EQ(error.substr(0, row.error.size()), row.error);
  }
  EXPECT_EQ(tenon_generation_token(nullptr, 0), 1);
  EXPECT_EQ(tenon_generation_is_cancelled(nullptr), 1);
  tenon_generation_end(nullptr, {}, {});
}

TEST(CallerEngine, AModelWithoutATemplateIsToldPlainText) {
  ScriptedCaller caller({"Hi."});
  const auto service = empty_service();
  const tenon_engine functions = caller.engine();
  ASSERT_EQ(told(tenon_service_add_engine(service.get(), text("plain"), &functions, bundled_vocab(),
                                          nullptr)),
            "ok");
  const std::string answer = answer_to(
      service.get(), R"({"model": "plain", "messages": [{"role": "user", "content": "Hi!"}]})");
  EXPECT_TRUE(answer.starts_with("200 ")) << answer;
  EXPECT_EQ(caller.prompt(0), "user: Hi!\n\nassistant:");
}

}  // namespace
}  // namespace tenon::capi
