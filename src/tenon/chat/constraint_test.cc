#include "tenon/chat/constraint.h"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/long_for_test.h"
#include "tenon/base/sanitizers_for_test.h"
#include "tenon/format/definition.h"
#include "tenon/format/registry.h"
#include "tenon/grammar/front/gbnf.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/grammar/machine/token_set.h"
#include "tenon/vocab/byte_tokenizer.h"

namespace tenon::chat {
namespace {

using message::ArgumentOrder;
using message::ChatRequest;
using message::Tool;
using message::ToolMode;

constexpr std::string_view kEnd = "<|im_end|>";
constexpr std::string_view kTail = "<|im_start|>assistant\n";

const vocab::ByteTokenizer& constraint_tokenizer() {
  static const vocab::ByteTokenizer kTokenizer({"<tool_call>", "</tool_call>", std::string(kEnd)},
                                               {.eos = std::string(kEnd)});
  return kTokenizer;
}

Constraints hermes() {
  return {format::find("hermes"), constraint_tokenizer(), {}};
}

Tool tool(std::string name, std::string_view parameters = "null") {
  return {.name = std::move(name), .parameters = *json::parse(parameters)};
}

// Tools f(a: string, b: integer), where b is optional, and g().
ChatRequest constraint_request() {
  constexpr std::string_view kParameters =
      R"({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
          "required": ["a"], "additionalProperties": false})";
  ChatRequest request;
  request.tools = {tool("f", kParameters), tool("g")};
  return request;
}

std::string call(std::string_view name, std::string_view arguments) {
  return "<tool_call>\n{\"name\": \"" + std::string(name) +
         "\", \"arguments\": " + std::string(arguments) + "}\n</tool_call>";
}

// Whether `text`, in which texts of control tokens are those tokens, can be a whole answer.
bool takes(const Constraint& constraint, std::string_view text,
           const vocab::Tokenizer& tokenizer = tenon::chat::constraint_tokenizer()) {
  std::vector<vocab::TokenId> ids;
  EXPECT_TRUE(tokenizer.encode(text, vocab::Controls::on, true, ids));
  grammar::Matcher matcher(constraint.grammar);
  for (const vocab::TokenId id : ids) {
    if (!matcher.accept(id)) return false;
  }
  return matcher.is_accepting();
}

using Change = void (*)(ChatRequest& request);

void nothing(ChatRequest& /*request*/) {}
void none(ChatRequest& request) {
  request.tool_choice.mode = ToolMode::none;
}
void required(ChatRequest& request) {
  request.tool_choice.mode = ToolMode::required;
}
void only_g(ChatRequest& request) {
  request.tool_choice = {.mode = ToolMode::required, .allowed = {"g"}};
}
void perhaps_g(ChatRequest& request) {
  request.tool_choice.allowed = {"g"};
}
void one_call(ChatRequest& request) {
  request.parallel_tool_calls = false;
}
void any_order(ChatRequest& request) {
  request.argument_order = ArgumentOrder::any;
}
void open(ChatRequest& request) {
  request.tools[0].parameters.if_object()->erase("additionalProperties");
}
void declares_nothing(ChatRequest& request) {
  request.tools[1].parameters = json::Object{};
}
void not_strict(ChatRequest& request) {
  request.tools[0].strict = false;
}

struct ConstraintRow {
  std::string_view name;
  Change change;
  std::vector<std::string> right;
  std::vector<std::string> wrong;
};

std::vector<ConstraintRow> rows() {
  const std::string f = call("f", R"({"a": "x", "b": 1})");
  const std::string g = call("g", "{}");
  const std::string unknown = call("h", "{}");
  const std::string no_b = call("f", R"({"a": "x"})");
  const std::string swapped = call("f", R"({"b": 1, "a": "x"})");
  const std::string mistyped = call("f", R"({"a": 1})");
  const std::string broken = call("f", R"({"a": )");
  return {
      {"Automatic",
       nothing,
       {"", "Hello", f, g, no_b, "Well: " + f, f + "\n" + g},
       {unknown, swapped, mistyped, broken, call("g", R"({"x": 1})"), call("f", "{}"),
        call("f", R"({"a": "x", "b": 1.0})")}},
      {"None", none, {"", "Hello"}, {f, g, unknown}},
      {"Required", required, {f, g, f + "\n" + g}, {"", "Hello", "Well: " + f, unknown}},
      {"Named", only_g, {g, g + "\n" + g}, {"", "Hello", f}},
      {"Allowed", perhaps_g, {"", "Hello", g}, {f, g + "\n" + f}},
      {"NotParallel", one_call, {"Hello", f, g}, {f + "\n" + g}},
      {"AnyOrder", any_order, {f, swapped, no_b}, {mistyped}},
      {"UndeclaredIsNotWritten", open, {f, no_b}, {call("f", R"({"a": "x", "z": 1})")}},
      {"NoneDeclared", declares_nothing, {g}, {call("g", R"({"x": 1})")}},
      {"NotStrict",
       not_strict,
       {f, swapped, mistyped, call("f", R"({"z": [null]})")},
       {unknown, broken, call("f", "1"), call("g", R"({"x": 1})")}},
  };
}

using message::TextGrammar;

TextGrammar lark(std::string definition) {
  return {TextGrammar::Syntax::lark, std::move(definition)};
}
TextGrammar regex(std::string definition) {
  return {TextGrammar::Syntax::regex, std::move(definition)};
}

void expect_held(const Constraints& constraints, const std::vector<ConstraintRow>& rows) {
  for (const ConstraintRow& row : rows) {
    SCOPED_TRACE(row.name);
    ChatRequest asked = constraint_request();
    row.change(asked);
    const auto constraint = constraints.of(asked, kTail);
    ASSERT_TRUE(constraint) << constraint.error().error.message;
    for (const std::string& text : row.right) EXPECT_TRUE(takes(*constraint, text)) << text;
    for (const std::string& text : row.wrong) EXPECT_FALSE(takes(*constraint, text)) << text;
  }
}

TEST(Constraints, HoldAnswersToTheRequest) {
  expect_held(hermes(), rows());
}

Constraints printing(engine::ConstrainedBy constrained_by) {
  return {format::find("hermes"), constraint_tokenizer(), {.constrained_by = constrained_by}};
}

// Compiles what was printed for an upstream over bytes; markers are text in it.
Constraint read_back(const Constraint& printed) {
  static const vocab::ByteTokenizer kBytes({std::string(kEnd)}, {.eos = std::string(kEnd)});
  static const auto kIndex = std::make_shared<grammar::VocabIndex>(*vocab::Vocab::of(kBytes));
  grammar::Rules rules;
  const auto root = grammar::add_gbnf(rules, *printed.printed);
  EXPECT_TRUE(root) << root.error().message;
  rules.set_root(*root);
  const auto made = grammar::Grammar::make(
      [&](grammar::Machine& machine) {
        return grammar::add_rules(machine, rules, kIndex->vocab());
      },
      kIndex);
  EXPECT_TRUE(made) << made.error().message;
  return {.grammar = *made};
}

TEST(Constraints, ThatArePrintedHoldTheSameAnswers) {
  const vocab::ByteTokenizer bytes;
  for (const engine::ConstrainedBy constrained_by :
       {engine::ConstrainedBy::gbnf, engine::ConstrainedBy::ebnf}) {
    const Constraints constraints = printing(constrained_by);
    for (const ConstraintRow& row : rows()) {
      SCOPED_TRACE(std::string(row.name) + " as " +
                   std::string(engine::constrained_by_name(constrained_by)));
      if (row.change == any_order) continue;  // the model refuses it for upstreams
      ChatRequest asked = constraint_request();
      row.change(asked);
      const auto constraint = constraints.of(asked, kTail);
      ASSERT_TRUE(constraint) << constraint.error().error.message;
      ASSERT_NE(constraint->printed, nullptr);
      EXPECT_EQ(constraint->grammar, nullptr);
      EXPECT_EQ(constraint->unenforced, row.change == not_strict ? std::vector<std::string>{"f"}
                                                                 : std::vector<std::string>{});
      EXPECT_EQ(constraints.of(asked, kTail)->printed, constraint->printed);
      if (constrained_by != engine::ConstrainedBy::gbnf)
        continue;  // EBNF is tested with xgrammar itself
      const Constraint back = read_back(*constraint);
      for (const std::string& text : row.right) EXPECT_TRUE(takes(back, text, bytes)) << text;
      for (const std::string& text : row.wrong) EXPECT_FALSE(takes(back, text, bytes)) << text;
    }
    EXPECT_EQ(constraints.counts().compilations, rows().size() - 1);
    EXPECT_EQ(constraints.counts().cache_hits, rows().size() - 1);
    EXPECT_GT(constraints.counts().cache_bytes, 0U);
  }
}

// A grammar of rules cannot count members, so such a schema is checked when the call has come.
TEST(Constraints, ThatArePrintedTellWhatTheyLeaveOut) {
  const Constraints constraints = printing(engine::ConstrainedBy::gbnf);
  ChatRequest asked = constraint_request();
  asked.tools[0].parameters = *json::parse(
      R"({"type": "object", "properties": {"a": {"type": "array", "uniqueItems": true}}})");
  const auto constraint = constraints.of(asked, kTail);
  ASSERT_TRUE(constraint) << constraint.error().error.message;
  EXPECT_NE(constraint->printed, nullptr);
  EXPECT_NE(std::ranges::find(constraint->unenforced, "f"), constraint->unenforced.end());
  asked.tools[0].parameters = *json::parse(R"({"type": "text"})");
  const auto refused = constraints.of(asked, kTail);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "tools[0].function.parameters");
}

// Also in formats in which a tool's name alone begins a call, except for names in other spellings.
TEST(Constraints, ThatArePrintedHoldBareJson) {
  const vocab::ByteTokenizer bytes;
  struct Bare {
    std::string_view format;
    std::string right;
    std::string wrong;
  };
  const Bare rows[] = {
      {"json", R"({"name": "f", "arguments": {"a": "x"}})", R"({"name": "f", "arguments": {}})"},
      {"llama3_json", R"({"name": "f", "parameters": {"a": "x"}})",
       R"({"name": "f", "parameters": {}})"},
      {"xlam", R"([{"name": "f", "arguments": {"a": "x"}}])",
       R"([{"name": "f", "arguments": {}}])"},
  };
  for (const Bare& row : rows) {
    SCOPED_TRACE(row.format);
    const Constraints constraints(format::find(row.format), constraint_tokenizer(),
                                  {.constrained_by = engine::ConstrainedBy::gbnf});
    const auto constraint = constraints.of(constraint_request(), kTail);
    ASSERT_TRUE(constraint) << constraint.error().error.message;
    ASSERT_NE(constraint->printed, nullptr) << constraint->diagnostics.front().message;
    EXPECT_TRUE(constraint->diagnostics.empty());
    EXPECT_NE(std::ranges::find(constraint->unenforced, "f"), constraint->unenforced.end());
    const Constraint back = read_back(*constraint);
    EXPECT_TRUE(takes(back, row.right, bytes));
    EXPECT_FALSE(takes(back, row.wrong, bytes));
    EXPECT_TRUE(takes(back, "Hello {\"a\": [1]}.", bytes));
    EXPECT_TRUE(takes(back, R"(It is {"name": "Bob"}.)", bytes));
    EXPECT_FALSE(takes(back, "Hello " + row.wrong, bytes));
  }
}

// Whatever the answers are constrained to.
TEST(Constraints, OfTheSameToolsShareTheirSchemas) {
  const Constraints constraints = printing(engine::ConstrainedBy::ebnf);
  ChatRequest asked = constraint_request();
  asked.tools[0].strict = false;
  const auto one = constraints.of(asked, kTail);
  const auto other = constraints.of(asked, kTail);
  ASSERT_TRUE(one && other);
  ASSERT_EQ(one->schemas.size(), 2U);
  EXPECT_EQ(&one->schemas[0], &other->schemas[0]);
  EXPECT_EQ(one->schemas[0], asked.tools[0].parameters);
  EXPECT_EQ(one->schemas[1], asked.tools[1].parameters);
}

TEST(Constraints, BeginInReasoningThatThePromptHasOpened) {
  const Constraints constraints = hermes();
  ChatRequest asked = constraint_request();
  asked.tool_choice.mode = ToolMode::required;
  const std::string g = call("g", "{}");
  const auto outside = constraints.of(asked, kTail);
  const auto inside = constraints.of(asked, "<|im_start|>assistant\n<think>\n");
  EXPECT_TRUE(takes(*outside, g));
  EXPECT_FALSE(takes(*outside, "hm</think>\n" + g));
  EXPECT_FALSE(takes(*inside, g));
  EXPECT_TRUE(takes(*inside, "hm</think>\n" + g));
  const auto other_prompt = constraints.of(asked, "<|assistant|><think>");
  EXPECT_EQ(other_prompt->grammar, inside->grammar);
}

TEST(Constraints, AreMadeOnceForEachKindOfRequest) {
  const Constraints constraints = hermes();
  EXPECT_EQ(constraints.counts().compilations, 0U);
  std::vector<std::shared_ptr<grammar::Grammar>> known;
  for (const ConstraintRow& row : rows()) {
    SCOPED_TRACE(row.name);
    ChatRequest asked = constraint_request();
    row.change(asked);
    const auto grammar = constraints.of(asked, kTail)->grammar;
    EXPECT_EQ(std::ranges::find(known, grammar), known.end());
    known.push_back(grammar);
    asked.messages.push_back({.content = "what no grammar depends on"});
    EXPECT_EQ(constraints.of(asked, kTail)->grammar, grammar);
  }
  EXPECT_EQ(constraints.counts().compilations, known.size());
  EXPECT_EQ(constraints.counts().cache_hits, known.size());
  EXPECT_GT(constraints.counts().cache_bytes, 0U);
}

TEST(Constraints, ModelMayLetArgumentsComeInAnyOrder) {
  const Constraints constraints(format::find("hermes"), constraint_tokenizer(),
                                {.argument_order = ArgumentOrder::any});
  const std::string swapped = call("f", R"({"b": 1, "a": "x"})");
  ChatRequest asked = constraint_request();
  EXPECT_TRUE(takes(*constraints.of(asked, kTail), swapped));
  asked.argument_order = ArgumentOrder::schema;
  EXPECT_FALSE(takes(*constraints.of(asked, kTail), swapped));
}

TEST(Constraints, NumbersAreBoundedUnlessTheRequestOrElseTheModelLiftsIt) {
  using message::Bounds;
  const std::string number(40, '7');
  for (const Bounds by_model : {Bounds::usual, Bounds::none}) {
    const Constraints constraints(format::find("hermes"), constraint_tokenizer(),
                                  {.bounds = by_model});
    for (const std::optional<Bounds> by_request :
         {std::optional<Bounds>(), std::optional(Bounds::usual), std::optional(Bounds::none)}) {
      ChatRequest asked = constraint_request();
      asked.bounds = by_request;
      EXPECT_EQ(
          takes(*constraints.of(asked, kTail), call("f", R"({"a": "x", "b": )" + number + "}")),
          by_request.value_or(by_model) == Bounds::none);
    }
  }
}

TEST(Constraints, HoldInputsOfCustomToolsToTheirGrammars) {
  const Constraints constraints = hermes();
  ChatRequest asked = constraint_request();
  asked.tools.push_back(message::custom_tool("run", "", std::nullopt));
  asked.tools.push_back(message::custom_tool("dial", "", regex(R"(\+?[0-9]{3,})")));
  asked.tools.push_back(
      message::custom_tool("say", "", lark("start: \"(\" start \")\" | \"\\\"\"")));
  const auto held = constraints.of(asked, kTail);
  ASSERT_TRUE(held) << held.error().error.message;
  EXPECT_TRUE(held->unenforced.empty());
  for (const auto& right :
       {call("run", R"({"input": "a \"b\"\n"})"), call("dial", R"({"input": "+123"})"),
        call("say", "{\"input\": \"((\\\"))\"}"), call("g", "{}")}) {
    EXPECT_TRUE(takes(*held, right)) << right;
  }
  for (const auto& wrong :
       {call("run", "{}"), call("run", R"({"input": 1})"), call("dial", R"({"input": "12"})"),
        call("dial", R"({"input":"123"})"), call("say", "{\"input\": \"((\\\")\"}"),
        call("say", "{\"input\": \"(\"}")}) {
    EXPECT_FALSE(takes(*held, wrong)) << wrong;
  }
  // The tool's grammar is part of the cache key.
  asked.tools[3].grammar = regex("[a-z]+");
  const auto other = constraints.of(asked, kTail);
  EXPECT_NE(other->grammar, held->grammar);
  EXPECT_TRUE(takes(*other, call("dial", R"({"input": "abc"})")));
  asked.tools[3].grammar = lark("start: /[0-9]+/");
  EXPECT_FALSE(takes(*constraints.of(asked, kTail), call("dial", R"({"input": "abc"})")));
}

TEST(Constraints, RefuseGrammarsThatCannotBeHeldTo) {
  const struct {
    const char* name;
    TextGrammar grammar;
    const char* message;
  } refused[] = {
      {"NoGrammar", lark("start: a"),
       "line 1, column 8: 'a' is not defined; add `a: ...`, or import it"},
      {"NoText", lark("start: \"a\" start"), "nothing at all fits the grammar"},
      {"NoMatch", regex("a(?!b)b"), "nothing at all fits the grammar"},
      {"Possessive", regex("a++b"),
       "pattern: possessive quantifiers and atomic groups are not supported"},
  };
  for (const auto& row : refused) {
    SCOPED_TRACE(row.name);
    ChatRequest asked = constraint_request();
    asked.tools.push_back(message::custom_tool("odd", "", row.grammar));
    const auto constraint = hermes().of(asked, kTail);
    ASSERT_FALSE(constraint);
    EXPECT_EQ(constraint.error().param, "tools[2].custom.format.grammar.definition");
    EXPECT_EQ(constraint.error().code, "invalid_value");
    EXPECT_EQ(constraint.error().error.message, constraint.error().param + ": " + row.message);
    asked.tool_choice.allowed = {"f"};
    EXPECT_TRUE(hermes().of(asked, kTail)) << "what cannot be called is not looked at";
  }
}

TEST(Constraints, AreNoneWhereNothingIsAsked) {
  EXPECT_EQ(hermes().of(ChatRequest{}, kTail)->grammar, nullptr);
  const Constraints without_format(nullptr, constraint_tokenizer(), {});
  EXPECT_EQ(without_format.of(constraint_request(), kTail)->grammar, nullptr);
  const auto silent = format::compile("name = \"silent\"\nsummary = \"\"\n", "silent.toml");
  ASSERT_TRUE(silent) << silent.error().message;
  const Constraints without_calls(*silent, constraint_tokenizer(), {});
  EXPECT_EQ(without_calls.of(constraint_request(), kTail)->grammar, nullptr);
}

struct ConstraintRefused {
  std::string_view name;
  std::string_view parameters;
  std::string_view message_part;
};

const ConstraintRefused kRefused[] = {
    {"NoSchema", R"({"properties": {"a": {"type": "text"}}})", "/properties/a/type"},
    {"NoValue",
     R"({"properties": {"a": {"type": "integer", "minimum": 3, "maximum": 2}}, "required": ["a"]})",
     "/properties/a"},
    {"NoObject", R"({"type": "string"})", "must be object"},
};

TEST(Constraints, RefuseSchemasThatNoArgumentsFit) {
  for (const ConstraintRefused& row : kRefused) {
    SCOPED_TRACE(row.name);
    ChatRequest asked = constraint_request();
    asked.tools.push_back(tool("odd", row.parameters));
    const auto constraint = hermes().of(asked, kTail);
    ASSERT_FALSE(constraint);
    EXPECT_EQ(constraint.error().param, "tools[2].function.parameters");
    EXPECT_EQ(constraint.error().code, "invalid_value");
    const std::string& message = constraint.error().error.message;
    EXPECT_TRUE(message.starts_with("tool 'odd': ")) << message;
    EXPECT_NE(message.find(row.message_part), std::string::npos) << message;
    asked.tools.back().strict = false;
    EXPECT_TRUE(hermes().of(asked, kTail)) << "a lifted schema is not looked at";
  }
}

struct Unenforced {
  std::string_view name;
  std::string_view parameters;
  std::string_view right;  // arguments that the reduced schema allows
  std::string_view wrong;  // arguments that it forbids
};

const Unenforced kUnenforced[] = {
    {"Keyword",
     R"({"properties": {"x": {"type": "integer", "maximum": 1e999}}, "required": ["x"]})",
     R"({"x": 5})", R"({"x": "5"})"},
    {"AddressElsewhere",
     R"({"properties": {"x": {"$ref": "https://example.org/x"}}, "required": ["x"]})",
     R"({"x": "5"})", "{}"},
    {"PatternThatIsNotRegular",
     R"({"properties": {"x": {"type": "string", "pattern": "(a)\\1"}, "y": {"type": "integer"}}, "required": ["y"]})",
     R"({"x": "b", "y": 5})", R"({"x": "b", "y": "5"})"},
    {"SeveralOfThem",
     R"({"$schema": "https://example.org/s", "properties": {"x": {"pattern": "(a)\\1"}, "y": {"pattern": "(b)\\1"}}, "required": ["x"]})",
     R"({"x": 5})", "{}"},
    {"WholeSchemaWhereLessWouldBeTaken",
     R"({"properties": {"x": {"not": {"type": "string", "pattern": "(a)\\1"}}}, "required": ["x"]})",
     R"({"y": 1})", "5"},
};

TEST(Constraints, LeaveOutWhatNoGrammarCanEnforce) {
  const Constraints constraints = hermes();
  EXPECT_TRUE(constraints.of(constraint_request(), kTail)->unenforced.empty());
  for (const Unenforced& row : kUnenforced) {
    SCOPED_TRACE(row.name);
    ChatRequest asked = constraint_request();
    asked.tools.push_back(tool("odd", row.parameters));
    for (int time = 0; time < 2; ++time) {  // made, and then found in the cache
      const auto constraint = constraints.of(asked, kTail);
      ASSERT_TRUE(constraint) << constraint.error().error.message;
      EXPECT_EQ(constraint->unenforced, std::vector<std::string>{"odd"});
      EXPECT_TRUE(takes(*constraint, call("odd", row.right)));
      EXPECT_FALSE(takes(*constraint, call("odd", row.wrong)));
    }
  }
  ChatRequest lifted = constraint_request();
  lifted.tools[1].strict = false;
  EXPECT_EQ(constraints.of(lifted, kTail)->unenforced, std::vector<std::string>{"g"});
}

// A tool that was in another set is held to the same, and the client is told the same of it.
TEST(Constraints, ShareToolsWithOtherSets) {
  const Constraints constraints = hermes();
  for (const Unenforced& row : kUnenforced) {
    SCOPED_TRACE(row.name);
    for (const char* other : {"one", "two"}) {
      ChatRequest asked = constraint_request();
      asked.tools.push_back(tool("odd", row.parameters));
      asked.tools.push_back(tool(other, R"({"properties": {"n": {"type": "integer"}}})"));
      const auto constraint = constraints.of(asked, kTail);
      ASSERT_TRUE(constraint) << constraint.error().error.message;
      EXPECT_EQ(constraint->unenforced, std::vector<std::string>{"odd"});
      EXPECT_TRUE(takes(*constraint, call("odd", row.right)));
      EXPECT_FALSE(takes(*constraint, call("odd", row.wrong)));
      EXPECT_TRUE(takes(*constraint, call("f", R"({"a": "x", "b": 1})")));
      EXPECT_FALSE(takes(*constraint, call("f", R"({"a": 1})")));
      EXPECT_TRUE(takes(*constraint, call(other, R"({"n": 1})")));
      EXPECT_FALSE(takes(*constraint, call(other, R"({"n": "1"})")));
    }
  }
}

// A text that must have `count` different letters: an automaton of 2^count states.
std::string looks_ahead(int count) {
  std::string pattern = "^";
  for (int i = 0; i < count; ++i) {
    pattern += std::string("(?=.*") + static_cast<char>('a' + i) + ')';
  }
  return pattern + ".*$";
}

Tool tool_with_pattern(int number, const std::string& pattern) {
  const std::string name = "t" + std::to_string(number);
  return tool(name, R"({"type": "object", "required": ["a"], "properties": {"a":
      {"type": "string", "pattern": ")" +
                        pattern + "\"}}}");
}

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

TEST(Constraints, OfManyToolsAreMadeSoon) {
  const struct {
    const char* name;
    int looks;
    std::size_t held;  // at least this many tools are constrained
  } rows[] = {
      {"EachTakesTooMuch", 16, 0},
      {"EachTakesNearlyAsMuchAsOneMay", 9, 5},
      {"EachTakesLittle", 2, 100},
  };
  Sample sample(2);
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    if (!sample.takes_next()) continue;
    ChatRequest asked;
    for (int i = 0; i < 100; ++i) {
      asked.tools.push_back(tool_with_pattern(i, looks_ahead(row.looks)));
    }
    asked.tools.push_back(tool("g"));
    const double begun = cpu_seconds();
    const Constraints constraints = hermes();
    const auto constraint = constraints.of(asked, kTail);
    EXPECT_LT(cpu_seconds() - begun, with_sanitizers(2));
    ASSERT_TRUE(constraint) << constraint.error().error.message;
    ASSERT_NE(constraint->grammar, nullptr);
    EXPECT_LE(constraint->unenforced.size(), 100 - row.held);
    EXPECT_EQ(std::ranges::count(constraint->unenforced, "g"), 0) << "what takes little is held";
    EXPECT_FALSE(takes(*constraint, call("g", R"({"x": 1})")));
    EXPECT_TRUE(takes(*constraint, call("t99", "{\"a\": \"abcdefghijklmnop\"}")));
    EXPECT_LT(constraint->grammar->memory_bytes(), std::size_t{100} << 20U);
  }
}

TEST(Constraints, OfManyGrammarsShareTheirSteps) {
  const struct {
    const char* name;
    Constraints constraints;
    int looks;
  } rows[] = {
      {"Masks", hermes(), 9},
      {"Printed", printing(engine::ConstrainedBy::gbnf), 5},
  };
  Sample sample(2);
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    if (!sample.takes_next()) continue;
    ChatRequest asked;
    for (int i = 0; i < 400; ++i) {
      asked.tools.push_back(
          message::custom_tool("t" + std::to_string(i), "", regex(looks_ahead(row.looks))));
    }
    const auto constraint = row.constraints.of(asked, kTail);
    ASSERT_FALSE(constraint);
    EXPECT_EQ(constraint.error().error.code, Errc::limit_exceeded);
    EXPECT_TRUE(constraint.error().param.starts_with("tools[")) << constraint.error().param;
  }
}

void object(ChatRequest& request) {
  request.response_format.kind = message::ResponseFormat::Kind::json;
}
void integers(ChatRequest& request) {
  object(request);
  request.response_format.schema =
      *json::parse(R"({"type": "array", "items": {"type": "integer"}})");
}
void integers_alone(ChatRequest& request) {
  integers(request);
  request.tools.clear();
}

std::vector<ConstraintRow> response_rows() {
  const std::string g = call("g", "{}");
  return {
      {"Object", object, {"{}", R"({"a": [1]})", g}, {"", "Hello", "[1]", "Well: " + g}},
      {"Schema", integers, {"[]", "[1, 2]", g}, {"{}", "[1.5]", "[1]" + g, "[1] "}},
      {"Alone", integers_alone, {"[1]", "<think>hm</think>\n[1]"}, {"Hello", g}},
      {"NotCalled",
       [](ChatRequest& request) {
         integers(request);
         none(request);
       },
       {"[1]"},
       {g}},
      {"Called",
       [](ChatRequest& request) {
         integers(request);
         required(request);
       },
       {g},
       {"[1]"}},
  };
}

TEST(Constraints, HoldTheTextToAResponseFormat) {
  const Constraints constraints = hermes();
  expect_held(constraints, response_rows());
  // Tools that may not be called change nothing.
  EXPECT_EQ(constraints.counts().compilations, response_rows().size() - 1);
}

TEST(Constraints, ResponseFormatNeedsNoFormatOfCallsAndKeepsItsFrame) {
  ChatRequest asked;
  integers(asked);
  const Constraints bare(nullptr, constraint_tokenizer(), {});
  EXPECT_TRUE(takes(*bare.of(asked, kTail), "[1]"));
  EXPECT_FALSE(takes(*bare.of(asked, kTail), "one"));

  const auto harmony = format::find("harmony");
  std::vector<std::string> controls = harmony->special;
  controls.emplace_back(kEnd);
  const vocab::ByteTokenizer tokenizer(controls, {.eos = std::string(kEnd)});
  const Constraints framed(harmony, tokenizer, {});
  const auto constraint = framed.of(asked, "<|start|>assistant");
  ASSERT_TRUE(constraint) << constraint.error().error.message;
  const std::string right = "<|channel|>final<|message|>[1]";
  EXPECT_TRUE(takes(*constraint, right, tokenizer));
  EXPECT_TRUE(takes(
      *constraint, "<|channel|>analysis<|message|>hm<|end|><|start|>assistant" + right, tokenizer));
  EXPECT_FALSE(takes(*constraint, "<|channel|>final<|message|>one", tokenizer));
}

void is_text_of(ChatRequest& request, TextGrammar grammar) {
  request.response_format = {.kind = message::ResponseFormat::Kind::grammar,
                             .grammar = std::move(grammar)};
}

TEST(Constraints, HoldTheTextToAGrammar) {
  using Syntax = TextGrammar::Syntax;
  const std::string g = call("g", "{}");
  const std::string tag =
      R"({"format": {"type": "sequence", "elements": [{"type": "const_string", "value": "n="},
          {"type": "json_schema", "json_schema": {"type": "integer"}}]}})";
  const struct {
    std::string_view name;
    TextGrammar grammar;
    std::vector<std::string> right;
    std::vector<std::string> wrong;
  } grammars[] = {
      {"Choice",
       {Syntax::choice, R"(["yes", "no", "a \"b\""])"},
       {"yes", "no", "a \"b\""},
       {"", "yesno"}},
      {"Regex", {Syntax::regex, R"((?i)[a-z]{2}\d)"}, {"Ab1"}, {"a1", "ab12"}},
      {"Lark", {Syntax::lark, "start: \"x\" %json {\"type\": \"boolean\"}"}, {"xtrue"}, {"x1"}},
      {"Gbnf", {Syntax::gbnf, "root ::= \"(\" root? \")\""}, {"()", "(())"}, {"", "(()"}},
      {"StructuralTag", {Syntax::structural_tag, tag}, {"n=12"}, {"12", "n=x"}},
  };
  for (const auto& row : grammars) {
    SCOPED_TRACE(row.name);
    for (const bool has_tools : {true, false}) {
      ChatRequest asked = has_tools ? constraint_request() : ChatRequest();
      is_text_of(asked, row.grammar);
      const auto constraint = hermes().of(asked, kTail);
      ASSERT_TRUE(constraint) << constraint.error().error.message;
      EXPECT_EQ(takes(*constraint, g), has_tools);
      for (const std::string& text : row.right) EXPECT_TRUE(takes(*constraint, text)) << text;
      for (const std::string& text : row.wrong) EXPECT_FALSE(takes(*constraint, text)) << text;
      // For an upstream it is printed in the upstream's language.
      const auto printed = printing(engine::ConstrainedBy::ebnf).of(asked, kTail);
      ASSERT_TRUE(printed) << printed.error().error.message;
      EXPECT_NE(printed->printed, nullptr);
    }
  }
}

TEST(Constraints, RefuseGrammarsThatCannotBeKept) {
  using Syntax = TextGrammar::Syntax;
  const struct {
    std::string_view name;
    TextGrammar grammar;
    std::string_view message_part;
  } refused[] = {
      {"NoList", {Syntax::choice, R"({"a": 1})"}, "list of strings"},
      {"NothingToChooseFrom", {Syntax::choice, "[]"}, "list of strings"},
      {"OtherThanStrings", {Syntax::choice, R"(["a", 1])"}, "list of strings"},
      {"NoRegex", {Syntax::regex, "("}, "byte"},
      {"NoGbnf", {Syntax::gbnf, "root ::= ("}, "line 1, column 10"},
      {"NothingFits", {Syntax::gbnf, "root ::= \"a\" root"}, "nothing at all fits"},
      {"UnknownToken", {Syntax::gbnf, "root ::= <none>"}, "<none>"},
  };
  for (const auto& row : refused) {
    SCOPED_TRACE(row.name);
    ChatRequest asked = constraint_request();
    is_text_of(asked, row.grammar);
    const auto constraint = hermes().of(asked, kTail);
    ASSERT_FALSE(constraint);
    EXPECT_EQ(constraint.error().param, "response_format");
    const std::string& message = constraint.error().error.message;
    EXPECT_NE(message.find(row.message_part), std::string::npos) << message;
  }
}

struct RefusedResponse {
  std::string_view name;
  std::string_view schema;
  std::optional<bool> strict;
  std::string_view message_part;  // "": it is not refused
};

const RefusedResponse kRefusedResponses[] = {
    {"NoSchema", R"({"items": {"type": "text"}})", {}, "/items/type"},
    {"NoValue", R"({"type": "integer", "minimum": 3, "maximum": 2})", {}, "no value"},
    {"Elsewhere", R"({"$ref": "https://example.org/x"})", true, "https://example.org/x"},
    {"ElsewhereAsFarAsCanBe", R"({"$ref": "https://example.org/x"})", {}, ""},
    {"NotInFull", R"({"type": "integer", "maximum": 1e999})", true, "maximum"},
    {"AsFarAsCanBe", R"({"type": "integer", "maximum": 1e999})", {}, ""},
    {"AsFarAsCanBeInWords", R"({"type": "integer", "maximum": 1e999})", false, ""},
};

TEST(Constraints, RefuseResponseFormatsThatCannotBeKept) {
  for (const RefusedResponse& row : kRefusedResponses) {
    SCOPED_TRACE(row.name);
    ChatRequest asked = constraint_request();
    asked.response_format = {.kind = message::ResponseFormat::Kind::json,
                             .schema = *json::parse(row.schema),
                             .strict = row.strict};
    const auto constraint = hermes().of(asked, kTail);
    ASSERT_EQ(constraint.has_value(), row.message_part.empty());
    if (constraint) continue;
    EXPECT_EQ(constraint.error().param, "response_format");
    const std::string& message = constraint.error().error.message;
    EXPECT_TRUE(message.starts_with("response_format: ")) << message;
    EXPECT_NE(message.find(row.message_part), std::string::npos) << message;
  }
}

// No model can end its turn inside a call.
TEST(Constraints, AnswersEndNowhereInsideACall) {
  for (const auto& format : format::all()) {
    if (format->syntaxes.empty()) continue;
    SCOPED_TRACE(format->info.name);
    std::vector<std::string> controls = format->special;
    controls.emplace_back("<|the end|>");
    const vocab::ByteTokenizer tokenizer(controls, {.eos = "<|the end|>"});
    const Constraints constraints(format, tokenizer, {});
    ChatRequest asked = constraint_request();
    asked.tool_choice.mode = ToolMode::required;
    const auto constraint = constraints.of(asked, kTail);
    ASSERT_TRUE(constraint) << constraint.error().error.message;
    const auto text = format::render_calls(
        *format, {{.id = "call00001", .name = "f", .arguments = R"({"a": "x", "b": 1})"}});
    std::vector<vocab::TokenId> ids;
    ASSERT_TRUE(tokenizer.encode(*text, vocab::Controls::on, true, ids));
    grammar::Matcher matcher(constraint->grammar);
    std::vector<std::uint32_t> mask(grammar::mask_words(tokenizer.size()));
    format::StreamParser parser(format, {.tools = {"f", "g"}, .control_markers = format->special});
    std::vector<message::ChatEvent> events;
    const auto end = static_cast<std::size_t>(*tokenizer.eos());
    for (std::size_t i = 0; i <= ids.size(); ++i) {
      ASSERT_TRUE(matcher.fill_mask(mask));
      const bool may_end = (mask[end / 32] >> (end % 32) & 1U) != 0;
      const bool is_whole = std::ranges::any_of(events, [](const message::ChatEvent& event) {
        const auto* over = std::get_if<message::CallEnd>(&event);
        return over != nullptr && !over->incomplete;
      });
      EXPECT_TRUE(is_whole || !may_end) << "after " << i << " tokens of " << *text;
      if (i == ids.size()) {
        EXPECT_TRUE(may_end);
        break;
      }
      ASSERT_TRUE(matcher.accept(ids[i])) << "token " << i << " of " << *text;
      parser.feed(tokenizer.bytes(ids[i]), tokenizer.is_control(ids[i]), events);
    }
  }
}

}  // namespace
}  // namespace tenon::chat
