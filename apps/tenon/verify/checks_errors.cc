#include <string>
#include <utility>
#include <vector>

#include "verify/check.h"
#include "verify/questions.h"

// Mistakes in requests: the client must be told that the mistake is its own (4xx), and what it is.
namespace tenon::app::verify {
namespace {

struct MistakeRow {
  const char* name;
  const char* about;
  void (*bend)(Question& question);
  bool may_be_answered = false;  // a server that overlooks it does no harm
};

// `messages`, or `input` in Responses.
std::string_view history_key(const json::Object& body) {
  return body.contains("input") ? "input" : "messages";
}

template <class Bend>
void bend_body(Question& question, Bend bend) {
  question.bend = bend;
}

const std::vector<MistakeRow> kMistakes = {
    {"body_that_is_no_json", "Is a body that is not JSON refused with 4xx?",
     [](Question& q) { q.raw = "{\"messages\": ["; }},
    {"body_that_is_a_list", "Is a body that is a list refused with 4xx?",
     [](Question& q) { q.raw = "[1, 2]"; }},
    {"messages_missing", "Is a request without messages refused with 4xx?",
     [](Question& q) { bend_body(q, [](json::Object& body) { body.erase(history_key(body)); }); }},
    {"messages_of_wrong_type", "Are messages that are a number refused with 4xx?",
     [](Question& q) {
       bend_body(q, [](json::Object& body) { body.set(std::string(history_key(body)), 7); });
     }},
    {"message_of_wrong_type", "Is a message that is a number refused with 4xx?",
     [](Question& q) {
       bend_body(q, [](json::Object& body) {
         body.set(std::string(history_key(body)), json::Array{json::Value(7)});
       });
     }},
    {"temperature_of_wrong_type", "Is a temperature that is a text refused with 4xx?",
     [](Question& q) {
       bend_body(q, [](json::Object& body) { body.set("temperature", "warm"); });
     }},
    {"tools_of_wrong_type", "Are tools that are a text refused with 4xx?",
     [](Question& q) { bend_body(q, [](json::Object& body) { body.set("tools", "nails"); }); }},
    {"tool_without_name", "Is a tool without a name refused with 4xx?",
     [](Question& q) {
       bend_body(q, [](json::Object& body) {
         body.set("tools", json::Array{json::Object{{"type", "function"}}});
       });
     }},
    {"choice_of_unknown_tool", "Is a tool_choice that names no tool refused with 4xx?",
     [](Question& q) {
       q = call_question();
       q.is_choice_optional = false;
       q.choice = {Choice::Kind::named, {"launch_rocket"}};
     }},
    {"unknown_role", "Does a role that is not there get no 5xx?",
     [](Question& q) { q.turns.push_back({.role = "oracle", .text = "hm"}); }, true},
    {"unknown_model", "Does a model that is not there get no 5xx?",
     [](Question& q) {
       bend_body(q, [](json::Object& body) { body.set("model", "verify-no-such-model"); });
     },
     true},
    {"schema_of_unknown_type", "Does a schema with a type that is not there get no 5xx?",
     [](Question& q) {
       q = call_question();
       q.tools[0].parameters = json_of(R"({"type": "nonsense"})");
     },
     true},
    {"negative_max_tokens", "Does a negative limit of tokens get no 5xx?",
     [](Question& q) {
       q.max_tokens = -5;
       q.may_be_cut = true;
     },
     true},
    {"negative_temperature", "Does a negative temperature get no 5xx?",
     [](Question& q) { q.temperature = -1; }, true},
};

Question mistaken(const MistakeRow& row) {
  Question question = text_question();
  row.bend(question);
  return question;
}

Judge answers(bool may) {
  return [may](const Answer&) {
    return may ? passes("it is answered all the same") : fails("it is answered with status 200");
  };
}

// One that every server must find.
Question plain_mistake(bool is_streamed) {
  Question question = text_question();
  question.is_streamed = is_streamed;
  question.bend = [](json::Object& body) { body.set(std::string(history_key(body)), 7); };
  return question;
}

Judgement check_error_body(Session& session) {
  const Question question = plain_mistake(false);
  const Answer answer = session.ask(question);
  if (!answer.is_refused()) {
    return unusable(answer, question, Refusal::passes)
        .value_or(undecided("the server overlooks the mistake"));
  }
  if (const Flaw* flaw = answer.flaw("error_body_has_message")) return fails(flaw->what);
  return passes();
}

Judgement check_error_before_stream(Session& session) {
  const Question question = plain_mistake(true);
  return unusable(session.ask(question), question, Refusal::passes)
      .value_or(fails("a mistake in a request with stream=true gets the status 200"));
}

}  // namespace

void add_errors(std::vector<Check>& checks) {
  const std::string group = "protocol";
  for (const MistakeRow& row : kMistakes) {
    checks.push_back({group, row.name, row.about,
                      asked(mistaken(row), answers(row.may_be_answered), Refusal::passes)});
  }
  checks.push_back({group, "error_body_has_message", "Does the body of an error say what is wrong?",
                    check_error_body});
  checks.push_back({group, "error_before_stream",
                    "Has a mistake in a request for a stream a status of its own?",
                    check_error_before_stream});
}

}  // namespace tenon::app::verify
