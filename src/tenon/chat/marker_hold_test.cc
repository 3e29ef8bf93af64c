#include "tenon/chat/marker_hold.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::chat {
namespace {

struct MarkerRow {
  std::string_view text;
  std::string_view passed;
};

constexpr MarkerRow kMarkers[] = {
    {"Wait. <tool_c", "Wait. "},
    {"Wait. [TOOL_CAL", "Wait. "},
    {"Wait. <|tool", "Wait. "},
    {"Wait. <", "Wait. "},
    {"Wait. <tool_call>", "Wait. <tool_call>"},
    {"a < b", "a < b"},
    {"[1, 2]", "[1, 2]"},
    {"<tool_c <tool_c", "<tool_c "},
    {"nothing", "nothing"},
};

TEST(MarkerHold, HoldsTheBeginningOfAMarker) {
  for (const MarkerRow& row : kMarkers) {
    for (std::size_t cut = 0; cut <= row.text.size(); ++cut) {
      MarkerHold hold(markers_of_all_formats());
      std::string passed = hold.pass(std::string(row.text.substr(0, cut)));
      passed += hold.pass(std::string(row.text.substr(cut)));
      EXPECT_EQ(passed, row.passed) << row.text << " cut at " << cut;
      EXPECT_EQ(passed + hold.release(), row.text);
    }
  }
}

TEST(MarkerHold, KnowsTheMarkersOfAllFormats) {
  for (const std::string marker : {"<tool_call>", "[TOOL_CALLS]", "<|channel|>"}) {
    EXPECT_TRUE(std::ranges::count(markers_of_all_formats(), marker) == 1) << marker;
  }
}

}  // namespace
}  // namespace tenon::chat
