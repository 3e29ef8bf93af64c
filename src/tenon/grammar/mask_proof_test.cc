// Masks against brute force: after a mask is made, each token of real vocabularies is tried, along
// random walks through random and real schemas. What such walks may do (roll back, fork, drafts) is
// compared with the same text read from the start.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/data_for_test.h"
#include "tenon/base/file.h"
#include "tenon/base/long_for_test.h"
#include "tenon/grammar/front/read_rules.h"
#include "tenon/grammar/json/json_frames.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/grammar/random_json.h"
#include "tenon/json/value.h"
#include "tenon/schema/schema.h"
#include "tenon/vocab/tokenizer_file.h"

namespace tenon::grammar {
namespace {

using vocab::Token;
using vocab::TokenId;
using Mask = std::vector<std::uint32_t>;

const std::filesystem::path kRoot = TENON_SOURCE_DIR;

// ---- Vocabularies -----------------------------------------------------------------------------

/// "TKB1", u32 count, u32 end token; per token u8 kind (1: control), u16 length, bytes. Faster to
/// read than tokenizer.json.
std::shared_ptr<const vocab::Vocab> parse_tokens(std::string_view file) {
  const auto number = [&file](std::size_t size) {
    std::uint32_t value = 0;
    std::memcpy(&value, file.data(), size);  // both are little-endian
    file.remove_prefix(size);
    return value;
  };
  static_assert(std::endian::native == std::endian::little);
  file.remove_prefix(4);
  std::vector<Token> tokens(number(4));
  const auto end = static_cast<TokenId>(number(4));
  for (Token& token : tokens) {
    const bool is_control = number(1) != 0;
    const std::size_t size = number(2);
    token.bytes = file.substr(0, size);
    file.remove_prefix(size);
    token.kind = is_control  ? Token::Kind::control
                 : size == 0 ? Token::Kind::unused
                             : Token::Kind::text;
  }
  auto vocab = vocab::Vocab::make(std::move(tokens), {end});
  EXPECT_TRUE(vocab) << vocab.error().message;
  return *vocab;
}

/// "tiny" is the bundled model's vocabulary; "bytes" and "pieces" are from our own samples, all
/// others from the large set. Null if it is not installed.
std::shared_ptr<VocabIndex> index_of(const std::string& name) {
  if (name == "tiny") {
    const auto tokenizer = vocab::load_tokenizer(kRoot / "models" / "tenon-tiny.gguf");
    EXPECT_TRUE(tokenizer) << tokenizer.error().message;
    return std::make_shared<VocabIndex>(*vocab::Vocab::of(**tokenizer));
  }
  const Data data = name == "bytes" || name == "pieces" ? Data::own : Data::large;
  const auto file =
      read_file(folder_of(data) / "vocab" / name / "tokens.bin", std::size_t{64} << 20);
  if (!file) return nullptr;
  return std::make_shared<VocabIndex>(parse_tokens(*file));
}

/// Bytes, pairs of letters and runs of one character, each also behind a quote. Large vocabularies
/// have such tokens; the bundled one lacks them.
std::shared_ptr<VocabIndex> index_with_runs() {
  std::vector<Token> tokens(256);
  for (std::size_t byte = 0; byte < 256; ++byte) tokens[byte].bytes = static_cast<char>(byte);
  const auto add = [&](const std::string& text) {
    for (const std::string& bytes : {text, '"' + text}) tokens.push_back({.bytes = bytes});
  };
  for (char a = 'a'; a <= 'z'; ++a) {
    tokens.push_back({.bytes = {'"', a}});
    for (char b = 'a'; b <= 'z'; ++b) add({a, b});
  }
  for (const char c : {'=', '-', ' ', '1'}) {
    for (std::size_t size = 3; size <= 20; ++size) add(std::string(size, c));
  }
  tokens.push_back({.bytes = "<end>", .kind = Token::Kind::control});
  const auto end = static_cast<TokenId>(tokens.size() - 1);
  return std::make_shared<VocabIndex>(*vocab::Vocab::make(std::move(tokens), {end}));
}

// ---- Schemas ----------------------------------------------------------------------------------

struct Subject {
  json::Value schema;
  std::vector<std::string> texts;  // of valid instances
  std::string name;
  bool is_random = false;
};

Subject random_subject(std::uint32_t seed) {
  return {.schema = RandomJson(seed).schema(),
          .texts = {},
          .name = "seed " + std::to_string(seed),
          .is_random = true};
}

/// The schemas of a set, each with the texts of valid instances: one in `stride` of each source, at
/// most `most` of one. None if the set is not installed.
std::vector<Subject> subjects_of(Data set, std::size_t stride, std::size_t most) {
  std::vector<Subject> subjects;
  const std::filesystem::path folder = folder_of(set) / "masks" / "public";
  if (!std::filesystem::exists(folder)) {
    std::cerr << why_skipped(set) << ": none of its schemas is tried\n";
    return subjects;
  }
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::ifstream lines(file.path());
    std::size_t count = 0;
    std::size_t number = 0;
    for (std::string line; count < most && std::getline(lines, line); ++number) {
      if (number % stride != 0 || line.size() > 200'000) continue;
      const auto parsed = json::parse(line);
      if (!parsed) continue;  // an escape of half a character
      Subject subject{
          .schema = *parsed->find("schema"), .texts = {}, .name = *parsed->find("id")->if_string()};
      const auto schema = schema::Schema::compile(subject.schema, {.assert_format = true});
      for (const json::Value& test : *parsed->find("tests")->if_array()) {
        const json::Value& data = *test.find("data");
        if (!schema || !(*schema)->is_valid(data).value_or(false)) continue;
        subject.texts.push_back(json::dumps(data, {.ensure_ascii = false}));
      }
      subjects.push_back(std::move(subject));
      ++count;
    }
  }
  return subjects;
}

constexpr JsonOptions option_set(std::size_t number) {
  using Whitespace = JsonOptions::Whitespace;
  constexpr Whitespace kWhitespaces[] = {Whitespace::any, Whitespace::spaced, Whitespace::compact};
  using Order = JsonOptions::PropertyOrder;
  return {.property_order = number % 2 == 0 ? Order::any : Order::schema,
          .whitespace = kWhitespaces[number % std::size(kWhitespaces)]};
}

Expected<std::shared_ptr<Grammar>> mask_grammar_of(const json::Value& source,
                                                   const JsonOptions& options,
                                                   const std::shared_ptr<VocabIndex>& index,
                                                   const Grammar::Limits& limits = {}) {
  auto schema = schema::Schema::compile(source, {.assert_format = true});
  if (!schema) return Unexpected(schema.error());
  return Grammar::make(
      [schema = *schema, options](Machine& machine) { return add_json(machine, schema, options); },
      index, limits);
}

// ---- Walks ------------------------------------------------------------------------------------

bool has_bit(const Mask& mask, TokenId id) {
  const auto bit = static_cast<std::uint32_t>(id);
  return (mask[bit / 32] >> bit % 32 & 1U) != 0;
}

std::vector<TokenId> ids_of(const Mask& mask) {
  std::vector<TokenId> ids;
  for (std::size_t word = 0; word < mask.size(); ++word) {
    for (std::uint32_t rest = mask[word]; rest != 0; rest &= rest - 1) {
      ids.push_back(
          static_cast<TokenId>(word * 32 + static_cast<std::size_t>(std::countr_zero(rest))));
    }
  }
  return ids;
}

/// What a vocabulary allows in two grammars of one schema: masks are made with one and trials with
/// the other, so that neither depends on what the other has remembered.
class Walk {
 public:
  Walk(std::shared_ptr<Grammar> grammar, std::shared_ptr<Grammar> other, std::string what)
      : vocab_(grammar->index().vocab()),
        matcher_(std::move(grammar)),
        other_(std::move(other)),
        what_(std::move(what)),
        mask_(mask_words(vocab_.size())) {}

  /// Makes the mask of this position and checks what holds for every mask; false: nothing may
  /// follow.
  bool look() {
    const Status filled = matcher_.fill_mask(mask_);
    if (!filled) {
      EXPECT_EQ(filled.error().code, Errc::unsatisfiable) << where() << filled.error().message;
      return false;
    }
    allowed_ = ids_of(mask_);
    const bool may_end =
        std::ranges::any_of(vocab_.ends(), [&](TokenId id) { return has_bit(mask_, id); });
    EXPECT_EQ(may_end, matcher_.is_accepting()) << where();
    return !allowed_.empty();
  }

  /// Tries every token.
  bool is_exact() {
    for (TokenId id = 0; std::cmp_less(id, vocab_.size()); ++id) {
      const bool is_accepted = other_.accept(id);
      if (is_accepted) other_.rollback(1);
      EXPECT_EQ(has_bit(mask_, id), is_accepted)
          << where() << "token " << id << ", '" << vocab_.bytes(id) << "'";
      if (has_bit(mask_, id) != is_accepted) return false;
    }
    return true;
  }

  /// An allowed token; the longer the walk, the sooner one that closes something.
  TokenId choice(RandomJson& random) {
    const auto any = [&] { return allowed_[random.pick(allowed_.size())]; };
    if (matcher_.accepted_count() < 6 + random.pick(20)) return any();
    TokenId best = any();
    const auto rank = [&](TokenId id) {
      if (vocab_.kind(id) != Token::Kind::text) return std::size_t{0};
      const std::string_view bytes = vocab_.bytes(id);
      if (bytes.find_first_not_of("\"}]") == std::string_view::npos) return std::size_t{1};
      return 1 + bytes.size();
    };
    for (const TokenId id : allowed_) {
      if (rank(id) < rank(best)) best = id;
    }
    return best;
  }

  bool accept(TokenId id) {
    const bool both = matcher_.accept(id) && other_.accept(id);
    EXPECT_TRUE(both) << where() << "token " << id << ", '" << vocab_.bytes(id) << "'";
    if (!matcher_.is_finished()) text_ += vocab_.bytes(id);
    return both;
  }

  /// The longest token that is a prefix of the rest of `text`.
  [[nodiscard]] TokenId longest(std::string_view text) const {
    const vocab::TokenTrie& trie = vocab_.trie();
    TokenId found = 0;
    std::uint32_t end = trie.end_of(0);
    std::size_t at = 0;
    for (std::uint32_t node = 1; node < end && at < text.size();) {
      if (trie.symbol(node) != static_cast<std::uint8_t>(text[at])) {
        node = trie.end_of(node);
        continue;
      }
      if (!trie.tokens_at(node).empty()) found = trie.tokens_at(node)[0];
      end = trie.end_of(node);
      ++node;
      ++at;
    }
    return found;
  }

  [[nodiscard]] bool is_finished() const { return matcher_.is_finished(); }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::string where() const { return what_ + ", after '" + text_ + "': "; }

 private:
  const vocab::Vocab& vocab_;
  Matcher matcher_;
  Matcher other_;
  std::string what_;
  Mask mask_;
  std::vector<TokenId> allowed_;
  std::string text_;
};

struct Effort {
  std::size_t steps = 40;   // of a walk
  std::size_t trials = 10;  // positions of a walk at which every token is tried, roughly
};

struct MaskCounts {
  std::uint32_t refused = 0;  // schemas
  std::uint32_t walked = 0;
  std::vector<std::string> dead_ends;  // texts after which a mask was empty
};

/// Walks to the end, or until it gives up; false: to an empty mask.
bool go(Walk& walk, const Effort& effort, RandomJson& random) {
  for (std::size_t step = 0; step < effort.steps && !walk.is_finished(); ++step) {
    if (!walk.look()) return false;
    if (random.pick(effort.steps) < effort.trials && !walk.is_exact()) return true;
    if (!walk.accept(walk.choice(random))) return true;
  }
  return true;
}

/// A walk whose text must be a valid instance.
void walk(const Subject& subject, const JsonOptions& options,
          const std::shared_ptr<VocabIndex>& index, const Effort& effort, std::uint32_t seed,
          MaskCounts& counts) {
  const auto grammar = mask_grammar_of(subject.schema, options, index);
  if (!grammar) {
    EXPECT_NE(grammar.error().code, Errc::limit_exceeded)
        << subject.name << ": " << grammar.error().message;
    ++counts.refused;
    return;
  }
  ++counts.walked;
  Walk walk(*grammar, *mask_grammar_of(subject.schema, options, index), subject.name);
  RandomJson random(seed);
  if (!go(walk, effort, random)) return counts.dead_ends.push_back(walk.where());
  if (!walk.is_finished()) return;
  const auto instance = json::parse(walk.text());
  EXPECT_TRUE(instance) << walk.where() << instance.error().message;
  if (!instance) return;
  if (subject.is_random) note_verdict(subject.schema, walk.text(), true);
  const auto schema = schema::Schema::compile(subject.schema, {.assert_format = true});
  const auto is_valid = (*schema)->is_valid(*instance);
  EXPECT_TRUE(is_valid && *is_valid)
      << walk.where() << "not valid by " << json::to_string(subject.schema).substr(0, 2000);
}

/// The same along the text of an instance.
void follow(const Subject& subject, std::string_view text, const std::shared_ptr<VocabIndex>& index,
            const Effort& effort, std::uint32_t seed) {
  const auto grammar = mask_grammar_of(subject.schema, {}, index);
  if (!grammar) return;
  Walk walk(*grammar, *mask_grammar_of(subject.schema, {}, index), subject.name);
  RandomJson random(seed);
  while (!text.empty()) {
    EXPECT_TRUE(walk.look()) << walk.where() << "the mask is empty";
    if (random.pick(text.size()) < effort.trials && !walk.is_exact()) return;
    const TokenId token = walk.longest(text);
    if (!walk.accept(token)) return;
    text.remove_prefix(index->vocab().bytes(token).size());
  }
}

/// Counts beside what reads some of the same characters: near the end of a count a token that is
/// longer than what is left of it goes on with what follows, or is refused.
TEST(MaskProof, CountsRunOutWithinTokens) {
  struct Row {
    std::string_view pattern, text;
  };
  const Row rows[] = {
      {"^.{0,8}[^a]*$", "bbbbbb bbbb"},
      {"^.{1,16}([^a]*!){3,}z$", "b!!!!!!!!!!! in !!z"},
      {"^(.|ab){0,6}[b-z ]*!$", "bbbb in!"},
      {"^(?:.{2,9}){0,9}[^a]*z$", "the letter z"},
      {"^(.{0,3} ){0,5}[b-z]*$", "b is in the end"},
      {"^.{0,6}(?:[^a]{0,3}-){0,9}[^e]*$", "b b-b b- but"},
      {"^[^x]{0,5}.{0,5}[^e]*$", "of the moon"},
      {"^(?:.{0,4}|[b-y]{0,30})[^a]{0,6}$", "moonlight"},
      {"^.{0,5}\\p{L}{0,7}[0-9]*$", "a b elephant7"},
      {"^(?:a{0,9} ){0,5}(?:a{0,12} ){0,7}$", "            "},
      {"^(?:[a-c]{0,9}=){0,6}(?:[a-c]{0,12}=){0,5}[d-f]$", "==========d"},
  };
  for (const auto& index : {index_of("tiny"), index_with_runs()}) {
    for (const Row& row : rows) {
      const json::Value schema =
          json::Object{{"type", "string"}, {"pattern", std::string(row.pattern)}};
      const std::string text = '"' + std::string(row.text) + '"';
      ASSERT_TRUE(
          (*schema::Schema::compile(schema, {}))->is_valid(*json::parse(text)).value_or(false))
          << row.pattern;
      follow({.schema = schema, .texts = {}, .name = std::string(row.pattern)}, text, index,
             {.trials = text.size()}, 1);
    }
  }
}

/// Masks that all grammars of a vocabulary share are kept by what a string may hold: a schema in
/// which a count and a pattern both demand characters must leave no wrong mask to the others.
TEST(MaskProof, CountsAndPatternsShareNoMask) {
  const auto index = index_of("tiny");
  const json::Value any_text = json::Object{{"type", "string"}, {"maxLength", 100}};
  for (const std::string pattern :
       {"^.{3,}$", "^.+$", "^.{60,}$|^http://a/b$", "^[^x]{2,}.{9,}$"}) {
    json::Value schema = any_text;
    (*schema.if_object())["pattern"] = pattern;
    for (const json::Value& next : {schema, any_text}) {
      const std::string text = '"' + std::string(70, 'a') + '"';
      follow({.schema = next, .texts = {}, .name = pattern}, text, index, {.trials = 100}, 1);
    }
  }
}

/// Languages that have texts of certain lengths only, held to lengths. Rows with one pattern follow
/// each other, so that a mask which the first leaves to the second must be right for both.
TEST(MaskProof, CountsMeetLanguagesOfCertainLengths) {
  const auto index = index_with_runs();
  const std::uint64_t longest = index->vocab().trie().max_depth();
  const std::string number = "^x?(?:[a-m]|[n-z][0-9]{" + std::to_string(longest - 1) + "})*$";
  const std::string pairs = "^(?:(?:[a-m]{2})*|[n-z](?:[a-m]{2})*)$";
  struct Row {
    std::string pattern;
    std::uint64_t least, most;
    std::string text;
  };
  const Row rows[] = {
      {"^(?:a{20}|b{21})*$", 100, 100, std::string(100, 'a')},
      {pairs, 100, 201, std::string(100, 'a')},
      {pairs, 201, 201, "n" + std::string(200, 'a')},
      {number, 0, 1000, "abcde"},
      {number, 0, longest, "abcde"},
  };
  for (const Row& row : rows) {
    const json::Value schema = json::Object{{"type", "string"},
                                            {"pattern", row.pattern},
                                            {"minLength", static_cast<std::int64_t>(row.least)},
                                            {"maxLength", static_cast<std::int64_t>(row.most)}};
    const std::string text = '"' + row.text + '"';
    follow({.schema = schema, .texts = {}, .name = row.pattern}, text, index,
           {.trials = text.size()}, 1);
  }
}

class MaskProof : public ::testing::TestWithParam<const char*> {};

TEST_P(MaskProof, MaskIsWhatCanBeAccepted) {
  const std::string name = GetParam();
  const bool is_tiny = name == "tiny";
  const auto index = index_of(name);
  if (!index) GTEST_SKIP() << why_skipped(Data::large);

  const std::uint32_t schemas = is_tiny ? (is_long_test() ? 4000 : 24) : is_long_test() ? 150 : 2;
  const Effort effort = is_tiny ? Effort{} : Effort{.trials = is_long_test() ? 3U : 2U};
  MaskCounts random;
  for (std::uint32_t seed = 0; seed < schemas && !HasFailure(); ++seed) {
    walk(random_subject(1000 + proof_seed() * schemas + seed), option_set(seed), index, effort,
         seed, random);
  }
  EXPECT_GE(random.walked * 2, schemas);

  const std::size_t most = is_tiny ? (is_long_test() ? 60 : 2) : is_long_test() ? 8 : 1;
  MaskCounts real;
  std::uint32_t seed = 0;
  std::vector<Subject> subjects = subjects_of(Data::large, is_long_test() ? 9 : 80, most);
  for (Subject& own : subjects_of(Data::own, is_long_test() ? 1 : is_tiny ? 5 : 20, SIZE_MAX)) {
    subjects.push_back(std::move(own));
  }
  Sample sample(2);
  for (const Subject& subject : subjects) {
    if (HasFailure()) break;
    if (!sample.takes_next()) continue;
    const Effort once{.trials = is_tiny ? 6U : 1U};
    walk(subject, option_set(seed), index, once, seed, real);
    if (!subject.texts.empty()) {
      follow(subject, subject.texts[seed % subject.texts.size()], index, once, seed);
    }
    ++seed;
  }
  // Empty masks occur where only the value's end is checked. If there are fewer than before, lower
  // the numbers.
  EXPECT_LE(random.dead_ends.size() * 100, random.walked * 3 + 100U)
      << ::testing::PrintToString(random.dead_ends);
  EXPECT_LE(real.dead_ends.size() * 500, real.walked + 500U)
      << ::testing::PrintToString(real.dead_ends);
}

TEST_P(MaskProof, MasksOfOtherGrammarsToo) {
  struct Row {
    Syntax syntax;
    std::string_view source;
  };
  constexpr Row kRows[] = {
      {Syntax::gbnf, "root ::= \"(\" root \")\" | [a-z]{2,5} (\", \" [^()]+)*"},
      {Syntax::gbnf, "root ::= line+\nline ::= [A-Z] .{3,9} \"\\n\""},
      {Syntax::lark, "start: \"<a>\" value \"</a>\"\nvalue: %json {\"enum\": [\"x\", 1, [2]]}\n"},
      {Syntax::lark, "start: (NAME \"=\" /[0-9]+(\\.[0-9]+)?/ \";\")+\nNAME: /[A-Za-z_]\\w*/\n"},
      {Syntax::regex, "(?:\\S+\\s+){0,9}\\S+"},
      {Syntax::regex, "(?!the)[a-z ]{3,30}\\d{2}"},
      {Syntax::structural_tag,
       R"({"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<f"],
           "tags": [{"type": "tag", "begin": "<f>", "end": "</f>",
                     "content": {"type": "json_schema", "json_schema": {"type": "integer"}}},
                    {"type": "tag", "begin": "<fg>", "end": "</fg>",
                     "content": {"type": "json_schema", "json_schema": {"type": "object"}}}]}})"},
      {Syntax::structural_tag,
       R"({"type": "structural_tag", "format": {"type": "any_text", "excludes": ["and", "</"]}})"},
  };
  const auto index = index_of(GetParam());
  if (!index) GTEST_SKIP() << why_skipped(Data::large);
  const bool is_tiny = GetParam() == std::string_view("tiny");
  const Effort effort{.trials = is_tiny ? 20U : 1U};
  Sample sample(2);
  for (const Row& row : kRows) {
    if (!sample.takes_next()) continue;
    const auto rules = read_rules(row.source, row.syntax);
    ASSERT_TRUE(rules) << row.source << ": " << rules.error().message;
    const auto make = [&] {
      const auto grammar = Grammar::make(
          [&](Machine& machine) { return add_rules(machine, *rules, index->vocab()); }, index);
      EXPECT_TRUE(grammar) << row.source << ": " << grammar.error().message;
      return *grammar;
    };
    const std::uint32_t walks = is_long_test() ? 10 : is_tiny ? 4 : 1;
    for (std::uint32_t seed = 0; seed < walks && !HasFailure(); ++seed) {
      RandomJson random(seed);
      Walk walk(make(), make(), std::string(row.source));
      EXPECT_TRUE(go(walk, effort, random)) << walk.where() << "the mask is empty";
    }
  }
}

// Grammars over one vocabulary share parts of masks: those of a language must not be used for
// another that differs only in its lengths.
TEST(SharedMaskProof, WhatIsSharedIsOfTheSameLanguage) {
  const auto index = index_of("tiny");
  constexpr std::string_view kCounts[] = {"",
                                          R"(, "maxLength": 1)",
                                          R"(, "maxLength": 2)",
                                          R"(, "maxLength": 30)",
                                          R"(, "minLength": 1)",
                                          R"(, "minLength": 3, "maxLength": 3)",
                                          R"(, "minLength": 40)"};
  for (const std::string_view pattern :
       {"", R"(, "pattern": "^a*b?$")", R"(, "pattern": "^[a-z]*$")", R"(, "pattern": "e")",
        R"(, "enum": ["a", "ab", "abb"])"}) {
    for (const std::string_view counts : kCounts) {
      Subject subject;
      subject.name = R"({"type": "string")" + std::string(pattern) + std::string(counts) + "}";
      subject.schema = *json::parse(subject.name);
      const auto grammar = mask_grammar_of(subject.schema, {}, index);
      if (!grammar) continue;  // no value fits
      RandomJson random(1 + proof_seed());
      for (int i = 0; i < (is_long_test() ? 3 : 1); ++i) {
        Walk walk(*grammar, *mask_grammar_of(subject.schema, {}, index), subject.name);
        EXPECT_TRUE(go(walk, {.steps = 8, .trials = 8}, random)) << walk.where();
      }
    }
  }
}

// Characters that are read as one unit, and counts that are treated as endless: places where
// neither is allowed.
class PatternMaskProof : public ::testing::TestWithParam<const char*> {};

TEST_P(PatternMaskProof, CharactersAndCountsAreToldApart) {
  const auto index = index_of(GetParam());
  if (!index) GTEST_SKIP() << why_skipped(Data::large);
  Sample sample(GetParam() == std::string_view("llama3") ? 3 : 1);
  for (const std::string_view pattern :
       {R"(^(?:\\S+\\s+){0,12}\\S+$)", R"(^[\\S ]{0,20}$)", R"(^[\u0430-\u044f ]+$)",
        R"(^[^\u0400-\u04ff]*$)", R"(^[^\u4e00]{2,30}$)", R"(^(?:[a-z]{1,9}[- ]?){0,30}$)",
        R"(^ {0,30}x$)", R"(^(?:=|-){0,11}$)", R"(^.{3,40}x$)", R"(\\u00e9|\\u4e00)"}) {
    if (!sample.takes_next()) continue;
    Subject subject;
    subject.name = R"({"type": "string", "pattern": ")" + std::string(pattern) + R"("})";
    const auto schema = json::parse(subject.name);
    ASSERT_TRUE(schema) << subject.name;
    subject.schema = *schema;
    RandomJson random(1 + proof_seed());
    for (int i = 0; i < (is_long_test() ? 20 : 2); ++i) {
      const auto grammar = mask_grammar_of(subject.schema, {}, index);
      ASSERT_TRUE(grammar) << subject.name;
      Walk walk(*grammar, *mask_grammar_of(subject.schema, {}, index), subject.name);
      EXPECT_TRUE(go(walk, {.steps = 6, .trials = 4}, random)) << walk.where();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, PatternMaskProof,
                         ::testing::Values("bytes", "pieces", "llama3"),
                         [](const auto& test) { return std::string(test.param); });

std::vector<const char*> vocabularies() {
  if (is_long_test()) return {"tiny", "bytes", "pieces", "llama3", "qwen2", "gemma4"};
  return {"tiny", "bytes", "pieces", "llama3"};
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, MaskProof, ::testing::ValuesIn(vocabularies()),
                         [](const auto& test) { return std::string(test.param); });

// ---- What a matcher may do
// -----------------------------------------------------------------------

// One matcher that accepts, rolls back and forks at random, compared with a new one that reads the
// same tokens in a grammar of its own. The first grammar has so little room that it is dropped and
// made again on the way.
TEST(MatcherProof, EveryWayToAStateGivesItsMask) {
  const auto index = index_of("tiny");
  const vocab::Vocab& vocab = index->vocab();
  Mask mask(mask_words(vocab.size()));
  Mask fresh_mask = mask;
  const std::uint32_t count = is_long_test() ? 3000 : 60;
  for (std::uint32_t seed = 0; seed < count && !HasFailure(); ++seed) {
    const Subject subject = random_subject(seed);
    const Grammar::Limits little{.machine = {}, .max_bytes = seed % 2 == 0 ? 20'000U : 200'000U};
    const auto grammar = mask_grammar_of(subject.schema, option_set(seed), index, little);
    if (!grammar) continue;
    const auto fresh = *mask_grammar_of(subject.schema, option_set(seed), index);
    RandomJson random(seed);
    Matcher matcher(*grammar);
    std::vector<TokenId> accepted;
    for (int step = 0; step < 30; ++step) {
      const Status filled = matcher.fill_mask(mask);
      Matcher replay(fresh);
      for (const TokenId id : accepted) ASSERT_TRUE(replay.accept(id)) << subject.name;
      ASSERT_EQ(replay.fill_mask(fresh_mask).has_value(), filled.has_value()) << subject.name;
      ASSERT_TRUE(!filled || mask == fresh_mask) << subject.name;
      if (!filled) std::ranges::fill(mask, 0);  // a dead end
      ASSERT_EQ(matcher.is_accepting(), replay.is_accepting()) << subject.name;
      ASSERT_EQ(matcher.is_finished(), replay.is_finished()) << subject.name;
      ASSERT_EQ(matcher.accepted_count(), accepted.size()) << subject.name;

      const std::vector<TokenId> allowed = ids_of(mask);
      if (allowed.empty() || random.one_in(5)) {  // finished, or by chance
        const std::size_t back = random.pick(accepted.size() + 1);
        matcher.rollback(back);
        accepted.resize(accepted.size() - back);
        continue;
      }
      if (random.one_in(5)) {  // a fork continues on its own
        Matcher fork = matcher;
        ASSERT_TRUE(fork.accept(allowed[random.pick(allowed.size())]));
        fork.rollback(fork.accepted_count());
      }
      // A draft is good up to its first token that cannot be accepted.
      std::vector<TokenId> draft;
      for (int i = 0; i < 3; ++i) {
        draft.push_back(random.one_in(3) ? static_cast<TokenId>(random.pick(vocab.size()))
                                         : allowed[random.pick(allowed.size())]);
      }
      const std::size_t good = matcher.validate_draft(draft);
      std::size_t taken = 0;
      while (taken < draft.size() && matcher.accept(draft[taken])) ++taken;
      ASSERT_EQ(good, taken) << subject.name;
      accepted.insert(accepted.end(), draft.begin(),
                      draft.begin() + static_cast<std::ptrdiff_t>(taken));
    }
  }
}

// Bytes may be cut anywhere; forced bytes too.
TEST(MatcherProof, BytesMayBeCutAnywhere) {
  const auto index = index_of("tiny");
  const std::uint32_t count = is_long_test() ? 3000 : 80;
  for (std::uint32_t seed = 0; seed < count && !HasFailure(); ++seed) {
    const Subject subject = random_subject(seed);
    const auto grammar = mask_grammar_of(subject.schema, {}, index);
    if (!grammar) continue;
    RandomJson random(seed);
    const std::string text = json::dumps(random.instance(), {.ensure_ascii = false});
    Matcher whole(*grammar);
    const bool is_accepted = whole.accept_bytes(text);
    Matcher pieces(*grammar);
    std::string_view rest = text;
    while (!rest.empty()) {
      const std::string forced = pieces.forced_bytes(100);
      const std::size_t size = 1 + random.pick(std::min<std::size_t>(4, rest.size()));
      const bool is_next = pieces.accept_bytes(rest.substr(0, size));
      if (is_next) {
        const std::size_t common = std::min(size, forced.size());
        ASSERT_EQ(rest.substr(0, common), forced.substr(0, common)) << subject.name;
      } else {
        break;
      }
      rest.remove_prefix(size);
    }
    ASSERT_EQ(rest.empty(), is_accepted) << subject.name << ": " << text;
    if (!is_accepted) continue;
    ASSERT_EQ(whole.is_accepting(), pieces.is_accepting()) << subject.name;
  }
}

}  // namespace
}  // namespace tenon::grammar
