#include "tenon/api/error_table.h"

#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/api/error.h"
#include "tenon/base/file.h"

namespace tenon::api {
namespace {

std::string file(std::string_view path) {
  const auto text = read_file(std::filesystem::path(TENON_SOURCE_DIR) / path, 1 << 20);
  EXPECT_TRUE(text) << path;
  return text.value_or("");
}

std::string line_of(const ErrorRow& row) {
  const std::string openai(error_type(row.status));
  const std::string anthropic(error_type(row.status, Dialect::anthropic));
  std::string type = "`" + openai + "`";
  if (anthropic != openai) type += ", `" + anthropic + "`";
  constexpr std::string_view kParams[] = {"", "the field", "the field, if one is to blame"};
  return "| " + std::to_string(row.status) + " | `" + std::string(row.code) + "` | " + type +
         " | " + std::string(kParams[static_cast<std::size_t>(row.param)]) + " | " +
         std::string(row.hint) + " |";
}

TEST(ErrorTable, IsThePagesTable) {
  std::vector<std::string> of_the_page;
  std::istringstream lines(file("docs/errors.md"));
  const std::regex row(R"(\| \d.*)");
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, row)) of_the_page.push_back(line);
  }
  std::vector<std::string> of_the_code;
  for (const ErrorRow& each : kErrors) of_the_code.push_back(line_of(each));
  EXPECT_EQ(of_the_page, of_the_code);
}

TEST(ErrorTable, HasEachCodeOnce) {
  std::set<std::string_view> codes;
  for (const ErrorRow& row : kErrors) EXPECT_TRUE(codes.insert(row.code).second) << row.code;
}

// Errors of HTTP itself reach clients by Service::error.
TEST(ErrorTable, KnowsWhatTheWireRefuses) {
  const std::regex wire_error(R"re(WireError k\w+\{\d+,\s*"(\w+)")re");
  std::size_t count = 0;
  for (const std::string_view path :
       {"src/tenon/http/wire.cc", "src/tenon/http/server.cc", "src/tenon/http/answer.cc"}) {
    const std::string text = file(path);
    for (std::sregex_iterator at(text.begin(), text.end(), wire_error), end; at != end; ++at) {
      const std::string code = (*at)[1];
      if (code == "bad_response") continue;  // an error of our client about other servers
      EXPECT_EQ(ErrorCode::named(code).name(), code);
      ++count;
    }
  }
  EXPECT_GE(count, 18U);
}

// Only errors of the server itself, or that may pass, are 5xx.
TEST(ErrorTable, TellsClientsToRepeatOnlyWhatMayPass) {
  const std::set<std::string_view> kPasses = {
      "internal_error", "engine_denied",        "engine_error", "store_error",    "not_ready",
      "overloaded",     "too_many_connections", "timeout",      "server_stopping"};
  for (const ErrorRow& row : kErrors)
    EXPECT_EQ(row.status >= 500, kPasses.contains(row.code)) << row.code;
}

TEST(ErrorTable, KnowsWhatTheLayersBelowRefuse) {
  for (const std::string_view code :
       {"context_length_exceeded", "template_error", "tools_not_supported", "invalid_value",
        "unsupported_parameter", "engine_busy", "engine_error"}) {
    EXPECT_EQ(ErrorCode::named(code).name(), code);
  }
  EXPECT_EQ(ErrorCode::named("no such code").name(), "internal_error");
}

}  // namespace
}  // namespace tenon::api
