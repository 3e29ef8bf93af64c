// Our own tests of single keywords, and JSON-Schema-Test-Suite if it is installed.
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tenon/schema/suite_for_test.h"

namespace tenon::schema {
namespace {

struct Expectation {
  Data data;
  std::string draft;
  std::size_t required;         // tests, all of which must pass
  std::size_t failed_optional;  // at most; if fewer fail, lower the number
  std::size_t failed_format;
};

class Suite : public ::testing::TestWithParam<Expectation> {};

// The tests of a group have one schema, and the lines of a group are neighbours.
class Judge {
 public:
  bool is_right(const SuiteTest& test) {
    if (!schema_ || !(test.schema == source_) || test.options.assert_format != asserts_) {
      source_ = test.schema;
      asserts_ = test.options.assert_format;
      schema_ = Schema::compile(source_, test.options);
    }
    if (!*schema_) return false;
    const auto violations = (**schema_)->validate(test.instance);
    const auto verdict = (**schema_)->is_valid(test.instance);
    if (!violations || !verdict) return false;
    EXPECT_EQ(*verdict, violations->empty()) << test.id;
    return *verdict == test.is_valid;
  }

 private:
  json::Value source_;
  bool asserts_ = false;
  std::optional<Expected<std::shared_ptr<const Schema>>> schema_;
};

TEST_P(Suite, Passes) {
  const Expectation& expected = GetParam();
  if (!is_there(expected.data)) GTEST_SKIP() << why_skipped(expected.data);
  Judge judge;
  std::map<std::string, std::size_t> right;
  std::map<std::string, std::size_t> wrong;
  for (const SuiteTest& test : suite_tests(expected.data, expected.draft)) {
    const bool is_right = judge.is_right(test);
    ++(is_right ? right : wrong)[test.section];
    EXPECT_TRUE(is_right || test.section != "required") << test.id;
  }
  EXPECT_EQ(right["required"], expected.required);
  EXPECT_LE(wrong["optional"], expected.failed_optional);
  EXPECT_LE(wrong["format"], expected.failed_format);
}

// Draft 7's optional tests expect contentEncoding and contentMediaType to be asserted; here they
// are annotations in every draft. The failing format test expects `(?#comment)` not to be a regex.
const Expectation kExpectations[] = {
    {Data::own, "draft4", 53, 0, 0},           {Data::own, "draft6", 63, 0, 0},
    {Data::own, "draft7", 67, 0, 0},           {Data::own, "draft2019-09", 70, 0, 0},
    {Data::own, "draft2020-12", 70, 0, 0},     {Data::large, "draft4", 618, 0, 0},
    {Data::large, "draft6", 839, 0, 0},        {Data::large, "draft7", 927, 4, 1},
    {Data::large, "draft2019-09", 1259, 0, 1}, {Data::large, "draft2020-12", 1299, 0, 1},
};

INSTANTIATE_TEST_SUITE_P(Drafts, Suite, ::testing::ValuesIn(kExpectations), [](const auto& test) {
  return test_name(test.param.data, test.param.draft);
});

}  // namespace
}  // namespace tenon::schema
