// The `main` of every test program: enters the tree's root, where TENON_SOURCE_DIR (".") is meant,
// and runs the tests.
#include <cstdio>

#include <gtest/gtest.h>
#include <unistd.h>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (chdir(TENON_SOURCE_DIR) != 0) {
    std::perror(TENON_SOURCE_DIR);
    return 1;
  }
  return RUN_ALL_TESTS();
}
