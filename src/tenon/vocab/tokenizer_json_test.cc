#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenon/base/data_for_test.h"
#include "tenon/base/long_for_test.h"
#include "tenon/json/value.h"
#include "tenon/vocab/normalizer.h"
#include "tenon/vocab/tokenizer_file.h"
#include "tenon/vocab/vocab.h"

namespace tenon::vocab {
namespace {

using ::testing::HasSubstr;
using Strings = std::vector<std::string>;

struct Json {
  std::string normalizer = "null";
  std::string pre_tokenizer = "null";
  std::string post_processor = "null";
  std::string decoder = "null";
  std::string added = "[]";
  std::string model = R"({"type": "BPE", "vocab": {"a": 0}, "merges": []})";

  std::string text() const {
    return R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": )" + added +
           R"(, "normalizer": )" + normalizer + R"(, "pre_tokenizer": )" + pre_tokenizer +
           R"(, "post_processor": )" + post_processor + R"(, "decoder": )" + decoder +
           R"(, "model": )" + model + "}";
  }
};

/// BPE whose tokens are `pieces`, each encoded whole: the ids of a text show where it was cut.
std::string whole_pieces(const Strings& pieces) {
  std::string vocab;
  const std::set<std::string> unique(pieces.begin(), pieces.end());
  int id = 0;
  for (const std::string& piece : unique) {
    vocab += (id == 0 ? "" : ", ") + json::quoted(piece) + ": " + std::to_string(id);
    ++id;
  }
  return R"({"type": "BPE", "ignore_merges": true, "vocab": {)" + vocab + R"(}, "merges": []})";
}

Strings tokens_of(const Tokenizer& tokenizer, std::string_view text, Controls controls,
                  bool at_start = true) {
  std::vector<TokenId> ids;
  const Status done = tokenizer.encode(text, controls, at_start, ids);
  if (!done) return {"error: " + done.error().message};
  Strings tokens;
  for (const TokenId id : ids) tokens.emplace_back(tokenizer.bytes(id));
  return tokens;
}

TEST(TokenizerJson, PreTokenizersCutAsTheTokenizersPackageDoes) {
  struct Row {
    const char* name;
    const char* pre_tokenizer;
    const char* text;
    Strings pieces;  // the result of `tokenizers` 0.23.3
  };
  const Row rows[] = {
      {"Removed",
       R"({"type": "Split", "pattern": {"String": ","}, "behavior": "Removed", "invert": false})",
       "a,b,,c",
       {"a", "b", "c"}},
      {"Isolated",
       R"({"type": "Split", "pattern": {"Regex": "[0-9]"}, "behavior": "Isolated"})",
       "a12b",
       {"a", "1", "2", "b"}},
      {"MergedWithPrevious",
       R"({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious"})",
       " a  b ",
       {" ", "a ", " ", "b "}},
      {"MergedWithNext",
       R"({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithNext"})",
       " a  b ",
       {" a", " ", " b", " "}},
      {"Contiguous",
       R"({"type": "Split", "pattern": {"String": " "}, "behavior": "Contiguous"})",
       "a   b c",
       {"a", "   ", "b", " ", "c"}},
      {"Inverted",
       R"({"type": "Split", "pattern": {"Regex": "[a-z]+"}, "behavior": "Removed", "invert": true})",
       "ab1cd--e",
       {"ab", "cd", "e"}},
      {"DigitsTogether",
       R"({"type": "Digits", "individual_digits": false})",
       "a12b٣½c",
       {"a", "12", "b", "٣½", "c"}},
      {"DigitsAlone",
       R"({"type": "Digits", "individual_digits": true})",
       "a12b",
       {"a", "1", "2", "b"}},
      {"Punctuation",
       R"({"type": "Punctuation", "behavior": "Isolated"})",
       "a,b$c。d«",
       {"a", ",", "b", "$", "c", "。", "d", "«"}},
      {"PunctuationMerged",
       R"({"type": "Punctuation", "behavior": "MergedWithPrevious"})",
       "a,b!!c",
       {"a,", "b!", "!", "c"}},
      {"Whitespace",
       R"({"type": "Whitespace"})",
       "it's a_b \u00e9\u0301x  \n1\u200d2",
       {"it", "'", "s", "a_b", "\u00e9\u0301x", "1\u200d2"}},
      {"WhitespaceSplit", R"({"type": "WhitespaceSplit"})", "it's \u00a0 b\n", {"it's", "b"}},
      {"Metaspace",
       R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true})",
       "Hey  you ",
       {"▁Hey", "▁", "▁you", "▁"}},
      {"MetaspaceWhole",
       R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false})",
       " Hey you",
       {"▁Hey▁you"}},
      {"MetaspaceWithoutPrefix",
       R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "never", "split": true})",
       "Hey you",
       {"Hey", "_you"}},
      {"MetaspaceOfOldFiles",
       R"({"type": "Metaspace", "replacement": "▁", "str_rep": "▁", "add_prefix_space": true})",
       "Hey you",
       {"▁Hey", "▁you"}},
      {"Sequence",
       R"({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
           {"type": "Split", "pattern": {"String": "-"}, "behavior": "Isolated"}]})",
       "a1-b--2",
       {"a", "1", "-", "b", "-", "-", "2"}},
  };
  for (const Row& row : rows) {
    const auto tokenizer = parse_tokenizer_json(
        Json{.pre_tokenizer = row.pre_tokenizer, .model = whole_pieces(row.pieces)}.text());
    ASSERT_TRUE(tokenizer) << row.name << ": " << tokenizer.error().message;
    EXPECT_EQ(tokens_of(**tokenizer, row.text, Controls::off), row.pieces) << row.name;
  }
}

TEST(TokenizerJson, ByteLevelWritesBytes) {
  const char* pre = R"({"type": "ByteLevel", "add_prefix_space": true, "use_regex": true})";
  const auto tokenizer =
      parse_tokenizer_json(Json{.pre_tokenizer = pre,
                                .decoder = R"({"type": "ByteLevel"})",
                                .model = whole_pieces({"ĠHey", "Ġyou", "'re", "Ġ12", "ĠðŁĻĤ"})}
                               .text());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokens_of(**tokenizer, "Hey you're 12 🙂", Controls::off),
            (Strings{" Hey", " you", "'re", " 12", " 🙂"}));
}

TEST(TokenizerJson, NormalizersWriteAsTheTokenizersPackageDoes) {
  struct Row {
    const char* name;
    const char* normalizer;
    const char* text;
    const char* normal;  // the result of `tokenizers` 0.23.3
  };
  const Row rows[] = {
      {"Nfc", R"({"type": "NFC"})", "e\u0301 ﬁ", "é ﬁ"},
      {"Nfd", R"({"type": "NFD"})", "é", "e\u0301"},
      {"Nfkc", R"({"type": "NFKC"})", "ﬁ²é", "fi2é"},
      {"Nfkd", R"({"type": "NFKD"})", "ﬁé", "fie\u0301"},
      {"Lowercase", R"({"type": "Lowercase"})", "AΣİSS ß", "aσi\u0307ss ß"},
      {"StripLeft", R"({"type": "Strip", "strip_left": true, "strip_right": false})", " \u3000a \n",
       "a \n"},
      {"StripBoth", R"({"type": "Strip", "strip_left": true, "strip_right": true})", " a b\u00a0",
       "a b"},
      {"ReplaceText", R"({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})", "a  b",
       "a▁▁b"},
      {"ReplaceExpression", R"({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "-"})",
       "a  b   c d", "a-b-c d"},
      {"Prepend", R"({"type": "Prepend", "prepend": "▁"})", "a", "▁a"},
      {"Sequence",
       R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
           {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})",
       " a b", "▁▁a▁b"},
  };
  for (const Row& row : rows) {
    const auto tokenizer = parse_tokenizer_json(
        Json{.normalizer = row.normalizer, .model = whole_pieces({row.normal})}.text());
    ASSERT_TRUE(tokenizer) << row.name << ": " << tokenizer.error().message;
    EXPECT_EQ(tokens_of(**tokenizer, row.text, Controls::off), Strings{row.normal}) << row.name;
  }
}

/// abc by merges, in both notations; "<s>" and "ab" have roles of their own.
constexpr const char* kModel = R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3,
    "abc": 4, "bc": 5, " ": 6, "<unk>": 7, "<0x0A>": 8, "é": 9, "cc": 10}, "unk_token": "<unk>",
    "merges": [["b", "c"], "a b", ["ab", "c"], ["c", "c"]]})";

TEST(TokenizerJson, MergesTheLeastRankFirst) {
  struct Row {
    const char* name;
    const char* text;
    Strings tokens;
  };
  const Row rows[] = {
      {"TheLeastRankFirst", "abc", {"a", "bc"}},
      {"NotTheLeftmost", "aabab", {"a", "ab", "ab"}},
      {"AmongEqualsTheLeftmost", "ccc", {"cc", "c"}},
      {"OneUnknownEach", "xx", {"<unk>", "<unk>"}},
      {"NothingOfNothing", "", {}},
  };
  const auto tokenizer = parse_tokenizer_json(Json{.model = kModel}.text());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  for (const Row& row : rows) {
    EXPECT_EQ(tokens_of(**tokenizer, row.text, Controls::off), row.tokens) << row.name;
  }
}

TEST(TokenizerJson, AddedTokens) {
  struct Row {
    const char* name;
    const char* added;  // the members of the added token beside its id and content
    const char* content;
    Controls controls;
    const char* text;
    Strings tokens;
  };
  const Row rows[] = {
      {"SpecialWithControls",
       R"("special": true)",
       "<s>",
       Controls::on,
       "a<s>b",
       {"a", "<s>", "b"}},
      {"SpecialWithoutControls", R"("special": true)", "ab", Controls::off, "ab", {"a", "b"}},
      {"MarkersAreControlTokens",
       R"("special": false)",
       "<s>",
       Controls::off,
       "a<s>",
       {"a", "<unk>", "<unk>", "<unk>"}},
      {"TagsOfHtmlAreText",
       R"("special": false)",
       "</td>",
       Controls::off,
       "a</td>b",
       {"a", "</td>", "b"}},
      {"TagsOfHtmlAreTextWithControlsToo",
       R"("special": false)",
       "<h1>",
       Controls::on,
       "<h1>a",
       {"<h1>", "a"}},
      {"SpecialTagsOfHtmlAreControlTokens",
       R"("special": true)",
       "<b>",
       Controls::off,
       "a<b>",
       {"a", "<unk>", "b", "<unk>"}},
      {"TextIsNoControlToken",
       R"("special": false)",
       "bb",
       Controls::off,
       "abbb",
       {"a", "bb", "b"}},
      {"OnlyWholeWords",
       R"("special": false, "single_word": true)",
       "bb",
       Controls::off,
       "abb bb bbé",
       {"ab", "b", " ", "bb", " ", "b", "b", "é"}},
      {"TakesSpaceBefore",
       R"("special": true, "lstrip": true)",
       "<s>",
       Controls::on,
       "a  <s> b",
       {"a", "<s>", " ", "b"}},
      {"TakesSpaceBehind",
       R"("special": true, "rstrip": true)",
       "<s>",
       Controls::on,
       "a <s>  b",
       {"a", " ", "<s>", "b"}},
  };
  for (const Row& row : rows) {
    const bool in_model = std::string_view(row.content) == "ab";
    const std::string added = "[{\"id\": " + std::string(in_model ? "3" : "11") +
                              ", \"content\": \"" + row.content + "\", " + row.added + "}]";
    const auto tokenizer = parse_tokenizer_json(Json{.added = added, .model = kModel}.text());
    ASSERT_TRUE(tokenizer) << row.name << ": " << tokenizer.error().message;
    EXPECT_EQ(tokens_of(**tokenizer, row.text, row.controls), row.tokens) << row.name;
  }
}

TEST(TokenizerJson, TheSpaceBeforeATextIsPutThereOnce) {
  const auto tokenizer = parse_tokenizer_json(Json{
      .pre_tokenizer = R"({"type": "Metaspace", "replacement": " ", "prepend_scheme": "first"})",
      .added = R"([{"id": 11, "content": "<s>", "special": true}])",
      .model = kModel}
                                                  .text());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokens_of(**tokenizer, "a<s>a", Controls::on), (Strings{" ", "a", "<s>", "a"}));
  EXPECT_EQ(tokens_of(**tokenizer, "a", Controls::on, /*at_start=*/false), Strings{"a"});
}

TEST(TokenizerJson, FallsBackToBytes) {
  std::string vocab = R"("a": 0, "<unk>": 1)";
  for (int byte = 0; byte < 256; ++byte) {
    char name[16];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
    vocab += ", \"" + std::string(name) + "\": " + std::to_string(2 + byte);
  }
  const auto tokenizer = parse_tokenizer_json(
      Json{.decoder = R"({"type": "Sequence", "decoders": [{"type": "ByteFallback"},
                          {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1}]})",
           .model = R"({"type": "BPE", "byte_fallback": true, "unk_token": "<unk>", "vocab": {)" +
                    vocab + R"(}, "merges": []})"}
          .text());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokens_of(**tokenizer, "aé", Controls::off), (Strings{"a", "\xC3", "\xA9"}));
  EXPECT_EQ(tokens_of(**tokenizer, "\xFF", Controls::off), (Strings{"\xEF", "\xBF", "\xBD"}));
  EXPECT_EQ(tokens_of(**tokenizer, "<0x41>", Controls::off),
            (Strings{"<", "0", "x", "4", "1", ">"}));
  const Status kept = check_tokenizer(**tokenizer);
  EXPECT_TRUE(kept) << kept.error().message;
  EXPECT_TRUE(Vocab::of(**tokenizer));
}

// The example of the `tokenizers` package's own tests.
TEST(TokenizerJson, UnigramTakesTheBestSum) {
  const auto tokenizer = parse_tokenizer_json(
      Json{.model = R"({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", 0], ["b", 0],
          ["c", 0], ["d", 0], ["cd", 1], ["ab", 2], ["abc", 5], ["abcd", 10]]})"}
          .text());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokens_of(**tokenizer, "abcdacdxx", Controls::off),
            (Strings{"abcd", "a", "cd", "<unk>"}));
}

TEST(TokenizerJson, RolesComeFromTheConfig) {
  struct Row {
    const char* name;
    const char* config;
    const char* post_processor;
    std::optional<TokenId> bos;
    std::optional<TokenId> eos;
    bool adds_bos;
  };
  const char* kTemplate = R"({"type": "Sequence", "processors": [{"type": "ByteLevel"},
      {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
       {"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {}}]})";
  const Row rows[] = {
      {"None", "", "null", {}, {}, false},
      {"Strings", R"({"bos_token": "<s>", "eos_token": "ab", "add_bos_token": true})", "null", 11,
       3, true},
      {"Objects",
       R"({"bos_token": {"content": "<s>", "lstrip": false}, "eos_token": null})",
       "null",
       11,
       {},
       false},
      {"TheTemplateAddsIt", "", kTemplate, 11, {}, true},
      {"TheConfigSaysNo", R"({"add_bos_token": false})", kTemplate, 11, {}, false},
  };
  for (const Row& row : rows) {
    const auto tokenizer =
        parse_tokenizer_json(Json{.post_processor = row.post_processor,
                                  .added = R"([{"id": 11, "content": "<s>", "special": true},
                                               {"id": 12, "content": "<|im_end|>"}])",
                                  .model = kModel}
                                 .text(),
                             row.config);
    ASSERT_TRUE(tokenizer) << row.name << ": " << tokenizer.error().message;
    EXPECT_EQ((*tokenizer)->bos(), row.bos) << row.name;
    EXPECT_EQ((*tokenizer)->eos(), row.eos) << row.name;
    EXPECT_EQ((*tokenizer)->adds_bos(), row.adds_bos) << row.name;
    EXPECT_TRUE((*tokenizer)->ends_generation(12)) << row.name;
    EXPECT_EQ((*tokenizer)->control_token("<s>"), 11) << row.name;
    EXPECT_EQ((*tokenizer)->control_token("a"), std::nullopt) << row.name;
    if (row.eos) {
      EXPECT_TRUE((*tokenizer)->is_control(*row.eos)) << row.name;
      EXPECT_TRUE((*tokenizer)->ends_generation(*row.eos)) << row.name;
    }
  }
}

TEST(TokenizerJson, RefusesByNameAndPlace) {
  struct Row {
    const char* name;
    Json file;
    Errc code;
    const char* says;
  };
  const Row rows[] = {
      {"WordLevel",
       {.model = R"({"type": "WordLevel", "vocab": {}})"},
       Errc::unsupported,
       "model has the type 'WordLevel'"},
      {"WordPiece",
       {.model = R"({"type": "WordPiece", "vocab": {}})"},
       Errc::unsupported,
       "'WordPiece'"},
      {"ANormalizer",
       {.normalizer = R"({"type": "Nmt"})"},
       Errc::unsupported,
       "normalizer has the type 'Nmt'"},
      {"AMetaspaceThatIsNoCharacter",
       {.pre_tokenizer = R"({"type": "Metaspace", "replacement": "__"})"},
       Errc::invalid,
       "pre_tokenizer has a replacement that is no character"},
      {"ADecodersMetaspaceThatIsNothing",
       {.decoder = R"({"type": "Metaspace", "replacement": ""})"},
       Errc::invalid,
       "decoder has a replacement that is no character"},
      {"ANestedPreTokenizer",
       {.pre_tokenizer = R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
                             {"type": "UnicodeScripts"}]})"},
       Errc::unsupported,
       "pre_tokenizer.pretokenizers[1] has the type 'UnicodeScripts'"},
      {"AMember",
       {.pre_tokenizer = R"({"type": "WhitespaceSplit", "novelty": 1})"},
       Errc::unsupported,
       "pre_tokenizer has 'novelty'"},
      {"ABehavior",
       {.pre_tokenizer = R"({"type": "Split", "pattern": {"String": " "}, "behavior": "Odd"})"},
       Errc::unsupported,
       "the behavior 'Odd'"},
      {"AnExpression",
       {.pre_tokenizer = R"({"type": "Split", "pattern": {"Regex": "("}, "behavior": "Removed"})"},
       Errc::invalid,
       "pre_tokenizer.pattern: "},
      {"ADecoder",
       {.decoder = R"({"type": "CTC"})"},
       Errc::unsupported,
       "decoder has the type 'CTC'"},
      {"APostProcessor",
       {.post_processor = R"({"type": "BertProcessing"})"},
       Errc::unsupported,
       "post_processor has the type 'BertProcessing'"},
      {"Dropout",
       {.model = R"({"type": "BPE", "dropout": 0.1, "vocab": {"a": 0}, "merges": []})"},
       Errc::unsupported,
       "dropout"},
      {"ASubwordPrefix",
       {.model = R"({"type": "BPE", "continuing_subword_prefix": "##", "vocab": {"a": 0},
                     "merges": []})"},
       Errc::unsupported,
       "continuing_subword_prefix"},
      {"AMergeOfNothing",
       {.model = R"({"type": "BPE", "vocab": {"a": 0}, "merges": ["a a"]})"},
       Errc::invalid,
       "model.merges[0]"},
      {"AMergeOfOne",
       {.model = R"({"type": "BPE", "vocab": {"a": 0}, "merges": ["a"]})"},
       Errc::invalid,
       "model.merges[0] is no pair"},
      {"TheSameIdTwice",
       {.model = R"({"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []})"},
       Errc::invalid,
       "the id 0"},
      {"AnIdTooFar",
       {.model = R"({"type": "BPE", "vocab": {"a": 4000000}, "merges": []})"},
       Errc::limit_exceeded,
       "4000000"},
      {"ANegativeId",
       {.model = R"({"type": "BPE", "vocab": {"a": -1}, "merges": []})"},
       Errc::invalid,
       "-1"},
      {"AnUnknownTokenThatIsMissing",
       {.model = R"({"type": "BPE", "unk_token": "x", "vocab": {"a": 0}, "merges": []})"},
       Errc::invalid,
       "unk_token 'x'"},
      {"NoVocabulary",
       {.model = R"({"type": "BPE", "vocab": {}, "merges": []})"},
       Errc::invalid,
       "no vocabulary"},
      {"AnAddedTokenWithoutText",
       {.added = R"([{"id": 1, "content": ""}])"},
       Errc::invalid,
       "added_tokens[0] is empty"},
      {"AnAddedTokenInAnothersPlace",
       {.added = R"([{"id": 0, "content": "x"}])"},
       Errc::invalid,
       "added_tokens[0] gives the id 0"},
      {"ACharsmapThatIsNone",
       {.normalizer = R"({"type": "Precompiled", "precompiled_charsmap": "AAAA"})"},
       Errc::invalid,
       "normalizer: the table"},
      {"StepsBehindByteLevel",
       {.pre_tokenizer = R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"},
                             {"type": "Whitespace"}]})"},
       Errc::unsupported,
       "pretokenizers[1] stands behind ByteLevel"},
  };
  for (const Row& row : rows) {
    const auto tokenizer = parse_tokenizer_json(row.file.text());
    ASSERT_FALSE(tokenizer) << row.name;
    EXPECT_EQ(tokenizer.error().code, row.code) << row.name << ": " << tokenizer.error().message;
    EXPECT_THAT(tokenizer.error().message, HasSubstr(row.says)) << row.name;
  }
  EXPECT_FALSE(parse_tokenizer_json("[1"));
  EXPECT_FALSE(parse_tokenizer_json(Json{}.text(), R"({"eos_token": "missing"})"));
}

/// A table that maps "A" to "x": its root leads to unit 'A', which leads to the value at 200.
std::string charsmap() {
  std::vector<std::uint32_t> units(256);
  units['A'] = 'A' | 1U << 8U | (std::uint32_t{'A'} ^ 200U) << 10U;
  units[200] = 1U << 31U;
  std::string bytes(4 + units.size() * 4, '\0');
  const auto size = static_cast<std::uint32_t>(units.size() * 4);
  std::memcpy(bytes.data(), &size, sizeof size);
  std::memcpy(bytes.data() + 4, units.data(), size);
  return bytes + "x" + '\0';
}

TEST(Charsmap, ReplacesWhatItKnows) {
  struct Row {
    const char* name;
    const char* text;
    const char* longest;
    const char* cluster;
  };
  const Row rows[] = {
      {"ACharacter", "AbA", "xbx", "xbx"},
      {"Nothing", "", "", ""},
      // The package replaces a short cluster by the replacement of its beginning.
      {"AClusterLosesItsMarks", "A\u0301b", "x\u0301b", "xb"},
      {"ALongClusterDoesNot", "A\u0301\u0302\u0303b", "x\u0301\u0302\u0303b",
       "x\u0301\u0302\u0303b"},
  };
  const auto longest = Charsmap::parse(charsmap(), Charsmap::Unit::longest);
  const auto cluster = Charsmap::parse(charsmap(), Charsmap::Unit::cluster);
  ASSERT_TRUE(longest && cluster);
  for (const Row& row : rows) {
    EXPECT_EQ(longest->apply(row.text), row.longest) << row.name;
    EXPECT_EQ(cluster->apply(row.text), row.cluster) << row.name;
  }
  EXPECT_FALSE(Charsmap::parse("\x08\0\0\0", Charsmap::Unit::longest));
}

TEST(TokenizerJson, RefusesANormalizerThatGrowsWithoutEnd) {
  std::string steps;
  for (int i = 0; i < 40; ++i) {
    steps += std::string(i == 0 ? "" : ", ") +
             R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaa"})";
  }
  const auto tokenizer = parse_tokenizer_json(
      Json{.normalizer = R"({"type": "Sequence", "normalizers": [)" + steps + "]}"}.text());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  std::vector<TokenId> ids{7};
  const Status done = (*tokenizer)->encode("aaaa", Controls::off, true, ids);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::limit_exceeded);
  EXPECT_EQ(ids, std::vector<TokenId>{7});
}

TEST(CheckTokenizer, NamesWhatDoesNotComeBack) {
  struct Row {
    const char* name;
    Json file;
    const char* says;
  };
  const Row rows[] = {
      {"ACharacterWithoutToken", {}, "cannot take"},
      {"LowerCase",
       {.normalizer = R"({"type": "Lowercase"})",
        .model = R"({"type": "BPE", "vocab": {"a": 0}, "merges": []})"},
       "cannot take"},
  };
  for (const Row& row : rows) {
    const auto tokenizer = parse_tokenizer_json(row.file.text());
    ASSERT_TRUE(tokenizer) << row.name << ": " << tokenizer.error().message;
    const Status kept = check_tokenizer(**tokenizer);
    ASSERT_FALSE(kept) << row.name;
    EXPECT_EQ(kept.error().code, Errc::unsupported) << row.name;
    EXPECT_THAT(kept.error().message, HasSubstr(row.says)) << row.name;
  }
}

/// A megabyte of one letter and of one pair of letters goes through the queue. It must take O(n log
/// n), or the test would not finish.
TEST(TokenizerJson, LongWords) {
  const auto tokenizer = parse_tokenizer_json(Json{.model = kModel}.text());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  std::vector<TokenId> ids;
  ASSERT_TRUE((*tokenizer)->encode(std::string(1 << 20U, 'c'), Controls::off, true, ids));
  EXPECT_EQ(ids, std::vector<TokenId>(1 << 19U, 10));
}

// The queue and the plain search must give the same result: words on both sides of the limit.
TEST(TokenizerJson, LongWordsAreMergedAsShortOnes) {
  const auto tokenizer = parse_tokenizer_json(Json{.model = kModel}.text());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  for (unsigned seed = 0; seed < 200; ++seed) {
    // Twice a word with a character between that no merge crosses.
    std::string word;
    unsigned state = seed;
    for (unsigned i = 0; i < 1 + seed % 31; ++i) {
      state = state * 1664525U + 1013904223U;
      word += static_cast<char>('a' + (state >> 24U) % 3);
    }
    const Strings once = tokens_of(**tokenizer, word, Controls::off);
    Strings wanted;
    std::string text;
    for (int i = 0; i < 40; ++i) {
      wanted.insert(wanted.end(), once.begin(), once.end());
      wanted.emplace_back(" ");
      text += word + " ";
    }
    ASSERT_EQ(tokens_of(**tokenizer, text, Controls::off), wanted) << word;
  }
}

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// tokens.bin: "TKB1", u32 count, u32 eos; per token u8 kind (1: special), u16 length, bytes.
void expect_tokens(const Tokenizer& tokenizer, std::string_view wanted) {
  TokenId id = 0;
  for (std::size_t at = 12; at < wanted.size(); ++id) {
    std::uint16_t length = 0;
    std::memcpy(&length, wanted.data() + at + 1, sizeof length);
    ASSERT_EQ(tokenizer.bytes(id), wanted.substr(at + 3, length)) << id;
    ASSERT_TRUE(wanted[at] != 1 || tokenizer.is_control(id)) << id;
    at += 3U + length;
  }
  EXPECT_EQ(tokenizer.size(), static_cast<std::size_t>(id));
}

// The results of the `tokenizers` package when the samples were made (tests/samples/make.py).
TEST(TokenizerJson, OwnVocabulariesAreWhatTheTokenizersPackageSays) {
  const std::filesystem::path folder = folder_of(Data::own) / "vocab";
  for (const char* name : {"bytes", "pieces"}) {
    SCOPED_TRACE(name);
    const auto tokenizer = load_tokenizer((folder / name / "tokenizer.json").string());
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    const std::string tokens = slurp((folder / name / "tokens.bin").string());
    ASSERT_GT(tokens.size(), 1000U);
    expect_tokens(**tokenizer, tokens);
    const auto vocab = Vocab::of(**tokenizer);
    EXPECT_TRUE(vocab) << vocab.error().message;
    std::ifstream lines(folder / "expected.jsonl");
    std::size_t rows = 0;
    for (std::string line; std::getline(lines, line);) {
      const auto row = json::parse(line);
      ASSERT_TRUE(row) << line;
      if (*row->find("vocabulary") != json::Value(name)) continue;
      ++rows;
      std::vector<TokenId> ids;
      ASSERT_TRUE((*tokenizer)->encode(*row->find("text")->if_string(), Controls::on, true, ids));
      json::Array found;
      for (const TokenId id : ids) found.emplace_back(static_cast<std::int64_t>(id));
      EXPECT_EQ(json::Value(found), *row->find("ids")) << line;
    }
    EXPECT_GE(rows, 15U);
  }
}

TEST(TokenizerJson, RealVocabulariesAreWhatTheTokenizersPackageSays) {
  if (!is_there(Data::large)) GTEST_SKIP() << why_skipped(Data::large);
  using Ids = std::vector<TokenId>;
  struct Row {
    const char* text;
    Ids llama3;
    Ids qwen2;
    Ids gemma4;
  };
  // The results of `tokenizers` 0.23.3.
  const Row rows[] = {
      {"Hello world! 12345 don't",
       {9906, 1917, 0, 220, 4513, 1774, 1541, 956},
       {9707, 1879, 0, 220, 16, 17, 18, 19, 20, 1513, 944},
       {9259, 1902, 236888, 236743, 236770, 236778, 236800, 236812, 236810, 1537, 236789, 236745}},
      {"  two  spaces\r\n\n\tx",
       {220, 1403, 220, 12908, 81923, 10436},
       {220, 1378, 220, 12621, 80823, 10225},
       {138, 13498, 138, 35220, 251, 108, 255968, 236781}},
      {"e\u0301 \u212b ﬁ",
       {68, 54939, 29753, 104, 33595, 71831},
       {963, 79252, 32495, 70731},
       {236744, 238288, 236743, 464, 370, 409, 97940}},
      {"def f(x):\n    return x**2  # done",
       {755, 282, 2120, 997, 262, 471, 865, 334, 17, 220, 674, 2884},
       {750, 282, 2075, 982, 262, 470, 856, 334, 17, 220, 671, 2814},
       {2063, 517, 236769, 236781, 1473, 107, 140, 2060, 1123, 1018, 236778, 138, 236865, 3028}},
  };
  struct Vocabulary {
    const char* name;
    Ids Row::* ids;
  };
  const Vocabulary vocabularies[] = {
      {"llama3", &Row::llama3}, {"qwen2", &Row::qwen2}, {"gemma4", &Row::gemma4}};
  for (const Vocabulary& vocabulary : vocabularies) {
    const bool is_quick = std::string_view(vocabulary.name) == "qwen2";
    if (!is_quick && !is_long_test()) continue;
    SCOPED_TRACE(vocabulary.name);
    const std::string folder = (folder_of(Data::large) / "vocab" / vocabulary.name).string();
    const std::string tokens = slurp(folder + "/tokens.bin");
    const auto tokenizer = load_tokenizer(folder + "/tokenizer.json");
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    expect_tokens(**tokenizer, tokens);
    const auto vocab = Vocab::of(**tokenizer);
    EXPECT_TRUE(vocab) << vocab.error().message;
    for (const Row& row : rows) {
      Ids ids;
      ASSERT_TRUE((*tokenizer)->encode(row.text, Controls::on, true, ids));
      EXPECT_EQ(ids, row.*vocabulary.ids) << row.text;
    }
  }
}

}  // namespace
}  // namespace tenon::vocab
