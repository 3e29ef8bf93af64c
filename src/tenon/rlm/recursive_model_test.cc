#include "tenon/rlm/recursive_model.h"

#include <condition_variable>
#include <csignal>
#include <deque>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>

#include "tenon/rlm/sandbox_for_test.h"

namespace tenon::rlm {
namespace {

using message::ChatRequest;
using message::FinishReason;
using message::Message;
using message::Role;
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// ASan keeps freed memory for a while, and TSan has shadows of all of it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kTakesMore = true;
#else
constexpr bool kTakesMore = false;
#endif

/// A model with scripted answers, by turn or by prompt. It answers on a thread of its own and
/// records its requests.
class Told final : public chat::Model, public std::enable_shared_from_this<Told> {
 public:
  struct Reply {
    std::string text{};
    std::vector<message::ToolCall> calls{};
    FinishReason reason = FinishReason::stop;
    std::chrono::milliseconds delay{0};
    std::string refusal{};  // the code
  };
  using Answerer = std::function<Reply(const ChatRequest& request, std::size_t number)>;

  Told(std::string name, Answerer answerer) : name_(std::move(name)), answer_(std::move(answerer)) {
    capabilities_.kind = "told";
  }
  Told(std::string name, std::vector<Reply> replies)
      : Told(std::move(name), [replies](const ChatRequest&, std::size_t number) {
          return number < replies.size() ? replies[number] : Reply{"FINAL(no more replies)"};
        }) {}

  const std::string& name() const override { return name_; }
  const std::vector<std::string>& aliases() const override { return aliases_; }
  const engine::Capabilities& capabilities() const override { return capabilities_; }
  engine::EngineStats stats() const override { return {}; }
  engine::Engine* engine() const override { return nullptr; }
  const format::Format* format() const override { return nullptr; }
  Result<chat::Prepared, chat::Refusal> prepare(const ChatRequest&) const override {
    return Failure<chat::Refusal>(chat::no_prompts(*this));
  }
  chat::GrammarCounts grammar_counts() const override { return {}; }
  /// 10 for an answer, because each has 10 prompt tokens and 1 output token.
  chat::Prices prices() const override { return {.input = 0.9e6, .output = 1e6}; }

  Result<std::unique_ptr<chat::Answer>, chat::Refusal> start(
      const ChatRequest& request, std::shared_ptr<message::ChatSink> sink) override {
    Reply reply;
    std::size_t bytes = 0;
    for (const Message& message : request.messages) bytes += message.text().size();
    const std::uint32_t window = capabilities_.context_tokens;
    const auto tokens = window == 0 ? 10U : static_cast<std::uint32_t>(bytes / 4);
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
      reply = answer_(request, requests_.size() - 1);
      if (window > 0 && tokens >= window) reply = {.refusal = "context_length_exceeded"};
      under_way_ += reply.refusal.empty() ? 1 : 0;
      most_under_way_ = std::max(most_under_way_, under_way_);
    }
    if (!reply.refusal.empty()) {
      return Failure<chat::Refusal>(
          {.error = {Errc::invalid, "told: " + reply.refusal}, .param = {}, .code = reply.refusal});
    }
    auto is_cancelled = std::make_shared<std::atomic<bool>>(false);
    std::thread([self = shared_from_this(), reply, sink, is_cancelled, tokens] {
      const auto end = std::chrono::steady_clock::now() + reply.delay;
      while (std::chrono::steady_clock::now() < end && !*is_cancelled) {
        std::this_thread::sleep_for(1ms);
      }
      {
        const std::lock_guard lock(self->mutex_);
        --self->under_way_;
      }
      if (!reply.text.empty()) sink->on_event(message::ContentDelta{reply.text}, {});
      for (std::uint32_t i = 0; i < reply.calls.size(); ++i) {
        sink->on_event(message::CallBegin{i, "x", reply.calls[i].name}, {});
        sink->on_event(message::CallArguments{i, reply.calls[i].arguments}, {});
        sink->on_event(message::CallEnd{i, false}, {});
      }
      const FinishReason reason = *is_cancelled          ? FinishReason::cancelled
                                  : !reply.calls.empty() ? FinishReason::tool_calls
                                                         : reply.reason;
      sink->on_event(message::Finish{.reason = reason,
                                     .usage = {.prompt_tokens = tokens, .completion_tokens = 1},
                                     .error = {Errc::invalid, "told to fail"}},
                     {});
    }).detach();
    class Answer final : public chat::Answer {
     public:
      explicit Answer(std::shared_ptr<std::atomic<bool>> flag) : flag_(std::move(flag)) {}
      ~Answer() override { *flag_ = true; }
      void cancel() override { *flag_ = true; }
      void pause() override {}
      void resume() override {}

     private:
      const std::shared_ptr<std::atomic<bool>> flag_;
    };
    return std::make_unique<Answer>(is_cancelled);
  }

  /// From now on it tells this window, counts four bytes as a token, and refuses what does not fit.
  void set_window(std::uint32_t tokens) { capabilities_.context_tokens = tokens; }

  std::vector<ChatRequest> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  /// The whole prompt of the root's n-th request.
  std::string prompt(std::size_t number) {
    std::string all;
    const ChatRequest request = requests().at(number);
    for (const Message& message : request.messages) all += message.text() + "\n";
    return all;
  }
  unsigned under_way() {
    const std::lock_guard lock(mutex_);
    return under_way_;
  }
  unsigned most_under_way() {
    const std::lock_guard lock(mutex_);
    return most_under_way_;
  }

 private:
  const std::string name_;
  const std::vector<std::string> aliases_;
  engine::Capabilities capabilities_;
  std::mutex mutex_;
  const Answerer answer_;
  std::vector<ChatRequest> requests_;
  unsigned under_way_ = 0;
  unsigned most_under_way_ = 0;
};

/// What a client reads.
class Client final : public message::ChatSink {
 public:
  void on_event(const message::ChatEvent& event,
                const std::vector<message::TokenLogprob>&) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(is_over_);
    fold_.add(event);
    is_over_ = std::holds_alternative<message::Finish>(event);
    changed_.notify_all();
  }
  message::Fold wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 60s, [this] { return is_over_; }));
    return fold_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  message::Fold fold_;
  bool is_over_ = false;
};

std::string cell(std::string_view code) {
  return "```repl\n" + std::string(code) + "\n```";
}

Told::Reply call(std::string_view text = {}, int count = 1) {
  Told::Reply reply{.text = std::string(text)};
  for (int i = 0; i < count; ++i) {
    reply.calls.push_back({"", "search", R"({"q": )" + std::to_string(i) + "}"});
  }
  return reply;
}

Message text_of(Role role, std::string text) {
  return {.role = role, .content = std::move(text)};
}

ChatRequest question(std::string context = "a\nb\nthe code is SESAME-42", std::string text = "q?") {
  ChatRequest request{.model = "rlm"};
  request.messages = {text_of(Role::system, std::move(context)),
                      text_of(Role::user, std::move(text))};
  return request;
}

ChatRequest with_tools(ChatRequest request) {
  request.tools = {{.name = "search", .parameters = *json::parse(R"({"type": "object"})")}};
  return request;
}

ChatRequest with_rlm(ChatRequest request, std::string_view rlm) {
  request.rlm = *json::parse(rlm);
  return request;
}

/// The client's next request: its history, the calls that it was given, and their results.
ChatRequest resumed(ChatRequest request, const message::Fold& answer,
                    const std::vector<std::string>& results) {
  request.messages.push_back(answer.message());
  const auto& calls = answer.message().tool_calls;
  for (std::size_t i = 0; i < results.size(); ++i) {
    request.messages.push_back(
        {.role = Role::tool, .content = results[i], .tool_call_id = calls.at(i).id});
  }
  return request;
}

class Recursive : public testing::Test {
 protected:
  void SetUp() override {
    if (sandbox_of(Tier::bubblewrap) == nullptr && sandbox_of(Tier::landlock) == nullptr) {
      GTEST_SKIP() << "no sandbox works here";
    }
    make_host({});
  }
  void TearDown() override {
    if (host != nullptr) host->close();
  }
  void make_host(HostOptions options) {
    if (host != nullptr) host->close();
    options.warm_workers = 0;
    host = std::make_shared<Host>(std::move(options));
    host->connect(
        [this](std::string_view name) -> Result<std::shared_ptr<chat::Model>, chat::Refusal> {
          if (name == "sub") return std::shared_ptr<chat::Model>(sub);
          return std::shared_ptr<chat::Model>(root);
        },
        [](std::string_view name) { return name == "root" || name == "sub"; });
    model = make_recursive_model(options_, host);
  }
  void script(std::vector<Told::Reply> replies) {
    root = std::make_shared<Told>("root", std::move(replies));
  }
  message::Fold ask(const ChatRequest& request) {
    auto client = std::make_shared<Client>();
    auto answer = model->start(request, client);
    if (!answer) {
      ADD_FAILURE() << answer.error().error.message;
      return {};
    }
    return client->wait();
  }
  chat::Refusal refusal(const ChatRequest& request) {
    auto answer = model->start(request, std::make_shared<Client>());
    if (answer) ADD_FAILURE() << "it is not refused";
    return answer ? chat::Refusal{} : answer.error();
  }

  std::shared_ptr<Told> root;
  std::shared_ptr<Told> sub = std::make_shared<Told>("sub", [](const ChatRequest& request, auto) {
    const std::string prompt = request.messages[0].text();
    if (prompt == "fail") return Told::Reply{.reason = FinishReason::error};
    if (prompt == "refuse") return Told::Reply{.refusal = "context_length_exceeded"};
    return Told::Reply{.text = "<" + prompt + ">",
                       .delay = std::chrono::milliseconds(prompt.size() % 7)};
  });
  RecursiveOptions options_{.name = "rlm", .root = "root", .sub = "sub", .most = default_most()};
  std::shared_ptr<Host> host;
  std::shared_ptr<chat::Model> model;
};

// ---- the loop, as a table

struct RecursiveModelRow {
  std::string name;
  std::vector<Told::Reply> root;
  std::string answer;
  std::vector<std::string> told{};  // parts of the root's prompt at its last turn
  std::string rlm = "{}";
  std::string forced{};     // the limit that the answer names
  bool is_cut = false;      // the answer is incomplete
  std::size_t refused = 0;  // questions that were refused without cost
};

const RecursiveModelRow kRecursiveModelRows[] = {
    {"FinalText", {{"FINAL(42)"}}, "42"},
    {"CodeThenVariable",
     {{cell("import re\nx = re.search(r'SESAME-\\d+', context).group(0)\nprint(x)")},
      {"FINAL_VAR(x)"}},
     "SESAME-42",
     {"REPL output:\nSESAME-42"}},
    {"CodeAndVariableInOneTurn", {{cell("x = 6 * 7") + "\nFINAL_VAR(x)"}}, "42"},
    {"AnswerObject", {{cell("answer['content'] = 'a'\nanswer['ready'] = True")}}, "a"},
    {"FinalInACell", {{cell("FINAL('b')")}}, "b"},
    {"CellsShareVariables",
     {{cell("a = 2") + "\nthen\n" + cell("b = a * 21")}, {"FINAL_VAR(b)"}},
     "42"},
    {"CellsEndAtTheAnswer", {{cell("FINAL('a')") + "\n" + cell("FINAL('b')")}}, "a"},
    {"UnknownVariable",
     {{"FINAL_VAR(nope)"}, {"FINAL(ok)"}},
     "ok",
     {"FINAL_VAR(nope) gave no answer. Error: there is no variable 'nope'"}},
    {"ErrorsAreTold",
     {{cell("a = 1\nraise ValueError('boom')")}, {cell("print(a)")}, {"FINAL_VAR(a)"}},
     "1",
     {"ValueError: boom", "REPL output:\n1"}},
    {"NeitherCodeNorAnswer", {{"Hm."}, {"FINAL(x)"}}, "x", {"neither a ```repl block nor"}},
    {"CutCell",
     {{.text = "```repl\nx = 1", .reason = FinishReason::length}, {"FINAL(x)"}},
     "x",
     {"was cut off"}},
    {"LongOutputIsCut",
     {{cell("print('z' * 50000)")}, {"FINAL(x)"}},
     "x",
     {"z... + [30001 chars...]"}},
    {"Variables", {{cell("a = 1\nb = 'x'")}, {"FINAL(x)"}}, "x", {"Variables: a (int), b (str)"}},
    {"SubCall", {{cell("x = llm_query('hi')")}, {"FINAL_VAR(x)"}}, "<hi>"},
    {"Batch",
     {{cell("x = llm_query_batched([str(i) * i for i in range(40)])\n"
            "ok = x == ['<' + str(i) * i + '>' for i in range(40)]")},
      {"FINAL_VAR(ok)"}},
     "True"},
    {"BatchAfterBatch",
     {{cell("n = 0\nfor _ in range(3):\n    n += len(llm_query_batched(['a'] * 5))")},
      {"FINAL_VAR(n)"}},
     "15"},
    {"FailuresStayInTheirPlace",
     {{cell("x = llm_query_batched(['a', 'fail', 'refuse', 'b'])\n"
            "ok = [t[:7] for t in x]")},
      {"FINAL_VAR(ok)"}},
     "['<a>', 'Error: ', 'Error: ', '<b>']",
     {},
     "{}",
     {},
     false,
     1},
    {"ModelsByName",
     {{cell("x = llm_query('hi', model='sub')\ny = llm_query('hi', model='other')[:30]")},
      {cell("z = x + y")},
      {"FINAL_VAR(z)"}},
     "<hi>Error: there is no model \"othe"},
    {"SubCallsHaveALimit",
     {{cell("x = [t[:5] for t in llm_query_batched(['a'] * 4)]")}, {"FINAL_VAR(x)"}},
     "['<a>', '<a>', 'Error', 'Error']",
     {},
     R"({"max_sub_calls": 2})"},
    {"WithoutDepthAChildIsASubCall", {{cell("x = rlm_query('hi')")}, {"FINAL_VAR(x)"}}, "<hi>"},
    {"EndlessCode",
     {{cell("while True: pass")}, {"FINAL(alive)"}},
     "alive",
     {"stopped at its time limit"},
     R"({"cell_timeout": 0.3})"},
    {"DeadWorker",
     {{cell("kept = 1")},
      {cell("import os; os._exit(9)")},
      {cell("print(len(context), 'kept' in globals())")},
      {"FINAL(alive)"}},
     "alive",
     {"A new Python process has been started", "REPL output:\n25 False"}},
    {"LastTurnIsForced",
     {{cell("1")}, {cell("2")}, {"Best guess: 7"}},
     "Best guess: 7",
     {"Turn 2 of 2", "All 2 turns are used up"},
     R"({"max_iterations": 2})",
     "max_iterations"},
    {"ForcedAnswerByVariable",
     {{cell("x = 5")}, {"FINAL_VAR(x)"}},
     "5",
     {},
     R"({"max_iterations": 1})",
     "max_iterations"},
    {"ForcedAnswerIsNeverEmpty",
     {{cell("x = 5")}, {"..."}},
     "No answer was found: All 1 turns are used up.",
     {},
     R"({"max_iterations": 1})",
     "max_iterations",
     true},
    {"CodeIsNoForcedAnswer",
     {{cell("x = 5")}, {cell("y = 6")}},
     "No answer was found: All 1 turns are used up.",
     {},
     R"({"max_iterations": 1})",
     "max_iterations",
     true},
    {"NorIsAVariableThatIsNotThere",
     {{cell("x = 5")}, {"FINAL_VAR(y)"}},
     "No answer was found: All 1 turns are used up.",
     {},
     R"({"max_iterations": 1})",
     "max_iterations",
     true},
    {"ForcedAnswerThatIsCut",
     {{cell("x = 5")}, {.text = "so I th", .reason = FinishReason::length}},
     "so I th",
     {},
     R"({"max_iterations": 1})",
     "max_iterations",
     true},
    {"AllNamesAreThere",
     {{cell("print(tool_results, history, context)")}, {"FINAL(x)"}},
     "x",
     {"[] [] a\nb"}},
    {"ATurnsOutputHasALimit",
     {{cell("print('z' * 15000)") + "\n" + cell("print('z' * 15000)") + "\n" +
       cell("print('z' * 15000)")},
      {"FINAL(x)"}},
     "x",
     {"chars...]"}},
    {"ErrorsHaveALimit",
     {{cell("1/0")}, {cell("1/0")}, {"FINAL(gave up)"}},
     "gave up",
     {"The code of 2 turns in a row has failed."},
     R"({"max_errors": 2})",
     "max_errors"},
    {"TokensHaveALimit",
     {{cell("1")}, {"FINAL(enough)"}},
     "enough",
     {"No tokens are left for this run."},
     R"({"max_tokens": 11})",
     "max_tokens"},
    {"TokensHaveALimitInATurn",
     {{cell("print([t[:5] for t in llm_query_batched(['a'] * 4)])")}, {"FINAL(enough)"}},
     "enough",
     {"['<a>', '<a>', 'Error', 'Error']", "No tokens are left for this run."},
     R"({"max_tokens": 30, "max_concurrent": 1})",
     "max_tokens"},
    {"CostHasALimit",
     {{cell("print([t[:5] for t in llm_query_batched(['a'] * 4)])")}, {"FINAL(enough)"}},
     "enough",
     {"['<a>', '<a>', 'Error', 'Error']", "No funds are left for this run."},
     R"({"max_cost": 29.5, "max_concurrent": 1})",
     "max_cost"},
};

class RecursiveRows : public Recursive, public testing::WithParamInterface<RecursiveModelRow> {};

TEST_P(RecursiveRows, Answers) {
  const RecursiveModelRow& row = GetParam();
  script(row.root);
  const message::Fold answer = ask(with_rlm(question(), row.rlm));
  EXPECT_EQ(answer.finish().reason, row.is_cut ? FinishReason::length : FinishReason::stop)
      << answer.finish().error.message;
  EXPECT_EQ(answer.message().text(), row.answer);
  const json::Value* forced = answer.finish().rlm.find("forced");
  EXPECT_EQ(forced == nullptr ? json::Value("") : *forced, json::Value(row.forced));
  const auto requests = root->requests();
  ASSERT_EQ(requests.size(), row.root.size());
  for (const std::string& part : row.told) {
    EXPECT_THAT(root->prompt(requests.size() - 1), HasSubstr(part));
  }
  EXPECT_THAT(root->prompt(0), Not(HasSubstr("SESAME")));
  EXPECT_LT(root->prompt(requests.size() - 1).size(), 50'000U);
  const std::size_t asked = requests.size() + sub->requests().size();
  EXPECT_EQ(answer.finish().usage.prompt_tokens, 10 * (asked - row.refused));
}

INSTANTIATE_TEST_SUITE_P(Rows, RecursiveRows, testing::ValuesIn(kRecursiveModelRows),
                         [](const auto& row) { return row.param.name; });

// ---- pause and resume

TEST_F(Recursive, CallsOfToolsComeFirstAndPause) {
  script({{cell("kept = 'from-repl'")},
          call(cell("ran = 1") + "\nFINAL(no)"),
          {cell("print('ran' in globals(), kept, tool_results)")},
          {"FINAL_VAR(kept)"}});
  const ChatRequest first = with_tools(question());
  const message::Fold paused = ask(first);
  EXPECT_EQ(paused.finish().reason, FinishReason::tool_calls);
  EXPECT_FALSE(paused.message().content.has_value());
  ASSERT_EQ(paused.message().tool_calls.size(), 1U);
  EXPECT_EQ(paused.message().tool_calls[0].arguments, R"({"q": 0})");
  EXPECT_THAT(paused.message().tool_calls[0].id, testing::MatchesRegex("call_[0-9A-Za-z]+"));

  const message::Fold answer = ask(resumed(first, paused, {"ROW-1"}));
  EXPECT_EQ(answer.message().text(), "from-repl");
  EXPECT_EQ(answer.finish().usage.prompt_tokens, 20U);  // of this request only
  EXPECT_THAT(root->prompt(2), AllOf(HasSubstr("ROW-1"), HasSubstr("was not taken")));
  EXPECT_THAT(root->prompt(3), HasSubstr("False from-repl ['ROW-1']"));
}

// The mode holds for the response, not for each turn, or the root model could never run code.
TEST_F(Recursive, RequiredCallsTakeTheAnswersPlace) {
  using message::ToolMode;
  struct Case {
    std::string name;
    std::vector<Told::Reply> root;
    std::vector<ToolMode> modes;  // of each turn
    std::string text;             // "": the answer has calls
    std::string rlm = "{}";
  };
  constexpr ToolMode kFree = ToolMode::automatic;
  constexpr ToolMode kForced = ToolMode::required;
  const Case cases[] = {
      {"at once", {call()}, {kFree}, ""},
      {"after code", {{cell("print(1)")}, call()}, {kFree, kFree}, ""},
      {"instead of an answer", {{"FINAL(no)"}, call()}, {kFree, kForced}, ""},
      {"after the last turn",
       {{cell("1")}, call()},
       {kFree, kForced},
       "",
       R"({"max_iterations": 1})"},
      {"not at all", {{"FINAL(all there is)"}, {"no"}}, {kFree, kForced}, "all there is"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    script(one.root);
    ChatRequest request = with_rlm(with_tools(question()), one.rlm);
    request.tool_choice.mode = ToolMode::required;
    const message::Fold answer = ask(request);
    EXPECT_EQ(answer.message().text(), one.text);
    EXPECT_EQ(answer.message().tool_calls.empty(), !one.text.empty());
    std::vector<ToolMode> modes;
    for (const ChatRequest& turn : root->requests()) modes.push_back(turn.tool_choice.mode);
    EXPECT_EQ(modes, one.modes);
  }
}

// ---- contexts that are values, and several questions over one

TEST_F(Recursive, ContextsMayBeValues) {
  struct Case {
    std::string context;
    std::string code;
    std::string answer;
    std::string told;
  };
  const Case cases[] = {
      {R"({"a.txt": "x", "b.txt": "yy"})", "FINAL(sorted(context))", "['a.txt', 'b.txt']",
       R"(a dict of 2 keys: "a.txt" (a str of 1 character))"},
      {R"([{"id": 1}, {"id": 2}])", "FINAL(sum(r['id'] for r in context))", "3",
       "a list of 2 items; the first is a dict of 1 key"},
      {R"(["a", "b"])", "FINAL(context[1])", "b", "a list of 2 strs"},
      {R"("text")", "FINAL(context)", "text", "a str of 4 characters"},
      {R"({})", "FINAL(context)", "{}", "a dict of 0 keys"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.context);
    script({{cell(one.code)}});
    ChatRequest request = with_rlm(question(), R"({"context": )" + one.context + "}");
    request.messages.erase(request.messages.begin());
    EXPECT_EQ(ask(request).message().text(), one.answer);
    EXPECT_THAT(root->prompt(0), HasSubstr(one.told));
  }
  ChatRequest longer =
      with_rlm(question("c", std::string(kMaxQuestionChars + 1, 'q')), R"({"context": {}})");
  EXPECT_EQ(refusal(longer).param, "messages");
}

ChatRequest again(const message::Fold& answer, std::string text, bool keeps = true) {
  ChatRequest request{.model = "rlm"};
  request.messages = {text_of(Role::user, std::move(text))};
  request.rlm = json::Object{{"session", *answer.finish().rlm.find("session")}, {"keep", keeps}};
  return request;
}

TEST_F(Recursive, ASessionThatIsKeptTakesAnotherQuestion) {
  for (const bool restarts : {false, true}) {
    SCOPED_TRACE(restarts);
    const std::string file = testing::TempDir() + "rlm_kept_" + std::to_string(getpid()) + ".db";
    make_host({.store = file});
    script({{cell("n = len(context) + len(llm_query('once'))")},
            {"FINAL_VAR(n)"},
            {cell("n += 1\nprint(context['a'])")},
            {"FINAL_VAR(n)"},
            {cell("FINAL(context['b'])")}});
    const message::Fold one = ask(
        with_rlm(question(), R"({"keep": true, "max_iterations": 2, "context": {"a": "SESAME"}})"));
    EXPECT_EQ(one.message().text(), "7");
    if (restarts) make_host({.store = file});
    const message::Fold two = ask(again(one, "one more?"));
    EXPECT_EQ(two.message().text(), "8") << two.finish().error.message;
    EXPECT_EQ(two.finish().usage.prompt_tokens, 20U);  // of this question only
    EXPECT_EQ(*two.finish().rlm.find("session"), *one.finish().rlm.find("session"));
    EXPECT_EQ(*two.finish().rlm.find("iterations"), json::Value(2));
    EXPECT_THAT(root->prompt(2), AllOf(HasSubstr("one more?"), HasSubstr("Turn 1 of 20: ")));
    EXPECT_THAT(root->prompt(3), HasSubstr("SESAME"));
    EXPECT_EQ(sub->requests().size(), 1U);
    // Another context replaces the first; without `keep` the session is over then.
    ChatRequest last = again(two, "and b?", false);
    last.rlm = json::Object{{"session", *two.finish().rlm.find("session")},
                            {"context", *json::parse(R"({"b": "other"})")}};
    EXPECT_EQ(ask(last).message().text(), "other");
    EXPECT_THAT(root->prompt(4), HasSubstr("The context is another one now"));
    std::remove(file.c_str());
    sub = std::make_shared<Told>("sub", std::vector<Told::Reply>{{"<once>"}, {"<once>"}});
  }
}

TEST_F(Recursive, OnlyASessionThatIsKeptTakesAnotherQuestion) {
  script({{"FINAL(1)"}, {"FINAL(2)"}});
  const message::Fold over = ask(question());
  EXPECT_EQ(refusal(again(over, "more?")).param, "rlm.session");
  const message::Fold kept = ask(with_rlm(question(), R"({"keep": true})"));
  EXPECT_EQ(refusal(again(kept, "")).param, "messages");
  ChatRequest other = again(kept, "more?");
  other.owner = "another";
  EXPECT_EQ(refusal(other).param, "rlm.session");
}

TEST_F(Recursive, AQuestionWithoutTextAsksNoModel) {
  script({{"FINAL(done)"}});
  for (const char* const text : {"", " \n"}) {
    EXPECT_EQ(refusal(question("context", text)).param, "messages");
    EXPECT_EQ(refusal(with_rlm(question("context", text), R"({"context": {"a": 1}})")).param,
              "messages");
  }
  // The context itself may say what to do.
  ChatRequest request = question("do it");
  request.messages.pop_back();
  EXPECT_EQ(ask(request).message().text(), "done");
}

TEST_F(Recursive, NamesARootModelThatFailsOnce) {
  for (const auto& [said, told] :
       {std::pair{"model 'root' could not be loaded", "root model 'root' could not be loaded"},
        std::pair{"no memory is left", "root model 'root': no memory is left"}}) {
    host->connect(
        [said = said](std::string_view) -> Result<std::shared_ptr<chat::Model>, chat::Refusal> {
          return Failure<chat::Refusal>(
              {.error = {Errc::invalid, said}, .param = {}, .code = "engine_error"});
        },
        [](std::string_view) { return true; });
    EXPECT_EQ(ask(question()).finish().error.message, told);
  }
}

TEST_F(Recursive, TellsItsCost) {
  script({{cell("llm_query_batched(['a', 'b'])")}, call(), {"FINAL(x)"}});
  const ChatRequest first = with_tools(question());
  const message::Fold paused = ask(first);
  EXPECT_EQ(*paused.finish().rlm.find("cost"), json::Value(40.0));
  const message::Fold answer = ask(resumed(first, paused, {"r"}));
  EXPECT_EQ(*answer.finish().rlm.find("cost"), json::Value(10.0));
}

TEST_F(Recursive, GoesOnAfterARestartWithoutAskingAgain) {
  const std::string file = testing::TempDir() + "rlm_sessions_" + std::to_string(getpid()) + ".db";
  make_host({.store = file});
  script({{cell("import random\nx = llm_query('once') + str(random.random())\nprint(x)")},
          call({}, 2),
          {cell("print(x, tool_results)")},
          {"FINAL_VAR(x)"}});
  const ChatRequest first = with_tools(question());
  const message::Fold paused = ask(first);
  make_host({.store = file});  // as if the process had ended, from the session's point of view
  const message::Fold answer = ask(resumed(first, paused, {"r1", "r2"}));
  EXPECT_EQ(answer.finish().reason, FinishReason::stop) << answer.finish().error.message;
  EXPECT_THAT(root->prompt(1), HasSubstr(answer.message().text()));
  EXPECT_THAT(root->prompt(3), HasSubstr(answer.message().text() + " ['r1', 'r2']"));
  EXPECT_EQ(sub->requests().size(), 1U);

  // The answer was lost on its way: it is sent once more, without asking a model.
  make_host({.store = file});
  EXPECT_EQ(ask(resumed(first, paused, {"r1", "r2"})).message().text(), answer.message().text());
  EXPECT_EQ(root->requests().size(), 4U);
  std::remove(file.c_str());
}

TEST_F(Recursive, ResultsAreGivenOnceEach) {
  script({call(), call(), {"FINAL(ok)"}});
  ChatRequest request = with_tools(question());
  const message::Fold one = ask(request);
  request = resumed(request, one, {"ROW-A"});
  const message::Fold two = ask(request);
  // The same request again: the waiting calls are sent again.
  const message::Fold again = ask(request);
  EXPECT_EQ(again.message().tool_calls, two.message().tool_calls);
  request = resumed(request, two, {"ROW-B"});
  EXPECT_EQ(ask(request).message().text(), "ok");
  const std::string told = root->prompt(2);
  EXPECT_EQ(told.find("ROW-A"), told.rfind("ROW-A"));
  EXPECT_EQ(told.find("ROW-B"), told.rfind("ROW-B"));
}

// A request counts as the same only if its results are the same.
TEST_F(Recursive, OtherResultsOfTheSameCallsAreAnotherRun) {
  const ChatRequest first = with_tools(question());
  const auto with_text = [](ChatRequest request, std::string text) {
    request.messages.push_back(text_of(Role::user, std::move(text)));
    return request;
  };
  const auto failed = [](ChatRequest request) {
    request.messages.back().extra.set("is_error", true);
    return request;
  };
  for (const bool is_over : {true, false}) {
    SCOPED_TRACE(is_over);
    script({call(),
            is_over ? Told::Reply{"FINAL(one)"} : call(),
            {"FINAL(two)"},
            {"FINAL(three)"},
            {"FINAL(four)"}});
    const message::Fold paused = ask(first);
    const ChatRequest same = resumed(first, paused, {"r"});
    const message::Fold one = ask(same);
    EXPECT_EQ(ask(same).message().text(), one.message().text());
    EXPECT_EQ(ask(same).message().tool_calls, one.message().tool_calls);
    EXPECT_EQ(ask(resumed(first, paused, {"edited"})).message().text(), "two");
    EXPECT_EQ(ask(with_text(same, "and now?")).message().text(), "three");
    EXPECT_EQ(ask(failed(same)).message().text(), "four");
    EXPECT_EQ(ask(same).message().text(), one.message().text());
  }
}

TEST_F(Recursive, WhatIsSaidBesideResultsIsTold) {
  const std::string long_question = std::string(40'000, 'q') + "?";
  struct Case {
    std::string name;
    std::vector<Message> messages;
    bool is_before = false;  // the text comes before the result
    std::string length;      // of `context`
  };
  const Case cases[] = {
      {"behind", question().messages, false, "25"},
      {"before", question().messages, true, "25"},
      {"no system",
       {text_of(Role::user, "old"), text_of(Role::assistant, "yes"), text_of(Role::user, "q?")},
       false,
       "2"},
      {"long question", {text_of(Role::user, long_question)}, false, "40001"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    script({{cell("before = len(context)")},
            call(),
            {cell("print(before, len(context))")},
            {"FINAL(ok)"}});
    ChatRequest request = with_tools(question());
    request.messages = one.messages;
    const message::Fold paused = ask(request);
    ChatRequest goes_on = resumed(request, paused, {"RESULT"});
    const auto place = one.is_before ? goes_on.messages.end() - 1 : goes_on.messages.end();
    goes_on.messages.insert(place, text_of(Role::user, "be brief"));
    EXPECT_EQ(ask(goes_on).message().text(), "ok");
    EXPECT_THAT(root->prompt(2), AllOf(HasSubstr("be brief"), HasSubstr("RESULT"),
                                       Not(HasSubstr("another one now"))));
    EXPECT_LT(root->prompt(2).size(), 12'000U);
    EXPECT_THAT(root->prompt(3), HasSubstr(one.length + " " + one.length));
  }
}

TEST_F(Recursive, ToldFailuresOfToolsStayFailures) {
  script({call(), {"FINAL(ok)"}});
  const ChatRequest first = with_tools(question());
  ChatRequest request = resumed(first, ask(first), {"no such table"});
  request.messages.back().extra.set("is_error", true);
  EXPECT_EQ(ask(request).message().text(), "ok");
  EXPECT_NE(root->requests()[1].messages.back().extra.find("is_error"), nullptr);
}

TEST_F(Recursive, RefusesResultsThatDoNotFit) {
  script({call(), {"FINAL(ok)"}});
  const ChatRequest first = with_tools(question());
  const ChatRequest request = resumed(first, ask(first), {"r"});
  ChatRequest twice = request;
  twice.messages.push_back(twice.messages.back());
  EXPECT_THAT(refusal(twice).error.message, HasSubstr("two results of the call call_"));
  ChatRequest foreign = request;
  foreign.messages.push_back({.role = Role::tool, .content = "x", .tool_call_id = "call_other"});
  EXPECT_THAT(refusal(foreign).error.message,
              HasSubstr("a result of call_other, which is no call"));
  EXPECT_EQ(ask(request).message().text(), "ok");
}

TEST_F(Recursive, ASessionBelongsToItsModel) {
  script({call(), {"FINAL(anew)"}, {"FINAL(ok)"}});
  const ChatRequest first = with_tools(question());
  const ChatRequest request = resumed(first, ask(first), {"r"});
  const auto mine = model;
  options_.name = "other";
  const auto other = make_recursive_model(options_, host);
  model = other;
  EXPECT_EQ(ask(request).message().text(), "anew");
  model = mine;
  EXPECT_EQ(ask(request).message().text(), "ok");
}

TEST_F(Recursive, ABusyHostCostsASessionNothing) {
  make_host({.max_runs = 1});
  root = std::make_shared<Told>("root", [](const ChatRequest& request, std::size_t) {
    const std::string last = request.messages.back().text();
    if (last.find("slow") != std::string::npos)
      return Told::Reply{.text = "FINAL(x)", .delay = 60s};
    if (request.messages.back().role == Role::tool) return Told::Reply{"FINAL_VAR(kept)"};
    return request.messages.size() == 2 ? Told::Reply{cell("kept = 'yes'")} : call();
  });
  // A run keeps its place a moment longer than its client waits.
  const auto wait_for_rest = [&] {
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (host->runs() > 0 && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(1ms);
  };
  const ChatRequest first = with_tools(question());
  const ChatRequest request = resumed(first, ask(first), {"r"});
  wait_for_rest();
  auto client = std::make_shared<Client>();
  auto answer = model->start(question("c", "slow"), client);
  ASSERT_TRUE(answer);
  EXPECT_EQ(refusal(request).code, "engine_busy");
  EXPECT_EQ(refusal(request).code, "engine_busy");  // and not because it is under way
  (*answer)->cancel();
  client->wait();
  wait_for_rest();
  EXPECT_EQ(ask(request).message().text(), "yes");
}

TEST_F(Recursive, WhatCannotBeStoredIsKeptInMemory) {
  make_host({.store_max_bytes = 100});
  script({call(), {"FINAL(ok)"}});
  const ChatRequest first = with_tools(question());
  EXPECT_EQ(ask(resumed(first, ask(first), {"r"})).message().text(), "ok");
  EXPECT_EQ(root->requests().size(), 2U);
}

TEST_F(Recursive, AReplThatDiedWhileItWaitedIsMadeAgain) {
  script({{cell("import threading, os, time\nx = llm_query('once')\n"
                "threading.Thread(target=lambda: (time.sleep(0.3), os._exit(1))).start()")},
          call(),
          {cell("print(x)")},
          {"FINAL_VAR(x)"}});
  const ChatRequest first = with_tools(question());
  const message::Fold paused = ask(first);
  std::this_thread::sleep_for(600ms);
  EXPECT_EQ(ask(resumed(first, paused, {"r"})).message().text(), "<once>");
  EXPECT_EQ(sub->requests().size(), 1U);
}

// If cells cannot be run again with the same result, the session is reported as gone.
TEST_F(Recursive, CellsThatDoSomethingElseAreNoReplay) {
  const std::string file = testing::TempDir() + "rlm_replay_" + std::to_string(getpid()) + ".db";
  struct Case {
    std::string name;
    std::string code;
    std::string context;  // in the request with the results
    std::string rlm = "{}";
  };
  const Case cases[] = {
      {"another error",
       "import time, random\nx = 1\nif time.time() > " + std::to_string(std::time(nullptr) + 5) +
           ": raise KeyError('later')",
       "abc"},
      {"a time limit", "x = 1\nimport time\nwhile True: time.sleep(0.01)", "abc",
       R"({"cell_timeout": 0.3})"},
      {"another context", "x = len(context)", "abcdef"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    make_host({.store = file});
    script({{cell(one.code)},
            call(),
            {cell("print('x' in globals())")},
            call(),
            {cell("print('x' in globals())")},
            {"FINAL(ok)"}});
    const ChatRequest first = with_rlm(with_tools(question("abc")), one.rlm);
    ChatRequest request = resumed(first, ask(first), {"r"});
    request.messages[0].content = one.context;
    if (one.name == "another error") std::this_thread::sleep_for(6500ms);
    if (one.name != "another context") make_host({.store = file});
    const message::Fold second = ask(request);
    ASSERT_EQ(second.message().tool_calls.size(), 1U) << second.message().text();
    if (one.name == "another context") {
      EXPECT_THAT(root->prompt(3), HasSubstr("True"));
      make_host({.store = file});
    } else {
      EXPECT_THAT(root->prompt(3), HasSubstr("variables of earlier blocks are lost"));
    }
    EXPECT_EQ(ask(resumed(request, second, {"r"})).message().text(), "ok");
    EXPECT_THAT(root->prompt(5), HasSubstr("variables of earlier blocks are lost"));
    host->close();
    std::remove(file.c_str());
  }
}

TEST_F(Recursive, AllResultsAreNeeded) {
  script({call({}, 2), {"FINAL(ok)"}});
  const ChatRequest first = with_tools(question());
  const message::Fold paused = ask(first);
  const chat::Refusal refused = refusal(resumed(first, paused, {"r1"}));
  EXPECT_EQ(refused.code, "invalid_value");
  EXPECT_EQ(refused.param, "messages");
  EXPECT_THAT(refused.error.message, HasSubstr(paused.message().tool_calls[1].id));
  EXPECT_EQ(ask(resumed(first, paused, {"r1", "r2"})).message().text(), "ok");
}

TEST_F(Recursive, NobodyElseGoesOnWithASession) {
  script({call(), {"FINAL(another run)"}, {"FINAL(mine)"}});
  ChatRequest first = with_tools(question());
  first.owner = "ann";
  const message::Fold paused = ask(first);
  ChatRequest stolen = resumed(first, paused, {"r"});
  stolen.owner = "bob";
  const message::Fold another = ask(stolen);
  EXPECT_EQ(another.message().text(), "another run");
  ASSERT_EQ(another.diagnostics().size(), 1U);
  EXPECT_EQ(another.diagnostics()[0].code, "new_run");
  EXPECT_EQ(root->requests()[1].messages.size(), 2U);  // it began a new session
  EXPECT_EQ(ask(resumed(first, paused, {"r"})).message().text(), "mine");
}

TEST_F(Recursive, ALaterQuestionIsANewRun) {
  script({call(), {"FINAL(one)"}, {"FINAL(two)"}});
  ChatRequest request = with_tools(question());
  const message::Fold paused = ask(request);
  request = resumed(request, paused, {"r"});
  const message::Fold answer = ask(request);
  request.messages.push_back(answer.message());
  request.messages.push_back(text_of(Role::user, "and now?"));
  EXPECT_EQ(ask(request).message().text(), "two");
  EXPECT_THAT(root->prompt(2), AllOf(HasSubstr("and now?"), Not(HasSubstr("q?"))));
}

TEST_F(Recursive, SessionsAreFoundByTheirIdsToo) {
  script({call(), {"FINAL(ok)"}});
  const ChatRequest first = with_tools(question());
  const message::Fold paused = ask(first);
  const std::string session = *paused.finish().rlm.find("session")->if_string();
  const std::string rlm = R"({"session": ")" + session + "\"}";
  EXPECT_EQ(refusal(with_rlm(first, rlm)).param, "messages");
  EXPECT_EQ(ask(with_rlm(resumed(first, paused, {"r"}), rlm)).message().text(), "ok");
  EXPECT_EQ(refusal(with_rlm(first, R"({"session": "x"})")).param, "rlm.session");
}

TEST_F(Recursive, LongResultsGoToTheRepl) {
  script({call(), {cell("print(len(tool_results[-1]))")}, {"FINAL(ok)"}});
  const ChatRequest first = with_tools(question());
  const message::Fold paused = ask(first);
  EXPECT_EQ(ask(resumed(first, paused, {std::string(5'000'000, 'x')})).message().text(), "ok");
  EXPECT_LT(root->prompt(1).size(), 10'000U);
  EXPECT_THAT(root->prompt(1), HasSubstr("tool_results[0]"));
  EXPECT_THAT(root->prompt(2), HasSubstr("5000000"));
}

TEST_F(Recursive, AnotherContextIsTakenOver) {
  script({{cell("a = len(context)")}, call(), {cell("print(a, len(context))")}, {"FINAL(ok)"}});
  ChatRequest first = with_tools(question("abc"));
  const message::Fold paused = ask(first);
  first.messages[0].content = "abcdef";
  EXPECT_EQ(ask(resumed(first, paused, {"r"})).message().text(), "ok");
  EXPECT_THAT(root->prompt(2), HasSubstr("The context is another one now"));
  EXPECT_THAT(root->prompt(3), HasSubstr("3 6"));
}

// ---- children, limits, ends

TEST_F(Recursive, ChildrenHaveAReplOfTheirOwn) {
  sub = std::make_shared<Told>(
      "sub", std::vector<Told::Reply>{{cell("x = 'CHILD ' + context")}, {"FINAL_VAR(x)"}});
  script({{cell("r = rlm_query('child task'); print(r)")}, {"FINAL_VAR(r)"}});
  EXPECT_EQ(ask(with_rlm(question(), R"({"max_depth": 2})")).message().text(), "CHILD child task");
  EXPECT_THAT(sub->prompt(0), HasSubstr("child task"));
}

TEST_F(Recursive, SubCallsUnderWayHaveALimit) {
  sub = std::make_shared<Told>(
      "sub", [](const ChatRequest&, auto) { return Told::Reply{.text = "x", .delay = 20ms}; });
  script({{cell("x = len(llm_query_batched(['a'] * 12))")}, {"FINAL_VAR(x)"}});
  EXPECT_EQ(ask(with_rlm(question(), R"({"max_concurrent": 3})")).message().text(), "12");
  EXPECT_LE(sub->most_under_way(), 3U);
  EXPECT_GE(sub->most_under_way(), 2U);
}

TEST_F(Recursive, SubCallsOfChildrenHaveTheSameLimit) {
  sub = std::make_shared<Told>("sub", [](const ChatRequest& request, auto) {
    if (request.messages.size() == 1) return Told::Reply{.text = "x", .delay = 20ms};
    if (request.messages.size() == 2) {
      return Told::Reply{cell("n = len(llm_query_batched(['a'] * 8))")};
    }
    return Told::Reply{"FINAL_VAR(n)"};
  });
  script({{cell("x = rlm_query_batched(['t'] * 6)")}, {"FINAL_VAR(x)"}});
  const std::string eights = "['8', '8', '8', '8', '8', '8']";
  EXPECT_EQ(ask(with_rlm(question(), R"({"max_concurrent": 3, "max_depth": 2})")).message().text(),
            eights);
  EXPECT_LE(sub->most_under_way(), 6U);  // three sub-calls, and a turn of each of three children
}

TEST_F(Recursive, ACellThatFloodsIsBounded) {
  script({{cell("import time\nend = time.time() + 2\nn = 0\nwhile time.time() < end:\n"
                "    n += len(llm_query_batched([''] * 20000))\nprint(n > 0)")},
          call(),
          {"FINAL(ok)"}});
  const auto resident = [] {
    std::ifstream in("/proc/self/statm");
    std::size_t pages = 0;
    in >> pages >> pages;
    return pages * 4096;
  };
  const std::size_t before = resident();
  const ChatRequest first = with_rlm(with_tools(question()), R"({"max_sub_calls": 0})");
  const message::Fold paused = ask(first);
  EXPECT_EQ(paused.message().tool_calls.size(), 1U);
  EXPECT_LT(resident(), before + (std::size_t{kTakesMore ? 1200 : 300} << 20U));
  EXPECT_EQ(ask(resumed(first, paused, {"r"})).message().text(), "ok");
}

TEST_F(Recursive, AModelThatBreaksOffIsAskedAgain) {
  script({{.text = "```repl\nx = ", .reason = FinishReason::cancelled}, {"FINAL(whole)"}});
  EXPECT_EQ(ask(question()).message().text(), "whole");
}

TEST_F(Recursive, PartsAreModelsByThemselves) {
  script({{"FINAL(x)"}});
  host->connect(
      [this](std::string_view name) -> Result<std::shared_ptr<chat::Model>, chat::Refusal> {
        if (name == "root") return std::shared_ptr<chat::Model>(root);
        return model;
      },
      [](std::string_view) { return true; });
  root = std::make_shared<Told>(
      "root", std::vector<Told::Reply>{{cell("x = llm_query('q')")}, {"FINAL_VAR(x)"}});
  EXPECT_THAT(ask(question()).message().text(), HasSubstr("is a recursive model itself"));
}

TEST_F(Recursive, BusyEnginesAreAskedAgain) {
  sub = std::make_shared<Told>("sub", [](const ChatRequest&, std::size_t number) {
    return number < 3 ? Told::Reply{.refusal = "engine_busy"} : Told::Reply{"ok"};
  });
  script({{.refusal = "engine_busy"}, {cell("x = llm_query('a')")}, {"FINAL_VAR(x)"}});
  EXPECT_EQ(ask(question()).message().text(), "ok");
}

TEST_F(Recursive, EarlierTurnsAreCutWhereTheRootsContextIsFull) {
  root = std::make_shared<Told>("root", [](const ChatRequest& request, std::size_t number) {
    if (number < 4) return Told::Reply{cell("print('y' * 15000)")};
    std::size_t size = 0;
    for (const Message& message : request.messages) size += message.text().size();
    if (size > 50'000) return Told::Reply{.refusal = "context_length_exceeded"};
    return Told::Reply{"FINAL(fits)"};
  });
  EXPECT_EQ(ask(question()).message().text(), "fits");
}

TEST_F(Recursive, OlderTurnsAreLeftOutWhereCuttingThemIsNotEnough) {
  root = std::make_shared<Told>("root", [](const ChatRequest& request, std::size_t number) {
    // Twelve turns of code that is long itself; a conversation of more than five does not fit.
    if (request.messages.size() > 13) return Told::Reply{.refusal = "context_length_exceeded"};
    if (number < 14) return Told::Reply{cell("n = globals().get('n', 0) + 1\nprint(n)")};
    return Told::Reply{cell("FINAL_VAR('n')")};
  });
  const message::Fold answer = ask(question());
  EXPECT_GT(std::stoi(answer.message().text()), 6) << answer.message().text();
  EXPECT_THAT(root->requests().back().messages[1].text(),
              HasSubstr("Turns after this are left out"));
}

// ---- a window that fills up

bool asks_for_notes(const ChatRequest& request) {
  return request.messages.back().text().starts_with("Your context is nearly full. What you");
}

bool demands(const ChatRequest& request) {
  return request.messages.back().text().starts_with("Your context is full.");
}

std::string whole(const ChatRequest& request) {
  std::string all;
  for (const Message& message : request.messages) all += message.text() + "\n";
  return all;
}

/// What happens when the window of the root fills up. Its code prints until it sees what it has
/// noted, and then it answers.
struct WindowRow {
  std::string name;
  Told::Reply notes;  // what it answers where it is asked to sum up
  std::string answer;
  std::string rlm = "{}";
  std::uint32_t window = 4000;
  std::string failed{};   // why there is no summary, as the event says
  std::size_t asked = 1;  // how often it is asked for a summary, at most
  std::string forced{};
};

const WindowRow kWindowRows[] = {
    {"SumsUp", {"found: SESAME is the first word"}, "from notes"},
    {"SumsUpWhereTheWindowIsNotKnown", {"found: SESAME is the first word"}, "from notes", "{}", 0},
    {"NotesThatFail", {.reason = FinishReason::error}, "without notes", "{}", 4000, "told to fail"},
    {"NotesThatAreCut",
     {.text = "found: SESAME", .reason = FinishReason::length},
     "without notes",
     "{}",
     4000,
     "longer than"},
    {"NotesThatAreCode", {cell("print(1)")}, "without notes", "{}", 4000, "wrote code"},
    {"NotesThatAreEmpty", {" \n"}, "without notes", "{}", 4000, "is empty"},
    {"NotesThatAreLong",
     {std::string(40'000, 'n')},
     "without notes",
     "{}",
     4000,
     "as long as what it sums up"},
    {"NotesThatDoNotFit",
     {.refusal = "context_length_exceeded"},
     "without notes",
     "{}",
     4000,
     "context_length_exceeded"},
    {"NoNotesByOption", {"found: SESAME"}, "without notes", R"({"compact_at": 0})", 4000, {}, 0},
};

class RecursiveWindow : public Recursive, public testing::WithParamInterface<WindowRow> {};

TEST_P(RecursiveWindow, FillsUp) {
  const WindowRow& row = GetParam();
  std::size_t asked = 0;
  root = std::make_shared<Told>("root", [&](const ChatRequest& request, std::size_t number) {
    if (asks_for_notes(request)) {
      ++asked;
      return row.notes;
    }
    const std::string all = whole(request);
    if (row.window == 0 && all.size() > 16'000) {
      return Told::Reply{.refusal = "context_length_exceeded"};
    }
    if (all.find("\nfound: SESAME") != std::string::npos) return Told::Reply{"FINAL(from notes)"};
    if (all.find("are left out, because your context was full") != std::string::npos) {
      return Told::Reply{"FINAL(without notes)"};
    }
    if (number > 60) return Told::Reply{"FINAL(never)"};
    return Told::Reply{cell("kept = 1\nprint('y' * 1800)")};
  });
  root->set_window(row.window);
  options_.limits.max_iterations = 100;
  std::vector<json::Object> events;
  options_.listener = [&](const json::Object& event) {
    if (*event.find("type") == json::Value("compaction")) events.push_back(event);
  };
  make_host({});
  const message::Fold answer = ask(with_rlm(question(), row.rlm));
  EXPECT_EQ(answer.message().text(), row.answer) << answer.finish().error.message;
  EXPECT_EQ(asked, row.asked);
  ASSERT_EQ(events.size(), row.asked);
  const json::Value* const count = answer.finish().rlm.find("compactions");
  if (row.asked == 0) return;
  const json::Value* const why = events.front().find("failed");
  EXPECT_EQ(why == nullptr, row.failed.empty());
  if (why != nullptr) {
    EXPECT_THAT(*why->if_string(), HasSubstr(row.failed));
    EXPECT_EQ(count, nullptr);
    return;
  }
  EXPECT_EQ(*count, json::Value(1));
  // The notes stand for the turns before the last one, which is as it was.
  const ChatRequest last = root->requests().back();
  ASSERT_EQ(last.messages.size(), 6U);
  EXPECT_EQ(last.messages[2].role, Role::assistant);
  EXPECT_EQ(last.messages[2].text(), row.notes.text);
  EXPECT_THAT(last.messages[3].text(), HasSubstr("Variables: kept (int)"));
  EXPECT_THAT(last.messages[5].text(), HasSubstr("REPL output:"));
}

INSTANTIATE_TEST_SUITE_P(Rows, RecursiveWindow, testing::ValuesIn(kWindowRows),
                         [](const auto& row) { return row.param.name; });

// A run of many turns goes through its window many times.
TEST_F(Recursive, TurnsAreSummedUpAgainAndAgain) {
  std::size_t turns = 0;
  root = std::make_shared<Told>("root", [&](const ChatRequest& request, std::size_t) {
    if (asks_for_notes(request)) return Told::Reply{"turn " + std::to_string(turns)};
    if (++turns == 60) return Told::Reply{"FINAL(done)"};
    return Told::Reply{cell("print('y' * 1800)")};
  });
  root->set_window(4000);
  const message::Fold answer = ask(with_rlm(question(), R"({"max_iterations": 100})"));
  EXPECT_EQ(answer.message().text(), "done") << answer.finish().error.message;
  EXPECT_GT(answer.finish().rlm.find("compactions")->if_number()->to_int64(), 4);
  EXPECT_LT(root->requests().size(), 60U + 25U);  // far from one summary for each turn
  for (const ChatRequest& request : root->requests()) EXPECT_LT(whole(request).size(), 16'000U);
}

TEST_F(Recursive, ATurnsOutputFitsTheWindow) {
  script({{cell("print('y' * 30000)")}, {"FINAL(x)"}});
  root->set_window(4000);
  EXPECT_EQ(ask(question()).message().text(), "x");
  EXPECT_THAT(root->prompt(0), HasSubstr("at most 3000 characters"));
  EXPECT_LT(root->prompt(1).size(), root->prompt(0).size() + 4000);
}

// However small the window is, and whatever the model writes, the run has an answer.
TEST_F(Recursive, AnAnswerIsDemandedBeforeTheWindowIsFull) {
  const std::string rambling = "x = 1\n" + std::string(2500, '#');
  for (const std::uint32_t window : {0U, 1000U, 1100U}) {
    SCOPED_TRACE(window);
    root = std::make_shared<Told>("root", [&](const ChatRequest& request, std::size_t number) {
      if (asks_for_notes(request)) return Told::Reply{.refusal = "context_length_exceeded"};
      if (demands(request)) return Told::Reply{"what I know"};
      const bool is_first = request.messages.size() < 3;
      if (window == 0 && !is_first) return Told::Reply{.refusal = "context_length_exceeded"};
      if (number > 60) return Told::Reply{"FINAL(never)"};
      return Told::Reply{cell(rambling)};
    });
    root->set_window(window);
    const message::Fold answer = ask(with_rlm(question(), R"({"max_iterations": 100})"));
    EXPECT_EQ(answer.finish().reason, FinishReason::stop) << answer.finish().error.message;
    EXPECT_EQ(answer.message().text(), "what I know");
    EXPECT_EQ(*answer.finish().rlm.find("forced"), json::Value("context"));
  }
}

TEST_F(Recursive, AWindowThatTakesNoDemandLosesNoRun) {
  root = std::make_shared<Told>("root", [](const ChatRequest& request, std::size_t) {
    const bool is_first = request.messages.size() < 3;
    return is_first ? Told::Reply{cell("x = 1")}
                    : Told::Reply{.refusal = "context_length_exceeded"};
  });
  const message::Fold answer = ask(question());
  EXPECT_EQ(answer.finish().reason, FinishReason::length);
  EXPECT_EQ(answer.message().text(), "No answer was found: Your context is full.");
  // A prompt that never fitted is an error with its numbers.
  script({{.refusal = "context_length_exceeded"}});
  EXPECT_EQ(ask(question()).finish().reason, FinishReason::error);
}

TEST_F(Recursive, TimeIsUpInTheMiddleOfATurn) {
  script({{cell("import time\ntime.sleep(60)")}, {"FINAL(in time)"}});
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(ask(with_rlm(question(), R"({"max_time": 0.5})")).message().text(), "in time");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 20s);
  EXPECT_THAT(root->prompt(1), HasSubstr("The time for this run is over."));
}

TEST_F(Recursive, ChildrenEndWithTheTime) {
  sub = std::make_shared<Told>("sub", [](const ChatRequest&, auto) {
    return Told::Reply{cell("import time\ntime.sleep(60)")};
  });
  script({{cell("rlm_query_batched(['a', 'b', 'c'])")}, {"FINAL(in time)"}});
  const message::Fold answer = ask(with_rlm(question(), R"({"max_time": 0.7, "max_depth": 2})"));
  EXPECT_EQ(answer.message().text(), "in time");
  EXPECT_EQ(*answer.finish().rlm.find("forced"), json::Value("max_time"));
  EXPECT_LE(sub->requests().size(), 3U);  // a child is not asked for a last answer
}

TEST_F(Recursive, IsCancelledAtOnce) {
  struct Where {
    std::string name;
    std::vector<Told::Reply> root;
    std::chrono::milliseconds sub{0};
  };
  const Where places[] = {
      {"in a cell", {{cell("import time\ntime.sleep(60)")}}},
      {"in the root's answer", {{.text = "FINAL(x)", .delay = 60s}}},
      {"in sub-calls", {{cell("llm_query_batched(['a'] * 40)")}}, 60s},
  };
  for (const Where& where : places) {
    sub = std::make_shared<Told>("sub", [delay = where.sub](const ChatRequest&, auto) {
      return Told::Reply{.text = "x", .delay = delay};
    });
    script(where.root);
    auto client = std::make_shared<Client>();
    auto answer = model->start(question(), client);
    ASSERT_TRUE(answer);
    std::this_thread::sleep_for(500ms);
    const auto begun = std::chrono::steady_clock::now();
    (*answer)->cancel();
    EXPECT_EQ(client->wait().finish().reason, FinishReason::cancelled) << where.name;
    // It takes 100 ms on a machine that is otherwise idle.
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 2s) << where.name;
    while (sub->under_way() > 0 && std::chrono::steady_clock::now() - begun < 10s) {
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(sub->under_way(), 0U) << where.name;
  }
}

TEST_F(Recursive, PlacesHaveALimit) {
  make_host({.max_runs = 1});
  script({{.text = "FINAL(x)", .delay = 60s}});
  auto client = std::make_shared<Client>();
  auto answer = model->start(question(), client);
  ASSERT_TRUE(answer);
  EXPECT_EQ(refusal(question()).code, "engine_busy");
  (*answer)->cancel();
  client->wait();
}

// See crash::ThreadStack.
TEST(Host, ThreadsHaveAStackForSignals) {
  Host host({.warm_workers = 0});
  const auto has_stack = [] {
    stack_t now{};
    return ::sigaltstack(nullptr, &now) == 0 && (now.ss_flags & SS_DISABLE) == 0;
  };
  std::promise<bool> run;
  std::promise<bool> errand;
  std::promise<bool> expired;
  ASSERT_TRUE(host.post([&] { run.set_value(has_stack()); }, [] {}));
  ASSERT_TRUE(host.errand([&] { errand.set_value(has_stack()); }));
  const auto alarm =
      host.alarm(std::chrono::steady_clock::now(), [&] { expired.set_value(has_stack()); });
  EXPECT_TRUE(run.get_future().get());
  EXPECT_TRUE(errand.get_future().get());
  EXPECT_TRUE(expired.get_future().get());
}

TEST_F(Recursive, AFailingRootFailsTheRun) {
  script({{.refusal = "template_error"}});
  const message::Fold answer = ask(question());
  EXPECT_EQ(answer.finish().reason, FinishReason::error);
  EXPECT_THAT(answer.finish().error.message, HasSubstr("template_error"));
}

TEST_F(Recursive, TracesAreWritten) {
  const std::string folder = testing::TempDir() + "rlm_traces_" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  options_.trajectory_dir = folder;
  make_host({});
  script({{cell("x = llm_query('hi')\nprint(x)")}, {"FINAL_VAR(x)"}});
  const message::Fold answer = ask(with_rlm(question(), R"({"events": "reasoning"})"));
  EXPECT_THAT(answer.message().reasoning, AllOf(HasSubstr("[turn 1]"), HasSubstr("[stdout] <hi>")));
  std::vector<std::string> types;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(file.path());
    for (std::string line; std::getline(in, line);) {
      types.push_back(*json::parse(line)->find("type")->if_string());
    }
  }
  EXPECT_THAT(types,
              ElementsAre("metadata", "iteration", "sub_call", "cells", "iteration", "final"));
  std::filesystem::remove_all(folder);
}

// ---- what is refused

struct Refused {
  std::string name;
  std::string rlm;
  std::string param;
  std::string code;
};

class RecursiveRefuses : public Recursive, public testing::WithParamInterface<Refused> {};

TEST_P(RecursiveRefuses, WithTheFieldsName) {
  script({});
  const chat::Refusal refused = refusal(with_rlm(question(), GetParam().rlm));
  EXPECT_EQ(refused.param, GetParam().param);
  EXPECT_EQ(refused.code, GetParam().code);
}

const Refused kRefused[] = {
    {"Unknown", R"({"x": 1})", "rlm.x", "unknown_parameter"},
    {"NoObject", "3", "rlm", "invalid_type"},
    {"TooMany", R"({"max_iterations": 101})", "rlm.max_iterations", "invalid_value"},
    {"TooFew", R"({"max_iterations": 0})", "rlm.max_iterations", "invalid_value"},
    {"NoNumber", R"({"max_depth": "2"})", "rlm.max_depth", "invalid_type"},
    {"NoInteger", R"({"max_depth": 1.5})", "rlm.max_depth", "invalid_type"},
    {"TooDeep", R"({"max_depth": 5})", "rlm.max_depth", "invalid_value"},
    {"TooLong", R"({"cell_timeout": 1e6})", "rlm.cell_timeout", "invalid_value"},
    {"NoPart", R"({"compact_at": 1.5})", "rlm.compact_at", "invalid_value"},
    {"LessThanNothing", R"({"compact_at": -1})", "rlm.compact_at", "invalid_value"},
    {"KeepIsAFlag", R"({"keep": 1})", "rlm.keep", "invalid_type"},
    {"NoEvents", R"({"events": "all"})", "rlm.events", "invalid_value"},
};

INSTANTIATE_TEST_SUITE_P(Rows, RecursiveRefuses, testing::ValuesIn(kRefused),
                         [](const auto& row) { return row.param.name; });

TEST_F(Recursive, RefusesWhatBelongsToASingleTurn) {
  script({});
  ChatRequest request = question();
  request.stop = {"x"};
  EXPECT_EQ(refusal(request).param, "stop");
  request = question();
  request.logprobs = true;
  EXPECT_EQ(refusal(request).param, "logprobs");
  request = question();
  request.prompt_token_ids = {1};
  EXPECT_EQ(refusal(request).param, "prompt_token_ids");
  request = question();
  request.previous_token_ids = {1};
  EXPECT_EQ(refusal(request).param, "tenon.previous_token_ids");
  request = question();
  request.response_format.kind = message::ResponseFormat::Kind::json;
  EXPECT_EQ(refusal(request).code, "unsupported_parameter");
}

}  // namespace
}  // namespace tenon::rlm
