#include "tenon/schema/tool.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::schema {
namespace {

struct ToolRow {
  std::string_view function;
  std::string_view parameters;  // or, without braces, the error
};

const ToolRow kToolRows[] = {
    {R"({"name": "f", "parameters": {"type": "object"}})", R"({"type":"object"})"},
    {R"({"parameters": {"type": "object"}, "required": ["a", "b"]})",
     R"({"type":"object","required":["a","b"]})"},
    {R"({"parameters": {"required": ["b"]}, "required": ["a", "b"]})", R"({"required":["b","a"]})"},
    {R"({"parameters": {"type": "object"}, "required": null})", R"({"type":"object"})"},
    {R"({"name": "f"})", R"({"type":"object","properties":{}})"},
    {R"({"parameters": null})", R"({"type":"object","properties":{}})"},
    {"5", "function: must be an object"},
    {R"({"parameters": []})", "parameters: must be an object"},
    {R"({"parameters": {}, "required": "a"})", "required: must be a list of names"},
    {R"({"parameters": {}, "required": [1]})", "required: must be a list of names"},
    {R"({"parameters": {"required": 5}, "required": ["a"]})",
     "parameters/required: must be a list of names"},
};

TEST(ToolParameters, AreOneSchema) {
  for (const ToolRow& row : kToolRows) {
    const auto function = json::parse(row.function);
    ASSERT_TRUE(function);
    const auto parameters = tool_parameters(*function);
    EXPECT_EQ(parameters ? json::to_string(*parameters) : parameters.error().message,
              row.parameters)
        << row.function;
  }
}

}  // namespace
}  // namespace tenon::schema
