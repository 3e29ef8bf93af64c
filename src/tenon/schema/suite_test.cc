// JSON-Schema-Test-Suite, where it lies beside the project: one JSON object per line with id,
// section (required, optional or format), draft, schema, instance and valid.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "tenon/base/file.h"
#include "tenon/json/value.h"
#include "tenon/schema/schema.h"

namespace tenon::schema {
namespace {

const std::filesystem::path kSuite =
    std::filesystem::path(TENON_SOURCE_DIR) / ".." / "shared" / "data" / "schemas";

struct Expectation {
  std::string draft;
  std::size_t required;         // tests, all of which must pass
  std::size_t failed_optional;  // at most; fewer than before: lower the number
  std::size_t failed_format;
};

class Suite : public ::testing::TestWithParam<Expectation> {};

const std::string& text_at(const json::Value& test, std::string_view key) {
  return *test.find(key)->if_string();
}

// The schemas of a group are the same; so are the lines of a group neighbours.
class Judge {
 public:
  explicit Judge(const json::Object& remotes) : remotes_(remotes) {}

  bool is_right(const json::Value& test) {
    const json::Value& schema = *test.find("schema");
    const bool asserts = text_at(test, "section") == "format";
    if (!schema_ || !(schema == source_) || asserts != asserts_) {
      source_ = schema;
      asserts_ = asserts;
      schema_ = Schema::compile(source_, {.draft = *find_draft(text_at(test, "draft")),
                                          .documents = &remotes_,
                                          .assert_format = asserts});
    }
    if (!*schema_) return false;
    const json::Value& instance = *test.find("instance");
    const auto violations = (**schema_)->validate(instance);
    const auto verdict = (**schema_)->is_valid(instance);
    if (!violations || !verdict) return false;
    EXPECT_EQ(*verdict, violations->empty()) << text_at(test, "id");
    return *verdict == *test.find("valid")->if_bool();
  }

 private:
  const json::Object& remotes_;
  json::Value source_;
  bool asserts_ = false;
  std::optional<Expected<std::shared_ptr<const Schema>>> schema_;
};

TEST_P(Suite, Passes) {
  const Expectation& expected = GetParam();
  if (!std::filesystem::exists(kSuite)) {
    std::cerr << "SKIPPED: JSON-Schema-Test-Suite is not at " << kSuite << "\n";
    GTEST_SKIP() << "JSON-Schema-Test-Suite is not at " << kSuite;
  }
  const auto remotes_text = read_file(kSuite / "remotes.json", std::size_t{16} << 20);
  ASSERT_TRUE(remotes_text) << remotes_text.error().message;
  const auto remotes = json::parse(*remotes_text);
  ASSERT_TRUE(remotes && remotes->if_object() != nullptr);

  Judge judge(*remotes->if_object());
  std::map<std::string, std::size_t> right;
  std::map<std::string, std::size_t> wrong;
  std::ifstream lines(kSuite / ("tests_" + expected.draft + ".jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto test = json::parse(line);
    ASSERT_TRUE(test);
    const std::string& section = text_at(*test, "section");
    const bool is_right = judge.is_right(*test);
    ++(is_right ? right : wrong)[section];
    EXPECT_TRUE(is_right || section != "required") << line;
  }
  EXPECT_EQ(right["required"], expected.required);
  EXPECT_LE(wrong["optional"], expected.failed_optional);
  EXPECT_LE(wrong["format"], expected.failed_format);
}

// Draft 7's optional tests want contentEncoding and contentMediaType asserted; to us they are
// annotations in every draft. The format test that fails asks for `(?#comment)` not to be a regex.
const Expectation kExpectations[] = {
    {"draft4", 618, 0, 0},        {"draft6", 839, 0, 0},        {"draft7", 927, 4, 1},
    {"draft2019-09", 1259, 0, 1}, {"draft2020-12", 1299, 0, 1},
};

INSTANTIATE_TEST_SUITE_P(Drafts, Suite, ::testing::ValuesIn(kExpectations), [](const auto& test) {
  std::string name;
  for (const char c : test.param.draft) name.append(1, c == '-' ? '_' : c);
  return name;
});

}  // namespace
}  // namespace tenon::schema
