#include "tenon/mcp/client_session.h"

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::mcp {
namespace {

using std::chrono::milliseconds;

TEST(LogLevel, IsOneOfTheProtocols) {
  EXPECT_EQ(log_level("debug"), 0U);
  EXPECT_EQ(log_level("emergency"), 7U);
  EXPECT_FALSE(log_level("verbose"));
}

struct AskRow {
  std::string_view name;
  std::string_view answers;  // what the client sends, "ID" being the question's id
  bool cancels;
  std::string_view result;
};

const AskRow kAsks[] = {
    {"Answered", R"([{"id":"ID","result":{"a":1}}])", false, R"({"a":1})"},
    {"Refused", R"([{"id":"ID","error":{"code":-1,"message":"no"}}])", false,
     "the client refused roots/list: no"},
    {"RefusedWithoutReason", R"([{"id":"ID","error":{}}])", false, "the client refused roots/list"},
    {"OtherAnswersBefore", R"([{"id":"x","result":1},{"id":7,"result":2},{"id":"ID","result":3}])",
     false, "3"},
    {"TheFirstAnswerCounts", R"([{"id":"ID","result":1},{"id":"ID","result":2}])", false, "1"},
    {"Cancelled", "[]", true, "the client did not answer roots/list"},
    {"Silent", "[]", false, "the client did not answer roots/list"},
};

TEST(ClientSession, AsksAndTakesTheAnswer) {
  for (const AskRow& row : kAsks) {
    ClientSession session("s");
    const CancelToken cancel;
    const bool is_silent = row.answers == "[]" && !row.cancels;
    const auto answer = session.ask(
        [&](const json::Value& question) {
          if (row.cancels) cancel.cancel();
          std::string answers(row.answers);
          const std::string id = *question.find("id")->if_string();
          for (std::size_t at = answers.find("ID"); at != std::string::npos;
               at = answers.find("ID", at + id.size())) {
            answers.replace(at, 2, id);
          }
          const auto sent = json::parse(answers);
          for (const json::Value& one : *sent->if_array()) session.take_answer(one);
        },
        "roots/list", {}, cancel, is_silent ? milliseconds(1) : milliseconds(60'000));
    EXPECT_EQ(answer ? json::to_string(*answer) : answer.error().message, row.result) << row.name;
  }
}

TEST(ClientSession, IsAnsweredByAnotherThread) {
  ClientSession session("s");
  std::thread client;
  const auto answer = session.ask(
      [&](const json::Value& question) {
        client = std::thread([&session, id = *question.find("id")] {
          std::this_thread::sleep_for(milliseconds(20));
          session.take_answer(json::Object{{"id", id}, {"result", "late"}});
        });
      },
      "elicitation/create", {}, {}, milliseconds(60'000));
  client.join();
  EXPECT_EQ(answer.value_or(json::Value()), json::Value("late"));
}

TEST(ClientSession, IsToldWhatItWatches) {
  ClientSession session("s");
  std::vector<std::string> told;
  session.tell_updated("a");  // neither watched nor heard
  EXPECT_TRUE(session.watch("a"));
  session.tell_updated("a");  // not heard
  session.set_listener(
      [&](const json::Value& message) { told.push_back(json::to_string(message)); });
  session.tell_updated("a");
  session.tell_updated("b");
  session.unwatch("a");
  session.tell_updated("a");
  EXPECT_EQ(told, std::vector<std::string>{
                      R"({"jsonrpc":"2.0","method":"notifications/resources/updated",)"
                      R"("params":{"uri":"a"}})"});
}

TEST(ClientSession, WatchesABoundedNumber) {
  ClientSession session("s");
  for (std::size_t i = 0; i < ClientSession::kMaxWatched; ++i) {
    ASSERT_TRUE(session.watch(std::to_string(i)));
  }
  EXPECT_FALSE(session.watch("more"));
  EXPECT_TRUE(session.watch("0"));  // it is watched already
}

TEST(ClientSessions, EndTheOneThatWasNotUsedForLongest) {
  ClientSessions sessions;
  const std::string first = sessions.open()->id();
  const std::string second = sessions.open()->id();
  for (std::size_t i = 2; i < ClientSessions::kMost; ++i) (void)sessions.open();
  EXPECT_NE(sessions.find(first), nullptr);  // used: now the second is the oldest
  (void)sessions.open();
  EXPECT_NE(sessions.find(first), nullptr);
  EXPECT_EQ(sessions.find(second), nullptr);
  EXPECT_TRUE(sessions.end(first));
  EXPECT_FALSE(sessions.end(first));
  EXPECT_EQ(sessions.find(first), nullptr);
  EXPECT_EQ(sessions.find(""), nullptr);
}

}  // namespace
}  // namespace tenon::mcp
