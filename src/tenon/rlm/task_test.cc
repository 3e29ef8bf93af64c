#include "tenon/rlm/task.h"

#include <gmock/gmock.h>

namespace tenon::rlm {
namespace {

using message::Message;
using message::Role;
using Texts = std::vector<std::string>;

Message of(Role role, std::string text, std::string call = {}) {
  return {.role = role, .content = std::move(text), .tool_call_id = std::move(call)};
}

struct TaskRow {
  std::string name;
  std::vector<Message> messages;
  std::string question;
  Texts context;
  std::size_t history = 0;
};

const TaskRow kTaskRows[] = {
    {"QuestionAlone", {of(Role::user, "q")}, "q", {}, 0},
    {"System", {of(Role::system, "c"), of(Role::user, "q")}, "q", {"c"}, 0},
    {"SeveralSystems",
     {of(Role::system, "a"), of(Role::developer, "b"), of(Role::user, "q")},
     "q",
     {"a", "b"},
     0},
    {"EarlierMessages",
     {of(Role::user, "a"), of(Role::assistant, "b"), of(Role::user, "q")},
     "q",
     {"a", "b"},
     2},
    {"EarlierMessagesBesideASystem",
     {of(Role::system, "c"), of(Role::user, "a"), of(Role::assistant, "b"), of(Role::user, "q")},
     "q",
     {"c"},
     2},
    {"SystemBehindTheQuestion", {of(Role::user, "q"), of(Role::system, "c")}, "q", {"c"}, 0},
    {"NoQuestion", {of(Role::system, "c")}, "", {"c"}, 0},
    {"FinishedRoundOfTools",
     {of(Role::system, "c"), of(Role::user, "a"), of(Role::assistant, ""),
      of(Role::tool, "r", "call_1"), of(Role::assistant, "b"), of(Role::user, "q")},
     "q",
     {"c"},
     4},
};

class TaskOf : public testing::TestWithParam<TaskRow> {};

TEST_P(TaskOf, AsTheRuleSays) {
  const Task task = task_of(GetParam().messages);
  EXPECT_EQ(task.question, GetParam().question);
  EXPECT_EQ(task.context, GetParam().context);
  EXPECT_EQ(task.history.size(), GetParam().history);
  EXPECT_FALSE(task.is_question_context);
}

INSTANTIATE_TEST_SUITE_P(Rows, TaskOf, testing::ValuesIn(kTaskRows),
                         [](const auto& row) { return row.param.name; });

struct ShapeRow {
  std::string name;
  std::string context;  // JSON
  Texts pieces;
  std::string shape{};
};

const ShapeRow kShapeRows[] = {
    {"Text", R"("abc")", {"abc"}},
    {"Texts", R"(["a", "b"])", {"a", "b"}},
    {"OneText", R"(["a"])", {R"(["a"])"}, "a list of 1 item; the first is a str of 1 character"},
    {"NoItems", "[]", {"[]"}, "a list of 0 items"},
    {"Dict",
     R"({"a.py": "x", "n": 1, "l": [1, 2], "d": {"k": null}, "f": 1.5, "t": true, "z": null})",
     {R"({"a.py":"x","n":1,"l":[1,2],"d":{"k":null},"f":1.5,"t":true,"z":null})"},
     R"(a dict of 7 keys: "a.py" (a str of 1 character), "n" (an int), "l" (a list of 2 items), )"
     R"("d" (a dict of 1 key), "f" (a float), "t" (a bool), "z" (None))"},
    {"Rows",
     R"([{"id": 1, "text": "a"}, {"id": 2, "text": "b"}])",
     {R"([{"id":1,"text":"a"},{"id":2,"text":"b"}])"},
     R"(a list of 2 items; the first is a dict of 2 keys ("id", "text"))"},
    {"Number", "7", {"7"}, "an int"},
};

TEST(TaskOfAContext, TellsWhatItIs) {
  for (const ShapeRow& row : kShapeRows) {
    SCOPED_TRACE(row.name);
    const json::Value context = *json::parse(row.context);
    const Task task = task_of({of(Role::system, "s"), of(Role::user, "q")}, &context);
    EXPECT_EQ(task.question, "q");
    EXPECT_EQ(task.context, row.pieces);
    EXPECT_EQ(task.shape, row.shape);
    EXPECT_EQ(task.history.size(), 1U);  // the system message is no context then
  }
}

TEST(TaskOfAContext, TellsAFewKeys) {
  json::Object many;
  for (int i = 0; i < 1000; ++i) many.set("key" + std::to_string(i), std::string(200, 'x'));
  many.set(std::string(10'000, 'k'), 1);
  const std::string shape = shape_of(many);
  EXPECT_NE(shape.find("a dict of 1001 keys"), std::string::npos);
  EXPECT_TRUE(shape.ends_with(", ...")) << shape;
  EXPECT_LT(shape.size(), 1500U);
}

TEST(TaskOfALongQuestion, IsTheContextItself) {
  const std::string text(kMaxQuestionChars + 1, 'x');
  const Task task = task_of({of(Role::user, text)});
  EXPECT_TRUE(task.is_question_context);
  EXPECT_EQ(task.context, Texts{text});
}

TEST(ResultsOf, AreThoseBehindTheLastAnswer) {
  const std::vector<Message> messages = {
      of(Role::user, "a"),       of(Role::assistant, ""),        of(Role::tool, "old", "call_1"),
      of(Role::assistant, ""),   of(Role::tool, "r1", "call_2"), of(Role::tool, "r2", "call_3"),
      of(Role::user, "and this")};
  const Results results = results_of(messages);
  ASSERT_EQ(results.results.size(), 2U);
  EXPECT_EQ(results.results[0]->text(), "r1");
  EXPECT_EQ(results.results[1]->tool_call_id, "call_3");
  ASSERT_EQ(results.others.size(), 1U);
  EXPECT_EQ(results.others[0]->text(), "and this");
  EXPECT_TRUE(results_of({of(Role::user, "q")}).results.empty());
}

TEST(HashOf, KnowsWhereAPieceEnds) {
  EXPECT_EQ(hash_of(Texts{"ab"}).size(), 64U);
  EXPECT_NE(hash_of(Texts{"ab"}), hash_of(Texts{"a", "b"}));
  EXPECT_EQ(hash_of(Texts{"a", "b"}), hash_of(Texts{"a", "b"}));
}

}  // namespace
}  // namespace tenon::rlm
