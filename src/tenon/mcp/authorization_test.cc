#include "tenon/mcp/authorization.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "tenon/base/ids.h"
#include "tenon/http/client.h"
#include "tenon/http/server.h"
#include "tenon/json/value.h"
#include "tenon/mcp/encoding.h"
#include "tenon/mcp/token_store.h"

namespace tenon::mcp {
namespace {

using json::Object;
namespace fs = std::filesystem;

auto within_seconds(int seconds) {
  return std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
}

TEST(Challenge, IsReadAsServersWriteIt) {
  struct Row {
    const char* name;
    unsigned status;
    std::string header;
    std::optional<std::vector<std::string>> told;  // error, scope, resource_metadata
  };
  const Row rows[] = {
      {"Plain", 401, "Bearer", {{"", "", ""}}},
      {"WithoutHeader", 401, "", {{"", "", ""}}},
      {"All",
       401,
       R"(Bearer error="invalid_token", scope="a b", resource_metadata="https://h/p?q=1,2")",
       {{"invalid_token", "a b", "https://h/p?q=1,2"}}},
      {"NoSpaces", 401, R"(bearer scope=a,error=x)", {{"x", "a", ""}}},
      {"Quotes", 401, R"(Bearer realm="say \"scope=no\"", scope="b")", {{"", "b", ""}}},
      {"OtherSchemeFirst", 401, R"(Basic scope="no", Bearer scope="yes")", {{"", "yes", ""}}},
      {"OtherSchemeOnly", 401, R"(Basic scope="no")", {{"", "", ""}}},
      {"Broken", 401, R"(Bearer scope="a)", {{"", "a", ""}}},
      {"Nonsense", 401, R"(Bearer ="=",,"")", {{"", "", ""}}},
      {"TooLittle",
       403,
       R"(Bearer error="insufficient_scope", scope="w")",
       {{"insufficient_scope", "w", ""}}},
      {"Forbidden", 403, "Bearer", std::nullopt},
      {"NotFound", 404, "Bearer", std::nullopt},
  };
  for (const Row& row : rows) {
    const auto told = Challenge::of(row.status, {{"WWW-Authenticate", row.header}}, "t");
    ASSERT_EQ(told.has_value(), row.told.has_value()) << row.name;
    if (!told) continue;
    EXPECT_EQ((std::vector{told->error, told->scope, told->resource_metadata}), *row.told)
        << row.name;
    EXPECT_EQ(told->token, "t");
  }
}

/// A server of tools that describes itself and its own authorization server, and a browser that
/// logs in at once.
class Played {
 public:
  Played() {
    auto started = http::Server::start({.port = 0}, [this](const auto& exchange) {
      exchange->respond(answer(exchange->request()));
    });
    server_ = *std::move(started);
    metadata = {{"issuer", base()},
                {"authorization_endpoint", base() + "/authorize"},
                {"token_endpoint", base() + "/token"},
                {"registration_endpoint", base() + "/register"},
                {"code_challenge_methods_supported", json::Array{"S256"}},
                {"token_endpoint_auth_methods_supported", json::Array{"none"}}};
    resource = {{"resource", url()}, {"authorization_servers", json::Array{base()}}};
  }
  ~Played() {
    for (std::thread& one : browsers_) one.join();
    fs::remove_all(folder);
  }
  Played(const Played&) = delete;
  Played& operator=(const Played&) = delete;

  std::string base() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }
  std::string url() const { return base() + "/mcp"; }

  // Logs in, as a browser would: goes to the address and comes back with a code.
  void browse(const std::string& address) {
    logins.push_back(read_form(address.substr(address.find('?') + 1)));
    Fields back{{"code", "the-code"}, {"state", field(logins.back(), "state")}};
    for (const auto& [name, value] : answer_to_login) {
      std::erase_if(back, [&](const auto& one) { return one.first == name; });
      back.emplace_back(name, value);
    }
    const std::string to = field(logins.back(), "redirect_uri") + "?" + form(back);
    browsers_.emplace_back([to] {
      const auto client = http::Client::create({});
      (void)(*client)->fetch({.url = to});
    });
  }

  AuthorizerOptions options(bool has_user = true) {
    AuthorizerOptions made{.name = "crm", .url = url(), .tokens = folder / "tokens.json"};
    if (has_user) made.on_login = [this](const std::string& address) { browse(address); };
    return made;
  }

  json::Object metadata;
  json::Object resource;
  json::Object token{{"access_token", "SECRET-1"}, {"token_type", "Bearer"}};
  unsigned token_status = 200;
  Fields answer_to_login;
  std::vector<Fields> logins;
  std::vector<Fields> token_requests;
  std::vector<std::string> authorizations;  // of the token requests
  int registrations = 0;
  fs::path folder = fs::temp_directory_path() / random_id("tenon-oauth-", 8);

 private:
  http::Response answer(const http::Request& request) {
    const std::lock_guard lock(mutex_);
    const auto say = [](const Object& told, unsigned status = 200) {
      return http::Response{.status = status, .body = json::to_string(told)};
    };
    if (request.path == "/.well-known/oauth-protected-resource/mcp") return say(resource);
    if (request.path == "/.well-known/oauth-authorization-server") return say(metadata);
    if (request.path == "/register") {
      ++registrations;
      return say({{"client_id", "registered"}}, 201);
    }
    if (request.path == "/token") {
      token_requests.push_back(read_form(request.body));
      authorizations.emplace_back(request.header("authorization"));
      return say(token, token_status);
    }
    return say({}, 404);
  }

  std::mutex mutex_;
  std::unique_ptr<http::Server> server_;
  std::vector<std::thread> browsers_;
};

Challenge unauthorized(std::string token = "") {
  return {.status = 401, .token = std::move(token)};
}

TEST(Authorizer, ALoginGivesATokenThatIsKept) {
  Played played;
  played.token.set("refresh_token", "REFRESH-1");
  played.metadata.set("scopes_supported", json::Array{"read", "offline_access"});
  played.resource.set("scopes_supported", json::Array{"read"});
  Authorizer authorizer(played.options());
  EXPECT_EQ(authorizer.token(), "");
  const Status renewed = authorizer.renew(unauthorized(), within_seconds(20), {});
  ASSERT_TRUE(renewed) << renewed.error().message;
  EXPECT_EQ(authorizer.token(), "SECRET-1");
  ASSERT_EQ(played.logins.size(), 1U);
  const Fields& login = played.logins[0];
  EXPECT_EQ(field(login, "response_type"), "code");
  EXPECT_EQ(field(login, "client_id"), "registered");
  EXPECT_EQ(field(login, "code_challenge_method"), "S256");
  EXPECT_EQ(field(login, "resource"), played.url());
  EXPECT_EQ(field(login, "scope"), "read offline_access");
  ASSERT_EQ(played.token_requests.size(), 1U);
  const Fields& asked = played.token_requests[0];
  EXPECT_EQ(field(asked, "grant_type"), "authorization_code");
  EXPECT_EQ(field(asked, "code"), "the-code");
  EXPECT_EQ(field(asked, "redirect_uri"), field(login, "redirect_uri"));
  EXPECT_EQ(field(asked, "resource"), played.url());
  EXPECT_GE(field(asked, "code_verifier").size(), 43U);
  // Another process has the token from the file.
  EXPECT_EQ(Authorizer(played.options(false)).token(), "SECRET-1");
}

TEST(Authorizer, ARefreshNeedsNoUser) {
  Played played;
  played.token.set("refresh_token", "REFRESH-1");
  {
    Authorizer first(played.options());
    ASSERT_TRUE(first.renew(unauthorized(), within_seconds(20), {}));
  }
  played.token = {{"access_token", "SECRET-2"}, {"token_type", "bearer"}};
  Authorizer second(played.options(false));
  const Status renewed = second.renew(unauthorized("SECRET-1"), within_seconds(20), {});
  ASSERT_TRUE(renewed) << renewed.error().message;
  EXPECT_EQ(second.token(), "SECRET-2");
  EXPECT_EQ(field(played.token_requests.back(), "grant_type"), "refresh_token");
  EXPECT_EQ(field(played.token_requests.back(), "refresh_token"), "REFRESH-1");
  // It stays valid for the next time, since the server gave no other one.
  const auto kept = TokenStore(played.folder / "tokens.json").find(played.url());
  EXPECT_EQ((**kept).refresh_token, "REFRESH-1");
  // A thread whose token is older than the present one gets that.
  const std::size_t asked = played.token_requests.size();
  EXPECT_TRUE(second.renew(unauthorized("SECRET-1"), within_seconds(20), {}));
  EXPECT_EQ(played.token_requests.size(), asked);
}

TEST(Authorizer, AMachineShowsItsSecret) {
  Played played;
  played.metadata.set("token_endpoint_auth_methods_supported", json::Array{"client_secret_basic"});
  AuthorizerOptions options = played.options(false);
  options.oauth = {.client_id = "me", .client_secret = "s:1", .is_machine = true};
  Authorizer authorizer(options);
  const Status renewed = authorizer.renew(unauthorized(), within_seconds(20), {});
  ASSERT_TRUE(renewed) << renewed.error().message;
  EXPECT_EQ(field(played.token_requests[0], "grant_type"), "client_credentials");
  EXPECT_EQ(played.authorizations[0], "Basic " + base64("me:s%3A1"));
  EXPECT_EQ(played.registrations, 0);
}

TEST(Authorizer, ServersThatCannotBeTrustedAreRefused) {
  struct Row {
    const char* name;
    std::function<void(Played&)> change;
    std::string_view why;
    bool has_login = false;  // the user was asked before
  };
  const Row rows[] = {
      {"OtherResource", [](Played& p) { p.resource.set("resource", "https://evil.example/mcp"); },
       "another server"},
      {"ResourceBeside", [](Played& p) { p.resource.set("resource", p.url() + "x"); },
       "another server"},
      {"OtherIssuer", [](Played& p) { p.metadata.set("issuer", "https://evil.example"); },
       "says that it is"},
      {"NoPkce", [](Played& p) { p.metadata.erase("code_challenge_methods_supported"); }, "PKCE"},
      {"PlainTextEndpoint",
       [](Played& p) { p.metadata.set("token_endpoint", "http://far.example/token"); },
       "no https address"},
      {"ScriptAsLogin",
       [](Played& p) { p.metadata.set("authorization_endpoint", "javascript:alert(1)"); },
       "no https address"},
      {"NoRegistration", [](Played& p) { p.metadata.erase("registration_endpoint"); }, "clientId"},
      {"WrongIssuerInAnswer", [](Played& p) { p.answer_to_login = {{"iss", "https://evil"}}; },
       "comes from", true},
      {"NoIssuerInAnswer",
       [](Played& p) { p.metadata.set("authorization_response_iss_parameter_supported", true); },
       "does not say who it is", true},
      {"IssuerAlmost", [](Played& p) { p.answer_to_login = {{"iss", p.base() + "/"}}; },
       "comes from", true},
      {"Denied", [](Played& p) { p.answer_to_login = {{"error", "access_denied"}}; },
       "access_denied", true},
      {"WrongState", [](Played& p) { p.answer_to_login = {{"state", "guessed"}}; },
       "no login in time", true},
      {"NoToken", [](Played& p) { p.token_status = 400; }, "gives no token", true},
      {"TokenOfAnotherKind", [](Played& p) { p.token.set("token_type", "DPoP"); }, "carry", true},
      {"TokenWithALineEnd", [](Played& p) { p.token.set("access_token", "SECRET\r\nX: 1"); },
       "carry", true},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    Played played;
    row.change(played);
    Authorizer authorizer(played.options());
    const bool waits = std::string_view(row.name) == "WrongState";
    const auto deadline = waits ? std::chrono::steady_clock::now() + std::chrono::milliseconds(300)
                                : within_seconds(20);
    const Status renewed = authorizer.renew(unauthorized(), deadline, {});
    ASSERT_FALSE(renewed);
    EXPECT_NE(renewed.error().message.find(row.why), std::string::npos) << renewed.error().message;
    EXPECT_EQ(renewed.error().message.find("SECRET"), std::string::npos);
    EXPECT_EQ(!played.logins.empty(), row.has_login);
    EXPECT_EQ(authorizer.token(), "");
  }
}

TEST(Authorizer, WithoutAUserItSaysHowToLogIn) {
  Played played;
  Authorizer authorizer(played.options(false));
  const Status renewed = authorizer.renew(unauthorized(), within_seconds(20), {});
  ASSERT_FALSE(renewed);
  EXPECT_NE(renewed.error().message.find("tenon mcp login crm"), std::string::npos);
  ASSERT_TRUE(Authorizer(played.options()).renew(unauthorized(), within_seconds(20), {}));
  Authorizer later(played.options(false));
  const Status more = later.renew(
      {.status = 403, .error = "insufficient_scope", .scope = "write", .token = "SECRET-1"},
      within_seconds(20), {});
  ASSERT_FALSE(more);
  EXPECT_NE(more.error().message.find("--scope 'write'"), std::string::npos);
  EXPECT_EQ(more.error().message.find("SECRET"), std::string::npos);
}

TEST(Authorizer, MoreScopesAreAskedForOnce) {
  Played played;
  Authorizer authorizer(played.options());
  ASSERT_TRUE(authorizer.renew({.status = 401, .scope = "read"}, within_seconds(20), {}));
  const Challenge more{
      .status = 403, .error = "insufficient_scope", .scope = "write", .token = "SECRET-1"};
  played.token.set("access_token", "SECRET-2");
  ASSERT_TRUE(authorizer.renew(more, within_seconds(20), {}));
  EXPECT_EQ(field(played.logins.back(), "scope"), "read write");
  EXPECT_EQ(played.registrations, 1);  // the same client, at the same port
  Challenge again = more;
  again.token = "SECRET-2";
  const Status renewed = authorizer.renew(again, within_seconds(20), {});
  ASSERT_FALSE(renewed);
  EXPECT_NE(renewed.error().message.find("for all that it asks for"), std::string::npos);
  EXPECT_EQ(played.logins.size(), 2U);
}

TEST(Authorizer, WhatOneIssuerGaveIsNotShownToAnother) {
  Played first;
  first.token.set("refresh_token", "REFRESH-1");
  Played second;
  Authorizer authorizer(first.options());
  ASSERT_TRUE(authorizer.renew(unauthorized(), within_seconds(20), {}));
  first.resource.set("authorization_servers", json::Array{second.base()});
  second.token.set("access_token", "SECRET-2");
  const Status renewed = authorizer.renew(unauthorized("SECRET-1"), within_seconds(20), {});
  ASSERT_TRUE(renewed) << renewed.error().message;
  EXPECT_EQ(authorizer.token(), "SECRET-2");
  EXPECT_EQ(second.registrations, 1);
  ASSERT_EQ(second.token_requests.size(), 1U);
  EXPECT_EQ(field(second.token_requests[0], "grant_type"), "authorization_code");
}

}  // namespace
}  // namespace tenon::mcp
