#include "tenon/engine/upstream/remote.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "tenon/engine/recording_sink.h"
#include "tenon/http/server.h"

namespace tenon::engine {
namespace {

using Reason = message::Denial::Reason;

struct Refused {
  std::string_view name;
  unsigned status;
  std::string_view body;
  Errc code;
  Reason reason;
  std::string_view says;              // in the message
  std::string_view retry_after = "";  // as the server sends it
  std::uint32_t retry_after_s = 0;    // as we read it
};

const Refused kRefused[] = {
    {"Request", 400, R"({"error":{"message":"too hot"}})", Errc::invalid, Reason::none,
     "status 400: too hot"},
    {"NoKey", 401, R"({"error":{"message":"no key"}})", Errc::unavailable, Reason::denied,
     "does not take the key"},
    {"Forbidden", 403, "", Errc::unavailable, Reason::denied, "(status 403)"},
    {"NoModel", 404, R"({"error":{"message":"no model m"}})", Errc::unavailable, Reason::denied,
     "has not the model, or nothing where it was asked: status 404: no model m"},
    {"Busy", 429, R"({"error":{"message":"slowly"}})", Errc::unavailable, Reason::busy,
     "too much to do: status 429: slowly", "7", 7},
    {"BusyForAWhile", 429, "", Errc::unavailable, Reason::busy, "too much to do"},
    {"BusyUntilAPastDate", 429, "", Errc::unavailable, Reason::busy, "too much to do",
     "Fri, 31 Dec 1999 23:59:59 GMT"},
    {"BusyUntilAFarDate", 429, "", Errc::unavailable, Reason::busy, "too much to do",
     "Fri, 31 Dec 9999 23:59:59 GMT", UINT32_MAX},
    {"BusyUntilNoDate", 429, "", Errc::unavailable, Reason::busy, "too much to do", "Friday"},
    {"BusyForMoreThanANumber", 429, "", Errc::unavailable, Reason::busy, "too much to do",
     "99999999999999999999"},
    {"Starting", 503, R"({"error":"loading"})", Errc::unavailable, Reason::none,
     "status 503: loading", "3", 3},
    {"Broken", 500, "<html>", Errc::unavailable, Reason::none, "status 500"},
    {"BusyInAStream", 200, "data: {\"error\":{\"message\":\"slowly\",\"code\":429}}\n\n",
     Errc::unavailable, Reason::busy, "slowly"},
    {"BusyByAWord", 200,
     "data: {\"error\":{\"message\":\"slowly\",\"code\":\"rate_limit_exceeded\"}}\n\n",
     Errc::unavailable, Reason::busy, "slowly"},
    {"NoKeyByAWord", 200, R"({"error":{"message":"no key","code":"invalid_api_key"}})",
     Errc::unavailable, Reason::denied, "does not take the key"},
    {"NoWord", 200, "data: {\"error\":{\"message\":\"oh\"}}\n\n", Errc::unavailable, Reason::none,
     "the server says: oh"},
};

TEST(Remote, TellsWhoseFaultARefusalIs) {
  for (const Refused& row : kRefused) {
    SCOPED_TRACE(row.name);
    const auto server = http::Server::start({.port = 0}, [&row](const auto& exchange) {
      http::Response response{.status = row.status, .body = std::string(row.body)};
      if (!row.retry_after.empty()) {
        response.headers.push_back({"retry-after", std::string(row.retry_after)});
      }
      exchange->respond(std::move(response));
    });
    ASSERT_TRUE(server);
    const auto remote =
        Remote::create({.url = "http://127.0.0.1:" + std::to_string((*server)->port())});
    ASSERT_TRUE(remote);
    const auto sink = std::make_shared<RecordingSink>();
    const auto run = (*remote)->generate("/x", "{}", {.prompt = {1}},
                                         {[](const auto&) { return Delta{}; }}, sink);
    ASSERT_TRUE(run && sink->wait_end());
    const RunEnd end = *sink->end();
    EXPECT_EQ(end.reason, message::FinishReason::error);
    EXPECT_EQ(end.error.code, row.code);
    EXPECT_EQ(end.denial.reason, row.reason);
    EXPECT_EQ(end.denial.retry_after_s, row.retry_after_s);
    EXPECT_NE(end.error.message.find(row.says), std::string::npos) << end.error.message;
    if (row.reason == Reason::denied && row.status != 404) {
      EXPECT_EQ(end.error.message.find("no key"), std::string::npos) << "that is for the log";
    }
  }
}

TEST(Remote, AServerMayComeBackWithALargerContext) {
  EXPECT_TRUE(check_context("u", 100, 100));
  EXPECT_TRUE(check_context("u", 100, 200));
  const Status smaller = check_context("u", 100, 50);
  ASSERT_FALSE(smaller);
  EXPECT_NE(smaller.error().message.find("start it with at least 100"), std::string::npos);
  EXPECT_FALSE(check_context("u", 100, 0));
}

}  // namespace
}  // namespace tenon::engine
