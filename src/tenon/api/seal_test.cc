#include "tenon/api/seal.h"

#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace tenon::api {
namespace {

std::shared_ptr<store::ResponseStore> small_store() {
  return *store::ResponseStore::open({});
}

TEST(Seal, OpensWhatItHasClosed) {
  const Seal seal(small_store());
  for (const std::string& text :
       {std::string(), std::string("a summary"), std::string(5000, 'x')}) {
    const std::string closed = seal.close("ann", text);
    EXPECT_EQ(seal.open("ann", closed), text);
    EXPECT_NE(closed, seal.close("ann", text)) << "a nonce is used once";
    EXPECT_TRUE(text.empty() || closed.find(text) == std::string::npos);
  }
}

TEST(Seal, OpensNothingElse) {
  const Seal seal(small_store());
  const std::string closed = seal.close("ann", "a summary!!");  // no padding
  EXPECT_FALSE(seal.open("bob", closed));
  EXPECT_FALSE(seal.open("", closed));
  EXPECT_FALSE(Seal(small_store()).open("ann", closed)) << "of another server";
  for (const char* text : {"", "tenon1.", "tenon1.AAAA", "tenon1.!", "gAAAAABo", "a summary!!"}) {
    EXPECT_FALSE(seal.open("ann", text)) << text;
  }
  for (std::size_t i = 0; i < closed.size(); ++i) {
    std::string changed = closed;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(seal.open("ann", changed)) << i;
    EXPECT_FALSE(seal.open("ann", closed.substr(0, i))) << i;
  }
}

TEST(Seal, KeepsItsKeyInTheStore) {
  const auto store = small_store();
  const std::string closed = Seal(store).close("ann", "a summary");
  EXPECT_EQ(Seal(store).open("ann", closed), "a summary");
}

TEST(Seal, CutsWhatIsTooLongBetweenCharacters) {
  const Seal seal(nullptr);
  const std::string text = std::string(Seal::kMaxBytes - 1, 'x') + "\xC3\xA9";
  EXPECT_EQ(seal.open("", seal.close("", text)), std::string(Seal::kMaxBytes - 1, 'x'));
}

}  // namespace
}  // namespace tenon::api
