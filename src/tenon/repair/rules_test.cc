#include "tenon/repair/rules.h"

#include <string_view>

#include <gtest/gtest.h>

#include "tenon/repair/builtin_rules.h"

namespace tenon::repair {
namespace {

TEST(Rules, ThoseThatComeWithTenonCompile) {
  ASSERT_EQ(builtin_rules().size(), 1U);
  const auto rules = Rules::compile(builtin_rules().front().bytes, "repair.toml");
  ASSERT_TRUE(rules) << rules.error().message;
  EXPECT_EQ((*rules)->of("bash").size(), 1U);
  EXPECT_TRUE((*rules)->of("Bash").empty());
  EXPECT_TRUE((*rules)->are_aliases("file", "file_path"));
  EXPECT_TRUE((*rules)->are_aliases("cmd", "Command"));
  EXPECT_FALSE((*rules)->are_aliases("cmd", "file"));
}

TEST(Rules, ErrorsNamePlaceAndKey) {
  const struct {
    std::string_view toml;
    std::string_view error;
  } rows[] = {
      {"a = ", "r.toml:1:"},
      {"alias = 3", "r.toml:1:9: 'alias': must be tables"},
      {"[[alias]]\nnames = ['a']", "must have two 'names' or more"},
      {"[[alias]]\nname = ['a', 'b']", "r.toml:2:8: 'name': is not known here; there is names"},
      {"[[alias]]\nnames = 'a'", "r.toml:2:9: 'names': must be a list of 1 to 256 strings"},
      {"[[alias]]\nnames = ['a', 3]", "must be a list of strings that are not empty"},
      {"[[rule]]\ntools = ['a']\nvalue = 'x'", "lacks 'field'"},
      {"[[rule]]\nfield = 'a'\nvalue = 'x'", "lacks 'tools'"},
      {"[[rule]]\ntools = ['a']\nfield = 'x'", "says nothing: give 'value', 'type' or 'from'"},
      {"[[rule]]\ntools = ['a']\nfield = 'x'\ntype = 'bool'",
       "r.toml:4:8: 'type': must be boolean, integer, string, array or object"},
      {"[[rule]]\ntools = ['a']\nfield = 'x'\nvalues = 'x'", "'values': is not known here"},
      {"[[rules]]\ntools = ['a']", "'rules': is not known here; there are [[alias]] and [[rule]]"},
  };
  for (const auto& row : rows) {
    const auto rules = Rules::compile(row.toml, "r.toml");
    ASSERT_FALSE(rules) << row.toml;
    EXPECT_NE(rules.error().message.find(row.error), std::string::npos)
        << rules.error().message << "\n  wanted " << row.error;
  }
}

TEST(Misspelt, FindsTheOneThatIsMeant) {
  const struct {
    std::string_view name;
    std::vector<std::string> names;
    std::string_view found;
  } rows[] = {
      {"Get-Weather", {"get_weather", "get_time"}, "get_weather"},
      {"getWeather", {"get_weather"}, "get_weather"},
      {"get_weather", {"get_weather", "get-weather"}, ""},
      {"weather", {"get_weather"}, ""},
      {"_", {"-"}, ""},
  };
  for (const auto& row : rows) {
    const std::string* found = misspelt(row.name, row.names);
    EXPECT_EQ(found == nullptr ? "" : *found, row.found) << row.name;
  }
}

}  // namespace
}  // namespace tenon::repair
