#include <string>
#include <utility>
#include <vector>

#include "verify/check.h"
#include "verify/questions.h"
#include "verify/reached.h"

// The histories that agents send. What a dialect allows must be answered; and what stands in a
// history must reach the model.
namespace tenon::app::verify {
namespace {

Judgement is_answered(const Answer&) {
  return passes();
}

json::Object* message_at(json::Object& body, std::size_t index) {
  json::Value* const messages = body.find("messages");
  if (messages == nullptr || messages->if_array() == nullptr) return nullptr;
  json::Array& all = *messages->if_array();
  return index < all.size() ? all[index].if_object() : nullptr;
}

// After a call, with a member of the assistant's message (the second) set.
Question with_assistants(std::string key, json::Value value) {
  Question question = after_a_call("sunny, 21 degrees", "");
  question.bend = [key = std::move(key), value = std::move(value)](json::Object& body) {
    if (json::Object* message = message_at(body, 1)) message->set(key, value);
  };
  return question;
}

Question content_missing() {
  Question question = after_a_call("sunny, 21 degrees", "");
  question.bend = [](json::Object& body) {
    if (json::Object* message = message_at(body, 1)) message->erase("content");
  };
  return question;
}

// What OpenAI's library writes when it sends back a message that it got.
Question sdk_members() {
  Question question = after_a_call("sunny, 21 degrees", "");
  question.bend = [](json::Object& body) {
    json::Object* const message = message_at(body, 1);
    if (message == nullptr) return;
    for (const char* key : {"refusal", "audio", "function_call"}) message->set(key, nullptr);
    message->set("annotations", json::Array{});
  };
  return question;
}

Question text_beside_calls() {
  Question question = after_a_call("sunny, 21 degrees", "");
  question.turns[1].text = "I will look that up.";
  return question;
}

Question two_results(bool in_order) {
  Question question = after_a_call("sunny in Lisbon", "");
  question.turns[1].calls.push_back({"get_weather", R"({"city": "Oslo"})", "call_oslo00002"});
  question.turns.push_back({.role = "tool", .text = "snow in Oslo", .call_id = "call_oslo00002"});
  if (!in_order) std::swap(question.turns[2], question.turns[3]);
  return question;
}

// The result's text as a list of parts, in the words of each dialect.
Question result_in_parts() {
  Question question = after_a_call("sunny", "");
  question.bend = [](json::Object& body) {
    const bool is_responses = body.contains("input");
    json::Value* const list = body.find(is_responses ? "input" : "messages");
    json::Object* last = list->if_array()->back().if_object();
    if (const json::Value* role = last->find("role"); role != nullptr && *role == "user") {
      last = last->find("content")->if_array()->front().if_object();
    }
    last->set(is_responses ? "output" : "content",
              json::Array{
                  json::Object{{"type", is_responses ? "input_text" : "text"}, {"text", "sunny"}}});
  };
  return question;
}

Question users_parts() {
  Question question = text_question();
  question.bend = [](json::Object& body) {
    const bool is_responses = body.contains("input");
    json::Value* const list = body.find(is_responses ? "input" : "messages");
    json::Object* const message = list->if_array()->back().if_object();
    json::Value text = *message->find("content");
    message->set("content", json::Array{json::Object{{"type", is_responses ? "input_text" : "text"},
                                                     {"text", std::move(text)}}});
  };
  return question;
}

// `role` in the middle of a conversation.
Question with_middle(std::string role, std::string text) {
  Question question = asking("Hello.");
  question.turns.push_back({.role = "assistant", .text = "Hello, how can I help?"});
  question.turns.push_back({.role = std::move(role), .text = std::move(text)});
  question.turns.push_back({.role = "user", .text = "Say hello again."});
  question.play.text = "Hello again.";
  return question;
}

Question with_developer() {
  Question question = text_question();
  question.turns.insert(question.turns.begin(), {.role = "developer", .text = "Be brief."});
  return question;
}

Question assistant_last() {
  Question question = text_question();
  question.turns.push_back({.role = "assistant", .text = "Hello"});
  return question;
}

Question call_without_result() {
  Question question = after_a_call("", "Never mind. Say hello.");
  question.turns.erase(question.turns.begin() + 2);
  return question;
}

Question result_without_call() {
  Question question = after_a_call("sunny", "");
  question.turns.erase(question.turns.begin() + 1);
  return question;
}

Question arguments_were(std::string text) {
  Question question = after_a_call("the arguments could not be read", "");
  question.turns[1].calls[0].arguments = std::move(text);
  return question;
}

Question id_was(const std::string& id) {
  Question question = after_a_call("sunny", "");
  question.turns[1].calls[0].id = id;
  question.turns[2].call_id = id;
  return question;
}

Question tools_are_gone() {
  Question question = after_a_call("sunny", "");
  question.tools.clear();
  return question;
}

Question long_history() {
  Question question = asking("Let us count.");
  for (int i = 0; i < 40; ++i) {
    question.turns.push_back({.role = "assistant", .text = "Number " + std::to_string(i)});
    question.turns.push_back({.role = "user", .text = "Go on."});
  }
  question.play.text = "Number 40";
  return question;
}

struct HistoryRow {
  const char* name;
  const char* about;
  Question question;
  Refusal refusal = Refusal::fails;
  std::vector<Dialect> dialects{};
};

std::vector<HistoryRow> rows_of_calls() {
  const std::vector<Dialect> chat = {Dialect::chat};
  return {
      {"call_and_result", "A call with its result", after_a_call("sunny, 21 degrees", "")},
      {"result_then_user", "A call, its result, and a word of the user",
       after_a_call("sunny", "Thanks. And is that warm?")},
      {"content_null_beside_calls", "A call beside the content null",
       with_assistants("content", nullptr), Refusal::fails, chat},
      {"content_empty_beside_calls", "A call beside an empty text", with_assistants("content", ""),
       Refusal::fails, chat},
      {"content_missing_beside_calls", "A call without content", content_missing(), Refusal::fails,
       chat},
      {"members_of_sdks", "The members that OpenAI's library sends back", sdk_members(),
       Refusal::fails, chat},
      {"text_beside_calls", "A text and a call in one message", text_beside_calls()},
      {"two_results", "Two calls with their results", two_results(true)},
      {"results_in_other_order", "Results in another order than their calls", two_results(false)},
      {"result_in_parts", "A result as a list of parts", result_in_parts()},
      {"result_empty", "An empty result", after_a_call("", "")},
      {"ids_of_other_servers",
       "An id of a call that another server made",
       id_was("functions.get_weather:0"),
       Refusal::fails,
       {Dialect::chat, Dialect::responses}},
      {"tools_are_gone", "Calls in the history, and no tools any more", tools_are_gone(),
       Refusal::unsupported},
      {"call_without_result", "A call whose result is missing", call_without_result(),
       Refusal::unsupported},
      {"result_without_call", "A result whose call is missing", result_without_call(),
       Refusal::unsupported},
      {"arguments_empty",
       "A call whose arguments were empty",
       arguments_were(""),
       Refusal::unsupported,
       {Dialect::chat, Dialect::responses}},
      {"arguments_no_json",
       "A call whose arguments were no JSON",
       arguments_were("{\"city\": \"Lis"),
       Refusal::unsupported,
       {Dialect::chat, Dialect::responses}},
  };
}

std::vector<HistoryRow> rows_of_roles() {
  const std::vector<Dialect> openai = {Dialect::chat, Dialect::responses};
  return {
      {"users_text_in_parts", "A user's text as a list of parts", users_parts()},
      {"system_in_the_middle", "A system message in the middle", with_middle("system", "Be brief."),
       Refusal::unsupported, openai},
      {"developer_role", "A message of the role `developer`", with_developer(), Refusal::fails,
       openai},
      {"two_users_in_a_row", "Two messages of the user in a row",
       with_middle("user", "One more thing."), Refusal::unsupported},
      {"two_assistants_in_a_row", "Two messages of the assistant in a row",
       with_middle("assistant", "I am ready."), Refusal::unsupported},
      {"assistant_last",
       "A message of the assistant at the end",
       assistant_last(),
       Refusal::unsupported,
       {Dialect::chat, Dialect::messages}},
      {"long_history", "Eighty messages", long_history()},
  };
}

Question remembering(Question question) {
  question.turns.push_back(
      {.role = "user", .text = "Which code word was mentioned? Answer with the code word only."});
  return reaching(std::move(question), "maroon-[0-9]+");
}

void add_reaching(std::vector<Check>& checks) {
  const std::string group = "history";
  const std::string word = "The code word is maroon-417.";
  Question from_system = asking("Hello.");
  from_system.turns.insert(from_system.turns.begin(), {.role = "system", .text = word});
  Question from_user = asking("Hello. " + word);
  from_user.turns.push_back({.role = "assistant", .text = "Hello."});
  Question from_arguments = after_a_call("sunny", "");
  from_arguments.turns[1].calls[0].arguments = R"({"city": "maroon-417"})";
  Question from_assistant = asking("Hello.");
  from_assistant.turns.push_back({.role = "assistant", .text = "Hello. " + word});
  const std::vector<std::pair<const char*, Question>> rows = {
      {"result_reaches_model", after_a_call(word, "")},
      {"system_reaches_model", std::move(from_system)},
      {"earlier_user_reaches_model", std::move(from_user)},
      {"earlier_answer_reaches_model", std::move(from_assistant)},
      {"earlier_arguments_reach_model", std::move(from_arguments)},
  };
  for (const auto& [name, question] : rows) {
    checks.push_back({group, name, "Does this part of a history reach the model?",
                      asked(remembering(question), tells("maroon-417"), Refusal::fails)});
  }
}

}  // namespace

void add_history(std::vector<Check>& checks) {
  for (const auto& rows : {rows_of_calls(), rows_of_roles()}) {
    for (const HistoryRow& row : rows) {
      Question question = row.question;
      question.may_be_cut = true;
      checks.push_back({"history", row.name, std::string(row.about) + ": is it answered?",
                        asked(std::move(question), is_answered, row.refusal), row.dialects});
    }
  }
  add_reaching(checks);
}

}  // namespace tenon::app::verify
