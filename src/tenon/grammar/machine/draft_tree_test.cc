#include "tenon/grammar/machine/draft_tree.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::grammar {
namespace {

using Nodes = std::vector<std::int32_t>;

TEST(DraftTree, EachNodeComesBehindItsParentAndBeforeItsSiblingsDescendants) {
  struct Row {
    const char* name;
    Nodes parents;
    Nodes order;
  };
  const Row rows[] = {
      {"TheTextAlone", {-1}, {0}},
      {"ALine", {-1, 0, 1, 2}, {0, 1, 2, 3}},
      {"Siblings", {-1, 0, 0, 0}, {0, 1, 2, 3}},
      {"ByLevels", {-1, 0, 0, 1, 2, 1}, {0, 1, 3, 5, 2, 4}},
      {"ParentsComeLater", {-1, 2, 3, 0}, {0, 3, 2, 1}},
  };
  for (const Row& row : rows) {
    const Nodes tokens(row.parents.size(), 7);
    const auto order = preorder({tokens, row.parents});
    ASSERT_TRUE(order) << row.name << ": " << order.error().message;
    EXPECT_EQ(*order, row.order) << row.name;
  }
}

TEST(DraftTree, WhatIsNoTreeIsRefused) {
  struct Row {
    const char* name;
    Nodes parents;
    std::size_t tokens;
    std::string_view message;  // a part of it
  };
  const Row rows[] = {
      {"NoNode", {}, 0, "the first must be -1"},
      {"NodeZeroHasAParent", {1, -1}, 2, "the first must be -1"},
      {"ASecondRoot", {-1, 0, -1}, 3, "parents[2]: there is no node -1"},
      {"ParentThatIsNotThere", {-1, 0, 3}, 3, "parents[2]: there is no node 3"},
      {"ItsOwnParent", {-1, 0, 2}, 3, "1 nodes have a circle"},
      {"Circle", {-1, 0, 4, 2, 3, 1}, 6, "3 nodes have a circle"},
      {"FewerTokens", {-1, 0}, 1, "there are 2 of them, and 1 tokens"},
  };
  for (const Row& row : rows) {
    const Nodes tokens(row.tokens, 7);
    const auto order = preorder({tokens, row.parents});
    ASSERT_FALSE(order) << row.name;
    EXPECT_EQ(order.error().code, Errc::invalid) << row.name;
    EXPECT_NE(order.error().message.find(row.message), std::string::npos)
        << row.name << ": " << order.error().message;
  }
}

}  // namespace
}  // namespace tenon::grammar
