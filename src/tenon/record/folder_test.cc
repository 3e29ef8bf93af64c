#include "tenon/record/folder.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include "tenon/base/descriptor.h"
#include "tenon/base/ids.h"

namespace tenon::record {
namespace {

namespace fs = std::filesystem;

TEST(Folder, NamesAreThoseThatAreGiven) {
  const auto name = [](std::string_view id) {
    const Name given = name_of(1'796'033'700'042'999, id);
    return given.day + "/" + given.file;
  };
  EXPECT_EQ(name("resp_1"), "2026-11-30/101500-042-resp_1.jsonl");
  EXPECT_EQ(name("../a b"), "2026-11-30/101500-042-ab.jsonl");
  EXPECT_EQ(name(std::string(100, 'a')).size(), std::string(name("")).size() + 80);
  for (const std::string_view id : {"resp_1", "../a b", "", "Z-9"}) {
    EXPECT_TRUE(is_name(name(id))) << id;
  }
  for (const std::string_view other :
       {"", "/", "2026-11-30", "2026-11-30/", "2026-11-30/.jsonl", "2026-11-30/1-a.jsonl",
        "2026-11-30/101500-042.jsonl", "2026-11-30/101500-042-a.b.jsonl",
        "2026-11-30/101500-042-a.txt", "2026-11-30/101500-042-a/b.jsonl",
        "datasets-1/101500-042-a.jsonl", "x/2026-11-30/101500-042-a.jsonl",
        "2026-11-3x/101500-042-a.jsonl", "../2026-11-30/101500-042-a.jsonl"}) {
    EXPECT_FALSE(is_name(other)) << other;
  }
}

TEST(Folder, AFileIsBeingWrittenWhileItIsLocked) {
  const std::string path = (fs::temp_directory_path() / random_id("tenon_folder_")).string();
  std::ofstream(path) << "x";
  const Descriptor reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(is_being_written(reader.get()));
  {
    const Descriptor writer(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(::flock(reader.get(), LOCK_UN), 0);
    ASSERT_EQ(::flock(writer.get(), LOCK_EX | LOCK_NB), 0);
    EXPECT_TRUE(is_being_written(reader.get()));
  }
  EXPECT_FALSE(is_being_written(reader.get()));
  // A path without a file behind it cannot be locked, like files of some file systems.
  const Descriptor no_locks(::open(path.c_str(), O_PATH | O_CLOEXEC));
  EXPECT_TRUE(is_being_written(no_locks.get()));
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::minutes(2));
  EXPECT_FALSE(is_being_written(no_locks.get()));
  fs::remove(path);
}

}  // namespace
}  // namespace tenon::record
