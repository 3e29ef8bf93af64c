#include "tenon/grammar/rules/spell.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/grammar/front/grammar_for_test.h"
#include "tenon/json/value.h"

namespace tenon::grammar {
namespace {

Expected<Rules> spelled(std::string_view source, Syntax syntax, Spelling spelling) {
  const auto grammar = read_rules(source, syntax);
  if (!grammar) return Unexpected(grammar.error());
  Rules rules;
  const auto root = add_spelled(rules, *grammar, spelling);
  if (!root) return Unexpected(root.error());
  rules.set_root(*root);
  return rules;
}

std::shared_ptr<Grammar> spell_grammar_of(std::string_view source, Syntax syntax,
                                          Spelling spelling) {
  const auto rules = spelled(source, syntax, spelling);
  if (!rules) throw std::runtime_error(rules.error().message);
  const auto grammar = grammar_for_test(*rules);
  if (!grammar) throw std::runtime_error(grammar.error().message);
  return *grammar;
}

bool spell_accepts(const std::shared_ptr<Grammar>& grammar, std::string_view text) {
  Matcher matcher(grammar);
  return matcher.accept_bytes(text) && matcher.is_accepting();
}

std::string between_quotes(std::string_view text) {
  const std::string quoted = json::quoted(text);
  return quoted.substr(1, quoted.size() - 2);
}

struct SpellRow {
  const char* name;
  Syntax syntax;
  std::string source;
};
const SpellRow kSpellRows[] = {
    {"Literals", Syntax::lark, R"(start: "a\"b" | "\\" | "\n\t" | "\x01" | "ä" )"},
    {"Ranges", Syntax::lark, R"(start: (" ".."~")~1..2)"},
    {"IgnoringCase", Syntax::lark, R"(start: "\"a"i)"},
    {"Characters", Syntax::lark, R"(start: /[^ab]{1,2}/s)"},
    {"AnyCharacter", Syntax::lark, "start: /.{1,2}/"},
    {"Complement", Syntax::lark, "start: A\nA: ~(\"a\" | /\"/) & /.{0,2}/s"},
    {"Lazy", Syntax::lark, "start: a\na[lazy]: /.*\"/s"},
    {"Stop", Syntax::lark, "start: a\na[stop=\"\\\\\"]: /.*/s"},
    {"Recursion", Syntax::lark, R"(start: "\"" start "\"" | "\\" start | "a")"},
    {"LeftRecursion", Syntax::lark, R"(start: start "\"" | "a" | start "\n")"},
    {"Ignored", Syntax::lark, "start: \"a\" \"\\\"\"\n%ignore /[ \\n]/"},
    {"LooksAhead", Syntax::regex, R"((?!a)[\s\S]{0,2}(?<!"))"},
    {"WordBoundary", Syntax::regex, R"([\s\S]?\ba\b[\s\S]?)"},
    {"Anchors", Syntax::regex, R"(^["\\a]+$)"},
    {"Newlines", Syntax::regex, R"(\s[^\S\n]?)"},
    {"Gbnf", Syntax::gbnf, R"(root ::= [^"] | "\"" root)"},
};

// Every text of up to three of these characters, compared with the original grammar.
TEST(Spell, ReadsTheSameTextsInJson) {
  const std::vector<std::string> characters{"a", "\"", "\\", "\n", "\x01", "ä"};
  std::vector<std::string> texts{""};
  for (std::size_t from = 0, size = 0; size < 3; ++size) {
    const std::size_t to = texts.size();
    for (; from < to; ++from) {
      for (const std::string& next : characters) texts.push_back(texts[from] + next);
    }
  }
  for (const SpellRow& row : kSpellRows) {
    SCOPED_TRACE(row.name);
    const auto plain = spell_grammar_of(row.source, row.syntax, Spelling::plain);
    const auto in_json = spell_grammar_of(row.source, row.syntax, Spelling::in_json);
    std::size_t count = 0;
    for (const std::string& text : texts) {
      const bool is_read = spell_accepts(plain, text);
      count += is_read ? 1 : 0;
      EXPECT_EQ(spell_accepts(in_json, between_quotes(text)), is_read) << between_quotes(text);
    }
    EXPECT_GT(count, 0U);
    // These are not the inside of a JSON string.
    for (const char* text : {"\"", "\\", "\n", "\\a", "a\"", "\\u0061", "\\n\n"}) {
      EXPECT_FALSE(spell_accepts(in_json, text)) << text;
    }
  }
}

TEST(Spell, ThereIsNoNulInJson) {
  const auto grammar =
      spell_grammar_of(R"(start: "a" ("\x00" | "b") /[\0\n]/)", Syntax::lark, Spelling::in_json);
  EXPECT_TRUE(reads(grammar, "ab\\n"));
  EXPECT_FALSE(reads(grammar, "ab\\u0000"));
  Matcher matcher(grammar);
  ASSERT_TRUE(matcher.accept_bytes("a"));
  EXPECT_EQ(matcher.forced_bytes(100), "b\\n");
}

TEST(Spell, RefusesWhatHasNoCharacters) {
  const struct {
    const char* name;
    const char* source;
    const char* message;
  } rows[] = {
      {"Token", "start: \"a\" <think>", "a token cannot be part of a text's grammar"},
      {"Schema", "start: %json {\"type\": \"null\"}", "%json cannot be part of a text's grammar"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    for (const Spelling spelling : {Spelling::plain, Spelling::in_json}) {
      const auto rules = spelled(row.source, Syntax::lark, spelling);
      ASSERT_FALSE(rules);
      EXPECT_EQ(rules.error().code, Errc::unsupported);
      EXPECT_EQ(rules.error().message, row.message);
    }
  }
}

TEST(Spell, TheCopyIsPartOfALargerGrammar) {
  Rules rules;
  const auto inner = read_rules("start: \"(\" start \")\" | \"\\\"\"", Syntax::lark);
  const auto text = add_spelled(rules, *inner, Spelling::in_json);
  ASSERT_TRUE(text);
  const auto twice = add_spelled(rules, *inner, Spelling::plain);
  rules.set_root(
      rules.sequence({rules.literal("{\"x\": \""), *text, rules.literal("\"}"), *twice}));
  const auto grammar = grammar_for_test(rules);
  ASSERT_TRUE(grammar);
  EXPECT_TRUE(reads(*grammar, "{\"x\": \"((\\\"))\"}(\")"));
  EXPECT_FALSE(reads(*grammar, "{\"x\": \"(\")\"}\""));
}

}  // namespace
}  // namespace tenon::grammar
