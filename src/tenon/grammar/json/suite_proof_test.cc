// Our own tests of single keywords, and JSON-Schema-Test-Suite if it is installed, by mask. The
// list of failures may only shrink: tests/golden/masks_of_suite.txt names the groups of the suite
// that fail; all others must pass, and a group that passes must leave the list.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/grammar/json/json_frames.h"
#include "tenon/grammar/machine/matcher.h"
#include "tenon/json/value.h"
#include "tenon/schema/suite_for_test.h"

namespace tenon::grammar {
namespace {

struct Case {
  std::string text;
  bool is_valid = false;
};

struct Group {
  std::string id;  // "draft7/ref/3"
  bool is_required = false;
  json::Value schema;
  schema::CompileOptions options;
  std::vector<Case> cases;
};

std::vector<Group> read_groups(Data data, const std::string& draft) {
  std::vector<Group> groups;
  for (const schema::SuiteTest& test : schema::suite_tests(data, draft)) {
    const std::string group = test.id.substr(0, test.id.rfind('/'));
    if (groups.empty() || groups.back().id != group) {
      groups.push_back({.id = group,
                        .is_required = test.section == "required",
                        .schema = test.schema,
                        .options = test.options,
                        .cases = {}});
    }
    groups.back().cases.push_back({json::to_string(test.instance), test.is_valid});
  }
  return groups;
}

// The verdict on a text does not depend on the vocabulary, so this is the smallest.
std::shared_ptr<VocabIndex> suite_bytes_index() {
  std::vector<vocab::Token> tokens(256);
  for (unsigned byte = 0; byte < 256; ++byte) tokens[byte].bytes = static_cast<char>(byte);
  return std::make_shared<VocabIndex>(*vocab::Vocab::make(std::move(tokens), {}));
}

Expected<std::shared_ptr<Grammar>> suite_grammar_of(const Group& group,
                                                    const std::shared_ptr<VocabIndex>& index) {
  auto schema = schema::Schema::compile(group.schema, group.options);
  if (!schema) return Unexpected(schema.error());
  return Grammar::make(
      [schema = *schema](Machine& machine) {
        return add_json(machine, schema, {.whitespace = JsonOptions::Whitespace::any});
      },
      index);
}

// "right", "refused" (no grammar, but an error that says why), or "wrong": a verdict on a text is.
std::string verdict_of(const Group& group, const std::shared_ptr<VocabIndex>& index) {
  const auto grammar = suite_grammar_of(group, index);
  if (!grammar) {
    const bool is_right = grammar.error().code == Errc::unsatisfiable &&
                          std::ranges::none_of(group.cases, &Case::is_valid);
    return is_right ? "right" : "refused";
  }
  for (const Case& each : group.cases) {
    Matcher matcher(*grammar);
    const bool is_accepted = matcher.accept_bytes(each.text) && matcher.is_accepting();
    if (is_accepted != each.is_valid) return "wrong";
  }
  return "right";
}

// The groups that are not right.
std::map<std::string, std::string> listed_verdicts() {
  std::map<std::string, std::string> verdicts;
  std::ifstream lines(std::filesystem::path(TENON_SOURCE_DIR) / "tests" / "golden" /
                      "masks_of_suite.txt");
  EXPECT_TRUE(lines.is_open());
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    const std::size_t space = line.find(' ');
    verdicts[line.substr(space + 1)] = line.substr(0, space);
  }
  return verdicts;
}

class SuiteProof : public ::testing::TestWithParam<std::tuple<Data, const char*>> {};

TEST_P(SuiteProof, NoGroupGetsWorse) {
  const auto& [data, draft] = GetParam();
  if (!is_there(data)) GTEST_SKIP() << why_skipped(data);
  const std::map<std::string, std::string> listed = listed_verdicts();
  const auto index = suite_bytes_index();
  const std::vector<Group> groups = read_groups(data, draft);
  EXPECT_GE(groups.size(), data == Data::own ? 20U : 100U);
  for (const Group& group : groups) {
    const auto line = listed.find(group.id);
    const std::string expected = line == listed.end() ? "right" : line->second;
    const std::string verdict = verdict_of(group, index);
    EXPECT_EQ(verdict, expected) << "if it is better, correct tests/golden/masks_of_suite.txt: "
                                 << verdict << " " << group.id;
    EXPECT_FALSE(group.is_required && verdict == "wrong") << group.id;
  }
}

INSTANTIATE_TEST_SUITE_P(Drafts, SuiteProof,
                         ::testing::Combine(::testing::Values(Data::own, Data::large),
                                            ::testing::Values("draft4", "draft6", "draft7",
                                                              "draft2019-09", "draft2020-12")),
                         [](const auto& test) {
                           return schema::test_name(std::get<0>(test.param),
                                                    std::get<1>(test.param));
                         });

}  // namespace
}  // namespace tenon::grammar
