#include "tenon/schema/formats.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::schema {
namespace {

struct FormatsRow {
  std::string_view format;
  std::string_view text;
  bool holds;
};

const FormatsRow kFormatsRows[] = {
    {"date", "2024-02-29", true},
    {"date", "2023-02-29", false},
    {"date", "2000-02-29", true},
    {"date", "1900-02-29", false},
    {"date", "2023-04-31", false},
    {"date", "2023-12-31", true},
    {"date", "2023-13-01", false},
    {"date", "2023-1-01", false},
    {"date", "2023-01-01\n", false},
    {"time", "08:30:06.283Z", true},
    {"time", "24:00:00Z", false},
    {"time", "12:00:00", false},
    {"time", "23:59:60Z", true},
    {"time", "22:59:60Z", false},
    {"time", "01:29:60+01:30", true},
    {"time", "15:59:60-08:00", true},
    {"date-time", "1998-12-31T15:59:60.123-08:00", true},
    {"date-time", "1998-12-31T22:59:60Z", false},
    {"date-time", "1963-06-19t08:30:06z", true},
    {"date-time", "1963-06-19 08:30:06Z", false},
    {"duration", "P4DT12H30M5S", true},
    {"duration", "P2W", true},
    {"duration", "P1Y2W", false},
    {"duration", "P", false},
    {"duration", "PT", false},
    {"duration", "P1Y2D", false},
    {"email", "joe.bloggs@example.com", true},
    {"email", "\"joe bloggs\"@example.com", true},
    {"email", "joe@[127.0.0.1]", true},
    {"email", "joe@[IPv6:::1]", true},
    {"email", "joe@[127.0.0.300]", false},
    {"email", ".joe@example.com", false},
    {"email", "joe@", false},
    {"email", "jo\u00e9@example.com", false},
    {"idn-email", "jo\u00e9@ex\u00e4mple.com", true},
    {"idn-email", "2962", false},
    {"hostname", "www.example.com", true},
    {"hostname", "-a", false},
    {"hostname", "a-", false},
    {"hostname", "a..b", false},
    {"hostname", "a.", false},
    {"hostname", "a_b", false},
    {"hostname", "xn--ihqwcrb4cv8a8dqg056pqjye", true},
    {"hostname", "XN--ll-0ea", true},
    {"hostname", "xn--la-0ea", false},
    {"hostname", "xn--X", false},
    {"hostname", "xn--7a", false},
    {"idn-hostname", "\uc2e4\ub840.\ud14c\uc2a4\ud2b8", true},
    {"idn-hostname", "a.\u4e2d\u3002com", true},
    {"idn-hostname", "example\uff61", false},
    {"idn-hostname", "\u0300a", false},
    {"idn-hostname", "\u00c9a", false},
    {"idn-hostname", "l\u00b7l", true},
    {"idn-hostname", "l\u00b7a", false},
    {"idn-hostname", "\u03b1\u0375\u03b2", true},
    {"idn-hostname", "\u03b1\u0375", false},
    {"idn-hostname", "\u0915\u094d\u200d\u0937", true},
    {"idn-hostname", "\u0915\u200d\u0937", false},
    {"idn-hostname", "\u05d0\u05d1", true},
    {"idn-hostname", "a\u05d0", false},
    {"idn-hostname", "0a.\u05d0", false},
    {"idn-hostname", "a_b", false},
    {"ipv4", "192.168.0.1", true},
    {"ipv4", "256.0.0.1", false},
    {"ipv4", "1.2.3", false},
    {"ipv4", "01.2.3.4", false},
    {"ipv6", "::", true},
    {"ipv6", "::1", true},
    {"ipv6", "1::", true},
    {"ipv6", "1:2:3:4:5:6:7:8", true},
    {"ipv6", "1:2:3:4:5:6:7::", true},
    {"ipv6", "::2:3:4:5:6:7:8", true},
    {"ipv6", "1::3:4:5:6:7:8", true},
    {"ipv6", "::ffff:1.2.3.4", true},
    {"ipv6", "1:2:3:4:5:6:1.2.3.4", true},
    {"ipv6", "1:2:3:4:5:6:7:8:9", false},
    {"ipv6", "1:2:3:4:5:6:7", false},
    {"ipv6", "1::2::3", false},
    {"ipv6", "::12345", false},
    {"ipv6", "1:2:3:4:5:6:7:1.2.3.4", false},
    {"uri", "http://a.b/c?d=e#f", true},
    {"uri", "http://[::1]:80/", true},
    {"uri", "urn:isbn:1", true},
    {"uri", "//a/b", false},
    {"uri", "a", false},
    {"uri", "http://a b", false},
    {"uri", "http://a/%4", false},
    {"uri", "http://a:x/", false},
    {"uri-reference", "", true},
    {"uri-reference", "../a?b#c", true},
    {"uri-reference", "a:b", true},
    {"uri-reference", "1:b", false},
    {"uri-reference", "\\\\a", false},
    {"iri", "http://\u00e9.com/\u00fc?\ue000", true},
    {"iri", "http://\u00e9.com/\ue000", false},
    {"iri-reference", "\u00e2\u03c0\u03c0", true},
    {"uri-template", "http://a/{term:1}/{x*,y}{?q}", true},
    {"uri-template", "a/{term", false},
    {"uri-template", "{v:0}", false},
    {"uuid", "2eb8aa08-AA98-11ea-b4aa-73b441d16380", true},
    {"uuid", "2eb8aa08aa9811eab4aa73b441d16380", false},
    {"json-pointer", "", true},
    {"json-pointer", "/a~0b/~1", true},
    {"json-pointer", "a", false},
    {"json-pointer", "/~2", false},
    {"relative-json-pointer", "0#", true},
    {"relative-json-pointer", "12/a", true},
    {"relative-json-pointer", "01", false},
    {"regex", "^a(?=b)", true},
    {"regex", "(", false},
};

TEST(Format, AcceptsItsTextsAndNoOthers) {
  for (const FormatsRow& row : kFormatsRows) {
    const auto format = find_format(row.format);
    ASSERT_TRUE(format) << format.error().message;
    ASSERT_NE(*format, nullptr) << row.format;
    const auto holds = has_format(**format, row.text);
    ASSERT_TRUE(holds) << holds.error().message;
    EXPECT_EQ(*holds, row.holds) << row.format << " " << row.text;
  }
}

TEST(Format, NamesHaveBounds) {
  const std::string label(63, 'a');
  std::string umlauts;
  for (int i = 0; i < 60; ++i) umlauts += "\u00fc";  // short in UTF-8, too long in Punycode
  const FormatsRow rows[] = {
      {"hostname", label, true},
      {"idn-hostname", label, true},
      {"idn-hostname", umlauts, false},
  };
  for (const FormatsRow& row : rows) {
    EXPECT_EQ(*has_format(**find_format(row.format), row.text), row.holds) << row.text;
  }
  const std::string longest = label + "." + label + "." + label + "." + label.substr(2);  // 253
  EXPECT_TRUE(*has_format(**find_format("hostname"), longest));
  EXPECT_FALSE(*has_format(**find_format("hostname"), longest + "a"));
  EXPECT_FALSE(*has_format(**find_format("idn-hostname"), longest + "a"));
  EXPECT_FALSE(*has_format(**find_format("idn-hostname"), std::string(100'000, 'a') + "\u4e2d"));
}

TEST(Format, UnknownOnesAreTold) {
  const auto format = find_format("color");
  ASSERT_TRUE(format);
  EXPECT_EQ(*format, nullptr);
}

// Masks are made from the pattern alone: it may be too wide, but never too narrow.
TEST(Format, TextsMatchThePatternAlone) {
  for (const FormatsRow& row : kFormatsRows) {
    const auto format = find_format(row.format);
    ASSERT_TRUE(format && *format != nullptr);
    const auto matches = (*format)->pattern.regex->contains_match(row.text);
    ASSERT_TRUE(matches);
    EXPECT_TRUE(*matches || !row.holds) << row.format << " " << row.text;
    const bool is_all = (*format)->also == nullptr;
    EXPECT_TRUE(*matches == row.holds || !is_all) << row.format << " " << row.text;
  }
}

}  // namespace
}  // namespace tenon::schema
