#include "tenon/base/expected.h"

#include <string>

#include <gtest/gtest.h>

namespace tenon {
namespace {

TEST(Error, TellsItsPlaceApartFromItsReason) {
  const Error error = Error::at(Errc::unsupported, "/properties/a/pattern", "is too large");
  EXPECT_EQ(error.message, "/properties/a/pattern: is too large");
  EXPECT_EQ(error.path, "/properties/a/pattern");
  EXPECT_EQ(error.reason(), "is too large");
}

// A message that names its place in other words, or not at all, is the reason as a whole.
TEST(Error, KeepsAMessageThatAtDidNotMake) {
  const struct {
    Error error;
    std::string reason;
  } rows[] = {
      {{Errc::invalid, "tools: one of them: is wrong"}, "tools: one of them: is wrong"},
      {{Errc::invalid, "top_k must be at least 0", "top_k"}, "top_k must be at least 0"},
      {{Errc::invalid, "a: b", "a: b"}, "a: b"},
      {{Errc::invalid, "", "a"}, ""},
  };
  for (const auto& row : rows) EXPECT_EQ(row.error.reason(), row.reason);
}

}  // namespace
}  // namespace tenon
