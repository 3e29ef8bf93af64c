#include "tenon/vocab/token_trie.h"

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon::vocab {
namespace {

using ::testing::ElementsAre;

// From a path of symbols to the tokens that end there, read by the walk that the header shows.
std::map<std::string, std::vector<TokenId>> contents(const TokenTrie& trie) {
  std::map<std::string, std::vector<TokenId>> found;
  std::string path;
  for (std::uint32_t node = 0; node < trie.node_count(); ++node) {
    path.resize(trie.depth(node));
    if (node != 0) path.back() = static_cast<char>(trie.symbol(node));
    const auto tokens = trie.tokens_at(node);
    if (!tokens.empty()) found[path].assign(tokens.begin(), tokens.end());
  }
  return found;
}

TokenTrie trie_of(const std::vector<std::string>& texts) {
  std::vector<TokenTrie::Entry> entries;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    entries.push_back({texts[i], static_cast<TokenId>(i)});
  }
  return TokenTrie(std::move(entries));
}

std::vector<std::string> random_texts(unsigned seed, std::size_t count) {
  std::mt19937 random(seed);
  std::vector<std::string> texts(count);
  for (std::string& text : texts) {
    text.resize(1 + random() % 6);
    for (char& c : text) c = static_cast<char>("ab\"\\ \xC3\xA9z"[random() % 8]);
  }
  return texts;
}

TEST(TokenTrie, HoldsEveryTokenAtItsText) {
  const TokenTrie trie = trie_of({"b", "ab", "a", "abc", "ab", ""});
  EXPECT_EQ(contents(trie), (std::map<std::string, std::vector<TokenId>>{
                                {"a", {2}}, {"ab", {1, 4}}, {"abc", {3}}, {"b", {0}}}));
  EXPECT_THAT(trie.tokens_below(0), ElementsAre(2, 1, 4, 3, 0));
  EXPECT_EQ(trie.node_count(), 5U);
  EXPECT_EQ(trie.max_depth(), 3U);
}

TEST(TokenTrie, MayBeEmpty) {
  const TokenTrie trie = trie_of({});
  EXPECT_EQ(trie.node_count(), 1U);
  EXPECT_TRUE(trie.tokens_below(0).empty());
  EXPECT_TRUE(trie.quotient(ByteClasses::identity()).tokens_below(0).empty());
}

TEST(TokenTrie, SubtreesAreRangesOfNodesAndTokens) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const std::vector<std::string> texts = random_texts(seed, seed * 4);
    const TokenTrie trie = trie_of(texts);
    std::string path;
    for (std::uint32_t node = 0; node < trie.node_count(); ++node) {
      path.resize(trie.depth(node));
      if (node != 0) path.back() = static_cast<char>(trie.symbol(node));
      std::multiset<TokenId> wanted;
      for (std::size_t i = 0; i < texts.size(); ++i) {
        if (texts[i].starts_with(path)) wanted.insert(static_cast<TokenId>(i));
      }
      const auto below = trie.tokens_below(node);
      ASSERT_EQ(std::multiset<TokenId>(below.begin(), below.end()), wanted);
    }
  }
}

TEST(TokenTrie, QuotientGroupsTokensByTheirClasses) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    ByteClasses classes;
    classes.count = static_cast<unsigned>(1 + random() % 5);
    for (std::uint8_t& c : classes.of) {
      c = static_cast<std::uint8_t>(random() % (classes.count + 1));
      if (c == classes.count) c = ByteClasses::kNone;
    }
    const std::vector<std::string> texts = random_texts(seed, 200);
    std::map<std::string, std::set<TokenId>> wanted;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      std::string image;
      for (const char c : texts[i]) {
        image += static_cast<char>(classes.of[static_cast<unsigned char>(c)]);
      }
      if (image.find('\xFF') == std::string::npos) wanted[image].insert(static_cast<TokenId>(i));
    }
    std::map<std::string, std::set<TokenId>> found;
    for (const auto& [path, tokens] : contents(trie_of(texts).quotient(classes))) {
      found[path] = {tokens.begin(), tokens.end()};
    }
    ASSERT_EQ(found, wanted);
  }
}

TEST(TokenTrie, QuotientByUnits) {
  // Units are pairs of the byte 0xC3 and a byte beyond ASCII.
  const auto unit = [](std::string_view text) -> std::size_t {
    return text.size() >= 2 && text[0] == '\xC3' && (text[1] & 0x80) != 0 ? 2 : 0;
  };
  ByteClasses classes = ByteClasses::identity();
  classes.of[TokenTrie::kUnit] = 254;
  classes.of[254] = ByteClasses::kNone;
  classes.of['"'] = ByteClasses::kNone;
  const std::vector<std::string> texts{"a",
                                       "\xC3\xA9",
                                       "\xC3\xA8",
                                       "\xC3",
                                       "a\xC3\xA9"
                                       "b",
                                       "a\xC3\xA8"
                                       "b",
                                       "a\xC3\xA9\"",
                                       "\xA9\xC3",
                                       "\xC3\xA9\xC3\xA8",
                                       "\xFF\xC3",
                                       "\xC3\xA9\xFF",
                                       "\xC3"
                                       "a"};
  const std::string u = "\xFE";  // the class of a unit
  const std::map<std::string, std::set<TokenId>> wanted{{"a", {0}},
                                                        {u, {1, 2}},
                                                        {"\xC3", {3}},
                                                        {"a" + u + "b", {4, 5}},
                                                        {"\xA9\xC3", {7}},
                                                        {u + u, {8}},
                                                        {"\xC3"
                                                         "a",
                                                         {11}}};
  std::map<std::string, std::set<TokenId>> found;
  for (const auto& [path, tokens] : contents(trie_of(texts).quotient(classes, unit))) {
    if (!tokens.empty()) found[path] = {tokens.begin(), tokens.end()};
  }
  EXPECT_EQ(found, wanted);
}

TEST(ByteClasses, Refinement) {
  ByteClasses digits{.of = {}, .count = 2};
  for (unsigned byte = '0'; byte <= '9'; ++byte) digits.of[byte] = 1;
  ByteClasses text = digits;
  text.of['"'] = ByteClasses::kNone;
  ByteClasses even{.of = {}, .count = 2};
  for (unsigned byte = 0; byte < 256; byte += 2) even.of[byte] = 1;

  struct Row {
    const char* name;
    const ByteClasses& finer;
    const ByteClasses& coarser;
    bool refines;
  };
  const Row rows[] = {
      {"ItselfAlways", digits, digits, true},
      {"SingleBytesAllButWhatTheyDoNotRead", ByteClasses::identity(), text, false},
      {"ReadingLessIsCoarser", digits, text, false},  // class 0 would be read and not read
      {"NotReadingWhatIsRead", text, digits, false},
      {"AcrossEachOther", even, digits, false},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(row.finer.refines(row.coarser), row.refines) << row.name;
  }
  ByteClasses no_255 = text;
  no_255.of[255] = ByteClasses::kNone;
  EXPECT_TRUE(ByteClasses::identity().refines(no_255));
}

TEST(ByteClasses, CanonicalFormIsOfThePartition) {
  ByteClasses a{.of = {}, .count = 3};
  a.of.fill(2);
  a.of['x'] = 0;
  a.of['y'] = ByteClasses::kNone;
  ByteClasses b{.of = {}, .count = 2};
  b.of['x'] = 1;
  b.of['y'] = ByteClasses::kNone;
  EXPECT_EQ(a.canonical(), b);
  EXPECT_EQ(b.canonical(), b);
}

}  // namespace
}  // namespace tenon::vocab
