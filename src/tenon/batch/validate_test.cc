#include "tenon/batch/validate.h"

#include <sstream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::batch {
namespace {

struct ValidateBatchRow {
  std::string_view line;
  std::string_view answer;
};

const ValidateBatchRow kValidateBatchRows[] = {
    {R"({"id": 1, "schema": {"type": "string"}, "instance": "a"})",
     R"({"id":1,"valid":true,"errors":[]})"},
    {R"({"id": "x", "schema": {"items": false}, "instance_text": "[5]"})",
     R"({"id":"x","valid":false,"errors":[{"instance_path":"/0","schema_path":"/items","message":"is not allowed here"}]})"},
    {R"({"schema": {"const": 5}, "draft": "draft4", "instance": 6})",
     R"({"valid":true,"errors":[]})"},
    {R"({"schema": {"$ref": "http://a/b"}, "documents": {"http://a/b": true}, "instance": 6})",
     R"({"valid":true,"errors":[]})"},
    {R"({"schema": {"format": "uuid"}, "assert_format": true, "instance": "6"})",
     R"({"valid":false,"errors":[{"instance_path":"","schema_path":"/format","message":"is \"6\", must have the format uuid"}]})"},
    {R"({"id": 2, "schema": {"type": 5}, "instance": 6})",
     R"({"id":2,"error":{"code":"invalid","message":"/type: must be a list of strings"}})"},
    {R"({"id": 2, "schema": {"$ref": "http://a/b"}, "instance": 6})",
     R"({"id":2,"error":{"code":"unsupported","message":"/$ref: 'http://a/b' is neither in the schema nor among the documents given with it, and nothing is fetched"}})"},
    {R"({"instance": 6})", R"({"error":{"code":"invalid","message":"schema: is missing"}})"},
    {R"({"schema": true})",
     R"({"error":{"code":"invalid","message":"line: must have an instance or the string instance_text"}})"},
    {R"({"schema": true, "instance": 1, "instance_text": "1"})",
     R"({"error":{"code":"invalid","message":"line: must have an instance or the string instance_text"}})"},
    {R"({"schema": true, "instance": 1, "dialect": "draft4"})",
     R"({"error":{"code":"invalid","message":"dialect: is not known here; there are schema, instance, instance_text, draft, documents, assert_format"}})"},
    {R"({"schema": true, "instance_text": "{"})",
     R"({"error":{"code":"invalid","message":"instance_text: line 1, column 2: expected a key in double quotes or '}', found the end of the text"}})"},
    {R"({"schema": true, "instance": 1, "draft": "draft3"})",
     R"({"error":{"code":"invalid","message":"draft: must be one of draft4 to draft2020-12"}})"},
    {R"({"schema": true, "instance": 1, "documents": []})",
     R"({"error":{"code":"invalid","message":"documents: must be an object"}})"},
    {R"({"schema": true, "instance": 1, "assert_format": 1})",
     R"({"error":{"code":"invalid","message":"assert_format: must be true or false"}})"},
};

TEST(ValidateBatch, AnswersLineByLine) {
  std::string lines;
  std::string answers;
  for (const ValidateBatchRow& row : kValidateBatchRows) {
    lines.append(row.line).append("\n\n");
    answers.append(row.answer).append("\n");
  }
  std::istringstream in(lines);
  std::ostringstream out;
  validate_batch(in, out);
  EXPECT_EQ(out.str(), answers);
}

}  // namespace
}  // namespace tenon::batch
