#include "tenon/api/answer_parts.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/api/openapi.h"
#include "tenon/chat/model.h"

namespace tenon::api {
namespace {

using message::ChatEvent;
using message::Guarantee;

struct AnswerPartsRow {
  std::string name;
  std::vector<ChatEvent> events;
  std::string note;
  bool is_json = false;
};

const AnswerPartsRow kAnswerPartsRows[] = {
    {"NothingIsDueToText",
     {message::ContentDelta{"hi"}, message::Finish{.guarantee = Guarantee::masked}},
     R"({"guarantee":null,"repairs":[],"format":"hermes"})"},
    {"ResponseFormats",
     {message::ContentDelta{"1"}, message::Finish{.guarantee = Guarantee::masked}},
     R"({"guarantee":"masked","repairs":[],"format":"hermes"})",
     true},
    {"Calls",
     {message::CallBegin{0, "id", "f"}, message::Finish{.guarantee = Guarantee::repaired}},
     R"({"guarantee":"repaired","repairs":[],"format":"hermes"})"},
    {"CallsInAnotherForm",
     {message::CallBegin{0, "id", "f"},
      message::Finish{.guarantee = Guarantee::validated, .format = "json"}},
     R"({"guarantee":"validated","repairs":[],"format":"json"})"},
    {"Repairs",
     {message::Diagnostic{"unknown_tool", "there is no 'g'"}, message::Finish{}},
     R"({"guarantee":null,"repairs":[{"code":"unknown_tool","message":"there is no 'g'"}],)"
     R"("format":"hermes"})"},
    {"UsageThatNobodyCounted",
     {message::ContentDelta{"hi"}, message::Finish{.usage = {.is_estimated = true}}},
     R"({"guarantee":null,"repairs":[],"format":"hermes","usage":"estimated"})"},
};

TEST(AnswerNote, tool_calling_SaysWhatTheEventsSay) {
  for (const AnswerPartsRow& row : kAnswerPartsRows) {
    SCOPED_TRACE(row.name);
    AnswerNote note("hermes", row.is_json);
    for (const ChatEvent& event : row.events) note.add(event);
    EXPECT_EQ(json::to_string(note.encode()), row.note);
  }
}

// Whatever an answer says of itself is in the description of the API.
TEST(AnswerNote, HasNoMemberThatTheApiDoesNotDescribe) {
  message::Finish finish{.usage = {.is_estimated = true},
                         .rlm = json::Object{{"turns", 1}},
                         .loop = {.tool = "f", .repeats = 3, .steps = 1},
                         .prefix = {.of = 4, .kept = 2, .why = "no_answer"}};
  auto tokens = std::make_shared<message::AnswerTokens>();
  tokens->output = {1};
  finish.tokens = tokens;
  AnswerNote note("hermes", true);
  note.add(message::Diagnostic{std::string(chat::kTaintUnenforced), "text"});
  note.add(finish);
  const json::Value written = note.encode();
  EXPECT_EQ(written.if_object()->size(), 9U) << json::to_string(written);
  const json::Value document = openapi({.version = "1", .models = {}});
  const json::Value* const described =
      json::at_pointer(document, "/components/schemas/Guarantee/properties");
  ASSERT_NE(described, nullptr);
  for (const json::Member& member : *written.if_object()) {
    EXPECT_NE(described->find(member.key), nullptr) << member.key;
  }
}

TEST(AnswerNote, SaysThatDataMayBeControlTokens) {
  AnswerNote all("", false);
  AnswerNote note("", false);
  EXPECT_EQ(all.encode().find("taint"), nullptr);
  note.add(message::Diagnostic{std::string(chat::kTaintUnenforced), "text"});
  all.add(note);
  EXPECT_EQ(json::to_string(all.encode()),
            R"({"guarantee":null,"repairs":[],"format":null,"taint":"unenforced"})");
}

TEST(AnswerNote, KeepsSoManyRepairsHoweverManyThereAre) {
  AnswerNote all("", false);
  for (int choice = 0; choice < 3; ++choice) {
    AnswerNote note("", false);
    for (std::size_t i = 0; i < AnswerNote::kMaxRepairs - 10; ++i) {
      note.add(message::Diagnostic{"x", std::to_string(choice)});
      if (choice == 2) note.add(message::Diagnostic{"x", "more"});
    }
    all.add(note);
  }
  EXPECT_EQ(all.encode().find("repairs")->if_array()->size(), AnswerNote::kMaxRepairs);
}

TEST(CallInput, IsWhatStandsWhole) {
  const struct {
    std::string_view arguments;
    std::string_view input;
  } rows[] = {
      {"", "{}"},
      {R"({"a": 1, "b": "x)", R"({"a":1,"b":"x"})"},
      {R"({")", "{}"},
      {R"({"a)", "{}"},
      {R"({"a")", "{}"},
      {R"({"a": )", "{}"},
      {R"({"a": {"b": {"c)", R"({"a":{"b":{}}})"},
      {R"({"a": [{"b")", R"({"a":[{}]})"},
      {R"({"a": [1, )", R"({"a":[1]})"},
      {R"({"a": 1, "b)", R"({"a":1})"},
      {R"({"a": {"b": 1}, "c)", R"({"a":{"b":1}})"},
      {R"({"a\"{": "}, \\", "b)", R"({"a\"{":"}, \\"})"},
      {"[1]", R"({"input":[1]})"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(json::to_string(call_input(row.arguments)), row.input) << row.arguments;
  }
}

}  // namespace
}  // namespace tenon::api
