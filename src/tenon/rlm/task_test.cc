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
