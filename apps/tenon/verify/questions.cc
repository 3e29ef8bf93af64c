#include "verify/questions.h"

#include <utility>

namespace tenon::app::verify {
namespace {

constexpr std::string_view kStory =
    "Once there was a lighthouse on a rock. Its keeper lit the lamp each evening.\n"
    "One night the wind blew so hard that the lamp went out.\n"
    "The keeper took a candle, climbed the stairs, and lit it again.\n"
    "A ship saw the light and turned away from the rock in time.\n"
    "In the morning its captain sent a barrel of oil as thanks.\n";

}  // namespace

OfferedTool text_tool(std::string name, std::string description, const std::string& parameter) {
  return {.name = std::move(name),
          .description = std::move(description),
          .parameters = json::Object{
              {"type", "object"},
              {"properties", json::Object{{parameter, json::Object{{"type", "string"}}}}},
              {"required", json::Array{parameter}},
              {"additionalProperties", false}}};
}

OfferedTool weather_tool() {
  return text_tool("get_weather", "Tells the weather of a city", "city");
}

Question text_question() {
  Question question = asking("Say hello in one short sentence.");
  question.play.text = "Hello there, all is well today.";
  return question;
}

Question unicode_question() {
  const std::string line = "Grüße, 世界! 👩‍🚀 Ελλάδα नमस्ते 🇵🇹";
  Question question = asking("Repeat this line exactly: " + line);
  question.play.text = line;
  return question;
}

Question call_question() {
  Question question = asking("What is the weather in Lisbon? Call get_weather.");
  question.tools = {weather_tool()};
  question.choice = {Choice::Kind::required};
  question.is_choice_optional = true;
  question.play.calls = {{"get_weather", R"({"city": "Lisbon"})"}};
  return question;
}

Question two_calls_question() {
  Question question = call_question();
  question.turns.back().text =
      "What is the weather in Lisbon, and what is it in Oslo? Call get_weather once for each.";
  question.play.calls = {{"get_weather", R"({"city": "Lisbon"})"},
                         {"get_weather", R"({"city": "Oslo"})"}};
  return question;
}

Question long_call_question() {
  Question question =
      asking("Write a story of five lines into the file story.txt. Call write_file.");
  OfferedTool tool = text_tool("write_file", "Writes a file", "content");
  question.tools = {std::move(tool)};
  question.choice = {Choice::Kind::required};
  question.is_choice_optional = true;
  question.play.calls = {{"write_file", json::to_string(json::Object{{"content", kStory}})}};
  return question;
}

Question after_a_call(std::string result, std::string question) {
  Question asked = asking("What is the weather in Lisbon?");
  asked.tools = {weather_tool()};
  asked.turns.push_back(
      {.role = "assistant", .calls = {{"get_weather", R"({"city": "Lisbon"})", "call_lisbon01"}}});
  asked.turns.push_back({.role = "tool", .text = std::move(result), .call_id = "call_lisbon01"});
  if (!question.empty()) asked.turns.push_back({.role = "user", .text = std::move(question)});
  asked.play.text = "It is sunny.";
  return asked;
}

}  // namespace tenon::app::verify
