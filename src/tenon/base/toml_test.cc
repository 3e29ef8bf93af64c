#include "tenon/base/toml.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::toml {
namespace {

// The tree as one line: kinds by their brackets, "@line:column" behind each scalar.
void print(const Value& value, std::string& out);

void print(const Table& table, std::string& out) {
  out += '{';
  for (const Entry& entry : table.entries()) {
    if (out.back() != '{') out += ' ';
    out += entry.key + "=";
    print(entry.value, out);
  }
  out += '}';
}

void print(const Value& value, std::string& out) {
  if (const Table* table = value.if_table()) return print(*table, out);
  if (const Array* items = value.if_array()) {
    out += '[';
    for (const Value& item : *items) {
      if (out.back() != '[') out += ' ';
      print(item, out);
    }
    out += ']';
    return;
  }
  if (const std::string* text = value.if_string()) out += '"' + *text + '"';
  if (const std::int64_t* number = value.if_integer()) out += std::to_string(*number);
  if (const double* number = value.if_floating()) out += std::to_string(*number);
  if (const bool* truth = value.if_boolean()) out += *truth ? "true" : "false";
  if (const DateTime* time = value.if_date_time()) out += time->text;
  out +=
      '@' + std::to_string(value.position().line) + ':' + std::to_string(value.position().column);
}

struct TextRow {
  std::string_view name;
  std::string_view text;
  std::string_view tree;
};

const TextRow kTexts[] = {
    {"Empty", "", "{}"},
    {"Comment", "# nothing\n", "{}"},
    {"Scalars", "a = \"x\"\nb = -5\nc = 1.5\nd = true\n",
     "{a=\"x\"@1:5 b=-5@2:5 c=1.500000@3:5 d=true@4:5}"},
    {"OrderIsTheTexts", "z = 1\na = 2\n", "{z=1@1:5 a=2@2:5}"},
    {"Tables", "[server]\nport = 1\n[client]\nport = 2\n",
     "{server={port=1@2:8} client={port=2@4:8}}"},
    {"ArrayOfTables", "[[model]]\nname = \"b\"\n[[model]]\nname = \"a\"\n",
     "{model=[{name=\"b\"@2:8} {name=\"a\"@4:8}]}"},
    {"InlineTable", "a = {y = 1, x = [1, \"two\"]}", "{a={y=1@1:10 x=[1@1:18 \"two\"@1:21]}}"},
    {"DottedKeys", "a.b = 1\na.c = 2", "{a={b=1@1:7 c=2@2:7}}"},
    {"MultilineString", "a = \"\"\"\nx\ny\"\"\"\nb = '''\n\\d'''\n",
     "{a=\"x\ny\"@1:5 b=\"\\d\"@4:5}"},
    {"Escapes", "a = \"\\u00e9\\n\"", "{a=\"\u00e9\n\"@1:5}"},
    {"Times", "a = 2020-01-02T03:04:05Z\nb = 2020-01-02\n",
     "{a=2020-01-02T03:04:05Z@1:5 b=2020-01-02@2:5}"},
    {"ColumnsAreCharacters", "a = [\"\u00e9\U0001F600\", 7]",
     "{a=[\"\u00e9\U0001F600\"@1:6 7@1:12]}"},
};

TEST(TomlParse, KeepsOrderAndPlaces) {
  for (const TextRow& row : kTexts) {
    const auto document = parse(row.text, "x.toml");
    ASSERT_TRUE(document) << row.name << ": " << document.error().message;
    std::string tree;
    print(document->root, tree);
    EXPECT_EQ(tree, row.tree) << row.name;
  }
}

TEST(TomlParse, FailsAtLineAndColumn) {
  const std::pair<std::string_view, std::string_view> rows[] = {
      {"a = ", "x.toml:1:"},         {"a = 1\na = 2\n", "x.toml:2:"},
      {"\n\n[a\n", "x.toml:3:"},     {"a = 1 b = 2", "x.toml:1:"},
      {"a = \"\xFF\"", "x.toml:1:"}, {"a = 99999999999999999999", "x.toml:1:"},
      {"a = \"open", "x.toml:1:"},   {"[a]\n[a]\n", "x.toml:2:"},
  };
  for (const auto& [text, place] : rows) {
    const auto document = parse(text, "x.toml");
    ASSERT_FALSE(document) << text;
    EXPECT_EQ(document.error().code, Errc::invalid);
    EXPECT_TRUE(document.error().message.starts_with(place)) << document.error().message;
  }
}

TEST(TomlParse, StopsAtItsLimits) {
  EXPECT_TRUE(parse("a = 1", "x", {.max_bytes = 5}));
  EXPECT_EQ(parse("a = 12", "x", {.max_bytes = 5}).error(),
            (Error{Errc::limit_exceeded, "x: larger than 5 bytes"}));
  const std::string deep = "a = " + std::string(100'000, '[');
  EXPECT_FALSE(parse(deep, "x"));
}

TEST(TomlDocument, NamesThePlaceAndTheKey) {
  const auto document = parse("[server]\nport = \"x\"\n", "t.toml");
  ASSERT_TRUE(document);
  const Table* server = document->root.find("server")->if_table();
  ASSERT_NE(server, nullptr);
  const Entry& port = server->entries().front();
  EXPECT_EQ(document->error(port, "expected an integer").message,
            "t.toml:2:8: 'port': expected an integer");
  EXPECT_EQ(document->error(Position{7, 1}, "no").message, "t.toml:7:1: no");
  EXPECT_EQ(server->find("host"), nullptr);
  EXPECT_EQ(kind_name(port.value.kind()), "a string");
  EXPECT_EQ(kind_name(Kind::table), "a table");
}

}  // namespace
}  // namespace tenon::toml
