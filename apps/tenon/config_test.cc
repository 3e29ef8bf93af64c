#include "config.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::app {
namespace {

TEST(Config, ReadsWhatTheDesignNames) {
  const auto config = parse_config(R"(
[server]
host = "0.0.0.0"
port = 9000
api_keys_file = "keys.txt"
cors_origins = ["http://localhost:3000"]

[[model]]
name = "qwen"
alias = ["q", "default"]
engine = "llama"
path = "/models/qwen.gguf"
tool_call_format = "hermes"
[[model]]
name = "other"
path = "other.gguf"
)",
                                   "tenon.toml", "/etc/tenon");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server.host, "0.0.0.0");
  EXPECT_EQ(config->server.port, 9000);
  EXPECT_EQ(config->server.api_keys_file, "/etc/tenon/keys.txt");
  EXPECT_EQ(config->server.cors_origins.size(), 1u);
  ASSERT_EQ(config->models.size(), 2u);
  EXPECT_EQ(config->models[0].aliases.size(), 2u);
  EXPECT_EQ(config->models[0].path, "/models/qwen.gguf");
  EXPECT_EQ(config->models[0].tool_call_format, "hermes");
  EXPECT_EQ(config->models[1].path, "/etc/tenon/other.gguf");
}

TEST(Config, MayBeEmpty) {
  const auto config = parse_config("", "tenon.toml", "");
  ASSERT_TRUE(config);
  EXPECT_TRUE(config->models.empty());
  EXPECT_EQ(config->server.port, 8080);
}

struct Bad {
  std::string_view name;
  std::string_view text;
  Errc code;
  std::string_view message_begin;  // source, line and key
};

const Bad kBad[] = {
    {"NotToml", "[server", Errc::invalid, "tenon.toml:1: "},
    {"UnknownTable", "\n[sever]\n", Errc::invalid, "tenon.toml:2: unknown table sever"},
    {"UnknownServerKey", "[server]\nprot = 1\n", Errc::invalid,
     "tenon.toml:2: unknown key server.prot (known: host, port"},
    {"UnknownModelKey", "[[model]]\nname = \"a\"\nfrmat = \"x\"\n", Errc::invalid,
     "tenon.toml:3: unknown key model.frmat"},
    {"WrongType", "[server]\n\nhost = 3\n", Errc::invalid,
     "tenon.toml:3: server.host must be a string"},
    {"NumberAsText", "[server]\nport = \"80\"\n", Errc::invalid,
     "tenon.toml:2: server.port must be an integer from 0 to 65535"},
    {"NumberOutOfRange", "[server]\nport = 65536\n", Errc::invalid,
     "tenon.toml:2: server.port must be an integer"},
    {"ListOfOther", "[[model]]\nalias = [1]\n", Errc::invalid,
     "tenon.toml:2: model.alias must be a list of strings"},
    {"OneBracket", "[model]\nname = \"a\"\n", Errc::invalid, "tenon.toml:1: models are written"},
    {"NoName", "[[model]]\npath = \"a\"\n", Errc::invalid, "tenon.toml:1: model.name is missing"},
    {"NoPath", "[[model]]\nname = \"a\"\n", Errc::invalid, "tenon.toml:1: model.path is missing"},
    {"NoUrl", "[[model]]\nname = \"a\"\nengine = \"llama-server\"\n", Errc::invalid,
     "tenon.toml:1: model.url is missing"},
    {"LaterEngine", "[[model]]\nname = \"a\"\nengine = \"sglang\"\n", Errc::unsupported,
     "tenon.toml:1: model.engine = \"sglang\" is not supported yet"},
    {"LaterKey", "[[model]]\nname = \"a\"\ngeneric_fallback = false\n", Errc::unsupported,
     "tenon.toml:3: model.generic_fallback is not supported yet"},
};

TEST(Config, ErrorsNameSourceLineAndKey) {
  for (const Bad& test : kBad) {
    SCOPED_TRACE(test.name);
    const auto config = parse_config(test.text, "tenon.toml", "");
    ASSERT_FALSE(config);
    EXPECT_EQ(config.error().code, test.code);
    EXPECT_EQ(config.error().message.substr(0, test.message_begin.size()), test.message_begin);
  }
}

}  // namespace
}  // namespace tenon::app
