#include "tenon/api/router.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::api {
namespace {

Router some_routes() {
  const Task nothing = [](Call&) {};
  return Router({{"POST", "/v1/things", nothing},
                 {"GET", "/v1/things/{id}", nothing},
                 {"DELETE", "/v1/things/{id}", nothing},
                 {"POST", "/v1/things/count", nothing},
                 {"GET", "/v1/things/{id}/parts/{item}", nothing},
                 {"GET", "/v1/models/{name}", nothing}});
}

TEST(Router, FindsTheRouteAndWhatItLeavesOpen) {
  const struct {
    std::string_view method;
    std::string_view path;
    std::string_view route;
    std::string_view tail;
    std::string_view allowed;
  } rows[] = {
      {"POST", "/v1/things", "/v1/things", "", ""},
      {"GET", "/v1/things/a", "/v1/things/{id}", "a", ""},
      {"GET", "/v1/things/a/parts/b", "/v1/things/{id}/parts/{item}", "a/b", ""},
      {"GET", "/v1/models/owner/name", "/v1/models/{name}", "owner/name", ""},
      // A path that is written out hides those with open parts.
      {"POST", "/v1/things/count", "/v1/things/count", "", ""},
      {"GET", "/v1/things/count", "/v1/things/count", "", "POST"},
      {"PUT", "/v1/things/a", "/v1/things/{id}", "", "GET, DELETE"},
      {"GET", "/v1/things/a/parts", "", "", ""},
      {"GET", "/v1/things/", "", "", ""},
      {"GET", "/", "", "", ""},
  };
  const Router router = some_routes();
  for (const auto& row : rows) {
    SCOPED_TRACE(std::string(row.method) + " " + std::string(row.path));
    const Router::Match match = router.find(row.method, row.path);
    EXPECT_EQ(match.path, row.route);
    EXPECT_EQ(match.tail, row.tail);
    EXPECT_EQ(match.route != nullptr, !row.route.empty() && row.allowed.empty());
    EXPECT_EQ(match.route != nullptr ? "" : match.allowed, row.allowed);
  }
}

TEST(Router, KnowsOtherSpellingsOfAPath) {
  const struct {
    std::string given;
    std::string canonical;
  } rows[] = {
      {"/api/v1/models", "/v1/models"},
      {"/v1/v1/messages", "/v1/messages"},
      {"/api/generate", "/v1/chat/completions"},
      {"/v1/models//", "/v1/models"},
      {"///v1///models", "/v1/models"},
      {"/v1/v1//messages", "/v1/messages"},
      {std::string(64 << 10, '/'), "/"},
      {"/", "/"},
      {"/api", "/api"},
  };
  for (const auto& row : rows) EXPECT_EQ(canonical_path(row.given), row.canonical);
  EXPECT_EQ(dialect_of("/v1/messages/count_tokens"), Dialect::anthropic);
  EXPECT_EQ(dialect_of("/v1/messagesx"), Dialect::openai);
}

}  // namespace
}  // namespace tenon::api
