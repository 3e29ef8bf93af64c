#include "tenon/batch/describe_format.h"

#include <string>
#include <utility>
#include <vector>

#include "tenon/batch/grammar.h"
#include "tenon/format/definition.h"
#include "tenon/format/tool_grammar.h"

namespace tenon::batch {
namespace {

// The tool of all examples.
constexpr std::string_view kParameters = R"({
  "type": "object",
  "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
  "required": ["city"]
})";

json::Array as_array(const std::vector<std::string>& texts) {
  json::Array list;
  for (const std::string& text : texts) list.emplace_back(text);
  return list;
}

}  // namespace

Expected<json::Object> describe(const format::Format& format, std::string_view to) {
  const json::Value parameters = *json::parse(kParameters);
  const std::vector<message::Tool> tools = {
      {.name = "get_weather", .description = "Get the weather", .parameters = parameters}};
  // Ids of nine letters and digits are right for every format; some allow no others.
  const message::ToolCall first{
      .id = "abc123def", .name = "get_weather", .arguments = R"({"city": "Paris", "days": 3})"};
  const message::ToolCall second{
      .id = "ghi456jkl", .name = "get_weather", .arguments = R"({"city": "Rome", "days": 1})"};
  json::Object answer{{"name", format.info.name},
                      {"aliases", as_array(format.info.aliases)},
                      {"summary", format.summary},
                      {"parallel", format.info.parallel}};
  answer.set("tools", json::Array{json::Object{
                          {"type", "function"},
                          {"function", json::Object{{"name", tools[0].name},
                                                    {"description", tools[0].description},
                                                    {"parameters", parameters}}}}});
  answer.set("definition", format.toml);
  // A format without calls has no more to show.
  if (format.syntaxes.empty()) return answer;
  auto call = format::render_calls(format, {first});
  if (!call) return Unexpected(call.error());
  answer.set("call", *std::move(call));
  if (format.info.parallel) {
    auto calls = format::render_calls(format, {first, second});
    if (!calls) return Unexpected(calls.error());
    answer.set("calls", *std::move(calls));
  }
  const std::vector<std::string> results = format::render_results(
      format, {{first.id, first.name, "sunny"}, {second.id, second.name, R"({"sky": "grey"})"}});
  if (!results.empty()) answer.set("results", as_array(results));
  const auto rules = format::tool_grammar(format, tools, {.mode = message::ToolMode::required},
                                          format::ToolGrammarOptions{});
  if (!rules) return Unexpected(rules.error());
  auto printed = print_rules(*rules, {{"to", to}});
  if (!printed) return Unexpected(printed.error());
  answer.set("grammar", std::move((*printed)["grammar"]));
  return answer;
}

}  // namespace tenon::batch
