#include "tenon/config/config.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::config {
namespace {

TEST(Config, ReadsWhatTheDesignNames) {
  const auto config = parse_config(R"(
[server]
host = "0.0.0.0"
port = 9000
api_keys_file = "keys.txt"
store = "kept.db"
store_ttl_s = 60
cors_origins = ["http://localhost:3000"]
log_contents = false
allowed_hosts = ["box.example"]
format_files = ["formats", "/act.toml"]

[[model]]
name = "qwen"
alias = ["q", "default"]
engine = "llama"
path = "/models/qwen.gguf"
tool_call_format = "hermes"
generic_fallback = false
on_unknown_tool = "forward"
[[model]]
name = "other"
path = "other.gguf"
argument_order = "any"
[model.tool_call_format]
name = "act"
[[model.tool_call_format.syntax]]
call = "<act>${object}</act>"
)",
                                   "tenon.toml", "/etc/tenon");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server.host, "0.0.0.0");
  EXPECT_EQ(config->server.port, 9000);
  EXPECT_EQ(config->server.api_keys_file, "/etc/tenon/keys.txt");
  EXPECT_EQ(config->server.store, "/etc/tenon/kept.db");
  EXPECT_EQ(config->server.store_ttl_s, 60);
  EXPECT_FALSE(config->server.log_contents);
  EXPECT_EQ(config->server.cors_origins.size(), 1u);
  EXPECT_EQ(config->server.allowed_hosts, std::vector<std::string>{"box.example"});
  EXPECT_EQ(config->server.format_files,
            (std::vector<std::string>{"/etc/tenon/formats", "/act.toml"}));
  ASSERT_EQ(config->models.size(), 2u);
  EXPECT_EQ(config->models[0].aliases.size(), 2u);
  EXPECT_EQ(config->models[0].path, "/models/qwen.gguf");
  EXPECT_EQ(config->models[0].tool_call_format, "hermes");
  EXPECT_FALSE(config->models[0].generic_fallback);
  EXPECT_EQ(config->models[0].on_unknown_tool, "forward");
  EXPECT_EQ(config->models[0].argument_order, "schema");
  EXPECT_EQ(config->models[1].argument_order, "any");
  EXPECT_EQ(config->models[0].definition, nullptr);
  EXPECT_EQ(config->models[1].path, "/etc/tenon/other.gguf");
  ASSERT_NE(config->models[1].definition, nullptr);
  EXPECT_EQ(format::info(*config->models[1].definition).name, "act");
}

TEST(Config, AModelsNameIsNoFileOfTheFolder) {
  const auto config = parse_config(
      "[[model]]\nname = \"a\"\npath = \"hf:owner/repo:Q4_K_M\"\n"
      "[[model]]\nname = \"b\"\npath = \"ollama:llama3\"\n"
      "[[model]]\nname = \"c\"\npath = \"hf/model.gguf\"\n",
      "tenon.toml", "/etc/tenon");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->models[0].path, "hf:owner/repo:Q4_K_M");
  EXPECT_EQ(config->models[1].path, "ollama:llama3");
  EXPECT_EQ(config->models[2].path, "/etc/tenon/hf/model.gguf");
}

TEST(Config, AModelMayBeAtSeveralPlaces) {
  constexpr std::string_view kModel = "[[model]]\nname = \"a\"\nengine = \"llama-server\"\nurl = ";
  const auto one = parse_config(std::string(kModel) + "\"http://b:1\"", "tenon.toml", "");
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(one->models[0].urls, std::vector<std::string>{"http://b:1"});
  const auto two =
      parse_config(std::string(kModel) + "[\"http://b:1\", \"http://c\"]", "tenon.toml", "");
  ASSERT_TRUE(two) << two.error().message;
  EXPECT_EQ(two->models[0].urls, (std::vector<std::string>{"http://b:1", "http://c"}));
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
  std::string_view message_begin;  // with source, line and key
};

const Bad kBad[] = {
    {"CodeCallsWithoutCode", "[[model]]\nname = \"a\"\npath = \"a.gguf\"\ncode_calls = [\"b\"]\n",
     Errc::invalid, "tenon.toml:1:1: model.code_calls of 'a' are tools of the server"},
    {"MissingFileOfServers",
     "[[model]]\nname = \"a\"\npath = \"a.gguf\"\nexecute = \"server\"\nmcp = \"/nope.json\"\n",
     Errc::invalid, "tenon.toml:5:7: model.mcp of 'a': /nope.json: No such file or directory"},
    {"NotToml", "[server", Errc::invalid, "tenon.toml:1:"},
    {"UnknownTable", "\n[sever]\n", Errc::invalid, "tenon.toml:2:1: unknown table sever"},
    {"KeyOutsideOfTables", "port = 80\n", Errc::invalid,
     "tenon.toml:1:8: unknown key port (known: [server], [telemetry], [[model]])"},
    {"UnknownServerKey", "[server]\nprot = 1\n", Errc::invalid,
     "tenon.toml:2:8: unknown key server.prot (known: host, port"},
    {"UnknownModelKey", "[[model]]\nname = \"a\"\nfrmat = \"x\"\n", Errc::invalid,
     "tenon.toml:3:9: unknown key model.frmat"},
    {"TheFirstOfSeveral", "[server]\nport = 1\nb = 1\na = 1\n", Errc::invalid,
     "tenon.toml:3:5: unknown key server.b"},
    {"WrongType", "[server]\n\nhost = 3\n", Errc::invalid,
     "tenon.toml:3:8: server.host must be a string"},
    {"NumberAsText", "[server]\nport = \"80\"\n", Errc::invalid,
     "tenon.toml:2:8: server.port must be an integer from 0 to 65535"},
    {"NumberOutOfRange", "[server]\nport = 65536\n", Errc::invalid,
     "tenon.toml:2:8: server.port must be an integer"},
    {"NumberWithAFraction", "[server]\nport = 80.0\n", Errc::invalid,
     "tenon.toml:2:8: server.port must be an integer"},
    {"PriceAsText", "[[model]]\nprice_input = \"cheap\"\n", Errc::invalid,
     "tenon.toml:2:15: model.price_input must be a number from 0 to 1e9"},
    {"PriceBelowZero", "[[model]]\nprice_output = -0.5\n", Errc::invalid,
     "tenon.toml:2:16: model.price_output must be a number from 0 to 1e9"},
    {"APartIsAtMostOne", "[[model]]\ncompact_at = 1.5\n", Errc::invalid,
     "tenon.toml:2:14: model.compact_at must be a number from 0 to 1"},
    {"ListOfOther", "[[model]]\nalias = [1]\n", Errc::invalid,
     "tenon.toml:2:10: model.alias must be a list of strings"},
    {"EmptyKeysFile", "[server]\napi_keys_file = \"\"\n", Errc::invalid,
     "tenon.toml:2:17: server.api_keys_file must not be empty"},
    {"NoList", "[[model]]\nalias = \"a\"\n", Errc::invalid,
     "tenon.toml:2:9: model.alias must be a list of strings"},
    {"ServerIsNoTable", "server = 1\n", Errc::invalid, "tenon.toml:1:10: server must be a table"},
    {"OneBracket", "[model]\nname = \"a\"\n", Errc::invalid, "tenon.toml:1:1: models are written"},
    {"ModelIsNoTable", "model = [1]\n", Errc::invalid, "tenon.toml:1:10: a [[model]] must be"},
    {"NoName", "[[model]]\npath = \"a\"\n", Errc::invalid, "tenon.toml:1:1: model.name is missing"},
    {"NoPath", "[[model]]\nname = \"a\"\n", Errc::invalid, "tenon.toml:1:1: model.path is missing"},
    {"NameTwice", "[[model]]\nname = \"a\"\npath = \"a\"\n[[model]]\nname = \"a\"\npath = \"b\"\n",
     Errc::invalid, "tenon.toml:4:1: the model name 'a' is given twice"},
    {"AliasIsAName",
     "[[model]]\nname = \"a\"\npath = \"a\"\n[[model]]\nname = \"b\"\npath = \"b\"\nalias = "
     "[\"a\"]\n",
     Errc::invalid, "tenon.toml:4:1: the model name 'a' is given twice"},
    {"NoUrl", "[[model]]\nname = \"a\"\nengine = \"llama-server\"\n", Errc::invalid,
     "tenon.toml:1:1: model.url is missing"},
    {"UrlIsNone", "[[model]]\nname = \"a\"\nengine = \"llama-server\"\nurl = \"x\"\n",
     Errc::invalid,
     "tenon.toml:1:1: model.url of 'a': \"x\" is not a URL that can be called: no http://"},
    {"UrlIsANumber", "[[model]]\nname = \"a\"\nengine = \"llama-server\"\nurl = 1\n", Errc::invalid,
     "tenon.toml:4:7: model.url must be a string, or a list of strings"},
    {"NoUrlInTheList", "[[model]]\nname = \"a\"\nengine = \"llama-server\"\nurl = []\n",
     Errc::invalid, "tenon.toml:1:1: model.url is missing"},
    {"UrlTwice",
     "[[model]]\nname = \"a\"\nengine = \"llama-server\"\nurl = [\"http://b\", \"http://b\"]\n",
     Errc::invalid, "tenon.toml:1:1: model.url of 'a' has http://b twice"},
    {"ArgumentOrderUnknown", "[[model]]\nname = \"a\"\nargument_order = \"random\"\n",
     Errc::invalid, "tenon.toml:3:18: model.argument_order must be \"schema\" or \"any\""},
    {"LaterEngine", "[[model]]\nname = \"a\"\nengine = \"tgi\"\n", Errc::unsupported,
     "tenon.toml:1:1: model.engine = \"tgi\" is not supported yet: it must be \"llama\" or "},
    {"ContextOfAServer",
     "[[model]]\nname = \"a\"\nengine = \"llama-server\"\nurl = \"x\"\ncontext_tokens = 64\n",
     Errc::invalid,
     "tenon.toml:5:18: model.context_tokens belongs to engine = \"llama\" or \"ollama\""},
    {"TemplateOfAnother", "[[model]]\nname = \"a\"\nengine = \"exo\"\nchat_template = \"t\"\n",
     Errc::invalid, "tenon.toml:4:17: model.chat_template belongs to engine = "},
    {"OpenaiWithoutUrl", "[[model]]\nname = \"a\"\nengine = \"openai\"\n", Errc::invalid,
     "tenon.toml:1:1: model.url is missing"},
    {"NoTokenizer", "[[model]]\nname = \"a\"\nengine = \"vllm\"\nurl = \"x\"\n", Errc::invalid,
     "tenon.toml:1:1: model.tokenizer is missing"},
    {"TokenizerOfAnotherEngine",
     "[[model]]\nname = \"a\"\nengine = \"openai\"\nurl = \"x\"\ntokenizer = \"t\"\n",
     Errc::invalid,
     "tenon.toml:5:13: model.tokenizer belongs to engine = \"llama-server\" or \"vllm\" or "
     "\"sglang\" or \"ollama\""},
    {"RootOfAnother", "[[model]]\nname = \"a\"\nroot = \"b\"\n", Errc::invalid,
     "tenon.toml:3:8: model.root belongs to engine = \"rlm\""},
    {"NoRoot", "[[model]]\nname = \"a\"\nengine = \"rlm\"\n", Errc::invalid,
     "tenon.toml:1:1: model.root is missing"},
    {"RootIsNotThere", "[[model]]\nname = \"a\"\nengine = \"rlm\"\nroot = \"b\"\n", Errc::invalid,
     "tenon.toml:1:1: 'a' is made of the model 'b', but there is no such model"},
    {"RootIsRecursive", "[[model]]\nname = \"a\"\nengine = \"rlm\"\nroot = \"a\"\n", Errc::invalid,
     "tenon.toml:1:1: 'a' is made of the model 'a', but there is no such model"},
    {"PairsLikeNothing",
     "[server]\nrecursive_pairs_like = \"a\"\n[[model]]\nname = \"a\"\npath = \"a\"\n",
     Errc::invalid,
     "tenon.toml:1:1: server.recursive_pairs_like names 'a', but there is no recursive model of"},
    {"FormatOfARecursiveModel",
     "[[model]]\nname = \"a\"\nengine = \"rlm\"\nroot = \"b\"\ntool_call_format = \"hermes\"\n",
     Errc::invalid, "tenon.toml:5:20: model.tool_call_format belongs to engine = \"llama\" or "},
    {"OnInvalidCallUnknown", "[[model]]\nname = \"a\"\non_invalid_call = \"drop\"\n", Errc::invalid,
     "tenon.toml:3:19: model.on_invalid_call must be \"pass\" or \"ask_again\""},
    {"OnUnknownToolUnknown", "[[model]]\nname = \"a\"\non_unknown_tool = \"drop\"\n", Errc::invalid,
     "tenon.toml:3:19: model.on_unknown_tool must be \"content\" or \"repair\" or \"forward\""},
    {"BadDefinition", "[[model]]\nname = \"a\"\n[model.tool_call_format]\nname = \"x\"\nnome = 1\n",
     Errc::invalid, "tenon.toml:5:8: 'nome' is not known here"},
    {"NoFlag", "[[model]]\nname = \"a\"\ngeneric_fallback = \"no\"\n", Errc::invalid,
     "tenon.toml:3:20: model.generic_fallback must be true or false"},
    {"CloseCallsOfAnotherEngine",
     "[[model]]\nname = \"a\"\nengine = \"llama-server\"\nurl = \"x\"\nclose_calls = true\n",
     Errc::invalid, "tenon.toml:5:15: model.close_calls belongs to engine"},
    {"NoBounds", "[[model]]\nname = \"a\"\nbounds = \"off\"\n", Errc::invalid,
     "tenon.toml:3:10: model.bounds must be \"default\" or \"none\""},
    {"NoneOfTheWords", "[[model]]\nname = \"a\"\nflash_attn = \"yes\"\n", Errc::invalid,
     "tenon.toml:3:14: model.flash_attn must be \"auto\" or \"on\" or \"off\""},
    {"NoCacheType", "[[model]]\nname = \"a\"\ncache_type_v = \"q8\"\n", Errc::invalid,
     "tenon.toml:3:16: model.cache_type_v must be \"f32\" or \"f16\" or \"bf16\" or \"q8_0\""},
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

struct Foreign {
  std::string_view line;
  std::string_view engine;  // the engine that the key belongs to
  std::string_view other;   // the engine of the model
};

const Foreign kForeign[] = {
    {"path = \"a.gguf\"", "llama", "llama-server"},
    {"max_concurrent = 2", "llama", "llama-server"},
    {"threads = 2", "llama", "llama-server"},
    {"gpu_layers = 2", "llama", "llama-server"},
    {"flash_attn = \"on\"", "llama", "llama-server"},
    {"cache_type_k = \"q8_0\"", "llama", "llama-server"},
    {"rpc = [\"127.0.0.1:1\"]", "llama", "llama-server"},
    {"url = \"http://127.0.0.1:1\"", "llama-server", "llama"},
    {"api_key_env = \"KEY\"", "llama-server", "llama"},
};

TEST(Config, KnowsWhereExoListens) {
  const auto config = parse_config("[[model]]\nname = \"a\"\nengine = \"exo\"\n", "tenon.toml", "");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->models[0].urls, std::vector<std::string>{"http://127.0.0.1:52415"});
}

TEST(Config, RefusesKeysOfTheOtherEngine) {
  for (const Foreign& test : kForeign) {
    SCOPED_TRACE(test.line);
    const std::string key(test.line.substr(0, test.line.find(' ')));
    for (const std::string_view engine : {test.engine, test.other}) {
      std::string text = "[[model]]\nname = \"a\"\n" + std::string(test.line) + "\nengine = \"" +
                         std::string(engine) + "\"\n";
      if (engine == "llama" && key != "path") text += "path = \"b\"\n";
      if (engine == "llama-server" && key != "url") text += "url = \"http://b\"\n";
      const auto config = parse_config(text, "tenon.toml", "");
      ASSERT_EQ(config.has_value(), engine == test.engine);
      if (config) continue;
      EXPECT_EQ(config.error().code, Errc::invalid);
      EXPECT_EQ(config.error().message,
                "tenon.toml:3:" + std::to_string(key.size() + 4) + ": model." + key +
                    " belongs to engine = \"" + std::string(test.engine) +
                    (test.engine == "llama"
                         ? ""
                         : "\" or \"vllm\" or \"sglang\" or \"ollama\" or \"openai\" or \"exo") +
                    "\", and 'a' has engine = \"" + std::string(test.other) +
                    "\": remove the key, or change the engine");
    }
  }
}

}  // namespace
}  // namespace tenon::config
