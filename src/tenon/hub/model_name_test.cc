#include "tenon/hub/model_name.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::hub {
namespace {

struct HubRow {
  std::string_view text;
  HubName name;
};

TEST(HubName, IsReadAsItIsTyped) {
  const HubRow rows[] = {
      {"owner/repo", {"owner/repo", "main", ""}},
      {"hf:owner/repo", {"owner/repo", "main", ""}},
      {"hf.co/owner/repo:Q8_0", {"owner/repo", "main", "Q8_0"}},
      {"https://huggingface.co/o/r.v1-GGUF:Q4_K_M", {"o/r.v1-GGUF", "main", "Q4_K_M"}},
      {"hf:https://hf.co/o/r", {"o/r", "main", ""}},
      {"o/r@v1.0", {"o/r", "v1.0", ""}},
      {"o/r@refs/pr/1:sub/file-Q8_0.gguf", {"o/r", "refs/pr/1", "sub/file-Q8_0.gguf"}},
  };
  for (const HubRow& row : rows) {
    const auto name = parse_hub_name(row.text);
    ASSERT_TRUE(name) << row.text << ": " << name.error().message;
    EXPECT_TRUE(*name == row.name) << row.text << " gave " << name->text();
    const auto again = parse_hub_name(name->text());
    ASSERT_TRUE(again);
    EXPECT_TRUE(*again == *name) << row.text;
  }
}

TEST(HubName, RefusesWhatCouldBeAnotherPath) {
  for (const std::string_view text :
       {"",       "repo",  "/repo",  "owner/",      "a/b/c",    "../etc",   "a/..",
        "./a",    "a/.b",  "a/b@",   "a/b:",        "a/b@../x", "a/b@x//y", "a/b@/x",
        "a--b/c", "a/b c", "a/b\n",  "-a/b",        "a/b?c",    "a/b#c",    "a/b%2f",
        "a\\b/c", "hf:",   "a/b:\t", "a/b:x y.gguf"}) {
    const auto name = parse_hub_name(text);
    ASSERT_FALSE(name) << text;
    EXPECT_EQ(name.error().code, Errc::invalid);
  }
  EXPECT_FALSE(parse_hub_name("o/" + std::string(97, 'a')));
}

struct OllamaNameRow {
  std::string_view text;
  OllamaName name;
  std::string_view written;
};

TEST(OllamaName, IsReadAsOllamaDoes) {
  const OllamaNameRow rows[] = {
      {"llama3", {"registry.ollama.ai", "library", "llama3", "latest"}, "llama3:latest"},
      {"ollama:qwen2.5:0.5b", {"registry.ollama.ai", "library", "qwen2.5", "0.5b"}, "qwen2.5:0.5b"},
      {"me/mine", {"registry.ollama.ai", "me", "mine", "latest"}, "me/mine:latest"},
      {"hf.co/o/r:Q8_0", {"hf.co", "o", "r", "Q8_0"}, "hf.co/o/r:Q8_0"},
      {"host:5000/o/r", {"host:5000", "o", "r", "latest"}, "host:5000/o/r:latest"},
  };
  for (const OllamaNameRow& row : rows) {
    const auto name = parse_ollama_name(row.text);
    ASSERT_TRUE(name) << row.text << ": " << name.error().message;
    EXPECT_TRUE(*name == row.name) << row.text;
    EXPECT_EQ(name->text(), row.written);
  }
  for (const std::string_view text : {"", "ollama:", "..", "a/..", "../a/b", "a:..",
                                      "a:", "a/b/c/d", "a:b:c", "a b", "/a", "a/"}) {
    EXPECT_FALSE(parse_ollama_name(text)) << text;
  }
}

TEST(ModelName, IsToldFromAPathByItsPrefix) {
  EXPECT_TRUE(is_model_name("hf:o/r"));
  EXPECT_TRUE(is_model_name("ollama:llama3"));
  EXPECT_TRUE(is_hub_name("hf:o/r"));
  EXPECT_FALSE(is_hub_name("ollama:llama3"));
  for (const std::string_view path : {"", "o/r", "hf/x.gguf", "/hf:o/r", "model.gguf"}) {
    EXPECT_FALSE(is_model_name(path)) << path;
  }
}

}  // namespace
}  // namespace tenon::hub
