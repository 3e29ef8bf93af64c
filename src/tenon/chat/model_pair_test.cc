#include "tenon/chat/model_pair.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

namespace tenon::chat {
namespace {

struct ModelPairRow {
  std::string name, text, root, sub;
};
const ModelPairRow kModelPairRows[] = {
    {"Two", "a:b", "a", "b"},
    {"TheSameTwice", "a:a", "a", "a"},
    {"ColonsInNames", "a:b:b", "a:b", "b"},
    {"FirstPlaceAtWhichBothAreKnown", "a:b:c", "a", "b:c"},
    {"OneIsUnknown", "a:x", "", ""},
    {"OneIsMissing", "a:", "", ""},
    {"NoColon", "a", "", ""},
    {"Nothing", "", "", ""},
};

TEST(SplitPair, AsTheRowsSay) {
  const auto is_part = [](std::string_view name) {
    return name == "a" || name == "b" || name == "a:b" || name == "b:c";
  };
  for (const ModelPairRow& row : kModelPairRows) {
    SCOPED_TRACE(row.name);
    const auto pair = split_pair(row.text, is_part);
    EXPECT_EQ(pair.has_value(), !row.root.empty());
    if (!pair) continue;
    EXPECT_EQ(pair->root, row.root);
    EXPECT_EQ(pair->sub, row.sub);
  }
}

}  // namespace
}  // namespace tenon::chat
