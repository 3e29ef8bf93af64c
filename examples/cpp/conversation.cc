// A conversation with tools, over the model that comes with Tenon. docs/conversations.md goes
// through it.
#include "tenon/chat/conversation.h"

#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenon/chat/converse.h"
#include "tenon/chat/model.h"
#include "tenon/chat/toolbox.h"
#include "tenon/engine/llama/llama_engine.h"
#include "tenon/json/value.h"
#include "tenon/message/build.h"

namespace {

using tenon::Expected;
namespace chat = tenon::chat;
namespace json = tenon::json;
namespace message = tenon::message;
using message::JsonSchema;
using message::ToolChoice;
using message::ToolMode;

int fail(const std::string& why) {
  std::cerr << why << '\n';
  return 1;
}

Expected<std::shared_ptr<chat::Model>> load(const std::string& path) {
  auto engine = tenon::engine::LlamaEngine::load({.path = path});
  if (!engine) return tenon::Unexpected(engine.error());
  return chat::Model::create({.name = "tiny"}, *std::move(engine));
}

// What every request has. A small model may find no end, so one is set, before which calls are
// whole.
message::ChatRequest with_tools(std::vector<message::Tool> tools) {
  message::ChatRequest request{.tools = std::move(tools)};
  request.parallel_tool_calls = false;
  request.max_tokens = 100;
  request.close_calls = true;
  return request;
}

// The calls come to us: first one is demanded, then an answer.
int by_hand(const std::shared_ptr<chat::Model>& model, const message::Tool& weather) {
  const chat::Conversation::Options options{.request = with_tools({weather})};
  chat::Conversation talk(model, options);
  auto turn = talk.send_message("What is the weather in Paris?",
                                {.tool_choice = ToolChoice{.mode = ToolMode::required}});
  while (turn && !turn->tool_calls.empty()) {
    std::vector<chat::ToolResult> results;
    for (const message::ToolCall& call : turn->tool_calls) {
      std::cout << call.name << " " << call.arguments << '\n';
      results.push_back({.tool_call_id = call.id, .output = "heavy rain"});
    }
    turn = talk.submit_tool_results(results, {.tool_choice = ToolChoice{.mode = ToolMode::none}});
  }
  if (!turn) return fail(turn.error().error.message);
  std::cout << turn->content.value_or("") << '\n';

  // A copy is a branch; what it has in common with the other is there once.
  chat::Conversation branch = talk;
  if (const auto more = branch.send_message("Thank you!"); !more) return 1;
  std::cout << talk.size() << " messages, " << branch.size() << " in the branch\n";

  // It goes into a file and comes back.
  const std::string saved = json::to_string(talk.to_json());
  const auto restored = chat::Conversation::from_json(*json::parse(saved), model, options);
  if (!restored) return fail(restored.error().message);
  std::cout << restored->size() << " messages again\n";

  // What does not fit is refused, and changes nothing.
  const auto refused = talk.submit_tool_results({{.tool_call_id = "nope", .output = ""}});
  std::cout << refused.error().error.message << '\n';
  return 0;
}

// The toolbox runs them.
int by_itself(const std::shared_ptr<chat::Model>& model, const message::Tool& weather) {
  chat::Toolbox tools;
  const auto added =
      tools.add(weather, [](const json::Object& arguments, const chat::ToolContext&) {
        return chat::ToolOutput{"sun in " + *arguments.find("location")->if_string()};
      });
  if (!added) return fail(added.error().message);
  chat::Conversation::Options options{.request = with_tools({})};
  options.request.tool_choice.mode = ToolMode::required;  // of the first answer
  chat::Conversation talk(model, options);
  const chat::Report report = chat::converse(
      talk, "What is the weather in Oslo?", tools,
      {.max_rounds = 2,  // for the last one no tool is offered
       .on_result = [](const message::ToolCall& call, const chat::ToolResult& result) {
         std::cout << call.name << ": " << result.output << '\n';
       }});
  if (report.refusal) return fail(report.refusal->error.message);
  std::cout << report.turn.content.value_or("") << " (" << report.rounds << " rounds)\n";
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const auto weather = message::ToolDefinition("get_weather")
                           .description("Get current weather for a location")
                           .parameter("location", JsonSchema::string())
                           .parameter("units", JsonSchema::enum_values({"celsius", "fahrenheit"}))
                           .required({"location"})
                           .build();
  if (!weather) return fail(weather.error().message);
  const auto model = load(count > 1 ? arguments[1] : "models/tenon-tiny.gguf");
  if (!model) return fail(model.error().message);
  const int status = by_hand(*model, *weather);
  return status != 0 ? status : by_itself(*model, *weather);
}
