#include "tenon/rlm/code_interpreter.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "tenon/message/build.h"
#include "tenon/rlm/sandbox_for_test.h"

namespace tenon::rlm {
namespace {

using namespace std::chrono_literals;
using chat::CodeInterpreter;
using chat::CodeResult;
using testing::HasSubstr;

class CodeInterpreterTest : public EachTier {
 protected:
  void SetUp() override {
    EachTier::SetUp();
    if (IsSkipped()) return;
    host = std::make_shared<Host>(
        HostOptions{.sandbox = {.only = GetParam()}, .warm_workers = 0, .max_runs = 2});
    interpreter = make_code_interpreter(host);
  }
  void TearDown() override {
    if (host != nullptr) host->close();
  }
  // Tools say their arguments; "fail" fails, and "list" gives a list.
  CodeInterpreter::Job job(std::string code, std::function<void(Expected<CodeResult>)> done) {
    const json::Value schema = *json::parse(
        R"({"type": "object", "properties": {"city": {"type": "string"}, "from": {"type": "integer"}}})");
    const chat::CodeFunctions functions({message::function_tool("look-up", "Looks", schema),
                                         message::function_tool("fail", "", {}),
                                         message::function_tool("list", "", {})});
    return {.functions = functions.source(),
            .code = std::move(code),
            .limits = limits,
            .cancel = cancel,
            .ask =
                [this](const std::string& tool, const std::string& arguments,
                       const CodeInterpreter::Answer& answer) {
                  {
                    const std::lock_guard lock(mutex);
                    asked.push_back(tool + arguments);
                  }
                  if (tool == "fail") return answer(Unexpected(Error{Errc::invalid, "no way"}));
                  answer(tool == "list" ? R"([{"a": 1}])" : "told " + arguments);
                },
            .done = std::move(done)};
  }
  Expected<CodeResult> run(std::string code) {
    auto result = std::make_shared<std::promise<Expected<CodeResult>>>();
    auto started = interpreter->start(job(std::move(code), [result](Expected<CodeResult> given) {
      result->set_value(std::move(given));
    }));
    if (!started) return Unexpected(started.error());
    return result->get_future().get();
  }

  std::shared_ptr<Host> host;
  std::shared_ptr<CodeInterpreter> interpreter;
  chat::CodeLimits limits;
  CancelToken cancel;
  std::mutex mutex;
  std::vector<std::string> asked;  // guarded by mutex
};
INSTANTIATE_TEST_SUITE_P(Tiers, CodeInterpreterTest,
                         testing::Values(Tier::bubblewrap, Tier::landlock), name_of_tier);

struct CodeRow {
  const char* name;
  const char* code;
  const char* out;
  const char* err = "";  // a part of it
};

TEST_P(CodeInterpreterTest, tool_calling_CodeCallsToolsAsFunctions) {
  const CodeRow rows[] = {
      {"Prints", "print(1 + 1)", "2\n"},
      {"ExpressionIsNotPrinted", "1 + 1", ""},
      {"Positional", "print(look_up('Rome'))", "told {\"city\": \"Rome\"}\n"},
      {"Named", "print(look_up(city='Rome'))", "told {\"city\": \"Rome\"}\n"},
      {"NameOfPython", "print(look_up(**{'from': 3}))", "told {\"from\": 3}\n"},
      {"ByTheToolsName", "print(call_tool('look-up', {'city': 'ü'}))", "told {\"city\": \"ü\"}\n"},
      {"ListsAreParsed", "print(list()[0]['a'] + 1)", "2\n"},
      {"UnknownArgument", "fail(town='x')", "", "unexpected keyword argument 'town'"},
      {"ArgumentsThatAreNoJson", "look_up(city={1})", "", "not JSON serializable"},
      {"NoNumber", "look_up(city=float('nan'))", "", "ValueError"},
      {"Failure", "fail()", "", "ToolError: no way"},
      {"FailureIsCaught", "try:\n  fail()\nexcept ToolError as e:\n  print('it said', e)",
       "it said no way\n"},
      {"Docstring", "print(look_up.__doc__)", "Looks\nfrom: (in **more, int) \n"},
      {"Await", "print(await look_up('Rome'))", "told {\"city\": \"Rome\"}\n"},
      {"Gather",
       "import asyncio\nprint(await asyncio.gather(*(look_up(c) for c in 'ab'), look_up('c')))",
       "['told {\"city\": \"a\"}', 'told {\"city\": \"b\"}', 'told {\"city\": \"c\"}']\n"},
      {"GatherOfAFunction",
       "import asyncio\nasync def main():\n  task = asyncio.create_task(look_up('a'))\n"
       "  print(await task)\nasyncio.run(main())",
       "told {\"city\": \"a\"}\n"},
      {"AwaitedFailure", "try:\n  await fail()\nexcept ToolError as e:\n  print(e)", "no way\n"},
      {"Threads",
       "from concurrent.futures import ThreadPoolExecutor\n"
       "print(len([*ThreadPoolExecutor(4).map(look_up, 'abcd')]))",
       "4\n"},
      {"Exception", "print('so far')\n1/0", "so far\n", "ZeroDivisionError"},
      {"NoModels", "llm_query('x')", "", "NameError"},
      {"NoForgedQuestions",
       "import sys\nask = call_tool.__globals__['ask']\nprint(ask('llm', ['x'], None))",
       "['!only tools can be called here']\n"},
      {"NoAnswer", "answer = {'ready': True, 'content': 'x'}\nprint(answer['content'])", "x\n"},
      {"Random", "import random\nprint(random.randint(1, 100))", "18\n"},
  };
  for (const CodeRow& row : rows) {
    const auto result = run(row.code);
    ASSERT_TRUE(result) << row.name << ": " << result.error().message;
    EXPECT_EQ(result->out, row.out) << row.name << ": " << result->err;
    EXPECT_THAT(result->err, HasSubstr(row.err)) << row.name;
    EXPECT_EQ(result->err.empty(), std::string_view(row.err).empty()) << row.name;
    EXPECT_EQ(result->is_error, !std::string_view(row.err).empty()) << row.name;
  }
}

TEST_P(CodeInterpreterTest, RunsShareNothing) {
  ASSERT_TRUE(run("x = 1"));
  EXPECT_THAT(run("print(x)")->err, HasSubstr("NameError"));
}

TEST_P(CodeInterpreterTest, LimitsAreToldToTheCode) {
  limits = {.time_limit = 300ms, .max_output_chars = 10};
  auto result = run("while True: pass");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->is_error);
  EXPECT_THAT(result->err, HasSubstr("time limit of 0.3 s"));
  result = run("print('x' * 50)");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->out, "xxxxxxxxxx\n... [41 more characters were printed]\n");
}

// A call that is never answered takes none of the code's time; a stop ends it at once.
TEST_P(CodeInterpreterTest, AStopEndsIt) {
  std::promise<Expected<CodeResult>> result;
  std::promise<void> called;
  CodeInterpreter::Job waiting =
      job("look_up('x')", [&](Expected<CodeResult> given) { result.set_value(std::move(given)); });
  waiting.ask = [&](const std::string&, const std::string&, const CodeInterpreter::Answer&) {
    called.set_value();
  };
  const auto stop = interpreter->start(std::move(waiting));
  ASSERT_TRUE(stop);
  called.get_future().get();
  (*stop)();
  EXPECT_FALSE(result.get_future().get());
}

// A program may be stopped before it has begun, whenever that is.
TEST_P(CodeInterpreterTest, AStopAtAnyTimeEndsIt) {
  for (int i = 0; i < 20; ++i) {
    auto result = std::make_shared<std::promise<Expected<CodeResult>>>();
    const auto stop =
        interpreter->start(job("while True: pass", [result](Expected<CodeResult> given) {
          result->set_value(std::move(given));
        }));
    ASSERT_TRUE(stop);
    std::this_thread::sleep_for(i * 1ms);
    (*stop)();
    EXPECT_FALSE(result->get_future().get());
    (*stop)();  // whatever it ran in is gone
  }
}

// What is told of a program may begin the next one, which needs the place of the first.
TEST_P(CodeInterpreterTest, TheNextProgramHasThePlaceOfTheOneBefore) {
  host->close();
  host = std::make_shared<Host>(
      HostOptions{.sandbox = {.only = GetParam()}, .warm_workers = 0, .max_runs = 1});
  interpreter = make_code_interpreter(host);
  for (int i = 0; i < 5; ++i) {
    auto second = std::make_shared<std::promise<Expected<CodeResult>>>();
    ASSERT_TRUE(interpreter->start(job("print(1)", [this, second](const Expected<CodeResult>&) {
      auto started = interpreter->start(job("print(2)", [second](Expected<CodeResult> given) {
        second->set_value(std::move(given));
      }));
      if (!started) second->set_value(Unexpected(started.error()));
    })));
    const auto result = second->get_future().get();
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->out, "2\n");
  }
}

// All that wait for a program are told, also if the host is closed before it runs or is told of.
TEST_P(CodeInterpreterTest, AHostThatIsClosedTellsOfEachProgram) {
  for (int i = 0; i < 10; ++i) {
    Host closed({.sandbox = {.only = GetParam()}, .warm_workers = 0, .max_runs = 4});
    const auto held = std::shared_ptr<Host>(&closed, [](Host*) {});
    const auto runs = make_code_interpreter(held);
    std::atomic<int> started = 0;
    std::atomic<int> told = 0;
    for (int program = 0; program < 4; ++program) {
      started += runs->start(job("print(1)", [&](const Expected<CodeResult>&) { ++told; })) ? 1 : 0;
    }
    closed.close();
    EXPECT_EQ(told, started);
  }
}

TEST_P(CodeInterpreterTest, AClosedHostRunsNothing) {
  host->close();
  const auto result = run("print(1)");
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("try again later"));
}

}  // namespace
}  // namespace tenon::rlm
