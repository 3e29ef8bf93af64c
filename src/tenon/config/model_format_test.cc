#include "tenon/config/model_format.h"

#include <filesystem>
#include <fstream>
#include <string_view>

#include <gtest/gtest.h>

#include "tenon/base/ids.h"

namespace tenon::config {
namespace {

namespace fs = std::filesystem;

/// A folder that the process runs in as long as this is there.
class CurrentFolder {
 public:
  CurrentFolder()
      : before_(fs::current_path()), path_(fs::temp_directory_path() / random_id("tenon_cwd_")) {
    fs::create_directory(path_);
    fs::current_path(path_);
  }
  ~CurrentFolder() {
    std::error_code ignored;
    fs::current_path(before_, ignored);
    fs::remove_all(path_, ignored);
  }
  CurrentFolder(const CurrentFolder&) = delete;
  CurrentFolder& operator=(const CurrentFolder&) = delete;

 private:
  const fs::path before_;
  const fs::path path_;
};

// A model of a server has no folder, and takes nothing from the one that the process runs in.
TEST(ModelFormat, NoFolderIsNotTheCurrentOne) {
  const CurrentFolder folder;
  std::ofstream("generation_config.json") << R"({"eos_token_id": [7, 9]})";
  std::ofstream("genai_config.json") << "no JSON";
  std::ofstream("tokenizer_config.json") << R"({"response_template": "x"})";
  EXPECT_EQ(declared_ends("."), (std::vector<std::int32_t>{7, 9}));
  EXPECT_FALSE(declared_format(".", ""));
  EXPECT_TRUE(declared_ends("").empty());
  const auto declared = declared_format("", "");
  ASSERT_TRUE(declared) << declared.error().message;
  EXPECT_EQ(declared->format, nullptr);
  EXPECT_EQ(imported_format(""), nullptr);
}

TEST(ModelFormat, AFileIsInAFolder) {
  const CurrentFolder folder;
  fs::create_directory("model");
  const struct {
    std::string_view path;
    std::string_view folder;
  } rows[] = {{"", ""},   {"a.gguf", "."},           {"model", "model"},
              {".", "."}, {"model/a.gguf", "model"}, {"/nowhere/a.gguf", "/nowhere"}};
  for (const auto& row : rows) {
    EXPECT_EQ(folder_of(std::string(row.path)), row.folder) << row.path;
  }
}

}  // namespace
}  // namespace tenon::config
