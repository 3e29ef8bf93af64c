#include "tenon/message/message.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::message {
namespace {

TEST(Role, NamesAreReadBack) {
  for (Role role : {Role::system, Role::developer, Role::user, Role::assistant, Role::tool}) {
    EXPECT_EQ(role_from_name(role_name(role)), role) << role_name(role);
  }
  EXPECT_EQ(role_name(Role::developer), "developer");
  for (std::string_view other : {"", "Assistant", "function", "user "}) {
    EXPECT_EQ(role_from_name(other), std::nullopt) << other;
  }
}

TEST(Message, TextIsTheContentOrTheTextPartsJoined) {
  EXPECT_EQ(Message{}.text(), "");
  EXPECT_EQ(Message{.content = "a"}.text(), "a");
  const Message parts{.parts = {{.text = "a"}, {.type = "image_url", .text = "b"}, {.text = "c"}}};
  EXPECT_EQ(parts.text(), "ac");
  EXPECT_EQ((Message{.content = "", .parts = {{.text = "a"}}}.text()), "") << "content wins";
}

}  // namespace
}  // namespace tenon::message
