#include "tenon/api/messages_encode.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/http/sse.h"
#include "tenon/json/value.h"

namespace tenon::api {
namespace {

using json::Value;
using message::CallArguments;
using message::CallBegin;
using message::CallEnd;
using message::ChatEvent;
using message::ContentDelta;
using message::FinishReason;
using message::ReasoningDelta;

MessagesEncoder encoder(bool omits_thinking = false) {
  return MessagesEncoder({.id = "msg_1",
                          .model = "m",
                          .format = "hermes",
                          .request_id = "req_1",
                          .omits_thinking = omits_thinking});
}

constexpr message::Usage kMessagesEncodeUsage{
    .prompt_tokens = 10, .completion_tokens = 4, .cached_tokens = 3, .reasoning_tokens = 2};

std::vector<Value> messages_encode_events_of(std::string_view wire) {
  http::SseDecoder decoder;
  std::vector<http::SseEvent> events;
  EXPECT_TRUE(decoder.feed(wire, events));
  EXPECT_FALSE(decoder.is_mid_event());
  std::vector<Value> values;
  for (const http::SseEvent& event : events) {
    auto value = json::parse(event.data);
    EXPECT_TRUE(value) << event.data;
    EXPECT_EQ(*value->find("type"), Value(event.type)) << "the SDKs go by the event's name";
    values.push_back(*std::move(value));
  }
  return values;
}

/// What the SDKs make from a stream; arguments that are not JSON stay text.
Value messages_encode_fold(const std::vector<Value>& events) {
  Value message;
  std::map<std::string, std::string> inputs;
  const auto at = [](const Value& value, std::string_view pointer) {
    const Value* found = json::at_pointer(value, pointer);
    EXPECT_NE(found, nullptr) << pointer << " in " << json::to_string(value);
    return found == nullptr ? Value() : *found;
  };
  for (const Value& event : events) {
    const std::string type = *event.find("type")->if_string();
    if (type == "message_start") message = at(event, "/message");
    if (type == "message_start" || type == "ping" || type == "message_stop") continue;
    json::Object& whole = *message.if_object();
    json::Array& content = *whole["content"].if_array();
    if (type == "message_delta") {
      whole["stop_reason"] = at(event, "/delta/stop_reason");
      whole["stop_sequence"] = at(event, "/delta/stop_sequence");
      whole["usage"] = at(event, "/usage");
      whole["tenon"] = at(event, "/tenon");
      continue;
    }
    const std::string index = json::to_string(at(event, "/index"));
    if (type == "content_block_start") {
      EXPECT_EQ(index, std::to_string(content.size()));
      content.push_back(at(event, "/content_block"));
    }
    json::Object& block = *content.back().if_object();
    const auto extend = [&](std::string_view key, const Value& more) {
      block[key] = *block[key].if_string() + *more.if_string();
    };
    if (type == "content_block_delta") {
      const std::string kind = *at(event, "/delta/type").if_string();
      if (kind == "text_delta") extend("text", at(event, "/delta/text"));
      if (kind == "thinking_delta") extend("thinking", at(event, "/delta/thinking"));
      if (kind == "signature_delta") block["signature"] = at(event, "/delta/signature");
      if (kind == "input_json_delta") {
        inputs[index] += *at(event, "/delta/partial_json").if_string();
      }
    }
    if (type == "content_block_stop" && inputs.contains(index)) {
      block["input"] = json::parse(inputs[index]).value_or(Value(inputs[index]));
    }
  }
  return message;
}

struct MessagesEncodeRow {
  std::string_view name;
  std::vector<ChatEvent> events;
  message::Finish finish;
  std::string_view content;
  std::string_view stop_reason;
  bool differs = false;  // a call that was cut
};

void PrintTo(const MessagesEncodeRow& row, std::ostream* os) {
  *os << row.name;
}

const MessagesEncodeRow kMessagesEncodeRows[] = {
    {"Nothing", {}, {}, "[]", "end_turn"},
    {"Text",
     {ContentDelta{"Hi "}, ContentDelta{"\"you\"\n"}},
     {},
     R"([{"type": "text", "text": "Hi \"you\"\n"}])",
     "end_turn"},
    {"ThinkingThenTextThenCall",
     {ReasoningDelta{"h"}, ReasoningDelta{"m"}, ContentDelta{"Look."}, CallBegin{0, "toolu_a", "f"},
      CallArguments{0, "{\"n\""}, CallArguments{0, ": 1.50}"}, CallEnd{0}},
     {.reason = FinishReason::tool_calls},
     R"([{"type": "thinking", "thinking": "hm", "signature": "tenon"},
         {"type": "text", "text": "Look."},
         {"type": "tool_use", "id": "toolu_a", "name": "f", "input": {"n": 1.50}}])",
     "tool_use"},
    {"TextBetweenCalls",
     {CallBegin{0, "a", "f"}, CallArguments{0, "{}"}, CallEnd{0}, ContentDelta{"and"},
      CallBegin{1, "b", "g"}, CallEnd{1}, ContentDelta{"so"}},
     {.reason = FinishReason::tool_calls},
     R"([{"type": "tool_use", "id": "a", "name": "f", "input": {}}, {"type": "text", "text": "and"},
         {"type": "tool_use", "id": "b", "name": "g", "input": {}}, {"type": "text", "text": "so"}])",
     "tool_use"},
    {"CutCall",
     {CallBegin{0, "a", "f"}, CallArguments{0, "{\"s\": \"x"}, CallEnd{0, true}},
     {.reason = FinishReason::length},
     R"([{"type": "tool_use", "id": "a", "name": "f", "input": {"s": "x"}}])",
     "max_tokens",
     true},
    {"CutBeforeTheArguments",
     {CallBegin{0, "a", "f"}, CallEnd{0, true}},
     {.reason = FinishReason::length},
     R"([{"type": "tool_use", "id": "a", "name": "f", "input": {}}])",
     "max_tokens"},
    {"Stopped",
     {ContentDelta{"a"}},
     {.stop_sequence = "END"},
     R"([{"type": "text", "text": "a"}])",
     "stop_sequence"},
};

class EncodedMessages : public ::testing::TestWithParam<MessagesEncodeRow> {};

TEST_P(EncodedMessages, AreTheSameAsAStreamAndAsAWhole) {
  const MessagesEncodeRow& row = GetParam();
  MessagesEncoder streaming = encoder();
  MessagesEncoder keeping = encoder();
  std::string wire;
  streaming.begin(wire);
  std::vector<ChatEvent> events = row.events;
  events.emplace_back(row.finish);
  for (const ChatEvent& event : events) {
    streaming.add(0, event, {}, wire);
    keeping.keep(0, event, {});
  }
  streaming.end(kMessagesEncodeUsage, wire);
  const Value whole = keeping.whole(kMessagesEncodeUsage);
  EXPECT_EQ(*whole.find("content"), *json::parse(row.content)) << json::to_string(whole);
  EXPECT_EQ(*whole.find("stop_reason"), Value(row.stop_reason));
  EXPECT_EQ(json::to_string(*whole.find("usage")),
            R"({"input_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":3,)"
            R"("output_tokens":4,"output_tokens_details":{"thinking_tokens":2}})");
  const std::vector<Value> sent = messages_encode_events_of(wire);
  EXPECT_EQ(*sent.back().find("type"), Value("message_stop"));
  if (row.differs) return;
  EXPECT_EQ(json::to_string(messages_encode_fold(sent)), json::to_string(whole));
}

INSTANTIATE_TEST_SUITE_P(Table, EncodedMessages, ::testing::ValuesIn(kMessagesEncodeRows),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(MessagesEncoder, ThinkingCanBeOmitted) {
  MessagesEncoder keeping = encoder(/*omits_thinking=*/true);
  keeping.keep(0, ReasoningDelta{"hm"}, {});
  keeping.keep(0, ContentDelta{"a"}, {});
  keeping.keep(0, message::Finish{}, {});
  EXPECT_EQ(json::to_string(*keeping.whole(kMessagesEncodeUsage).find("content")),
            R"([{"type":"text","text":"a"}])");
}

TEST(MessagesEncoder, TextThatWasHeldHasAGuarantee) {
  for (const bool is_json : {false, true}) {
    MessagesEncoder keeping({.id = "msg_1", .model = "m", .is_json = is_json});
    keeping.keep(0, ContentDelta{"{}"}, {});
    keeping.keep(0, message::Finish{.guarantee = message::Guarantee::masked}, {});
    const Value whole = keeping.whole(kMessagesEncodeUsage);
    EXPECT_EQ(*json::at_pointer(whole, "/tenon/guarantee"), is_json ? Value("masked") : Value());
  }
}

TEST(MessagesEncoder, AStreamThatFailsSaysSo) {
  MessagesEncoder streaming = encoder();
  std::string wire;
  streaming.begin(wire);
  streaming.keep_alive(wire);
  streaming.fail({.message = "gone", .param = {}, .code = "engine_error"}, wire);
  const std::vector<Value> sent = messages_encode_events_of(wire);
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_EQ(json::to_string(sent[1]), R"({"type":"ping"})");
  EXPECT_EQ(
      json::to_string(sent[2]),
      R"({"type":"error","error":{"message":"gone","type":"overloaded_error","param":null,)"
      R"("code":"engine_error","details":{"error_code":"engine_error"}},"request_id":"req_1"})");
}

}  // namespace
}  // namespace tenon::api
