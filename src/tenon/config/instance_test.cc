#include "tenon/config/instance.h"

#include <cctype>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tenon/chat/conversation.h"
#include "tenon/config/models.h"
#include "tenon/engine/scripted.h"
#include "tenon/http/client.h"

namespace tenon::config {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

struct Answered {
  unsigned status = 0;
  std::string body;
};

Answered read(http::LocalAnswer& answer) {
  Answered answered;
  while (auto piece = answer.next()) answered.body += *piece;
  answered.status = answer.status();
  return answered;
}

Answered ask(Instance& instance, std::string_view path, std::string body) {
  const std::string method = body.empty() ? "GET" : "POST";
  return read(*instance.ask(method, path, std::move(body)));
}

Answered ask_by_http(Instance& instance, std::string_view path, std::string body) {
  const auto client = http::Client::create();
  EXPECT_TRUE(client);
  const auto response = (*client)->fetch({.method = body.empty() ? "GET" : "POST",
                                          .url = instance.base_url() + std::string(path),
                                          .headers = {{"content-type", "application/json"}},
                                          .body = std::move(body)});
  EXPECT_TRUE(response) << response.error().message;
  return response ? Answered{response->status, response->body} : Answered{};
}

// The text without what differs between any two answers: ids (24 letters and digits) and times.
std::string common_part(std::string_view text) {
  std::string common;
  std::size_t i = 0;
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  while (i < text.size()) {
    std::size_t end = i;
    while (end < text.size() && is_word(text[end])) ++end;
    const std::string_view word = text.substr(i, end - i);
    const bool is_time =
        word.size() >= 9 && word.find_first_not_of("0123456789") == std::string_view::npos;
    common += word.size() >= 24 ? "ID" : is_time ? "TIME" : std::string(word);
    if (end == i) common += text[end++];
    i = end;
  }
  return common;
}

std::unique_ptr<Instance> opened(Config config) {
  auto instance = Instance::open(std::move(config));
  EXPECT_TRUE(instance) << instance.error().message;
  return instance ? *std::move(instance) : nullptr;
}

std::unique_ptr<Instance> with_bundled_model() {
  Config config{.server = {.port = 0}, .models = {{.name = "tiny"}}};
  config.models[0].path = TENON_SOURCE_DIR "/models/tenon-tiny.gguf";
  auto instance = opened(std::move(config));
  const Status loaded = instance->load_models();
  EXPECT_TRUE(loaded) << loaded.error().message;
  return instance;
}

// An instance whose one model writes a given text, slowly.
std::unique_ptr<Instance> with_script(milliseconds delay, std::string text = "one two three") {
  auto instance = opened({.server = {.port = 0}});
  EXPECT_TRUE(instance->load_models());
  auto engine = std::make_shared<engine::ScriptedEngine>(
      engine::ScriptedEngine::Options{},
      std::vector<engine::Script>{{.text = std::move(text), .delay = delay}});
  auto model = chat::Model::create({.name = "slow"}, std::move(engine));
  EXPECT_TRUE(model) << model.error().message;
  EXPECT_TRUE(instance->service().models().add(*std::move(model)));
  return instance;
}

constexpr std::string_view kTools =
    R"([{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object",
        "properties": {"city": {"type": "string"}}, "required": ["city"]}}}])";

struct Request {
  std::string_view name;
  std::string_view path;
  std::string body;
};

const Request kRequests[] = {
    {"ChatCompletions", "/v1/chat/completions",
     R"("messages": [{"role": "user", "content": "How is the weather in Rome?"}], "max_tokens": 64,
        "tools": )" +
         std::string(kTools)},
    {"Messages", "/v1/messages",
     R"("messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 32)"},
    {"Responses", "/v1/responses", R"("input": "Hello!", "max_output_tokens": 32)"},
};

// Each request has a fresh instance, since answers report cached tokens.
TEST(Instance, AnswersTheSameInThisProcessAndByHttp) {
  for (const Request& request : kRequests) {
    for (const std::string stream : {"false", "true"}) {
      SCOPED_TRACE(std::string(request.name) + ", stream " + stream);
      const std::string body =
          R"({"model": "tiny", "temperature": 0, "stream": )" + stream + ", " + request.body + "}";
      const Answered here = ask(*with_bundled_model(), request.path, body);
      const auto instance = with_bundled_model();
      ASSERT_TRUE(instance->listen());
      const Answered there = ask_by_http(*instance, request.path, body);
      EXPECT_EQ(here.status, 200u) << here.body;
      EXPECT_EQ(there.status, 200u);
      EXPECT_EQ(common_part(here.body), common_part(there.body));
      EXPECT_EQ(here.body.find("data: ") != std::string::npos, stream == "true");
    }
  }
}

TEST(Instance, AnswersOwnRequestsAsTheServiceDoes) {
  const auto instance = with_script(milliseconds(0));
  EXPECT_EQ(ask(*instance, "/health", "").status, 200u);
  EXPECT_EQ(ask(*instance, "/nowhere", "").status, 404u);
  EXPECT_EQ(ask(*instance, "/v1/chat/completions", "{").status, 400u);
  EXPECT_EQ(ask(*instance, "/v1/responses/resp_x", "").status, 404u);
  EXPECT_EQ(ask(*instance, "/v1/responses/resp_x?stream=true", "").status, 400u);  // it is read
  const Answered models = ask(*instance, "/v1/models", "");
  EXPECT_EQ(models.status, 200u);
  EXPECT_NE(models.body.find(R"("id":"slow")"), std::string::npos) << models.body;
}

TEST(Instance, IsNotReadyBeforeItsModelsAreLoaded) {
  const auto instance = opened({});
  EXPECT_EQ(ask(*instance, "/health", "").status, 503u);
  EXPECT_EQ(ask(*instance, "/v1/models", "").status, 503u);
  ASSERT_TRUE(instance->load_models());
  EXPECT_EQ(ask(*instance, "/v1/models", "").status, 200u);
}

/// A folder with a file in it, both removed at the end.
class TemporaryFile {
 public:
  TemporaryFile(std::string_view name, std::string_view text)
      : folder_(std::filesystem::path(testing::TempDir()) /
                ("tenon_instance_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
    std::ofstream(path_ = folder_ / name) << text;
  }
  ~TemporaryFile() { std::filesystem::remove_all(folder_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  const std::filesystem::path folder_;
  std::filesystem::path path_;
};

TEST(Instance, KeysAreForOthers) {
  const TemporaryFile keys("keys", api::ApiKeys::line("me", "a-key-that-is-long-enough", {}));
  Config config{.server = {.port = 0, .api_keys_file = keys.path()}};
  const auto instance = opened(std::move(config));
  ASSERT_TRUE(instance->load_models());
  ASSERT_TRUE(instance->listen());
  EXPECT_EQ(ask(*instance, "/v1/models", "").status, 200u);
  EXPECT_EQ(ask_by_http(*instance, "/v1/models", "").status, 401u);
}

struct Wrong {
  std::string_view name;
  Config config;
  Errc code;
  std::string_view message;  // part of it
};

ModelConfig model_at(std::string path) {
  ModelConfig model{.name = "m"};
  model.path = std::move(path);
  return model;
}

ModelConfig model_with(std::string ModelConfig::* member, std::string value) {
  ModelConfig model = model_at(TENON_SOURCE_DIR "/models/tenon-tiny.gguf");
  model.*member = std::move(value);
  return model;
}

const Wrong kWrong[] = {
    {"NoSuchModelFile", {.models = {model_at("/none.gguf")}}, Errc::unavailable, "/none.gguf"},
    {"NoModelAtAll",
     {.models = {model_at(TENON_SOURCE_DIR "/README.md")}},
     Errc::unavailable,
     "README.md"},
    {"NoSuchTemplate",
     {.models = {model_with(&ModelConfig::chat_template, "/none.jinja")}},
     Errc::invalid,
     "/none.jinja"},
    {"NoSuchFormat",
     {.models = {model_with(&ModelConfig::tool_call_format, "none")}},
     Errc::invalid,
     "model 'm': "},
    {"NoSuchRules",
     {.models = {model_with(&ModelConfig::repair_rules, "/none.toml")}},
     Errc::invalid,
     "/none.toml"},
    {"NoSuchKeys", {.server = {.api_keys_file = "/none"}}, Errc::invalid, "/none"},
    {"NoPlaceForResponses", {.server = {.store = "/none/a.db"}}, Errc::invalid, "server.store"},
    {"NoSuchFormatFile", {.server = {.format_files = {"/none.toml"}}}, Errc::invalid, "/none.toml"},
    {"TwoOfOneName",
     {.models = {model_with(&ModelConfig::load, "first_use"),
                 model_with(&ModelConfig::load, "first_use")}},
     Errc::invalid,
     "'m'"},
    {"ModelsTooLarge",
     {.server = {.max_model_bytes = 1}, .models = {model_with(&ModelConfig::load, "start")}},
     Errc::limit_exceeded,
     "'m'"},
};

TEST(Instance, SaysWhatIsWrongWithAConfiguration) {
  for (const Wrong& row : kWrong) {
    SCOPED_TRACE(row.name);
    auto instance = Instance::open(row.config);
    const Status status =
        instance ? (*instance)->load_models() : Status(Unexpected(instance.error()));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, row.code) << status.error().message;
    EXPECT_NE(status.error().message.find(row.message), std::string::npos)
        << status.error().message;
  }
}

TEST(Instance, ListensWhereItIsTold) {
  const auto instance = with_script(milliseconds(0));
  EXPECT_EQ(instance->base_url(), "");
  EXPECT_EQ(instance->server(), nullptr);
  instance->stop_listening(milliseconds(0));  // it does not listen: nothing happens
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(instance->listen());
    EXPECT_TRUE(instance->base_url().starts_with("http://127.0.0.1:"));
    EXPECT_EQ(ask_by_http(*instance, "/v1/models", "").status, 200u);
    const Status again = instance->listen();
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, Errc::invalid);
    instance->stop_listening(milliseconds(100));
    EXPECT_EQ(instance->base_url(), "");
    EXPECT_EQ(ask(*instance, "/v1/models", "").status, 200u);  // this process can still ask
  }
  const Status open = instance->listen("0.0.0.0", 0);
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().code, Errc::invalid);
  EXPECT_NE(open.error().message.find("API key"), std::string::npos);
  const Status nowhere = instance->listen("192.0.2.1", 0);
  ASSERT_FALSE(nowhere);
}

constexpr std::string_view kSlowRequest =
    R"({"model": "slow", "stream": true, "messages": [{"role": "user", "content": "Go on"}]})";

TEST(Instance, AnAnswerThatIsCancelledEndsSoon) {
  const auto instance = with_script(milliseconds(20), std::string(10'000, 'a'));
  for (const bool reads_first : {true, false}) {
    auto answer = instance->ask("POST", "/v1/chat/completions", std::string(kSlowRequest));
    EXPECT_TRUE(!reads_first || answer->next());
    const auto begun = steady_clock::now();
    answer->cancel();
    EXPECT_FALSE(answer->next());
    EXPECT_TRUE(answer->was_cut());
    EXPECT_LT(steady_clock::now() - begun, milliseconds(100));
    // The engine's run is cancelled, too.
    while (instance->service().models().entries()[0].stats.unfinished > 0) {
      ASSERT_LT(steady_clock::now() - begun, milliseconds(1000));
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
}

TEST(Instance, AnAnswerMayOutliveIt) {
  auto instance = with_script(milliseconds(20), std::string(10'000, 'a'));
  auto answer = instance->ask("POST", "/v1/chat/completions", std::string(kSlowRequest));
  EXPECT_TRUE(answer->next());
  instance.reset();
  static_cast<void>(read(*answer));
}

TEST(Instance, ShuttingDownTellsWhatHasNotEnded) {
  const auto instance = with_script(milliseconds(20), std::string(10'000, 'a'));
  auto answer = instance->ask("POST", "/v1/chat/completions", std::string(kSlowRequest));
  EXPECT_TRUE(answer->next());
  instance->shut_down(milliseconds(0));
  EXPECT_NE(read(*answer).body.find("server_stopping"), std::string::npos);
  EXPECT_EQ(ask(*instance, "/v1/chat/completions", std::string(kSlowRequest)).status, 503u);
}

TEST(Instance, RespondersAreFoundByName) {
  const auto instance = with_script(milliseconds(0), "Hello");
  for (const std::string_view name : {"slow", "", "slow:slow"}) {
    SCOPED_TRACE(name);
    auto responder = instance->responder(name);
    ASSERT_TRUE(responder) << responder.error().message;
    if (name == "slow:slow") continue;  // this would run code
    chat::Conversation talk(*responder, std::vector<message::Tool>{});
    const auto turn = talk.send_message("Hi");
    ASSERT_TRUE(turn) << turn.error().error.message;
    EXPECT_EQ(turn->content, "Hello");
  }
  for (const std::string_view name : {"fast", "slow:fast", ":"}) {
    SCOPED_TRACE(name);
    const auto responder = instance->responder(name);
    ASSERT_FALSE(responder);
    EXPECT_EQ(responder.error().code, Errc::invalid);
  }
}

}  // namespace
}  // namespace tenon::config
