#include "tenon/chat/code_run.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "tenon/message/build.h"

namespace tenon::chat {
namespace {

using message::ToolCall;
using testing::ElementsAre;
using testing::HasSubstr;

/// "Code" of tests: calls of tools, each "NAME ARGUMENTS", made one after the other and, behind
/// "&", at the same time. It prints what they give. It ends with the last answer, or when it is
/// stopped.
class Lines final : public CodeInterpreter {
 public:
  Expected<Stop> start(Job job) override {
    if (is_busy) return Unexpected(Error{Errc::unavailable, "too many run"});
    auto shared = std::make_shared<Running>();
    shared->job = std::move(job);
    begin([shared] { run(shared); });
    return [shared] { shared->stop(); };
  }
  std::shared_ptr<void> alarm(std::chrono::steady_clock::time_point deadline,
                              std::function<void()> expire) override {
    auto is_wanted = std::make_shared<int>(0);
    begin([deadline, expire, wanted = std::weak_ptr<int>(is_wanted)] {
      std::this_thread::sleep_until(deadline);
      if (wanted.lock() != nullptr) expire();
    });
    return is_wanted;
  }
  ~Lines() override {
    for (std::size_t i = 0; i < threads_.size(); ++i) threads_[i].join();
  }

  bool is_busy = false;

 private:
  struct Running {
    Job job;
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::string> said;
    bool is_stopped = false;

    void stop() {
      const std::lock_guard lock(mutex);
      is_stopped = true;
      changed.notify_all();
    }
  };
  // An answer may come when the code has ended.
  static void run(const std::shared_ptr<Running>& shared) {
    Running& running = *shared;
    std::string line;
    std::size_t open = 0;
    std::string code = running.job.code + "\n";
    for (std::size_t at = 0, end = 0; (end = code.find('\n', at)) != code.npos; at = end + 1) {
      line = code.substr(at, end - at);
      if (line.empty()) continue;
      const bool waits = !line.starts_with('&');
      if (!waits) line.erase(0, 1);
      std::size_t space = line.find(" {");  // "tool docs" has a space in its name
      if (space == line.npos) space = line.find(' ');
      std::size_t place = 0;
      {
        const std::lock_guard lock(running.mutex);
        place = running.said.size();
        running.said.emplace_back();
      }
      ++open;
      running.job.ask(line.substr(0, space), line.substr(space + 1),
                      [shared, place](const Expected<std::string>& result) {
                        Running& running = *shared;
                        const std::lock_guard lock(running.mutex);
                        running.said[place] =
                            (result ? *result : "failed: " + result.error().message) + "\n";
                        running.changed.notify_all();
                      });
      if (!waits) continue;
      if (!wait(running)) return;
    }
    if (!wait(running)) return;
    std::string out;
    for (const std::string& one : running.said) out += one;
    running.job.done(CodeResult{.out = out, .err = {}, .is_error = false});
  }
  static bool wait(Running& running) {
    std::unique_lock lock(running.mutex);
    running.changed.wait(lock, [&running] {
      return running.is_stopped ||
             std::ranges::none_of(running.said, [](const auto& one) { return one.empty(); });
    });
    if (!running.is_stopped) return true;
    lock.unlock();
    running.job.done(Unexpected(Error{Errc::unavailable, "it was stopped"}));
    return false;
  }
  void begin(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    threads_.emplace_back(std::move(work));
  }

  std::mutex mutex_;
  std::deque<std::thread> threads_;  // guarded by mutex_
};

class CodeRunTest : public testing::Test {
 protected:
  CodeRunTest() {
    const json::Value schema = *json::parse(
        R"({"type": "object", "properties": {"a": {"type": "number"}}, "additionalProperties": false})");
    options.functions = std::make_shared<const CodeFunctions>(
        std::vector{message::function_tool("theirs", "Belongs to the client", schema),
                    message::function_tool("ours", "Belongs to the server", schema)});
    options.runs_here = [](const std::string& tool) { return tool == "ours"; };
    options.run_here = [this](const ToolCall& call, std::function<void(ToolResult)> done) {
      ran.push_back(call.arguments);
      done({.tool_call_id = call.id, .output = "here " + call.arguments});
    };
    options.notes = std::make_shared<CodeNotes>();
    options.schemas = std::make_shared<CompiledSchemas>();
  }
  // Its threads hold it as long as they run.
  void TearDown() override {
    while (lines.use_count() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CodeOutcome run(std::string code) {
    options.code = std::move(code);
    std::promise<CodeOutcome> outcome;
    CodeRun::start(lines, options,
                   [&outcome](CodeOutcome given) { outcome.set_value(std::move(given)); });
    return outcome.get_future().get();
  }
  // What the client does with the calls.
  void answer(const CodeOutcome& outcome, const std::function<std::string(const ToolCall&)>& tool) {
    for (const ToolCall& call : outcome.waits) {
      options.earlier.push_back({.code_id = "c", .call = call, .result = tool(call)});
    }
  }
  static std::vector<std::string> calls_of(const CodeOutcome& outcome) {
    std::vector<std::string> calls;
    for (const ToolCall& call : outcome.waits) calls.push_back(call.name + call.arguments);
    return calls;
  }

  std::shared_ptr<Lines> lines = std::make_shared<Lines>();
  CodeRun::Options options;
  std::vector<std::string> ran;
};

TEST_F(CodeRunTest, tool_calling_CallsThatRunHereAreRunAtOnce) {
  const CodeOutcome outcome = run("ours {\"a\":1}\nours {\"a\":2}");
  EXPECT_EQ(outcome.result.out, "here {\"a\":1}\nhere {\"a\":2}\n");
  EXPECT_TRUE(outcome.waits.empty());
  EXPECT_EQ(outcome.ran.size(), 2U);
}

TEST_F(CodeRunTest, tool_calling_ACallOfTheClientsWaitsAndGoesOn) {
  CodeOutcome outcome = run("theirs {\"a\":1}\nours {\"a\":5}\ntheirs {\"a\":2}");
  EXPECT_THAT(calls_of(outcome), ElementsAre("theirs{\"a\":1}"));
  EXPECT_THAT(ran, ElementsAre());
  answer(outcome, [](const ToolCall&) { return "one"; });
  outcome = run(options.code);
  EXPECT_THAT(calls_of(outcome), ElementsAre("theirs{\"a\":2}"));
  EXPECT_THAT(ran, ElementsAre("{\"a\":5}"));
  answer(outcome, [](const ToolCall&) { return "two"; });
  outcome = run(options.code);
  EXPECT_TRUE(outcome.waits.empty());
  EXPECT_EQ(outcome.result.out, "one\nhere {\"a\":5}\ntwo\n");
  EXPECT_THAT(ran, ElementsAre("{\"a\":5}"));  // not run again
}

// The same call is told its results in their order, and a client may write arguments anew.
TEST_F(CodeRunTest, AnswersAreFoundByWhatWasCalled) {
  CodeOutcome outcome = run("&theirs {\"a\": 1.0}\n&theirs {\"a\":1}\n&theirs {\"a\":2}");
  EXPECT_EQ(outcome.waits.size(), 3U);
  int number = 0;
  answer(outcome, [&](const ToolCall&) { return std::to_string(++number); });
  for (message::CodeCall& call : options.earlier) {
    if (call.call.arguments == "{\"a\": 1.0}") call.call.arguments = "{ \"a\" : 1 }";
  }
  EXPECT_EQ(run(options.code).result.out, "1\n2\n3\n");
}

TEST_F(CodeRunTest, WithoutParallelCallsOneWaits) {
  options.parallel = false;
  EXPECT_THAT(calls_of(run("&theirs {\"a\":1}\n&theirs {\"a\":2}")),
              ElementsAre("theirs{\"a\":1}"));
}

// A call without a result is made again.
TEST_F(CodeRunTest, ACallWithoutItsResultIsMadeAgain) {
  answer(run("theirs {\"a\":1}"), [](const ToolCall&) { return ""; });
  options.earlier[0].result.reset();
  EXPECT_THAT(calls_of(run(options.code)), ElementsAre("theirs{\"a\":1}"));
}

TEST_F(CodeRunTest, AFailedCallIsAnError) {
  answer(run("theirs {\"a\":1}"), [](const ToolCall&) { return "no such city"; });
  options.earlier[0].is_error = true;
  EXPECT_EQ(run(options.code).result.out, "failed: no such city\n");
}

struct RefusalRow {
  const char* name;
  std::string code;
  const char* says;
};

// None of these calls leaves.
TEST_F(CodeRunTest, tool_calling_TheHostRefusesWhatCodeMayNotCall) {
  options.limits = {.max_calls = 2, .max_bytes = 200};
  const RefusalRow rows[] = {
      {"AnotherTool", "other {}", "there is no tool \"other\" that code may call"},
      {"ArgumentsThatDoNotFit", "theirs {\"a\":\"x\"}", "/a is a string, must be a number"},
      {"AnUnknownArgument", "theirs {\"b\":1}", "b"},
      {"NoObject", "theirs 3", "are not a JSON object"},
      {"NoJson", "theirs {", "are not a JSON object"},
      {"TooManyCalls", "other {}\nother {}\ntheirs {}", "the 2 calls that it may make"},
      {"TooManyBytes", "theirs {\"a\":1" + std::string(200, ' ') + "}", "the limit of 200 bytes"},
  };
  for (const RefusalRow& row : rows) {
    const CodeOutcome outcome = run(row.code);
    EXPECT_TRUE(outcome.waits.empty()) << row.name;
    EXPECT_THAT(outcome.result.out, HasSubstr(row.says)) << row.name;
  }
}

TEST_F(CodeRunTest, ResultsCountInTheLimitOfBytes) {
  options.limits.max_bytes = 100;
  options.run_here = [](const ToolCall& call, std::function<void(ToolResult)> done) {
    done({.tool_call_id = call.id, .output = std::string(200, 'x')});
  };
  EXPECT_THAT(run("ours {}").result.out, HasSubstr("the limit of 100 bytes"));
}

TEST_F(CodeRunTest, CodeReadsAboutFunctions) {
  const CodeOutcome outcome = run("tool docs {\"query\": \"client\"}");
  EXPECT_THAT(outcome.result.out, HasSubstr("def theirs("));
  EXPECT_TRUE(outcome.waits.empty());
}

// Calls that ran here must not be made again, so what cannot be gone on with is said to be lost.
TEST_F(CodeRunTest, tool_calling_WithoutNotesNothingIsRunAgain) {
  answer(run("ours {}\ntheirs {}"), [](const ToolCall&) { return "x"; });
  options.notes = std::make_shared<CodeNotes>();
  const CodeOutcome outcome = run(options.code);
  EXPECT_TRUE(outcome.result.is_error);
  EXPECT_THAT(outcome.result.err, HasSubstr("not known any more"));
  EXPECT_EQ(ran.size(), 1U);
  // Where all of its tools are the client's, the request has all that it needs.
  options.functions =
      std::make_shared<const CodeFunctions>(std::vector{message::function_tool("theirs", "", {})});
  options.earlier[0].call.arguments = "{}";
  EXPECT_EQ(run("theirs {}").result.out, "x\n");
}

TEST_F(CodeRunTest, ABusyInterpreterIsTold) {
  lines->is_busy = true;
  const CodeOutcome outcome = run("ours {}");
  EXPECT_TRUE(outcome.result.is_error);
  EXPECT_EQ(outcome.result.err, "Error: too many run");
}

// A program that has waited may go on later, with the same results.
TEST_F(CodeRunTest, tool_calling_ABusyInterpreterLosesNothing) {
  answer(run("ours {}\ntheirs {}"), [](const ToolCall&) { return "x"; });
  lines->is_busy = true;
  const CodeOutcome outcome = run(options.code);
  ASSERT_TRUE(outcome.not_run);
  EXPECT_EQ(outcome.not_run->message, "too many run");
  lines->is_busy = false;
  EXPECT_EQ(run(options.code).result.out, "here {}\nx\n");
  EXPECT_EQ(ran.size(), 1U);
}

// A call that runs when the code ends is told, too.
TEST_F(CodeRunTest, tool_calling_TheDeadlineEndsIt) {
  std::thread tool;
  options.run_here = [&](const ToolCall& call, std::function<void(ToolResult)> done) {
    tool = std::thread([call, done = std::move(done)] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      done({.tool_call_id = call.id, .output = "late"});
    });
  };
  options.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  const CodeOutcome outcome = run("ours {}");
  tool.join();
  EXPECT_EQ(outcome.result.err, "Error: it was stopped");
  ASSERT_EQ(outcome.ran.size(), 1U);
  EXPECT_EQ(outcome.ran[0].second.output, "late");
}

struct ChangeRow {
  const char* name;
  const char* first;
  const char* second;
  const char* says;  // "": it goes on
};

// Code that does something else than before repeats nothing, and does not go on forever.
TEST_F(CodeRunTest, tool_calling_CodeThatChangesIsEnded) {
  const ChangeRow rows[] = {
      {"Client", "theirs {\"a\":1}", "theirs {\"a\":2}", "a call of \"theirs\""},
      {"Own", "ours {\"a\":1}\ntheirs {}", "ours {\"a\":2}\ntheirs {}", "a call of \"ours\""},
      {"OwnLate", "ours {\"a\":1}\ntheirs {}", "theirs {}\nours {\"a\":2}", "a call of \"ours\""},
      // Threads come to their calls in another order.
      {"Order", "&ours {\"a\":1}\n&ours {\"a\":3}\ntheirs {}",
       "&ours {\"a\":2}\n&ours {\"a\":3}\n&ours {\"a\":1}\n&theirs {}", ""},
  };
  for (const ChangeRow& row : rows) {
    options.earlier.clear();
    options.notes = std::make_shared<CodeNotes>();
    const CodeOutcome before = run(row.first);
    answer(before, [](const ToolCall&) { return "x"; });
    ran.clear();
    const CodeOutcome outcome = run(row.second);
    EXPECT_TRUE(outcome.waits.empty()) << row.name;
    EXPECT_EQ(outcome.result.is_error, *row.says != '\0') << row.name;
    EXPECT_THAT(outcome.result.err, HasSubstr(row.says)) << row.name;
    EXPECT_EQ(ran.size(), *row.says != '\0' ? 0U : 1U) << row.name;
  }
}

TEST_F(CodeRunTest, tool_calling_WhatTheClientSendsCountsInTheLimitOfBytes) {
  answer(run("theirs {}"), [](const ToolCall&) { return std::string(200, 'x'); });
  options.limits.max_bytes = 100;
  EXPECT_THAT(run(options.code).result.out, HasSubstr("the limit of 100 bytes"));
}

// What a call was told is what it is told again.
TEST_F(CodeRunTest, AResultBeyondTheLimitStaysOne) {
  options.limits.max_bytes = 100;
  options.run_here = [](const ToolCall& call, std::function<void(ToolResult)> done) {
    done({.tool_call_id = call.id, .output = std::string(200, 'x')});
  };
  CodeOutcome outcome = run("&theirs {}\nours {}");
  ASSERT_EQ(outcome.waits.size(), 1U);
  const auto kept = options.notes->find("", outcome.waits[0].id);
  ASSERT_NE(kept, nullptr);
  EXPECT_TRUE(kept->at(0).second.is_error);
  EXPECT_LT(kept->at(0).second.output.size(), 120U);
}

// Notes are for code with tools that run here, and as long as it waits.
TEST_F(CodeRunTest, tool_calling_NotesEndWithTheCode) {
  options.owner = "a";
  const CodeOutcome first = run("ours {}\ntheirs {\"a\":1}\ntheirs {\"a\":2}");
  EXPECT_NE(options.notes->find("a", first.waits[0].id), nullptr);
  EXPECT_EQ(options.notes->find("b", first.waits[0].id), nullptr);
  answer(first, [](const ToolCall&) { return "x"; });
  const CodeOutcome second = run(options.code);
  EXPECT_EQ(options.notes->find("a", first.waits[0].id), nullptr);
  EXPECT_NE(options.notes->find("a", second.waits[0].id), nullptr);
  answer(second, [](const ToolCall&) { return "x"; });
  EXPECT_FALSE(run(options.code).result.is_error);
  EXPECT_EQ(options.notes->find("a", second.waits[0].id), nullptr);

  options.earlier.clear();
  options.functions =
      std::make_shared<const CodeFunctions>(std::vector{message::function_tool("theirs", "", {})});
  const CodeOutcome clients = run("theirs {}");
  ASSERT_EQ(clients.waits.size(), 1U);
  EXPECT_EQ(options.notes->find("a", clients.waits[0].id), nullptr);
}

TEST(CodeNotes, TheOldestAreDroppedFirst) {
  const auto calls = [](std::size_t i) {
    return std::vector{ToolCall{.id = std::to_string(i), .name = {}, .arguments = {}}};
  };
  CodeNotes notes;
  const auto answers = std::make_shared<const CodeAnswers>();
  for (std::size_t i = 0; i <= CodeNotes::kMaxEntries; ++i) notes.keep("", calls(i), answers);
  EXPECT_EQ(notes.find("", "0"), nullptr);
  EXPECT_EQ(notes.find("", "1"), answers);

  CodeNotes large;
  const auto third = std::make_shared<const CodeAnswers>(CodeAnswers{
      {"k", ToolResult{.tool_call_id = {}, .output = std::string(CodeNotes::kMaxBytes / 3, 'x')}}});
  for (std::size_t i = 0; i < 3; ++i) large.keep("", calls(i), third);
  EXPECT_EQ(large.find("", "0"), nullptr);
  EXPECT_EQ(large.find("", "1"), third);
  EXPECT_EQ(large.find("", "2"), third);
}

}  // namespace
}  // namespace tenon::chat
