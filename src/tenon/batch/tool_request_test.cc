#include "tenon/batch/tool_request.h"

#include <string_view>

#include <gtest/gtest.h>

#include "tenon/vocab/byte_tokenizer.h"

namespace tenon::batch {
namespace {

TEST(ToolRequest, Refuses) {
  struct Row {
    const char* name;
    std::string_view line;
    Errc code;
    std::string_view message;
  };
  const Row rows[] = {
      {"NoFormat", R"({"tools": []})", Errc::invalid,
       "format: must be the name of a format; `tenon formats` lists them"},
      {"UnknownFormat", R"({"tools": [], "format": "nope"})", Errc::unsupported,
       "unknown tool_call_format: nope; `tenon formats` lists those that there are"},
      {"NoTools", R"({"tools": [], "format": "hermes"})", Errc::invalid,
       "there is no tool to call"},
      {"NoList", R"({"tools": {}, "format": "hermes"})", Errc::invalid, "tools: must be a list"},
      {"NoName", R"({"tools": [{}], "format": "hermes"})", Errc::invalid,
       "tools: must hold functions with names"},
      {"Choice", R"({"tools": [{"name": "f"}], "format": "hermes", "tool_choice": "some"})",
       Errc::invalid, "tool_choice: must be auto, none, required or {\"function\": {\"name\"}}"},
      {"ChoiceOfNone",
       R"({"tools": [{"name": "f"}], "format": "hermes", "tool_choice": {"function": {"name": "g"}}})",
       Errc::invalid, "tool_choice: there is no tool 'g'"},
      {"Parallel", R"({"tools": [{"name": "f"}], "format": "hermes", "parallel_tool_calls": 1})",
       Errc::invalid, "parallel_tool_calls: must be true or false"},
      {"BadSchemaOfParameters",
       R"({"tools": [{"name": "f", "parameters": {"type": "x"}}], "format": "qwen3_coder"})",
       Errc::invalid, "tool 'f': /type: 'x' is not a type"},
      {"BadSchema",
       R"({"tools": [{"name": "f", "parameters": {"type": "x"}}], "format": "hermes"})",
       Errc::invalid, "tool 'f': /type: 'x' is not a type"},
  };
  const vocab::ByteTokenizer tokenizer;
  for (const Row& row : rows) {
    const auto request = json::parse(row.line);
    const auto rules = requested_calls(*request->if_object(), {}, tokenizer);
    ASSERT_FALSE(rules) << row.name;
    EXPECT_EQ(rules.error().code, row.code) << row.name;
    EXPECT_EQ(rules.error().message.substr(0, row.message.size()), row.message) << row.name;
  }
}

}  // namespace
}  // namespace tenon::batch
