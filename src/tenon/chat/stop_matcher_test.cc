#include "tenon/chat/stop_matcher.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::chat {
namespace {

struct StopMatcherCase {
  std::string_view name;
  std::vector<std::string> stops;
  std::string_view text;
  std::string_view visible;
  std::string_view matched;
};

const StopMatcherCase kStopMatcherCases[] = {
    {"NoStopStrings", {}, "all of it", "all of it", ""},
    {"EmptyStopStringIsNone", {""}, "all of it", "all of it", ""},
    {"NotInTheText", {"END"}, "all of it EN", "all of it EN", ""},
    {"InTheMiddle", {"END"}, "a END b", "a ", "END"},
    {"AtTheStart", {"END"}, "END b", "", "END"},
    {"PrefixThatFailsIsText", {"aab"}, "aaaaab!", "aaa", "aab"},
    {"OverlapsItself", {"abab"}, "aababab", "a", "abab"},
    {"FirstCompleteWins", {"bcd", "c"}, "abcd", "ab", "c"},
    {"LongestOfThoseCompleteTogether", {"c", "abc", "bc"}, "xabc", "x", "abc"},
    {"LongerOneUnderWayIsDropped", {"abcde", "bc"}, "abcde", "a", "bc"},
    {"NewlineStop", {"\n\n"}, "one\ntwo\n\nthree", "one\ntwo", "\n\n"},
    {"ManyBytesPerCharacter", {"\u00e9\u4e16"}, "x\u00e9\u00e9\u4e16y", "x\u00e9", "\u00e9\u4e16"},
    {"FirstByteOfACharacterIsNotAStop", {"\u00e9"}, "\u00e8\u00e8", "\u00e8\u00e8", ""},
};

struct Result {
  std::string visible;
  std::string matched;
  bool operator==(const Result&) const = default;
};

Result run(const StopMatcherCase& test, const std::vector<std::string_view>& pieces) {
  StopMatcher matcher(test.stops);
  Result result;
  for (const std::string_view piece : pieces) {
    if (matcher.feed(piece, result.visible)) break;
  }
  if (matcher.matched().empty()) matcher.flush(result.visible);
  result.matched = matcher.matched();
  return result;
}

class Stops : public ::testing::TestWithParam<StopMatcherCase> {};

TEST_P(Stops, AreTheSameWhereverTheTextIsCut) {
  const StopMatcherCase& test = GetParam();
  const Result expected{std::string(test.visible), std::string(test.matched)};
  for (std::size_t first = 0; first <= test.text.size(); ++first) {
    for (std::size_t second = first; second <= test.text.size(); ++second) {
      EXPECT_EQ(run(test, {test.text.substr(0, first), test.text.substr(first, second - first),
                           test.text.substr(second)}),
                expected)
          << first << ' ' << second;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, Stops, ::testing::ValuesIn(kStopMatcherCases),
                         [](const auto& test) { return std::string(test.param.name); });

// The definition, written plainly: the shortest prefix of the text that ends in a stop string.
Result by_definition(const std::vector<std::string>& stops, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::optional<std::string> longest;
    for (const std::string& stop : stops) {
      if (stop.empty() || stop.size() > end) continue;
      if (text.compare(end - stop.size(), stop.size(), stop) != 0) continue;
      if (!longest || stop.size() > longest->size()) longest = stop;
    }
    if (longest) return {text.substr(0, end - longest->size()), *longest};
  }
  return {text, ""};
}

std::string word(std::uint32_t& state, std::size_t max_length) {
  std::string made;
  const auto next = [&state] { return state = state * 1664525u + 1013904223u, state >> 16; };
  const std::size_t length = next() % (max_length + 1);
  for (std::size_t i = 0; i < length; ++i) made += static_cast<char>('a' + next() % 2);
  return made;
}

TEST(StopMatcher, AgreesWithTheDefinitionAndHoldsNothingBackWithoutNeed) {
  std::uint32_t state = 1;
  for (int round = 0; round < 20'000; ++round) {
    const StopMatcherCase test{"", {word(state, 4), word(state, 4), word(state, 4)}, "", "", ""};
    const std::string text = word(state, 12);
    const Result expected = by_definition(test.stops, text);
    StopMatcher matcher(test.stops);
    std::string visible;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool stopped = matcher.feed(std::string_view(text).substr(i, 1), visible);
      if (stopped) break;
      // What is held back is the start of a stop string, in full.
      const std::string held = text.substr(visible.size(), i + 1 - visible.size());
      bool is_prefix = held.empty();
      for (const std::string& stop : test.stops)
        is_prefix |= stop.compare(0, held.size(), held) == 0;
      EXPECT_TRUE(is_prefix) << text << " at " << i << " holds " << held;
    }
    if (matcher.matched().empty()) matcher.flush(visible);
    EXPECT_EQ(visible, expected.visible) << text;
    EXPECT_EQ(matcher.matched(), expected.matched) << text;
  }
}

}  // namespace
}  // namespace tenon::chat
