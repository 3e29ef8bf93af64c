#include <string>
#include <utility>

#include "verify/check.h"
#include "verify/held.h"
#include "verify/questions.h"

// Answers whose text has to be JSON, by itself, beside tools, and after thinking.
namespace tenon::app::verify {
namespace {

constexpr std::string_view kPerson = R"({"type": "object", "properties": {
  "name": {"type": "string"}, "age": {"type": "integer"}},
  "required": ["name", "age"], "additionalProperties": false})";
constexpr std::string_view kRight = R"({"name": "Ann", "age": 31})";
constexpr std::string_view kWrong = R"({"name": "Ann", "age": "thirty-one", "pet": "cat"})";

Question person_question(std::string_view written) {
  Question question =
      asking("Ann is thirty-one and has a cat. Answer with this JSON: " + std::string(written));
  question.answer_schema = json_of(kPerson);
  question.play.text = written;
  return question;
}

HeldCase person_case() {
  return {person_question(kRight), person_question(kWrong), json_of(kPerson), Held::text};
}

template <class Change>
HeldCase changed(HeldCase held, Change change) {
  change(held.right);
  change(held.wrong);
  return held;
}

Runner held_to(HeldCase held) {
  return [held = std::move(held)](Session& session) { return check_held(session, held); };
}

HeldCase any_object() {
  HeldCase held = changed(person_case(), [](Question& question) {
    question.answer_schema.reset();
    question.is_json_wanted = true;
  });
  held.wrong.play.text = "Ann is thirty-one.";
  held.schema = json_of(R"({"type": "object"})");
  return held;
}

HeldCase beside_tools() {
  HeldCase held = changed(person_case(), [](Question& question) {
    question.tools = {weather_tool()};
    question.choice = {Choice::Kind::automatic};
  });
  held.held = Held::text_or_call;
  return held;
}

// A call must still be possible where the text has a schema.
Question call_beside_schema() {
  Question question = call_question();
  question.is_choice_optional = false;
  question.choice = {Choice::Kind::automatic};
  question.answer_schema = json_of(kPerson);
  return question;
}

Judgement has_any_call(const Answer& answer) {
  return answer.calls.empty() ? undecided("the model made no call") : passes();
}

Question with_bad_schema() {
  Question question = person_question(kRight);
  question.answer_schema = json_of(R"({"type": "object", "properties": 7})");
  return question;
}

}  // namespace

void add_structured(std::vector<Check>& checks) {
  const std::string group = "structured";
  const auto stream = [](Question& question) { question.is_streamed = true; };
  const auto think = [](Question& question) { question.play.reasoning = "She is thirty-one."; };
  const std::vector<Dialect> openai = {Dialect::chat, Dialect::responses};
  checks.push_back({group, "json_object_is_json", "Is the text JSON if JSON of any form is wanted?",
                    held_to(any_object()), openai});
  checks.push_back(
      {group, "json_schema_is_kept", "Does the text fit the schema?", held_to(person_case())});
  checks.push_back({group, "json_schema_in_a_stream", "Does it in a stream?",
                    held_to(changed(person_case(), stream))});
  checks.push_back({group, "json_schema_beside_tools", "Does it if there are tools, too?",
                    held_to(beside_tools())});
  checks.push_back({group, "call_beside_json_schema",
                    "Can the model call though the text has a schema?",
                    asked(call_beside_schema(), has_any_call)});
  checks.push_back({group, "json_schema_after_thinking",
                    "Does the text fit if the model thinks first?",
                    held_to(changed(person_case(), think))});
  checks.push_back(
      {group, "bad_schema_is_no_500", "Does a faulty schema get no 5xx?",
       asked(with_bad_schema(), [](const Answer&) { return passes(); }, Refusal::passes)});
}

}  // namespace tenon::app::verify
