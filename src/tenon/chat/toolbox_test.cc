#include "tenon/chat/toolbox.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/chat/conversation_for_test.h"

namespace tenon::chat {
namespace {

using message::JsonSchema;
using message::Tool;
using message::ToolCall;
using message::ToolDefinition;
using std::chrono::milliseconds;

Tool tool(std::string_view name) {
  return *ToolDefinition(name).parameter("n", JsonSchema::integer()).build();
}

ToolFunction says(const std::string& text) {
  return [text](const json::Object&, const ToolContext&) { return ToolOutput{text}; };
}

ToolFunction waits() {
  return [](const json::Object&, const ToolContext& context) -> Expected<ToolOutput> {
    while (!context.cancel.is_cancelled()) std::this_thread::sleep_for(milliseconds(1));
    return ToolOutput{"too late"};
  };
}

std::string many(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// Tools of a server, as a test has them.
class Source final : public ToolSource {
 public:
  Source(std::string name, std::vector<std::string> tools)
      : name_(std::move(name)), tools_(std::move(tools)) {}

  const std::string& name() const override { return name_; }
  std::uint64_t version() const override { return version_; }
  Expected<std::vector<Tool>> tools(const ToolContext& context) override {
    ++asked_;
    while (is_deaf_ && !context.is_over()) std::this_thread::sleep_for(milliseconds(1));
    if (fails_) return Unexpected(Error{Errc::unavailable, "gone"});
    std::vector<Tool> tools;
    const std::lock_guard lock(mutex_);
    tools.reserve(tools_.size());
    for (const std::string& name : tools_) {
      tools.push_back({.name = name,
                       .description = description_,
                       .parameters = json::Object{{"type", "object"}}});
    }
    return tools;
  }
  Expected<ToolOutput> call(const std::string& called, const json::Object& arguments,
                            const ToolContext&) override {
    return ToolOutput{name_ + ":" + called + json::to_string(json::Value(arguments))};
  }
  void change(std::vector<std::string> tools) {
    const std::lock_guard lock(mutex_);
    tools_ = std::move(tools);
    ++version_;
  }
  void describe(std::string description) {
    const std::lock_guard lock(mutex_);
    description_ = std::move(description);
    ++version_;
  }
  void fail() {
    fails_ = true;
    ++version_;
  }
  void be_deaf() { is_deaf_ = true; }
  void hear() { is_deaf_ = false; }
  [[nodiscard]] int asked() const { return asked_; }

 private:
  const std::string name_;
  std::mutex mutex_;
  std::vector<std::string> tools_;
  std::string description_;
  std::atomic<bool> is_deaf_ = false;
  std::atomic<int> asked_ = 0;
  std::atomic<std::uint64_t> version_ = 0;
  std::atomic<bool> fails_ = false;
};

std::vector<std::string> names_of(const Toolbox& box) {
  std::vector<std::string> names;
  for (const Tool& one : box.tools().list()) names.push_back(one.name);
  return names;
}

std::vector<ToolResult> run(const Toolbox& box, const std::vector<ToolCall>& calls,
                            const ToolContext& context = {}) {
  return box.run(box.known_tools(), calls, context);
}

std::chrono::steady_clock::time_point after(milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

using Names = std::vector<std::string>;

TEST(Toolbox, tool_calling_EveryCallHasAResult) {
  Toolbox box({.time_limit = milliseconds(100), .max_result_bytes = 149});
  const auto add = [&box](std::string_view name, ToolFunction function) {
    ASSERT_TRUE(box.add(tool(name), std::move(function)));
  };
  add("echo", [](const json::Object& arguments, const ToolContext&) {
    return ToolOutput{json::to_string(json::Value(arguments))};
  });
  add("throws", [](const json::Object&, const ToolContext&) -> Expected<ToolOutput> {
    throw std::runtime_error("oh");
  });
  add("throws_more",
      [](const json::Object&, const ToolContext&) -> Expected<ToolOutput> { throw 1; });
  add("fails", [](const json::Object&, const ToolContext&) -> Expected<ToolOutput> {
    return Unexpected(Error{Errc::unavailable, "no net"});
  });
  add("says_no", [](const json::Object&, const ToolContext&) { return ToolOutput{"no", true}; });
  add("long", says(many("ä", 100)));
  add("odd", says("a\xFFz"));
  add("endless", [](const json::Object&, const ToolContext&) {
    return ToolOutput{.text = "begin", .left_out_bytes = 95};
  });
  add("long_endless", [](const json::Object&, const ToolContext&) {
    return ToolOutput{.text = many("ä", 100), .left_out_bytes = 50};
  });
  add("slow", waits());
  struct Row {
    const char* name;
    std::string arguments;
    std::string output;
    bool is_error = false;
  };
  const Row rows[] = {
      {"echo", R"({"n": 1})", R"({"n":1})"},
      {"echo", "", "{}"},
      {"echo", R"({"n": "1"})",
       "Error: /n is a string, must be an integer. Nothing was run. Make the call again, with "
       "arguments that fit",
       true},
      {"echo", R"({"n": )", "*no JSON object", true},
      {"echo", "[]", "*no JSON object", true},
      {"throws", "{}", "Error: the tool failed: oh", true},
      {"throws_more", "{}", "Error: the tool failed", true},
      {"fails", "{}", "Error: no net", true},
      {"says_no", "{}", "no", true},
      {"long", "{}", many("ä", 74) + "\n[cut: the first 148 of 200 bytes]"},
      {"odd", "{}", "a\xEF\xBF\xBDz"},
      {"endless", "{}", "begin\n[cut: the first 5 of 100 bytes]"},
      {"long_endless", "{}", many("ä", 74) + "\n[cut: the first 148 of 250 bytes]"},
      {"slow", "{}", "Error: the tool took longer than 100 ms", true},
      {"missing", "{}", "Error: there is no such tool", true},
  };
  std::vector<ToolCall> calls;
  for (const Row& row : rows) {
    calls.push_back({"c" + std::to_string(calls.size()), row.name, row.arguments});
  }
  const std::vector<ToolResult> results = run(box, calls);
  ASSERT_EQ(results.size(), std::size(rows));
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].tool_call_id, calls[i].id);
    EXPECT_EQ(results[i].is_error, rows[i].is_error) << rows[i].name << rows[i].arguments;
    if (rows[i].output[0] == '*') {
      EXPECT_NE(results[i].output.find(rows[i].output.substr(1)), std::string::npos)
          << results[i].output;
      continue;
    }
    EXPECT_EQ(results[i].output, rows[i].output) << rows[i].name << rows[i].arguments;
  }
  EXPECT_TRUE(run(box, {}).empty());
}

TEST(Toolbox, tool_calling_ResultsMayBeRemembered) {
  Toolbox box;
  std::atomic<int> runs = 0;
  const auto count = [&runs](const json::Object& arguments,
                             const ToolContext&) -> Expected<ToolOutput> {
    const int number = ++runs;
    if (arguments.find("fail") != nullptr) return Unexpected(Error{Errc::invalid, "no"});
    return ToolOutput{std::to_string(number)};
  };
  EXPECT_TRUE(box.add(*message::ToolDefinition("f").build(), count));
  EXPECT_TRUE(box.add(*message::ToolDefinition("g").build(), count));
  const ToolContext context{.memory = std::make_shared<ToolMemory>()};
  const auto ask = [&](std::string name, std::string arguments, const ToolContext& within) {
    return run(box, {{"1", std::move(name), std::move(arguments)}}, within)[0];
  };
  EXPECT_EQ(ask("f", R"({"a": 1, "b": [{"c": 2, "d": 3}]})", context).output, "1");
  const ToolResult again = ask("f", R"({"b":[{"d":3,"c":2}],"a":1})", context);
  EXPECT_EQ(again.output, "1");
  EXPECT_TRUE(again.is_remembered);
  EXPECT_EQ(ask("f", R"({"a": 2, "b": [{"c": 2, "d": 3}]})", context).output, "2");
  EXPECT_EQ(ask("g", R"({"a": 1, "b": [{"c": 2, "d": 3}]})", context).output, "3");
  EXPECT_FALSE(ask("f", R"({"a": 1, "b": [{"c": 2, "d": 3}]})", {}).is_remembered);
  // Failures may pass.
  EXPECT_TRUE(ask("f", R"({"fail": 1})", context).is_error);
  EXPECT_FALSE(ask("f", R"({"fail": 1})", context).is_remembered);
  EXPECT_EQ(runs, 6);
}

TEST(ToolMemory, TheOldestMakeRoom) {
  ToolMemory memory;
  for (std::size_t i = 0; i <= ToolMemory::kMaxResults; ++i) memory.keep(std::to_string(i), {"x"});
  EXPECT_FALSE(memory.find("0"));
  EXPECT_TRUE(memory.find("1"));
  memory.keep("large", {std::string(ToolMemory::kMaxBytes, 'x')});
  EXPECT_FALSE(memory.find("2"));
  EXPECT_FALSE(memory.find("large"));
}

TEST(Toolbox, tool_calling_CallsRunAtTheSameTimeUpToALimit) {
  Toolbox box({.max_concurrent = 3});
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  ASSERT_TRUE(box.add(tool("f"), [&](const json::Object&, const ToolContext&) {
    const int now = ++running;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(milliseconds(20));
    --running;
    return ToolOutput{"done"};
  }));
  const auto results = run(box, std::vector<ToolCall>(9, {"c", "f", "{}"}));
  EXPECT_EQ(results.size(), 9U);
  EXPECT_EQ(most, 3);
}

TEST(Toolbox, tool_calling_OthersRunBesideAToolThatDoesNotHeedItsEnd) {
  std::atomic<bool> may_end = false;
  Toolbox box({.max_concurrent = 1, .time_limit = milliseconds(30)});
  ASSERT_TRUE(box.add(tool("deaf"), [&](const json::Object&, const ToolContext&) {
    while (!may_end) std::this_thread::sleep_for(milliseconds(1));
    return ToolOutput{"late"};
  }));
  ASSERT_TRUE(box.add(tool("quick"), says("quick")));
  EXPECT_TRUE(run(box, {{"a", "deaf", "{}"}})[0].is_error);
  EXPECT_EQ(run(box, {{"b", "quick", "{}"}})[0].output, "quick");
  may_end = true;
}

TEST(Toolbox, tool_calling_CallsAreCancelled) {
  Toolbox box({.max_concurrent = 1});
  ASSERT_TRUE(box.add(tool("slow"), waits()));
  const CancelToken cancel;
  std::thread canceller([cancel] {
    std::this_thread::sleep_for(milliseconds(20));
    cancel.cancel();
  });
  // One runs, the other waits.
  for (const ToolResult& result :
       run(box, {{"a", "slow", "{}"}, {"b", "slow", "{}"}}, {.cancel = cancel})) {
    EXPECT_EQ(result.output, "Error: the call was cancelled");
  }
  canceller.join();
  EXPECT_EQ(run(box, {{"a", "slow", "{}"}}, {.deadline = after(milliseconds(20))})[0].output,
            "Error: the call was cancelled");
}

TEST(Toolbox, tool_calling_WhatIsCancelledBeforeItsTurnIsNotRun) {
  std::atomic<int> begun = 0;
  Toolbox box({.max_concurrent = 1});
  ASSERT_TRUE(box.add(tool("f"), [&](const json::Object&, const ToolContext& context) {
    // Until it is told: its own limit is a minute off, that of all calls is not.
    EXPECT_LT(context.deadline, after(milliseconds(30'000)));
    ++begun;
    while (!context.is_over()) std::this_thread::sleep_for(milliseconds(1));
    return ToolOutput{"told"};
  }));
  const auto results =
      run(box, std::vector<ToolCall>(20, {"c", "f", "{}"}), {.deadline = after(milliseconds(50))});
  EXPECT_EQ(results[19].output, "Error: the call was cancelled");
  EXPECT_EQ(begun, 1);
}

TEST(Toolbox, tool_calling_NobodyWaitsForEverBehindToolsThatDoNotEnd) {
  std::atomic<bool> may_end = false;
  Toolbox box({.max_concurrent = 1, .time_limit = milliseconds(50)});
  ASSERT_TRUE(box.add(tool("deaf"), [&](const json::Object&, const ToolContext&) {
    while (!may_end) std::this_thread::sleep_for(milliseconds(1));
    return ToolOutput{"late"};
  }));
  std::string said;
  for (const ToolResult& result : run(box, std::vector<ToolCall>(3, {"c", "deaf", "{}"}))) {
    said += result.output + "; ";
  }
  EXPECT_EQ(said,
            "Error: the tool took longer than 50 ms; Error: the tool took longer than 50 ms; "
            "Error: the call was not run: other tools do not end; ");
  may_end = true;
}

TEST(Toolbox, EndsWithCallsUnderWay) {
  std::atomic<int> begun = 0;
  std::atomic<int> told = 0;
  std::atomic<int> done = 0;
  {
    Toolbox box({.max_concurrent = 3});
    ASSERT_TRUE(box.add(tool("slow"), [&](const json::Object&, const ToolContext& context) {
      ++begun;
      while (!context.cancel.is_cancelled()) std::this_thread::sleep_for(milliseconds(1));
      ++told;
      return ToolOutput{"told"};
    }));
    box.start(box.known_tools(), std::vector<ToolCall>(20, {"a", "slow", "{}"}),
              [&](const std::vector<ToolResult>&) { ++done; });
    while (begun < 3) std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(begun, 3) << "those that waited were not begun";
  EXPECT_EQ(told, 3) << "those that ran have ended";
  EXPECT_EQ(done, 0) << "the results are not whole";
}

TEST(Toolbox, RefusesToolsThatAreNone) {
  Toolbox box;
  ASSERT_TRUE(box.add(tool("f"), says("")));
  Tool wrong = tool("g");
  wrong.parameters = json::Object{{"type", "text"}};
  Tool unnamed = tool("h");
  unnamed.name = "a b";
  for (const Tool& one : {tool("f"), wrong, unnamed}) {
    const Status added = box.add(one, says(""));
    ASSERT_FALSE(added) << one.name;
    EXPECT_EQ(added.error().code, Errc::invalid) << one.name;
  }
  EXPECT_EQ(names_of(box), Names{"f"});
}

TEST(Toolbox, tool_calling_NamesThatClashHaveTheirSourceBeforeThem) {
  Toolbox box;
  ASSERT_TRUE(box.add(tool("read"), says("mine")));
  const auto a = std::make_shared<Source>("a", Names{"read", "list", "odd name"});
  const auto b = std::make_shared<Source>("b", Names{"read", "list", "list"});
  box.add(a);
  box.add(b);
  EXPECT_EQ(names_of(box), (Names{"read", "a_read", "list", "odd_name", "b_read", "b_list"}));
  const auto results = run(box, {{"1", "read", "{}"},
                                 {"2", "a_read", R"({"x":1})"},
                                 {"3", "b_list", "{}"},
                                 {"4", "odd_name", "{}"}});
  EXPECT_EQ(results[0].output, "mine");
  EXPECT_EQ(results[1].output, R"(a:read{"x":1})");
  EXPECT_EQ(results[2].output, "b:list{}");
  EXPECT_EQ(results[3].output, "a:odd name{}");

  a->change({"write"});
  EXPECT_EQ(names_of(box), (Names{"read", "write", "b_read", "list", "b_list"}));
  a->change({"write", "more"});
  EXPECT_EQ(box.known_tools().list().size(), 5U) << "it does not wait";
  for (int i = 0; i < 2000 && box.known_tools().list().size() < 6; ++i) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(box.known_tools().list().size(), 6U);
  a->change({"write"});
  EXPECT_EQ(names_of(box).size(), 5U);
  a->fail();
  EXPECT_EQ(names_of(box), (Names{"read", "write", "b_read", "list", "b_list"}))
      << "it keeps what it had";
}

TEST(Toolbox, ASourceNeedNotHaveANameThatAToolMayHave) {
  Toolbox box;
  ASSERT_TRUE(box.add(tool("read"), says("mine")));
  box.add(std::make_shared<Source>("my files", Names{"read"}));
  EXPECT_EQ(names_of(box), (Names{"read", "my_files_read"}));
}

TEST(Toolbox, tool_calling_NobodyWaitsForASourceLongerThanItWants) {
  Toolbox box;
  ASSERT_TRUE(box.add(tool("mine"), says("")));
  const auto deaf = std::make_shared<Source>("deaf", Names{"late"});
  deaf->be_deaf();
  box.add(deaf);
  box.add(std::make_shared<Source>("quick", Names{"q"}));
  const auto names = [&box](const ToolContext& context) {
    Names all;
    for (const Tool& one : box.tools(context).list()) all.push_back(one.name);
    return all;
  };
  (void)names({.deadline = after(milliseconds(50))});  // comes back
  for (int i = 0; i < 20'000 && !box.known_tools().has("q"); ++i) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  const CancelToken cancel;
  cancel.cancel();
  EXPECT_EQ(names({.cancel = cancel}), (Names{"mine", "q"}));
  EXPECT_EQ(run(box, {{"1", "mine", "{}"}})[0].output, "");
  EXPECT_EQ(deaf->asked(), 1) << "it is asked once at a time";
  deaf->hear();
  EXPECT_EQ(names({}), (Names{"mine", "late", "q"}));
}

TEST(Toolbox, tool_calling_ASourceThatFailedIsNotAskedAgainAtOnce) {
  Toolbox box;
  const auto source = std::make_shared<Source>("s", Names{"f"});
  source->fail();
  box.add(source);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(names_of(box), Names{});
  EXPECT_EQ(source->asked(), 1);
}

TEST(ToolSet, tool_calling_WhatWasOfferedIsWhatRuns) {
  Toolbox box;
  const auto source = std::make_shared<Source>("s", Names{"f", "g"});
  box.add(source);
  const ToolSet offered = box.tools();
  source->change({"h"});
  EXPECT_FALSE(box.tools().has("f"));
  EXPECT_EQ(box.run(offered, {{"1", "f", "{}"}})[0].output, "s:f{}");

  const ToolSet beside = offered.beside({tool("f")});
  EXPECT_FALSE(beside.has("f"));
  ASSERT_EQ(beside.list().size(), 1U);
  EXPECT_EQ(beside.list()[0].name, "g");
  EXPECT_EQ(box.run(beside, {{"1", "f", "{}"}})[0].output, "Error: there is no such tool");
}

TEST(ToolSet, tool_calling_AToolIsAnotherWithAnotherOwnerOrDescription) {
  Toolbox box;
  const auto a = std::make_shared<Source>("a", Names{"f"});
  const auto b = std::make_shared<Source>("b", Names{"g"});
  box.add(a);
  box.add(b);
  const std::string first = box.tools().identity("f");
  EXPECT_FALSE(first.empty());
  EXPECT_NE(first, box.tools().identity("g"));
  EXPECT_EQ(box.tools().identity("none"), "");
  a->change({"f", "more"});
  EXPECT_EQ(box.tools().identity("f"), first) << "its server has other tools, too";
  a->describe("Sends all files away");
  EXPECT_NE(box.tools().identity("f"), first);
  a->change({});
  b->change({"f"});
  EXPECT_TRUE(box.tools().has("f"));
  EXPECT_NE(box.tools().identity("f"), first);
}

}  // namespace
}  // namespace tenon::chat
