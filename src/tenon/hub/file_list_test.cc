#include "tenon/hub/file_list.h"

#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon::hub {
namespace {

using ::testing::HasSubstr;

struct NameRow {
  std::string_view path;
  std::string_view quantisation;
};

TEST(Quantisation, IsReadFromTheName) {
  const NameRow rows[] = {
      {"Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf", "Q4_K_M"},
      {"qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "Q4_K_M"},
      {"SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"},
      {"model-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"},
      {"UD-IQ2_XXS/model-UD-IQ2_XXS-00001-of-00002.gguf", "UD-IQ2_XXS"},
      {"gpt-oss-20b-mxfp4.gguf", "MXFP4"},
      {"gpt-oss-20b-MXFP4_MOE.gguf", "MXFP4_MOE"},
      {"gemma-3-270m-it-qat-Q4_0.gguf", "Q4_0"},
      {"Llama-3.2-1B-Instruct-Q4_0_4_4.gguf", "Q4_0_4_4"},
      {"phi-2.IQ3_XXS.gguf", "IQ3_XXS"},
      {"model-f16.gguf", "F16"},
      {"model.fp16.gguf", "F16"},
      {"model-BF16-00002-of-00003.gguf", "BF16"},
      {"llama_3_8b_Q5_K_S.gguf", "Q5_K_S"},
      {"Q8_0-bench.Q2_K_L.GGUF", "Q2_K_L"},
      {"bitnet-TQ1_0.gguf", "TQ1_0"},
      {"Qwen3-4B.gguf", ""},
      {"Q-star-7b.gguf", ""},
      {"q9_model.gguf", ""},
      {"claude-UDQ4_K_M.gguf", ""},
      {"Q4_K_M/model.gguf", ""},
      {"ggml-model-q4_0.gguf", "Q4_0"},
      {"model.i1-Q4_K_M.gguf", "Q4_K_M"},
  };
  for (const NameRow& row : rows) {
    EXPECT_EQ(quantisation_of(row.path), row.quantisation) << row.path;
  }
}

TEST(Shard, IsReadFromTheName) {
  const auto is = [](std::string_view path, std::string_view stem, unsigned number,
                     unsigned count) {
    const Shard shard = shard_of(path);
    EXPECT_EQ(shard.stem, stem) << path;
    EXPECT_EQ(shard.number, number) << path;
    EXPECT_EQ(shard.count, count) << path;
  };
  is("a/m-00002-of-00003.gguf", "a/m", 2, 3);
  is("m.gguf", "m", 1, 1);
  is("m-00000-of-00003.gguf", "m-00000-of-00003", 1, 1);
  is("m-00004-of-00003.gguf", "m-00004-of-00003", 1, 1);
  is("m-0000x-of-00003.gguf", "m-0000x-of-00003", 1, 1);
  is("-00001-of-00001.gguf", "-00001-of-00001", 1, 1);
  is("00002-of-00003.gguf", "00002-of-00003", 1, 1);
}

struct ChoiceRow {
  const char* name;
  std::vector<std::string> files;
  std::string wanted;
  std::vector<std::string> chosen;  // empty: it is refused
  std::string says = "";            // a part of the refusal
};

TEST(Choose, TakesTheModelThatIsMeant) {
  const ChoiceRow rows[] = {
      {"Only", {"m.gguf"}, "", {"m.gguf"}},
      {"OnlyWhateverItsBits", {"m.Q2_K.gguf"}, "", {"m.Q2_K.gguf"}},
      {"Default", {"m-Q8_0.gguf", "m-Q4_K_M.gguf", "m-Q2_K.gguf"}, "", {"m-Q4_K_M.gguf"}},
      {"NextBest", {"m-Q8_0.gguf", "m-Q2_K.gguf", "m-F16.gguf"}, "", {"m-Q8_0.gguf"}},
      {"Named", {"m-Q8_0.gguf", "m-Q4_K_M.gguf"}, "q8_0", {"m-Q8_0.gguf"}},
      {"OldNameOfF16", {"m-f16.gguf", "m-Q4_K_M.gguf"}, "FP16", {"m-f16.gguf"}},
      {"DynamicWithoutItsPrefix",
       {"m-UD-Q4_K_XL.gguf", "m-Q8_0.gguf"},
       "Q4_K_XL",
       {"m-UD-Q4_K_XL.gguf"}},
      {"PlainBeforeDynamic",
       {"m-UD-Q4_K_XL.gguf", "m-Q4_K_XL.gguf"},
       "Q4_K_XL",
       {"m-Q4_K_XL.gguf"}},
      {"ProjectorsAreNoModels",
       {"mmproj-model-f16.gguf", "m-Q4_K_M.gguf", "m.imatrix.gguf"},
       "",
       {"m-Q4_K_M.gguf"}},
      {"Shards",
       {"b/m-Q8_0-00002-of-00002.gguf", "b/m-Q8_0-00001-of-00002.gguf", "m-Q4_K_M.gguf"},
       "Q8_0",
       {"b/m-Q8_0-00001-of-00002.gguf", "b/m-Q8_0-00002-of-00002.gguf"}},
      {"Path", {"a/m-Q8_0.gguf", "b/m-Q8_0.gguf"}, "b/m-Q8_0.gguf", {"b/m-Q8_0.gguf"}},
      {"FileName", {"a/m-Q8_0.gguf", "b/n-Q8_0.gguf"}, "n-Q8_0.gguf", {"b/n-Q8_0.gguf"}},
      {"OneShardMeansAll",
       {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"},
       "m-00002-of-00002.gguf",
       {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}},
      {"NoFile", {}, "", {}, "no GGUF file"},
      {"OnlyProjectors", {"mmproj-f16.gguf"}, "", {}, "no GGUF file"},
      {"NoSuch", {"m-Q8_0.gguf", "m-Q4_K_M.gguf"}, "Q5_K_M", {}, "there are Q4_K_M, Q8_0"},
      {"TwoModels", {"a-Q8_0.gguf", "b-Q8_0.gguf"}, "Q8_0", {}, "a-Q8_0.gguf, b-Q8_0.gguf"},
      {"TwoModelsByDefault",
       {"a-Q4_K_M.gguf", "b-Q4_K_M.gguf"},
       "",
       {},
       "several models of Q4_K_M"},
      {"NoneOfTheUsual", {"a.gguf", "b.gguf"}, "", {}, "there are a.gguf, b.gguf"},
      {"ShardMissing", {"m-00001-of-00003.gguf", "m-00003-of-00003.gguf"}, "", {}, "file 2 of 3"},
      {"LastShardMissing", {"m-00001-of-00002.gguf"}, "", {}, "file 2 of 2"},
  };
  for (const ChoiceRow& row : rows) {
    std::vector<RemoteFile> files;
    for (const std::string& path : row.files) files.push_back({.path = path, .size = 1});
    const auto choice = choose(files, row.wanted, "owner/repo");
    std::vector<std::string> chosen;
    if (choice) {
      for (const RemoteFile& file : choice->files) chosen.push_back(file.path);
    } else {
      EXPECT_EQ(choice.error().code, Errc::invalid);
      EXPECT_THAT(choice.error().message, HasSubstr(row.says)) << row.name;
      EXPECT_THAT(choice.error().message, HasSubstr("owner/repo")) << row.name;
    }
    EXPECT_EQ(chosen, row.chosen) << row.name;
  }
}

const std::string kListedHash(64, 'a');

std::string entry(std::string_view path, std::string_view size = "5",
                  std::string_view hash = kListedHash, std::string_view type = "file") {
  return R"({"type":")" + std::string(type) + R"(","path":)" + json::quoted(path) +
         R"(,"size":135,"oid":"bb","lfs":{"oid":")" + std::string(hash) + R"(","size":)" +
         std::string(size) + R"(,"pointerSize":1}})";
}

TEST(FileList, TakesTheGgufFiles) {
  const auto page = json::parse("[" + entry("a/b-Q8_0.gguf", "7") + "," + entry("README.md") + "," +
                                entry("dir.gguf", "0", kListedHash, "directory") +
                                R"(,{"type":"file","path":"small.gguf","size":3,"oid":")" +
                                std::string(40, 'c') + R"("},{"type":"file","path":"../x.bin"}])");
  ASSERT_TRUE(page);
  std::vector<RemoteFile> files;
  const Status taken = append_files(*page, files);
  ASSERT_TRUE(taken) << taken.error().message;
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].path, "a/b-Q8_0.gguf");
  EXPECT_EQ(files[0].size, 7U);
  EXPECT_EQ(files[0].blob(), kListedHash);
  EXPECT_EQ(files[1].sha256, "");
  EXPECT_EQ(files[1].blob(), std::string(40, 'c'));
}

TEST(FileList, RefusesWhatAHubNeverSays) {
  const std::string pages[] = {
      "{}",
      "7",
      "[" + entry("../x.gguf") + "]",
      "[" + entry("a/../../x.gguf") + "]",
      "[" + entry("/etc/x.gguf") + "]",
      "[" + entry("a//x.gguf") + "]",
      "[" + entry("./x.gguf") + "]",
      "[" + entry("a\\..\\x.gguf") + "]",
      "[" + entry(std::string_view("a\0b.gguf", 8)) + "]",
      "[" + entry("a\nb.gguf") + "]",
      "[" + entry(std::string(300, 'a') + ".gguf") + "]",
      "[" + entry("x.gguf", "-1") + "]",
      "[" + entry("x.gguf", "1.5") + "]",
      "[" + entry("x.gguf", "1e30") + "]",
      "[" + entry("x.gguf", "\"5\"") + "]",
      "[" + entry("x.gguf", "5", "abc") + "]",
      "[" + entry("x.gguf", "5", "../../../../" + std::string(52, 'a')) + "]",
      "[" + entry("x.gguf", "5", std::string(64, 'A')) + "]",
      "[" + entry("x.gguf") + "," + entry("x.gguf") + "]",
      R"([{"type":"file","path":"x.gguf","size":1,"oid":"short"}])",
      R"([{"type":"file","path":"x.gguf","size":1}])",
  };
  for (const std::string& text : pages) {
    const auto page = json::parse(text);
    ASSERT_TRUE(page) << text;
    std::vector<RemoteFile> files;
    const Status taken = append_files(*page, files);
    ASSERT_FALSE(taken) << text;
    EXPECT_EQ(taken.error().code, Errc::invalid) << text;
  }
}

TEST(FileList, RefusesAFileThatComesOnTwoPages) {
  const auto page = json::parse("[" + entry("x.gguf") + "]");
  std::vector<RemoteFile> files;
  EXPECT_TRUE(append_files(*page, files));
  EXPECT_FALSE(append_files(*page, files));
}

}  // namespace
}  // namespace tenon::hub
