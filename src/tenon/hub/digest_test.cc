#include "tenon/hub/digest.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::hub {
namespace {

struct DigestRow {
  const char* name;
  std::string bytes;
  std::string_view sha256;
  std::string_view git;  // `git hash-object`
};

TEST(Digest, IsThatOfTheReference) {
  const DigestRow rows[] = {
      {"Nothing", "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
       "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"},
      {"Text", "hello\n", "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
       "ce013625030ba8dba906f756967f9e9ca394464a"},
  };
  for (const DigestRow& row : rows) {
    for (std::size_t cut = 0; cut <= row.bytes.size(); ++cut) {
      Digest sha256 = Digest::sha256();
      Digest git = Digest::git_blob(row.bytes.size());
      for (Digest* digest : {&sha256, &git}) {
        digest->add(std::string_view(row.bytes).substr(0, cut));
        digest->add(std::string_view(row.bytes).substr(cut));
      }
      EXPECT_EQ(sha256.hex(), row.sha256) << row.name;
      EXPECT_EQ(git.hex(), row.git) << row.name;
    }
  }
}

}  // namespace
}  // namespace tenon::hub
