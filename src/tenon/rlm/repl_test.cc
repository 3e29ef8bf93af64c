#include "tenon/rlm/repl.h"

#include <chrono>
#include <thread>

#include <gmock/gmock.h>

#include "tenon/rlm/sandbox_for_test.h"

namespace tenon::rlm {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using testing::HasSubstr;
using testing::Not;

// Answers each prompt at once with "<prompt>!".
class Echo : public SubCalls {
 public:
  void ask(SubCall call, Answer answer) override {
    asked.push_back(call);
    for (std::string& prompt : call.prompts) prompt += "!";
    answer(std::move(call.prompts));
  }
  std::vector<SubCall> asked;
};

// Keeps the questions and never answers.
class Silence : public SubCalls {
 public:
  void ask(SubCall /*call*/, Answer answer) override { answers.push_back(std::move(answer)); }
  std::vector<Answer> answers;
};

std::unique_ptr<Repl> start(const std::shared_ptr<Sandbox>& sandbox,
                            const WorkerLimits& limits = {}) {
  auto worker = sandbox->start(limits);
  if (!worker) {
    ADD_FAILURE() << worker.error().message;
    return nullptr;
  }
  return std::make_unique<Repl>(*std::move(worker));
}

class ReplTest : public EachTier {
 protected:
  void SetUp() override {
    EachTier::SetUp();
    if (!IsSkipped()) repl = start(sandbox());
  }
  CellResult run(std::string_view code, const CellLimits& limits = {}) {
    auto result = repl->run_cell(code, echo, limits);
    if (!result) {
      ADD_FAILURE() << result.error().message;
      return {};
    }
    return *result;
  }
  Echo echo;
  std::unique_ptr<Repl> repl;
};
INSTANTIATE_TEST_SUITE_P(Tiers, ReplTest, testing::Values(Tier::bubblewrap, Tier::landlock),
                         name_of_tier);

struct ReplRow {
  std::string_view name, code, out;
  std::string_view error = "";  // a part of it
};
constexpr ReplRow kReplRows[] = {
    {"Prints", "print('a', 1)", "a 1\n"},
    {"DoesNotPrintTheLastExpression", "1 + 1", ""},
    {"TellsNothingForNothing", "", ""},
    {"HasTheStandardLibrary",
     "import re, json, collections, math, datetime, statistics, random, itertools, csv, hashlib, "
     "decimal, zlib, string, textwrap, functools, heapq, bisect, difflib, unicodedata\n"
     "print(json.dumps(re.findall('b+', 'abba')), math.floor(2.5))",
     "[\"bb\"] 2\n"},
    {"HasADataclass",
     "import dataclasses\n@dataclasses.dataclass\nclass A:\n  x: 'int'\nprint(A(1))", "A(x=1)\n"},
    {"PrintsAnyText",
     "print('\\x00\\x1b[31m\\ud800\\U0001F600')",
     {"\0\x1b[31m?\xF0\x9F\x98\x80\n", 12}},
    {"TellsAnError", "x = 1\ny = x / 0", "",
     "  File \"<cell 1>\", line 2, in <module>\n    y = x / 0\n"},
    {"TellsASyntaxError", "if", "", "SyntaxError"},
    {"TellsAnExit", "import sys; sys.exit(3)", "", "SystemExit: 3"},
    {"HasNoInput", "input()", "", "EOFError"},
    {"HasNoProcesses", "import subprocess; subprocess.run(['ls'])", "", "Error"},
    {"HasNoArguments", "import sys, os; print(sys.argv, dict(os.environ))", "[''] {}\n"},
    {"TellsItsLimitOfMemory", "b = bytearray(8 << 30)", "", "limit of memory was reached"},
    {"TellsItsLimitOfFiles", "import sys\nl = [open(sys.executable, 'rb') for i in range(100)]", "",
     "Too many open files"},
    {"AsksAModel", "print(llm_query('a'), llm_query(5, model='m'))", "a! 5!\n"},
    {"AsksABatch", "print(llm_query_batched(['a', 'b']), llm_query_batched([]))",
     "['a!', 'b!'] []\n"},
    {"AsksRecursively", "print(rlm_query('a'), rlm_query_batched(['b']))", "a! ['b!']\n"},
    {"AsksFromThreads",
     "from concurrent.futures import ThreadPoolExecutor\n"
     "with ThreadPoolExecutor(8) as pool: print(list(pool.map(llm_query, 'abcdefghijklmnop')))",
     "['a!', 'b!', 'c!', 'd!', 'e!', 'f!', 'g!', 'h!', 'i!', 'j!', 'k!', 'l!', 'm!', 'n!', 'o!', "
     "'p!']\n"},
    {"RunsAnEventLoop",
     "import asyncio\n"
     "async def ask(text):\n"
     "  await asyncio.sleep(0.001)\n"
     "  return await asyncio.to_thread(llm_query, text)\n"
     "async def main():\n"
     "  return await asyncio.gather(*[ask(each) for each in 'abc'])\n"
     "print(asyncio.run(main()), asyncio.run(main()))",
     "['a!', 'b!', 'c!'] ['a!', 'b!', 'c!']\n"},
    {"ShowsVariables", "a = 1\nb = 'x'\n_c = 2\nprint(SHOW_VARS())",
     "Available variables: {'answer': 'dict', 'a': 'int', 'b': 'str'}\n"},
};

TEST_P(ReplTest, DoesWhatACellSays) {
  for (const ReplRow& row : kReplRows) {
    SCOPED_TRACE(row.name);
    repl = start(sandbox());
    ASSERT_TRUE(repl);
    const CellResult cell = run(row.code);
    EXPECT_EQ(cell.out, row.out);
    EXPECT_THAT(cell.error, HasSubstr(std::string(row.error)));
    EXPECT_EQ(cell.error.empty(), row.error.empty()) << cell.error;
  }
}

TEST_P(ReplTest, KeepsVariablesBetweenCells) {
  run("a = [1]\nimport re");
  EXPECT_THAT(run("a.append(2)\n1 / 0").error_kind, "ZeroDivisionError");
  EXPECT_EQ(run("print(a, re.sub('x', 'y', 'x'))").out, "[1, 2] y\n");
}

TEST_P(ReplTest, TellsAnErrorByTheCellsOwnLines) {
  run("def f(x):\n  raise ValueError(x)");
  EXPECT_EQ(run("f(0)").error,
            "Traceback (most recent call last):\n"
            "  File \"<cell 2>\", line 1, in <module>\n    f(0)\n"
            "  File \"<cell 1>\", line 2, in f\n    raise ValueError(x)\n"
            "ValueError: 0");
}

TEST_P(ReplTest, CutsOutputAndTellsHowMuch) {
  const CellResult cell =
      run("import sys\nprint('\xC3\xA4' * 30)\nfor i in range(100): print(i, file=sys.stderr)",
          {.max_output_chars = 10});
  EXPECT_EQ(cell.out,
            "\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4");
  EXPECT_EQ(cell.out_cut, 21U);
  EXPECT_EQ(cell.err, "0\n1\n2\n3\n4\n");
  EXPECT_EQ(cell.err_cut, 280U);
}

// The host bounds whatever the code of a cell makes the worker send.
TEST_P(ReplTest, CutsWhatAWorkerForges) {
  CellResult cell =
      run("import sys; sys.stdout.limit = sys.stderr.limit = 10**9\n"
          "print('x' * 300000)\nprint('\xC3\xA4' * 300000, file=sys.stderr)",
          {.max_output_chars = 100});
  EXPECT_EQ(cell.out, std::string(100, 'x'));
  EXPECT_EQ(cell.out_cut, 299'901U);
  EXPECT_EQ(cell.err.size(), 200U);
  EXPECT_EQ(cell.err_cut, 299'901U);
  cell = run("llm_query.__globals__['MAX_ERROR'] = 10**9\nraise ValueError('x' * 300000)");
  EXPECT_EQ(cell.error.size(), Repl::kMaxErrorChars);
  cell = run("raise type('x' * 300000, (Exception,), {})()");
  EXPECT_LE(cell.error_kind.size(), Repl::kMaxNameChars);
  EXPECT_EQ(run("FINAL('x' * 300000)", {.max_final_chars = 10}).final_answer, "xxxxxxxxxx");
  run("class Str(str):\n  def __getitem__(self, _): return self\n"
      "class A:\n  def __str__(self): return Str('x' * 1000)\na = A()");
  EXPECT_EQ(repl->variable("a", 10).value(), "xxxxxxxxxx");
}

TEST_P(ReplTest, NamesNoMoreVariablesThanAreOfUse) {
  run("globals().update({'v%d' % i: i for i in range(300000)})\n"
      "globals()['w' * 100000] = globals()[5] = 0");
  const auto variables = repl->variables();
  ASSERT_TRUE(variables) << variables.error().message;
  EXPECT_EQ(variables->size(), Repl::kMaxVariables);
  EXPECT_EQ(run("print(v299999)").out, "299999\n");
}

struct FinalRow {
  std::string_view code;
  std::optional<std::string> answer;
};

TEST_P(ReplTest, TakesFinalAnswers) {
  const FinalRow rows[] = {
      {"x = 1", std::nullopt},
      {"FINAL('done')", "done"},
      {"FINAL(12)", "12"},
      {"FINAL('')", ""},
      {"v = [1]\nFINAL_VAR('v')", "[1]"},
      {"v = 'text'\nFINAL_VAR(\"'v'\")", "text"},
      {"print(FINAL_VAR('missing'))", std::nullopt},
      {"answer['content'] = 'a'", std::nullopt},
      {"answer['content'] = 'a'; answer['ready'] = True", "a"},
      {"answer = {'content': 3, 'ready': True}", "3"},
      {"answer = 5", std::nullopt},
  };
  for (const FinalRow& row : rows) {
    SCOPED_TRACE(row.code);
    repl = start(sandbox());
    EXPECT_EQ(run(row.code).final_answer, row.answer);
  }
}

TEST_P(ReplTest, LoadsWhatCellsWorkOn) {
  const std::vector<std::string> names{"context", "context_0"};
  const auto text = repl->load_text(names, "\xC3\xA4\xFF");
  ASSERT_TRUE(text);
  EXPECT_EQ(text->type, "str");
  EXPECT_EQ(text->length, 2U);
  EXPECT_EQ(run("print(ascii(context), context is context_0)").out, "'\\xe4\\ufffd' True\n");
  const std::vector<std::string_view> texts{"a", "", "bc"};
  ASSERT_TRUE(repl->load_list(names, texts));
  EXPECT_EQ(run("print(context)").out, "['a', '', 'bc']\n");
  ASSERT_TRUE(repl->load_list(names, {}));
  EXPECT_EQ(run("print(context)").out, "[]\n");
  ASSERT_TRUE(repl->load_json(names, R"({"a": [1, 2.5, null]})"));
  EXPECT_EQ(run("print(context)").out, "{'a': [1, 2.5, None]}\n");
  EXPECT_EQ(repl->load_json(names, "{").error().code, Errc::invalid);
  EXPECT_EQ(run("print(context)").out, "{'a': [1, 2.5, None]}\n");
}

TEST_P(ReplTest, LoadsMuch) {
  const std::vector<std::string> names{"context"};
  const std::string text(std::size_t{50} << 20, 'x');
  ASSERT_TRUE(repl->load_text(names, text));
  EXPECT_EQ(run("print(len(context), context[-1])").out, "52428800 x\n");
  const std::string more(std::size_t{900} << 20, 'x');
  EXPECT_EQ(repl->load_text(names, more).error().code, Errc::limit_exceeded);
  EXPECT_EQ(run("print(len(context))").out, "52428800\n");
}

TEST_P(ReplTest, RestoresItsNames) {
  ASSERT_TRUE(repl->load_text(std::vector<std::string>{"context"}, "text"));
  run("context = llm_query = FINAL = SHOW_VARS = 1\ndel FINAL_VAR, rlm_query\n__builtins__ = 2");
  EXPECT_EQ(run("print(context, llm_query('a'), rlm_query('b'))\nFINAL(1)").out, "text a! b!\n");
}

TEST_P(ReplTest, NamesItsVariables) {
  run("a = 1\nb = {}");
  const auto variables = repl->variables();
  ASSERT_TRUE(variables);
  ASSERT_EQ(variables->size(), 3U);
  EXPECT_EQ(variables->at(1).name, "a");
  EXPECT_EQ(variables->at(2).type, "dict");
  EXPECT_EQ(repl->variable("a", 10).value(), "1");
  EXPECT_EQ(repl->variable("missing", 10).value(), std::nullopt);
  run("c = 'abc'");
  EXPECT_EQ(repl->variable("c", 2).value(), "ab");
}

TEST_P(ReplTest, IsTheSameAgainWithASeed) {
  ASSERT_TRUE(repl->seed(7));
  const std::string first =
      run("import random\nprint(random.random(), {'x', 'y', 'z'}, hash('a'))").out;
  repl = start(sandbox());
  ASSERT_TRUE(repl->seed(7));
  EXPECT_EQ(run("import random\nprint(random.random(), {'x', 'y', 'z'}, hash('a'))").out, first);
}

TEST_P(ReplTest, StopsACellThatRunsTooLong) {
  for (const char* code : {"while True: pass", "import time; time.sleep(60)"}) {
    run("kept = 1");
    const CellResult cell = run(code, {.wall = 100ms});
    EXPECT_TRUE(cell.is_timed_out);
    EXPECT_THAT(cell.error, HasSubstr("stopped at its time limit of 0.1 s"));
    EXPECT_EQ(run("print(kept)").out, "1\n");
  }
}

// A thread that waits for an answer gives the others no more time than the cell has.
TEST_P(ReplTest, CountsWhatIsComputedWhileAThreadAsks) {
  Silence silence;
  const auto begun = steady_clock::now();
  const auto cell = repl->run_cell(
      "import threading\nthreading.Thread(target=llm_query, args=('x',), daemon=True).start()\n"
      "while True: pass",
      silence, {.wall = 300ms});
  ASSERT_TRUE(cell) << cell.error().message;
  EXPECT_TRUE(cell->is_timed_out);
  EXPECT_LT(steady_clock::now() - begun, 10s);
  EXPECT_EQ(run("print(llm_query('b'))").out, "b!\n");
}

TEST_P(ReplTest, StopsACellThatNeverStopsAsking) {
  const auto cell = repl->run_cell("while True: llm_query('x')", echo, {.wall = 300ms});
  ASSERT_TRUE(cell) << cell.error().message;
  EXPECT_TRUE(cell->is_timed_out);
}

TEST_P(ReplTest, TellsAnInterruptByTheCellsOwnLines) {
  EXPECT_EQ(run("while True: pass", {.wall = 100ms}).error,
            "Traceback (most recent call last):\n"
            "  File \"<cell 1>\", line 1, in <module>\n    while True: pass\n"
            "KeyboardInterrupt: the cell was stopped\n"
            "The cell was stopped at its time limit of 0.1 s.");
}

// Commands have limits like cells, and end with their run.
TEST_P(ReplTest, StopsATextThatNeverComes) {
  run("class A:\n  def __str__(self):\n    while True: pass\na = A()\nkept = 1");
  const auto late = repl->variable("a", 10, {.wall = 100ms});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::limit_exceeded);
  EXPECT_EQ(run("print(kept)").out, "1\n");
  const CancelToken cancel;
  const std::jthread thread([&] {
    std::this_thread::sleep_for(100ms);
    cancel.cancel();
  });
  const auto begun = steady_clock::now();
  EXPECT_EQ(repl->variable("a", 10, {}, &cancel).error().code, Errc::unavailable);
  EXPECT_LT(steady_clock::now() - begun, 2s);
  EXPECT_FALSE(repl->is_alive());
}

TEST_P(ReplTest, EndsCommandsThatAThreadOfACellHoldsUp) {
  run("import ctypes, re, threading, time\n"
      "ctypes.pythonapi = None\n"  // so that it is not stopped
      "def later():\n  time.sleep(0.3)\n  re.match('(a*)*b', 'a' * 40)\n"
      "threading.Thread(target=later, daemon=True).start()");
  std::this_thread::sleep_for(600ms);
  const auto begun = steady_clock::now();
  const auto variables = repl->variables({.wall = 100ms, .grace = 100ms});
  EXPECT_EQ(variables.error().code, Errc::limit_exceeded);
  EXPECT_LT(steady_clock::now() - begun, 3s);
  EXPECT_FALSE(repl->is_alive());
}

// A thread that goes on would print into the next block, and take its time and its sub-calls.
TEST_P(ReplTest, StopsThreadsThatACellLeavesBehind) {
  const char* const rows[] = {
      "def work():\n  global n\n  while True: n += 1",
      "def work():\n  global n\n  while True:\n    n += 1\n    time.sleep(0.001)",
      "def work():\n  global n\n  while True:\n    try:\n      n += 1\n      llm_query('a')\n"
      "    except Exception: pass",
  };
  for (const char* code : rows) {
    SCOPED_TRACE(code);
    repl = start(sandbox());
    const CellResult cell = run("import threading, time\nn = 0\n" + std::string(code) +
                                "\nfor _ in range(3): threading.Thread(target=work).start()\n"
                                "time.sleep(0.05)\nprint(n > 0)");
    EXPECT_EQ(cell.out, "True\n");
    EXPECT_EQ(cell.error, "");
    EXPECT_THAT(cell.err, HasSubstr("still ran at its end and were stopped (3)"));
    EXPECT_EQ(run("m = n\ntime.sleep(0.1)\nprint(m == n, threading.active_count())").out,
              "True 1\n");
    EXPECT_EQ(run("print(llm_query('b'))").err, "");
  }
}

// A thread that sleeps cannot be woken; it ends as it wakes, and gives back what it had locked.
TEST_P(ReplTest, EndsThreadsThatSleepAsTheyWake) {
  run("import threading, time\nlock = threading.Lock()\n"
      "def work():\n  with lock: time.sleep(0.4)\n  print('went on')\n"
      "def rest():\n  try: time.sleep(0.4)\n  finally: lock.locked()\n  print('went on')\n"
      "for one in (work, rest, lambda: time.sleep(0.4)): threading.Thread(target=one).start()\n"
      "time.sleep(0.05)");
  const CellResult cell =
      run("time.sleep(0.8)\nprint(threading.active_count(), lock.acquire(timeout=2))");
  EXPECT_EQ(cell.out, "1 True\n");
  EXPECT_EQ(cell.err, "");
}

TEST_P(ReplTest, HoldsThreadsThatCatchWhatStopsThem) {
  const char* const rows[] = {
      "    try: n += 1\n    except BaseException: n += 1",
      "    try:\n      n += 1\n      time.sleep(0.001)\n    except BaseException: pass",
      "    try:\n      try: time.sleep(0.001)\n      finally: n += 1\n    except: continue",
  };
  for (const char* code : rows) {
    SCOPED_TRACE(code);
    repl = start(sandbox());
    const CellResult cell =
        run("import threading, time\nn = 0\ndef work():\n  global n\n  while True:\n" +
            std::string(code) +
            "\nfor _ in range(3): threading.Thread(target=work, daemon=True).start()\n"
            "time.sleep(0.05)\nprint(n > 0)");
    EXPECT_EQ(cell.out, "True\n");
    EXPECT_EQ(cell.error, "");
    EXPECT_THAT(cell.err, HasSubstr("still ran at its end and were stopped (3)"));
    EXPECT_THAT(cell.err, Not(HasSubstr("when they wake")));
    const CellResult next = run("m = n\ntime.sleep(0.1)\nprint(m == n)");
    EXPECT_EQ(next.out, "True\n");
    EXPECT_EQ(next.err, "");
  }
}

TEST_P(ReplTest, LeavesAPoolThatWaitsForWork) {
  const CellResult cell =
      run("from concurrent.futures import ThreadPoolExecutor\nimport time\n"
          "pool = ThreadPoolExecutor(2)\nprint(list(pool.map(llm_query, 'ab')))");
  EXPECT_EQ(cell.out, "['a!', 'b!']\n");
  EXPECT_EQ(cell.err, "");
  EXPECT_EQ(run("print(list(pool.map(llm_query, 'cd')))").out, "['c!', 'd!']\n");
  // What it does is stopped, and what it was to do is taken back; then it works again.
  EXPECT_THAT(run("n = []\ndef work(x):\n  while True: time.sleep(0.001)\n"
                  "more = [pool.submit(work, 1) for _ in range(5)]\ntime.sleep(0.05)")
                  .err,
              HasSubstr("were stopped (2)"));
  EXPECT_EQ(run("print([each.done() for each in more], list(pool.map(llm_query, 'ef')))").out,
            "[True, True, True, True, True] ['e!', 'f!']\n");
}

TEST_P(ReplTest, TellsOfAThreadThatCannotBeStopped) {
  EXPECT_THAT(run("import threading, time\n"
                  "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()")
                  .err,
              HasSubstr("1 of them will only stop when they wake"));
  EXPECT_EQ(run("print(1)").err, "");  // it is told once
}

TEST_P(ReplTest, TakesAnswersThatAreLongWhenEscaped) {
  class Control : public SubCalls {
   public:
    void ask(SubCall call, Answer answer) override {
      answer({std::string(std::stoul(call.prompts.front()), '\x01')});
    }
  } control;
  const auto cell =
      repl->run_cell("print(len(llm_query('9000000')), llm_query('12000000'))", control, {});
  ASSERT_TRUE(cell) << cell.error().message;
  EXPECT_EQ(cell->out, "9000000 Error: the answers are too long together\n");
}

TEST_P(ReplTest, KillsACellThatDoesNotStop) {
  for (const char* code :
       {"while True:\n  try:\n    for i in range(9 ** 9): str(i)\n  except BaseException: pass",
        "x = sum(range(10 ** 12))"}) {
    repl = start(sandbox());
    const auto begun = steady_clock::now();
    const auto cell = repl->run_cell(code, echo, {.wall = 100ms, .grace = 100ms});
    ASSERT_FALSE(cell);
    EXPECT_EQ(cell.error().code, Errc::limit_exceeded);
    EXPECT_THAT(cell.error().message, HasSubstr("time limit of 0.1 s"));
    EXPECT_LT(steady_clock::now() - begun, 3s);
    EXPECT_FALSE(repl->is_alive());
    EXPECT_EQ(repl->run_cell("1", echo, {}).error().code, Errc::unavailable);
  }
}

TEST_P(ReplTest, TellsHowAWorkerEnded) {
  const std::pair<const char*, const char*> rows[] = {
      {"import os; os._exit(7)", "ended itself with status 7"},
      {"import ctypes; ctypes.string_at(1)", "SIGSEGV"},
      {"import os; os.close(1)", "gone"},
  };
  for (const auto& [code, how] : rows) {
    SCOPED_TRACE(code);
    repl = start(sandbox());
    const auto cell = repl->run_cell(code, echo, {.wall = 2s, .grace = 100ms});
    ASSERT_FALSE(cell);
    EXPECT_THAT(cell.error().message, HasSubstr(how));
  }
}

TEST_P(ReplTest, TellsTheLimitOfCpuTime) {
  repl = start(sandbox(), {.cpu = 1s});
  const auto cell = repl->run_cell("while True: pass", echo, {.wall = 60s});
  ASSERT_FALSE(cell);
  EXPECT_THAT(cell.error().message, HasSubstr("limit of CPU time"));
}

TEST_P(ReplTest, EndsAWorkerThatBreaksTheProtocol) {
  const char* rows[] = {
      R"(import os; os.write(1, b'\xff\xff\xff\xff'))",
      R"(import os; os.write(1, b'\0\0\0\2{}'))",
      R"(import os; os.write(1, b'\0\0\0\1{'))",
      R"(import os; os.write(1, b'\0\0\0\x0a{"op":"no"}' + b' ' * 10))",
      R"(import os; f = b'{"op":"call","id":1,"kind":"llm","prompts":[1]}'; os.write(1, bytes([0,0,0,len(f)]) + f))",
      R"(import os; f = b'{"op":"call","id":1,"kind":"x","prompts":["a"]}'; os.write(1, bytes([0,0,0,len(f)]) + f))",
      R"(import os; f = b'{"op":"call","id":1,"kind":"llm","prompts":[]}'; os.write(1, bytes([0,0,0,len(f)]) + f))",
      R"(import os; f = b'[' * 100; os.write(1, bytes([0,0,0,len(f)]) + f))",
  };
  for (const char* code : rows) {
    SCOPED_TRACE(code);
    repl = start(sandbox());
    const auto cell = repl->run_cell(code, echo, {.wall = 5s});
    ASSERT_FALSE(cell);
    EXPECT_EQ(cell.error().code, Errc::invalid) << cell.error().message;
    EXPECT_THAT(cell.error().message, HasSubstr("broke the protocol"));
  }
}

TEST_P(ReplTest, TellsThatAWorkerDiedWithinAMessage) {
  const auto cell =
      repl->run_cell("import os; os.write(1, b'\\0\\0\\1\\0{'); os._exit(1)", echo, {});
  ASSERT_FALSE(cell);
  EXPECT_EQ(cell.error().code, Errc::unavailable);
}

TEST_P(ReplTest, TakesAnswersLaterAndInAnyOrder) {
  class Later : public SubCalls {
   public:
    void ask(SubCall call, Answer answer) override {
      calls.emplace_back(std::move(call.prompts.front()), std::move(answer));
      if (calls.size() < 4) return;
      thread = std::jthread([this] {
        std::this_thread::sleep_for(50ms);
        for (auto one = calls.rbegin(); one != calls.rend(); ++one) {
          one->second({one->first + "?"});
          one->second({"twice"});
        }
      });
    }
    std::vector<std::pair<std::string, Answer>> calls;
    std::jthread thread;
  } later;
  const auto cell = repl->run_cell(
      "from concurrent.futures import ThreadPoolExecutor\n"
      "with ThreadPoolExecutor(4) as pool: print(list(pool.map(llm_query, 'abcd')))",
      later, {.wall = 5s});
  ASSERT_TRUE(cell) << cell.error().message;
  EXPECT_EQ(cell->out, "['a?', 'b?', 'c?', 'd?']\n");
  EXPECT_EQ(cell->sub_calls, 4U);
}

TEST_P(ReplTest, DoesNotCountTheTimeOfSubCalls) {
  class Slow : public SubCalls {
   public:
    void ask(SubCall /*call*/, Answer answer) override {
      thread = std::jthread([answer = std::move(answer)] {
        std::this_thread::sleep_for(400ms);
        answer({"a"});
      });
    }
    std::jthread thread;
  } slow;
  const auto cell = repl->run_cell("print(llm_query('x'))", slow, {.wall = 300ms});
  ASSERT_TRUE(cell) << cell.error().message;
  EXPECT_EQ(cell->error, "");
  EXPECT_EQ(cell->out, "a\n");
}

TEST_P(ReplTest, GivesAnErrorForAnswersThatAreMissing) {
  class None : public SubCalls {
   public:
    void ask(SubCall /*call*/, Answer answer) override { answer({}); }
  } none;
  const auto cell = repl->run_cell("print(llm_query_batched(['x', 'y']))", none, {});
  ASSERT_TRUE(cell);
  EXPECT_EQ(cell->out, "['Error: there is no answer', 'Error: there is no answer']\n");
}

TEST_P(ReplTest, DropsAnswersAfterTheCell) {
  Silence silence;
  const auto cell = repl->run_cell(
      "import threading\nthreading.Thread(target=lambda: llm_query('a'), daemon=True).start()\n"
      "import time; time.sleep(0.2)",
      silence, {});
  ASSERT_TRUE(cell) << cell.error().message;
  for (const auto& answer : silence.answers) answer({"late"});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run("print(llm_query('b'))").out, "b!\n");
}

TEST_P(ReplTest, EndsAtOnceWhenCancelled) {
  for (const char* code : {"while True: pass", "llm_query('x')"}) {
    for (const bool by_token : {true, false}) {
      repl = start(sandbox());
      const CancelToken cancel;
      Silence silence;
      steady_clock::time_point cancelled;
      std::jthread thread([&] {
        std::this_thread::sleep_for(100ms);
        cancelled = steady_clock::now();
        if (by_token) {
          cancel.cancel();
        } else {
          repl->interrupt();
        }
      });
      const auto cell = repl->run_cell(code, silence, {}, &cancel);
      thread.join();
      EXPECT_LT(steady_clock::now() - cancelled, 500ms);  // 100 ms on an idle machine
      ASSERT_FALSE(cell);
      EXPECT_EQ(cell.error().code, Errc::unavailable);
      EXPECT_FALSE(repl->is_alive());
    }
  }
}

}  // namespace
}  // namespace tenon::rlm
