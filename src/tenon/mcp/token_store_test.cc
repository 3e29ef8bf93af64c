#include "tenon/mcp/token_store.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tenon/base/ids.h"

namespace tenon::mcp {
namespace {

namespace fs = std::filesystem;

/// A folder that is removed at the end.
struct Folder {
  fs::path path = fs::temp_directory_path() / random_id("tenon-store-", 8);
  ~Folder() { fs::remove_all(path); }
};

auto soon() {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
}

Status keep(const TokenStore& store, const std::string& url, const Grant& grant) {
  return store.alone(soon(), {}, [&] { return store.keep(url, grant); });
}

TEST(TokenStore, GivesBackWhatItKeepsAndOnlyToTheUser) {
  const Folder folder;
  const fs::path file = folder.path / "state" / "tokens.json";
  const TokenStore store(file);
  EXPECT_EQ(store.find("https://a/mcp").value(), std::nullopt);
  ASSERT_TRUE(keep(store, "https://a/mcp",
                   {.issuer = "https://as",
                    .client_id = "c",
                    .redirect_port = 8123,
                    .scope = "read",
                    .access_token = "A",
                    .refresh_token = "R"}));
  ASSERT_TRUE(keep(store, "https://b/mcp", {.access_token = "B"}));
  const auto kept = store.find("https://a/mcp");
  ASSERT_TRUE(kept && *kept);
  EXPECT_EQ((*kept)->issuer, "https://as");
  EXPECT_EQ((*kept)->redirect_port, 8123);
  EXPECT_EQ((*kept)->scope, "read");
  EXPECT_EQ((*kept)->refresh_token, "R");
  struct stat state{};
  ASSERT_EQ(::stat(file.c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat(file.parent_path().c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 0777U, 0700U);
  EXPECT_EQ(store.forget("https://a/mcp").value(), true);
  EXPECT_EQ(store.forget("https://a/mcp").value(), false);
  EXPECT_EQ((**store.find("https://b/mcp")).access_token, "B");
}

TEST(TokenStore, RefusesAFileThatOthersReadOrThatIsNone) {
  const Folder folder;
  const fs::path file = folder.path / "tokens.json";
  const TokenStore store(file);
  ASSERT_TRUE(keep(store, "https://a/mcp", {.access_token = "SECRET"}));
  ::chmod(file.c_str(), 0644);
  const auto open = store.find("https://a/mcp");
  ASSERT_FALSE(open);
  EXPECT_NE(open.error().message.find("chmod 600"), std::string::npos) << open.error().message;
  EXPECT_EQ(open.error().message.find("SECRET"), std::string::npos);
  EXPECT_FALSE(keep(store, "https://a/mcp", {}));
  ::chmod(file.c_str(), 0600);
  std::ofstream(file) << "{\"grants\": 5, \"SECRET\": 1}";
  const auto broken = store.find("https://a/mcp");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, Errc::invalid);
  EXPECT_EQ(broken.error().message.find("SECRET"), std::string::npos);
}

TEST(TokenStore, OneProcessAtATimeRenews) {
  const Folder folder;
  const TokenStore store(folder.path / "tokens.json");
  const Status outer = store.alone(soon(), {}, [&]() -> Status {
    const Status inner = store.alone(soon(), {}, []() -> Status { return {}; });
    EXPECT_FALSE(inner);
    return {};
  });
  EXPECT_TRUE(outer);
  EXPECT_TRUE(store.alone(soon(), {}, []() -> Status { return {}; }));
}

TEST(TokenStore, WithoutAFileNothingIsKept) {
  const TokenStore store("");
  EXPECT_TRUE(keep(store, "https://a/mcp", {.access_token = "A"}));
  EXPECT_EQ(store.find("https://a/mcp").value(), std::nullopt);
}

}  // namespace
}  // namespace tenon::mcp
