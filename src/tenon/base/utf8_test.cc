#include "tenon/base/utf8.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::utf8 {
namespace {

using namespace std::string_literals;

bool is_scalar_value(char32_t code_point) {
  return code_point < 0x110000 && (code_point < 0xD800 || code_point >= 0xE000);
}

TEST(Utf8, DecodesWhatItAppendsForEveryCodePoint) {
  for (char32_t code_point = 0; code_point < 0x110100; ++code_point) {
    std::string text;
    append(text, code_point);
    const Decoded decoded = decode(text);
    ASSERT_EQ(decoded.code_point, is_scalar_value(code_point) ? code_point : 0xFFFD);
    ASSERT_EQ(decoded.length, text.size());
    ASSERT_EQ(valid_prefix(text), text.size());
    ASSERT_EQ(open_tail(text), 0u);
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      const std::string_view begun = std::string_view(text).substr(0, cut);
      ASSERT_EQ(decode(begun).length, 0);
      ASSERT_EQ(valid_prefix(begun), 0u);
      ASSERT_EQ(open_tail(begun), cut);
    }
  }
}

// Every text of two bytes; texts of three and four bytes from the values at which a rule changes.
std::vector<std::string> short_texts() {
  std::vector<std::string> texts{""};
  for (int a = 0; a < 256; ++a) {
    texts.push_back(std::string(1, static_cast<char>(a)));
    for (int b = 0; b < 256; ++b) texts.push_back({static_cast<char>(a), static_cast<char>(b)});
  }
  const std::string edges =
      "\x00\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF\xE0\xE1\xEC\xED\xEE\xEF\xF0\xF1\xF3\xF4\xF5\xFF"s;
  for (const char a : edges) {
    for (const char b : edges) {
      for (const char c : edges) {
        texts.push_back({a, b, c});
        for (const char d : edges) texts.push_back({a, b, c, d});
      }
    }
  }
  return texts;
}

// The definition again, written plainly and slowly: a text is valid if encoding its code points
// gives the same text.
bool is_written_text(std::string_view text) {
  std::string again;
  while (!text.empty()) {
    const auto lead = static_cast<unsigned char>(text[0]);
    const std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (text.size() < length) return false;
    char32_t code_point = length == 1 ? lead : lead & (0xFFU >> (length + 1));
    for (std::size_t i = 1; i < length; ++i) {
      code_point = code_point << 6 | (static_cast<unsigned char>(text[i]) & 0x3FU);
    }
    again.clear();
    append(again, code_point);
    if (again != text.substr(0, length) || !is_scalar_value(code_point)) return false;
    text.remove_prefix(length);
  }
  return true;
}

TEST(Utf8, AcceptsExactlyWhatIsWrittenSo) {
  for (const std::string& text : short_texts()) {
    ASSERT_EQ(is_valid(text), is_written_text(text)) << ::testing::PrintToString(text);
    const std::size_t valid = valid_prefix(text);
    ASSERT_TRUE(is_written_text(text.substr(0, valid)));
    ASSERT_TRUE(is_valid(sanitized(text)));
    if (is_valid(text)) {
      ASSERT_EQ(sanitized(text), text);
    }
  }
}

struct SanitizedRow {
  std::string_view name;
  std::string_view bytes;
  std::string_view text;
};

#define TENON_FFFD "\xEF\xBF\xBD"

// Maximal subparts: the examples of the Unicode standard, tables 3-8 to 3-11.
const SanitizedRow kSanitized[] = {
    {"Empty", "", ""},
    {"Ascii", "abc", "abc"},
    {"LongAsciiThenOther", "0123456789abcdef\xC3\xA9xyz", "0123456789abcdef\xC3\xA9xyz"},
    {"EachOverlongByte", "\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41",
     TENON_FFFD TENON_FFFD TENON_FFFD TENON_FFFD TENON_FFFD TENON_FFFD TENON_FFFD TENON_FFFD "A"},
    {"EachSurrogateByte", "\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41",
     TENON_FFFD TENON_FFFD TENON_FFFD TENON_FFFD TENON_FFFD TENON_FFFD TENON_FFFD TENON_FFFD "A"},
    {"EachByteAboveRange", "\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42",
     TENON_FFFD TENON_FFFD TENON_FFFD TENON_FFFD TENON_FFFD "A" TENON_FFFD TENON_FFFD "B"},
    {"TruncatedIsOne", "\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41",
     TENON_FFFD TENON_FFFD TENON_FFFD TENON_FFFD "A"},
    {"OpenAtTheEndIsOne", "a\xF0\x9F\x98", "a" TENON_FFFD},
    {"OpenThenValid", "\xF0\x9F\x98\xE2\x82\xAC", TENON_FFFD "\xE2\x82\xAC"},
    {"OpenThenLead", "\xE2\xE2\xE2\x82\xAC", TENON_FFFD TENON_FFFD "\xE2\x82\xAC"},
};

TEST(Sanitizer, IsTheSameWhereverTheBytesAreCut) {
  for (const SanitizedRow& row : kSanitized) {
    EXPECT_EQ(sanitized(row.bytes), row.text) << row.name;
    for (std::size_t a = 0; a <= row.bytes.size(); ++a) {
      for (std::size_t b = a; b <= row.bytes.size(); ++b) {
        Sanitizer sanitizer;
        std::string out;
        sanitizer.feed(row.bytes.substr(0, a), out);
        EXPECT_TRUE(is_valid(out)) << row.name;
        sanitizer.feed(row.bytes.substr(a, b - a), out);
        sanitizer.feed(row.bytes.substr(b), out);
        sanitizer.finish(out);
        EXPECT_EQ(out, row.text) << row.name << " cut at " << a << " and " << b;
      }
    }
  }
}

TEST(Sanitizer, IsTheSameForEveryCutOfEveryShortText) {
  for (const std::string& text : short_texts()) {
    const std::string whole = sanitized(text);
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      Sanitizer sanitizer;
      std::string out;
      sanitizer.feed(std::string_view(text).substr(0, cut), out);
      sanitizer.feed(std::string_view(text).substr(cut), out);
      sanitizer.finish(out);
      ASSERT_EQ(out, whole) << ::testing::PrintToString(text);
    }
  }
}

TEST(Sanitizer, BeginsAnewAfterFinish) {
  Sanitizer sanitizer;
  std::string out;
  sanitizer.feed("\xE2\x82", out);
  sanitizer.finish(out);
  sanitizer.feed("\xACok", out);
  sanitizer.finish(out);
  EXPECT_EQ(out, TENON_FFFD TENON_FFFD "ok");
}

struct CountRow {
  std::string_view text;
  std::size_t length;
  std::size_t open_tail;
};

TEST(Utf8, CountsCharactersAndOpenTails) {
  const CountRow rows[] = {
      {"", 0, 0},
      {"abcdefghij", 10, 0},
      {"caf\xC3\xA9", 4, 0},
      {"\xF0\x9F\x98\x80", 1, 0},
      {"a\xC3", 2, 1},
      {"a\xE2\x82", 3, 2},
      {"a\xF0\x9F\x98", 4, 3},
      {"a\xE2\xC3", 3, 1},
      {"\x80\x80\x80", 3, 0},
      {"\xED\xA0", 2, 0},  // can only become a surrogate
      {"\xF4\x90", 2, 0},  // can only become too large
      {"\xC3\xA9\xA9", 2, 0},
      {"\xFF", 1, 0},
  };
  for (const CountRow& row : rows) {
    EXPECT_EQ(length(row.text), row.length) << ::testing::PrintToString(row.text);
    EXPECT_EQ(open_tail(row.text), row.open_tail) << ::testing::PrintToString(row.text);
  }
}

TEST(Utf8, FindsTheFirstInvalidByteAtEveryOffset) {
  for (std::size_t offset = 0; offset < 40; ++offset) {
    for (const std::string_view filler : {"a", "\xC3\xA9"}) {
      std::string text;
      while (text.size() < offset) text += filler;
      const std::size_t begin = text.size();
      EXPECT_EQ(valid_prefix(text + "\xFF" + "0123456789"), begin);
      EXPECT_EQ(valid_prefix(text + "0123456789"), begin + 10);
    }
  }
}

}  // namespace
}  // namespace tenon::utf8
