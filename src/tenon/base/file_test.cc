#include "tenon/base/file.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace tenon {
namespace {

class ReadFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "tenon_file_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(ReadFile, GivesEveryByteOfFilesOfAnySize) {
  for (const std::size_t size : {0, 1, 4095, 4096, 4097, 8192, 100'000}) {
    std::string bytes;
    for (std::size_t i = 0; i < size; ++i) bytes.push_back(static_cast<char>(i * 31 % 256));
    const auto path = folder_ / std::to_string(size);
    std::ofstream(path, std::ios::binary) << bytes;
    EXPECT_EQ(read_file(path, size), bytes);
    if (size > 0) {
      EXPECT_EQ(read_file(path, size - 1).error(),
                (Error{Errc::limit_exceeded,
                       path.string() + ": larger than " + std::to_string(size - 1) + " bytes"}));
    }
  }
}

TEST_F(ReadFile, NamesThePathAndTheReason) {
  const auto missing = folder_ / "missing";
  EXPECT_EQ(read_file(missing, 10).error(),
            (Error{Errc::unavailable, missing.string() + ": No such file or directory"}));
  EXPECT_EQ(read_file(folder_, 10).error(),
            (Error{Errc::unavailable, folder_.string() + ": Is a directory"}));
}

TEST_F(ReadFile, StopsInTheMiddleOfAnEndlessFile) {
  EXPECT_EQ(read_file("/dev/zero", 1 << 20).error().code, Errc::limit_exceeded);
}

}  // namespace
}  // namespace tenon
