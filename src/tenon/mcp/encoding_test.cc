#include "tenon/mcp/encoding.h"

#include <gtest/gtest.h>

namespace tenon::mcp {
namespace {

TEST(Encoding, Base64UrlHasNoPaddingAndNoMarksOfAnAddress) {
  struct Row {
    std::string_view bytes;
    std::string_view plain;
    std::string_view url;
  };
  const Row rows[] = {{"", "", ""},
                      {"f", "Zg==", "Zg"},
                      {"fo", "Zm8=", "Zm8"},
                      {"foo", "Zm9v", "Zm9v"},
                      {"\xfb\xff\xfe", "+//+", "-__-"}};
  for (const Row& row : rows) {
    EXPECT_EQ(base64(row.bytes), row.plain);
    EXPECT_EQ(base64url(row.bytes), row.url);
  }
}

TEST(Encoding, FormsAreReadAsTheyAreWritten) {
  const Fields fields{{"a", "1 + 1 = 2"}, {"redirect_uri", "http://127.0.0.1:1/c?x&y"}, {"ä", "%"}};
  EXPECT_EQ(form(fields),
            "a=1%20%2B%201%20%3D%202&redirect_uri=http%3A%2F%2F127.0.0.1%3A1%2Fc%3Fx%26y"
            "&%C3%A4=%25");
  EXPECT_EQ(read_form(form(fields)), fields);
}

TEST(Encoding, WhatBrowsersSendIsRead) {
  struct Row {
    std::string_view text;
    Fields fields;
  };
  const Row rows[] = {{"", {}},
                      {"&&", {}},
                      {"code=a+b&state", {{"code", "a b"}, {"state", ""}}},
                      {"a=%4", {{"a", "%4"}}},
                      {"a=%zz", {{"a", "%zz"}}},
                      {"a=1=2", {{"a", "1=2"}}}};
  for (const Row& row : rows) EXPECT_EQ(read_form(row.text), row.fields) << row.text;
  EXPECT_EQ(field(read_form("a=1&a=2"), "a"), "1");
  EXPECT_EQ(field({}, "a"), "");
}

}  // namespace
}  // namespace tenon::mcp
