#include "tenon/mcp/offer.h"

#include <string_view>

#include <gtest/gtest.h>

namespace tenon::mcp {
namespace {

struct TemplateRow {
  std::string_view name;
  std::string_view pattern;
  std::string_view uri;
  std::string_view values;  // "": the URI is not of the template
};

const TemplateRow kTemplates[] = {
    {"NoNames", "test://a", "test://a", "{}"},
    {"AnotherUri", "test://a", "test://ab", ""},
    {"OneName", "test://{id}/data", "test://123/data", R"({"id":"123"})"},
    {"NameAtTheEnd", "test://{id}", "test://123", R"({"id":"123"})"},
    {"TwoNames", "t://{a}/x/{b}", "t://1/x/2", R"({"a":"1","b":"2"})"},
    {"NameAfterName", "t://{a}-{b}", "t://1-2-3", R"({"a":"1","b":"2-3"})"},
    {"AValueIsNotEmpty", "t://{a}/x", "t:///x", ""},
    {"AValueHasNoSlash", "t://{a}", "t://1/2", ""},
    {"ValueBeforeAnotherEnd", "t://{a}/x", "t://1/y", ""},
    {"MoreBehindTheEnd", "t://{a}/x", "t://1/x/y", ""},
    {"BraceWithoutEnd", "t://{a", "t://1", ""},
    {"Empty", "t://{a}", "", ""},
};

TEST(Offer, FindsTheValuesOfATemplate) {
  for (const TemplateRow& row : kTemplates) {
    const auto values = template_values(row.pattern, row.uri);
    EXPECT_EQ(values ? json::to_string(json::Value(*values)) : "", row.values) << row.name;
  }
}

}  // namespace
}  // namespace tenon::mcp
