#include "bench_model_score.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench_model_report.h"
#include <gtest/gtest.h>

namespace tenon::app::bench {
namespace {

constexpr std::string_view kBenchModelScoreTools = R"("tools": [
  {"type": "function", "function": {"name": "water", "parameters": {"type": "object",
    "required": ["plant"], "properties": {"plant": {"type": "string"}, "litres": {"type": "number"},
    "notes": {"type": "array", "items": {"type": "string"}}}}}},
  {"type": "function", "function": {"name": "prune"}},
  {"type": "function", "function": {"name": "sow", "parameters": {"type": "object"}}}])";

Row row_that(std::string_view expect) {
  auto row = parse_row("{" + std::string(kBenchModelScoreTools) +
                       R"(, "messages": [{"role": "user", "content": "x"}], "expect": )" +
                       std::string(expect) + "}");
  EXPECT_TRUE(row) << row.error().message;
  return *std::move(row);
}

// "water {...}; prune {}"; what begins with '"' is text.
Given given_as(std::string_view told) {
  Given given;
  while (!told.empty()) {
    const std::size_t end = std::min(told.find("; "), told.size());
    const std::string_view part = told.substr(0, end);
    told.remove_prefix(std::min(end + 2, told.size()));
    if (part.front() == '"') {
      given.text = part.substr(1);
      continue;
    }
    const std::size_t space = part.find(' ');
    given.calls.push_back({.name = std::string(part.substr(0, space)),
                           .arguments = std::string(part.substr(space + 1))});
  }
  return given;
}

std::string described(const Verdict& verdict) {
  std::string out;
  const auto add = [&](bool is_so, std::string_view word) {
    if (is_so) out += (out.empty() ? "" : " ") + std::string(word);
  };
  add(verdict.calls, "calls");
  add(verdict.is_valid, "valid");
  add(verdict.has_tools, "tools");
  add(verdict.is_exact, "exact");
  add(verdict.is_loose, "loose");
  add(verdict.abstains, "abstains");
  add(verdict.is_right, "right");
  return out;
}

struct Judged {
  std::string_view name;
  std::string_view expect;
  std::string_view given;
  std::string_view verdict;
};

constexpr std::string_view kAll = "calls valid tools exact loose right";
constexpr std::string_view kWater =
    R"({"calls": [{"name": "water", "arguments": {"plant": ["Rose", "the rose"], "litres": [2, 3, ""]}}]})";
constexpr std::string_view kTwo =
    R"({"calls": [{"name": "water", "arguments": {"plant": ["a", "b"]}},
                  {"name": "water", "arguments": {"plant": ["a"]}}]})";
constexpr std::string_view kNone = R"({"calls": []})";
constexpr std::string_view kSays = R"({"calls": [], "mentions": [["17", "seventeen"], ["Kew"]]})";
constexpr std::string_view kPerhaps =
    R"({"calls": [{"name": "sow", "arguments": {"n": [1]}}],
        "optional": [{"name": "prune"}, {"name": "sow", "arguments": {"n": [1, 2]}}]})";

const Judged kJudged[] = {
    {"Exact", kWater, R"(water {"litres": 2, "plant": "Rose"})", kAll},
    {"NumberByValue", kWater, R"(water {"plant": "Rose", "litres": 30e-1})", kAll},
    {"AnotherAcceptedValue", kWater, R"(water {"plant": "the rose", "litres": 3.0})", kAll},
    {"MayBeAbsent", kWater, R"(water {"plant": "Rose"})", kAll},
    {"MustNotBeAbsent", kWater, R"(water {"litres": 2})", "calls tools"},
    {"OtherNumber", kWater, R"(water {"plant": "Rose", "litres": 4})", "calls valid tools"},
    {"NumberAsText", kWater, R"(water {"plant": "Rose", "litres": "2"})", "calls tools"},
    {"OneArgumentMore", kWater, R"(water {"plant": "Rose", "notes": []})", "calls valid tools"},
    {"Loosely", kWater, R"(water {"plant": " rOSE. "})", "calls valid tools loose"},
    {"OtherTool", kWater, R"(sow {"plant": "Rose"})", "calls valid"},
    {"UnknownTool", kWater, R"(dig {})", "calls"},
    {"OneCallMore", kWater, R"(water {"plant": "Rose"}; prune {})", "calls valid"},
    {"Text", kWater, R"("Which rose?)", ""},
    {"TextBeside", kWater, R"("Here; water {"plant": "Rose"})", kAll},
    {"NoJson", kWater, R"(water {"plant": "Ro)", "calls tools"},
    {"NoObject", kWater, R"(water ["Rose"])", "calls tools"},
    {"NoSchemaTakesNothing", R"({"calls": [{"name": "prune"}]})", R"(prune {"a": 1})",
     "calls tools"},
    {"NoArguments", R"({"calls": [{"name": "prune"}]})", "prune {}", kAll},
    {"DeepValues", R"({"calls": [{"name": "sow", "arguments": {"x": [{"a": [1, {"b": null}]}]}}]})",
     R"(sow {"x": {"a": [1.0, {"b": null}]}})", kAll},
    {"DeepLoosely", R"({"calls": [{"name": "sow", "arguments": {"x": [{"a": ["Oak."]}]}}]})",
     R"(sow {"x": {"a": ["oak"]}})", "calls valid tools loose"},
    {"OrderOfItemsCounts", R"({"calls": [{"name": "sow", "arguments": {"x": [[1, 2]]}}]})",
     R"(sow {"x": [2, 1]})", "calls valid tools"},

    {"Parallel", kTwo, R"(water {"plant": "b"}; water {"plant": "a"})", kAll},
    {"ParallelInTheOtherOrder", kTwo, R"(water {"plant": "a"}; water {"plant": "b"})", kAll},
    {"FirstFitIsNotTaken", kTwo, R"(water {"plant": "a"}; water {"plant": "a"})", kAll},
    {"OneWantedIsMadeTwice", kTwo, R"(water {"plant": "b"}; water {"plant": "b"})",
     "calls valid tools"},
    {"OneIsMissing", kTwo, R"(water {"plant": "a"})", "calls valid"},
    {"OneIsMore", kTwo, R"(water {"plant": "a"}; water {"plant": "a"}; water {"plant": "a"})",
     "calls valid"},

    {"Abstains", kNone, R"("I cannot.)", "abstains right"},
    {"SaysNothing", kNone, "", "abstains right"},
    {"DoesNotAbstain", kNone, "prune {}", "calls valid"},
    {"Mentions", kSays, R"("At Kew it is 17 degrees.)", "abstains right"},
    {"MentionsNotAll", kSays, R"("It is seventeen degrees.)", "abstains"},
    {"MentionsWithCall", kSays, R"("17 at Kew; prune {})", "calls valid"},
    {"MentionsBesideCall", R"({"calls": [{"name": "prune"}], "mentions": [["sharp"]]})", "prune {}",
     "calls valid tools exact loose"},

    {"OptionalIsLeftOut", kPerhaps, R"(sow {"n": 1})", kAll},
    {"OptionalIsMade", kPerhaps, R"(prune {}; sow {"n": 1})", kAll},
    {"AllOptionalAreMade", kPerhaps, R"(sow {"n": 1}; prune {}; sow {"n": 1})", kAll},
    {"OnlyOptional", kPerhaps, R"(sow {"n": 2}; prune {})", "calls valid tools"},
    {"OptionalTwice", kPerhaps, R"(prune {}; sow {"n": 1}; prune {})", "calls valid"},
    {"OptionalWhereNoneIsWanted", R"({"calls": [], "optional": [{"name": "prune"}]})", "prune {}",
     "calls valid abstains right"},

    {"AnyCall", R"({"calls": null})", R"(sow {"deep": true})", "calls valid right"},
    {"AnyCallIsToBeValid", R"({"calls": null})", "water {}", "calls"},
    {"NotAnyCall", R"({"calls": null})", R"("No.)", ""},
};

TEST(BenchModelScore, Judges) {
  for (const Judged& test : kJudged) {
    EXPECT_EQ(described(judge(row_that(test.expect), given_as(test.given))), test.verdict)
        << test.name;
  }
}

TEST(BenchModelScore, WhatBrokeOffIsNoRightAnswer) {
  const Row none = row_that(kNone);
  const Row water = row_that(kWater);
  Given broken = given_as(R"("<tool_call>)");
  broken.has_broken_call = true;
  EXPECT_EQ(described(judge(none, broken)), "calls");
  Given half = given_as(R"(water {"plant": "Rose"})");
  half.is_whole = false;
  EXPECT_EQ(described(judge(water, half)), "calls tools exact loose right");
  half.has_broken_call = true;
  EXPECT_EQ(described(judge(water, half)), "calls");
  const Given refused{.refusal = "the prompt is too long"};
  EXPECT_EQ(described(judge(none, refused)), "");
}

// Wanted calls of values 1 to 3 and made calls of the same: every pairing is tried.
TEST(BenchModelScore, PairsCallsAsTryingAllDoes) {
  std::mt19937 random(7);
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  std::size_t right = 0;
  constexpr int kRounds = 3000;
  for (int round = 0; round < kRounds; ++round) {
    const int wanted = 1 + below(3);
    const int optional = below(3);
    std::vector<std::vector<int>> accepted;
    std::string lists[2];
    for (int i = 0; i < wanted + optional; ++i) {
      std::string& list = lists[i < wanted ? 0 : 1];
      std::vector<int>& values = accepted.emplace_back();
      for (int value = 1; value <= 3; ++value) {
        if (below(2) == 0) values.push_back(value);
      }
      if (values.empty()) values.push_back(1);
      list += list.empty() ? "" : ", ";
      list += R"({"name": "sow", "arguments": {"n": [)";
      for (const int value : values) {
        list += (value == values.front() ? "" : ", ") + std::to_string(value);
      }
      list += "]}}";
    }
    std::vector<int> made;
    std::string told;
    for (int count = below(6); count > 0; --count) {
      made.push_back(1 + below(3));
      told += (told.empty() ? "" : "; ") + ("sow {\"n\": " + std::to_string(made.back()) + "}");
    }
    std::vector<std::size_t> order(accepted.size());
    std::iota(order.begin(), order.end(), 0);
    bool is_right = false;
    if (made.size() <= order.size()) {
      do {  // made call i is what order[i] wants; the rest is not made, and must not be wanted
        bool fits = true;
        for (std::size_t i = 0; i < order.size(); ++i) {
          fits = fits && (i < made.size() ? std::ranges::count(accepted[order[i]], made[i]) > 0
                                          : order[i] >= static_cast<std::size_t>(wanted));
        }
        is_right = is_right || fits;
      } while (std::ranges::next_permutation(order).found);
    }
    const Row row = row_that(R"({"calls": [)" + lists[0] + R"(], "optional": [)" + lists[1] + "]}");
    EXPECT_EQ(judge(row, given_as(told)).is_exact, is_right) << told << " for " << lists[0];
    right += is_right ? 1 : 0;
  }
  EXPECT_GT(right, 100U);
  EXPECT_LT(right, kRounds - 100U);
}

struct Stands {
  std::string_view what;
  std::string_view text;
  bool stands;
};

TEST(BenchModelScore, WordsAndNumbersStandByThemselves) {
  const Stands rows[] = {
      {"17", "17", true},
      {"17", "at 17.", true},
      {"17", "17, or more", true},
      {"17", "17\u00b0C", true},
      {"17", "17km", true},
      {"17", "-17", true},
      {"17", "7:17", true},
      {"17", "2017", false},
      {"17", "170", false},
      {"17", "17.5", false},
      {"17", "3.17", false},
      {"17", "17,000", false},
      {"17", "2017 and 17", true},
      {"700", "1,700", false},
      {"17.5", "17.5 kg", true},
      {"17.5", "117.5", false},
      {"May 3", "May 30", false},
      {"May 3", "on may 3.", true},
      {"3 May", "13 May", false},
      {"Kew", "Kewpie", false},
      {"Kew", "at kew, today", true},
      {"rot", "carrot", false},
      {"\u00c4rger", "\u00e4RGER", true},
      {"gro\u00df", "gro\u00dfer", false},
      {"\u5317\u4eac", "\u5728\u5317\u4eac\u5f88\u70ed", true},
      {"*", "2*3", true},
      {"17", "", false},
  };
  for (const Stands& row : rows) {
    EXPECT_EQ(stands_in(row.what, row.text), row.stands) << row.what << " in " << row.text;
  }
}

struct Pair {
  std::string_view a;
  std::string_view b;
  bool same;
};

TEST(BenchModelScore, TextsAreTheSameLoosely) {
  const Pair rows[] = {
      {R"("Paris")", R"("paris")", true},
      {R"("Paris")", R"(" Paris.\n")", true},
      {R"("Paris .")", R"("Paris")", true},
      {R"("Paris..")", R"("Paris")", false},
      {R"("New York")", R"("NewYork")", false},
      {R"("\u00c4RGER")", R"("\u00e4rger")", true},
      {R"("\u0391\u03a3")", R"("\u03b1\u03c3")", true},
      {R"("\u212a")", R"("k")", true},
      {R"("5")", "5", false},
      {"5", "5.0", true},
      {"true", R"("true")", false},
      {R"(["A"])", R"(["a."])", true},
      {R"(["A", "b"])", R"(["a"])", false},
      {R"({"k": "A"})", R"({"k": "a"})", true},
      {R"({"k": "A"})", R"({"K": "A"})", false},
      {R"({"k": 1})", R"({"k": 1, "l": 2})", false},
      {R"("")", R"(" . ")", true},
  };
  for (const Pair& row : rows) {
    const auto a = json::parse(row.a);
    const auto b = json::parse(row.b);
    ASSERT_TRUE(a && b) << row.a;
    EXPECT_EQ(is_same_loosely(*a, *b), row.same) << row.a << " and " << row.b;
    EXPECT_EQ(is_same_loosely(*b, *a), row.same) << row.b << " and " << row.a;
  }
}

struct Told {
  std::string_view name;
  std::vector<message::ChatEvent> events;
  bool has_broken_call;
  bool is_json;
  bool is_whole;
};

TEST(BenchModelScore, DiagnosticsTellWhatBroke) {
  using namespace message;
  const auto call = [](std::string arguments, bool incomplete, std::string code) {
    std::vector<ChatEvent> events = {
        CallBegin{0, "1", "water"}, CallArguments{0, std::move(arguments)}, CallEnd{0, incomplete}};
    if (!code.empty()) events.emplace_back(Diagnostic{std::move(code), ""});
    return events;
  };
  const Told rows[] = {
      {"Call", call("{}", false, ""), false, true, true},
      {"Cut", call("{\"pl", true, ""), false, false, false},
      {"Spoilt", call("{}", false, "spoilt_call"), false, false, false},
      {"Repaired", call("{}", false, "mended_arguments"), false, false, true},
      {"RepairedBySchema", call("{}", false, "type_fixed"), false, true, true},
      {"Unclosed", call("{}", false, "unclosed_call"), false, true, true},
      {"UnknownTool", {ContentDelta{"x"}, Diagnostic{"unknown_tool", ""}}, true, true, true},
      {"UnknownToolCut",
       {ContentDelta{"x"}, Diagnostic{"unknown_tool", ""}, Finish{.reason = FinishReason::length}},
       true,
       false,
       true},
      {"Broken", {ContentDelta{"x"}, Diagnostic{"broken_call", ""}}, true, false, true},
      {"Leaked", {ContentDelta{"x"}, Diagnostic{"leaked_marker", ""}}, true, false, true},
      {"WhatComesLaterRepairsNothing",
       {ContentDelta{"x"}, Diagnostic{"broken_call", ""}, Diagnostic{"spoilt_call", ""},
        Diagnostic{"near_miss", ""}},
       true,
       false,
       false},
      {"LooksLikeOne", {ContentDelta{"x"}, Diagnostic{"near_miss", ""}}, false, true, true},
  };
  for (const Told& row : rows) {
    Fold fold;
    for (const ChatEvent& event : row.events) fold.add(event);
    const Given given = given_of(fold);
    EXPECT_EQ(given.has_broken_call, row.has_broken_call) << row.name;
    EXPECT_EQ(given.is_json, row.is_json) << row.name;
    EXPECT_EQ(given.is_whole, row.is_whole) << row.name;
  }
}

TEST(BenchModelScore, BaselinesAreOfTheRowsThatCount) {
  struct Guess {
    std::string_view expect;
    double chance;
  };
  const Guess rows[] = {
      {R"({"calls": [{"name": "sow"}]})", 1.0 / 3},
      {R"({"calls": [{"name": "sow"}, {"name": "sow"}]})", 1.0 / 9},
      {R"({"calls": [{"name": "sow"}, {"name": "prune"}]})", 2.0 / 9},
      {R"({"calls": [{"name": "sow"}, {"name": "prune"}, {"name": "sow"}]})", 3.0 / 27},
  };
  for (const Guess& row : rows) {
    EXPECT_DOUBLE_EQ(chance_of_tools(row_that(row.expect)), row.chance) << row.expect;
  }

  Tally tally;
  const auto add = [&](std::string_view expect, std::string_view given) {
    const Row row = row_that(expect);
    tally.add(row, given_as(given), judge(row, given_as(given)));
  };
  add(kWater, R"(water {"plant": "Rose"})");           // its tool is the first
  add(R"({"calls": [{"name": "prune"}]})", "sow {}");  // its is not
  add(kNone, "");
  add(kNone, R"(water {})");
  add(R"({"calls": null})", "prune {}");
  EXPECT_EQ(tally.requests, 5U);
  EXPECT_EQ(std::pair(tally.called.count, tally.called.of), std::pair(3UL, 3UL));
  EXPECT_EQ(std::pair(tally.valid.count, tally.valid.of), std::pair(3UL, 4UL));
  EXPECT_EQ(std::pair(tally.tool.count, tally.tool.of), std::pair(1UL, 2UL));
  EXPECT_EQ(std::pair(tally.exact.count, tally.exact.of), std::pair(1UL, 2UL));
  EXPECT_EQ(std::pair(tally.abstains.count, tally.abstains.of), std::pair(1UL, 2UL));
  EXPECT_EQ(std::pair(tally.right.count, tally.right.of), std::pair(3UL, 5UL));
  EXPECT_DOUBLE_EQ(tally.tool.chance, 2.0 / 3);
  EXPECT_DOUBLE_EQ(tally.tool.first, 1);
  EXPECT_DOUBLE_EQ(tally.abstains.chance, 2.0 / 4);
  EXPECT_DOUBLE_EQ(tally.abstains.first, 0);
  EXPECT_DOUBLE_EQ(tally.right.chance, 2.0 / 3 + 2.0 / 4 + 3.0 / 4);
  EXPECT_DOUBLE_EQ(tally.right.first, 2);
  EXPECT_DOUBLE_EQ(tally.right.never, 2);
  add(kSays, "");
  EXPECT_DOUBLE_EQ(tally.right.never, 2) << "it is to say something";
  EXPECT_DOUBLE_EQ(tally.abstains.never, 3);
  add(kWater, R"("No.")");
  EXPECT_EQ(std::pair(tally.called.count, tally.called.of), std::pair(3UL, 4UL));
  Given half = given_as("water {}");
  half.is_whole = false;
  tally.add(row_that(kWater), half, judge(row_that(kWater), half));
  EXPECT_EQ(std::pair(tally.called.count, tally.called.of), std::pair(3UL, 5UL));
}

TEST(BenchModelReport, BarFitsTheLine) {
  Figure right;
  right.add(true);
  right.add(false);
  for (std::size_t width = 0; width <= 200; ++width) {
    for (const std::size_t done : {0, 1, 50, 100}) {
      EXPECT_LE(progress_bar(done, 100, right, std::chrono::seconds(done), width).size(), width);
    }
  }
  EXPECT_EQ(progress_bar(50, 100, right, std::chrono::seconds(90), 60),
            "[############             ]  50/100  right 50.0 %  1:30 left");
  EXPECT_EQ(progress_line(50, 100, right, std::chrono::seconds(90)),
            "50/100  right 50.0 %  1:30 left");
}

}  // namespace
}  // namespace tenon::app::bench
