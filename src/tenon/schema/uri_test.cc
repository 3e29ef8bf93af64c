#include "tenon/schema/uri.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::schema {
namespace {

struct Resolution {
  std::string_view base;
  std::string_view reference;
  std::string_view resolved;
};

constexpr std::string_view kBase = "http://a/b/c/d;p?q";

const Resolution kResolutions[] = {
    // RFC 3986, section 5.4.1
    {kBase, "g:h", "g:h"},
    {kBase, "g", "http://a/b/c/g"},
    {kBase, "./g", "http://a/b/c/g"},
    {kBase, "g/", "http://a/b/c/g/"},
    {kBase, "/g", "http://a/g"},
    {kBase, "//g", "http://g"},
    {kBase, "?y", "http://a/b/c/d;p?y"},
    {kBase, "g?y", "http://a/b/c/g?y"},
    {kBase, "#s", "http://a/b/c/d;p?q#s"},
    {kBase, "g#s", "http://a/b/c/g#s"},
    {kBase, "g?y#s", "http://a/b/c/g?y#s"},
    {kBase, ";x", "http://a/b/c/;x"},
    {kBase, "", "http://a/b/c/d;p?q"},
    {kBase, ".", "http://a/b/c/"},
    {kBase, "./", "http://a/b/c/"},
    {kBase, "..", "http://a/b/"},
    {kBase, "../", "http://a/b/"},
    {kBase, "../g", "http://a/b/g"},
    {kBase, "../..", "http://a/"},
    {kBase, "../../g", "http://a/g"},
    // section 5.4.2
    {kBase, "../../../g", "http://a/g"},
    {kBase, "/./g", "http://a/g"},
    {kBase, "/../g", "http://a/g"},
    {kBase, "g.", "http://a/b/c/g."},
    {kBase, "..g", "http://a/b/c/..g"},
    {kBase, "./g/.", "http://a/b/c/g/"},
    {kBase, "g/../h", "http://a/b/c/h"},
    {kBase, "g;x=1/../y", "http://a/b/c/y"},
    {kBase, "g?y/../x", "http://a/b/c/g?y/../x"},
    // further cases of schemas
    {"", "", ""},
    {"", "#/$defs/a", "#/$defs/a"},
    {"", "other.json", "other.json"},
    {"", "../other.json", "../other.json"},
    {"urn:uuid:1", "#a", "urn:uuid:1#a"},
    {"urn:a/b", "../c", "urn:/c"},
    {"http://a", "b", "http://a/b"},
    {"http://a/b", "1:2/c", "http://a/1:2/c"},
    {"file.json", "nested/", "nested/"},
};

TEST(Uri, ReferencesAreResolved) {
  for (const Resolution& row : kResolutions) {
    EXPECT_EQ(resolve_uri(row.base, row.reference), row.resolved)
        << row.base << " " << row.reference;
  }
}

TEST(Uri, SplitsAtTheFragment) {
  EXPECT_EQ(split_fragment("a#b#c").address, "a");
  EXPECT_EQ(split_fragment("a#b#c").fragment, "b#c");
  EXPECT_EQ(split_fragment("a#").fragment, "");
  EXPECT_EQ(split_fragment("a").fragment, std::nullopt);
}

TEST(Uri, DecodesPercents) {
  EXPECT_EQ(percent_decoded("a%2Fb%c3%a9"), "a/b\u00e9");
  EXPECT_EQ(percent_decoded(""), "");
  for (const std::string_view text : {"%", "%2", "a%g0", "%0g"}) {
    EXPECT_EQ(percent_decoded(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace tenon::schema
