#include "tenon/store/response_store.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tenon::store {
namespace {

namespace fs = std::filesystem;

/// A folder for one test.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "tenon_store_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(std::string_view name = "tenon.db") const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

std::unique_ptr<ResponseStore> opened(StoreOptions options = {}) {
  auto store = ResponseStore::open(std::move(options));
  EXPECT_TRUE(store) << (store ? "" : store.error().message);
  return store ? *std::move(store) : nullptr;
}

std::string found(ResponseStore& store, std::string_view id) {
  const auto document = store.get(id);
  EXPECT_TRUE(document) << (document ? "" : document.error().message);
  return document ? document->value_or("(none)") : "(failed)";
}

std::string refusal(const std::string& path) {
  const auto store = ResponseStore::open({.path = path});
  if (store) return "(opened)";
  EXPECT_EQ(store.error().code, Errc::invalid);
  EXPECT_NE(store.error().message.find(path), std::string::npos) << store.error().message;
  return store.error().message;
}

TEST(ResponseStore, GivesBackWhatItWasGiven) {
  const auto store = opened();
  const std::string bytes("a\0b\"'\xc3\xa9", 8);
  EXPECT_TRUE(store->put("resp_1", bytes));
  EXPECT_TRUE(store->put("resp_2", ""));
  EXPECT_EQ(found(*store, "resp_1"), bytes);
  EXPECT_EQ(found(*store, "resp_2"), "");
  EXPECT_EQ(found(*store, "resp_3"), "(none)");
  EXPECT_TRUE(store->put("resp_1", "anew"));
  EXPECT_EQ(found(*store, "resp_1"), "anew");
  EXPECT_EQ(store->size()->documents, 2u);
  EXPECT_TRUE(*store->erase("resp_1"));
  EXPECT_FALSE(*store->erase("resp_1"));
  EXPECT_EQ(found(*store, "resp_1"), "(none)");
}

TEST(ResponseStore, OutlivesTheProcessInAFileThatIsItsOwnersOnly) {
  const Folder folder;
  const std::string path = folder.file();
  {
    EXPECT_TRUE(opened({.path = path})->put("a", "kept"));
  }
  EXPECT_EQ(found(*opened({.path = path}), "a"), "kept");
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

struct LimitRow {
  std::string_view name;
  StoreOptions options;
  // Which of a, b and c are kept; each has 10 bytes, and they are put in this order.
  std::string_view kept;
};

const LimitRow kLimits[] = {
    {"Enough", {}, "abc"},
    {"Documents", {.max_documents = 2}, "bc"},
    {"OneDocument", {.max_documents = 1}, "c"},
    {"Bytes", {.max_bytes = 20}, "bc"},
    {"BytesJustNot", {.max_bytes = 29}, "bc"},
    {"BytesJust", {.max_bytes = 30}, "abc"},
};

TEST(ResponseStore, TheOldestMakeRoomForTheNewest) {
  for (const LimitRow& row : kLimits) {
    const auto store = opened(row.options);
    for (const std::string id : {"a", "b", "c"}) EXPECT_TRUE(store->put(id, "123456789"));
    std::string kept;
    for (const std::string id : {"a", "b", "c"}) {
      if (found(*store, id) == "123456789") kept += id;
    }
    EXPECT_EQ(kept, row.kept) << row.name;
    EXPECT_EQ(store->size()->documents, kept.size()) << row.name;
    EXPECT_EQ(store->size()->bytes, kept.size() * 10) << row.name;
  }
}

TEST(ResponseStore, RefusesWhatCannotEverFit) {
  const auto store = opened({.max_bytes = 20});
  EXPECT_TRUE(store->put("a", "small"));
  const Status refused = store->put("b", std::string(20, 'x'));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::limit_exceeded);
  EXPECT_EQ(found(*store, "a"), "small");
}

TEST(ResponseStore, TighterLimitsHoldFromTheOpening) {
  const Folder folder;
  {
    const auto store = opened({.path = folder.file()});
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(store->put("id" + std::to_string(i), "x"));
  }
  const auto store = opened({.path = folder.file(), .max_documents = 10});
  EXPECT_EQ(store->size()->documents, 10u);
  EXPECT_EQ(found(*store, "id90"), "x");
  EXPECT_EQ(found(*store, "id89"), "(none)");
}

TEST(ResponseStore, WhatIsTooOldIsGone) {
  std::int64_t now = 1000;
  const auto store = opened({.ttl = std::chrono::seconds(60), .now = [&now] { return now; }});
  EXPECT_TRUE(store->put("a", "1"));
  now = 1030;
  EXPECT_TRUE(store->put("b", "2"));
  now = 1059;
  EXPECT_EQ(found(*store, "a"), "1");
  now = 1060;
  EXPECT_EQ(found(*store, "a"), "(none)");
  EXPECT_FALSE(*store->erase("a"));
  EXPECT_EQ(found(*store, "b"), "2");
  now = 2000;
  EXPECT_TRUE(store->put("c", "3"));
  EXPECT_EQ(store->size()->documents, 1u) << "the expired are swept";
}

TEST(ResponseStore, WhatIsTouchedIsAsNewAsIfItWerePutAgain) {
  std::int64_t now = 1000;
  const auto store =
      opened({.max_documents = 2, .ttl = std::chrono::seconds(10), .now = [&now] { return now; }});
  EXPECT_TRUE(store->put("a", "1"));
  EXPECT_TRUE(store->put("b", "2"));
  now = 1008;
  EXPECT_EQ(store->touch("a"), Expected<bool>(true));
  EXPECT_EQ(store->touch("nobody"), Expected<bool>(false));
  EXPECT_TRUE(store->put("c", "3"));  // there is room for two
  EXPECT_EQ(store->get("b")->has_value(), false);
  now = 1015;
  EXPECT_EQ(store->get("a")->value_or(""), "1");
  EXPECT_EQ(store->size()->documents, 2u);
  now = 1018;
  EXPECT_EQ(store->touch("a"), Expected<bool>(false));
}

// ---- files that are not as they should be

void run_sql(const std::string& path, const char* sql) {
  sqlite3* connection = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &connection), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(connection, sql, nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(connection);
  sqlite3_close(connection);
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(ResponseStore, RefusesForeignFilesAndLeavesThemAlone) {
  const Folder folder;
  const std::string text = folder.file("letter.txt");
  std::ofstream(text) << std::string(5000, 'x');
  const std::string other = folder.file("other.db");
  run_sql(other, "CREATE TABLE songs(name TEXT)");
  const std::string newer = folder.file("newer.db");
  {
    EXPECT_TRUE(opened({.path = newer})->put("a", "1"));
  }
  run_sql(newer, "PRAGMA user_version = 1000");
  const struct {
    std::string path;
    std::string_view says;
  } rows[] = {{text, "not a database"}, {other, "another program's"}, {newer, "newer Tenon"}};
  for (const auto& row : rows) {
    const std::string before = bytes_of(row.path);
    EXPECT_NE(refusal(row.path).find(row.says), std::string::npos) << refusal(row.path);
    EXPECT_EQ(bytes_of(row.path), before) << row.path;
  }
}

TEST(ResponseStore, RefusesADamagedFileAndSaysWhatToDo) {
  const Folder folder;
  const std::string whole = folder.file();
  {
    const auto store = opened({.path = whole});
    for (int i = 0; i < 200; ++i) {
      EXPECT_TRUE(store->put("id" + std::to_string(i), std::string(500, 'x')));
    }
  }
  const std::string bytes = bytes_of(whole);
  ASSERT_GT(bytes.size(), 100'000u);
  const std::string cut = folder.file("cut.db");
  std::ofstream(cut, std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  EXPECT_NE(refusal(cut).find("move the file away"), std::string::npos) << refusal(cut);
  std::string scribbled = bytes;
  for (std::size_t i = 8192; i < 60'000; ++i) scribbled[i] = static_cast<char>(i * 7);
  const std::string spoilt = folder.file("spoilt.db");
  std::ofstream(spoilt, std::ios::binary) << scribbled;
  EXPECT_NE(refusal(spoilt).find("move the file away"), std::string::npos) << refusal(spoilt);
}

TEST(ResponseStore, SaysWhereItCannotWrite) {
  const auto store = ResponseStore::open({.path = "/nowhere/at/all/tenon.db"});
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Errc::unavailable);
  EXPECT_NE(store.error().message.find("/nowhere/at/all/tenon.db"), std::string::npos);
}

// ---- others at the same time, and sudden ends

TEST(ResponseStore, ServesManyThreadsAndTwoConnections) {
  const Folder folder;
  const auto first = opened({.path = folder.file(), .max_documents = 10'000});
  const auto second = opened({.path = folder.file(), .max_documents = 10'000});
  constexpr int kThreads = 4;
  constexpr int kEach = 50;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      ResponseStore& store = t % 2 == 0 ? *first : *second;
      for (int i = 0; i < kEach; ++i) {
        const std::string id = std::to_string(t) + "_" + std::to_string(i);
        EXPECT_TRUE(store.put(id, id));
        EXPECT_EQ(found(store, id), id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(first->size()->documents, static_cast<std::uint64_t>(kThreads * kEach));
  EXPECT_EQ(found(*first, "1_0"), "1_0");
}

TEST(ResponseStore, ChangesOneAfterTheOther) {
  const Folder folder;
  const auto first = opened({.path = folder.file(), .max_bytes = 1000});
  const auto second = opened({.path = folder.file(), .max_bytes = 1000});
  const auto one_more = [](std::optional<std::string> text) { return text.value_or("") + "x"; };
  constexpr int kEach = 50;
  std::vector<std::thread> threads;
  for (ResponseStore* store : {first.get(), second.get(), first.get()}) {
    threads.emplace_back([&, store] {
      for (int i = 0; i < kEach; ++i) EXPECT_TRUE(store->change("id", one_more));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found(*second, "id"), std::string(std::size_t{3} * kEach, 'x'));
  // Nothing, and what is too large, leave the document as it is.
  EXPECT_TRUE(first->change("id", [](const auto&) { return std::nullopt; }));
  const Status large = first->change("id", [](const auto&) { return std::string(1000, 'y'); });
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, Errc::limit_exceeded);
  EXPECT_EQ(found(*first, "id"), std::string(std::size_t{3} * kEach, 'x'));
}

std::string document_of(std::uint32_t i) {
  return std::string(100 + i % 5000, static_cast<char>('a' + i % 26));
}

// Puts one document after the other and reports each through `acknowledged`, until it is killed.
[[noreturn]] void write_until_killed(const std::string& path, int acknowledged) {
  auto store =
      ResponseStore::open({.path = path, .max_bytes = 1u << 30, .max_documents = 1u << 20});
  if (!store) ::_exit(1);
  for (std::uint32_t i = 0;; ++i) {
    if (!(*store)->put("id" + std::to_string(i), document_of(i))) ::_exit(2);
    if (::write(acknowledged, &i, sizeof i) != sizeof i) ::_exit(3);
  }
}

TEST(ResponseStore, WhatWasAcknowledgedSurvivesAKill) {
  for (const int kill_after : {1, 7, 60, 300}) {
    const Folder folder;
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(ends[0]);
      write_until_killed(folder.file(), ends[1]);
    }
    ::close(ends[1]);
    std::uint32_t last = 0;
    std::uint32_t count = 0;
    std::uint32_t i = 0;
    while (::read(ends[0], &i, sizeof i) == sizeof i) {
      last = i;
      if (++count == static_cast<std::uint32_t>(kill_after)) ::kill(child, SIGKILL);
    }
    ::close(ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    ASSERT_GE(count, static_cast<std::uint32_t>(kill_after));
    const auto store =
        opened({.path = folder.file(), .max_bytes = 1u << 30, .max_documents = 1u << 20});
    ASSERT_NE(store, nullptr);
    for (std::uint32_t each = 0; each <= last; ++each) {
      EXPECT_EQ(found(*store, "id" + std::to_string(each)), document_of(each)) << each;
    }
    EXPECT_TRUE(store->put("after", "wards"));
  }
}

}  // namespace
}  // namespace tenon::store
