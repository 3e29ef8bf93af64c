#include "tenon/api/kept_responses.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tenon::api {
namespace {

using json::Value;

/// Has the response "resp_1", whose input has the items a to e.
KeptResponses kept() {
  KeptResponses responses(nullptr);
  json::Array input;
  for (const std::string id : {"a", "b", "c", "d", "e"}) input.push_back(json::Object{{"id", id}});
  EXPECT_TRUE(responses.keeper("", "resp_1", std::move(input))(json::Object{{"id", "resp_1"}}));
  return responses;
}

std::string text_of(const Result<Value, ApiError>& result) {
  if (result) return json::to_string(*result);
  return std::to_string(result.error().status()) + " " + std::string(result.error().code.name()) +
         " " + result.error().param;
}

TEST(KeptResponses, AreFoundWholeAndGiveTheirResponse) {
  const KeptResponses responses = kept();
  EXPECT_EQ(text_of(responses.find("", "resp_1")),
            R"({"input":[{"id":"a"},{"id":"b"},{"id":"c"},{"id":"d"},{"id":"e"}],)"
            R"("response":{"id":"resp_1"}})");
  EXPECT_EQ(text_of(responses.find("", "resp_2")), "null");
  EXPECT_EQ(responses.cancel("", "resp_1").error().status(), 400U);
  EXPECT_EQ(responses.cancel("", "resp_2").error().status(), 404U);
}

struct KeptResponsesRow {
  std::string_view name;
  std::string_view id;
  std::string_view query;
  std::string_view says;
};

const KeptResponsesRow kGets[] = {
    {"Whole", "resp_1", "", R"({"id":"resp_1"})"},
    {"WithWhatItHasAnyway", "resp_1", "include[]=message.output_text.logprobs&stream=false",
     R"({"id":"resp_1"})"},
    {"Unknown", "resp_2", "", "404 response_not_found "},
    {"AsAStream", "resp_1", "stream=true", "400 unsupported_parameter stream"},
    {"FromThere", "resp_1", "starting_after=3", "400 unsupported_parameter starting_after"},
    {"Misspelt", "resp_1", "inclued=x", "400 unknown_parameter inclued"},
    {"NotEncoded", "resp_1", "include=%zz", "400 invalid_value "},
};

TEST(KeptResponses, AreGivenAsAsked) {
  const KeptResponses responses = kept();
  for (const KeptResponsesRow& row : kGets) {
    EXPECT_EQ(text_of(responses.get("", std::string(row.id), row.query)), row.says) << row.name;
  }
}

const KeptResponsesRow kLists[] = {
    {"NewestFirst", "resp_1", "limit=2",
     R"({"object":"list","data":[{"id":"e"},{"id":"d"}],"first_id":"e","last_id":"d",)"
     R"("has_more":true})"},
    {"OldestFirst", "resp_1", "order=asc&limit=2&after=b",
     R"({"object":"list","data":[{"id":"c"},{"id":"d"}],"first_id":"c","last_id":"d",)"
     R"("has_more":true})"},
    {"TheRest", "resp_1", "after=b&order=desc",
     R"({"object":"list","data":[{"id":"a"}],"first_id":"a","last_id":"a","has_more":false})"},
    {"Nothing", "resp_1", "after=a",
     R"({"object":"list","data":[],"first_id":"","last_id":"","has_more":false})"},
    {"Unknown", "resp_2", "", "404 response_not_found "},
    {"AfterNothing", "resp_1", "after=z", "400 invalid_value after"},
    {"NoLimit", "resp_1", "limit=0", "400 invalid_value limit"},
    {"LimitIsAWord", "resp_1", "limit=1x", "400 invalid_value limit"},
    {"NoOrder", "resp_1", "order=up", "400 invalid_value order"},
};

TEST(KeptResponses, ListTheirInputInPages) {
  const KeptResponses responses = kept();
  for (const KeptResponsesRow& row : kLists) {
    EXPECT_EQ(text_of(responses.list_input("", std::string(row.id), row.query)), row.says)
        << row.name;
  }
}

// One owner's id never names something of another owner, in any spelling.
TEST(KeptResponses, BelongToWhoAskedForThem) {
  const KeptResponses responses(nullptr);
  EXPECT_TRUE(responses.keeper("ann", "resp_1", {})(json::Object{{"id", "resp_1"}}));
  EXPECT_NE(text_of(responses.find("ann", "resp_1")), "null");
  const struct {
    std::string_view owner;
    std::string id;
  } rows[] = {{"", "resp_1"}, {"bob", "resp_1"}, {"", "ann/resp_1"}, {"bob", "../ann/resp_1"}};
  for (const auto& [owner, id] : rows) {
    EXPECT_EQ(text_of(responses.find(owner, id)), "null") << owner << " " << id;
    EXPECT_EQ(text_of(responses.get(owner, id, "")), "404 response_not_found ")
        << owner << " " << id;
    EXPECT_EQ(responses.list_input(owner, id, "").error().status(), 404U);
    EXPECT_EQ(responses.erase(owner, id).error().status(), 404U);
    EXPECT_EQ(responses.cancel(owner, id).error().status(), 404U);
  }
  EXPECT_TRUE(responses.erase("ann", "resp_1"));
}

TEST(KeptResponses, AreErasedOnce) {
  const KeptResponses responses = kept();
  EXPECT_EQ(text_of(responses.erase("", "resp_1")),
            R"({"id":"resp_1","object":"response","deleted":true})");
  EXPECT_EQ(text_of(responses.erase("", "resp_1")), "404 response_not_found ");
}

}  // namespace
}  // namespace tenon::api
