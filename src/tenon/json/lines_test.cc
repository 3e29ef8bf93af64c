#include "tenon/json/lines.h"

#include <new>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace tenon::json {
namespace {

// Answers with the value of `say`; fails with the value of `fail`.
Expected<Object> echo(const Object& request) {
  const Status known = check_members(request, {"say", "exhaust"});
  if (!known) return Unexpected(known.error());
  if (const Value* said = request.find("say")) return Object{{"said", *said}};
  if (request.contains("exhaust")) throw std::bad_alloc();
  return Unexpected(Error{Errc::unsupported, "nothing to say"});
}

struct Row {
  const char* name;
  const char* lines;
  const char* answers;
};

const Row kRows[] = {
    {"NothingForNothing", "", ""},
    {"IdIsCopied", R"({"say":1,"id":{"a":[null]}})", "{\"id\":{\"a\":[null]},\"said\":1}\n"},
    {"IdMayBeMissing", R"({"say":1})", "{\"said\":1}\n"},
    {"IdMayBeNull", R"({"id":null,"say":1})", "{\"id\":null,\"said\":1}\n"},
    {"OrderIsKept", "{\"say\":1}\n{\"say\":2}\n", "{\"said\":1}\n{\"said\":2}\n"},
    {"EmptyLinesHaveNoAnswer", "\n\n{\"say\":1}\n\n", "{\"said\":1}\n"},
    {"LastLineMayBeOpen", "{\"say\":1}\n{\"say\":2}", "{\"said\":1}\n{\"said\":2}\n"},
    {"FailureEndsNothing", "{\"id\":7}\n{\"say\":1}",
     "{\"id\":7,\"error\":{\"code\":\"unsupported\",\"message\":\"nothing to say\"}}\n"
     "{\"said\":1}\n"},
    {"NoJsonHasNoId", "{\"id\":7",
     "{\"error\":{\"code\":\"invalid\",\"message\":\"line 1, column 8: expected ',' or '}' after a "
     "member, found the end of the text\"}}\n"},
    {"NoObject", "[7]",
     "{\"error\":{\"code\":\"invalid\",\"message\":\"a line must be a JSON object\"}}\n"},
    {"UnknownMember", R"({"id":7,"say":1,"shout":2})",
     "{\"id\":7,\"error\":{\"code\":\"invalid\",\"message\":\"shout: is not known here; there "
     "are say, exhaust\"}}\n"},
    {"NoMemory", R"({"id":7,"exhaust":true})",
     "{\"id\":7,\"error\":{\"code\":\"limit_exceeded\",\"message\":\"a line takes more memory than "
     "there is\"}}\n"},
};

class LinesTest : public testing::TestWithParam<Row> {};

TEST_P(LinesTest, Answers) {
  std::istringstream in(GetParam().lines);
  std::ostringstream out;
  answer_lines(in, out, echo);
  EXPECT_EQ(out.str(), GetParam().answers);
}

INSTANTIATE_TEST_SUITE_P(Rows, LinesTest, testing::ValuesIn(kRows),
                         [](const auto& row) { return std::string(row.param.name); });

// Gives the second line only after the answer to the first one has been written.
class Dialogue : public std::stringbuf {
 public:
  explicit Dialogue(std::ostringstream& answers) : answers_(answers) {}

 protected:
  int_type underflow() override {
    if (next_ == 2) return traits_type::eof();
    EXPECT_EQ(answers_.str(), next_ == 0 ? "" : "{\"said\":1}\n");
    setg(texts_[next_], texts_[next_], texts_[next_] + 10);
    ++next_;
    return traits_type::to_int_type(*gptr());
  }

 private:
  std::ostringstream& answers_;
  char texts_[2][11] = {"{\"say\":1}\n", "{\"say\":2}\n"};
  std::size_t next_ = 0;
};

TEST(Lines, AnswerComesBeforeTheNextLineIsRead) {
  std::ostringstream out;
  Dialogue dialogue(out);
  std::istream in(&dialogue);
  answer_lines(in, out, echo);
  EXPECT_EQ(out.str(), "{\"said\":1}\n{\"said\":2}\n");
}

}  // namespace
}  // namespace tenon::json
