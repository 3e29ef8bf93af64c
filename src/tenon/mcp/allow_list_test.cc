#include "tenon/mcp/allow_list.h"

#include <gtest/gtest.h>

namespace tenon::mcp {
namespace {

struct AddressRow {
  const char* address;
  bool is_public;
};

TEST(AllowList, KnowsPublicAddresses) {
  constexpr AddressRow kRows[] = {
      {"8.8.8.8", true},
      {"1.1.1.1", true},
      {"100.63.255.255", true},
      {"100.64.0.0", false},
      {"172.15.255.255", true},
      {"172.16.0.1", false},
      {"172.31.255.255", false},
      {"172.32.0.0", true},
      {"10.1.2.3", false},
      {"127.0.0.1", false},
      {"127.255.0.1", false},
      {"0.0.0.0", false},
      {"169.254.169.254", false},
      {"192.168.1.1", false},
      {"192.0.2.7", false},
      {"198.19.255.255", false},
      {"198.20.0.0", true},
      {"224.0.0.1", false},
      {"255.255.255.255", false},
      {"223.255.255.255", true},
      {"2606:4700:4700::1111", true},
      {"::1", false},
      {"::", false},
      {"fe80::1", false},
      {"fe80::1%1", false},
      {"fc00::1", false},
      {"fd12:3456::1", false},
      {"ff02::1", false},
      {"::ffff:10.0.0.1", false},
      {"::ffff:8.8.8.8", true},
      {"::10.0.0.1", false},
      {"64:ff9b::a00:1", false},
      {"2002:a00:1::", false},
      {"2001::1", false},
      {"2001:db8::1", false},
      {"2001:4860:4860::8888", true},
      {"3fff::1", false},
      {"not an address", false},
      {"0x7f.1", false},
      {"", false},
  };
  for (const AddressRow& row : kRows) {
    EXPECT_EQ(is_public_address(row.address), row.is_public) << row.address;
  }
}

struct UrlRow {
  const char* url;
  bool is_allowed;
  bool may_be_private;
};

TEST(AllowList, FindsTheEntriesThatAllowAnAddress) {
  const auto list =
      AllowList::read({"https://tools.example", "https://two.example:8443/a/b",
                       "http://127.0.0.1:8000/mcp", "http://localhost:9000", "http://[::1]:7000"});
  ASSERT_TRUE(list);
  constexpr UrlRow kRows[] = {
      {"https://tools.example", true, false},
      {"https://TOOLS.example/any/path?x=1", true, false},
      {"https://tools.example:443/mcp", true, false},
      {"http://tools.example/mcp", false, false},
      {"https://tools.example:444/mcp", false, false},
      {"https://tools.example.evil.example/mcp", false, false},
      {"https://tools.example@evil.example/mcp", false, false},
      {"https://evil.example/https://tools.example", false, false},
      {"https://two.example:8443/a/b", true, false},
      {"https://two.example:8443/a/b/c", true, false},
      {"https://two.example:8443/a/bc", false, false},
      {"https://two.example:8443/a", false, false},
      {"https://two.example:8443/a/b/../../secret", false, false},
      {"https://two.example:8443/a/b/%2e%2e/c", false, false},
      {"https://two.example:8443/a/b/..%2Fc", false, false},
      {"https://two.example:8443/a/b/..", false, false},
      {"https://two.example:8443/a/b/..;x/c", false, false},
      {"https://two.example:8443/a/b;x", false, false},
      {"https://two.example:8443/a/b/..%3Bx/c", false, false},
      {"https://two.example:8443/a/b/%252e%252e/c", false, false},
      {"https://two.example:8443/a/b/%20c", true, false},
      {"https://two.example:8443/a/b/x?y=1;z=%25", true, false},
      {"https://two.example:8443/a/b/x?y=/../z", true, false},
      {"http://127.0.0.1:8000/mcp", true, true},
      {"http://127.0.0.1:8000/mcp2", false, false},
      {"http://127.1:8000/mcp", false, false},
      {"http://2130706433:8000/mcp", false, false},
      {"http://localhost:9000/mcp", true, true},
      {"http://[::1]:7000/mcp", true, true},
      {"ftp://tools.example/mcp", false, false},
      {"", false, false},
  };
  for (const UrlRow& row : kRows) {
    const AllowList::Access access = list->find(row.url);
    EXPECT_EQ(access.is_allowed, row.is_allowed) << row.url;
    EXPECT_EQ(access.may_be_private, row.may_be_private) << row.url;
  }
  EXPECT_FALSE(AllowList().find("https://tools.example").is_allowed);
}

TEST(AllowList, RefusesEntriesThatAreNoAddresses) {
  for (const char* entry : {"tools.example", "https://", "https://u@h/", "https://h/a?b=c",
                            "https://h/../a", "https://*.example", "*"}) {
    EXPECT_FALSE(AllowList::read({entry})) << entry;
  }
}

}  // namespace
}  // namespace tenon::mcp
