#include "tenon/rlm/history.h"

#include <gmock/gmock.h>

namespace tenon::rlm {
namespace {

using message::Message;
using message::Role;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// "s" and "q" are the head; then each text is a turn's code or what it was told.
std::vector<Message> conversation(const std::vector<std::string>& turns) {
  std::vector<Message> messages{{.role = Role::system, .content = "s"},
                                {.role = Role::user, .content = "q"}};
  for (std::size_t i = 0; i < turns.size(); ++i) {
    messages.push_back({.role = i % 2 == 0 ? Role::assistant : Role::user, .content = turns[i]});
  }
  return messages;
}

std::vector<std::string> texts(const std::vector<Message>& messages) {
  std::vector<std::string> all;
  for (const Message& message : messages) all.push_back(message.text());
  return all;
}

struct CutRow {
  std::string name;
  std::vector<std::string> turns;
  std::vector<std::string> cut;
  bool is_cut = true;
};

const std::string kLong(100, 'x');
const std::string kHeadOf = "xxxxxxxxxx... + [90 chars...]";  // 10 characters of kLong

const CutRow kCutRows[] = {
    {"NoTurns", {}, {}, false},
    {"ShortTurns", {"a", "b"}, {"a", "b"}, false},
    {"OldOutputs", {"a", kLong, "b", "c"}, {"a", kHeadOf, "b", "c"}},
    {"OldCode", {kLong, "a", "b", "c"}, {kHeadOf, "a", "b", "c"}},
    {"TheLastTurnHasMoreRoom", {"a", kLong, kLong, kLong}, {"a", kHeadOf, kLong, kLong}},
    {"TheSumOfWhatIsMissing",
     {"a", std::string(80, 'x') + "... + [20 chars...]", "b", "c"},
     {"a", kHeadOf, "b", "c"}},
    {"AMarkThatIsNone",
     {"a", std::string(70, 'x') + "... + [many chars...]", "b", "c"},
     {"a", "xxxxxxxxxx... + [81 chars...]", "b", "c"}},
    {"CharactersThatAreLong",
     {"a", std::string(100, '\xC3'), "b", "c"},
     {"a", std::string(10, '\xC3') + "... + [90 chars...]", "b", "c"}},
};

class CutTurns : public testing::TestWithParam<CutRow> {};

TEST_P(CutTurns, AsTheRuleSays) {
  const CutRow& row = GetParam();
  std::vector<Message> messages = conversation(row.turns);
  EXPECT_EQ(cut_turns(messages, 10, 200), row.is_cut);
  EXPECT_EQ(texts(messages), texts(conversation(row.cut)));
  EXPECT_FALSE(cut_turns(messages, 10, 200)) << "a second time changes nothing";
}

INSTANTIATE_TEST_SUITE_P(Rows, CutTurns, testing::ValuesIn(kCutRows),
                         [](const auto& row) { return row.param.name; });

TEST(History, CutsReasoning) {
  std::vector<Message> messages = conversation({"a", "b"});
  messages[2].reasoning = "why";
  EXPECT_TRUE(cut_turns(messages, 10, 10));
  EXPECT_EQ(messages[2].reasoning, "");
}

TEST(History, ASummaryTakesThePlaceOfAllTurnsButTheLast) {
  EXPECT_EQ(end_of_old_turns(conversation({})), std::nullopt);
  EXPECT_EQ(end_of_old_turns(conversation({"a", "b"})), std::nullopt);
  std::vector<Message> messages = conversation({"a", "b", "c", "d", "e", "f"});
  ASSERT_EQ(end_of_old_turns(messages), 6U);
  put_summary(messages, 6, "notes", "Variables: x (int)");
  EXPECT_THAT(texts(messages),
              ElementsAre("s", "q", "notes", HasSubstr("Variables: x (int)."), "e", "f"));
  EXPECT_EQ(messages[2].role, Role::assistant);
  EXPECT_EQ(messages[3].role, Role::user);
  // What is summed up is not summed up again by itself, and goes into the next summary.
  EXPECT_EQ(end_of_old_turns(messages), std::nullopt);
  for (const char* more : {"g", "h"}) {
    messages.push_back({.role = *more == 'g' ? Role::assistant : Role::user, .content = more});
  }
  ASSERT_EQ(end_of_old_turns(messages), 6U);
  put_summary(messages, 6, "all notes", "");
  EXPECT_THAT(texts(messages), ElementsAre("s", "q", "all notes", HasSubstr("Go on"), "g", "h"));
}

TEST(History, FewOldTurnsAreNotWorthASummary) {
  EXPECT_FALSE(are_old_turns_long(conversation({})));
  EXPECT_FALSE(are_old_turns_long(conversation({kLong, kLong})));
  EXPECT_FALSE(are_old_turns_long(conversation({"a", "b", kLong, kLong})));
  EXPECT_TRUE(are_old_turns_long(conversation({"a", kLong, kLong, kLong})));
}

TEST(History, OlderTurnsAreLeftOutAndASummaryStays) {
  std::vector<Message> messages = conversation({"a", "b", "c", "d", "e", "f", "g", "h"});
  put_summary(messages, 4, "notes", "");
  EXPECT_TRUE(drop_oldest(messages));
  EXPECT_THAT(texts(messages), ElementsAre("s", "q", "notes", HasSubstr("are left out"), "g", "h"));
  EXPECT_FALSE(drop_oldest(messages));
}

TEST(History, TheLastMessageStaysWhereTurnsAreLeftOut) {
  std::vector<Message> messages = conversation({"a", "b", "c", "d"});
  put_summary(messages, 4, "notes", "");
  messages.push_back({.role = Role::user, .content = "answer now"});
  EXPECT_TRUE(drop_turns(messages));
  EXPECT_THAT(texts(messages), ElementsAre("s", "q", "notes", StartsWith("("), "answer now"));
  EXPECT_TRUE(drop_turns(messages));
  EXPECT_THAT(texts(messages), ElementsAre("s", "q", "answer now"));
  EXPECT_FALSE(drop_turns(messages));
}

}  // namespace
}  // namespace tenon::rlm
