#include "tenon/api/auth.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::api {
namespace {

constexpr std::string_view kFile = "# staff\nsk-alpha-1234567\n\n  sk-beta-7654321 \r\n";

TEST(ApiKeys, AreOnePerLine) {
  const auto keys = ApiKeys::parse(kFile);
  ASSERT_TRUE(keys);
  EXPECT_FALSE(keys->empty());
  EXPECT_TRUE(ApiKeys::parse("# nothing\n\n")->empty());
  EXPECT_EQ(ApiKeys::parse("sk-alpha-1234567\nshort\n").error().message.substr(0, 6), "line 2");
  EXPECT_FALSE(ApiKeys::parse("two words in a line"));
}

struct Case {
  std::string_view name;
  std::string_view header;
  std::string_view value;
  bool is_admitted;
};

const Case kCases[] = {
    {"Bearer", "Authorization", "Bearer sk-alpha-1234567", true},
    {"SchemeInAnyCase", "authorization", "bEARER sk-beta-7654321", true},
    {"ApiKeyHeader", "X-Api-Key", "sk-beta-7654321", true},
    {"NoHeader", "accept", "*/*", false},
    {"EmptyKey", "x-api-key", "", false},
    {"EmptyBearer", "authorization", "Bearer ", false},
    {"OtherKey", "x-api-key", "sk-alpha-1234568", false},
    {"Prefix", "x-api-key", "sk-alpha-123456", false},
    {"Longer", "x-api-key", "sk-alpha-12345678", false},
    {"Repeated", "x-api-key", "sk-alpha-1234567sk-alpha-1234567", false},
    {"CommentIsNoKey", "x-api-key", "# staff", false},
    {"OtherScheme", "authorization", "Basic sk-alpha-1234567", false},
};

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

TEST(ApiKeys, AdmitWhoeverHasOne) {
  const ApiKeys keys = *ApiKeys::parse(kFile);
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.name);
    http::Request request;
    request.headers.push_back({std::string(test.header), std::string(test.value)});
    EXPECT_EQ(keys.admit(request), test.is_admitted);
    EXPECT_TRUE(ApiKeys().admit(request));
  }
}

}  // namespace
}  // namespace tenon::api
