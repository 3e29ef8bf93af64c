#include "tenon/message/message.h"

#include <optional>
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

TEST(CustomTool, IsAFunctionOfOneText) {
  const Tool tool = custom_tool("run", "Runs code.", std::nullopt);
  EXPECT_TRUE(tool.is_custom);
  EXPECT_EQ(json::to_string(tool.raw),
            R"({"type":"function","function":{"name":"run","description":"Runs code.",)"
            R"("parameters":{"type":"object","properties":{"input":{"type":"string"}},)"
            R"("required":["input"],"additionalProperties":false}}})");
  EXPECT_EQ(arguments_of("say \"ä\"\n"), R"({"input": "say \"ä\"\n"})");

  const TextGrammar digits{TextGrammar::Syntax::regex, "[0-9]+"};
  const Tool held = custom_tool("dial", "", digits);
  EXPECT_EQ(held.grammar, digits);
  EXPECT_EQ(json::to_string(*json::at_pointer(held.raw, "/function/parameters/properties/input")),
            R"({"type":"string","description":"A text of this regular expression:\n[0-9]+"})");
  EXPECT_EQ(held.raw.find("function")->find("description"), nullptr);
}

}  // namespace
}  // namespace tenon::message
