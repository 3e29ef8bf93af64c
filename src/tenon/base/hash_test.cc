#include "tenon/base/hash.h"

#include <cstdint>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace tenon {
namespace {

// Key 00 01 .. 0f, texts "", 00, 00 01, ...: the values of Rust's core::hash::sip tests, which come
// from the authors' own code compiled with one and three rounds.
TEST(SipHash13, GivesTheReferenceValues) {
  const std::uint64_t expected[] = {0xabac0158050fc4dcU, 0xc9f49bf37d57ca93U, 0x82cb9b024dc7d44dU,
                                    0x8bf80ab8e7ddf7fbU, 0xcf75576088d38328U, 0xdef9d52f49533b67U,
                                    0xc50d2b50c59f22a7U, 0xd3927d989bb11140U, 0x369095118d299a8eU};
  std::string text;
  for (const std::uint64_t value : expected) {
    EXPECT_EQ(siphash13(text, 0x0706050403020100U, 0x0f0e0d0c0b0a0908U), value) << text.size();
    text.push_back(static_cast<char>(text.size()));
  }
}

TEST(KeyedHash, IsOneFunctionForTheWholeProcess) {
  std::set<std::uint64_t> values;
  for (int i = 0; i < 1000; ++i) {
    const std::string text = std::to_string(i);
    EXPECT_EQ(keyed_hash(text), keyed_hash(text));
    values.insert(keyed_hash(text));
  }
  EXPECT_EQ(values.size(), 1000u);
}

}  // namespace
}  // namespace tenon
