#include "tenon/repair/argument_repairer.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/repair/repair_for_test.h"

namespace tenon::repair {
namespace {

constexpr std::string_view kBash =
    R"({"type": "object", "properties": {"command": {"type": "string"},
        "description": {"type": "string"}}, "required": ["command", "description"]})";
constexpr std::string_view kEdit =
    R"({"type": "object", "properties": {"filePath": {"type": "string"},
        "replaceAll": {"type": "boolean"}}, "required": ["filePath"]})";
constexpr std::string_view kWrite =
    R"({"type": "object", "properties": {"filePath": {"type": "string"},
        "content": {"type": "string"}}, "required": ["filePath", "content"]})";
constexpr std::string_view kProcess =
    R"({"type": "object", "properties": {"action": {"type": "string"}, "id": {"type": "integer"},
        "on": {"type": "boolean"}, "t": {"type": "number", "maximum": 100},
        "tags": {"type": "array", "items": {"type": "integer"}},
        "opts": {"type": "object", "properties": {"deep": {"type": "boolean"}}},
        "maybe": {"type": ["integer", "null"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
        "items": {"type": "array", "items": {"type": "object", "properties":
          {"id": {"type": "integer"}, "on": {"type": "boolean"}}}},
        "one": {"$ref": "#/$defs/n"}, "words": {"type": "array", "items": {"type": "string"}}},
        "$defs": {"n": {"enum": [1, 2]}}})";
constexpr std::string_view kClosed =
    R"({"type": "object", "properties": {"file_path": {"type": "string"}, "n": {"type": "integer"}},
        "required": ["file_path"], "additionalProperties": false})";

// Arguments that `repairs` does not name must be unchanged.
TEST(ArgumentRepairer, RepairsWhatHasOneReading) {
  const struct {
    std::string_view name;
    std::string_view tool;
    std::string_view schema;
    std::string_view arguments;
    std::string_view repaired;
    std::vector<std::string> repairs;
  } rows[] = {
      {"RequiredByRule",
       "bash",
       kBash,
       R"({"command": "ls -la"})",
       R"({"command": "ls -la", "description": "Execute: ls -la"})",
       {"default_added /description: Added default description for bash command: ls -la"}},
      {"ThereAlready",
       "bash",
       kBash,
       R"({"command": "ls", "description": "d"})",
       R"({"command": "ls", "description": "d"})",
       {}},
      {"NotRequired",
       "bash",
       R"({"properties": {"command": {}, "description": {}}})",
       R"({"command": "ls"})",
       R"({"command": "ls"})",
       {}},
      {"NothingToSayItOf", "bash", kBash, "{}", "{}", {}},
      {"BooleanInAString",
       "edit",
       kEdit,
       R"({"filePath": "a", "replaceAll": "true" })",
       R"({"filePath": "a", "replaceAll": true })",
       {"type_fixed /replaceAll: Fixed replaceAll type: \"true\" -> true"}},
      {"WordThatIsNoBoolean",
       "edit",
       kEdit,
       R"({"replaceAll": "first"})",
       R"({"replaceAll": "first"})",
       {}},
      {"RuleWithoutSchema",
       "edit",
       "null",
       R"({"replaceAll": "false", "x": "true"})",
       R"({"replaceAll": false, "x": "true"})",
       {"type_fixed /replaceAll: Fixed replaceAll type: \"false\" -> false"}},
      {"FieldWithoutSchema",
       "write",
       "null",
       R"({"file": "a"})",
       R"({"file": "a", "filePath": "a"})",
       {"field_added /filePath: Added filePath from file for write"}},
      {"OtherToolWithoutSchema", "mine", "null", R"({"file": "a"})", R"({"file": "a"})", {}},
      {"Alias",
       "write",
       kWrite,
       R"({"file": "t", "content": "c"})",
       R"({"file": "t", "content": "c", "filePath": "t"})",
       {"field_added /filePath: Added filePath from file for write"}},
      {"AliasOfWhatIsThere",
       "write",
       kWrite,
       R"({"file": "a", "filePath": "b", "content": "c"})",
       R"({"file": "a", "filePath": "b", "content": "c"})",
       {}},
      {"RuleOfAFieldThatMayBe",
       "write",
       R"({"properties": {"filePath": {}}})",
       R"({"file": "a"})",
       R"({"file": "a", "filePath": "a"})",
       {"field_added /filePath: Added filePath from file for write"}},
      {"AliasIsNotGuessed",
       "mytool",
       R"({"properties": {"filePath": {"type": "string"}}})",
       R"({"file": "a"})",
       R"({"file": "a"})",
       {}},
      {"OwnFile",
       "mytool",
       R"({"properties": {"file": {"type": "string"}}, "required": ["file"]})",
       R"({"file": "a", "x": "true"})",
       R"({"file": "a", "x": "true"})",
       {}},
      {"Spelling",
       "any",
       R"({"properties": {"max_lines": {"type": "integer"}}})",
       R"({"maxLines": "3"})",
       R"({"maxLines": "3", "max_lines": 3})",
       {"type_fixed /max_lines: Fixed max_lines type: \"3\" -> 3",
        "field_added /max_lines: Added max_lines from maxLines for any"}},
      {"TwoSpellings",
       "any",
       R"({"properties": {"max_n": {}, "maxN": {}}})",
       R"({"MAXN": 3})",
       R"({"MAXN": 3})",
       {}},
      {"TwoOfOneSpelling",
       "any",
       R"({"properties": {"max_n": {}}})",
       R"({"MAXN": 3, "maxn": 4})",
       R"({"MAXN": 3, "maxn": 4})",
       {}},
      {"ClosedFirst",
       "any",
       kClosed,
       R"({"filePath": "a", "n": 1})",
       R"({ "n": 1, "file_path": "a"})",
       {"field_renamed /file_path: Renamed filePath to file_path for any"}},
      {"ClosedLast",
       "any",
       kClosed,
       R"({"n": 1, "filePath": "a"})",
       R"({"n": 1, "file_path": "a"})",
       {"field_renamed /file_path: Renamed filePath to file_path for any"}},
      {"ClosedAlone", "any", kClosed, R"({"cmd": 1})", R"({"cmd": 1})", {}},
      {"ClosedBoth",
       "any",
       kClosed,
       R"({"filePath": "a", "file_path": "b"})",
       R"({ "file_path": "b", "filePath": "a"})",
       {}},
      {"ClosedOfAnotherType",
       "any",
       kClosed,
       R"({"file": {"a": 1}})",
       R"({"file_path": "{\"a\": 1}"})",
       {R"(type_fixed /file_path: Fixed file_path type: {"a": 1} -> "{\"a\": 1}")",
        "field_renamed /file_path: Renamed file to file_path for any"}},
      {"Numbers",
       "process",
       kProcess,
       R"({"id": "0", "t": "0.75", "on": "False"})",
       R"({"id": 0, "t": 0.75, "on": false})",
       {"type_fixed /id: Fixed id type: \"0\" -> 0",
        "type_fixed /t: Fixed t type: \"0.75\" -> 0.75",
        "type_fixed /on: Fixed on type: \"False\" -> false"}},
      {"NumberThatDoesNotFit",
       "process",
       kProcess,
       R"({"t": "101", "id": "1.5"})",
       R"({"t": "101", "id": "1.5"})",
       {}},
      {"NumberOutOfBounds", "process", kProcess, R"({"t": 101})", R"({"t": 101})", {}},
      {"NoNumber",
       "process",
       kProcess,
       R"({"id": "abc", "on": "yes", "t": "0x10"})",
       R"({"id": "abc", "on": "yes", "t": "0x10"})",
       {}},
      {"TextThatLooksLikeANumber",
       "process",
       kProcess,
       R"({"action": "007"})",
       R"({"action": "007"})",
       {}},
      {"NumberForText",
       "process",
       kProcess,
       R"({"action": 7.0})",
       R"({"action": "7.0"})",
       {"type_fixed /action: Fixed action type: 7.0 -> \"7.0\""}},
      {"ObjectForText",
       "process",
       kProcess,
       R"({"action": {"a": [1, 2 ]}})",
       R"({"action": "{\"a\": [1, 2 ]}"})",
       {R"(type_fixed /action: Fixed action type: {"a": [1, 2 ]} -> "{\"a\": [1, 2 ]}")"}},
      {"NullIsNotText", "process", kProcess, R"({"action": null})", R"({"action": null})", {}},
      {"Null",
       "process",
       kProcess,
       R"({"maybe": "null", "id": 1})",
       R"({"maybe": null, "id": 1})",
       {"type_fixed /maybe: Fixed maybe type: \"null\" -> null"}},
      {"Union",
       "process",
       kProcess,
       R"({"either": "5"})",
       R"({"either": 5})",
       {"type_fixed /either: Fixed either type: \"5\" -> 5"}},
      {"Reference",
       "process",
       kProcess,
       R"({"one": "2"})",
       R"({"one": 2})",
       {"type_fixed /one: Fixed one type: \"2\" -> 2"}},
      {"ReferenceNotMet", "process", kProcess, R"({"one": "3"})", R"({"one": "3"})", {}},
      {"InAnArray",
       "process",
       kProcess,
       R"({"tags": ["1", 2, "x"]})",
       R"({"tags": [1, 2, "x"]})",
       {"type_fixed /tags/0: Fixed 0 type: \"1\" -> 1"}},
      {"Deep",
       "process",
       kProcess,
       R"({"items": [{"id": "1", "on": "false"}, {"id": 2}]})",
       R"({"items": [{"id": 1, "on": false}, {"id": 2}]})",
       {"type_fixed /items/0/id: Fixed id type: \"1\" -> 1",
        "type_fixed /items/0/on: Fixed on type: \"false\" -> false"}},
      {"JsonInAString",
       "process",
       kProcess,
       R"({"opts": "{\"deep\": true}", "tags": "[1,2]"})",
       R"({"opts": {"deep": true}, "tags": [1,2]})",
       {R"(type_fixed /opts: Fixed opts type: "{\"deep\": true}" -> {"deep": true})",
        R"(type_fixed /tags: Fixed tags type: "[1,2]" -> [1,2])"}},
      {"RepairedJsonInAString",
       "process",
       kProcess,
       R"({"opts": "{\"deep\": \"true\"}"})",
       R"({"opts": {"deep": true}})",
       {"type_fixed /opts/deep: Fixed deep type: \"true\" -> true",
        R"(type_fixed /opts: Fixed opts type: "{\"deep\": \"true\"}" -> {"deep": true})"}},
      {"ListOfOne",
       "process",
       kProcess,
       R"({"tags": 3, "words": "a"})",
       R"({"tags": [3], "words": ["a"]})",
       {"type_fixed /tags: Fixed tags type: 3 -> [3]",
        R"(type_fixed /words: Fixed words type: "a" -> ["a"])"}},
      {"UnknownKeysStay",
       "process",
       kProcess,
       R"({"extra": "1", "id": 3})",
       R"({"extra": "1", "id": 3})",
       {}},
      {"WholeInAString",
       "process",
       kProcess,
       R"("{\"id\": \"1\"}")",
       R"({"id": 1})",
       {"type_fixed /id: Fixed id type: \"1\" -> 1",
        R"(type_fixed : Fixed arguments type: "{\"id\": \"1\"}" -> {"id": 1})"}},
      {"IntegerSpeltAsAFraction",
       "process",
       kProcess,
       R"({"id": 3.0, "t": 3.0, "maybe": 1e2})",
       R"({"id": 3, "t": 3.0, "maybe": 100})",
       {"type_fixed /id: Fixed id type: 3.0 -> 3",
        "type_fixed /maybe: Fixed maybe type: 1e2 -> 100"}},
      {"Draft4Integer",
       "any",
       R"({"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"n": {"type": "integer"}}})",
       R"({"n": 3.0})",
       R"({"n": 3})",
       {"type_fixed /n: Fixed n type: 3.0 -> 3"}},
      {"Defaults",
       "any",
       R"({"properties": {"a": {"default": 5}, "b": {"const": "x"}, "c": {"enum": [true]},
           "d": {"type": ["string", "null"]}, "e": {"type": "string"}, "f": {"default": 1},
           "g": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
           "required": ["a", "b", "c", "d", "e", "g"]})",
       "{}",
       R"({"a": 5, "b": "x", "c": true, "d": null, "g": null})",
       {"default_added /a: Added default a for any: 5",
        "default_added /b: Added default b for any: \"x\"",
        "default_added /c: Added default c for any: true",
        "default_added /d: Added default d for any: null",
        "default_added /g: Added default g for any: null"}},
      {"DefaultThatDoesNotFit",
       "any",
       R"({"properties": {"a": {"default": "x", "type": "integer"}}, "required": ["a"]})",
       "{}",
       "{}",
       {}},
      {"DefaultInside",
       "any",
       R"({"properties": {"o": {"properties": {"k": {"default": 1}}, "required": ["k"]}}})",
       R"({"o": {"x": 2}, "p": {}})",
       R"({"o": {"x": 2, "k": 1}, "p": {}})",
       {"default_added /o/k: Added default k for any: 1"}},
      {"OneOfSeveralWays",
       "any",
       R"({"anyOf": [{"properties": {"kind": {"const": "a"}, "v": {"type": "integer"}}},
                     {"properties": {"kind": {"const": "b"}, "v": {"type": "boolean"}}}]})",
       R"({"kind": "b", "v": "true"})",
       R"({"kind": "b", "v": true})",
       {"type_fixed /v: Fixed v type: \"true\" -> true"}},
      {"NoJson",
       "process",
       kProcess,
       R"({"id": "1", nonsense "id": "2"})",
       R"({"id": 1, nonsense "id": "2"})",
       {"type_fixed /id: Fixed id type: \"1\" -> 1"}},
      {"TextBehind",
       "process",
       kProcess,
       R"({"id": "1"} and {"id": "1"})",
       R"({"id": 1} and {"id": "1"})",
       {"type_fixed /id: Fixed id type: \"1\" -> 1"}},
      {"SpaceStays",
       "process",
       kProcess,
       " {\n \"id\" : \"1\" ,\n \"on\":true\n}\n",
       " {\n \"id\" : 1 ,\n \"on\":true\n}\n",
       {"type_fixed /id: Fixed id type: \"1\" -> 1"}},
      {"NothingAllowed", "any", "false", R"({"id": "1"})", R"({"id": "1"})", {}},
      {"EverythingAllowed", "any", "true", R"({"id": "1"})", R"({"id": "1"})", {}},
  };
  for (const auto& row : rows) {
    const Repaired repaired =
        repair_arguments(row.tool, row.schema, row.arguments, row.arguments.size() + 1);
    EXPECT_EQ(repaired.text, row.repaired) << row.name;
    EXPECT_EQ(repaired.repairs, row.repairs) << row.name;
  }
}

TEST(ArgumentRepairer, PassesOnWhatCannotChange) {
  const ToolForTest tool("process", kProcess);
  ArgumentRepairer repairer(tool.get());
  const struct {
    std::string_view in;
    std::string_view out;
  } pieces[] = {
      {R"({"act)", "{"},
      {R"(ion": "so)", R"("action": "so)"},
      {"me text", "me text"},
      {R"(", "on": "tr)", R"(", "on": )"},
      {R"(ue)", ""},
      {R"(")", "true"},
      {"}", "}"},
  };
  for (const auto& piece : pieces) {
    std::string out;
    repairer.feed(piece.in, out);
    EXPECT_EQ(out, piece.out) << piece.in;
  }
}

// A call that was cut keeps its bytes and gets no others.
TEST(ArgumentRepairer, LeavesWhatWasCut) {
  const struct {
    std::string_view schema;
    std::string_view arguments;
    std::string_view repaired;
    std::vector<std::string> unplaced;
  } rows[] = {
      {kBash, R"({"command": "ls")", R"({"command": "ls")", {}},
      {kBash, R"({"command": "l)", R"({"command": "l)", {}},
      {kProcess, R"({"id": "1)", R"({"id": "1)", {}},
      {kProcess, R"({"id": 1)", R"({"id": 1)", {}},
      {kProcess, R"({"id": "1", "o)", R"({"id": 1, "o)", {}},
      {kClosed, R"({"filePath": "a", "n": 1)", R"({ "n": 1)", {R"("filePath": "a")"}},
      {kClosed, R"({"filePath": "a)", R"({"filePath": "a)", {}},
  };
  for (const auto& row : rows) {
    const ToolForTest tool("bash", row.schema);
    ArgumentRepairer repairer(tool.get());
    std::string out;
    repairer.feed(row.arguments, out);
    repairer.finish(true, out);
    EXPECT_EQ(out, row.repaired);
    EXPECT_EQ(repairer.unplaced(), row.unplaced) << row.arguments;
  }
}

TEST(ArgumentRepairer, TellsWithoutValues) {
  const ToolForTest tool("bash", kBash);
  ArgumentRepairer repairer(tool.get());
  std::string out;
  repairer.feed(R"({"command": "secret"})", out);
  repairer.finish(false, out);
  ASSERT_EQ(repairer.repairs().size(), 1U);
  EXPECT_EQ(repairer.repairs()[0].masked, "Added default description for bash");
}

// Only a few members of one object are held back, even if a model never stops writing them.
TEST(ArgumentRepairer, HoldsFewMembersOfAnObject) {
  std::string text = "{";
  for (int i = 0; i < 50'000; ++i) text += R"("filePath": "a", )";
  text += R"("n": 1})";
  const ToolForTest tool("any", kClosed);
  ArgumentRepairer repairer(tool.get());
  std::string out;
  repairer.feed(text, out);
  EXPECT_GT(out.size(), text.size() - 1000);
  repairer.finish(false, out);
  EXPECT_NEAR(static_cast<double>(out.size()), static_cast<double>(text.size()), 16.0);
  EXPECT_TRUE(json::parse(out));
}

}  // namespace
}  // namespace tenon::repair
