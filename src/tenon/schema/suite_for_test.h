#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/base/data_for_test.h"
#include "tenon/base/file.h"
#include "tenon/json/value.h"
#include "tenon/schema/schema.h"

/// Tests in the form of JSON-Schema-Test-Suite, for this layer and those that build on it: our own,
/// and the suite itself in the large set of test data.
namespace tenon::schema {

/// One JSON object per line of the suite. The lines of a group share a schema and are neighbours.
struct SuiteTest {
  std::string id;       ///< "draft7/ref/3/0", the group's and a number.
  std::string section;  ///< "required", "optional" or "format".
  json::Value schema;
  json::Value instance;
  bool is_valid = false;
  CompileOptions options;
};

/// The documents to which the suite's schemas refer; they outlive the tests.
inline const json::Object& suite_documents(Data data) {
  const auto read = [](Data of) {
    const auto text = read_file(folder_of(of) / "schemas" / "remotes.json", std::size_t{16} << 20);
    EXPECT_TRUE(text) << text.error().message;
    const auto documents = json::parse(text ? *text : "{}");
    EXPECT_TRUE(documents && documents->if_object() != nullptr);
    return documents && documents->if_object() != nullptr ? *documents->if_object()
                                                          : json::Object();
  };
  static const json::Object kOwn = read(Data::own);
  static const json::Object kLarge = is_there(Data::large) ? read(Data::large) : json::Object();
  return data == Data::own ? kOwn : kLarge;
}

inline std::vector<SuiteTest> suite_tests(Data data, const std::string& draft) {
  std::vector<SuiteTest> tests;
  std::ifstream lines(folder_of(data) / "schemas" / ("tests_" + draft + ".jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto test = json::parse(line);
    EXPECT_TRUE(test) << line;
    if (!test) continue;
    const std::string& section = *test->find("section")->if_string();
    tests.push_back({.id = *test->find("id")->if_string(),
                     .section = section,
                     .schema = *test->find("schema"),
                     .instance = *test->find("instance"),
                     .is_valid = *test->find("valid")->if_bool(),
                     .options = {.draft = *find_draft(*test->find("draft")->if_string()),
                                 .documents = &suite_documents(data),
                                 .assert_format = section == "format"}});
  }
  return tests;
}

/// The name of a test: a set and a draft.
inline std::string test_name(Data data, std::string draft) {
  for (char& c : draft) c = c == '-' ? '_' : c;
  return name_of(data) + "_" + draft;
}

}  // namespace tenon::schema
