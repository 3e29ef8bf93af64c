#include "tenon/hub/settings.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::hub {
namespace {

namespace fs = std::filesystem;

// The variables that matter; sets them for one test and restores them after it.
class Environment {
 public:
  explicit Environment(const std::vector<std::pair<std::string, std::string>>& variables) {
    for (const char* name :
         {"HOME", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN",
          "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_DISABLE_IMPLICIT_TOKEN", "HF_ENDPOINT",
          "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "OLLAMA_MODELS"}) {
      const char* const value = std::getenv(name);
      before_.emplace_back(name, value == nullptr ? "" : value);
      ::unsetenv(name);
    }
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    for (const auto& [name, value] : before_) {
      if (value.empty()) {
        ::unsetenv(name.c_str());
      } else {
        ::setenv(name.c_str(), value.c_str(), 1);
      }
    }
  }

 private:
  std::vector<std::pair<std::string, std::string>> before_;
};

struct SettingsRow {
  const char* name;
  std::vector<std::pair<std::string, std::string>> variables;
  std::string cache;
  std::string endpoint = "https://huggingface.co";
  std::string token;
  bool is_offline = false;
};

TEST(Settings, AreWhatTheEnvironmentSays) {
  const SettingsRow rows[] = {
      {.name = "Standard", .variables = {{"HOME", "/h"}}, .cache = "/h/.cache/huggingface/hub"},
      {.name = "Xdg",
       .variables = {{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}},
       .cache = "/x/huggingface/hub"},
      {.name = "HubHome",
       .variables = {{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}, {"HF_HOME", "~/hf"}},
       .cache = "/h/hf/hub"},
      {.name = "OldCache",
       .variables = {{"HOME", "/h"}, {"HF_HOME", "/a"}, {"HUGGINGFACE_HUB_CACHE", "/b"}},
       .cache = "/b"},
      {.name = "Cache",
       .variables = {{"HOME", "/h"}, {"HUGGINGFACE_HUB_CACHE", "/b"}, {"HF_HUB_CACHE", "/c"}},
       .cache = "/c"},
      {.name = "NoHome", .variables = {}, .cache = ""},
      {.name = "Endpoint",
       .variables = {{"HF_HUB_CACHE", "/c"}, {"HF_ENDPOINT", "http://localhost:1234/hub//"}},
       .cache = "/c",
       .endpoint = "http://localhost:1234/hub"},
      {.name = "Token",
       .variables = {{"HF_HUB_CACHE", "/c"}, {"HF_TOKEN", " hf_x\n"}},
       .cache = "/c",
       .token = "hf_x"},
      {.name = "OldToken",
       .variables = {{"HF_HUB_CACHE", "/c"}, {"HUGGING_FACE_HUB_TOKEN", "hf_old"}},
       .cache = "/c",
       .token = "hf_old"},
      {.name = "Offline",
       .variables = {{"HF_HUB_CACHE", "/c"}, {"HF_HUB_OFFLINE", "True"}},
       .cache = "/c",
       .is_offline = true},
      {.name = "Online",
       .variables = {{"HF_HUB_CACHE", "/c"}, {"HF_HUB_OFFLINE", "0"}},
       .cache = "/c"},
  };
  for (const SettingsRow& row : rows) {
    const Environment environment(row.variables);
    const auto settings = settings_from_environment();
    ASSERT_TRUE(settings) << row.name << ": " << settings.error().message;
    EXPECT_EQ(settings->cache, row.cache) << row.name;
    EXPECT_EQ(settings->endpoint, row.endpoint) << row.name;
    EXPECT_EQ(settings->token, row.token) << row.name;
    EXPECT_EQ(settings->is_offline, row.is_offline) << row.name;
  }
}

TEST(Settings, TakeTheTokenOfTheHubsOwnFile) {
  const fs::path folder = fs::path(::testing::TempDir()) / "hub_settings";
  fs::create_directories(folder);
  std::ofstream(folder / "token") << "hf_file\n";
  {
    const Environment environment({{"HF_HOME", folder.string()}});
    EXPECT_EQ(settings_from_environment()->token, "hf_file");
  }
  {
    const Environment environment({{"HF_HOME", folder.string()}, {"HF_TOKEN", "hf_first"}});
    EXPECT_EQ(settings_from_environment()->token, "hf_first");
  }
  {
    const Environment environment(
        {{"HF_HOME", folder.string()}, {"HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"}});
    EXPECT_EQ(settings_from_environment()->token, "");
  }
  {
    const Environment environment({{"HF_TOKEN_PATH", (folder / "token").string()}});
    EXPECT_EQ(settings_from_environment()->token, "hf_file");
  }
  fs::remove_all(folder);
}

TEST(Settings, RefuseWhatCannotBeSent) {
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"HF_ENDPOINT", "huggingface.co"},
                                                        {"HF_ENDPOINT", "ftp://hub"},
                                                        {"HF_TOKEN", "hf_a b"},
                                                        {"HF_TOKEN", "hf_a\r\nX-Evil: 1"}}) {
    const Environment environment({{name, value}});
    const auto settings = settings_from_environment();
    ASSERT_FALSE(settings) << name << " = " << value;
    EXPECT_EQ(settings.error().code, Errc::invalid);
    EXPECT_NE(settings.error().message.find(name), std::string::npos) << settings.error().message;
  }
}

}  // namespace
}  // namespace tenon::hub
