#include "tenon/chat/code_functions.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tenon/message/build.h"

namespace tenon::chat {
namespace {

using message::function_tool;
using testing::HasSubstr;
using testing::Not;

json::Value parsed(std::string_view text) {
  return *json::parse(text);
}

struct TypeRow {
  const char* name;
  const char* schema;
  const char* type;
};

TEST(CodeFunctions, tool_calling_TypesAreNamedAsPythonDoes) {
  const TypeRow rows[] = {
      {"String", R"({"type": "string"})", "str"},
      {"Integer", R"({"type": "integer"})", "int"},
      {"Number", R"({"type": "number"})", "float"},
      {"Flag", R"({"type": "boolean"})", "bool"},
      {"Null", R"({"type": "null"})", "None"},
      {"Object", R"({"type": "object"})", "dict"},
      {"ObjectByItsProperties", R"({"properties": {}})", "dict"},
      {"List", R"({"type": "array"})", "list"},
      {"ListOfLists",
       R"({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}})",
       "list[list[int]]"},
      {"Words", R"({"type": "string", "enum": ["a", "b\"c", 1, true, null]})",
       R"(Literal["a", "b\"c", 1, True, None])"},
      {"Constant", R"({"const": "x"})", R"(Literal["x"])"},
      {"Types", R"({"type": ["string", "null"]})", "str | None"},
      {"Choice", R"({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "string"}]})",
       "str | int"},
      {"ChoiceOfAnything", R"({"anyOf": [{"type": "string"}, {}]})", "Any"},
      {"Reference", R"({"$ref": "#/$defs/a"})", "Any"},
      {"Nothing", "{}", "Any"},
      {"Truth", "true", "Any"},
      {"UnknownType", R"({"type": "date"})", "Any"},
      {"NoTypes", R"({"type": []})", "Any"},
      {"TypeOfAnotherKind", R"({"type": 3})", "Any"},
  };
  for (const TypeRow& row : rows) EXPECT_EQ(python_type(parsed(row.schema)), row.type) << row.name;
}

struct StubRow {
  const char* name;
  std::string tool;
  const char* description;
  const char* parameters;
  const char* stub;
};

TEST(CodeFunctions, tool_calling_ToolsAreFunctionsWithTypesAndDocstrings) {
  const StubRow rows[] = {
      {"RequiredOnesComeFirst", "get_weather", "The weather",
       R"({"type": "object", "properties": {"days": {"type": "integer", "description": "how\nmany"},
           "city": {"type": "string"}}, "required": ["city"]})",
       "def get_weather(city: str, days: int = ...) -> Any:\n    \"\"\"The weather\n"
       "    days: how many\"\"\""},
      {"NothingToSay", "f", "", "{}", "def f() -> Any: ..."},
      {"NamesThatPythonDoesNotTake", "git-hub.list", "",
       R"({"properties": {"from": {"type": "string"},
           "x y": {}, "ok": {}}})",
       "def git_hub_list(ok: Any = ..., **more) -> Any:\n    \"\"\"from: (in **more, str) \n"
       "    x y: (in **more, Any) \"\"\""},
      {"Keyword", "import", "", "{}", "def tool_import() -> Any: ..."},
      {"WhatCodeNeeds", "print", "", "{}", "def tool_print() -> Any: ..."},
      {"Digit", "3d", "", "{}", "def tool_3d() -> Any: ..."},
      {"OtherArguments", "f", "", R"({"additionalProperties": {"type": "string"}})",
       "def f(**more) -> Any: ..."},
      {"NoOtherArguments", "f", "", R"({"additionalProperties": false})", "def f() -> Any: ..."},
  };
  for (const StubRow& row : rows) {
    const CodeFunctions functions(
        {function_tool(row.tool, row.description, parsed(row.parameters))});
    EXPECT_EQ(functions.stub(0), row.stub) << row.name;
  }
}

TEST(CodeFunctions, NamesAreUnique) {
  const CodeFunctions functions(
      {function_tool("a.b", "", {}), function_tool("a-b", "", {}), function_tool("a_b", "", {})});
  EXPECT_EQ(functions.name(0), "a_b");
  EXPECT_EQ(functions.name(1), "a_b_2");
  EXPECT_EQ(functions.name(2), "a_b_3");
  EXPECT_EQ(functions.find("a-b")->name, "a-b");
  EXPECT_EQ(functions.find("a_b_2"), nullptr);
}

// Texts of clients and servers are literals, whatever they contain.
TEST(CodeFunctions, SourceHasTextsAsLiterals) {
  const CodeFunctions functions(
      {function_tool("f", "\"\"\"\nimport os", parsed(R"({"properties": {"a": {}, "b c": {}}})"))});
  EXPECT_EQ(functions.source(),
            "def f(a = ..., **more):\n"
            "    \"\\\"\\\"\\\"\\nimport os\\nb c: (in **more, Any) \"\n"
            "    return call_tool(\"f\", {\"a\": a, **more})\n");
}

TEST(CodeFunctions, DescriptionListsWhatFitsAndNamesTheOthers) {
  std::vector<message::Tool> tools;
  for (int i = 0; i < 500; ++i) {
    tools.push_back(function_tool("bank_do_" + std::to_string(i), "Does this at the bank",
                                  parsed(R"({"properties": {"city": {"type": "string"}}})")));
  }
  tools.push_back(function_tool("get_weather", "Rain and sun", {}));
  tools[1].is_deferred = true;
  const CodeFunctions functions(tools);
  const std::string text = functions.description();
  EXPECT_LT(text.size(), CodeFunctions::kMostListed + CodeFunctions::kMostNamed + 2000);
  EXPECT_THAT(text, HasSubstr("def bank_do_0(city: str = ...) -> Any:"));
  EXPECT_THAT(text, Not(HasSubstr("def bank_do_1(")));  // deferred
  EXPECT_THAT(text, HasSubstr("def bank_do_2("));
  EXPECT_THAT(text, HasSubstr("tool_docs("));
  EXPECT_THAT(functions.docs("rain"), HasSubstr("def get_weather()"));
  EXPECT_THAT(functions.docs("nothing of it"), HasSubstr("No function has these words"));
  EXPECT_THAT(CodeFunctions({}).description(), Not(HasSubstr("call")));
}

}  // namespace
}  // namespace tenon::chat
