#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "verify/check.h"
#include "verify/questions.h"

// What is too large is refused clearly, and never cut in silence.
namespace tenon::app::verify {
namespace {

// Each word is a token at least.
std::string words(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += "w" + std::to_string(i % 1000) + " ";
  return text;
}

// By the names that servers have for it in /v1/models; no value: it is not told.
std::optional<std::size_t> context_of(Session& session) {
  const auto document = json::parse(session.get("/v1/models").body);
  const json::Value* const models = document ? document->find("data") : nullptr;
  if (models == nullptr || models->if_array() == nullptr) return std::nullopt;
  for (const json::Value& model : *models->if_array()) {
    if (word_at(model, "id") != session.target().model && models->if_array()->size() > 1) continue;
    for (const char* path : {"/context_length", "/max_model_len", "/meta/n_ctx", "/context_window",
                             "/meta/n_ctx_train", "/max_context_length"}) {
      const json::Value* const size = json::at_pointer(model, path);
      const auto tokens = size == nullptr || size->if_number() == nullptr
                              ? std::nullopt
                              : size->if_number()->to_int64();
      if (tokens && *tokens > 0) return static_cast<std::size_t>(*tokens);
    }
  }
  return std::nullopt;
}

// No value: it all fitted, so a longer one is needed.
std::optional<Judgement> judge_overflow(const Answer& answer, const Question& question,
                                        std::size_t count) {
  if (answer.status == 413) return passes("status 413: " + answer.error);
  if (answer.status == 200 && !answer.error.empty()) {
    return passes("told by an error: " + answer.error);
  }
  if (auto judgement = unusable(answer, question, Refusal::told)) return judgement;
  if (!answer.usage) return undecided("it is answered, and the answer has no usage");
  if (answer.usage->prompt >= static_cast<std::int64_t>(count)) return std::nullopt;
  return fails("a prompt of " + std::to_string(count) + " words is answered as if it was read; " +
               std::to_string(answer.usage->prompt) + " tokens of it were");
}

Judgement check_overflow(Session& session) {
  const auto told = context_of(session);
  const std::size_t context = told.value_or(40'000);
  const std::size_t first = context + context / 8 + 64;
  // More would cost money for nothing where the length is not known.
  const std::size_t most = told ? 1'400'000 : first;
  for (std::size_t count = first; count <= most; count *= 4) {
    Question question = asking(words(count));
    question.play.text = "I have read it.";
    question.max_tokens = 16;  // the least of Responses
    question.may_be_cut = true;
    const Answer answer = session.ask_anew(question);
    if (auto judgement = judge_overflow(answer, question, count)) return *judgement;
  }
  return undecided("no prompt that was tried was too long");
}

Question many_tools(std::size_t count) {
  Question question = call_question();
  for (std::size_t i = 0; i < count; ++i) {
    question.tools.push_back(text_tool("tool_" + std::to_string(i), "Does thing " + words(4), "x"));
  }
  return question;
}

Question tool_named(std::string name) {
  Question question = call_question();
  question.tools[0].name = name;
  question.play.calls[0].name = std::move(name);
  return question;
}

Question deep_schema(int depth) {
  json::Value schema = json_of(R"({"type": "string"})");
  for (int i = 0; i < depth; ++i) {
    schema =
        json::Object{{"type", "object"}, {"properties", json::Object{{"a", std::move(schema)}}}};
  }
  Question question = call_question();
  question.tools[0].parameters = std::move(schema);
  question.play.calls[0].arguments = "{}";
  return question;
}

Question deep_body() {
  Question question = text_question();
  question.raw = R"({"messages": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  return question;
}

Question large_enum() {
  json::Array values;
  for (int i = 0; i < 1000; ++i) values.emplace_back("value " + std::to_string(i));
  Question question = call_question();
  question.tools[0]
      .parameters.find("properties")
      ->find("city")
      ->if_object()
      ->set("enum", std::move(values));
  question.play.calls[0].arguments = R"({"city": "value 7"})";
  return question;
}

Question slow_pattern() {
  Question question = call_question();
  question.tools[0]
      .parameters.find("properties")
      ->find("city")
      ->if_object()
      ->set("pattern", "^(a+)+$");
  question.play.calls[0].arguments = R"({"city": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})";
  return question;
}

Question many_messages() {
  Question question = asking("Go on.");
  for (int i = 0; i < 200; ++i) {
    question.turns.push_back({.role = "assistant", .text = "Yes."});
    question.turns.push_back({.role = "user", .text = "Go on."});
  }
  question.play.text = "Yes.";
  return question;
}

Question limited_to(std::int64_t tokens) {
  Question question = text_question();
  question.may_be_cut = true;
  question.max_tokens = tokens;
  return question;
}

struct LimitRow {
  const char* name;
  const char* about;
  Question question;
};

std::vector<LimitRow> limit_rows() {
  std::vector<LimitRow> rows = {
      {"many_tools", "Are 128 tools answered or refused clearly?", many_tools(128)},
      {"long_tool_name", "Is a tool's name of 500 letters answered or refused clearly?",
       tool_named(std::string(500, 'n'))},
      {"tool_name_with_signs", "Is a tool's name with blanks answered or refused clearly?",
       tool_named("get the weather!")},
      {"deep_schema", "Is a schema of 60 levels answered or refused clearly?", deep_schema(60)},
      {"deep_body", "Is a body of 100,000 levels refused clearly?", deep_body()},
      {"large_enum", "Is an enum of 1,000 values answered or refused clearly?", large_enum()},
      {"slow_pattern", "Does a pattern that is slow to match not stop the server?", slow_pattern()},
      {"many_messages", "Are 401 messages answered or refused clearly?", many_messages()},
      {"max_tokens_zero", "Is a limit of 0 tokens answered or refused clearly?", limited_to(0)},
  };
  for (LimitRow& row : rows) {
    row.question.is_choice_optional = false;
    row.question.may_be_cut = true;
  }
  return rows;
}

// No answer at all is the server's fault where it answers a plain question.
Runner answered_or_refused(Question question) {
  return [question = std::move(question)](Session& session) {
    const bool answers_others = session.ask(text_question()).is_ok();
    const Answer answer = session.ask(question);
    if (answer.is_late && answers_others) {
      return fails("there is no answer within --timeout, though a plain question has one");
    }
    return unusable(answer, question, Refusal::told).value_or(passes("it is answered"));
  };
}

}  // namespace

void add_limits(std::vector<Check>& checks) {
  const std::string group = "limits";
  checks.push_back({group, "context_overflow_is_told",
                    "Is a prompt that is too long refused with 4xx, not cut in silence?",
                    check_overflow});
  for (LimitRow& row : limit_rows()) {
    checks.push_back({group, row.name, row.about, answered_or_refused(std::move(row.question))});
  }
  checks.push_back(
      {group, "server_is_still_there", "Does the server answer after all this?",
       [](Session& session) {
         const Question question = text_question();
         return unusable(session.ask_anew(question), question, Refusal::fails).value_or(passes());
       }});
}

}  // namespace tenon::app::verify
