#include "tenon/api/auth.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::api {
namespace {

struct Host {
  std::string_view name;
  std::string_view field;
  bool is_admitted;
};

const Host kHosts[] = {
    {"None", "", true},
    {"Address", "127.0.0.1", true},
    {"AddressAndPort", "127.0.0.1:8080", true},
    {"OtherLoopback", "127.9.9.9", true},
    {"Name", "localhost:8080", true},
    {"NameInAnyCase", "LocalHost", true},
    {"V6", "[::1]", true},
    {"V6AndPort", "[::1]:8080", true},
    {"Allowed", "Box.example:8080", true},
    {"OtherName", "evil.example", false},
    {"NameLikeAnAddress", "127.0.0.1.evil.example", false},
    {"NameLikeAName", "localhost.evil.example", false},
    {"OtherAddress", "10.0.0.1", false},
    {"OtherV6", "[::2]", false},
    {"OpenBracket", "[", true},
    {"HalfAnAddress", "127.0.0", false},
};

TEST(Hosts, AreLoopbackOrAllowed) {
  for (const Host& test : kHosts) {
    SCOPED_TRACE(test.name);
    http::Request request;
    if (!test.field.empty()) request.headers.push_back({"Host", std::string(test.field)});
    EXPECT_EQ(admits_host(request, {"other", "box.example"}), test.is_admitted);
    EXPECT_TRUE(admits_host(request, {"*"}));
  }
}

struct Origin {
  std::string_view name;
  std::string_view origin;
  std::string_view host;
  bool is_admitted;
};

const Origin kOrigins[] = {
    {"NoBrowser", "", "localhost:8080", true},
    {"OwnPage", "http://localhost:8080", "localhost:8080", true},
    {"OwnPageInAnyCase", "http://LOCALHOST:8080", "localhost:8080", true},
    {"Known", "https://ui.example", "localhost:8080", true},
    {"Other", "https://evil.example", "localhost:8080", false},
    {"OtherPort", "http://localhost:3000", "localhost:8080", false},
    {"OtherSchemeOfAKnownOne", "http://ui.example", "localhost:8080", false},
    {"BeginsAsAKnownOne", "https://ui.example.evil", "localhost:8080", false},
    {"Sandboxed", "null", "localhost:8080", false},
    {"SandboxedWithoutHost", "null", "", false},
    {"SchemeAlone", "http://", "", false},
};

TEST(Origins, AreOurOwnOrAllowed) {
  for (const Origin& test : kOrigins) {
    SCOPED_TRACE(test.name);
    http::Request request;
    if (!test.host.empty()) request.headers.push_back({"Host", std::string(test.host)});
    if (!test.origin.empty()) request.headers.push_back({"Origin", std::string(test.origin)});
    EXPECT_EQ(admits_origin(request, {"https://ui.example"}), test.is_admitted);
    EXPECT_TRUE(admits_origin(request, {"*"}));
  }
}

}  // namespace
}  // namespace tenon::api
