// The proof that a text is the same however it is cut: all cuts in two, byte by byte, token by
// token, and random cuts, over the public cases, over calls in every format, and over these cut
// short by the token limit. Quick: some of the texts; with TENON_LONG=1 all of them, 1,000 random
// cuts each: over ten million splits (a tenth of it under sanitizers, where each costs ten times
// as much).
#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/data_for_test.h"
#include "tenon/base/long_for_test.h"
#include "tenon/format/definition.h"
#include "tenon/format/format.h"
#include "tenon/format/outcome_for_test.h"
#include "tenon/format/registry.h"
#include "tenon/format/render.h"
#include "tenon/format/stream_parser.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"

namespace tenon::format {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kSplitsShare = 10;
#else
constexpr std::size_t kSplitsShare = 1;
#endif

/// Splits one text after the other, all with one outcome, and counts the splits.
class Splits {
 public:
  /// How many random splits each text gets.
  explicit Splits(std::size_t random_splits) : random_splits_(random_splits) {}

  void check(const std::shared_ptr<const Format>& format, const ParseOptions& options,
             std::string_view text, bool truncated) {
    StreamParser parser(format, options);
    const Outcome whole = outcome_at_cuts(parser, text, {}, truncated);
    const auto expect = [&](const std::vector<std::size_t>& cuts) {
      ++count_;
      const Outcome outcome = outcome_at_cuts(parser, text, cuts, truncated);
      EXPECT_EQ(outcome, whole) << format->info.name << (truncated ? ", truncated" : "")
                                << ", cut at " << ::testing::PrintToString(cuts) << ": " << text;
      return outcome == whole;
    };
    std::vector<std::size_t> cuts(text.empty() ? 0 : text.size() - 1);
    for (std::size_t i = 0; i < cuts.size(); ++i) cuts[i] = i + 1;
    if (!expect(cuts) || !expect(token_cuts(*format, text))) return;
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      if (!expect({cut})) return;
    }
    if (text.size() < 3) return;
    for (std::size_t i = 0; i < random_splits_; ++i) {
      cuts.resize(2 + dice_() % 15);
      for (std::size_t& cut : cuts) cut = 1 + dice_() % (text.size() - 1);
      std::sort(cuts.begin(), cuts.end());
      if (!expect(cuts)) return;
    }
  }

  /// The text as it is, and cut short somewhere by the token limit.
  void check_also_cut_short(const std::shared_ptr<const Format>& format,
                            const ParseOptions& options, std::string_view text) {
    ++texts_;
    check(format, options, text, false);
    if (text.size() > 2) check(format, options, text.substr(0, 1 + dice_() % text.size()), true);
  }

  void print(std::string_view what) const {
    std::cout << what << ": " << count_ << " splits of " << texts_ << " texts\n";
  }
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  /// A marker is a token, other text is one in every four bytes.
  static std::vector<std::size_t> token_cuts(const Format& format, std::string_view text) {
    std::vector<std::size_t> cuts;
    std::size_t at = 0;
    while (at < text.size()) {
      std::size_t size = 0;
      std::size_t next = 4;
      for (const std::string& marker : format.literals) {
        if (text.substr(at).starts_with(marker)) size = std::max(size, marker.size());
        for (std::size_t i = 1; i < next; ++i) {
          if (text.substr(std::min(at + i, text.size())).starts_with(marker)) next = i;
        }
      }
      at += size > 0 ? size : next;
      if (at < text.size()) cuts.push_back(at);
    }
    return cuts;
  }

  std::size_t random_splits_;
  std::size_t count_ = 0;
  std::size_t texts_ = 0;
  std::mt19937 dice_{20261122};
};

std::size_t random_splits() {
  return is_long_test() ? 1000 / kSplitsShare : 10;
}

std::string text_at(const json::Value& row, std::string_view pointer) {
  const json::Value* value = json::at_pointer(row, pointer);
  return value != nullptr && value->if_string() != nullptr ? *value->if_string() : std::string();
}

/// Names and schemas of OpenAI's list of tools.
ParseOptions options_of(const json::Value* tools) {
  ParseOptions options;
  const json::Array* list = tools != nullptr ? tools->if_array() : nullptr;
  for (const json::Value& tool : list != nullptr ? *list : json::Array()) {
    options.tools.push_back(text_at(tool, "/function/name"));
    const json::Value* schema = json::at_pointer(tool, "/function/parameters");
    options.schemas.push_back(schema != nullptr ? *schema : json::Value());
  }
  return options;
}

/// Over our own samples, and over the large set.
class SplitData : public ::testing::TestWithParam<Data> {
 protected:
  void SetUp() override {
    if (!is_there(GetParam())) GTEST_SKIP() << why_skipped(GetParam());
  }
  [[nodiscard]] static bool is_own() { return GetParam() == Data::own; }
};

INSTANTIATE_TEST_SUITE_P(Sets, SplitData, ::testing::Values(Data::own, Data::large),
                         [](const auto& test) { return name_of(test.param); });

TEST_P(SplitData, OfPublicCasesAreTheSame) {
  std::ifstream file(folder_of(GetParam()) / "formats" / "public.jsonl");
  Splits splits(random_splits());
  const auto formats = all();
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    if (number++ % 32 != 0 && !is_long_test() && !is_own()) continue;
    const auto row = json::parse(line);
    ASSERT_TRUE(row);
    auto format = find(text_at(*row, "/format"));
    const std::string text = text_at(*row, "/text");
    if (text.empty()) continue;
    // Cases of templates name those: any format has one outcome for any text.
    if (format == nullptr) format = formats[number % formats.size()];
    ParseOptions options = options_of(row->find("tools"));
    if (options.tools.empty()) options.any_tool = true;
    const std::string reasoning = text_at(*row, "/expected/reasoning");
    if (!reasoning.empty() && text.starts_with(reasoning)) options.prompt_tail = "<think>";
    splits.check_also_cut_short(format, options, text);
    if (::testing::Test::HasFailure()) break;
  }
  splits.print("public cases");
  EXPECT_GT(splits.count(), is_long_test() && !is_own() ? 200'000U : 5'000U);
}

using CallList = std::vector<message::ToolCall>;

/// An answer in a format: words, reasoning and calls around each other.
std::vector<std::string> answers_of(const Format& format, const CallList& calls) {
  const auto text = render_calls(format, calls);
  if (!text) return {};
  std::vector<std::string> answers{*text, "I will look: é 😀 < [ {\n\n" + *text + "\nDone. }]",
                                   *text + "\n" + *text};
  if (!format.reasoning_open.empty()) {
    answers.push_back(format.reasoning_open.front() + "\nHm, " + *text + "\n" +
                      format.reasoning_close.front() + "\n\n" + *text);
  }
  return answers;
}

// Calls that are hard to cut: names that begin each other, marks and escapes in strings.
TEST(Splits, OfEveryFormatAreTheSame) {
  const std::vector<std::pair<std::string, std::string>> kinds[] = {
      {{"get", "{}"}},
      {{"get_all", R"({"text": "a \"b\" \\ \n\u00e9\ud83d\ude00 é 😀", "n": -1.50e3})"}},
      {{"get_all", R"({"text": "</tool_call> ]} <|end|> [/ARGS] ```"})"}},
      {{"get", R"({"list": [1, [], {"a": null}], "flag": true})"}, {"get_all", "{}"}},
      {{"get_all", R"({"text": "true", "list": []})"},
       {"get_all", R"({"text": " \n", "flag": false})"},
       {"get", R"({"n": 12345678901234567890})"}},
  };
  ParseOptions options{.tools = {"get", "get_all"}};
  const auto schema = json::parse(
      R"({"type": "object", "properties": {"text": {"type": "string"}, "n": {"type": "number"},
          "list": {"type": "array"}, "flag": {"type": "boolean"}}})");
  options.schemas = {*schema, *schema};
  Splits splits(random_splits());
  std::size_t number = 0;
  for (const auto& format : all()) {
    for (const auto& kind : kinds) {
      if (!is_long_test() && number++ % 5 != 0) continue;
      CallList calls;
      for (const auto& [name, arguments] : kind) calls.push_back({"", name, arguments});
      for (const std::string& answer : answers_of(*format, calls)) {
        splits.check_also_cut_short(format, options, answer);
      }
    }
    if (::testing::Test::HasFailure()) break;
  }
  splits.print("calls in every format");
  EXPECT_GT(splits.count(), is_long_test() ? 200'000U : 20'000U);
}

TEST_P(SplitData, OfRealCallsAreTheSame) {
  const std::size_t stride = is_own() ? (is_long_test() ? 1 : 5) : is_long_test() ? 11 : 600;
  std::ifstream file(folder_of(GetParam()) / "formats" / "bfcl_public.jsonl");
  Splits splits(random_splits());
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    const auto row = json::parse(line);
    ASSERT_TRUE(row);
    const json::Value* expected = row->find("expected");
    if (expected->if_array() == nullptr || expected->if_array()->empty() ||
        number++ % stride != 0) {
      continue;
    }
    CallList calls;
    for (const json::Value& call : *expected->if_array()) {
      calls.push_back({"", text_at(call, "/name"), json::dumps(*call.find("arguments"), {})});
    }
    const ParseOptions options = options_of(row->find("tools"));
    for (const auto& format : all()) {
      const auto text = render_calls(*format, calls);
      if (text && text->size() < 1000) splits.check_also_cut_short(format, options, *text);
    }
    if (::testing::Test::HasFailure()) break;
  }
  splits.print("calls of real requests in every format");
  EXPECT_GT(splits.count(), is_long_test() && !is_own() ? 8'000'000U / kSplitsShare : 5'000U);
}

}  // namespace
}  // namespace tenon::format
