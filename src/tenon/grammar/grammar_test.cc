// Grammars over time: made again when they are full, shared by threads, kept by their source; and
// the text that they force.
#include "tenon/grammar/machine/grammar.h"

#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/sanitizers_for_test.h"
#include "tenon/grammar/front/gbnf.h"
#include "tenon/grammar/front/read_rules.h"
#include "tenon/grammar/json/json_frames.h"
#include "tenon/grammar/machine/grammar_cache.h"
#include "tenon/grammar/machine/mask_builder.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/grammar/rules/rules.h"
#include "tenon/json/value.h"
#include "tenon/schema/schema.h"
#include "tenon/vocab/tokenizer_file.h"

namespace tenon::grammar {
namespace {

using vocab::TokenId;

Grammar::Build build_of(std::string_view text, const JsonOptions& options = {}) {
  const auto schema = schema::Schema::compile(*json::parse(text), {});
  EXPECT_TRUE(schema) << schema.error().message;
  return
      [schema = *schema, options](Machine& machine) { return add_json(machine, schema, options); };
}

const std::shared_ptr<const vocab::Tokenizer>& tokenizer() {
  static const auto kTokenizer = *vocab::load_tokenizer(std::filesystem::path(TENON_SOURCE_DIR) /
                                                        "models" / "tenon-tiny.gguf");
  return kTokenizer;
}

const std::shared_ptr<VocabIndex>& index() {
  static const auto kIndex = std::make_shared<VocabIndex>(*vocab::Vocab::of(*tokenizer()));
  return kIndex;
}

std::vector<TokenId> tokens_of(std::string_view text) {
  std::vector<TokenId> ids;
  EXPECT_TRUE(tokenizer()->encode(text, vocab::Controls::off, true, ids));
  return ids;
}

std::string enum_of(int count) {
  std::string values;
  for (int i = 0; i < count; ++i) values += (i > 0 ? ", " : "") + std::to_string(i);
  return R"({"enum": [)" + values + "]}";
}

constexpr std::string_view kTool =
    R"({"type": "object", "properties": {"name": {"const": "get_weather"},
        "arguments": {"type": "object", "properties": {"city": {"type": "string"},
          "days": {"type": "integer", "minimum": 1, "maximum": 14},
          "tags": {"type": "array", "items": {"enum": ["wind", "rain"]}, "uniqueItems": true}},
          "required": ["city", "days"], "additionalProperties": false}},
        "required": ["name", "arguments"], "additionalProperties": false})";
constexpr std::string_view kCall =
    R"({"name": "get_weather", "arguments": {"city": "Sao Paulo", "days": 3, "tags": ["rain"]}})";

// Every mask along the text, and whether the text may end there.
std::vector<std::vector<std::uint32_t>> masks_along(Matcher& matcher, std::string_view text) {
  std::vector<std::vector<std::uint32_t>> masks;
  const auto fill = [&] {
    masks.emplace_back(mask_words(index()->vocab().size()));
    EXPECT_TRUE(matcher.fill_mask(masks.back()));
  };
  for (const TokenId token : tokens_of(text)) {
    fill();
    EXPECT_TRUE(matcher.accept(token));
  }
  fill();
  return masks;
}

TEST(Grammar, FullOnesAreMadeAnewAndMatchersDoNotNotice) {
  const auto roomy = *Grammar::make(build_of(kTool), index());
  // So small that every count finds it full.
  const auto small = *Grammar::make(build_of(kTool), index(), {.machine = {}, .max_bytes = 1});
  Matcher steady(roomy);
  const auto wanted = masks_along(steady, kCall);
  for (int round = 0; round < 10; ++round) {
    Matcher matcher(small);
    EXPECT_EQ(masks_along(matcher, kCall), wanted);
    EXPECT_TRUE(matcher.is_accepting());
    Matcher fork = matcher;
    fork.rollback(fork.accepted_count());
    EXPECT_EQ(masks_along(fork, kCall), wanted);
    ASSERT_TRUE(matcher.accept(index()->vocab().ends()[0]));
    EXPECT_TRUE(matcher.is_finished());
    matcher.rollback(3);
    EXPECT_FALSE(matcher.is_accepting());
  }
}

TEST(Grammar, LimitsThatOthersHaveReachedAreNoErrorOfThisText) {
  // Room for the stacks of one or two texts.
  const Grammar::Limits limits{.machine = {.max_cells = 5000}};
  const auto grammar = *Grammar::make(build_of("true"), index(), limits);
  for (int round = 0; round < 30; ++round) {
    std::string text;
    for (int i = 0; i < 50; ++i) text += (round >> i % 5 & 1) != 0 ? "[" : R"({"a": )";
    Matcher matcher(grammar);
    std::size_t read = 0;
    while (read < text.size() && matcher.accept_bytes(text.substr(read, 1))) ++read;
    EXPECT_EQ(read, text.size()) << "round " << round;
  }
}

TEST(Grammar, ALimitThatOneTextReachesIsAnError) {
  const Grammar::Limits limits{.machine = {.max_cells = 100}};
  const auto grammar = *Grammar::make(build_of(R"({"type": "array"})"), index(), limits);
  Matcher matcher(grammar);
  std::size_t read = 0;
  while (read < 1000 && matcher.accept_bytes("[")) ++read;
  EXPECT_LT(read, 1000U);
  ASSERT_TRUE(matcher.error());
  EXPECT_EQ(matcher.error()->code, Errc::limit_exceeded);
  std::vector<std::uint32_t> mask(mask_words(index()->vocab().size()));
  EXPECT_EQ(matcher.fill_mask(mask).error().code, Errc::limit_exceeded);
  Matcher other(grammar);
  EXPECT_TRUE(other.accept_bytes("[")) << "the next text is not hurt";
}

// For example in a request for many answers, each of which goes its own way. Each number of items
// is another way to read a text of `a`, so masks cost more and more.
TEST(Grammar, MasksThatReachALimitAreTriedOnce) {
  Rules rules;
  rules.set_root(*add_gbnf(rules, R"(root ::= items "b"
                                     items ::= item{1,900}
                                     item ::= "a" | "aa" | "[" items "]")"));
  int builds = 0;
  const auto grammar = *Grammar::make(
      [&](Machine& machine) {
        ++builds;
        return add_rules(machine, rules, index()->vocab());
      },
      index(), {.machine = {.max_mask_steps = 2'000}});
  std::vector<std::uint32_t> mask(mask_words(index()->vocab().size()));
  for (const int round : {0, 1}) {
    for (int i = 0; i < 16; ++i) {
      Matcher matcher(grammar);
      ASSERT_TRUE(matcher.accept_bytes(std::string(400 + static_cast<std::size_t>(i), 'a')));
      const int before = builds;
      const Status filled = matcher.fill_mask(mask);
      ASSERT_FALSE(filled);
      EXPECT_EQ(filled.error().code, Errc::limit_exceeded);
      EXPECT_EQ(builds, before);
    }
    if (round == 0) {
      EXPECT_EQ(builds, 16);
    }
  }
  Matcher other(grammar);
  EXPECT_TRUE(other.accept_bytes("aab")) << "the next text is not hurt";
  EXPECT_TRUE(other.fill_mask(mask));
}

// One client's texts must not leave others with fewer steps for good.
TEST(Grammar, MasksThatAreFilledGiveStepsBack) {
  Rules rules;
  rules.set_root(*add_gbnf(rules, R"(root ::= "x" one{1,900} | "y" other{1,900}
                                     one ::= "a" | "aa" | "[" one "]"
                                     other ::= "a" | "aa" | "[" other "]")"));
  const auto make = [&] {
    return *Grammar::make(
        [&](Machine& machine) { return add_rules(machine, rules, index()->vocab()); }, index(),
        {.machine = {.max_mask_steps = 2'000}});
  };
  std::vector<std::uint32_t> mask(mask_words(index()->vocab().size()));
  const auto fills = [&](const std::shared_ptr<Grammar>& grammar, const std::string& text) {
    Matcher matcher(grammar);
    EXPECT_TRUE(matcher.accept_bytes(text));
    return matcher.fill_mask(mask).has_value();
  };
  const auto other = [](std::size_t count) { return "y" + std::string(count, 'a'); };
  // The longest text that still has its mask.
  std::size_t most = 1;
  for (std::size_t step = 256; step > 0; step /= 2) {
    if (most + step < 400 && fills(make(), other(most + step))) most += step;
  }
  ASSERT_LT(most, 390U);
  const auto grammar = make();
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_FALSE(fills(grammar, "x" + std::string(400 + i, 'a')));
  }
  EXPECT_FALSE(fills(grammar, other(most))) << "a quarter of the steps is left";
  for (int i = 0; i < 4 * 256; ++i) ASSERT_TRUE(fills(grammar, ""));
  EXPECT_TRUE(fills(grammar, other(most)));
}

// No question about a schema takes longer than two seconds.
TEST(Grammar, SchemasThatAskForMuchAreAnsweredSoon) {
  struct Row {
    const char* name;
    std::string schema;
    std::string_view text;
  };
  std::string segments;
  for (int i = 0; i < 25; ++i) segments += "[^a]{0,9}[^b]{0,9}";
  std::string many_lists;
  for (int i = 0; i < 64; ++i) many_lists += (i > 0 ? ", " : "") + enum_of(63);
  const Row rows[] = {
      {"ItemsThatDifferInItemsThatDiffer",
       R"({"not": {"oneOf": [{"type": "array", "contains": {"type": "integer"}, "uniqueItems": true},
           {"$ref": "#/$defs/a"}]},
           "$defs": {"a": {"type": "array", "items": {"$ref": "#"}, "uniqueItems": true,
             "contains": {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}}}})",
       "[[],[[]]]"},
      {"ListsThatItemsChooseFrom",
       R"({"type": "array", "uniqueItems": true, "minItems": 64, "items": false, "prefixItems": [)" +
           many_lists + "]}",
       "[1, 2, 3"},
      {"SegmentsBeforeALongTail",
       R"({"type": "string", "pattern": "^)" + segments + std::string(10'000, 'x') + R"($"})",
       "\"hello there my friend, how are you doing"},
  };
  for (const Row& row : rows) {
    const std::clock_t begun = std::clock();
    const auto grammar = Grammar::make(build_of(row.schema), index());
    if (!grammar) {
      EXPECT_EQ(grammar.error().code, Errc::limit_exceeded) << grammar.error().message;
    } else {
      Matcher matcher(*grammar);
      std::vector<std::uint32_t> mask(mask_words(index()->vocab().size()));
      for (const TokenId token : tokens_of(row.text)) {
        if (const Status filled = matcher.fill_mask(mask); !filled) {
          EXPECT_NE(filled.error().message, "");
          break;
        }
        if (!matcher.accept(token)) break;
      }
    }
    EXPECT_LT(std::clock() - begun, with_sanitizers(2) * CLOCKS_PER_SEC) << row.name;
  }
}

// Each of them may take much, but not all together.
TEST(Grammar, SchemasOfOneGrammarAreCountedTogether) {
  const auto schema = schema::Schema::compile(*json::parse(
      R"({"type": "string",
          "pattern": "^(?=.*a)(?=.*b)(?=.*c)(?=.*d)(?=.*e)(?=.*f)(?=.*g)(?=.*h)(?=.*i).*$"})"));
  ASSERT_TRUE(schema);
  Rules rules;
  std::vector<NodeId> all;
  for (int i = 0; i < 100; ++i) all.push_back(rules.add(node::Json{*schema, {}}));
  const auto grammar_of = [&](std::size_t count) {
    rules.set_root(rules.choice({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)}));
    return Grammar::make(
        [&](Machine& machine) { return add_rules(machine, rules, index()->vocab()); }, index());
  };
  const std::clock_t begun = std::clock();
  EXPECT_TRUE(grammar_of(3));
  const auto many = grammar_of(100);
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().code, Errc::limit_exceeded);
  EXPECT_LT(std::clock() - begun, with_sanitizers(2) * CLOCKS_PER_SEC);
}

// A string whose automaton is too large is not refused by its pattern.
TEST(Grammar, ALimitWithinAStringIsNoVerdict) {
  constexpr std::string_view kSchema =
      R"x({"type": "string", "not": {"pattern": "(?:((?=(?:x?)?)(?=[^a])a|^(?:\\w\\d)*[^a]$)|((?<=[\\s\\S]a)(?:b|\u00e9|[^a]){40}|((?:\\wa)*(a|b)|\\d[ab]))|(?:(?!(?:\\d|\\bx|(a|b)){40})(?:[\\s\\S][ab])*\\w|^(a|b)(a|b)$|(?=(?:a|b|a){40})(?<=\u00e9)\u00e9){10}){40}((?=a)[^a]|(?=(a|b))\\bx)"}})x";
  const auto fresh = std::make_shared<VocabIndex>(*vocab::Vocab::of(*tokenizer()));
  std::vector<std::uint32_t> mask(mask_words(fresh->vocab().size()));
  // What one grammar leaves in the index, the next one finds.
  for (const std::size_t length : {100U, 26U}) {
    Matcher matcher(*Grammar::make(build_of(kSchema), fresh));
    for (const TokenId token : tokens_of('"' + std::string(length, 'a') + '"')) {
      if (const Status filled = matcher.fill_mask(mask); !filled) {
        EXPECT_EQ(filled.error().code, Errc::limit_exceeded) << filled.error().message;
        break;
      }
      const auto id = static_cast<std::uint32_t>(token);
      ASSERT_NE(mask[id / 32] >> id % 32 & 1U, 0U) << length;
      if (matcher.accept(token)) continue;
      ASSERT_TRUE(matcher.error()) << length;
      EXPECT_EQ(matcher.error()->code, Errc::limit_exceeded);
      break;
    }
  }
}

TEST(Grammar, ItemsAreKnownHoweverLongAgoTheyCame) {
  const auto grammar = *Grammar::make(
      build_of(R"({"type": "array", "items": {"type": "integer"}, "uniqueItems": true})"), index());
  constexpr int kItems = 2000;
  std::string text = "[0";
  for (int i = 1; i < kItems; ++i) text += ", " + std::to_string(i);
  Matcher matcher(grammar);
  ASSERT_TRUE(matcher.accept_bytes(text));
  for (const int item :
       {0, 1, 2, 3, 7, 254, 255, 256, 257, 1000, 1023, 1024, kItems - 2, kItems - 1}) {
    Matcher fork = matcher;
    EXPECT_FALSE(fork.accept_bytes(", " + std::to_string(item) + "]")) << item;
  }
  EXPECT_TRUE(matcher.accept_bytes(", 2000]"));
}

TEST(Grammar, ThreadsShareOne) {
  const auto small = *Grammar::make(build_of(kTool), index(), {.machine = {}, .max_bytes = 1});
  Matcher first(small);
  const auto wanted = masks_along(first, kCall);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 3; ++round) {
        Matcher matcher(small);
        EXPECT_EQ(masks_along(matcher, kCall), wanted);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Frames may take more than the limit by themselves; making them again would free nothing.
TEST(Grammar, LargeFramesAreMadeOnce) {
  int builds = 0;
  const auto build = [inner = build_of(kTool), &builds](Machine& machine) {
    ++builds;
    return inner(machine);
  };
  const std::size_t frames = (*Grammar::make(build_of(kTool), index()))->memory_bytes();
  const auto grammar = *Grammar::make(build, index(), {.machine = {}, .max_bytes = frames / 2});
  EXPECT_TRUE(Matcher(grammar).accept_bytes("{"));
  EXPECT_EQ(builds, 1);
}

TEST(Grammar, ARefusedMaskIsRefusedAtOnceWhenItIsAskedForAgain) {
  int builds = 0;
  const auto build = [inner = build_of(kTool), &builds](Machine& machine) {
    ++builds;
    return inner(machine);
  };
  const auto grammar = Grammar::make(build, index(), {.machine = {.max_mask_steps = 1}});
  ASSERT_TRUE(grammar) << grammar.error().message;
  std::vector<std::uint32_t> mask(mask_words(index()->vocab().size()));
  const auto refusal = [&] {
    Matcher matcher(*grammar);
    EXPECT_TRUE(matcher.accept_bytes("{"));
    const Status filled = matcher.fill_mask(mask);
    EXPECT_FALSE(filled);
    EXPECT_EQ(filled.error().code, Errc::limit_exceeded);
    EXPECT_EQ(matcher.error()->message, filled.error().message);
    return filled.error().message;
  };
  const std::string first = refusal();
  const int builds_so_far = builds;
  EXPECT_EQ(refusal(), first);
  EXPECT_LE(builds, builds_so_far + 1);  // the machine is made again, and the mask is not tried
}

TEST(Grammar, KnowsWhatItsFramesLeaveOut) {
  const auto schema = *schema::Schema::compile(*json::parse(R"({"maximum": 1e999})"));
  const auto build = [&](Machine& machine) {
    return add_json(machine, schema, {.lenient = true}, &machine.relaxed());
  };
  const std::vector<Relaxed> relaxed = (*Grammar::make(build, index()))->relaxed();
  ASSERT_EQ(relaxed.size(), 1U);
  EXPECT_EQ(relaxed[0].keyword, "maximum");
  EXPECT_TRUE((*Grammar::make(build_of(kTool), index()))->relaxed().empty());
}

TEST(GrammarCache, TheSameSourceIsCompiledOnce) {
  GrammarCache cache(index(), std::size_t{64} << 20U);
  const auto first = *cache.get(kTool, build_of(kTool));
  EXPECT_EQ(*cache.get(kTool, build_of(kTool)), first);
  EXPECT_NE(*cache.get("true", build_of("true")), first);
  EXPECT_EQ(cache.counts().compilations, 2U);
  EXPECT_EQ(cache.counts().hits, 1U);
  const auto failed = cache.get("false", build_of("false"));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Errc::unsatisfiable);
}

TEST(GrammarCache, ALimitThatACompilationReachesIsRemembered) {
  // It needs a state for each set of letters.
  constexpr std::string_view source =
      R"({"type": "string", "pattern": "^(?=.*a)(?=.*b)(?=.*c)(?=.*d)(?=.*e)(?=.*f)(?=.*g)(?=.*h)(?=.*i)(?=.*j)(?=.*k)(?=.*l)(?=.*m)(?=.*n)(?=.*o)(?=.*p).*$"})";
  GrammarCache cache(index(), std::size_t{64} << 20U);
  int builds = 0;
  const auto build = [inner = build_of(source), &builds](Machine& machine) {
    ++builds;
    return inner(machine);
  };
  const auto first = cache.get(source, build);
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, Errc::limit_exceeded) << first.error().message;
  const auto second = cache.get(source, build);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message, first.error().message);
  EXPECT_EQ(builds, 1);
}

// Grammars have locks of their own, and share what the index keeps for all of them.
TEST(GrammarCache, ThreadsAskAtOnce) {
  constexpr std::string_view kSources[] = {kTool, "true", R"({"type": "object"})"};
  std::vector<std::vector<std::vector<std::uint32_t>>> wanted;
  for (const std::string_view source : kSources) {
    Matcher matcher(*Grammar::make(build_of(source), index()));
    wanted.push_back(masks_along(matcher, kCall));
  }
  const auto fresh = std::make_shared<VocabIndex>(*vocab::Vocab::of(*tokenizer()));
  GrammarCache cache(fresh, 100'000);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (std::size_t round = i; round < i + 6; ++round) {
        const std::size_t which = round % std::size(kSources);
        Matcher matcher(*cache.get(kSources[which], build_of(kSources[which])));
        EXPECT_EQ(masks_along(matcher, kCall), wanted[which]) << kSources[which];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache.counts().hits + cache.counts().compilations, 24U);
}

TEST(GrammarCache, WhatWasNotAskedForTheLongestTimeGoes) {
  const auto one = *Grammar::make(build_of("true"), index());
  GrammarCache cache(index(), 3 * one->memory_bytes());
  std::vector<std::weak_ptr<Grammar>> made;
  for (int i = 0; i < 20; ++i) {
    made.push_back(*cache.get(std::to_string(i), build_of("true")));
    EXPECT_EQ(*cache.get("0", build_of("true")), made[0].lock()) << "asked for each time";
  }
  EXPECT_TRUE(made[1].expired());
  EXPECT_FALSE(made[19].expired());
  EXPECT_LE(cache.memory_bytes(), 3 * one->memory_bytes());
  GrammarCache tight(index(), 1);
  EXPECT_TRUE(tight.get("a", build_of("true"))) << "however large";
}

TEST(GrammarCache, WhatGrowsWithoutACompilationGoesToo) {
  const auto one = *Grammar::make(build_of("true"), index());
  GrammarCache cache(index(), 2 * one->memory_bytes());
  const auto grows = *cache.get("a", build_of("true"));
  ASSERT_TRUE(cache.get("b", build_of("true")));
  const std::size_t before = grows->memory_bytes();
  EXPECT_TRUE(Matcher(grows).accept_bytes(R"({"a": [1, 2, 3]})"));
  ASSERT_GT(grows->memory_bytes(), before);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(cache.get("b", build_of("true")));
  EXPECT_EQ(cache.counts().compilations, 2U);
  EXPECT_LE(cache.memory_bytes(), one->memory_bytes());
}

struct Forced {
  std::string_view schema;
  std::string_view before;
  std::string_view forced;  // the text of its forced tokens
};

TEST(Matcher, TokensWithoutChoiceAreTheTokenizersOwn) {
  const std::vector<Forced> table{
      // The last quote may be part of a longer token, because the following text is free.
      {R"({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
           "additionalProperties": false})",
       "", R"({"name":)"},
      {R"({"const": "what the sky says"})", "", R"("what the sky says")"},
      {R"({"const": "what the sky says"})", R"("what t)", R"(he sky says")"},
      {R"({"enum": ["what the sky says", "what the sea says"]})", "", R"("what the s)"},
      {R"({"type": "integer"})", "", ""},
      {R"({"type": "integer"})", "1", ""},
      {kTool, "", R"({"name": "get_weather", "arguments": {"city":)"},
  };
  const JsonOptions ordered{.property_order = JsonOptions::PropertyOrder::schema};
  for (const Forced& row : table) {
    Matcher matcher(*Grammar::make(build_of(row.schema, ordered), index()));
    ASSERT_TRUE(matcher.accept_bytes(row.before));
    const auto tokens = matcher.forced_tokens(*tokenizer(), 1000);
    ASSERT_TRUE(tokens);
    std::string spelled;
    for (const TokenId token : *tokens) spelled += tokenizer()->bytes(token);
    // A little less if a token leads across; never more.
    EXPECT_TRUE(row.forced.starts_with(spelled)) << row.schema << ": " << spelled;
    EXPECT_GE(spelled.size() + 4, row.forced.size()) << row.schema << ": " << spelled;
  }
}

// Along a text as the tokenizer writes it, the forced text is the text.
TEST(Matcher, TokensWithoutChoiceAreThoseOfTheText) {
  const JsonOptions ordered{.property_order = JsonOptions::PropertyOrder::schema};
  const auto grammar = *Grammar::make(build_of(kTool, ordered), index());
  const std::vector<TokenId> text = tokens_of(kCall);
  Matcher matcher(grammar);
  std::size_t forced = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto tokens = matcher.forced_tokens(*tokenizer(), 1000);
    ASSERT_TRUE(tokens);
    ASSERT_LE(i + tokens->size(), text.size());
    EXPECT_EQ(*tokens,
              std::vector<TokenId>(text.begin() + static_cast<std::ptrdiff_t>(i),
                                   text.begin() + static_cast<std::ptrdiff_t>(i + tokens->size())))
        << "token " << i;
    forced += tokens->empty() ? 0 : 1;
    ASSERT_TRUE(matcher.accept(text[i]));
  }
  EXPECT_GT(forced, text.size() / 3);
}

// Words in which one lexeme may end behind every character and another one begin there. Each token
// is tried, and the work says that a node of the trie is not visited again for each of them.
TEST(Masks, OfLexemesThatBeginAnywhereAreRightAndTakeLittleWork) {
  std::vector<vocab::Token> tokens(256);
  for (unsigned byte = 0; byte < 256; ++byte) tokens[byte].bytes = static_cast<char>(byte);
  for (unsigned word = 1; word < 1U << 13U; ++word) {  // its bits below the first one are letters
    std::string text;
    for (unsigned bits = word; bits > 1; bits >>= 1U) text += (bits & 1U) != 0 ? 'a' : 'b';
    if (word % 5 == 0) text += word % 10 == 0 ? '%' : 'x';
    if (!text.empty()) tokens.push_back({text});
  }
  const auto end = static_cast<TokenId>(tokens.size());
  tokens.push_back({"<|end|>", vocab::Token::Kind::control});
  const auto vocab = vocab::Vocab::make(std::move(tokens), {end});
  ASSERT_TRUE(vocab) << vocab.error().message;
  const auto index = std::make_shared<VocabIndex>(*vocab);
  const auto rules = read_rules(
      "root ::= word \"x\"? | twice | \"b\" twice\n"
      "word ::= \"\" | [ab] word | \"%\" word \"x\"?\n"
      "twice ::= (\"\" | [ab] word | \"%\" word)? (\"\" [ab] word | \"%\" word)?\n",
      Syntax::gbnf);
  ASSERT_TRUE(rules) << rules.error().message;
  Machine machine;
  const auto root = add_rules(machine, *rules, index->vocab());
  ASSERT_TRUE(root) << root.error().message;
  MaskBuilder masks(machine, index);
  const auto read = [&](StateId state, std::string_view text) {
    for (const char byte : text) state = machine.step(state, static_cast<std::uint8_t>(byte));
    return state;
  };
  for (const char* text : {"", "a", "b%", "%a%%b", "bax"}) {
    const StateId state = read(machine.start(*root), text);
    std::vector<std::uint32_t> mask(mask_words(index->vocab().size()));
    const std::uint64_t before = machine.work();
    masks.fill(state, text, mask);
    EXPECT_LT(machine.work() - before, 60'000U) << text;
    for (TokenId token = 0; token < end; ++token) {
      const std::string_view bytes = index->vocab().bytes(token);
      EXPECT_EQ((mask[static_cast<std::size_t>(token) / 32] >> token % 32 & 1U) != 0,
                read(state, bytes) != 0)
          << text << " and " << bytes;
    }
  }
  EXPECT_FALSE(machine.error());
}

// Repetitions of the same in a row are one lexeme, which has one place for each text.
TEST(Grammar, RepetitionsInARowAreOne) {
  struct Row {
    const char* sequence;
    int least;
    int most;
    int lines;
    bool is_one_way;  // to read so many
  };
  constexpr std::string_view kLine =
      "\nline ::= [^\\n]{1,80} \"\\n\"\nsame ::= [^\\n]{1,80} \"\\n\"\n";
  for (const Row& row : {Row{"line{1,3} line{2} line (line{1,3})?", 4, 9, 3, true},
                         {"same? line same{1,3} (line | same)", 3, 6, 2, true},
                         {"line{1,3} \"!\"? line{1,3}", 2, 6, 2, false}}) {
    const auto rules =
        read_rules("root ::= " + std::string(row.sequence) + std::string(kLine), Syntax::gbnf);
    ASSERT_TRUE(rules) << rules.error().message;
    Machine machine;
    const auto root = add_rules(machine, *rules, index()->vocab());
    ASSERT_TRUE(root) << root.error().message;
    StateId state = machine.start(*root);
    for (int lines = 0; lines <= row.most + 1; ++lines) {
      EXPECT_EQ(machine.is_accepting(state), lines >= row.least && lines <= row.most)
          << row.sequence << ", " << lines << " lines";
      if (lines == row.lines) {
        EXPECT_EQ(machine.cells_of(state).size() == 1, row.is_one_way) << row.sequence;
      }
      for (const char byte : {'a', 'b', '\n'}) {
        state = machine.step(state, static_cast<std::uint8_t>(byte));
      }
    }
  }
}

}  // namespace
}  // namespace tenon::grammar
