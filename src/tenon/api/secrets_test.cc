#include "tenon/api/secrets.h"

#include <gtest/gtest.h>

namespace tenon::api {
namespace {

struct SecretRow {
  const char* name;
  const char* body;
  const char* masked;
};

TEST(Secrets, OfServersOfToolsAreMasked) {
  constexpr SecretRow kRows[] = {
      {"Headers", R"({"tools":[{"type":"mcp","headers":{"X-Key":"s3cret","B":"s3cret"}}]})",
       R"({"tools":[{"type":"mcp","headers":{"X-Key":"***","B":"***"}}]})"},
      {"HeadersThatAreNoObject", R"({"tools":[{"type":"mcp","headers":"s3cret"}]})",
       R"({"tools":[{"type":"mcp","headers":"***"}]})"},
      {"Authorization", R"({"tools":[{"type":"mcp","authorization":"s3cret"}]})",
       R"({"tools":[{"type":"mcp","authorization":"***"}]})"},
      {"TokenOfAnthropic", R"({"mcp_servers":[{"type":"url","authorization_token":"s3cret"}]})",
       R"({"mcp_servers":[{"type":"url","authorization_token":"***"}]})"},
      {"QueryOfAnAddress", R"({"tools":[{"type":"mcp","server_url":"https://h/mcp?key=s3cret"}]})",
       R"({"tools":[{"type":"mcp","server_url":"https://h/mcp"}]})"},
      {"QueryOfAnthropicsAddress", R"({"mcp_servers":[{"url":"https://h/mcp?key=s3cret"}]})",
       R"({"mcp_servers":[{"url":"https://h/mcp"}]})"},
      {"EscapedNames", R"({"\u006dcp_servers":[{"authorization_token":"s3cret","u":"mcp"}]})",
       R"({"mcp_servers":[{"authorization_token":"***","u":"mcp"}]})"},
      {"EscapedType", R"({"tools":[{"type":"m\u0063p","headers":{"X":"s3cret"}}]})",
       R"({"tools":[{"type":"mcp","headers":{"X":"***"}}]})"},
      {"EscapedList", R"({"\u006dcp_servers":[{"authorization_token":"s3cret"}]})",
       R"({"mcp_servers":[{"authorization_token":"***"}]})"},
      {"FunctionsStayAsTheyAre", R"({"tools": [{"type": "function", "headers": {"mcp": "x"}}]})",
       R"({"tools": [{"type": "function", "headers": {"mcp": "x"}}]})"},
      {"NotJson", "mcp {", "mcp {"},
      {"OddShapes", R"({"tools":{"mcp":1},"mcp_servers":[1]})",
       R"({"tools":{"mcp":1},"mcp_servers":[1]})"},
  };
  for (const SecretRow& row : kRows) {
    EXPECT_EQ(without_secrets(row.body), row.masked) << row.name;
  }
}

}  // namespace
}  // namespace tenon::api
