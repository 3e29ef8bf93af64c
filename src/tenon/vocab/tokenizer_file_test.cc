#include "tenon/vocab/tokenizer_file.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tenon/vocab/spelling.h"

namespace tenon::vocab {
namespace {

using ::testing::HasSubstr;
using Strings = std::vector<std::string>;

Strings tokens_of(const Tokenizer& tokenizer, std::string_view text,
                  Controls controls = Controls::off, bool at_start = false) {
  std::vector<TokenId> ids;
  const Status done = tokenizer.encode(text, controls, at_start, ids);
  if (!done) return {"error: " + done.error().message};
  Strings tokens;
  for (const TokenId id : ids) tokens.emplace_back(tokenizer.bytes(id));
  return tokens;
}

/// A GGUF file with keys and no tensors.
class Gguf {
 public:
  Gguf& text(std::string_view key, std::string_view value) { return begin(key, 8).string(value); }
  Gguf& number(std::string_view key, std::uint32_t value) { return begin(key, 4).raw(value); }
  Gguf& boolean(std::string_view key, bool value) {
    return begin(key, 7).raw(static_cast<std::uint8_t>(value));
  }
  Gguf& texts(std::string_view key, const Strings& values) {
    begin(key, 9).raw(std::uint32_t{8}).raw(std::uint64_t{values.size()});
    for (const std::string& value : values) string(value);
    return *this;
  }
  template <class T>
  Gguf& numbers(std::string_view key, std::uint32_t type, const std::vector<T>& values) {
    begin(key, 9).raw(type).raw(std::uint64_t{values.size()});
    for (const T value : values) raw(value);
    return *this;
  }
  Gguf& types(const std::vector<std::int32_t>& values) { return numbers("token_type", 5, values); }
  Gguf& scores(const std::vector<float>& values) { return numbers("scores", 6, values); }

  std::string str() const {
    std::string file = "GGUF";
    append(file, std::uint32_t{3});
    append(file, std::uint64_t{0});
    append(file, keys_);
    file += body_;
    file.resize((file.size() + 31) / 32 * 32);
    return file;
  }

 private:
  template <class T>
  static void append(std::string& out, T value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    out.append(bytes, sizeof value);
  }
  template <class T>
  Gguf& raw(T value) {
    append(body_, value);
    return *this;
  }
  Gguf& string(std::string_view value) {
    append(body_, std::uint64_t{value.size()});
    body_ += value;
    return *this;
  }
  Gguf& begin(std::string_view key, std::uint32_t type) {
    ++keys_;
    return string("tokenizer.ggml." + std::string(key)).raw(type);
  }

  std::string body_;
  std::uint64_t keys_ = 0;
};

Expected<std::shared_ptr<const Tokenizer>> read(const Gguf& gguf) {
  const std::string bytes = gguf.str();
  const Expected<GgufFile> file = GgufFile::parse(bytes);
  if (!file) return Unexpected(file.error());
  return read_gguf_tokenizer(*file);
}

constexpr std::int32_t kNormal = 1;
constexpr std::int32_t kUnknown = 2;
constexpr std::int32_t kControl = 3;
constexpr std::int32_t kUserDefined = 4;
constexpr std::int32_t kUnused = 5;
constexpr std::int32_t kByte = 6;

TEST(GgufTokenizer, Gpt2) {
  const auto tokenizer = read(
      Gguf()
          .text("model", "gpt2")
          .text("pre", "qwen2")
          .texts("tokens", {"a", "b", "Ġ", "Ġa", "ab", "<|im_end|>", "<tool_call>", "aa", "[PAD]"})
          .types({kNormal, kNormal, kNormal, kNormal, kNormal, kControl, kUserDefined, kUserDefined,
                  kUnused})
          .texts("merges", {"Ġ a", "a b"})
          .number("eos_token_id", 5)
          .number("bos_token_id", 99));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokens_of(**tokenizer, "ab a"), (Strings{"ab", " a"}));
  EXPECT_EQ(tokens_of(**tokenizer, "aab"), (Strings{"aa", "b"}));  // user-defined tokens are text
  EXPECT_EQ(tokens_of(**tokenizer, "a<tool_call>b<|im_end|>", Controls::on),
            (Strings{"a", "<tool_call>", "b", "<|im_end|>"}));
  EXPECT_THAT(tokens_of(**tokenizer, "<tool_call>").front(), HasSubstr("no token for '<'"));
  EXPECT_EQ(tokens_of(**tokenizer,
                      "a\x04"
                      "b"),
            (Strings{"a", "b"}))
      << "a control character that no token spells is left out, as llama.cpp does";
  EXPECT_EQ((*tokenizer)->eos(), 5);
  EXPECT_TRUE((*tokenizer)->ends_generation(5));
  EXPECT_EQ((*tokenizer)->bos(), std::nullopt);
  EXPECT_TRUE((*tokenizer)->is_control(6));
  EXPECT_FALSE((*tokenizer)->is_control(7));
  EXPECT_FALSE((*tokenizer)->adds_bos());
}

TEST(GgufTokenizer, SentencePieceMergesByScore) {
  const auto tokenizer =
      read(Gguf()
               .text("model", "llama")
               .texts("tokens", {"<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "▁a", "ba", "é"})
               .types({kUnknown, kControl, kControl, kNormal, kNormal, kNormal, kNormal, kNormal,
                       kNormal, kNormal})
               .scores({0, 0, 0, -9, -9, -9, -1, -2, -1, -9})
               .number("unknown_token_id", 0)
               .number("bos_token_id", 1)
               .number("eos_token_id", 2));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  struct Row {
    const char* name;
    const char* text;
    bool at_start;
    Strings tokens;
  };
  const Row rows[] = {
      {"TheGreatestScoreFirst", " ab", false, {" ", "ab"}},
      {"AmongEqualsTheLeftmost", "aba", false, {"ab", "a"}},
      {"ASpaceAtTheStart", "a", true, {" a"}},
      {"ASpaceBesideOne", " a", true, {" ", " a"}},
      {"NoneInTheMiddle", "a", false, {"a"}},
      {"WhatIsMissingIsUnknown", "éx", false, {"é", "<unk>"}},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(tokens_of(**tokenizer, row.text, Controls::off, row.at_start), row.tokens)
        << row.name;
  }
  EXPECT_TRUE((*tokenizer)->adds_bos());
}

TEST(GgufTokenizer, UnigramWithByteFallbackAndSpaces) {
  Strings tokens{"<pad>", "</s>", "<unk>", "▁", "▁a", "a", "b"};
  std::vector<std::int32_t> types{kControl, kControl, kUnknown, kNormal, kNormal, kNormal, kNormal};
  std::vector<float> scores{0, 0, 0, -3, -1, -2, -2};
  for (unsigned byte = 0; byte < 256; ++byte) {
    char name[16];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    tokens.emplace_back(name);
    types.push_back(kByte);
    scores.push_back(-20);
  }
  const Gguf plain = Gguf().text("model", "t5").texts("tokens", tokens).types(types).scores(scores);
  const auto tokenizer = read(plain);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokens_of(**tokenizer, "b a c"), (Strings{"b", " a", " ", "c"}));
  const Status kept = check_tokenizer(**tokenizer);
  EXPECT_TRUE(kept) << kept.error().message;

  Gguf squeezed = plain;
  squeezed.boolean("remove_extra_whitespaces", true).boolean("add_space_prefix", true);
  const auto other = read(squeezed);
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(tokens_of(**other, " a   a ", Controls::off, true), (Strings{" a", " a"}));
  EXPECT_FALSE(check_tokenizer(**other));  // it loses spaces
}

TEST(GgufTokenizer, RefusesByName) {
  const auto good = [] { return Gguf().texts("tokens", {"a", "b"}); };
  struct Row {
    const char* name;
    Gguf file;
    Errc code;
    const char* says;
  };
  const Row rows[] = {
      {"NoTokens", Gguf().text("model", "gpt2"), Errc::invalid, "tokenizer.ggml.tokens"},
      {"AModel", good().text("model", "bert"), Errc::unsupported, "tokenizer.ggml.model: 'bert'"},
      {"APattern", good().text("model", "gpt2").text("pre", "kimi-k2"), Errc::unsupported,
       "tokenizer.ggml.pre: 'kimi-k2'"},
      {"NoMerges", good().text("model", "gpt2"), Errc::invalid, "tokenizer.ggml.merges"},
      {"AMergeOfOne", good().text("model", "gpt2").texts("merges", {"ab"}), Errc::invalid,
       "tokenizer.ggml.merges[0]"},
      {"TooFewTypes", good().text("model", "gpt2").types({1}), Errc::invalid,
       "tokenizer.ggml.token_type"},
      {"ATypeThatIsNone", good().text("model", "gpt2").types({1, 9}), Errc::invalid,
       "tokenizer.ggml.token_type[1]"},
      {"TooFewScores", good().text("model", "llama").scores({1}), Errc::invalid,
       "tokenizer.ggml.scores"},
      {"NoUnknown", good().text("model", "t5").scores({1, 2}), Errc::invalid,
       "tokenizer.ggml.unknown_token_id"},
      {"NoUtf8", Gguf().text("model", "gpt2").texts("tokens", {"\xFF"}), Errc::invalid,
       "tokenizer.ggml.tokens[0]"},
  };
  for (const Row& row : rows) {
    const auto tokenizer = read(row.file);
    ASSERT_FALSE(tokenizer) << row.name;
    EXPECT_EQ(tokenizer.error().code, row.code) << row.name << ": " << tokenizer.error().message;
    EXPECT_THAT(tokenizer.error().message, HasSubstr(row.says)) << row.name;
  }
}

/// All bytes, " a", "aa" and "aaa" in base64, as tiktoken writes them.
std::string tiktoken_file() {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string file;
  for (unsigned byte = 0; byte < 256; ++byte) {
    file += kDigits[byte >> 2U];
    file += kDigits[(byte & 3U) << 4U];
    file += "== " + std::to_string(byte) + "\n";
  }
  return file + "IGE= 256\nYWE= 257\nYWFh 258\n";
}

const TiktokenOptions kTiktoken{.pattern = R"(\s?\p{L}+|\s+|.)",
                                .special = {{"<|endoftext|>", 260}, {"<|x|>", 261}},
                                .bos = "",
                                .eos = "<|endoftext|>"};

TEST(Tiktoken, MergesByRank) {
  const auto tokenizer = parse_tiktoken(tiktoken_file(), kTiktoken);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  struct Row {
    const char* name;
    const char* text;
    Strings tokens;
  };
  const Row rows[] = {
      {"AWholePieceIsAToken", "aaa", {"aaa"}},
      {"TheLeastRankFirst", " aa", {" a", "a"}},
      {"AndThenTheNext", "aaaa", {"aa", "aa"}},
      {"Bytes", "é", {"\xC3", "\xA9"}},
  };
  for (const Row& row : rows) EXPECT_EQ(tokens_of(**tokenizer, row.text), row.tokens) << row.name;
  EXPECT_EQ(tokens_of(**tokenizer, "a<|x|>", Controls::on), (Strings{"a", "<|x|>"}));
  EXPECT_EQ((*tokenizer)->size(), 262U);
  EXPECT_EQ((*tokenizer)->eos(), 260);
  EXPECT_TRUE((*tokenizer)->ends_generation(260));
  const Status kept = check_tokenizer(**tokenizer);
  EXPECT_TRUE(kept) << kept.error().message;
}

TEST(Tiktoken, RefusesByLine) {
  TiktokenOptions other_eos = kTiktoken;
  other_eos.eos = "<|none|>";
  TiktokenOptions no_pattern = kTiktoken;
  no_pattern.pattern = "(";
  struct Row {
    const char* name;
    std::string file;
    TiktokenOptions options;
    Errc code;
    const char* says;
  };
  const Row rows[] = {
      {"NoRank", "YQ==\n", kTiktoken, Errc::invalid, "line 1"},
      {"NoBase64", "YQ== 0\nY!== 1\n", kTiktoken, Errc::invalid, "line 2"},
      {"NoNumber", "YQ== 0x\n", kTiktoken, Errc::invalid, "line 1"},
      {"NoBytes", " 0\n", kTiktoken, Errc::invalid, "line 1"},
      {"ARankTwice", "YQ== 0\nYg== 0\n", kTiktoken, Errc::invalid, "line 2 gives the id 0"},
      {"ARankTooFar", "YQ== 4000000\n", kTiktoken, Errc::limit_exceeded, "4000000"},
      {"AnUnknownEnd", "YQ== 0\n", other_eos, Errc::invalid, "'<|none|>'"},
      {"APattern", "YQ== 0\n", no_pattern, Errc::invalid, "pattern"},
  };
  for (const Row& row : rows) {
    const auto tokenizer = parse_tiktoken(row.file, row.options);
    ASSERT_FALSE(tokenizer) << row.name;
    EXPECT_EQ(tokenizer.error().code, row.code) << row.name << ": " << tokenizer.error().message;
    EXPECT_THAT(tokenizer.error().message, HasSubstr(row.says)) << row.name;
  }
}

TEST(LoadTokenizer, ReadsTheConfigBesideTheFile) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("tenon_vocab_" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  std::string vocab;
  for (unsigned byte = 0; byte < 256; ++byte) {
    char name[16];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    vocab += "\"" + std::string(name) + "\": " + std::to_string(byte) + ", ";
  }
  std::ofstream(folder / "tokenizer.json")
      << R"({"decoder": {"type": "ByteFallback"}, "model": {"type": "BPE", "byte_fallback": true,
             "vocab": {)" +
             vocab + R"("<e>": 256}, "merges": []}})";
  std::ofstream(folder / "tokenizer_config.json") << R"({"eos_token": "<e>"})";
  std::ofstream(folder / "bad.gguf") << "GGUF";

  const auto tokenizer = load_tokenizer(folder / "tokenizer.json");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->eos(), 256);
  const auto damaged = load_tokenizer(folder / "bad.gguf");
  ASSERT_FALSE(damaged);
  EXPECT_THAT(damaged.error().message, HasSubstr("bad.gguf: "));
  const auto missing = load_tokenizer(folder / "missing.json");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::unavailable);
  std::filesystem::remove_all(folder);
}

TEST(Spelling, Bytes) {
  struct Row {
    const char* name;
    const char* text;
    std::optional<std::string> bytes;
  };
  const Row alphabet[] = {
      {"PrintableIsItself", "a~", "a~"}, {"TheSpace", "Ġ", " "},  {"TheLineEnd", "Ċ", "\n"},
      {"TheLast", "Ń", "\xAD"},          {"TwoBytes", "Ã©", "é"}, {"BeyondTheAlphabet", "ń", {}},
      {"AByteInItself", "\xC2\xAD", {}}, {"Nothing", "", ""},
  };
  for (const Row& row : alphabet) EXPECT_EQ(from_byte_alphabet(row.text), row.bytes) << row.name;
  const Row base64[] = {
      {"One", "YQ==", "a"},        {"Two", "YWE=", "aa"},   {"Three", "YWFh", "aaa"},
      {"Nothing", "", ""},         {"CutShort", "YQ=", {}}, {"PaddingWithin", "Y=Fh", {}},
      {"OtherDigits", "YW-h", {}},
  };
  for (const Row& row : base64) EXPECT_EQ(from_base64(row.text), row.bytes) << row.name;
  EXPECT_EQ(byte_of_name("<0xFE>"), 0xFE);
  for (const char* none : {"<0xfe>", "<0xF>", "<0xFEE>", "0xFE", "<0xG0>"}) {
    EXPECT_EQ(byte_of_name(none), std::nullopt) << none;
  }
}

}  // namespace
}  // namespace tenon::vocab
