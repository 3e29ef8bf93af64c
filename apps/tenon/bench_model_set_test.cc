#include "bench_model_set.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::app::bench {
namespace {

constexpr std::string_view kBenchModelSetTools =
    R"("tools": [{"type": "function", "function": {"name": "water", "parameters": {"type": "object"}}},
                 {"type": "function", "function": {"name": "prune"}},
                 {"type": "function", "function": {"name": "note", "parameters": {"type": "object",
                   "properties": {"text": {"type": "string", "default": "-"},
                     "pages": {"type": "integer", "default": 1}}, "required": ["text"]}}}])";
constexpr std::string_view kMessages = R"("messages": [{"role": "user", "content": "Water it"}])";

// `rest` beside tools and a message.
std::string line_with(std::string_view rest) {
  return "{" + std::string(kBenchModelSetTools) + ", " + std::string(kMessages) +
         (rest.empty() ? "" : ", " + std::string(rest)) + "}";
}

std::string wanted_text(const Wanted& wanted) {
  constexpr std::string_view kKinds[] = {"calls", "none", "any"};
  std::string out(kKinds[static_cast<int>(wanted.kind)]);
  const auto add = [&](const WantedCall& call) {
    out += " " + call.name + "(";
    for (const WantedArgument& argument : call.arguments) {
      out += argument.key + (argument.may_be_absent ? "?" : "");
      for (const json::Value& value : argument.accepted) out += "|" + json::to_string(value);
      out += ";";
    }
    out += ")";
  };
  for (const WantedCall& call : wanted.calls) add(call);
  if (!wanted.optional.empty()) out += " perhaps";
  for (const WantedCall& call : wanted.optional) add(call);
  for (const auto& group : wanted.mentions) {
    out += " says";
    for (const std::string& text : group) out += "|" + text;
  }
  return out;
}

struct Read {
  std::string_view name;
  std::string_view rest;
  std::string_view wanted;
};

const Read kRead[] = {
    {"OneCall", R"("expect": {"calls": [{"name": "water", "arguments": {"litres": [2, "two"]}}]})",
     R"(calls water(litres|2|"two";))"},
    {"WithoutArguments", R"("expect": {"calls": [{"name": "prune"}]})", "calls prune()"},
    {"OneOfThemFits", R"("expect": {"calls": [{"name": "note", "arguments": {"text": [5, "a"]}}]})",
     R"(calls note(text|5|"a";))"},
    {"MayBeAbsent", R"("expect": {"calls": [{"name": "water", "arguments": {"litres": [2, ""]}}]})",
     R"(calls water(litres?|2|"";))"},
    {"Several", R"("expect": {"calls": [{"name": "water"}, {"name": "prune"}]})",
     "calls water() prune()"},
    {"None", R"("expect": {"calls": []})", "none"},
    {"NoneWithMentions",
     R"("expect": {"calls": [], "mentions": [["17", "seventeen"], ["Kilburn"]]})",
     "none says|17|seventeen says|Kilburn"},
    {"Optional", R"("expect": {"calls": [{"name": "water"}], "optional": [{"name": "prune"}]})",
     "calls water() perhaps prune()"},
    {"Any", R"("expect": {"calls": null})", "any"},
    {"PlainValues", R"("expected": [{"name": "water", "arguments": {"litres": [2], "how": ""}}])",
     R"(calls water(litres|[2];how|"";))"},
    {"PlainDefaultsMayBeAbsent",
     R"("expected": [{"name": "note", "arguments": {"text": "-", "pages": 1}}])",
     R"(calls note(text|"-";pages?|1;))"},
    {"PlainOtherThanTheDefault",
     R"("expected": [{"name": "note", "arguments": {"text": "a", "pages": 2}}])",
     R"(calls note(text|"a";pages|2;))"},
    {"PlainNone", R"("expected": [])", "none"},
    {"PlainAny", R"("expected": null)", "any"},
    {"NotesAreLeftAlone", R"("expect": {"calls": []}, "note": {"why": 1}, "valid": true)", "none"},
};

TEST(BenchModelSet, ReadsWhatIsWanted) {
  for (const Read& read : kRead) {
    const auto row = parse_row(line_with(read.rest));
    ASSERT_TRUE(row) << read.name << ": " << row.error().message;
    EXPECT_EQ(wanted_text(row->wanted), read.wanted) << read.name;
    EXPECT_EQ(row->category, "all");
    EXPECT_EQ(row->request.tools.size(), 3U);
  }
}

struct Refused {
  std::string_view name;
  std::string line;
  std::string_view said;
};

TEST(BenchModelSet, SaysWhatIsWrong) {
  const std::string many(kMostLineBytes, ' ');
  std::string values = "1";
  for (std::size_t i = 0; i < kMostAccepted; ++i) values += ", 1";
  std::string calls = R"({"name": "water"})";
  for (std::size_t i = 0; i < kMostCalls; ++i) calls += R"(, {"name": "water"})";
  const Refused refused[] = {
      {"NoJson", "{", "line 1, column 2"},
      {"NoObject", "[]", "must be a JSON object"},
      {"Number", "5", "must be a JSON object"},
      {"BeginOfAList", "  [", "of a list, jq -c"},
      {"Nothing", " ", "line 1, column 2"},
      {"Long", "{" + many + "}", "more than 4 MiB"},
      {"NoMessages", R"({"expect": {"calls": []}})", "messages: is missing"},
      {"BadRole", R"({"messages": [{"role": "wizard", "content": ""}], "expect": {"calls": []}})",
       "messages[0].role"},
      {"BadTool",
       R"({"tools": [{"type": "function"}], "messages": [{"role": "user", "content": ""}], "expect": {"calls": []}})",
       "tools[0].function"},
      {"NothingWanted", line_with(""), "expect: is missing"},
      {"BothWanted", line_with(R"("expect": {"calls": []}, "expected": [])"), "stand both"},
      {"NoCalls", line_with(R"("expect": {"mentions": []})"), "expect.calls: is missing"},
      {"Misspelt", line_with(R"("expect": {"calls": [], "mention": [["a"]]})"),
       "expect.mention: is not known"},
      {"NoList", line_with(R"("expect": {"calls": {"name": "water"}})"),
       "expect.calls: must be a list of calls"},
      {"NoName", line_with(R"("expect": {"calls": [{}]})"), "expect.calls[0].name"},
      {"MisspeltOfACall", line_with(R"("expect": {"calls": [{"name": "water", "argument": {}}]})"),
       "expect.calls[0].argument: is not known"},
      {"ArgumentsOfNone",
       line_with(R"("expect": {"calls": [{"name": "prune", "arguments": {"tree": ["oak"]}}]})"),
       "takes no arguments"},
      {"NothingFits",
       line_with(R"("expect": {"calls": [{"name": "note", "arguments": {"text": [5, null]}}]})"),
       "expect.calls[0]: no call with these arguments fits the tool: "},
      {"RequiredIsNotWanted", line_with(R"("expect": {"calls": [{"name": "note"}]})"),
       "no call with these arguments fits the tool: "},
      {"OtherTool", line_with(R"("expect": {"calls": [{"name": "water"}, {"name": "wtaer"}]})"),
       "expect.calls[1].name: 'wtaer' is not one of the tools"},
      {"OptionalOtherTool", line_with(R"("expect": {"calls": [], "optional": [{"name": "x"}]})"),
       "expect.optional[0].name: 'x' is not one of the tools"},
      {"NoLists",
       line_with(R"("expect": {"calls": [{"name": "water", "arguments": {"litres": 2}}]})"),
       "expect.calls[0].arguments.litres: must be a list"},
      {"NothingAccepted",
       line_with(R"("expect": {"calls": [{"name": "water", "arguments": {"litres": []}}]})"),
       "expect.calls[0].arguments.litres: must be a list"},
      {"ManyAccepted",
       line_with(R"("expect": {"calls": [{"name": "water", "arguments": {"litres": [)" + values +
                 "]}}]}"),
       "has more than 256 values"},
      {"ManyCalls", line_with(R"("expect": {"calls": [)" + calls + "]}"),
       "expect: has more than 64 calls"},
      {"ArgumentsAsText", line_with(R"("expected": [{"name": "water", "arguments": "{}"}])"),
       "expected[0].arguments: must be an object"},
      {"EmptyMention", line_with(R"("expect": {"calls": [], "mentions": [[""]]})"),
       "expect.mentions: must be a list of lists of texts"},
      {"CategoryIsText", line_with(R"("category": [], "expect": {"calls": []})"), "category: must"},
  };
  for (const Refused& row : refused) {
    const auto read = parse_row(row.line);
    ASSERT_FALSE(read) << row.name;
    EXPECT_NE(read.error().message.find(row.said), std::string::npos)
        << row.name << ": " << read.error().message;
  }
}

TEST(BenchModelSet, LinesAreNumberedAndThoseMarkedInvalidLeftOut) {
  const std::string good = R"({"id": 7, "category": "single", )" + std::string(kMessages) +
                           R"(, "tools": [], "expect": {"calls": []}})";
  const std::string nameless = R"({)" + std::string(kMessages) + R"(, "expected": null})";
  const std::string invalid = R"({"valid": false, "expected": 5})";
  const auto set = Set::parse("\n" + good + "\r\n \n" + invalid + "\n" + nameless, "a.jsonl");
  ASSERT_TRUE(set) << set.error().message;
  ASSERT_EQ(set->size(), 2U);
  EXPECT_EQ(set->left_out(), 1U);
  EXPECT_EQ(set->row(0).id, "7");
  EXPECT_EQ(set->row(0).category, "single");
  EXPECT_EQ(set->row(1).id, "a.jsonl, line 5");

  const auto marked = Set::parse("\xEF\xBB\xBF" + good, "a.jsonl");
  ASSERT_TRUE(marked) << marked.error().message;
  EXPECT_EQ(marked->row(0).id, "7");

  const auto bad = Set::parse(good + "\n\n{}\n", "a.jsonl");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().message, "a.jsonl, line 3: messages: is missing");
  for (const std::string_view none : {"", "\n\n", R"({"valid": false})"}) {
    const auto empty = Set::parse(std::string(none), "a.jsonl");
    ASSERT_FALSE(empty);
    EXPECT_EQ(empty.error().message, "a.jsonl: there is no request in it");
  }
}

}  // namespace
}  // namespace tenon::app::bench
