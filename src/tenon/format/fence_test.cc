#include "tenon/format/fence.h"

#include <algorithm>
#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::format {
namespace {

// `@` stands for a call that may be inside a fence, `!` for one that may not.
struct FenceRow {
  std::string_view name;
  std::string_view text;
  std::string_view content;
};

void PrintTo(const FenceRow& row, std::ostream* os) {
  *os << row.name;
}

const FenceRow kFences[] = {
    {"AroundACall", "```xml\n@\n```", "@"},
    {"WithoutAWord", "```\n@\n```\n", "@\n"},
    {"BehindWords", "Sure:\n```json\n@\n```\nDone.", "Sure:\n@\nDone."},
    {"BehindBlanks", "  ```\n@\n```", "  @"},
    {"OnTheCallsLine", "```@```\nDone.", "@\nDone."},
    {"OfMoreTicks", "````\n@\n````", "@"},
    {"AroundSeveralCalls", "```\n@\n@\n```", "@@"},
    {"TheOtherLineIsMissing", "```\n@\n", "@"},
    {"TheOtherLineIsBegun", "```\n@\n``", "@"},
    {"TwoFences", "```\n@\n```\n\n```\n@\n```", "@\n\n@"},
    {"WhereNoneMayBe", "```\n!\n```", "```\n!\n```"},
    {"WithWordsBeforeTheCall", "```\nlook:\n@\n```", "```\nlook:\n@\n```"},
    {"WithWordsBehindTheCall", "```\n@\nlook\n```", "@```\n\nlook\n```"},
    {"WithWordsBehindIt", "```\n@\n```json", "@```\n\n```json"},
    {"OfOtherTicksBehindTheCall", "```\n@\n````", "@```\n\n````"},
    {"OfTildes", "~~~\n@\n~~~", "@"},
    {"OfTildesAndTicks", "~~~\n@\n```", "@~~~\n\n```"},
    {"TwoTicks", "``\n@\n``", "``\n@\n``"},
    {"NotAtALinesBeginning", "so ```\n@\n```", "so ```\n@\n```"},
    {"OfWords", "```a b(c)\n@", "```a b(c)\n@"},
    {"OfMuchSpace", "```\n                                                                 @",
     "```\n                                                                 @"},
    {"AlongWord",
     "```aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n@",
     "```aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n@"},
    {"ACodeBlock", "```py\nx = 1\n```\nSo.", "```py\nx = 1\n```\nSo."},
};

// Reads the text as the parser does, in pieces of this size.
std::string content_of(std::string_view text, std::size_t size) {
  Fence fence;
  std::string content;
  while (!text.empty()) {
    std::string_view piece = text.substr(0, size);
    piece = piece.substr(0, std::max<std::size_t>(piece.find_first_of("@!"), 1));
    text.remove_prefix(piece.size());
    if (piece == "@" || piece == "!") {
      content += fence.at_call(piece == "@");
      content += piece;
      continue;
    }
    while (!piece.empty()) {
      if (!fence.is_open()) {
        const std::size_t plain = fence.plain(piece);
        content += piece.substr(0, plain);
        piece.remove_prefix(plain);
        if (piece.empty()) break;
      }
      const Fence::Reading reading = fence.step(piece.front());
      if (reading == Fence::Reading::closed) continue;
      piece.remove_prefix(1);
      if (reading == Fence::Reading::text) content += fence.release();
    }
  }
  return content + fence.finish();
}

class Fences : public ::testing::TestWithParam<FenceRow> {};

TEST_P(Fences, AreMarkersAroundCallsAlone) {
  const FenceRow& row = GetParam();
  for (const std::size_t size : {1U, 2U, 3U, 5U, 1000U}) {
    EXPECT_EQ(content_of(row.text, size), row.content) << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Fences, ::testing::ValuesIn(kFences),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace tenon::format
