#include "tenon/base/ids.h"

#include <cctype>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace tenon {
namespace {

TEST(RandomId, HasThePrefixAndTheLength) {
  for (const std::size_t length : {0, 1, 9, 24, 31, 32, 33, 300}) {
    const std::string id = random_id("call_", length);
    ASSERT_EQ(id.size(), 5 + length);
    EXPECT_EQ(id.substr(0, 5), "call_");
    for (const char byte : id.substr(5))
      EXPECT_TRUE(std::isalnum(static_cast<unsigned char>(byte)));
  }
}

TEST(RandomId, NeverComesTwice) {
  std::set<std::string> ids;
  for (int i = 0; i < 10000; ++i) EXPECT_TRUE(ids.insert(random_id("")).second);
}

// 62 letters, 62000 draws: each is expected 1000 times, with a standard deviation of 31. Without
// the rejection of unfair bytes the first eight letters would come 1211 times.
TEST(RandomId, DrawsEveryLetterAlike) {
  const std::string letters = random_id("", 62000);
  std::size_t count[256] = {};
  for (const char letter : letters) ++count[static_cast<unsigned char>(letter)];
  for (const char letter : std::string("0123456789AZaz")) {
    EXPECT_NEAR(static_cast<double>(count[static_cast<unsigned char>(letter)]), 1000.0, 200.0);
  }
}

TEST(FillRandom, FillsEveryByteOfLongBuffers) {
  unsigned char seen[1000] = {};
  for (int round = 0; round < 10; ++round) {
    unsigned char bytes[1000] = {};
    fill_random(bytes, sizeof bytes);
    for (std::size_t i = 0; i < sizeof bytes; ++i) seen[i] |= bytes[i];
  }
  // A byte that is zero ten times in a row has a probability of 2^-80.
  for (const unsigned char byte : seen) EXPECT_NE(byte, 0);
}

}  // namespace
}  // namespace tenon
