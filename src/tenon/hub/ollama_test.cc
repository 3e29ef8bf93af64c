#include "tenon/hub/ollama.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon::hub {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string kOllamaHash(64, 'a');

std::string layer(std::string_view type, std::string_view digest, std::string_view size) {
  return R"({"mediaType":"application/vnd.ollama.image.)" + std::string(type) + R"(","digest":")" +
         std::string(digest) + R"(","size":)" + std::string(size) + "}";
}

std::string manifest(const std::string& layers) {
  return R"({"schemaVersion":2,"layers":[)" + layers + "]}";
}

class OllamaTest : public ::testing::Test {
 protected:
  OllamaTest() { fs::remove_all(store_); }
  ~OllamaTest() override { fs::remove_all(store_); }
  void put(const std::string& path, const std::string& bytes) {
    fs::create_directories((store_ / path).parent_path());
    std::ofstream(store_ / path) << bytes;
  }

  const fs::path store_ = fs::path(::testing::TempDir()) / "tenon_ollama_test";
};

TEST_F(OllamaTest, FindsAndListsModels) {
  put("blobs/sha256-" + kOllamaHash, "GGUF!");
  const std::string good = manifest(layer("template", "sha256:" + std::string(64, 'b'), "1") + "," +
                                    layer("model", "sha256:" + kOllamaHash, "5"));
  put("manifests/registry.ollama.ai/library/llama3/latest", good);
  put("manifests/registry.ollama.ai/me/mine/v1", good);
  put("manifests/hf.co/o/r/Q8_0", good);
  put("manifests/registry.ollama.ai/library/broken/latest", "{");
  for (const char* text : {"llama3", "ollama:llama3:latest", "me/mine:v1", "hf.co/o/r:Q8_0"}) {
    const auto found = find_ollama_model(*parse_ollama_name(text), {"/nowhere", store_});
    ASSERT_TRUE(found) << text << ": " << found.error().message;
    EXPECT_EQ(found->location, store_ / "blobs" / ("sha256-" + kOllamaHash));
    EXPECT_EQ(found->size, 5U);
  }
  std::string names;
  for (const OllamaModel& model : list_ollama_models({store_, "/nowhere"}))
    names += model.name + " ";
  EXPECT_EQ(names, "hf.co/o/r:Q8_0 llama3:latest me/mine:v1 ");
}

struct OllamaRow {
  const char* name;
  std::string manifest;
  const char* says;
};

TEST_F(OllamaTest, SaysWhatIsWrongWithAManifest) {
  put("blobs/sha256-" + kOllamaHash, "GGUF!");
  const std::string one = layer("model", "sha256:" + kOllamaHash, "5");
  const OllamaRow rows[] = {
      {"NoJson", "[1", "is no JSON"},
      {"NoLayers", "{}", "has no layers"},
      {"NoModel", manifest(layer("license", "sha256:" + kOllamaHash, "5")), "has no model"},
      {"Shards", manifest(one + "," + one), "several files"},
      {"Gone", manifest(layer("model", "sha256:" + std::string(64, 'c'), "5")), "No such file"},
      {"Cut", manifest(layer("model", "sha256:" + kOllamaHash, "6")), "has 6 bytes, and it has 5"},
      {"Path", manifest(layer("model", "sha256:../../etc/passwd", "5")), "a malformed digest"},
      {"OtherHash", manifest(layer("model", "sha512:" + kOllamaHash, "5")), "a malformed digest"},
  };
  for (const OllamaRow& row : rows) {
    put("manifests/registry.ollama.ai/library/m/latest", row.manifest);
    const auto found = find_ollama_model(*parse_ollama_name("m"), {store_});
    ASSERT_FALSE(found) << row.name;
    EXPECT_EQ(found.error().code, Errc::invalid) << row.name;
    EXPECT_THAT(found.error().message, HasSubstr(row.says)) << row.name;
    EXPECT_THAT(found.error().message, HasSubstr("ollama pull m:latest")) << row.name;
  }
}

TEST_F(OllamaTest, NamesThePlacesThatWereTried) {
  const auto found = find_ollama_model(*parse_ollama_name("m:7b"), {"/nowhere", store_});
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("/nowhere, " + store_.string()));
  EXPECT_THAT(found.error().message, HasSubstr("ollama pull m:7b"));
}

}  // namespace
}  // namespace tenon::hub
