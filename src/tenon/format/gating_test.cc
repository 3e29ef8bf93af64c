// When a bare JSON object is a call: the rules of oMLX's pull request 1153 by the names of its own
// tests, and what it leaves open: several calls in one answer. docs/formats.md says them in words.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/format/registry.h"
#include "tenon/format/stream_parser.h"
#include "tenon/message/event.h"

namespace tenon::format {
namespace {

using Calls = std::vector<std::pair<std::string, std::string>>;  // name and arguments

struct GatingRow {
  std::string_view name;
  std::string_view text;
  std::string_view content;
  Calls calls;
  std::vector<std::string> codes;  // of diagnostics
  bool has_tools = true;
};

constexpr std::string_view kParis =
    R"({"name": "get_weather", "parameters": {"location": "Paris"}})";
const Calls kOne = {{"get_weather", R"({"location": "Paris"})"}};
const Calls kTwo = {{"get_weather", R"({"location": "Paris"})"},
                    {"get_weather", R"({"location": "Rome"})"}};

const GatingRow kGatingRows[] = {
    // The seven tests of the pull request.
    {"happy_path", kParis, "", kOne, {}},
    {"arguments_synonym",
     R"({"name": "get_weather", "arguments": {"location": "Paris"}})",
     "",
     kOne,
     {}},
    {"surrounding_prose_preserved",
     R"(Sure, checking. {"name": "get_weather", "parameters": {"location": "Paris"}} One moment.)",
     "Sure, checking.  One moment.",
     kOne,
     {}},
    {"unknown_function_not_promoted",
     R"({"name": "delete_all", "parameters": {"x": 1}})",
     R"({"name": "delete_all", "parameters": {"x": 1}})",
     {},
     {"near_miss"}},
    {"no_tools_no_promotion", kParis, kParis, {}, {}, false},
    {"malformed_parameter_json_falls_through",
     R"({"name": "get_weather", "parameters": {"location": }} on)",
     R"({"name": "get_weather", "parameters": {"location": }} on)",
     {},
     {}},
    {"handles_deeply_nested_parameters",
     R"({"name": "query", "parameters": {"filter": {"date": {"gte": "2026-01-01"}}}})",
     "",
     {{"query", R"({"filter": {"date": {"gte": "2026-01-01"}}})"}},
     {}},

    // Several calls, which the pull request leaves open.
    {"several_on_lines",
     "{\"name\": \"get_weather\", \"parameters\": {\"location\": \"Paris\"}}\n"
     "{\"name\": \"get_weather\", \"parameters\": {\"location\": \"Rome\"}}",
     "",
     kTwo,
     {}},
    {"several_with_semicolons",
     R"({"name": "get_weather", "parameters": {"location": "Paris"}}; {"name": "get_weather", "parameters": {"location": "Rome"}})",
     "",
     kTwo,
     {}},
    {"several_with_prose_between",
     R"({"name": "get_weather", "parameters": {"location": "Paris"}} and {"name": "get_weather", "parameters": {"location": "Rome"}})",
     " and ",
     kTwo,
     {}},
    {"an_unknown_one_among_several",
     R"({"name": "delete_all", "parameters": {}}; {"name": "get_weather", "parameters": {"location": "Paris"}})",
     R"({"name": "delete_all", "parameters": {}}; )",
     kOne,
     {"near_miss"}},

    // Forms of one call.
    {"pretty_printed",
     "{\n    \"name\": \"get_weather\",\n    \"parameters\": {\"location\": \"Paris\"}\n}",
     "",
     kOne,
     {}},
    {"keys_in_the_other_order",
     R"({"parameters": {"location": "Paris"}, "name": "get_weather"})",
     "",
     kOne,
     {}},
    {"with_its_type",
     R"({"type": "function", "name": "get_weather", "parameters": {"location": "Paris"}})",
     "",
     kOne,
     {}},
    {"in_the_clients_shape",
     R"({"type": "function", "function": {"name": "get_weather", "parameters": {"location": "Paris"}}})",
     "",
     kOne,
     {}},
    {"behind_the_tag",
     R"(<|python_tag|>{"name": "get_weather", "parameters": {"location": "Paris"}}<|eom_id|>)",
     "",
     kOne,
     {}},

    // Not one.
    {"name_in_another_case",
     R"({"name": "Get_Weather", "parameters": {"location": "Paris"}})",
     R"({"name": "Get_Weather", "parameters": {"location": "Paris"}})",
     {},
     {"near_miss"}},
    {"json_without_a_name",
     R"(As JSON: {"location": "Paris"}, {"a": [{}]}.)",
     R"(As JSON: {"location": "Paris"}, {"a": [{}]}.)",
     {},
     {}},
};

message::Fold parsed(const GatingRow& row, std::size_t cut, std::size_t piece) {
  ParseOptions options;
  if (row.has_tools) options.tools = {"get_weather", "query"};
  StreamParser parser(find("llama3.1"), options);
  std::vector<message::ChatEvent> events;
  parser.feed(row.text.substr(0, cut), false, events);
  for (std::size_t at = cut; at < row.text.size(); at += piece) {
    parser.feed(row.text.substr(at, piece), false, events);
  }
  parser.finish(false, events);
  message::Fold fold;
  for (const message::ChatEvent& event : events) fold.add(event);
  return fold;
}

class Gating : public testing::TestWithParam<GatingRow> {};

TEST_P(Gating, IsTheSameHoweverTheTextIsCut) {
  const GatingRow& row = GetParam();
  for (std::size_t cut = 0; cut <= row.text.size(); ++cut) {
    const message::Fold fold = parsed(row, cut, cut == 0 ? 1 : row.text.size());
    EXPECT_EQ(fold.message().text(), row.content) << "cut at " << cut;
    Calls calls;
    for (const auto& call : fold.message().tool_calls)
      calls.emplace_back(call.name, call.arguments);
    EXPECT_EQ(calls, row.calls) << "cut at " << cut;
    std::vector<std::string> codes;
    for (const auto& diagnostic : fold.diagnostics()) codes.push_back(diagnostic.code);
    EXPECT_EQ(codes, row.codes) << "cut at " << cut;
  }
}

INSTANTIATE_TEST_SUITE_P(Document001, Gating, testing::ValuesIn(kGatingRows),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(NearMiss, SaysWhoseNameItWas) {
  const message::Fold fold = parsed(kGatingRows[3], 0, 1);
  ASSERT_EQ(fold.diagnostics().size(), 1U);
  EXPECT_NE(fold.diagnostics()[0].message.find("'delete_all'"), std::string::npos);
}

}  // namespace
}  // namespace tenon::format
