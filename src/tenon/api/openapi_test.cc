#include "tenon/api/openapi.h"

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/api/chat_encode.h"
#include "tenon/api/chat_request.h"
#include "tenon/api/completion_request.h"
#include "tenon/api/messages_encode.h"
#include "tenon/api/messages_request.h"
#include "tenon/api/responses_request.h"
#include "tenon/api/routes.h"

namespace tenon::api {
namespace {

using json::Value;

Value document() {
  return openapi({.version = "1.2.3", .models = {"m", "alias"}});
}

void collect_refs(const Value& value, std::set<std::string>& refs) {
  if (const json::Array* items = value.if_array()) {
    for (const Value& item : *items) collect_refs(item, refs);
  }
  if (const json::Object* members = value.if_object()) {
    for (const json::Member& member : *members) {
      const std::string* name = member.value.if_string();
      if (member.key == "$ref" && name != nullptr) refs.insert(*name);
      collect_refs(member.value, refs);
    }
  }
}

TEST(OpenApi, ReferencesLeadSomewhere) {
  const Value all = document();
  std::set<std::string> refs;
  collect_refs(all, refs);
  EXPECT_GT(refs.size(), 100U);
  for (const std::string& each : refs) {
    ASSERT_TRUE(each.starts_with("#/")) << each;
    EXPECT_NE(json::at_pointer(all, each.substr(1)), nullptr) << each;
  }
}

// A client that follows the document could not send a field without a schema.
TEST(OpenApi, HasEveryFieldThatDoesSomething) {
  for (const auto fields :
       {chat_completion_fields(), completion_fields(), messages_fields(), responses_fields()}) {
    for (const FieldInfo& field : fields) {
      EXPECT_TRUE(field.effect == Effect::refused || !field.schema.empty()) << field.name;
    }
  }
}

TEST(OpenApi, SaysWhatIsNeeded) {
  const Value all = document();
  const auto needed = [&](std::string_view schema) {
    return json::to_string(
        *json::at_pointer(all, "/components/schemas/" + std::string(schema) + "/required"));
  };
  EXPECT_EQ(needed("ChatCompletionRequest"), R"(["messages"])");
  EXPECT_EQ(needed("MessagesRequest"), R"(["messages","max_tokens"])");
  EXPECT_EQ(needed("CountTokensRequest"), R"(["messages"])");
  EXPECT_EQ(needed("ResponsesCountRequest"), R"(["input"])");
  EXPECT_EQ(json::to_string(*json::at_pointer(all, "/components/schemas/ModelName")),
            R"({"type":"string","enum":["m","alias"]})");
  EXPECT_EQ(*json::at_pointer(all, "/info/version"), Value("1.2.3"));
  const Value any = openapi({.version = "1", .models = {"m", "*"}});
  EXPECT_EQ(json::to_string(*json::at_pointer(any, "/components/schemas/ModelName")),
            R"({"type":"string"})");
}

std::vector<std::string> keys_of(const Value& object) {
  std::vector<std::string> keys;
  for (const json::Member& member : *object.if_object()) keys.push_back(member.key);
  return keys;
}

TEST(OpenApi, KnowsEveryFigureOfTheUsage) {
  const Value all = document();
  const auto described = [&](const std::string& pointer) {
    return keys_of(*json::at_pointer(all, "/components/schemas/" + pointer + "/properties"));
  };
  const Value message = MessagesEncoder({}).whole({});
  EXPECT_EQ(described("AnthropicMessage/properties/usage"), keys_of(*message.find("usage")));
  EXPECT_EQ(described("Usage"), keys_of(encode_usage({})));
}

// "POST /v1/messages"
std::set<std::string> routes_of_the_service() {
  ServiceParts parts({.access = {}, .version = "0.0"});
  std::set<std::string> all;
  for (const Route& route : all_routes(parts)) {
    all.insert(std::string(route.method) + " " + std::string(route.path));
  }
  return all;
}

TEST(OpenApi, DescribesEveryRoute) {
  std::set<std::string> described;
  const Value all = document();
  for (const json::Member& path : *all.find("paths")->if_object()) {
    if (path.key == "/api/generate") continue;  // an alias
    for (const json::Member& route : *path.value.if_object()) {
      std::string method = route.key;
      for (char& letter : method) letter = static_cast<char>(std::toupper(letter));
      described.insert(method + " " + path.key);
    }
  }
  EXPECT_EQ(described, routes_of_the_service());
}

}  // namespace
}  // namespace tenon::api
