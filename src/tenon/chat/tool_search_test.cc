#include "tenon/chat/tool_search.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/message/build.h"

namespace tenon::chat {
namespace {

using message::Tool;

std::vector<Tool> tools_for_test() {
  const auto tool = [](std::string name, std::string description, const char* parameters) {
    return message::function_tool(std::move(name), std::move(description),
                                  *json::parse(parameters));
  };
  return {
      tool("github_create_issue", "Opens an issue in a repository",
           R"({"properties": {"title": {"type": "string"}}})"),
      tool("github_list_issues", "Lists the issues of a repository", "{}"),
      tool("getWeather", "The weather in a city",
           R"({"properties": {"city": {"type": "string"}}})"),
      tool("slack_send", "Sends a message to people",
           R"({"properties": {"to": {"type": "array", "items": {"properties": {
               "channel": {"description": "Where the team reads it"}}}}}})"),
      tool("stock_price", "The price of a share", "{}"),
  };
}

TEST(ToolSearch, WordsOfNamesAndTexts) {
  const std::pair<const char*, std::vector<std::string>> rows[] = {
      {"", {}},
      {"getWeather", {"get", "weather"}},
      {"HTTPRequest", {"http", "request"}},
      {"create_issue-v2.x", {"create", "issue", "v2", "x"}},
      {"Issues, cities; the class's bus", {"issue", "city", "the", "class", "s", "bus"}},
      {"Größe 寿司", {"größe", "寿司"}},
  };
  for (const auto& [text, words] : rows) EXPECT_EQ(search_words(text), words) << text;
}

TEST(ToolSearch, RanksByWords) {
  const std::vector<Tool> tools = tools_for_test();
  const ToolIndex index(tools);
  const std::pair<const char*, std::vector<std::size_t>> rows[] = {
      {"weather", {2}},
      {"open a new issue", {0, 1, 2, 3, 4}},  // "a" is in every description
      {"list issues", {1, 0}},
      {"team channel", {3}},  // words of nested parameters
      {"price", {4}},
      {"dragon", {}},
      {"", {}},
  };
  for (const auto& [query, expected] : rows) {
    const auto found = index.search(query, 5);
    ASSERT_GE(found.size(), std::min<std::size_t>(expected.size(), 1)) << query;
    if (expected.empty()) {
      EXPECT_TRUE(found.empty()) << query;
    } else {
      EXPECT_EQ(found.front(), expected.front()) << query;
    }
  }
  EXPECT_EQ(index.search("issues", 1).size(), 1U);
  EXPECT_TRUE(ToolIndex({}).search("issue", 5).empty());
}

TEST(ToolSearch, NamesStandByFamily) {
  EXPECT_EQ(
      families_of(tools_for_test(), 1000),
      "github: github_create_issue github_list_issues\ngetWeather\nslack_send\nstock_price\n");
  EXPECT_EQ(families_of(tools_for_test(), 40),
            "github: 2 tools\ngetWeather\nslack_send\nand 1 more\n");
  EXPECT_EQ(families_of({}, 10), "");
}

message::ChatRequest request_for_test() {
  message::ChatRequest request{.tools = tools_for_test()};
  for (Tool& tool : request.tools) tool.is_deferred = tool.name != "getWeather";
  return request;
}

std::string names_of(const std::vector<Tool>& tools) {
  std::string names;
  for (const Tool& tool : tools) names += tool.name + (tool.is_listed ? " " : "* ");
  return names;
}

TEST(ToolSearch, TakesDeferredToolsOutOfTheRequest) {
  message::ToolCall used{.id = "a", .name = "slack_send", .arguments = "{}"};
  struct Row {
    const char* name;
    ToolSearchOptions options;
    void (*change)(message::ChatRequest&);
    const char* tools;
  };
  const Row rows[] = {
      {"Off",
       {},
       [](auto&) {},
       "github_create_issue github_list_issues getWeather slack_send stock_price "},
      {"OfTheRequest", {.is_on = true}, [](auto&) {}, "getWeather tool_search "},
      {"AllOfMany", {.is_on = true, .from = 5}, [](auto&) {}, "tool_search "},
      {"FewerThanMany",
       {.is_on = true, .from = 6},
       [](auto& request) {
         for (Tool& tool : request.tools) tool.is_deferred = false;
       },
       "github_create_issue github_list_issues getWeather slack_send stock_price "},
      {"ACalledOneStays",
       {.is_on = true},
       [](auto& request) {
         request.messages.push_back(
             {.role = message::Role::assistant, .tool_calls = {{.id = "a", .name = "slack_send"}}});
       },
       "getWeather slack_send tool_search "},
      {"AChosenOneStays",
       {.is_on = true},
       [](auto& request) { request.tool_choice.allowed = {"stock_price"}; },
       "getWeather stock_price tool_search "},
      {"ItsNameIsTaken",
       {.is_on = true},
       [](auto& request) { request.tools[2].name = "tool_search"; },
       "tool_search tool_search_2 "},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    message::ChatRequest request = request_for_test();
    row.change(request);
    const auto search = ToolSearch::of(request, row.options);
    EXPECT_EQ(names_of(request.tools), row.tools);
    EXPECT_EQ(search != nullptr,
              ToolSearch::is_wanted(request_for_test(), 0, row.options) &&
                  std::string(row.tools).find("tool_search") != std::string::npos);
  }
}

TEST(ToolSearch, FoundToolsCanBeCalledAndAreNotListed) {
  message::ChatRequest request = request_for_test();
  const auto search = ToolSearch::of(request, {.is_on = true, .most_found = 1});
  ASSERT_NE(search, nullptr);
  const auto ask = [&](const char* query) {
    json::Object arguments;
    arguments.set("query", query);
    return search->call("tool_search", arguments, {})->text;
  };
  EXPECT_EQ(ask("price"),
            "These tools can be called now:\n"
            R"({"name":"stock_price","description":"The price of a share","parameters":{}})");
  EXPECT_EQ(ask("dragon"),
            "No tool has these words. Try others, such as words of the tools' names.");
  (void)ask("price");
  search->add_found(request.tools);
  EXPECT_EQ(names_of(request.tools), "getWeather tool_search stock_price* ");
  search->add_found(request.tools);
  EXPECT_EQ(request.tools.size(), 3U);
}

}  // namespace
}  // namespace tenon::chat
