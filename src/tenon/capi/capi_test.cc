#include <gtest/gtest.h>
#include <tenon.h>

TEST(Capi, Version) {
  EXPECT_STREQ(tenon_version(), "0.1.0");
}
