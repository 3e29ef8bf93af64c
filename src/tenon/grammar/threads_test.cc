// Bugs of others that a grammar can have, each row named after the thread in which it was reported
// (`vllm#17248`: its number in that project) and written anew as the smallest schema or grammar
// that shows it. docs/threads.md lists the rows.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/grammar/front/grammar_for_test.h"
#include "tenon/grammar/json/json_frames.h"
#include "tenon/json/value.h"
#include "tenon/schema/schema.h"

namespace tenon::grammar {
namespace {

using Texts = std::vector<std::string>;

Expected<std::shared_ptr<Grammar>> grammar_of_schema(std::string_view text,
                                                     const JsonOptions& options = {}) {
  const auto value = json::parse(text);
  EXPECT_TRUE(value) << text;
  const auto schema = schema::Schema::compile(*value, {});
  if (!schema) return Unexpected(schema.error());
  return Grammar::make(
      [schema = *schema, options](Machine& machine) { return add_json(machine, schema, options); },
      index_for_test());
}

std::string times(std::size_t count, std::string_view piece) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += piece;
  return text;
}

std::string pattern(std::string_view body) {
  return R"({"type": "string", "pattern": ")" + std::string(body) + R"("})";
}

/// A schema, values that fit it and texts that do not.
struct ThreadsSchemaRow {
  const char* thread;
  const char* what;  ///< What was reported.
  std::string schema;
  Texts yes;
  Texts no;
};

const ThreadsSchemaRow kThreadsSchemas[] = {
    {"llama.cpp#12252",
     "a pattern that is not understood ends the process",
     pattern(R"(^[a-z0-9._%+-]+@[a-z0-9.-]+\\.[a-z]{2,}$)"),
     {R"("a.b@c.de")"},
     {R"("a.b@c")", R"("a b@c.de")"}},
    {"llama.cpp#22314",
     "\\d, \\w, \\s and \\b fail",
     pattern(R"(^\\d+\\s\\b\\w+$)"),
     {R"("12 ab")"},
     {R"("x ab")", R"("12ab")"}},
    {"llama.cpp#27580",
     "\\d is copied into a grammar that does not know it",
     R"({"type": "object", "properties": {"id": {"type": "string", "pattern": "^\\d+$"}}})",
     {R"({"id": "123"})", "{}"},
     {R"({"id": "d"})", R"({"id": "\\d"})"}},
    {"llama.cpp#27580", "\\w in a class", pattern(R"(^[\\w-]+$)"), {R"("a_b-c")"}, {R"("a b")"}},
    {"llama.cpp#25746",
     "maxLength of 2,000 inside an object",
     R"({"type": "object", "properties": {"o": {"type": "object", "properties": {"s": {"type": "string", "maxLength": 2000}}}}})",
     {R"({"o": {"s": ")" + std::string(2000, 'x') + R"("}})"},
     {R"({"o": {"s": ")" + std::string(2001, 'x') + R"("}})"}},
    {"llama.cpp#25746",
     "an anchored pattern inside an object",
     R"({"type": "object", "properties": {"o": {"type": "object", "properties": {"s": {"type": "string", "pattern": "^[a-z]+$"}}}}})",
     {R"({"o": {"s": "ab"}})"},
     {R"({"o": {"s": "a1"}})", R"({"o": {"s": ""}})"}},
    {"llama.cpp#19051",
     "a grammar that fails to parse constrains nothing",
     pattern(R"(^hello there indeed\\!$)"),
     {R"("hello there indeed!")"},
     {R"("anything")", "1"}},
    {"llguidance#265",
     "patternProperties are accepted and garble the output",
     R"({"type": "object", "properties": {"score": {"multipleOf": 5}}, "required": ["score"],
         "additionalProperties": false, "patternProperties": {"^score$": {"type": "integer"}}})",
     {R"({"score": 15})"},
     {R"({"score": 7})", R"({"score": "a"})", "{}"}},
    {"sglang#35533",
     "a NUL in a schema ends the process",
     R"({"enum": ["a\u0000b", "c"]})",
     {R"("c")"},
     {R"("a\u0000b")", R"("a")", R"("ab")"}},
    {"LocalAI#2938",
     "a schema with $ref and $defs is not held",
     R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "required": ["v"],
         "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}}}}})",
     {R"({"v": 1})", R"({"v": 1, "next": {"v": 2}})"},
     {"{}", R"({"v": 1, "next": {}})"}},
    {"vllm#10899",
     "numeric ranges are not held",
     R"({"type": "integer", "minimum": 8, "exclusiveMaximum": 12})",
     {"8", "11"},
     {"7", "12", "80"}},
};

TEST(Threads, SchemasHoldWhatTheySay) {
  for (const ThreadsSchemaRow& row : kThreadsSchemas) {
    SCOPED_TRACE(std::string(row.thread) + ": " + row.what);
    const auto grammar = grammar_of_schema(row.schema);
    ASSERT_TRUE(grammar) << grammar.error().message;
    for (const std::string& text : row.yes) EXPECT_TRUE(reads(*grammar, text)) << text;
    for (const std::string& text : row.no) EXPECT_FALSE(reads(*grammar, text)) << text;
  }
}

/// A schema that is refused in a sentence, where it ended a server.
struct RefusedSchemaRow {
  const char* thread;
  const char* what;
  std::string schema;
  Errc code;
  std::string_view message;  ///< A part of it.
};

const RefusedSchemaRow kRefused[] = {
    {"vllm#17248", "an invalid schema ends the server", R"({"type": "stringg"})", Errc::invalid,
     "'stringg' is not a type"},
    {"text-generation-inference#2280", "an invalid schema ends the server",
     R"({"type": "object", "properties": ["a"]})", Errc::invalid, "/properties"},
    {"vllm#17313", "an invalid pattern ends the server", pattern("[a-"), Errc::invalid, "pattern"},
    {"llama.cpp#13390", "a quantifier with nothing before it reads outside its memory",
     pattern("^?[0-9]$"), Errc::invalid, "pattern"},
    {"llama.cpp#22606", "^{2}times$ reads outside its memory", pattern("^{2}times$"), Errc::invalid,
     "pattern"},
    {"vllm#47312", "a grammar that cannot be made ends the engine",
     R"({"type": "integer", "minimum": 3, "maximum": 2})", Errc::unsatisfiable, ""},
};

TEST(Threads, SchemasAreRefusedInASentence) {
  for (const RefusedSchemaRow& row : kRefused) {
    SCOPED_TRACE(std::string(row.thread) + ": " + row.what);
    const auto grammar = grammar_of_schema(row.schema);
    ASSERT_FALSE(grammar);
    EXPECT_EQ(grammar.error().code, row.code) << grammar.error().message;
    EXPECT_NE(grammar.error().message.find(row.message), std::string::npos)
        << grammar.error().message;
  }
}

/// Values with as much white space as may be, and one more.
struct SpaceRow {
  const char* thread;
  const char* what;
  std::string schema;
  std::string_view before;  ///< The value up to a place for white space, and from there on.
  std::string_view after;
};

const SpaceRow kSpaces[] = {
    {"xgrammar#412", "white space without end after a colon",
     R"({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})",
     R"({"a":)", "1}"},
    {"xgrammar#212", "thousands of line breaks before a comma",
     R"({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a", "b"]})",
     R"({"a": "")", R"(, "b": ""})"},
    {"vllm#38696", "white space until the token limit before the last brace",
     R"({"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]})",
     R"({"a": [])", "}"},
    {"omlx#3321", "white space until the token limit after a string",
     R"({"type": "array", "items": {"type": "string"}})", R"(["x")", "]"},
    {"vllm-mlx#547", "white space at the root and after {",
     R"({"type": "object", "properties": {"a": {"type": "boolean"}}})", "{", R"("a": true})"},
    {"vllm#4093", "line breaks without end before a number",
     R"({"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]})",
     R"({"age": )", "4}"},
    {"vllm#44619", "white space in an empty array", R"({"type": "array"})", "[", "]"},
};

TEST(Threads, WhiteSpaceEnds) {
  for (const SpaceRow& row : kSpaces) {
    SCOPED_TRACE(std::string(row.thread) + ": " + row.what);
    const auto grammar = grammar_of_schema(
        row.schema, {.whitespace = JsonOptions::Whitespace::any, .max_whitespace = 8});
    ASSERT_TRUE(grammar) << grammar.error().message;
    const auto with = [&](std::size_t count, std::string_view space) {
      return std::string(row.before) + times(count, space) + std::string(row.after);
    };
    EXPECT_TRUE(reads(*grammar, with(0, "")));
    EXPECT_TRUE(reads(*grammar, with(row.before.ends_with(' ') ? 7 : 8, "\n")));
    EXPECT_FALSE(reads(*grammar, with(9, "\n")));
    EXPECT_FALSE(reads(*grammar, with(9, " ")));
    // By default there is the one space of json.dumps and no other.
    const auto plain = grammar_of_schema(row.schema);
    ASSERT_TRUE(plain);
    EXPECT_FALSE(reads(*plain, with(2, " ")));
    EXPECT_FALSE(reads(*plain, with(1, "\n")));
  }
}

// ollama#2623: with JSON enforced, the model writes line breaks after the value and never ends.
TEST(Threads, NothingFollowsTheValue) {
  const auto grammar =
      grammar_of_schema(R"({"type": "object"})", {.whitespace = JsonOptions::Whitespace::any});
  ASSERT_TRUE(grammar);
  EXPECT_TRUE(reads(*grammar, R"({"a": 1})"));
  EXPECT_FALSE(reads(*grammar, R"({"a": 1})" + times(21, "\n")));
}

struct SourceRow {
  const char* thread;
  const char* what;
  Syntax syntax;
  std::string source;
  Texts yes;  ///< None: it is refused.
  Texts no;
};

const SourceRow kSources[] = {
    {"vllm#15210",
     "a class from NUL on is refused",
     Syntax::regex,
     R"([\x00-\u2e7f]+)",
     {"ab", std::string("\0", 1), "é"},
     {"", "丁"}},
    {"vllm#19270", "an invalid expression ends the server", Syntax::regex, "(a", {}, {}},
    {"llama.cpp#4799",
     "an example grammar is refused",
     Syntax::gbnf,
     "root ::= object\nobject ::= \"{\" ws ( string \":\" ws value (\",\" ws string \":\" ws "
     "value)* "
     ")? \"}\" ws\nvalue ::= object | string | (\"true\" | \"false\") ws\nstring ::= \"\\\"\" "
     "[^\"\\\\\\x7F\\x00-\\x1F]* \"\\\"\" ws\nws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n",
     {R"({"a": "b", "c": {"d": true}})", "{}"},
     {R"({"a" "b"})", "{", R"({"a": 1})"}},
    {"llama.cpp#12597",
     "a code fence before the value ends the process",
     Syntax::gbnf,
     "root ::= \"```json\\n\" (\"{\" | \"[\")",
     {"```json\n{"},
     {"{", "```json{"}},
    {"llama.cpp#6492",
     "a rule that begins with itself uses up the stack",
     Syntax::gbnf,
     "root ::= root \"a\" | \"b\"",
     {"b", "baa"},
     {"a", ""}},
    {"llama.cpp#3801",
     "an expression that begins with an expression ends the process",
     Syntax::gbnf,
     "root ::= expression\nexpression ::= (integer | binary)\ninteger ::= [0-9]+\n"
     "binary ::= expression (\"+\" | \"-\") expression\n",
     {"1", "12+3-4"},
     {"", "+1", "1+"}},
    {"llama.cpp#4492",
     "a grammar without a root ends the server",
     Syntax::gbnf,
     "rout::=\"route\"",
     {},
     {}},
    {"llama.cpp#26600",
     "60,000 parentheses use up the stack",
     Syntax::gbnf,
     "root ::= " + times(60'000, "(") + "\"a\"" + times(60'000, ")"),
     {"a"},
     {"(a)", ""}},
    {"llama.cpp#12196",
     "any text, and then a marker that is any text as well, ends the process",
     Syntax::gbnf,
     "root ::= thought any endthought \"Final JSON:\\n\"\nthought ::= \"<think>\"\n"
     "endthought ::= \"</think>\"\nany ::= .*\n",
     {"<think>a</think>Final JSON:\n", "<think></think></think>Final JSON:\n"},
     {"<think>a</think>", "a</think>Final JSON:\n"}},
};

TEST(Threads, SourcesAreReadOrRefused) {
  for (const SourceRow& row : kSources) {
    SCOPED_TRACE(std::string(row.thread) + ": " + row.what);
    const auto grammar = grammar_for_test(row.source, row.syntax);
    EXPECT_EQ(grammar.has_value(), !row.yes.empty());
    if (!grammar) {
      EXPECT_FALSE(grammar.error().message.empty());
      continue;
    }
    for (const std::string& text : row.yes) EXPECT_TRUE(reads(*grammar, text)) << text;
    for (const std::string& text : row.no) EXPECT_FALSE(reads(*grammar, text)) << text;
  }
}

/// Drafts of several tokens, taken back: the matcher is where it was.
struct DraftRow {
  const char* thread;
  const char* what;
  Syntax syntax;
  std::string source;
  std::string text;   ///< What has been accepted.
  std::string draft;  ///< What comes next, a byte or <|call|> per token, and is taken back.
  std::size_t good;   ///< Tokens of it that can come.
};

const DraftRow kDrafts[] = {
    {"vllm#44006", "a draft that opens a code fence where the value begins ends the request",
     Syntax::regex, R"(\{"a": [0-9]+\})", "", "```json", 0},
    {"vllm#46118", "a control token in the draft ends the request", Syntax::gbnf,
     "root ::= \"{\" [a-z]* \"}\"", "{ab", "c<|call|>d", 1},
    {"vllm#46272", "what is taken back inside a tag is not the same afterwards",
     Syntax::structural_tag,
     R"({"type": "structural_tag", "format": {"type": "tag", "begin": "<f>", "content": {"type": "json_schema", "json_schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}}, "end": "</f>"}})",
     R"(<f>{"a": 1)", "2}</f>x", 6},
    {"vllm#53777", "the same token of each draft, beyond the end of the value, is an error",
     Syntax::regex, R"(\{\})", "{", "}}}", 1},
};

constexpr std::string_view kControl = "<|call|>";  // of index_for_test()

TEST(Threads, DraftsAreTakenBackToTheBit) {
  for (const DraftRow& row : kDrafts) {
    SCOPED_TRACE(std::string(row.thread) + ": " + row.what);
    const auto grammar = grammar_for_test(row.source, row.syntax);
    ASSERT_TRUE(grammar) << grammar.error().message;
    Matcher matcher(*grammar);
    ASSERT_TRUE(matcher.accept_bytes(row.text));
    const auto mask_of = [&](Matcher& at) {
      std::vector<std::uint32_t> mask(mask_words(index_for_test()->vocab().size()));
      EXPECT_TRUE(at.fill_mask(mask));
      return mask;
    };
    const auto before = mask_of(matcher);
    std::vector<vocab::TokenId> tokens;
    for (std::string_view rest = row.draft; !rest.empty();) {
      const bool is_control = rest.starts_with(kControl);
      const auto control = static_cast<vocab::TokenId>(index_for_test()->vocab().size()) - 2;
      tokens.push_back(is_control ? control : static_cast<unsigned char>(rest[0]));
      rest.remove_prefix(is_control ? kControl.size() : 1);
    }
    EXPECT_EQ(matcher.validate_draft(tokens), row.good);
    EXPECT_EQ(mask_of(matcher), before) << "validate_draft changes nothing";
    std::size_t taken = 0;
    while (taken < tokens.size() && matcher.accept(tokens[taken])) ++taken;
    EXPECT_EQ(taken, row.good);
    matcher.rollback(taken);
    EXPECT_EQ(mask_of(matcher), before);
    Matcher fresh(*grammar);
    ASSERT_TRUE(fresh.accept_bytes(row.text));
    EXPECT_EQ(mask_of(fresh), before);
    EXPECT_EQ(matcher.is_accepting(), fresh.is_accepting());
  }
}

}  // namespace
}  // namespace tenon::grammar
