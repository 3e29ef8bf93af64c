#include "tenon/chat/token_sources.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/prompt/chat_template.h"
#include "tenon/vocab/byte_tokenizer.h"

namespace tenon::chat {
namespace {

using message::ChatRequest;
using message::Role;
using message::TokenSource;
using From = message::TokenSource::From;

constexpr std::string_view kTemplate =
    "{% if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}"
    "{% for m in messages %}[{{ m.role }}]{{ (m.content or '') | trim }}"
    "{% for call in m.tool_calls or [] %}({{ call.function.name }} "
    "{{ call.function.arguments | tojson }}){% endfor %};{% endfor %}[assistant]";

// Each run as `text of its tokens` and where it comes from.
std::vector<std::pair<std::string, std::string>> runs_of(const ChatRequest& request) {
  const vocab::ByteTokenizer tokenizer({}, {});
  const auto compiled = prompt::ChatTemplate::compile(kTemplate);
  EXPECT_TRUE(compiled);
  const auto rendered = (*compiled)->render(request, {.shape = false});
  EXPECT_TRUE(rendered);
  std::vector<vocab::TokenId> ids;
  EXPECT_TRUE(prompt::tokenize(tokenizer, *rendered, ids));
  std::vector<std::pair<std::string, std::string>> runs;
  std::size_t at = 0;
  for (const TokenSource& run : token_sources(*rendered, request, ids, tokenizer)) {
    std::string text;
    for (std::size_t i = 0; i < run.tokens; ++i) text += tokenizer.bytes(ids[at++]);
    std::string from;
    if (run.from == From::chat_template) from = "template";
    if (run.from == From::tools) from = "tools";
    if (run.from == From::other) from = "other";
    if (run.from == From::message) {
      from = std::string(message::role_name(run.role)) + " " + std::to_string(run.message);
    }
    runs.emplace_back(std::move(text), std::move(from));
  }
  EXPECT_EQ(at, ids.size());
  return runs;
}

message::Tool tool(const std::string& name) {
  json::Object function{{"name", name}, {"description", "Says what the weather is."}};
  return {.name = name, .raw = json::Object{{"type", "function"}, {"function", function}}};
}

TEST(TokenSources, NamesTheMessageOfEachStretch) {
  ChatRequest request;
  request.tools = {tool("weather")};
  request.messages = {
      {.role = Role::system, .content = "Be brief."},
      {.role = Role::user, .content = "  Paris?\n"},
      {.role = Role::assistant,
       .tool_calls = {{.id = "1", .name = "weather", .arguments = R"({"city":"Paris"})"}}},
      {.role = Role::tool, .content = "Paris? rain", .tool_call_id = "1"},
      {.role = Role::user, .content = "Paris?"},
  };
  const auto runs = runs_of(request);
  std::vector<std::pair<std::string, std::string>> data;
  for (const auto& [text, from] : runs) {
    if (from != "template") data.emplace_back(text, from);
  }
  ASSERT_GE(data.size(), 6U);
  EXPECT_EQ(data[0].second, "tools");
  EXPECT_EQ(data[1], std::make_pair(std::string("Be brief."), std::string("system 0")));
  EXPECT_EQ(data[2], std::make_pair(std::string("Paris?"), std::string("user 1")));
  EXPECT_EQ(data[3], std::make_pair(std::string("weather"), std::string("assistant 2")));
  EXPECT_EQ(data[4].second, "assistant 2");
  EXPECT_EQ(data[5], std::make_pair(std::string("Paris? rain"), std::string("tool 3")));
  EXPECT_EQ(data.back(), std::make_pair(std::string("Paris?"), std::string("user 4")));
  EXPECT_EQ(runs.back(), std::make_pair(std::string(";[assistant]"), std::string("template")));
}

// A history that would take long to search is told as far as the bound goes.
TEST(TokenSources, AreBounded) {
  ChatRequest request;
  for (int i = 0; i < 2000; ++i) {
    request.messages.push_back({.role = Role::user, .content = "#" + std::to_string(i)});
  }
  request.messages.push_back({.role = Role::user, .content = std::string(1 << 20, 'x')});
  std::size_t of_messages = 0;
  for (const auto& [text, from] : runs_of(request)) {
    if (from.starts_with("user")) ++of_messages;
  }
  EXPECT_EQ(of_messages, request.messages.size());
  // A text that no template writes is searched for each stretch of data, which is bounded.
  for (message::Message& message : request.messages) message.content = "zzz";
  request.messages.front().reasoning = std::string(1 << 20, 'y');
  prompt::Prompt prompt;
  for (std::size_t i = 0; i < 200; ++i) {
    prompt.text += "data ";
    prompt.spans.push_back({prompt.text.size() - 5, prompt.text.size(), i % 2 == 0});
  }
  const vocab::ByteTokenizer tokenizer({}, {});
  std::vector<vocab::TokenId> ids;
  ASSERT_TRUE(prompt::tokenize(tokenizer, prompt, ids));
  std::size_t others = 0;
  for (const TokenSource& run : token_sources(prompt, request, ids, tokenizer)) {
    if (run.from == From::other) ++others;
  }
  EXPECT_EQ(others, 100U);
}

}  // namespace
}  // namespace tenon::chat
