#include <algorithm>
#include <string>
#include <utility>

#include "verify/check.h"
#include "verify/questions.h"

// `tool_choice` and parallel calls.
namespace tenon::app::verify {
namespace {

using Kind = Choice::Kind;

std::string names_of(const Answer& answer) {
  std::string names;
  for (const GivenCall& call : answer.calls) names += (names.empty() ? "" : ", ") + call.name;
  return names;
}

// Three tools, a question about the weather, and this choice.
Question choosing(Choice choice, std::string played_tool = "get_weather") {
  Question question = asking("What is the weather in Lisbon?");
  question.tools = {weather_tool(), text_tool("get_time", "Tells the time in a city", "city"),
                    text_tool("find_flight", "Finds a flight to a city", "city")};
  question.choice = std::move(choice);
  question.play.calls = {{std::move(played_tool), R"({"city": "Lisbon"})"}};
  return question;
}

// This question needs no tool, so that a model that may choose would not call.
Question needless(Choice choice) {
  Question question = choosing(std::move(choice));
  question.turns.back().text = "Say hello.";
  return question;
}

Judgement has_no_call(const Answer& answer) {
  return answer.calls.empty() ? passes() : fails("it calls " + names_of(answer));
}

Judgement has_call(const Answer& answer) {
  return answer.calls.empty() ? undecided("the model made no call") : passes();
}

Judgement must_call(const Answer& answer) {
  return answer.calls.empty() ? fails("there is no call") : passes();
}

Judge calls_only(std::string name) {
  return [name = std::move(name)](const Answer& answer) {
    if (answer.calls.empty()) return fails("there is no call");
    const bool are_right =
        std::ranges::all_of(answer.calls, [&](const GivenCall& call) { return call.name == name; });
    return are_right ? passes() : fails("it calls " + names_of(answer) + ", not " + name);
  };
}

Question without_tools() {
  Question question = asking("What is the weather in Lisbon?");
  question.play.calls = {{"get_weather", R"({"city": "Lisbon"})"}};
  return question;
}

Question choice_without_tools() {
  Question question = text_question();
  question.choice = {Kind::required};
  return question;
}

Question parallel(bool may) {
  Question question = two_calls_question();
  question.is_choice_optional = false;
  question.is_parallel = may;
  return question;
}

Judgement has_at_most_one(const Answer& answer) {
  if (answer.calls.empty()) return undecided("the model made no call");
  return answer.calls.size() == 1 ? passes()
                                  : fails("there are " + std::to_string(answer.calls.size()) +
                                          " calls: " + names_of(answer));
}

Judgement has_two(const Answer& answer) {
  return answer.calls.size() >= 2 ? passes() : undecided("the model made fewer than two calls");
}

// What a played model does that does not heed the choice: it calls, or it does not.
Question played_text(Question question) {
  question.play.calls.clear();
  question.play.text = "I would rather talk.";
  return question;
}

void add_demands(std::vector<Check>& checks) {
  const std::string group = "choice";
  checks.push_back({group, "required_makes_a_call", "Does `required` make a call?",
                    asked(needless({Kind::required}), must_call)});
  checks.push_back({group, "required_in_a_stream", "Does `required` make a call in a stream?",
                    asked(streamed(needless({Kind::required})), must_call)});
  checks.push_back({group, "named_is_called", "Is the named tool called?",
                    asked(needless({Kind::named, {"get_weather"}}), calls_only("get_weather"))});
  checks.push_back(
      {group, "named_other_is_called", "Is the named tool called where another one would fit?",
       asked(choosing({Kind::named, {"get_time"}}, "get_time"), calls_only("get_time"))});
  checks.push_back({group, "named_in_a_stream", "Is the named tool called in a stream?",
                    asked(streamed(choosing({Kind::named, {"find_flight"}}, "find_flight")),
                          calls_only("find_flight"))});
  checks.push_back(
      {group,
       "allowed_is_called",
       "Are only allowed tools called?",
       asked(choosing({Kind::allowed, {"get_time"}}, "get_time"), calls_only("get_time")),
       {Dialect::chat, Dialect::responses}});
}

}  // namespace

void add_choice(std::vector<Check>& checks) {
  const std::string group = "choice";
  checks.push_back({group, "auto_may_call", "Does `auto` leave the model free to call?",
                    asked(choosing({Kind::automatic}), has_call)});
  checks.push_back({group, "auto_may_talk", "Does `auto` leave the model free to answer with text?",
                    asked(played_text(needless({Kind::automatic})), [](const Answer& answer) {
                      return answer.calls.empty() ? passes() : undecided("the model made a call");
                    })});
  checks.push_back({group, "none_makes_no_call", "Does `none` keep calls away?",
                    asked(choosing({Kind::none}), has_no_call)});
  checks.push_back({group, "none_in_a_stream", "Does `none` keep calls away in a stream?",
                    asked(streamed(choosing({Kind::none})), has_no_call)});
  add_demands(checks);
  checks.push_back({group, "no_tools_no_call", "Is there no call without tools?",
                    asked(without_tools(), has_no_call, Refusal::fails)});
  checks.push_back({group, "choice_without_tools", "Does a choice without tools get no 5xx?",
                    asked(choice_without_tools(), has_no_call, Refusal::passes)});
  checks.push_back({group, "parallel_off_makes_one",
                    "Does an answer have one call at most, if so asked?",
                    asked(parallel(false), has_at_most_one)});
  checks.push_back({group, "parallel_makes_two", "Can an answer have two calls?",
                    asked(parallel(true), has_two)});
}

}  // namespace tenon::app::verify
