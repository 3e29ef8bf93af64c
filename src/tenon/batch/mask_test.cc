#include "tenon/batch/mask.h"

#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/vocab/byte_tokenizer.h"
#include "tenon/vocab/vocab.h"

namespace tenon::batch {
namespace {

MaskBatch batch_for_test() {
  auto tokenizer = std::make_shared<vocab::ByteTokenizer>(
      std::vector<std::string>{"<|end|>", "<|call|>", "<tool_call>", "</tool_call>"},
      vocab::ByteTokenizer::Roles{.eos = "<|end|>"});
  auto index = std::make_shared<grammar::VocabIndex>(*vocab::Vocab::of(*tokenizer));
  return MaskBatch(std::move(tokenizer), std::move(index));
}

json::Object request_of(std::string_view line) {
  const auto value = json::parse(line);
  EXPECT_TRUE(value) << line << ": " << value.error().message;
  return *value->if_object();
}

// Texts chosen from masks are texts of the grammar, or begin one, and the same seed chooses the
// same.
TEST(MaskBatch, WalksAreTextsOfTheGrammar) {
  MaskBatch batch = batch_for_test();
  const std::string_view grammar = R"("grammar": "root ::= [ab]+ \"c\"", "syntax": "gbnf")";
  const auto walked = [&](std::string_view walks) {
    const auto answer = batch.answer(
        request_of("{" + std::string(grammar) + ", \"walks\": " + std::string(walks) + "}"));
    EXPECT_TRUE(answer) << answer.error().message;
    return *answer;
  };
  constexpr std::string_view kWalks =
      R"([{"seed": 0, "most": 40}, {"seed": 1, "most": 40}, {"seed": 2, "most": 3}])";
  const json::Object answer = walked(kWalks);
  const json::Array& walks = *answer.find("walks")->if_array();
  ASSERT_EQ(walks.size(), 3U);
  std::size_t masks = 0;
  for (const json::Value& walk : walks) {
    const std::string& text = *walk.find("text")->if_string();
    const bool ended = *walk.find("ended")->if_bool();
    EXPECT_EQ(text.find_first_not_of("ab"), ended ? text.size() - 1 : std::string::npos) << text;
    EXPECT_EQ(text.ends_with('c'), ended) << text;
    masks += text.size() + (ended ? 1 : 0);
  }
  EXPECT_EQ(answer.find("mask_us")->if_array()->size(), masks);
  EXPECT_EQ(json::to_string(walked(kWalks)["walks"]), json::to_string(json::Value(walks)));
  EXPECT_FALSE(walked("[]").find("walks")->if_array()->size());
}

// Each text's verdict: "+", or the byte at which it is refused.
TEST(MaskBatch, Verdicts) {
  struct Row {
    const char* name;
    std::string_view line;
    std::string_view verdicts;
  };
  const Row rows[] = {
      {"Schema",
       R"({"schema": {"type": "integer"}, "tests": [{"text": "12"}, {"text": "1x"}, {"text": ""}]})",
       "+ 1 0 "},
      {"WhitespaceIsAny",
       R"({"schema": {"const": [1, 2]}, "tests": [{"text": "[1,2]"}, {"text": "[ 1 , 2 ]"}]})",
       "+ + "},
      {"WhitespaceSpaced",
       R"({"schema": {"const": [1, 2]}, "whitespace": "spaced", "tests": [{"text": "[1, 2]"}, {"text": "[1,2]"}]})",
       "+ 3 "},
      {"WhitespaceCompact",
       R"({"schema": {"const": [1, 2]}, "whitespace": "compact", "tests": [{"text": "[1, 2]"}, {"text": "[1,2]"}]})",
       "3 + "},
      {"PropertyOrder",
       R"({"schema": {"properties": {"a": {}, "b": {}}}, "property_order": "schema",
           "tests": [{"text": "{\"a\": 1, \"b\": 2}"}, {"text": "{\"b\": 1, \"a\": 2}"}]})",
       "+ 11 "},
      {"UnicodeEscapes",
       R"({"schema": {"type": "string"}, "unicode_escapes": "controls",
           "tests": [{"text": "\"\\u0061\""}, {"text": "\"\\u0001\""}]})",
       "5 + "},
      {"Draft",
       R"({"schema": {"items": [{"type": "null"}]}, "draft": "draft7", "tests": [{"text": "[1]"}]})",
       "1 "},
      {"Documents",
       R"({"schema": {"$ref": "http://a/b"}, "documents": {"http://a/b": {"type": "null"}},
           "tests": [{"text": "null"}, {"text": "1"}]})",
       "+ 0 "},
      {"Gbnf",
       R"({"grammar": "root ::= \"a\"+", "syntax": "gbnf", "tests": [{"text": "aa"}, {"text": "ab"}]})",
       "+ 1 "},
      {"Ebnf", R"({"grammar": "root ::= \"a\"+", "syntax": "ebnf", "tests": [{"text": "aa"}]})",
       "+ "},
      {"Lark",
       R"({"grammar": "start: /a+/", "syntax": "lark", "tests": [{"text": "aa"}, {"text": "ab"}]})",
       "+ 1 "},
      {"Regex",
       R"({"grammar": "a+", "syntax": "regex", "tests": [{"text": "aa"}, {"text": "ba"}]})",
       "+ 0 "},
      {"StructuralTag",
       R"({"grammar": "{\"format\": {\"type\": \"const_string\", \"value\": \"a\"}}",
           "syntax": "structural_tag", "tests": [{"text": "a"}]})",
       "+ "},
      {"StructuralTagAsAnObject",
       R"({"grammar": {"format": {"type": "const_string", "value": "a"}},
           "syntax": "structural_tag", "tests": [{"text": "a"}]})",
       "+ "},
      {"NamesOfTokensAreText",
       R"({"grammar": "root ::= \"<|call|>\"", "syntax": "gbnf", "tests": [{"text": "<|call|>"}]})",
       "+ "},
      {"SpecialTokens",
       R"({"grammar": "root ::= <|call|> \"a\"", "syntax": "gbnf", "special": true,
           "tests": [{"text": "<|call|>a"}, {"text": "a"}]})",
       "+ 0 "},
      {"NamesAreTextWithoutSpecial",
       R"({"grammar": "root ::= <|call|> \"a\"", "syntax": "gbnf", "tests": [{"text": "<|call|>a"}]})",
       "0 "},
      {"Tools",
       R"({"tools": [{"name": "f"}], "format": "hermes", "tool_choice": "required", "tests": [
           {"text": "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"},
           {"text": "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"}]})",
       "+ 22 "},
      {"NoTests", R"({"schema": true})", ""},
  };
  for (const Row& row : rows) {
    const auto answer = batch_for_test().answer(request_of(row.line));
    ASSERT_TRUE(answer) << row.name << ": " << answer.error().message;
    std::string verdicts;
    std::size_t masks = 0;
    for (const json::Value& test : *answer->find("tests")->if_array()) {
      const json::Value* const at = test.find("at");
      verdicts += at == nullptr ? "+ " : at->if_number()->text + " ";
      EXPECT_EQ(*test.find("accepted")->if_bool(), at == nullptr) << row.name;
      ++masks;
    }
    EXPECT_EQ(verdicts, row.verdicts) << row.name;
    EXPECT_GE(answer->find("mask_us")->if_array()->size(), masks) << row.name;
    EXPECT_NE(answer->find("compile_us"), nullptr) << row.name;
    EXPECT_NE(answer->find("first_mask_us"), nullptr) << row.name;
  }
}

TEST(MaskBatch, Refuses) {
  struct Row {
    const char* name;
    std::string_view line;
    Errc code;
    std::string_view message;
  };
  const Row rows[] = {
      {"Nothing", "{}", Errc::invalid, "schema: give either schema, or grammar and its syntax"},
      {"NoSyntax", R"({"grammar": "a"})", Errc::invalid,
       "syntax: must be one of gbnf, ebnf, lark, regex, structural_tag"},
      {"UnknownSyntax", R"({"grammar": "a", "syntax": "yacc"})", Errc::invalid,
       "syntax: must be one of gbnf, ebnf, lark, regex, structural_tag"},
      {"GrammarIsNoText", R"({"grammar": 1, "syntax": "gbnf"})", Errc::invalid,
       "grammar: must be a string"},
      {"BadGrammar", R"({"grammar": "root ::= x", "syntax": "gbnf"})", Errc::invalid,
       "line 1, column 10: rule 'x' is not defined; add `x ::= ...`"},
      {"BadRegex", R"x({"grammar": "(", "syntax": "regex"})x", Errc::invalid,
       "pattern: a group is not closed at byte 1"},
      {"Whitespace", R"({"schema": {}, "whitespace": "none"})", Errc::invalid,
       "whitespace: must be one of compact, spaced, pretty, any"},
      {"Tests", R"({"schema": {}, "tests": 1})", Errc::invalid, "tests: must be an array"},
      {"Walks", R"({"schema": {}, "walks": 1})", Errc::invalid,
       "walks: must be an array of at most"},
      {"WalkWithoutSeed", R"({"schema": {}, "walks": [{"most": 1}]})", Errc::invalid,
       "walks: each must have a seed"},
      {"WalkTooLong", R"({"schema": {}, "walks": [{"seed": 1, "most": 10001}]})", Errc::invalid,
       "walks: each must have a seed"},
      {"Text", R"({"schema": {}, "tests": [{}]})", Errc::invalid,
       "tests: each must have the string text"},
      {"Special", R"({"schema": {}, "special": 1})", Errc::invalid,
       "special: must be true or false"},
      {"Lenient", R"({"schema": {}, "lenient": 1})", Errc::invalid,
       "lenient: must be true or false"},
      {"LenientGrammar", R"({"grammar": "a", "syntax": "regex", "lenient": true})", Errc::invalid,
       "lenient: is not known here; there are grammar, syntax, tests, special"},
      {"WhitespaceOfAGrammar", R"({"grammar": "a", "syntax": "regex", "whitespace": "any"})",
       Errc::invalid, "whitespace: is not known here; there are grammar, "},
      {"SchemaAndGrammar", R"({"grammar": "a", "syntax": "regex", "schema": {}})", Errc::invalid,
       "schema: is not known here; there are grammar, "},
      {"DraftOfTools", R"({"tools": [{"name": "f"}], "format": "hermes", "draft": "draft4"})",
       Errc::invalid, "draft: is not known here; there are tools, "},
      {"UnknownMember", R"({"schema": {}, "texts": []})", Errc::invalid,
       "texts: is not known here; there are schema, draft, documents, assert_format, whitespace, "
       "property_order, unicode_escapes, lenient, tests, special"},
      {"NotLenient", R"({"schema": {"maximum": 1e999}})", Errc::limit_exceeded, ""},
      {"Unsatisfiable", R"({"schema": false})", Errc::unsatisfiable, ""},
  };
  for (const Row& row : rows) {
    const auto answer = batch_for_test().answer(request_of(row.line));
    ASSERT_FALSE(answer) << row.name;
    EXPECT_EQ(answer.error().code, row.code) << row.name;
    EXPECT_EQ(answer.error().message.substr(0, row.message.size()), row.message) << row.name;
  }
}

// A keyword that is left out is listed once, however often the grammar is made again.
TEST(MaskBatch, LenientListsWhatItLeavesOut) {
  struct Row {
    const char* name;
    std::string_view line;
    std::string_view relaxed;  // "": no list
  };
  const Row rows[] = {
      {"NotAsked", R"({"schema": {"minimum": 1}})", ""},
      {"NotAskedInWords", R"({"schema": {"minimum": 1}, "lenient": false})", ""},
      {"Nothing", R"({"schema": {"minimum": 1}, "lenient": true})", "[]"},
      {"Bound", R"({"schema": {"properties": {"a": {"maximum": 1e999}}}, "lenient": true})",
       R"([{"schema_path":"/properties/a","keyword":"maximum")"},
  };
  for (const Row& row : rows) {
    const auto answer = batch_for_test().answer(request_of(row.line));
    ASSERT_TRUE(answer) << row.name << ": " << answer.error().message;
    const json::Value* const relaxed = answer->find("relaxed");
    ASSERT_EQ(relaxed == nullptr, row.relaxed.empty()) << row.name;
    if (relaxed == nullptr) continue;
    EXPECT_EQ(json::to_string(*relaxed).substr(0, row.relaxed.size()), row.relaxed) << row.name;
    EXPECT_LE(relaxed->if_array()->size(), 1U) << row.name;
  }
}

TEST(MaskBatch, AnswersLineByLine) {
  std::istringstream in("{\"id\": 1, \"schema\": true}\n{\"id\": 2}\nx\n");
  std::ostringstream out;
  EXPECT_EQ(batch_for_test().run(in, out), 0);
  std::istringstream lines(out.str());
  std::vector<std::string> errors;
  for (std::string line; std::getline(lines, line);) {
    const auto answer = json::parse(line);
    const json::Value* const error = answer->find("error");
    errors.push_back(error == nullptr ? "" : *error->find("code")->if_string());
  }
  EXPECT_EQ(errors, (std::vector<std::string>{"", "invalid", "invalid"}));
}

}  // namespace
}  // namespace tenon::batch
