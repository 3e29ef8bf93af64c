#include "tenon/hub/cache.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::hub {
namespace {

namespace fs = std::filesystem;

const std::string kCommit(40, '1');
const std::string kHash(64, 'a');

class CacheTest : public ::testing::Test {
 protected:
  CacheTest() { fs::remove_all(cache_.folder()); }
  ~CacheTest() override { fs::remove_all(cache_.folder()); }
  void put(const fs::path& path, const std::string& bytes) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << bytes;
  }
  std::string text(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const Cache cache_{fs::path(::testing::TempDir()) / "tenon_cache_test"};
};

TEST_F(CacheTest, HasTheLayoutOfTheHubsOwnClient) {
  const std::string folder = cache_.folder().string();
  EXPECT_EQ(cache_.blob("o/r", kHash), folder + "/models--o--r/blobs/" + kHash);
  EXPECT_EQ(cache_.incomplete("o/r", kHash),
            folder + "/models--o--r/blobs/" + kHash + ".incomplete");
  EXPECT_EQ(cache_.lock("o/r", kHash), folder + "/.locks/models--o--r/" + kHash + ".lock");
  EXPECT_EQ(cache_.pointer("o/r", kCommit, "a/b.gguf"),
            folder + "/models--o--r/snapshots/" + kCommit + "/a/b.gguf");
}

TEST_F(CacheTest, ThreadsMayLinkTheSameFileAtOnce) {
  put(cache_.blob("o/r", kHash), "bytes");
  for (int round = 0; round < 50; ++round) {
    const std::string name = std::to_string(round) + ".gguf";
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] { EXPECT_TRUE(cache_.link("o/r", kCommit, name, kHash)); });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(text(cache_.pointer("o/r", kCommit, name)), "bytes");
    ASSERT_EQ(text(cache_.blob("o/r", kHash)), "bytes") << "the blob stays where it is";
  }
  EXPECT_EQ(cache_.files("o/r", kCommit).size(), 50U);
}

TEST_F(CacheTest, LinksAndFindsFiles) {
  put(cache_.blob("o/r", kHash), "bytes");
  ASSERT_TRUE(cache_.link("o/r", kCommit, "a/m.gguf", kHash));
  ASSERT_TRUE(cache_.link("o/r", kCommit, "a/m.gguf", kHash)) << "again does no harm";
  const fs::path pointer = cache_.pointer("o/r", kCommit, "a/m.gguf");
  EXPECT_EQ(fs::read_symlink(pointer), "../../../blobs/" + kHash) << "relative: the cache can move";
  ASSERT_TRUE(cache_.set_commit("o/r", "main", kCommit));
  ASSERT_TRUE(cache_.set_commit("o/r", "refs/pr/1", kCommit));
  ASSERT_TRUE(cache_.set_commit("o/r", kCommit, kCommit));
  EXPECT_EQ(text(cache_.folder() / "models--o--r/refs/main"), kCommit);
  EXPECT_EQ(text(cache_.folder() / "models--o--r/refs/refs/pr/1"), kCommit);
  EXPECT_FALSE(fs::exists(cache_.folder() / "models--o--r/refs" / kCommit));
  EXPECT_TRUE(text(cache_.folder() / "CACHEDIR.TAG")
                  .starts_with("Signature: 8a477f597d28d172789f06886806bc55"));

  for (const std::string& revision : {std::string("main"), std::string("refs/pr/1"), kCommit}) {
    EXPECT_EQ(cache_.commit_of("o/r", revision), kCommit) << revision;
  }
  EXPECT_FALSE(cache_.commit_of("o/r", "other"));
  EXPECT_FALSE(cache_.commit_of("o/other", "main"));
  EXPECT_FALSE(cache_.commit_of("o/r", std::string(40, '2')));
  const auto files = cache_.files("o/r", kCommit);
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].path, "a/m.gguf");
  EXPECT_EQ(files[0].size, 5U);
  EXPECT_EQ(cache_.repositories(), std::vector<std::string>{"o/r"});
  EXPECT_EQ(cache_.commits("o/r"), std::vector<std::string>{kCommit});
}

TEST_F(CacheTest, AnotherBlobTakesTheLinksPlace) {
  const std::string other(64, 'b');
  put(cache_.blob("o/r", kHash), "old");
  put(cache_.blob("o/r", other), "newer");
  ASSERT_TRUE(cache_.link("o/r", kCommit, "m.gguf", kHash));
  ASSERT_TRUE(cache_.link("o/r", kCommit, "m.gguf", other));
  EXPECT_EQ(text(cache_.pointer("o/r", kCommit, "m.gguf")), "newer");
}

TEST_F(CacheTest, PassesOverWhatIsBroken) {
  put(cache_.folder() / "models--o--r/refs/main", "no commit");
  put(cache_.folder() / "models--o--r/snapshots/not-a-commit/m.gguf", "x");
  put(cache_.folder() / "datasets--o--r/refs/main", kCommit);
  fs::create_directories(cache_.pointer("o/r", kCommit, "x").parent_path());
  fs::create_symlink("../../blobs/gone", cache_.pointer("o/r", kCommit, "gone.gguf"));
  EXPECT_FALSE(cache_.commit_of("o/r", "main"));
  EXPECT_TRUE(cache_.files("o/r", kCommit).empty());
  EXPECT_EQ(cache_.commits("o/r"), std::vector<std::string>{kCommit});
  EXPECT_EQ(cache_.repositories(), std::vector<std::string>{"o/r"});
  const Cache nowhere("/proc/nonexistent");
  EXPECT_TRUE(nowhere.repositories().empty());
  EXPECT_FALSE(nowhere.set_commit("o/r", "main", kCommit));
  EXPECT_FALSE(nowhere.link("o/r", kCommit, "m.gguf", kHash));
}

}  // namespace
}  // namespace tenon::hub
