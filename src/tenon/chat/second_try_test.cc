#include "tenon/chat/second_try.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/engine/scripted.h"

namespace tenon::chat {
namespace {

using engine::Script;
using engine::ScriptedEngine;
using message::FinishReason;
using message::Role;

constexpr std::string_view kSecondTryTemplate =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for call in m.tool_calls or [] %}<tool_call>\n{\"name\": \"{{ call.function.name }}\", "
    "\"arguments\": {{ call.function.arguments | tojson }}}\n</tool_call>{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    "{% if tools %}{% endif %}";

// What a client reads. seen() waits for the first event of a call, or for the first text.
class Client final : public message::ChatSink {
 public:
  void on_event(const message::ChatEvent& event,
                const std::vector<message::TokenLogprob>&) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(is_over_);
    fold_.add(event);
    calls_begun_ += std::holds_alternative<message::CallBegin>(event) ? 1 : 0;
    is_over_ = std::holds_alternative<message::Finish>(event);
    changed_.notify_all();
  }

  message::Fold wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [this] { return is_over_; }));
    return fold_;
  }
  bool wait_for_text(std::string_view text) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30),
                             [&] { return fold_.message().text() == text; });
  }
  int calls_begun() {
    const std::lock_guard lock(mutex_);
    return calls_begun_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  message::Fold fold_;
  int calls_begun_ = 0;
  bool is_over_ = false;
};

std::string call(std::string_view arguments) {
  return "<tool_call>\n{\"name\": \"f\", \"arguments\": " + std::string(arguments) +
         "}\n</tool_call>";
}

const std::string kRight = call(R"({"n": 3})");
const std::string kWrong = call(R"({"n": "three"})");

message::ChatRequest second_try_request() {
  message::ChatRequest request{.messages = {{.role = Role::user, .content = "hi"}}};
  request.tools = {{.name = "f", .parameters = *json::parse(R"({"type": "object",
                        "properties": {"n": {"type": "integer"}}, "required": ["n"]})")}};
  return request;
}

struct SecondTrySetting {
  explicit SecondTrySetting(std::vector<Script> scripts, std::string format = "hermes",
                            engine::ConstrainedBy constrained_by = engine::ConstrainedBy::none) {
    engine = std::make_shared<ScriptedEngine>(
        ScriptedEngine::Options{.chat_template = std::string(kSecondTryTemplate),
                                .constrained_by = constrained_by},
        std::move(scripts));
    auto created = Model::create({.name = "m", .format = std::move(format)}, engine);
    EXPECT_TRUE(created) << created.error().message;
    model = with_second_try(*std::move(created));
  }

  std::shared_ptr<ScriptedEngine> engine;
  std::shared_ptr<Model> model;
};

struct SecondTryRow {
  const char* name;
  std::vector<Script> scripts;

  std::size_t asked;
  std::string text;
  std::vector<std::string> calls;  // arguments
  message::Guarantee guarantee;
  std::vector<std::string> codes;  // of diagnostics
};

TEST(SecondTry, IsGivenWhereACallDoesNotFit) {
  using enum message::Guarantee;
  const Script fails{.text = "", .end = FinishReason::error};
  const SecondTryRow rows[] = {
      {"Fits", {{.text = kRight}}, 1, "", {R"({"n": 3})"}, validated, {}},
      {"NoCall", {{.text = "Hello"}}, 1, "Hello", {}, unenforced, {}},
      {"Repaired",
       {{.text = call(R"({"n": "3"})")}},
       1,
       "",
       {R"({"n": 3})"},
       repaired,
       {"type_fixed"}},
      {"BetterThen",
       {{.text = "Now: " + kWrong}, {.text = kRight}},
       2,
       "Now: ",
       {R"({"n": 3})"},
       validated,
       {"asked_again"}},
      {"OneOfTwo",
       {{.text = kRight + "\n" + kWrong}, {.text = kRight + "\n" + kRight}},
       2,
       "",
       {R"({"n": 3})", R"({"n": 3})"},
       validated,
       {"asked_again"}},
      {"WrongAgain",
       {{.text = kWrong}, {.text = kWrong}},
       2,
       "",
       {R"({"n": "three"})"},
       unenforced,
       {"asked_again", "invalid_arguments"}},
      {"TextThen",
       {{.text = kWrong}, {.text = "I cannot."}},
       2,
       "I cannot.",
       {},
       unenforced,
       {"asked_again"}},
      {"FailsThen",
       {{.text = kWrong}, fails},
       2,
       "",
       {R"({"n": "three"})"},
       unenforced,
       {"invalid_arguments"}},
  };
  for (const SecondTryRow& row : rows) {
    SCOPED_TRACE(row.name);
    const SecondTrySetting setting(row.scripts);
    const auto client = std::make_shared<Client>();
    const auto answer = setting.model->start(second_try_request(), client);
    ASSERT_TRUE(answer) << answer.error().error.message;
    const message::Fold fold = client->wait();
    EXPECT_EQ(setting.engine->requests().size(), row.asked);
    EXPECT_EQ(fold.message().text(), row.text);
    std::vector<std::string> calls;
    for (const auto& one : fold.message().tool_calls) calls.push_back(one.arguments);
    EXPECT_EQ(calls, row.calls);
    EXPECT_EQ(fold.finish().guarantee, row.guarantee);
    EXPECT_EQ(fold.finish().reason,
              row.calls.empty() ? FinishReason::stop : FinishReason::tool_calls);
    std::vector<std::string> codes;
    for (const auto& diagnostic : fold.diagnostics()) codes.push_back(diagnostic.code);
    EXPECT_EQ(codes, row.codes);
  }
}

TEST(SecondTry, GetsWhatIsLeftOfTheTime) {
  using namespace std::chrono_literals;
  const auto engine = std::make_shared<ScriptedEngine>(
      ScriptedEngine::Options{.chat_template = std::string(kSecondTryTemplate)},
      std::vector<Script>{{.text = kWrong, .delay = 2ms}, {.text = kRight}});
  auto inner = Model::create({.name = "m", .format = "hermes", .time_limit = 60s}, engine);
  ASSERT_TRUE(inner);
  const auto model = with_second_try(*std::move(inner), 60s);
  const auto client = std::make_shared<Client>();
  const auto answer = model->start(second_try_request(), client);
  ASSERT_TRUE(answer) << answer.error().error.message;
  EXPECT_EQ(client->wait().message().tool_calls.size(), 1U);
  const auto asked = engine->requests();
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_GT(asked[0].time_limit, 50s);
  EXPECT_GT(asked[1].time_limit, 1s);
  EXPECT_LE(asked[1].time_limit, asked[0].time_limit - 50ms) << "the first took its time";
}

// An unconstrained answer has diagnostics before its content, even if it then fails.
TEST(SecondTry, ThatFailsWithDiagnosticsLeavesTheFirst) {
  const Script wrong{.text = R"({"name": "f", "parameters": {"n": "three"}})"};
  for (const auto end : {FinishReason::error, FinishReason::cancelled}) {
    const SecondTrySetting setting({wrong, {.text = "", .end = end}}, "llama3_json",
                                   engine::ConstrainedBy::gbnf);
    const auto client = std::make_shared<Client>();
    // Names with so many letters take too many rules for the grammar's text to exclude them.
    message::ChatRequest asked = second_try_request();
    for (char letter = 'a'; letter <= 'z'; ++letter) {
      asked.tools.push_back({.name = std::string(60, letter)});
    }
    const auto answer = setting.model->start(asked, client);
    ASSERT_TRUE(answer) << answer.error().error.message;
    const message::Fold fold = client->wait();
    EXPECT_EQ(setting.engine->requests().size(), 2U);
    EXPECT_EQ(fold.finish().reason, FinishReason::tool_calls);
    ASSERT_EQ(fold.message().tool_calls.size(), 1U);
    std::vector<std::string> codes;
    for (const auto& diagnostic : fold.diagnostics()) codes.push_back(diagnostic.code);
    EXPECT_EQ(codes, (std::vector<std::string>{"not_held", "invalid_arguments"}));
  }
}

TEST(SecondTry, TellsTheModelWhatWasWrongAndCountsBoth) {
  const SecondTrySetting setting({{.text = kRight + "\n" + kWrong}, {.text = kRight}});
  const auto client = std::make_shared<Client>();
  const auto answer = setting.model->start(second_try_request(), client);
  ASSERT_TRUE(answer);
  const message::Fold fold = client->wait();
  const auto asked = setting.engine->requests();
  ASSERT_EQ(asked.size(), 2U);
  const std::string prompt = setting.engine->text_of(asked[1].prompt);
  EXPECT_NE(prompt.find("Not run, since another call was wrong"), std::string::npos) << prompt;
  EXPECT_NE(prompt.find("Error: the call of 'f'"), std::string::npos) << prompt;
  EXPECT_NE(prompt.find("/n is a string, must be an integer"), std::string::npos) << prompt;
  EXPECT_EQ(fold.finish().usage.prompt_tokens, asked[0].prompt.size() + asked[1].prompt.size());
}

// Answers that cannot be begun again, and requests without calls, are passed through.
TEST(SecondTry, TextStreamsAndACutAnswerIsGivenAsItIs) {
  {
    const SecondTrySetting setting(
        {{.text = "Look: " + kWrong, .delay = std::chrono::milliseconds(1)}});
    const auto client = std::make_shared<Client>();
    const auto answer = setting.model->start(second_try_request(), client);
    ASSERT_TRUE(answer);
    EXPECT_TRUE(client->wait_for_text("Look: "));
    EXPECT_EQ(client->calls_begun(), 0);
    (*answer)->cancel();
    EXPECT_EQ(client->wait().finish().reason, FinishReason::cancelled);
    EXPECT_EQ(setting.engine->requests().size(), 1U);
  }
  const SecondTrySetting cut(
      {{.text = kWrong + "\n<tool_call>\n{\"na", .end = FinishReason::length}});
  const auto client = std::make_shared<Client>();
  const auto answer = cut.model->start(second_try_request(), client);
  ASSERT_TRUE(answer);
  EXPECT_EQ(client->wait().finish().reason, FinishReason::length);
  EXPECT_EQ(cut.engine->requests().size(), 1U);
}

// At whatever moment the client goes, its sink gets an end, and no thread waits for ever.
TEST(SecondTry, MayBeCancelledAtAnyMoment) {
  for (int after_us = 0; after_us < 4000; after_us += 100) {
    const SecondTrySetting setting({{.text = kWrong, .delay = std::chrono::microseconds(20)},
                                    {.text = kRight, .delay = std::chrono::microseconds(20)}});
    const auto client = std::make_shared<Client>();
    auto answer = setting.model->start(second_try_request(), client);
    ASSERT_TRUE(answer);
    std::this_thread::sleep_for(std::chrono::microseconds(after_us));
    if (after_us % 200 == 0) (*answer)->pause();
    if (after_us % 300 == 0) (*answer)->cancel();
    (*answer)->resume();
    if (after_us % 500 == 0) answer->reset();
    client->wait();
  }
}

// The client's tokens are those of the turn before: the second request must not go on from them, as
// if nothing had been said since.
TEST(SecondTry, GoesOnFromItsOwnTokens) {
  for (const bool tells_tokens : {false, true}) {
    SecondTrySetting setting({{.text = kWrong}, {.text = kRight}});
    message::ChatRequest request = second_try_request();
    request.messages.push_back({.role = Role::assistant, .content = "x"});
    request.messages.push_back({.role = Role::user, .content = "the question"});
    request.tells_tokens = tells_tokens;
    const std::string before = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nx<|im_end|>";
    ASSERT_TRUE(setting.engine->tokenizer().encode(before, vocab::Controls::on, false,
                                                   request.previous_token_ids));
    auto client = std::make_shared<Client>();
    const auto answer = setting.model->start(request, client);
    ASSERT_TRUE(answer);
    EXPECT_EQ(client->wait().message().tool_calls.size(), 1U);
    const auto asked = setting.engine->requests();
    ASSERT_EQ(asked.size(), 2U);
    const std::string first = setting.engine->text_of(asked[0].prompt);
    const std::string second = setting.engine->text_of(asked[1].prompt);
    EXPECT_NE(first.find("the question"), std::string::npos);
    EXPECT_NE(second.find("the question"), std::string::npos);
    EXPECT_NE(second.find("Nothing was run"), std::string::npos) << second;
    EXPECT_TRUE(!tells_tokens || second.starts_with(first + kWrong + "<|im_end|>")) << second;
  }
}

}  // namespace
}  // namespace tenon::chat
