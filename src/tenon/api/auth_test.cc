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
