#include "tenon/chat/told_calls.h"

#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::chat {
namespace {

using message::ChatEvent;

format::ParseOptions options() {
  return {.tools = {"f", "g"}, .schemas = {json::Value(json::Object{{"type", "object"}})}};
}

// Events in short: "f(" a call begins, its arguments, ")" it ends, "!" it was cut; "'text'"
// content, "[code]" a diagnostic.
std::string shown(const std::vector<ChatEvent>& events) {
  std::string all;
  for (const ChatEvent& event : events) {
    if (const auto* begin = std::get_if<message::CallBegin>(&event)) all += begin->name + "(";
    if (const auto* text = std::get_if<message::CallArguments>(&event)) all += text->text;
    if (const auto* end = std::get_if<message::CallEnd>(&event)) all += end->incomplete ? "!" : ")";
    if (const auto* text = std::get_if<message::ContentDelta>(&event))
      all += "'" + text->text + "'";
    if (const auto* told = std::get_if<message::Diagnostic>(&event)) all += "[" + told->code + "]";
  }
  return all;
}

struct ToldCallsRow {
  std::string_view name;
  std::vector<engine::CallPiece> pieces;
  std::string_view events;
  bool truncated = false;
};

const ToldCallsRow kToldCallsRows[] = {
    {"Nothing", {}, ""},
    {"Whole", {{0, "f", R"({"a":1})"}}, R"(f({"a":1}))"},
    {"InPieces", {{0, "f", ""}, {0, "", "{\"a"}, {0, "", "\":1}"}}, R"(f({"a":1}))"},
    {"NameInEachPiece", {{0, "f", "{"}, {0, "f", "}"}}, "f({})"},
    {"NameBehindArguments", {{0, "", "{"}, {0, "f", "}"}}, "f({})"},
    {"WithoutArguments", {{0, "f", ""}}, "f({})"},
    {"OneAfterTheOther", {{0, "f", "{}"}, {1, "g", "{"}, {1, "", "}"}}, "f({})g({})"},
    {"IndicesOfAnyKind", {{7, "f", "{}"}, {3, "g", "{}"}}, "f({})g({})"},
    {"Mixed",
     {{0, "f", "{"}, {1, "g", "{\"b\":"}, {0, "", "}"}, {1, "", "2}"}},
     "f({})g({\"b\":2})"},
    {"MoreOfWhatIsWhole",
     {{0, "f", "{}"}, {1, "g", "{}"}, {0, "", "x"}},
     "f({})g({}[broken_call])'x'"},
    {"MoreIsToldOnce",
     {{0, "f", "{}"}, {1, "g", "{"}, {0, "", "x"}, {0, "", "y"}, {1, "", "}"}, {0, "", "z"}},
     "f({})g({[broken_call]})'xyz'"},
    {"NamesFirst",
     {{0, "f", ""}, {1, "g", ""}, {0, "", "{\"a\":1}"}, {1, "", "{\"b\":2}"}},
     "f({\"a\":1})g({\"b\":2})"},
    {"AllWithoutArguments", {{0, "f", ""}, {1, "g", " "}, {2, "f", ""}}, "f({})g({})f({})"},
    {"ManyThatWaitAreWholeAtOnce",
     {{0, "f", "{"}, {1, "g", "{}"}, {2, "f", "{}"}, {0, "", "}"}, {3, "g", "{"}, {3, "", "}"}},
     "f({})g({})f({})g({})"},
    {"Cut", {{0, "f", "{\"a\":"}}, "f({\"a\":!", true},
    {"CutBehindTheCall", {{0, "f", "{}"}}, "f({})", true},
    {"CutBeforeArguments", {{0, "f", ""}}, "f({})", true},
    {"CutWithOneThatWaits", {{0, "f", "{"}, {1, "g", "{"}}, "f({!g({!", true},
    {"NoJson", {{0, "f", "{a}"}}, "f({}[spoilt_call])'a}'"},
    {"Repaired",
     {{0, "f", "{\"a\": [1, ], \"b\": \"x"}, {0, "", "\ny\", \"c\": True,}"}},
     "f({\"a\": [1], \"b\": \"x\\ny\", \"c\": true}[mended_arguments])"},
    {"NotClosed", {{0, "f", "{\"a\": [1, {\"b"}}, "f({\"a\": [1, {}]}[spoilt_call])"},
    {"WithoutAValue",
     {{0, "f", "{\"a\": \"x\", \"b\""}, {0, "", ":"}, {0, "", " "}},
     "f({\"a\": \"x\"}[spoilt_call])"},
    {"WithoutTheOnlyValue", {{0, "f", "{\"a\" : "}}, "f({}[spoilt_call])"},
    {"WithTheBeginningOfANumber", {{0, "f", "{\"a\": 1"}}, "f({\"a\": 1}[spoilt_call])"},
    {"WithTheBeginningOfAWord", {{0, "f", "{\"a\": tr"}}, "f({\"a\": true}[spoilt_call])"},
    {"WithTheBeginningOfAText", {{0, "f", "{\"a\": \"x"}}, "f({\"a\": \"x\"}[spoilt_call])"},
    {"WithTheBeginningOfAList", {{0, "f", "{\"a\": [1,"}}, "f({\"a\": [1]}[spoilt_call])','"},
    {"WithAQuoteInTheName",
     {{0, "f", "{\"a\\\"b\": 1, \"c\\\": "}},
     "f({\"a\\\"b\": 1}[spoilt_call])"},
    {"WithSomethingElseForAValue", {{0, "f", "{\"a\": @}"}}, "f({}[spoilt_call])'@}'"},
    {"ClosedTwice", {{0, "f", "{\"a\": 1}}"}, {0, "", "} "}}, "f({\"a\": 1}[spoilt_call])'}} '"},
    {"Fenced",
     {{0, "f", "```json\n"}, {0, "", "{}"}, {0, "", "```"}},
     "f(\"```json\\n{}```\"[spoilt_call])"},
    {"Null", {{0, "f", " null"}}, "f({})"},
    {"Text", {{0, "f", "\"{}\""}}, "f(\"{}\")"},
    {"SpaceAround", {{0, "f", " {"}, {0, "", "}\n "}, {1, "g", "{}"}}, "f({})g({})"},
    {"Unknown",
     {{0, "h", "{\"a\""}, {0, "", ":1}"}},
     R"([unknown_tool]'{"name": "h", "arguments": {"a":1}}')"},
    {"UnknownWithoutJson",
     {{0, "h", "a\""}},
     R"([unknown_tool]'{"name": "h", "arguments": "a\""}')"},
    {"UnknownWithoutArguments",
     {{0, "h", ""}},
     R"([unknown_tool]'{"name": "h", "arguments": {}}')"},
    {"UnknownAmongOthers",
     {{0, "h", "{}"}, {1, "f", "{}"}},
     R"([unknown_tool]'{"name": "h", "arguments": {}}'f({}))"},
    {"NoName", {{0, "", "{}"}}, "[broken_call]'{}'"},
    {"NothingAtAll", {{0, "", ""}}, ""},
};

TEST(ToldCalls, tool_calling_BecomeOneAfterTheOther) {
  for (const ToldCallsRow& row : kToldCallsRows) {
    ToldCalls calls(options());
    std::vector<ChatEvent> events;
    for (const engine::CallPiece& piece : row.pieces) calls.feed(piece, events);
    calls.finish(row.truncated, events);
    EXPECT_EQ(shown(events), row.events) << row.name;
  }
}

TEST(ToldCalls, StrangersGoAsTheOptionsSay) {
  format::ParseOptions forwarding = options();
  forwarding.any_tool = true;
  format::ParseOptions correcting = options();
  correcting.corrected_name = [](const std::string& name) {
    return name == "F" ? std::string("f") : std::string();
  };
  for (const auto& [chosen, name, events_text] :
       {std::tuple(forwarding, "h", "[forwarded_tool]h({})"),
        std::tuple(correcting, "F", "[name_fixed]f({})"),
        std::tuple(correcting, "h", "[unknown_tool]'{\"name\": \"h\", \"arguments\": {}}'")}) {
    ToldCalls calls(chosen);
    std::vector<ChatEvent> events;
    calls.feed({0, name, "{}"}, events);
    calls.finish(false, events);
    EXPECT_EQ(shown(events), events_text);
  }
}

TEST(ToldCalls, AreOverWhereTextComes) {
  ToldCalls calls(options());
  std::vector<ChatEvent> events;
  calls.feed({0, "f", "{"}, events);
  calls.interrupt(events);
  EXPECT_EQ(shown(events), "f({");
  calls.feed({0, "", "}"}, events);
  calls.interrupt(events);
  EXPECT_EQ(shown(events), "f({})");
  EXPECT_NE(calls.schema_of("f"), nullptr);
  EXPECT_EQ(calls.schema_of("g"), nullptr);
  EXPECT_EQ(calls.schema_of("h"), nullptr);
}

TEST(ToldCalls, WaitWithinALimit) {
  ToldCalls calls(options());
  std::vector<ChatEvent> events;
  const std::string big(ToldCalls::kMaxWaitingBytes / 4, ' ');
  calls.feed({0, "f", "{"}, events);
  for (std::uint32_t i = 1; i < 9; ++i) calls.feed({i, "g", "{" + big}, events);
  calls.finish(false, events);
  std::string all = shown(events);
  std::erase(all, ' ');
  EXPECT_EQ(
      all, "f({}[spoilt_call])g({}[spoilt_call])g({}[spoilt_call])g({}[spoilt_call])[broken_call]");
}

TEST(ToldCalls, HaveRoomAgainOnceTheyHaveWaited) {
  ToldCalls calls(options());
  std::vector<ChatEvent> events;
  const std::string big(ToldCalls::kMaxWaitingBytes / 2, ' ');
  for (std::uint32_t i = 0; i < 8; i += 2) {  // twice what may wait at a time
    calls.feed({i, "f", "{"}, events);
    calls.feed({i + 1, "g", "{" + big + "}"}, events);
    calls.feed({i, "", "}"}, events);
  }
  calls.finish(false, events);
  std::string all = shown(events);
  std::erase(all, ' ');
  std::string expected;
  for (int i = 0; i < 4; ++i) expected += "f({})g({})";
  EXPECT_EQ(all, expected);
}

// An open text is searched once, not again with each piece of another call.
TEST(ToldCalls, TakeTimeInProportionToWhatComes) {
  ToldCalls calls(options());
  std::vector<ChatEvent> events;
  calls.feed({0, "f", "{\"a\": \"" + std::string(std::size_t{4} << 20, '}')}, events);
  for (int i = 0; i < 20'000; ++i) calls.feed({1, "g", "}"}, events);
  calls.finish(true, events);
  EXPECT_NE(shown(events).find("g(\"" + std::string(20'000, '}')), std::string::npos);
}

}  // namespace
}  // namespace tenon::chat
