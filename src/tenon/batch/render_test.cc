#include "tenon/batch/render.h"

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/prompt/reference_for_test.h"

namespace tenon::batch {
namespace {

std::string batch(std::string_view lines, const RenderBatchOptions& options = {}) {
  std::istringstream in{std::string(lines)};
  std::ostringstream out;
  render_batch(in, out, options);
  return out.str();
}

TEST(RenderBatch, AnswersEachLineInOrder) {
  const struct {
    const char* line;
    const char* answer;
  } rows[] = {
      {R"({"id":1,"template":"{{ a }}","context":{"a":"x"}})", R"({"id":1,"output":"x"})"},
      {R"({"id":"b","template":"a\n {% if 1 %}\nb{% endif %}","context":{},"options":{"trim_blocks":false,"lstrip_blocks":false}})",
       R"({"id":"b","output":"a\n \nb"})"},
      {R"({"id":2,"template":"{{ tools }}{{ documents }}{{ bos_token is defined }}{{ add_generation_prompt }}{{ k }}","messages":[],"kwargs":{"k":1}})",
       R"({"id":2,"output":"NoneNoneFalseFalse1"})"},
      {R"({"id":3,"template":"{{ messages[0].content }}","messages":[{"content":null}]})",
       R"({"id":3,"output":"None"})"},
      {R"({"id":3,"template":"{{ messages[0].content }}","messages":[{"content":null}],"shape":true})",
       R"({"id":3,"output":"","shaping":["content null made empty in 1 message"]})"},
      {R"({"id":3,"template":"{% for m in messages %}{% for c in m.tool_calls %}{{ c.id }}{{ c.function.arguments }}{% endfor %}{% endfor %}","messages":[{"role":"assistant","content":"","tool_calls":[{"id":"call_1","function":{"name":"f","arguments":"{}"}}]}],"shape":true})",
       R"({"id":3,"output":"functions.f:0{}","shaping":["ids written in the model's form in 1 call"],"ids":{"call_1":"functions.f:0"}})"},
      {R"({"id":3,"template":"{% for m in messages %}{{ m }};{% endfor %}","messages":[{"role":"assistant","content":null,"tool_calls":null,"reasoning":"r"},{"role":"user","content":"q"}],"clean_up":true})",
       R"({"id":3,"output":"{'thinking': 'r', 'role': 'assistant', 'reasoning': 'r', 'reasoning_content': 'r'};{'role': 'user', 'content': 'q'};"})"},
      {R"({"id":4,"template":"{{ strftime_now('%F') }}","context":{},"now":"2026-11-20T12:00:00"})",
       R"({"id":4,"output":"2026-11-20"})"},
      {R"({"id":5,"template":"{{ 1 // 0 }}","context":{}})",
       R"x({"id":5,"error":{"code":"invalid","message":"line 1, column 6: ZeroDivisionError: integer division or modulo by zero, in '1 // 0' (1 and 0)"}})x"},
      {R"({"id":6,"template":7})",
       R"({"id":6,"error":{"code":"invalid","message":"template: must be string, is number"}})"},
      {R"({"id":7})",
       R"({"id":7,"error":{"code":"invalid","message":"template is missing, or format"}})"},
  };
  std::string lines;
  std::string answers;
  for (const auto& row : rows) {
    EXPECT_EQ(batch(row.line), std::string(row.answer) + "\n");
    lines += std::string(row.line) + "\n";
    answers += std::string(row.answer) + "\n";
  }
  EXPECT_EQ(batch(lines), answers);
}

TEST(RenderBatch, RefusesWhatItDoesNotKnow) {
  const struct {
    const char* line;
    const char* message;  // its beginning
  } rows[] = {
      {R"({"template":"","context":{},"foo":1})", "foo: is not known here; there are template, "},
      {R"({"template":"","messages":[],"foo":1})", "foo: is not known here; there are template, "},
      {R"({"template":"","messages":[],"context":{}})", "context: is not known here; "},
      {R"({"template":"","context":{},"kwargs":{}})", "kwargs: is not known here; "},
      {R"({"template":"","format":"hermes"})", "format: is not known here; "},
      {R"({"format":"hermes","tool_calls":[],"now":"2026-11-20"})", "now: is not known here; "},
      {R"({"template":"","context":{},"options":{"trim":true}})",
       "options: trim: is not known here; there are trim_blocks, lstrip_blocks"},
      {R"({"template":"","messages":[],"options":{},"shape":true})",
       "options: has no effect where shape is true"},
      {R"({"template":"","messages":[],"kwargs":{"bos_token":"<s>"}})",
       "kwargs: bos_token stands beside kwargs, not in it"},
      {R"({"template":"","messages":[],"kwargs":[]})", "kwargs: must be object, is array"},
      {R"({"template":"","messages":[],"shape":"yes"})", "shape: must be true or false"},
  };
  for (const auto& row : rows) {
    EXPECT_TRUE(batch(row.line).starts_with(
        std::string(R"({"error":{"code":"invalid","message":")") + row.message))
        << batch(row.line);
  }
}

TEST(RenderBatch, NamesTheTemplateInErrors) {
  for (const char* line : {R"({"id":1,"template":"{{ 1 // 0 }}","messages":[]})",
                           R"({"id":1,"template":"{{ 1 // 0 }}","messages":[],"shape":true})"}) {
    EXPECT_TRUE(batch(line, {.template_name = "a.jinja"})
                    .starts_with(R"({"id":1,"error":{"code":"invalid","message":"a.jinja, line 1)"))
        << batch(line);
  }
}

TEST(RenderBatch, SpansWhereAskedFor) {
  RenderBatchOptions options;
  options.spans = true;
  EXPECT_EQ(batch(R"({"id":1,"template":"<{{ a }}>","context":{"a":"x"}})", options),
            "{\"id\":1,\"output\":\"<x>\",\"spans\":[[0,1,\"template\"],[1,2,\"data\"],[2,3,"
            "\"template\"]]}\n");
}

TEST(RenderBatch, RendersCalls) {
  const std::string answer = batch(
      R"({"id":1,"format":"hermes","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]})");
  EXPECT_NE(answer.find(R"({\"name\": \"f\", \"arguments\": {}})"), std::string::npos) << answer;
}

TEST(IsoTime, IsSecondsOrAnError) {
  const struct {
    const char* text;
    std::int64_t seconds;
  } rows[] = {{"1970-01-01", 0},
              {"2026-11-20T12:00:00", 1795176000},
              {"2026-11-20 12:00:00.5Z", 1795176000},
              {"2026-11-20T13:30+01:30", 1795176000},
              {"2000-02-29T00:00:00", 951782400},
              {"1969-12-31T23:59:59", -1}};
  for (const auto& row : rows)
    EXPECT_EQ(parse_iso_time(row.text).value_or(7), row.seconds) << row.text;
  for (const char* text : {"", "2026", "2026-13-01", "2026-02-29", "2026-04-31", "2026-11-20T",
                           "2026-11-20T12", "2026-11-20T12:00:00x", "20261120"}) {
    EXPECT_FALSE(parse_iso_time(text)) << text;
  }
}

// What Jinja2 makes of templates, in our own set of cases and in the large one.
class LanguageCases : public testing::TestWithParam<Data> {
 protected:
  void SetUp() override {
    if (!is_there(GetParam())) GTEST_SKIP() << why_skipped(GetParam());
  }
};

TEST_P(LanguageCases, EveryLanguageCaseHolds) {
  const json::Value fallback =
      prompt::parsed_reference(prompt::read_reference(GetParam(), "templates/jinja_context.json"));
  std::istringstream cases(prompt::read_reference(GetParam(), "templates/jinja_public.jsonl"));
  std::stringstream requests;
  std::vector<json::Value> rows;
  for (std::string line; std::getline(cases, line);) {
    json::Value row = prompt::parsed_reference(line);
    json::Object request{{"id", static_cast<std::int64_t>(rows.size())},
                         {"template", *row.find("template")},
                         {"now", "2026-11-20T12:00:00"}};
    const bool has_own = row.find("context")->if_object() != nullptr;
    request["context"] = has_own ? *row.find("context") : fallback;
    if (const json::Value* options = row.find("options"); options != nullptr)
      request["options"] = *options;
    requests << json::to_string(request) << '\n';
    rows.push_back(std::move(row));
  }
  std::stringstream answers;
  render_batch(requests, answers);
  std::size_t at = 0;
  for (std::string line; std::getline(answers, line); ++at) {
    const json::Value answer = prompt::parsed_reference(line);
    const json::Value& row = rows.at(at);
    if (row.find("address_in_output") != nullptr) continue;
    const json::Value* output = answer.find("output");
    EXPECT_EQ(output != nullptr, *row.find("ok")->if_bool()) << line << json::to_string(row);
    if (output != nullptr && *row.find("ok")->if_bool()) {
      EXPECT_EQ(*output->if_string(), *row.find("output")->if_string()) << json::to_string(row);
    }
  }
  EXPECT_EQ(at, rows.size());
}

INSTANTIATE_TEST_SUITE_P(Sets, LanguageCases, testing::Values(Data::own, Data::large),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace tenon::batch
