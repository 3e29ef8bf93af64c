#include <string>
#include <utility>
#include <vector>

#include "verify/check.h"
#include "verify/questions.h"

// Answers as documents: their members, ids, ends and figures.
namespace tenon::app::verify {
namespace {

struct RuleRow {
  const char* name;
  const char* about;
  std::string_view rule;
  Question (*question)();
  bool needs_call;
  std::vector<Dialect> dialects{};  // as in Check
};

const std::vector<Dialect> kSayCalls = {Dialect::chat, Dialect::messages};
const std::vector<Dialect> kOpenai = {Dialect::chat, Dialect::responses};

const std::vector<RuleRow> kRules = {
    RuleRow{"answer_shape", "Has an answer all members that the dialect wants?", "answer_shape",
            text_question, false},
    RuleRow{"answer_shape_of_calls", "Has an answer with a call all members?", "answer_shape",
            call_question, true},
    RuleRow{"content_type_is_json", "Is the content type application/json?", "content_type_is_json",
            text_question, false},
    RuleRow{"finish_says_stop", "Does an answer without a call end as one?", "finish_says_stop",
            text_question, false, kSayCalls},
    RuleRow{"finish_is_known", "Is the reason for the end one that the dialect knows?",
            "finish_is_known", text_question, false},
    RuleRow{"finish_says_calls", "Does an answer with a call end as one (not with `stop`)?",
            "finish_says_calls", call_question, true, kSayCalls},
    RuleRow{"arguments_are_text", "Are the arguments of a call a text, not an object?",
            "arguments_are_text", call_question, true, kOpenai},
    RuleRow{"arguments_are_json", "Are the arguments of a call a JSON object?",
            "arguments_are_json", call_question, true},
    RuleRow{"call_has_id", "Has each call an id?", "call_has_id", call_question, true},
    RuleRow{"call_ids_differ", "Have two calls of an answer different ids?", "call_ids_differ",
            two_calls_question, true},
    RuleRow{"usage_adds_up", "Is the total of the usage the sum of its parts?", "usage_adds_up",
            text_question, false},
    RuleRow{"unicode_whole", "Is the answer UTF-8?", "unicode_whole", unicode_question, false},
};

Judgement has_text(const Answer& answer) {
  return answer.text.empty() && answer.reasoning.empty() ? undecided("the answer has no text")
                                                         : passes();
}

Judgement has_usage(const Answer& answer) {
  if (!answer.usage) return fails("there is no usage");
  if (answer.usage->prompt <= 0) return fails("usage counts no token of the prompt");
  if (answer.usage->completion <= 0) return fails("usage counts no token of the answer");
  return passes();
}

Judgement names_own_tool(const Answer& answer) {
  if (answer.calls.empty()) return undecided("the model made no call");
  for (const GivenCall& call : answer.calls) {
    if (call.name != "get_weather") {
      return fails("the call names '" + call.name + "', which is no tool of the request");
    }
  }
  return passes();
}

// The figure may count the token that ends the answer.
Judgement is_cut(const Answer& answer, std::int64_t limit) {
  if (answer.usage && answer.usage->completion > limit + 1) {
    return fails("usage counts " + std::to_string(answer.usage->completion) +
                 " tokens for a limit of " + std::to_string(limit));
  }
  if (answer.finish == Finish::length) return passes();
  if (answer.usage && answer.usage->completion < limit) return undecided("the answer was shorter");
  return fails("the answer ends with '" + answer.finish_word + "', not as one that was cut");
}

Question cut_question() {
  Question question = text_question();
  question.turns.back().text = "Count from one to thirty in words.";
  question.play.text = "one two three four five six seven eight nine ten eleven twelve";
  question.max_tokens = 5;
  question.may_be_cut = true;
  return question;
}

Judgement check_limit(Session& session) {
  Question question = cut_question();
  if (session.target().dialect == Dialect::responses) question.max_tokens = 16;  // its least
  const auto judge = [&](const Answer& answer) { return is_cut(answer, *question.max_tokens); };
  return judged(session, question, judge, Refusal::fails);
}

Question stop_question() {
  Question question = asking("Count from one to five in English words, like this: one two three");
  question.play.text = "one two three four five";
  question.stop = "three";
  return question;
}

Judgement stops_before_three(const Answer& answer) {
  if (answer.text.find("three") != std::string::npos) return fails("the stop text was sent");
  if (answer.text.find("four") != std::string::npos) return fails("the answer goes on after it");
  return answer.text.find("two") == std::string::npos ? undecided("the model did not count")
                                                      : passes();
}

Judgement check_models(Session& session) {
  const Answer answer = session.get("/v1/models");
  if (answer.is_refused()) return unsupported("status " + std::to_string(answer.status));
  if (auto judgement = unusable(answer, {}, Refusal::unsupported)) return *judgement;
  const auto document = json::parse(answer.body);
  const json::Value* const data = document ? document->find("data") : nullptr;
  if (data == nullptr || data->if_array() == nullptr) {
    return fails("/v1/models has no list `data`");
  }
  for (const json::Value& model : *data->if_array()) {
    if (word_at(model, "id") == session.target().model) return passes();
  }
  return unsupported("the model is not in the list; it may be another name of one that is");
}

Judgement check_unknown_route(Session& session) {
  const Answer answer = session.get("/v1/verify-no-such-route");
  return unusable(answer, {}, Refusal::passes)
      .value_or(fails("a path that is not there gets the status 200"));
}

// Some clients write every field that they know, with null where nothing was set.
Question null_fields() {
  Question question = text_question();
  question.bend = [](json::Object& body) {
    for (const char* key : {"tools", "tool_choice", "stop", "seed", "response_format", "top_p",
                            "presence_penalty", "logit_bias", "user"}) {
      body.set(key, nullptr);
    }
  };
  return question;
}

Question unknown_field() {
  Question question = text_question();
  question.bend = [](json::Object& body) {
    body.set("verify_unknown_field", json::Object{{"a", json::Array{1, 2}}});
  };
  return question;
}

}  // namespace

void add_protocol(std::vector<Check>& checks) {
  const std::string group = "protocol";
  checks.push_back({group, "text_is_answered", "Is a plain question answered with text?",
                    asked(text_question(), has_text, Refusal::fails)});
  for (const RuleRow& row : kRules) {
    Check check{group, row.name, row.about,
                asked(row.question(), keeps_rule(row.rule, row.needs_call),
                      row.needs_call ? Refusal::unsupported : Refusal::fails),
                row.dialects};
    checks.push_back(std::move(check));
  }
  checks.push_back({group, "call_names_a_tool", "Does a call name a tool of the request?",
                    asked(call_question(), names_own_tool)});
  checks.push_back({group, "usage_is_there", "Does an answer tell the tokens of prompt and answer?",
                    asked(text_question(), has_usage, Refusal::fails)});
  checks.push_back({group, "finish_says_length", "Does max_tokens cut an answer, and is that told?",
                    check_limit});
  checks.push_back({group,
                    "stop_is_honoured",
                    "Does a stop text end an answer, and is it not sent?",
                    asked(stop_question(), stops_before_three),
                    {Dialect::chat, Dialect::messages}});
  checks.push_back({group, "models_are_listed", "Does /v1/models list the model?", check_models});
  checks.push_back({group,
                    "null_is_absent",
                    "Do fields with the value null count as absent?",
                    asked(null_fields(), has_text, Refusal::fails),
                    {Dialect::chat}});
  checks.push_back({group, "unknown_field_is_no_500",
                    "Is a field that the server does not know left out or refused clearly?",
                    asked(unknown_field(), has_text, Refusal::told)});
  checks.push_back(
      {group, "unknown_route_is_404", "Is a path that is not there refused?", check_unknown_route});
  add_errors(checks);
}

}  // namespace tenon::app::verify
