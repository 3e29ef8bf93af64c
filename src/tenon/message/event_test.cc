#include "tenon/message/event.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::message {
namespace {

Fold folded(const std::vector<ChatEvent>& events) {
  Fold fold;
  for (const ChatEvent& event : events) fold.add(event);
  return fold;
}

TEST(FinishReasonName, IsTheClientsWord) {
  EXPECT_EQ(finish_reason_name(FinishReason::stop), "stop");
  EXPECT_EQ(finish_reason_name(FinishReason::length), "length");
  EXPECT_EQ(finish_reason_name(FinishReason::tool_calls), "tool_calls");
  EXPECT_EQ(finish_reason_name(FinishReason::cancelled), "cancelled");
  EXPECT_EQ(finish_reason_name(FinishReason::error), "error");
}

TEST(Guarantee, HasADocumentedName) {
  EXPECT_EQ(guarantee_name(Guarantee::unenforced), "unenforced");
  EXPECT_EQ(guarantee_name(Guarantee::masked), "masked");
}

TEST(Fold, NothingSaidIsAnAssistantsMessageWithoutContent) {
  const Fold fold;
  EXPECT_EQ(fold.message().role, Role::assistant);
  EXPECT_EQ(fold.message().content, std::nullopt);
  EXPECT_TRUE(fold.message().tool_calls.empty());
}

TEST(Fold, JoinsWhatWasSentInPieces) {
  const Fold fold =
      folded({ReasoningDelta{"th"}, ReasoningDelta{"ink"}, ContentDelta{"a"},
              CallBegin{0, "id0", "f"}, CallArguments{0, "{\"x\""}, CallArguments{0, ":1}"},
              CallEnd{0}, ContentDelta{"b"}, CallBegin{1, "id1", "g"}, CallArguments{1, "{"},
              CallEnd{1, true}, Diagnostic{"unclosed_call", "g"}, Finish{FinishReason::length}});
  EXPECT_EQ(fold.message().reasoning, "think");
  EXPECT_EQ(fold.message().content, "ab");
  EXPECT_EQ(fold.message().tool_calls,
            (std::vector<ToolCall>{{"id0", "f", "{\"x\":1}"}, {"id1", "g", "{"}}));
  EXPECT_EQ(fold.incomplete(), (std::vector<bool>{false, true}));
  EXPECT_EQ(fold.diagnostics(), (std::vector<Diagnostic>{{"unclosed_call", "g"}}));
  EXPECT_EQ(fold.finish().reason, FinishReason::length);
}

TEST(Usage, OfTwoIsTheirSumAndAsUnsureAsOne) {
  Usage usage{
      .prompt_tokens = 1, .completion_tokens = 2, .cached_tokens = 3, .reasoning_tokens = 4};
  usage += usage;
  EXPECT_EQ(usage, (Usage{2, 4, 6, 8}));
  usage += Usage{.is_estimated = true};
  usage += Usage{};
  EXPECT_TRUE(usage.is_estimated);
}

TEST(Fold, ACallIsIncompleteUntilItsEnd) {
  Fold fold = folded({CallBegin{0, "id", "f"}});
  EXPECT_EQ(fold.incomplete(), (std::vector<bool>{true}));
  fold.add(CallEnd{0});
  EXPECT_EQ(fold.incomplete(), (std::vector<bool>{false}));
}

}  // namespace
}  // namespace tenon::message
