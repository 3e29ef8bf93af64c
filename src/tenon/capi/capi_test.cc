#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenon/base/log.h"
#include "tenon/base/utf8.h"
#include "tenon/capi/handles_for_test.h"
#include "tenon/json/value.h"

namespace tenon::capi {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Ids = std::vector<std::int32_t>;

Ids encoded(const tenon_vocab* vocab, std::string_view said, bool controls = false) {
  std::size_t count = 0;
  EXPECT_EQ(told(tenon_vocab_encode(vocab, text(said), controls, nullptr, 0, &count)), "ok");
  Ids ids(count);
  EXPECT_EQ(told(tenon_vocab_encode(vocab, text(said), controls, ids.data(), count, &count)), "ok");
  EXPECT_EQ(count, ids.size());
  return ids;
}

std::string decoded(const tenon_vocab* vocab, const Ids& ids) {
  return string_of(tenon_vocab_decode, vocab, ids.data(), ids.size());
}

// ---- Version, texts, errors ----------------------------------------------------------------

TEST(Capi, VersionIsThatOfTheHeader) {
  EXPECT_THAT(tenon_version(), StartsWith(std::to_string(TENON_VERSION_MAJOR) + "." +
                                          std::to_string(TENON_VERSION_MINOR) + "."));
}

std::vector<std::string>& lines() {
  static std::vector<std::string> lines;
  return lines;
}

TEST(Capi, LogGoesWhereItIsSentFromALevelOn) {
  const auto keep = [](void* user, tenon_log_level level, tenon_text line) {
    EXPECT_EQ(user, &lines());
    lines().push_back(std::to_string(level) + " " + read(line));
  };
  lines().clear();
  tenon_set_log(keep, &lines(), TENON_LOG_INFO);
  log::debug("a");
  log::info("b");
  log::error("c");
  tenon_set_log(nullptr, nullptr, TENON_LOG_TRACE);
  log::error("d");
  EXPECT_THAT(lines(), ElementsAre("2 b", "4 c"));
}

// ---- Vocabularies --------------------------------------------------------------------------

TEST(Capi, VocabularyKnowsItsTokens) {
  const tenon_vocab* vocab = bundled_vocab();
  EXPECT_GT(tenon_vocab_size(vocab), 1000U);
  const std::int32_t control = tenon_vocab_control(vocab, text("<|im_end|>"));
  ASSERT_GE(control, 0);
  const tenon_token token = tenon_vocab_token(vocab, control);
  EXPECT_EQ(read(token.bytes), "<|im_end|>");
  EXPECT_EQ(token.kind, TENON_TOKEN_CONTROL);
  EXPECT_EQ(tenon_vocab_control(vocab, text("<|nobody|>")), -1);
  std::size_t count = 0;
  const std::int32_t* ends = tenon_vocab_ends(vocab, &count);
  EXPECT_NE(std::find(ends, ends + count, control), ends + count);
  for (const std::int32_t id : {-1, static_cast<std::int32_t>(tenon_vocab_size(vocab))}) {
    EXPECT_EQ(tenon_vocab_token(vocab, id).kind, TENON_TOKEN_UNUSED);
    EXPECT_EQ(read(tenon_vocab_token(vocab, id).bytes), "");
  }
}

TEST(Capi, TextComesBackAndOnlyAsAskedBecomesControlTokens) {
  const tenon_vocab* vocab = bundled_vocab();
  const std::string said = "Grüße, <|im_end|>\n{\"a\": 1}";
  const std::int32_t control = tenon_vocab_control(vocab, text("<|im_end|>"));
  for (const bool controls : {false, true}) {
    const Ids ids = encoded(vocab, said, controls);
    EXPECT_EQ(decoded(vocab, ids), said);
    EXPECT_EQ(std::ranges::count(ids, control), controls ? 1 : 0);
  }
  // Only as many ids are written as fit, and all are counted.
  const Ids all = encoded(vocab, said);
  Ids some(3, -7);
  std::size_t count = 0;
  EXPECT_EQ(told(tenon_vocab_encode(vocab, text(said), 0, some.data(), 2, &count)), "ok");
  EXPECT_EQ(count, all.size());
  EXPECT_EQ(some, (Ids{all[0], all[1], -7}));
}

TEST(Capi, VocabularyOfATokenizerInMemory) {
  const std::string_view file = R"({
    "version": "1.0", "added_tokens": [{"id": 258, "content": "<|end|>", "special": true}],
    "normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false,
    "trim_offsets": true, "use_regex": false}, "post_processor": null,
    "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})";
  tenon_vocab* vocab = nullptr;
  // The file is read, and the error says what it lacks.
  EXPECT_THAT(told(tenon_vocab_parse(text(file), text(""), &vocab)),
              HasSubstr("the vocabulary has no token for"));
  EXPECT_EQ(vocab, nullptr);
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8U | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out += i + k > bytes.size() ? '=' : kDigits[group >> (18 - 6 * k) & 63U];
    }
  }
  return out;
}

TEST(Capi, VocabularyOfTiktoken) {
  std::string file;
  for (int byte = 0; byte < 256; ++byte) {
    file += base64(std::string(1, static_cast<char>(byte))) + " " + std::to_string(byte) + "\n";
  }
  file += base64("ab") + " 256\n";
  const auto vocab =
      made(tenon_vocab_parse_tiktoken, text(file),
           text(R"({"pattern": ".+", "special": {"<|endoftext|>": 257}, "eos": "<|endoftext|>"})"));
  EXPECT_EQ(encoded(vocab.get(), "xab"), (Ids{'x', 256}));
  std::size_t count = 0;
  EXPECT_EQ(*tenon_vocab_ends(vocab.get(), &count), 257);
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(tenon_vocab_bos(vocab.get()), -1);
}

// Bytes, a longer token, a control token and a token that is never chosen.
Owned<tenon_vocab> table(const std::vector<std::int32_t>& ends) {
  std::vector<std::string> bytes;
  std::vector<tenon_token> tokens;
  for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
  for (const char* more : {"12", "<end>", "never"}) bytes.emplace_back(more);
  for (const std::string& one : bytes) tokens.push_back({text(one), TENON_TOKEN_TEXT});
  tokens[257].kind = TENON_TOKEN_CONTROL;
  tokens[258].kind = TENON_TOKEN_UNUSED;
  return made(tenon_vocab_new, tokens.data(), tokens.size(), ends.data(), ends.size());
}

TEST(Capi, VocabularyOfTokens) {
  const auto vocab = table({257});
  EXPECT_EQ(tenon_vocab_size(vocab.get()), 259U);
  EXPECT_EQ(tenon_vocab_token(vocab.get(), 258).kind, TENON_TOKEN_UNUSED);
  EXPECT_EQ(tenon_vocab_control(vocab.get(), text("<end>")), 257);
  EXPECT_EQ(tenon_vocab_bos(vocab.get()), -1);
  EXPECT_EQ(decoded(vocab.get(), {'a', 256, 257}), "a12<end>");
}

TEST(Capi, EndsThatTheFilesDoNotName) {
  const auto without = table({});
  const Ids ends = {257, 257};
  const auto vocab = made(tenon_vocab_with_ends, without.get(), ends.data(), ends.size());
  std::size_t count = 0;
  EXPECT_EQ(*tenon_vocab_ends(vocab.get(), &count), 257);
  EXPECT_EQ(count, 1U);
  tenon_vocab_ends(without.get(), &count);
  EXPECT_EQ(count, 0U) << "the first one stays as it is";
}

TEST(Capi, VocabularyOfAFolderHasTheEndsOfItsConfig) {
  // The bundled model's folder: no tokenizer.json, so its GGUF file.
  const auto vocab = made(tenon_vocab_load, text(TENON_SOURCE_DIR "/models"));
  EXPECT_EQ(tenon_vocab_size(vocab.get()), tenon_vocab_size(bundled_vocab()));
}

// ---- Schemas -------------------------------------------------------------------------------

TEST(Capi, SchemaListsEveryViolation) {
  const auto schema =
      made(tenon_schema_compile,
           text(R"({"properties": {"a": {"type": "integer"}, "b": {"$ref": "urn:b"}}})"),
           text(R"({"documents": {"urn:b": {"format": "date"}}, "assert_format": true})"));
  EXPECT_EQ(string_of(tenon_schema_validate, schema.get(), text(R"({"a": 1})")), "[]");
  const std::string violations =
      string_of(tenon_schema_validate, schema.get(), text(R"({"a": "1", "b": "x"})"));
  const auto list = json::parse(violations);
  ASSERT_TRUE(list && list->if_array() != nullptr) << violations;
  ASSERT_EQ(list->if_array()->size(), 2U) << violations;
  EXPECT_EQ(*list->if_array()->at(0).find("instance_path"), json::Value("/a"));
  int is_valid = 7;
  EXPECT_EQ(told(tenon_schema_is_valid(schema.get(), text(R"({"a": 1})"), &is_valid)), "ok");
  EXPECT_EQ(is_valid, 1);
  EXPECT_EQ(told(tenon_schema_is_valid(schema.get(), text(R"({"a": 1.5})"), &is_valid)), "ok");
  EXPECT_EQ(is_valid, 0);
}

// ---- Grammars and matchers -----------------------------------------------------------------

Owned<tenon_grammar> grammar_of(const tenon_vocab* vocab, std::string_view request) {
  return made(tenon_grammar_compile, vocab, text(request));
}

std::vector<std::uint32_t> mask_of(tenon_matcher* matcher, std::size_t words) {
  std::vector<std::uint32_t> mask(words, ~0U);
  EXPECT_EQ(told(tenon_matcher_fill_mask(matcher, mask.data(), words)), "ok");
  return mask;
}

bool has(const std::vector<std::uint32_t>& mask, std::int32_t id) {
  return (mask[static_cast<std::size_t>(id) / 32] >> id % 32 & 1U) != 0;
}

struct GrammarRow {
  const char* request;
  std::string_view fits;
  std::string_view fits_not;
};

// Each kind of grammar in a request.
const GrammarRow kGrammars[] = {
    {R"({"schema": {"enum": [12]}})", "12", "13"},
    {R"({"schema": {"type": "object", "properties": {"a": {"type": "integer"}}}, "whitespace": "compact"})",
     R"({"a":1})", R"({"a": 1})"},
    {R"({"grammar": "root ::= \"1\"+ \"2\"", "syntax": "gbnf"})", "112", "2"},
    {R"({"grammar": "start: /1+2/", "syntax": "lark"})", "12", "1x"},
    {R"({"grammar": "[ab]{3}", "syntax": "regex"})", "aba", "abc"},
};

TEST(Capi, GrammarsHoldTextsByBytesAndByTokens) {
  const auto vocab = table({257});
  for (const GrammarRow& row : kGrammars) {
    const auto grammar = grammar_of(vocab.get(), row.request);
    const auto matcher = made(tenon_matcher_new, grammar.get());
    for (const char byte : row.fits) {
      const auto id = static_cast<std::int32_t>(static_cast<unsigned char>(byte));
      EXPECT_TRUE(has(mask_of(matcher.get(), 9), id)) << row.request << byte;
      EXPECT_EQ(tenon_matcher_accept(matcher.get(), id), 1) << row.request;
    }
    EXPECT_EQ(tenon_matcher_is_accepting(matcher.get()), 1) << row.request;
    EXPECT_EQ(tenon_matcher_accept(matcher.get(), 257), 1) << row.request;
    EXPECT_EQ(tenon_matcher_is_finished(matcher.get()), 1);
    tenon_matcher_reset(matcher.get());
    EXPECT_EQ(tenon_matcher_accept_bytes(matcher.get(), text(row.fits_not)), 0) << row.request;
    EXPECT_EQ(read(tenon_matcher_error(matcher.get())), "");
    EXPECT_EQ(string_of(tenon_grammar_relaxed, grammar.get()), "[]");
  }
}

TEST(Capi, WhatLenientGrammarsLeaveOutIsListed) {
  const auto grammar = grammar_of(
      bundled_vocab(), R"({"schema": {"properties": {"a": {"maximum": 1e999}}}, "lenient": true})");
  EXPECT_THAT(string_of(tenon_grammar_relaxed, grammar.get()),
              StartsWith(R"([{"schema_path":"/properties/a","keyword":"maximum")"));
}

TEST(Capi, MasksBeyondTheVocabularyAreEmpty) {
  const auto vocab = table({257});
  const auto grammar = grammar_of(vocab.get(), R"({"schema": {"enum": [12]}})");
  const auto matcher = made(tenon_matcher_new, grammar.get());
  const auto mask = mask_of(matcher.get(), 12);
  std::set<std::int32_t> allowed;
  for (std::int32_t id = 0; id < 12 * 32; ++id) {
    if (has(mask, id)) allowed.insert(id);
  }
  // White space may come first; apart from that, "1" and "12" are allowed.
  EXPECT_TRUE(allowed.contains('1') && allowed.contains(256));
  EXPECT_FALSE(allowed.contains('2') || allowed.contains(257));
  EXPECT_LT(*allowed.rbegin(), 259);
}

TEST(Capi, MasksOfABatchAreThoseOfEachMatcher) {
  const auto vocab = table({257});
  const auto pool = made(tenon_mask_pool_new, std::size_t{2});
  const auto numbers = grammar_of(vocab.get(), R"({"grammar": "1+2", "syntax": "regex"})");
  const auto letters = grammar_of(vocab.get(), R"({"grammar": "a+b", "syntax": "regex"})");
  const auto a = made(tenon_matcher_new, numbers.get());
  const auto b = made(tenon_matcher_new, letters.get());
  const auto c = made(tenon_matcher_new, numbers.get());
  EXPECT_EQ(tenon_matcher_accept_bytes(c.get(), text("12")), 1);
  tenon_matcher* const batch[] = {a.get(), b.get(), c.get()};
  for (const bool is_mixed : {false, true}) {
    constexpr std::size_t kWords = 12;
    const std::size_t mixed[] = {3, 0, 2};
    std::vector<std::uint32_t> masks(4 * kWords, ~0U);
    tenon_error* errors[3] = {};
    ASSERT_EQ(told(tenon_mask_pool_fill_masks(pool.get(), batch, 3, masks.data(), 4, kWords,
                                              is_mixed ? mixed : nullptr, errors)),
              "ok");
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(told(errors[i]), "ok");
      const auto row =
          masks.begin() + static_cast<std::ptrdiff_t>((is_mixed ? mixed[i] : i) * kWords);
      EXPECT_EQ(std::vector(row, row + kWords), mask_of(batch[i], kWords)) << i;
    }
    const std::size_t spare = is_mixed ? 1 : 3;
    EXPECT_EQ(masks[spare * kWords], ~0U) << "a row without a matcher is left alone";
  }
  EXPECT_EQ(
      told(tenon_mask_pool_fill_masks(pool.get(), nullptr, 0, nullptr, 0, 0, nullptr, nullptr)),
      "ok");
}

TEST(Capi, ADraftTreeHasAMaskForEachNode) {
  const auto vocab = table({257});
  const auto grammar = grammar_of(vocab.get(), R"({"grammar": "ab|ac", "syntax": "regex"})");
  const auto matcher = made(tenon_matcher_new, grammar.get());
  const std::int32_t tokens[] = {0, 'a', 'b', 'x', 'b', 'c'};
  const std::int32_t parents[] = {-1, 0, 1, 1, 3, 1};
  constexpr std::size_t kWords = 9;
  std::vector<std::uint32_t> masks(6 * kWords, ~0U);
  std::size_t reached = 0;
  ASSERT_EQ(told(tenon_matcher_fill_draft_masks(matcher.get(), tokens, parents, 6, masks.data(),
                                                kWords, &reached)),
            "ok");
  EXPECT_EQ(reached, 4U);
  EXPECT_EQ(tenon_matcher_accepted_count(matcher.get()), 0U);
  const auto allowed = [&](std::size_t node) {
    std::set<std::int32_t> ids;
    const auto row = masks.begin() + static_cast<std::ptrdiff_t>(node * kWords);
    const std::vector<std::uint32_t> mask(row, row + kWords);
    for (std::int32_t id = 0; id < 258; ++id) {
      if (has(mask, id)) ids.insert(id);
    }
    return ids;
  };
  EXPECT_TRUE(allowed(0).contains('a') && !allowed(0).contains('b'));
  EXPECT_EQ(allowed(1), (std::set<std::int32_t>{'b', 'c'}));
  EXPECT_EQ(allowed(2), std::set<std::int32_t>{257});
  EXPECT_EQ(allowed(3), std::set<std::int32_t>{});
  EXPECT_EQ(allowed(4), std::set<std::int32_t>{});
}

TEST(Capi, MatchersGoBackForkAndLookAhead) {
  const auto vocab = table({257});
  auto grammar = grammar_of(vocab.get(), R"({"grammar": "ab+(12|13)x", "syntax": "regex"})");
  const auto matcher = made(tenon_matcher_new, grammar.get());
  grammar.reset();  // the matcher keeps what it was made from
  EXPECT_EQ(read(tenon_matcher_forced_bytes(matcher.get(), 0)), "ab");
  EXPECT_EQ(read(tenon_matcher_forced_bytes(matcher.get(), 1)), "a");
  const std::int32_t draft[] = {'a', 'b', 'b', 'z'};
  EXPECT_EQ(tenon_matcher_validate_draft(matcher.get(), draft, 4), 3U);
  EXPECT_EQ(tenon_matcher_accepted_count(matcher.get()), 0U);

  EXPECT_EQ(tenon_matcher_accept_bytes(matcher.get(), text("ab")), 1);
  const auto fork = made(tenon_matcher_copy, matcher.get());
  EXPECT_EQ(tenon_matcher_accept(matcher.get(), 256), 1);
  EXPECT_EQ(tenon_matcher_accepted_count(matcher.get()), 2U);
  EXPECT_EQ(tenon_matcher_accepted_count(fork.get()), 1U);
  EXPECT_EQ(tenon_matcher_accept_bytes(fork.get(), text("13x")), 1);
  EXPECT_EQ(tenon_matcher_is_complete(fork.get()), 1);
  EXPECT_EQ(tenon_matcher_is_complete(matcher.get()), 0);

  std::int32_t ids[4] = {};
  std::size_t count = 0;
  EXPECT_EQ(told(tenon_matcher_tokens_to_end(matcher.get(), ids, 4, &count)), "ok");
  EXPECT_EQ((Ids(ids, ids + count)), Ids{'x'});
  EXPECT_EQ(told(tenon_matcher_rollback(matcher.get(), 1)), "ok");
  EXPECT_EQ(told(tenon_matcher_tokens_to_end(matcher.get(), ids, 4, &count)), "ok");
  EXPECT_EQ((Ids(ids, ids + count)), (Ids{256, 'x'}));
  EXPECT_EQ(tenon_matcher_accept(matcher.get(), 99999), 0);
  EXPECT_EQ(tenon_matcher_accept(matcher.get(), -1), 0);
}

TEST(Capi, ForcedTokensAreWrittenAsTheTokenizerWritesThem) {
  const auto grammar = grammar_of(bundled_vocab(), R"({"schema": {"type": "object", "properties":
      {"location": {"type": "integer"}}, "required": ["location"], "additionalProperties": false},
      "whitespace": "spaced"})");
  const auto matcher = made(tenon_matcher_new, grammar.get());
  std::int32_t ids[16] = {};
  std::size_t count = 0;
  EXPECT_EQ(told(tenon_matcher_forced_tokens(matcher.get(), ids, 16, &count)), "ok");
  ASSERT_GT(count, 0U);
  EXPECT_THAT(std::string("{\"location\": "),
              StartsWith(decoded(bundled_vocab(), Ids(ids, ids + count))));
  std::size_t first = 0;
  EXPECT_EQ(told(tenon_matcher_forced_tokens(matcher.get(), ids, 1, &first)), "ok");
  EXPECT_EQ(first, 1U);
}

TEST(Capi, SameRequestIsTheSameGrammarFromManyThreads) {
  const auto vocab = table({257});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&vocab] {
      for (int k = 0; k < 20; ++k) {
        const auto grammar = grammar_of(vocab.get(), R"({"schema": {"enum": [12, 13]}})");
        const auto matcher = made(tenon_matcher_new, grammar.get());
        EXPECT_TRUE(has(mask_of(matcher.get(), 9), '1'));
        EXPECT_EQ(tenon_matcher_accept_bytes(matcher.get(), text("13")), 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A matcher that has reached a limit can answer neither yes nor no.
TEST(Capi, WhatCannotBeToldIsNoVerdict) {
  // More ways to read one text than a grammar may have.
  constexpr int kMany = 21000;
  std::string root = "root ::= \\\"x\\\" (r0";
  std::string rules;
  for (int i = 0; i < kMany; ++i) {
    const std::string name = "r" + std::to_string(i);
    if (i > 0) root += " | " + name;
    rules += "\\n" + name + " ::= \\\"a\\\" " + name + " \\\"b\\\" | \\\"c\\\"";
  }
  const std::string request = R"({"syntax": "gbnf", "grammar": ")" + root + ")" + rules + "\"}";
  const auto grammar = grammar_of(bundled_vocab(), request);
  const auto matcher = made(tenon_matcher_new, grammar.get());
  EXPECT_EQ(tenon_matcher_accept_bytes(matcher.get(), text("xa")), -1);
  EXPECT_THAT(read(tenon_matcher_error(matcher.get())), HasSubstr("ways to read one text"));
  EXPECT_EQ(tenon_matcher_accept(matcher.get(), -1), 0);
  EXPECT_EQ(read(tenon_matcher_error(matcher.get())), "") << "that was the call before";
}

TEST(Capi, GrammarsArePrintedForOtherEngines) {
  tenon_string* printed = nullptr;
  tenon_string* relaxed = nullptr;
  const std::string_view request = R"({"schema": {"type": "array", "uniqueItems": true}})";
  for (const auto& [to, expected] : {std::pair("gbnf", "root ::="), std::pair("lark", "start:"),
                                     std::pair("json-schema", "uniqueItems")}) {
    ASSERT_EQ(told(tenon_grammar_print(text(request), text(to), &printed, &relaxed)), "ok");
    EXPECT_THAT(take(printed), HasSubstr(expected));
    EXPECT_THAT(take(relaxed), StartsWith("["));
  }
  const std::string_view calls =
      R"({"tools": [{"type": "function", "function": {"name": "add"}}], "format": "hermes"})";
  ASSERT_EQ(told(tenon_grammar_print(text(calls), text("ebnf"), &printed, nullptr)), "ok");
  EXPECT_THAT(take(printed), HasSubstr("add"));
}

constexpr std::string_view kTools = R"([{"type": "function", "function": {"name": "add",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}},
                   "required": ["a"], "additionalProperties": false}}}])";

TEST(Capi, CallsAreHeldToTheirFormatAndTools) {
  const tenon_vocab* vocab = bundled_vocab();
  const auto format = format_named("hermes");
  const std::string request =
      R"({"tool_choice": "required", "tools": )" + std::string(kTools) + "}";
  const auto grammar = made(tenon_grammar_for_tools, vocab, format.get(), text(request));
  const auto matcher = made(tenon_matcher_new, grammar.get());
  const auto accepts = [&](std::string_view said) {
    tenon_matcher_reset(matcher.get());
    for (const std::int32_t id : encoded(vocab, said, /*controls=*/true)) {
      if (tenon_matcher_accept(matcher.get(), id) != 1) return false;
    }
    return tenon_matcher_is_accepting(matcher.get()) == 1;
  };
  EXPECT_TRUE(accepts("<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>"));
  EXPECT_FALSE(accepts("<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(accepts("no call"));
  // The same with a response format, and the order of arguments.
  const auto both = made(tenon_grammar_for_tools, vocab, format.get(), text(R"({
      "response_format": {"type": "json_object"}, "argument_order": "any", "prompt_tail": ""})"));
  const auto json = made(tenon_matcher_new, both.get());
  EXPECT_EQ(tenon_matcher_accept_bytes(json.get(), text("{\"a\"")), 1);
}

// ---- Formats -------------------------------------------------------------------------------

TEST(Capi, FormatsAreFoundListedAndRegistered) {
  EXPECT_THAT(string_of(tenon_format_info, format_named("hermes").get()),
              StartsWith(R"({"name":"hermes","aliases":[)"));
  const auto own = made(tenon_format_compile, text("name = \"of_the_test\"\n"
                                                   "[[syntax]]\n"
                                                   "call = \"<<${object}>>\"\n"));
  tenon_format* found = nullptr;
  EXPECT_THAT(told(tenon_format_find(text("of_the_test"), &found)), StartsWith("unsupported"));
  EXPECT_EQ(told(tenon_format_register(own.get())), "ok");
  const auto registered = format_named("of_the_test");
  EXPECT_THAT(string_of(tenon_format_names), HasSubstr("\"of_the_test\""));
}

TEST(Capi, FormatsAreDetected) {
  struct DetectRow {
    std::string_view clues;
    const tenon_vocab* vocab;
    std::string_view by;
  };
  const DetectRow rows[] = {
      {R"({"chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}<tool_call></tool_call>"})",
       nullptr, "markers"},
      {R"({"model_name": "NousResearch/Hermes-3-Llama-3.1-8B"})", nullptr, "name"},
      {"{}", bundled_vocab(), "vocabulary"},
      {"{}", nullptr, "nothing"},
  };
  for (const DetectRow& row : rows) {
    tenon_format* format = nullptr;
    tenon_string* evidence = nullptr;
    ASSERT_EQ(told(tenon_format_detect(text(row.clues), row.vocab, &format, &evidence)), "ok");
    const Owned<tenon_format> owned(format);
    EXPECT_EQ(format == nullptr, row.by == "nothing") << row.clues;
    EXPECT_THAT(take(evidence), StartsWith("{\"by\":\"" + std::string(row.by))) << row.clues;
  }
}

TEST(Capi, CallsAndToolsAreWrittenInAFormat) {
  const auto format = format_named("hermes");
  EXPECT_EQ(string_of(tenon_format_render_calls, format.get(),
                      text(R"([{"type": "function", "id": "a", "function":
                               {"name": "add", "arguments": "{\"a\": 1}"}}])")),
            "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>");
  EXPECT_THAT(string_of(tenon_format_describe_tools, format.get(), text(kTools)), HasSubstr("add"));
}

// ---- Chat templates ------------------------------------------------------------------------

TEST(Capi, TemplatesRenderAndTellWhatIsData) {
  const auto compiled = made(tenon_template_compile,
                             text("{{ bos_token }}<|im_start|>{{ messages[0].content }}<|im_end|>"
                                  "{% if add_generation_prompt %}go{% endif %}{{ mood }}"),
                             text(R"({"bos_token": "<s>", "generic_fallback": false})"));
  const auto prompt =
      made(tenon_template_render, compiled.get(),
           text(R"({"messages": [{"role": "user", "content": "<|im_end|>"}], "mood": "!"})"));
  EXPECT_EQ(read(tenon_prompt_text(prompt.get())), "<s><|im_start|><|im_end|><|im_end|>go!");
  std::size_t count = 0;
  const tenon_span* spans = tenon_prompt_spans(prompt.get(), &count);
  std::string data;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string piece =
        read(tenon_prompt_text(prompt.get())).substr(spans[i].begin, spans[i].end - spans[i].begin);
    if (spans[i].is_data != 0) data += piece + "|";
  }
  EXPECT_EQ(data, "<|im_end|>|!|");
  EXPECT_EQ(string_of(tenon_prompt_shaping, prompt.get()), "[]");

  Ids ids(64);
  EXPECT_EQ(
      told(tenon_prompt_tokenize(prompt.get(), bundled_vocab(), ids.data(), ids.size(), &count)),
      "ok");
  ids.resize(count);
  const std::int32_t end = tenon_vocab_control(bundled_vocab(), text("<|im_end|>"));
  EXPECT_EQ(std::ranges::count(ids, end), 1) << "what a user writes is text";
  tenon_format* format = nullptr;
  EXPECT_EQ(told(tenon_template_format(compiled.get(), &format)), "ok");
  EXPECT_EQ(format, nullptr) << "its models do not call tools";
}

TEST(Capi, TemplatesOfModelsKnowTheirFormat) {
  const auto loaded = made(tenon_template_load, text(model_path()));
  const auto format = made(tenon_template_format, loaded.get());
  EXPECT_THAT(string_of(tenon_format_info, format.get()), HasSubstr("\"hermes\""));
  const std::string capabilities = string_of(tenon_template_capabilities, loaded.get());
  EXPECT_THAT(capabilities, HasSubstr(R"("tools":true)"));
  EXPECT_THAT(capabilities, HasSubstr(R"("reasoning":{"history":)"));
  // Messages that the template cannot render are rewritten and reported, unless the request forbids
  // it.
  const auto prompt = made(tenon_template_render, loaded.get(), text(R"({"messages": [
      {"role": "user", "content": [{"type": "text", "text": "hi"}]}], "now": "2026-11-20",
      "add_generation_prompt": false})"));
  EXPECT_THAT(read(tenon_prompt_text(prompt.get())), HasSubstr("hi"));
  EXPECT_THAT(read(tenon_prompt_text(prompt.get())), ::testing::Not(HasSubstr("assistant")));
}

TEST(Capi, WhatWasRewrittenIsTold) {
  const auto compiled = made(tenon_template_compile,
                             text("{% for m in messages %}{% if m.role == 'system' %}"
                                  "{{ raise_exception('no system') }}{% endif %}"
                                  "[{{ m.role }}: {{ m.content }}]{% endfor %}"),
                             text(""));
  const std::string_view request =
      R"({"messages": [{"role": "system", "content": "be"}, {"role": "user", "content": "hi"}])";
  const auto prompt = made(tenon_template_render, compiled.get(), text(std::string(request) + "}"));
  EXPECT_THAT(read(tenon_prompt_text(prompt.get())), StartsWith("[user: be"));
  EXPECT_NE(string_of(tenon_prompt_shaping, prompt.get()), "[]");
  tenon_prompt* none = nullptr;
  EXPECT_THAT(told(tenon_template_render(
                  compiled.get(), text(std::string(request) + R"(, "shape": false})"), &none)),
              HasSubstr("no system"));
}

// ---- Stream parsers ------------------------------------------------------------------------

std::string shown(const tenon_event* events, std::size_t count) {
  std::string shown;
  for (std::size_t i = 0; i < count; ++i) {
    const tenon_event& event = events[i];
    EXPECT_EQ(event.size, sizeof(tenon_event));
    const std::string said = read(event.text);
    const std::string name = read(event.name);
    const std::string call = std::to_string(event.call);
    switch (event.type) {
      case TENON_EVENT_CONTENT:
        shown += said;
        break;
      case TENON_EVENT_REASONING:
        shown += "(" + said + ")";
        break;
      case TENON_EVENT_CALL:
        shown += "[" + call + " " + name + " " + (read(event.id).empty() ? "no id" : "");
        break;
      case TENON_EVENT_ARGUMENTS:
        shown += said;
        break;
      case TENON_EVENT_CALL_END:
        shown += event.is_incomplete != 0 ? "..." : "]";
        break;
      case TENON_EVENT_DIAGNOSTIC:
        EXPECT_NE(said, "");
        shown += "!" + name + "!";
        break;
      default:
        ADD_FAILURE() << event.type;
    }
  }
  return shown;
}

struct ParserRow {
  const char* name;
  std::string options;
  std::string said;
  std::string events;
  bool is_truncated = false;
};

const std::string kAdd = std::string(R"({"tools": )") + std::string(kTools);

const ParserRow kParses[] = {
    {"Call", kAdd + "}", "Hi <tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}</tool_call>",
     "Hi [0 add {\"a\": 1}]"},
    {"AnyToolWhereNoneAreNamed", "",
     "<tool_call>{\"name\": \"sub\", \"arguments\": {}}</tool_call>", "[0 sub {}]"},
    {"NoToolWhereTheListIsEmpty", R"({"tools": []})",
     "<tool_call>{\"name\": \"sub\", \"arguments\": {}}</tool_call>",
     "<tool_call>{\"name\": \"sub\", \"arguments\": {}}</tool_call>"},
    {"Cut", kAdd + "}", "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1",
     "[0 add {\"a\": 1!incomplete_call!...", true},
    {"Forwarded", kAdd + R"(, "on_unknown_tool": "forward"})",
     "<tool_call>{\"name\": \"sub\", \"arguments\": {}}</tool_call>", "!forwarded_tool![0 sub {}]"},
    {"Repaired", kAdd + R"(, "on_unknown_tool": "repair"})",
     "<tool_call>{\"name\": \"Add\", \"arguments\": {}}</tool_call>", "!name_fixed![0 add {}]"},
    {"FallbackFormat", kAdd + "}", "<function=add>\n<parameter=a>\n1\n</parameter>\n</function>",
     "!fallback_format![0 add {\"a\": 1}]"},
    {"NoFallbackFormat", kAdd + R"(, "fallbacks": false})", "<function=add>{\"a\": 1}</function>",
     "<function=add>{\"a\": 1}</function>"},
    {"Reasoning", "", "<think>so</think>yes", "(so)yes"},
    {"ReasoningIsText", R"({"parse_reasoning": false})", "<think>so</think>yes",
     "<think>so</think>yes"},
    {"ReasoningThatThePromptOpened", R"({"prompt_tail": "<think>\n"})", "so</think>yes", "(so)yes"},
};

// However the output is cut, and by tokens as well as by text.
TEST(Capi, ParsersTellTheSameHoweverTheOutputIsCut) {
  const auto format = format_named("hermes");
  for (const ParserRow& row : kParses) {
    const auto parser = made(tenon_parser_new, format.get(), nullptr, text(row.options));
    for (std::size_t size = 1; size <= row.said.size() + 1; ++size) {
      std::string events;
      const tenon_event* some = nullptr;
      std::size_t count = 0;
      for (std::size_t at = 0; at < row.said.size(); at += size) {
        const std::string piece = row.said.substr(at, size);
        ASSERT_EQ(told(tenon_parser_feed(parser.get(), text(piece), 0, &some, &count)), "ok");
        events += shown(some, count);
      }
      ASSERT_EQ(told(tenon_parser_finish(parser.get(), row.is_truncated, &some, &count)), "ok");
      events += shown(some, count);
      for (std::size_t at = 0; (at = events.find(")(")) != std::string::npos;) events.erase(at, 2);
      EXPECT_EQ(events, row.events) << row.name << ", pieces of " << size;
      tenon_parser_reset(parser.get());
    }
  }
}

TEST(Capi, ParsersReadTokens) {
  const tenon_vocab* vocab = bundled_vocab();
  const auto parser = made(tenon_parser_new, format_named("hermes").get(), vocab, text(kAdd + "}"));
  // In this vocabulary the marker is a control token, so a marker that is spelled is text.
  const std::string call = "{\"name\": \"add\", \"arguments\": {\"a\": 1}}";
  Ids ids = encoded(vocab, "<tool_call>", /*controls=*/false);
  for (const std::int32_t id :
       encoded(vocab, "<tool_call>" + call + "</tool_call><|im_end|>", /*controls=*/true)) {
    ids.push_back(id);
  }
  std::string events;
  const tenon_event* some = nullptr;
  std::size_t count = 0;
  for (const std::int32_t id : ids) {
    ASSERT_EQ(told(tenon_parser_feed_token(parser.get(), id, &some, &count)), "ok");
    events += shown(some, count);
  }
  ASSERT_EQ(told(tenon_parser_finish(parser.get(), 0, &some, &count)), "ok");
  events += shown(some, count);
  EXPECT_EQ(events, "<tool_call>[0 add {\"a\": 1}]");
}

// ---- Repair --------------------------------------------------------------------------------

TEST(Capi, MendersRepairAndTellWhat) {
  const auto mender =
      made(tenon_mender_new,
           text(R"({"type": "function", "function": {"name": "f", "parameters": {"type": "object",
               "properties": {"n": {"type": "integer"}, "all": {"type": "boolean"}}}}})"),
           text(""));
  std::string repaired;
  tenon_text piece{nullptr, 0};
  for (const char* const arguments : {"{\"n\": \"4", "2\", \"all\": \"tr", "ue\"}"}) {
    ASSERT_EQ(told(tenon_mender_feed(mender.get(), text(arguments), &piece)), "ok");
    repaired += read(piece);
  }
  ASSERT_EQ(told(tenon_mender_finish(mender.get(), 0, &piece)), "ok");
  repaired += read(piece);
  EXPECT_EQ(repaired, R"({"n": 42, "all": true})");
  const std::string repairs = string_of(tenon_mender_repairs, mender.get());
  EXPECT_THAT(repairs, HasSubstr(R"({"kind":"type_fixed","path":"/n","message":)"));
}

TEST(Capi, MendersGiveWholeCharacters) {
  const std::string arguments = "{\"a\": \"\u00e9\u2603\U0001f600\", \"n\": \"4\"}";
  for (std::size_t cut = 0; cut <= arguments.size(); ++cut) {
    const auto mender =
        made(tenon_mender_new, text(R"({"type": "function", "function": {"name": "f", "parameters":
                                  {"type": "object", "properties": {"n": {"type": "integer"}}}}})"),
             text(""));
    tenon_text piece{nullptr, 0};
    std::string repaired;
    for (const std::string& part : {arguments.substr(0, cut), arguments.substr(cut)}) {
      ASSERT_EQ(told(tenon_mender_feed(mender.get(), {part.data(), part.size()}, &piece)), "ok");
      EXPECT_TRUE(utf8::is_valid(read(piece))) << cut;
      repaired += read(piece);
    }
    ASSERT_EQ(told(tenon_mender_finish(mender.get(), 0, &piece)), "ok");
    EXPECT_EQ(repaired + read(piece), "{\"a\": \"\u00e9\u2603\U0001f600\", \"n\": 4}") << cut;
  }
}

TEST(Capi, MendersFollowRulesOfTheCaller) {
  const auto mender =
      made(tenon_mender_new, text(R"({"type": "function", "function": {"name": "f", "parameters":
                                {"type": "object", "properties": {"d": {"type": "string"}},
                                 "required": ["d"]}}})"),
           text("[[rule]]\ntools = [\"f\"]\nfield = \"d\"\nvalue = \"none\"\n"));
  tenon_text piece{nullptr, 0};
  ASSERT_EQ(told(tenon_mender_feed(mender.get(), text("{}"), &piece)), "ok");
  std::string repaired = read(piece);
  ASSERT_EQ(told(tenon_mender_finish(mender.get(), 0, &piece)), "ok");
  repaired += read(piece);
  EXPECT_EQ(repaired, R"({"d": "none"})");
}

}  // namespace
}  // namespace tenon::capi
