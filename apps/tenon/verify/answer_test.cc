#include "verify/answer.h"

#include <string>
#include <string_view>
#include <utility>

#include "verify/question.h"
#include "verify/schema_rows.h"
#include <gtest/gtest.h>

#include "tenon/schema/schema.h"

namespace tenon::app::verify {
namespace {

struct ReadRow {
  std::string_view name;
  Dialect dialect;
  std::string_view body;  // a stream if it begins with "event" or "data"
  std::string_view rule;  // that it breaks; "": none
};

const ReadRow kAnswers[] = {
    {"ChatText", Dialect::chat,
     R"({"id":"a","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]})",
     ""},
    {"ChatArgumentsAsObject", Dialect::chat,
     R"({"id":"a","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":{}}}]},"finish_reason":"tool_calls"}]})",
     "arguments_are_text"},
    {"ChatFinish", Dialect::chat,
     R"({"id":"a","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}]})",
     "finish_says_calls"},
    {"ChatCallIsNamedTwice", Dialect::chat,
     "data: {\"id\":\"a\",\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\","
     "\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}}]}\n\n"
     "data: {\"id\":\"a\",\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\","
     "\"function\":{\"name\":\"f\",\"arguments\":\"}\"}}]}}]}\n\n",
     "call_name_comes_once"},
    {"ChatStreamCutWithinAnEvent", Dialect::chat, "data: {\"id\":\"a\"", "events_are_json"},
    {"ResponsesText", Dialect::responses,
     R"({"id":"r","object":"response","model":"m","status":"completed","output":[{"id":"i","type":"message","content":[{"type":"output_text","text":"hi"}]}]})",
     ""},
    {"ResponsesArguments", Dialect::responses,
     R"({"id":"r","object":"response","model":"m","status":"completed","output":[{"id":"i","type":"function_call","call_id":"c","name":"f","arguments":"{"}]})",
     "arguments_are_json"},
    {"ResponsesSequence", Dialect::responses,
     "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":1}\n\n",
     "sequence_counts_up"},
    {"ResponsesEnd", Dialect::responses,
     "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0}\n\n",
     "ends_with_done"},
    {"ResponsesTextAtItsEnd", Dialect::responses,
     "data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n"
     "data: {\"type\":\"response.output_text.done\",\"text\":\"ab\"}\n\n",
     "text_folds_to_whole"},
    {"ResponsesPartAtItsEnd", Dialect::responses,
     "data: {\"type\":\"response.content_part.done\",\"part\":{\"type\":\"output_text\",\"text\":"
     "\"ab\"}}\n\n",
     "text_folds_to_whole"},
    {"ResponsesMessageAtItsEnd", Dialect::responses,
     "data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"message\",\"content\":[{"
     "\"type\":\"output_text\",\"text\":\"ab\"}]}}\n\n",
     "text_folds_to_whole"},
    {"ResponsesCallAtItsEnd", Dialect::responses,
     "data: "
     "{\"type\":\"response.output_item.added\",\"item\":{\"type\":\"function_call\",\"id\":\"i\","
     "\"call_id\":\"c\",\"name\":\"f\"}}\n\n"
     "data: "
     "{\"type\":\"response.output_item.done\",\"item\":{\"type\":\"function_call\",\"id\":\"i\","
     "\"call_id\":\"c\",\"name\":\"g\",\"arguments\":\"\"}}\n\n",
     "calls_fold_to_whole"},
    {"ResponsesItemHasNoEnd", Dialect::responses,
     "event: response.output_item.added\ndata: "
     "{\"type\":\"response.output_item.added\",\"item\":{\"type\":\"message\"}}\n\n"
     "event: response.completed\ndata: "
     "{\"type\":\"response.completed\",\"response\":{\"output\":[]}}\n\n",
     "chunk_shape"},
    {"MessagesText", Dialect::messages,
     R"({"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn"})",
     ""},
    {"MessagesInputAsText", Dialect::messages,
     R"({"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"tool_use","id":"c","name":"f","input":"{}"}],"stop_reason":"tool_use"})",
     "arguments_are_json"},
    {"MessagesStreamText", Dialect::messages,
     "event: message_start\ndata: "
     "{\"type\":\"message_start\",\"message\":{\"role\":\"assistant\"}}\n\n"
     "event: content_block_start\ndata: "
     "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\"}}\n\n"
     "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
     "event: message_delta\ndata: "
     "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n"
     "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
     ""},
    {"MessagesBlockIsOpen", Dialect::messages,
     "event: message_start\ndata: "
     "{\"type\":\"message_start\",\"message\":{\"role\":\"assistant\"}}\n\n"
     "event: content_block_start\ndata: "
     "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\"}}\n\n"
     "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
     "chunk_shape"},
    {"MessagesIndex", Dialect::messages,
     "event: message_start\ndata: "
     "{\"type\":\"message_start\",\"message\":{\"role\":\"assistant\"}}\n\n"
     "event: content_block_start\ndata: "
     "{\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"text\"}}\n\n",
     "index_counts_up"},
    {"MessagesEventName", Dialect::messages, "data: {\"type\":\"message_start\"}\n\n",
     "chunk_shape"},
};

TEST(VerifyAnswer, FindsTheRuleThatIsBroken) {
  for (const ReadRow& row : kAnswers) {
    SCOPED_TRACE(row.name);
    const bool is_stream = !row.body.starts_with("{");
    Answer answer{.status = 200,
                  .content_type = is_stream ? "text/event-stream" : "application/json",
                  .body = std::string(row.body)};
    read_answer(row.dialect, is_stream, answer);
    if (row.rule.empty()) {
      EXPECT_TRUE(answer.flaws.empty()) << answer.flaws.front().what;
    } else {
      EXPECT_NE(answer.flaw(row.rule), nullptr);
    }
  }
}

TEST(VerifyAnswer, ReadsTheMessageOfAnErrorInEachForm) {
  const std::pair<std::string_view, std::string_view> rows[] = {
      {R"({"error":{"message":"no","type":"t"}})", "no"},
      {R"({"error":"no"})", "no"},
      {R"({"object":"error","message":"no"})", "no"},
      {R"({"detail":"no"})", "no"},
      {R"({"detail":[{"msg":"no"}]})", "no"},
      {R"({"error":{"code":7}})", ""},
  };
  for (const auto& [body, message] : rows) {
    SCOPED_TRACE(body);
    Answer answer{.status = 400, .content_type = "application/json", .body = std::string(body)};
    read_answer(Dialect::chat, false, answer);
    EXPECT_EQ(answer.error, message);
    EXPECT_EQ(answer.flaw("error_body_has_message") == nullptr, body == rows[0].first);
  }
}

TEST(VerifyAnswer, KeepsOneFlawOfARule) {
  Answer answer{.status = 200, .content_type = "text/event-stream"};
  for (int i = 0; i < 1000; ++i) answer.body += "data: x\n\n";
  read_answer(Dialect::chat, true, answer);
  EXPECT_LT(answer.flaws.size(), 5U);
}

TEST(VerifySchemas, OnlyTheInvalidValueBreaksTheSchema) {
  for (const SchemaRow& row : schema_rows()) {
    SCOPED_TRACE(row.name);
    json::Value schema = json::Object{{"properties", json::Object{{"v", json_of(row.schema)}}}};
    if (!row.definitions.empty()) schema.if_object()->set("$defs", json_of(row.definitions));
    const auto compiled = schema::Schema::compile(schema, {.assert_format = true});
    ASSERT_TRUE(compiled) << compiled.error().message;
    EXPECT_TRUE(*(*compiled)->is_valid(json::Object{{"v", json_of(row.valid)}}));
    EXPECT_FALSE(*(*compiled)->is_valid(json::Object{{"v", json_of(row.invalid)}}));
  }
}

}  // namespace
}  // namespace tenon::app::verify
