#include "tenon/rlm/filter.h"

#include <gtest/gtest.h>
#include <linux/filter.h>

namespace tenon::rlm {
namespace {

TEST(Filter, IsAProgramThatTheKernelTakes) {
  const auto filter = make_filter();
  ASSERT_TRUE(filter) << filter.error().message;
  EXPECT_EQ(filter->size() % sizeof(sock_filter), 0U);
  EXPECT_LE(filter->size() / sizeof(sock_filter), 4096U);  // BPF_MAXINSNS
  EXPECT_EQ(*filter, *make_filter());
  EXPECT_NE(*filter, *make_filter(/*has_folder=*/true));
}

}  // namespace
}  // namespace tenon::rlm
