#include "tenon/base/descriptor.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

bool is_open(int number) {
  return ::fcntl(number, F_GETFD) >= 0;
}

TEST(Descriptor, ClosesWhatItHas) {
  int number = -1;
  {
    const Descriptor file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(file.is_open());
    number = file.get();
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(Descriptor, MovesLeaveOneOwner) {
  Descriptor one(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = one.get();
  Descriptor other(std::move(one));
  EXPECT_FALSE(one.is_open());  // NOLINT(bugprone-use-after-move): that is the question
  EXPECT_EQ(other.get(), number);
  Descriptor third;
  third = std::move(other);
  EXPECT_EQ(third.get(), number);
  third.close();
  EXPECT_FALSE(is_open(number));
  EXPECT_FALSE(third.is_open());
}

// What has failed before an object is destroyed can still be told.
TEST(Descriptor, ClosingKeepsErrno) {
  Descriptor file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  errno = EPERM;
  file.close();
  EXPECT_EQ(errno, EPERM);
  Descriptor none(::open("/nowhere/at/all", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(none.is_open());
  none.close();
  EXPECT_EQ(errno, ENOENT);
}

}  // namespace
}  // namespace tenon
