#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon.h>

#include "tenon/base/long_for_test.h"
#include "tenon/capi/handles_for_test.h"
#include "tenon/capi/scripted_caller_for_test.h"
#include "tenon/http/client.h"

namespace tenon::capi {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::string bundled_config() {
  return "[server]\nport = 0\n[[model]]\nname = \"tiny\"\npath = \"" + model_path() + "\"\n";
}

Owned<tenon_service> bundled_service() {
  return made(tenon_service_open, text(bundled_config()), text(""));
}

constexpr std::string_view kHello =
    R"({"model": "tiny", "temperature": 0, "max_tokens": 24,
        "messages": [{"role": "user", "content": "Hello!"}]})";
constexpr std::string_view kHelloStreamed =
    R"({"model": "tiny", "temperature": 0, "max_tokens": 24, "stream": true,
        "messages": [{"role": "user", "content": "Hello!"}]})";

/// Records what on_piece gets, from any thread.
class Pieces {
 public:
  static void on_piece(void* user, int status, tenon_text piece, int is_end) {
    auto& self = *static_cast<Pieces*>(user);
    const std::lock_guard lock(self.mutex_);
    EXPECT_EQ(self.ends_, 0) << "nothing comes after the end";
    self.status_ = status;
    self.body_ += read(piece);
    self.pieces_ += is_end == 0 ? 1 : 0;
    self.ends_ += is_end == 0 ? 0 : 1;
    self.was_cut_ = is_end == 2;
  }
  [[nodiscard]] bool was_cut() const {
    const std::lock_guard lock(mutex_);
    return was_cut_;
  }
  [[nodiscard]] std::string body() const {
    const std::lock_guard lock(mutex_);
    return body_;
  }
  [[nodiscard]] int status() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }
  [[nodiscard]] int ends() const {
    const std::lock_guard lock(mutex_);
    return ends_;
  }
  [[nodiscard]] int pieces() const {
    const std::lock_guard lock(mutex_);
    return pieces_;
  }
  /// False if no end comes for 10 s.
  [[nodiscard]] bool wait_for_end() const {
    return wait([this] { return ends() > 0; });
  }
  [[nodiscard]] bool wait_for_piece() const {
    return wait([this] { return pieces() > 0; });
  }

 private:
  template <class Until>
  static bool wait(Until until) {
    const auto latest = steady_clock::now() + std::chrono::seconds(10);
    while (!until() && steady_clock::now() < latest) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    return until();
  }

  mutable std::mutex mutex_;
  std::string body_;
  int status_ = -1;
  int pieces_ = 0;
  int ends_ = 0;
  bool was_cut_ = false;
};

Owned<tenon_call> called(tenon_service* service, std::string_view body, Pieces& pieces) {
  tenon_call* call = nullptr;
  EXPECT_EQ(told(tenon_service_call(service, text("POST"), text("/v1/chat/completions"), text(body),
                                    Pieces::on_piece, &pieces, &call)),
            "ok");
  return Owned<tenon_call>(call);
}

TEST(CapiService, AnswersWithTheBundledModel) {
  const auto service = bundled_service();
  const std::string answer = answer_to(service.get(), kHello);
  EXPECT_TRUE(answer.starts_with(R"(200 {"id":"chatcmpl-)")) << answer;
  EXPECT_THAT(answer, testing::AnyOf(testing::HasSubstr(R"("finish_reason":"stop")"),
                                     testing::HasSubstr(R"("finish_reason":"length")")));

  Pieces whole;
  const auto call = called(service.get(), kHello, whole);
  ASSERT_TRUE(whole.wait_for_end());
  EXPECT_EQ(whole.status(), 200);
  EXPECT_TRUE(whole.body().starts_with(R"({"id":"chatcmpl-)")) << whole.body();
  EXPECT_FALSE(whole.was_cut());

  Pieces streamed;
  const auto stream = called(service.get(), kHelloStreamed, streamed);
  ASSERT_TRUE(streamed.wait_for_end());
  EXPECT_EQ(streamed.status(), 200);
  EXPECT_TRUE(streamed.body().starts_with("data: ")) << streamed.body();
  EXPECT_TRUE(streamed.body().ends_with("data: [DONE]\n\n")) << streamed.body();
  EXPECT_FALSE(streamed.was_cut());
}

TEST(CapiService, IsOpenedByAFile) {
  const std::string path = testing::TempDir() + "capi_service_test.toml";
  std::ofstream(path) << bundled_config();
  for (const auto& [file, name] :
       {std::pair(model_path(), R"("id":"tenon-tiny")"), std::pair(path, R"("id":"tiny")")}) {
    const auto service = made(tenon_service_load, text(file));
    EXPECT_NE(answer_to(service.get(), "", "/v1/models").find(name), std::string::npos);
  }
  std::filesystem::remove(path);
}

TEST(CapiService, AnErrorOfTheApiIsAnAnswer) {
  const auto service = empty_service();
  EXPECT_TRUE(answer_to(service.get(), kHello).starts_with("404 ")) << "there is no such model";
  EXPECT_TRUE(answer_to(service.get(), "{").starts_with("400 "));
  EXPECT_TRUE(answer_to(service.get(), "", "/nowhere").starts_with("404 "));
}

struct Wrong {
  std::string_view name;
  std::string config;
  std::string_view error;  // its beginning
};

const Wrong kWrong[] = {
    {"NotToml", "[server", "invalid: the configuration:1:"},
    {"UnknownKey", "[server]\nprot = 1", "invalid: the configuration:2:8: unknown key server.prot"},
    {"UnknownEngine", "[[model]]\nname = \"a\"\nengine = \"tgi\"",
     "unsupported: the configuration:1:1: model.engine = \"tgi\" is not supported yet"},
    {"NoSuchModelFile", "[[model]]\nname = \"a\"\npath = \"/none.gguf\"", "unavailable: "},
    {"NoSuchFormatFile", "[server]\nformat_files = [\"none.toml\"]", "invalid: /folder/none.toml"},
    {"NoSuchKeysFile", "[server]\napi_keys_file = \"none\"", "invalid: /folder/none: "},
};

TEST(CapiService, SaysWhatIsWrongWithAConfiguration) {
  for (const Wrong& row : kWrong) {
    SCOPED_TRACE(row.name);
    tenon_service* service = nullptr;
    const std::string error = told(tenon_service_open(text(row.config), text("/folder"), &service));
    EXPECT_EQ(error.substr(0, row.error.size()), row.error);
    EXPECT_EQ(service, nullptr);
  }
  tenon_service* service = nullptr;
  EXPECT_EQ(told(tenon_service_load(text(""), &service)),
            "invalid: path is empty: name a tenon.toml or a GGUF file");
  for (const char* const name : {"/none.toml", "/none.gguf", "/none"}) {
    EXPECT_EQ(told(tenon_service_load(text(name), &service)),
              std::string("unavailable: ") + name + ": No such file or directory");
  }
  EXPECT_TRUE(told(tenon_service_load(text("/bin/sh"), &service))
                  .ends_with("(it is read as a configuration, since it is no .gguf file)"));
}

TEST(CapiService, RefusesWhatIsNoRequest) {
  const auto service = empty_service();
  int status = 0;
  tenon_string* answer = nullptr;
  tenon_call* call = nullptr;
  const auto ask = [&](std::string_view method, std::string_view path) {
    return told(tenon_service_ask(service.get(), text(method), text(path), {}, &status, &answer));
  };
  EXPECT_EQ(ask("PUT", "/v1/models"), "invalid: method must be GET, POST or DELETE, not 'PUT'");
  EXPECT_EQ(ask("GET", "v1/models"),
            "invalid: path must begin with '/', as /v1/chat/completions does");
  EXPECT_EQ(
      told(tenon_service_call(service.get(), text("PUT"), text("/"), {}, nullptr, nullptr, &call)),
      "invalid: method must be GET, POST or DELETE, not 'PUT'");
  EXPECT_EQ(call, nullptr);
}

TEST(CapiService, RefusesNull) {
  const auto service = empty_service();
  int status = 0;
  tenon_string* answer = nullptr;
  tenon_call* call = nullptr;
  EXPECT_EQ(told(tenon_service_open({}, {}, nullptr)), "invalid: service is NULL");
  EXPECT_EQ(told(tenon_service_load({}, nullptr)), "invalid: service is NULL");
  EXPECT_EQ(told(tenon_service_ask(nullptr, {}, {}, {}, &status, &answer)),
            "invalid: service is NULL");
  EXPECT_EQ(told(tenon_service_ask(service.get(), {}, {}, {}, nullptr, &answer)),
            "invalid: status is NULL");
  EXPECT_EQ(told(tenon_service_ask(service.get(), {}, {}, {}, &status, nullptr)),
            "invalid: answer is NULL");
  EXPECT_EQ(told(tenon_service_call(nullptr, {}, {}, {}, Pieces::on_piece, nullptr, &call)),
            "invalid: service is NULL");
  EXPECT_EQ(told(tenon_service_call(service.get(), {}, {}, {}, Pieces::on_piece, nullptr, nullptr)),
            "invalid: call is NULL");
  EXPECT_EQ(told(tenon_service_listen(nullptr, {}, 0, &answer)), "invalid: service is NULL");
  EXPECT_EQ(told(tenon_service_listen(service.get(), {}, 0, nullptr)), "invalid: url is NULL");
  EXPECT_EQ(told(tenon_service_stop_listening(nullptr, 0)), "invalid: service is NULL");
  tenon_service_free(nullptr);
  tenon_service_shut_down(nullptr);
  tenon_call_free(nullptr);
  tenon_call_cancel(nullptr);
}

// The bundled model would end before the test could cancel it.
TEST(CapiService, ACallThatIsCancelledEndsWithin100Ms) {
  ScriptedCaller caller({std::string(3000, 'a')}, milliseconds(5));
  {
    const auto service = empty_service();
    caller.add_to(service.get());
    for (const bool waits : {true, false}) {
      Pieces pieces;
      const auto call = called(
          service.get(),
          R"({"model": "scripted", "stream": true, "messages": [{"role": "user", "content": "a"}]})",
          pieces);
      if (waits) {
        ASSERT_TRUE(pieces.wait_for_piece());
      }
      const int before = pieces.pieces();
      const auto begun = steady_clock::now();
      tenon_call_cancel(call.get());
      ASSERT_TRUE(pieces.wait_for_end());
      EXPECT_LT(steady_clock::now() - begun, milliseconds(100));
      EXPECT_TRUE(pieces.was_cut());
      EXPECT_LE(pieces.pieces(), before + 1);
      tenon_call_cancel(call.get());  // a second time
      std::this_thread::sleep_for(milliseconds(20));
      EXPECT_EQ(pieces.ends(), 1);
    }
  }
}

struct Taken {
  std::string body;
  int status = 0;
  int end = 0;
};

Owned<tenon_call> called_to_take(tenon_service* service, std::string_view body) {
  tenon_call* call = nullptr;
  EXPECT_EQ(told(tenon_service_call(service, text("POST"), text("/v1/chat/completions"), text(body),
                                    nullptr, nullptr, &call)),
            "ok");
  return Owned<tenon_call>(call);
}

/// Until the end, or until something is there.
Taken taken_from(tenon_call* call, bool all = true) {
  Taken taken;
  while (taken.end == 0 && (all || taken.body.empty())) {
    tenon_string* piece = nullptr;
    taken.end = tenon_call_next(call, 10, &taken.status, &piece);
    if (piece != nullptr) taken.body += take(piece);
  }
  return taken;
}

TEST(CapiService, PiecesAreTakenWithoutAThread) {
  const auto service = bundled_service();
  for (const std::string_view body : {kHello, kHelloStreamed}) {
    const std::size_t threads =
        std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                      std::filesystem::directory_iterator());
    const auto call = called_to_take(service.get(), body);
    EXPECT_LE(std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                            std::filesystem::directory_iterator()),
              threads);
    const Taken taken = taken_from(call.get());
    EXPECT_EQ(taken.status, 200);
    EXPECT_EQ(taken.end, 1);
    Pieces pieces;
    const auto other = called(service.get(), body, pieces);
    ASSERT_TRUE(pieces.wait_for_end());
    EXPECT_EQ(taken.body.substr(0, 10), pieces.body().substr(0, 10));
    tenon_string* piece = nullptr;
    int status = 7;
    EXPECT_EQ(tenon_call_next(call.get(), 0, &status, &piece), 1) << "it stays at its end";
    EXPECT_EQ(tenon_call_next(other.get(), 0, &status, &piece), 2) << "on_piece has them";
    EXPECT_EQ(piece, nullptr);
  }
}

TEST(CapiService, WhoTakesPiecesSeesThatTheyAreCut) {
  ScriptedCaller caller({std::string(3000, 'a'), std::string(3000, 'a')}, milliseconds(5));
  auto service = empty_service();
  caller.add_to(service.get());
  constexpr std::string_view kBody =
      R"({"model": "scripted", "stream": true, "messages": [{"role": "user", "content": "a"}]})";
  const auto cancelled = called_to_take(service.get(), kBody);
  EXPECT_EQ(taken_from(cancelled.get(), /*all=*/false).status, 200);
  std::jthread canceller([&] {
    std::this_thread::sleep_for(milliseconds(20));
    tenon_call_cancel(cancelled.get());
  });
  EXPECT_EQ(taken_from(cancelled.get()).end, 2);
  const auto left = called_to_take(service.get(), kBody);
  EXPECT_EQ(taken_from(left.get(), /*all=*/false).end, 0);
  service.reset();
  EXPECT_NE(taken_from(left.get()).body.find("server_stopping"), std::string::npos);
}

TEST(CapiService, FreeingACallCancelsIt) {
  ScriptedCaller caller({std::string(3000, 'a')}, milliseconds(5));
  const auto service = empty_service();
  caller.add_to(service.get());
  Pieces pieces;
  auto call = called(
      service.get(),
      R"({"model": "scripted", "stream": true, "messages": [{"role": "user", "content": "a"}]})",
      pieces);
  ASSERT_TRUE(pieces.wait_for_piece());
  call.reset();
  EXPECT_EQ(pieces.ends(), 1);
}

TEST(CapiService, FreeingTheServiceEndsItsCalls) {
  ScriptedCaller caller({std::string(3000, 'a')}, milliseconds(5));
  auto service = empty_service();
  caller.add_to(service.get());
  Pieces pieces;
  const auto call = called(
      service.get(),
      R"({"model": "scripted", "stream": true, "messages": [{"role": "user", "content": "a"}]})",
      pieces);
  ASSERT_TRUE(pieces.wait_for_piece());
  service.reset();
  ASSERT_TRUE(pieces.wait_for_end());
  EXPECT_EQ(pieces.ends(), 1);
  EXPECT_NE(pieces.body().find("server_stopping"), std::string::npos) << pieces.body();
}

TEST(CapiService, ListensForOthers) {
  const auto service = bundled_service();
  const auto client = http::Client::create();
  ASSERT_TRUE(client);
  std::string last;
  for (const int port : {0, -1}) {
    tenon_string* url = nullptr;
    ASSERT_EQ(told(tenon_service_listen(service.get(), {}, port, &url)), "ok");
    last = take(url);
    EXPECT_TRUE(last.starts_with("http://127.0.0.1:")) << last;
    const auto answer = (*client)->fetch({.url = last + "/v1/models"});
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->status, 200u);
    EXPECT_EQ(told(tenon_service_listen(service.get(), {}, 0, &url)),
              "invalid: it listens already, at " + last);
    EXPECT_EQ(url, nullptr);
    ASSERT_EQ(told(tenon_service_stop_listening(service.get(), 100)), "ok");
  }
  EXPECT_FALSE((*client)->fetch({.url = last + "/v1/models"}));
  tenon_string* url = nullptr;
  EXPECT_TRUE(told(tenon_service_listen(service.get(), text("0.0.0.0"), 0, &url))
                  .starts_with("invalid: to listen on 0.0.0.0, which others can reach"));
  EXPECT_EQ(told(tenon_service_listen(service.get(), {}, 65'536, &url)),
            "invalid: port must be from 0 to 65535, or -1 for the configuration's");
}

// Without a port in the configuration, two services never want the same one.
TEST(CapiService, ListensOnAnyPortWithoutAConfiguration) {
  const auto one = made(tenon_service_open, tenon_text{}, tenon_text{});
  const auto other = made(tenon_service_load, text(model_path()));
  tenon_string* url = nullptr;
  ASSERT_EQ(told(tenon_service_listen(one.get(), {}, -1, &url)), "ok");
  const std::string first = take(url);
  ASSERT_EQ(told(tenon_service_listen(other.get(), {}, -1, &url)), "ok");
  EXPECT_NE(take(url), first);
  EXPECT_TRUE(first.starts_with("http://127.0.0.1:")) << first;
}

std::size_t entries_of(const char* folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(CapiService, LeavesNoThreadsAndNoFilesOpen) {
  const auto use = [] {
    const auto service = bundled_service();
    tenon_string* url = nullptr;
    ASSERT_EQ(told(tenon_service_listen(service.get(), {}, 0, &url)), "ok");
    tenon_string_free(url);
    Pieces pieces;
    const auto call = called(service.get(), kHelloStreamed, pieces);
    ASSERT_TRUE(pieces.wait_for_piece());
  };
  use();  // makes what is made once per process
  std::this_thread::sleep_for(milliseconds(20));
  const std::size_t threads = entries_of("/proc/self/task");
  const std::size_t files = entries_of("/proc/self/fd");
  const int rounds = is_long_test() ? 100 : 20;
  for (int round = 0; round < rounds; ++round) use();
  // The kernel lists a thread for a moment after it was joined.
  const auto latest = steady_clock::now() + std::chrono::seconds(5);
  while (entries_of("/proc/self/task") != threads && steady_clock::now() < latest) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(entries_of("/proc/self/task"), threads);
  EXPECT_EQ(entries_of("/proc/self/fd"), files);
}

TEST(CapiService, AnyNumberOfThreadsMayAsk) {
  const auto service = bundled_service();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&service] {
      for (int round = 0; round < 4; ++round) {
        EXPECT_TRUE(answer_to(service.get(), kHello).starts_with("200 "));
      }
    });
  }
}

}  // namespace
}  // namespace tenon::capi
