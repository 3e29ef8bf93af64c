#include "tenon/api/responses_encode.h"

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/api/responses_request.h"
#include "tenon/base/long_for_test.h"
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
using message::TokenLogprob;

ResponseHead responses_encode_head() {
  return {.id = "resp_R",
          .created_at = 5,
          .echo = json::Object{{"model", "m"}, {"store", true}},
          .format = "hermes",
          .custom_tools = {"sh"},
          .logprobs = true,
          .keep = {},
          .now = [] { return std::int64_t{7}; }};
}

constexpr message::Usage kResponsesEncodeUsage{
    .prompt_tokens = 10, .completion_tokens = 4, .cached_tokens = 3, .reasoning_tokens = 2};

std::vector<Value> responses_encode_events_of(std::string_view wire) {
  http::SseDecoder decoder;
  std::vector<http::SseEvent> events;
  EXPECT_TRUE(decoder.feed(wire, events));
  EXPECT_FALSE(decoder.is_mid_event());
  std::vector<Value> values;
  if (!events.empty() && events.back().data == "[DONE]") events.pop_back();
  for (const http::SseEvent& event : events) {
    auto value = json::parse(event.data);
    EXPECT_TRUE(value) << event.data;
    EXPECT_EQ(*value->find("type"), Value(event.type)) << "the SDKs go by the event's name";
    EXPECT_EQ(*value->find("sequence_number"), Value(std::uint64_t{values.size()}));
    values.push_back(*std::move(value));
  }
  return values;
}

const Value& at(const Value& value, std::string_view pointer) {
  static const Value kNone;
  const Value* found = json::at_pointer(value, pointer);
  EXPECT_NE(found, nullptr) << pointer << " in " << json::to_string(value);
  return found == nullptr ? kNone : *found;
}

std::string text(const Value& value) {
  return value.if_string() == nullptr ? "" : *value.if_string();
}

/// The items of a stream by its deltas alone, compared with every event that has them whole.
json::Array responses_encode_fold(const std::vector<Value>& events) {
  json::Array items;
  bool is_open = false;
  for (const Value& event : events) {
    const std::string type = text(at(event, "/type"));
    if (type.find(".delta") == std::string::npos && type.find(".done") == std::string::npos &&
        type.find(".added") == std::string::npos) {
      continue;
    }
    const std::size_t index =
        static_cast<std::size_t>(*at(event, "/output_index").if_number()->to_int64());
    if (type == "response.output_item.added") {
      EXPECT_EQ(index, items.size());
      EXPECT_FALSE(is_open);
      is_open = true;
      EXPECT_EQ(at(event, "/item/status"), Value("in_progress"));
      items.push_back(at(event, "/item"));
      continue;
    }
    EXPECT_TRUE(is_open);
    EXPECT_EQ(index + 1, items.size());
    json::Object& item = *items[index].if_object();
    if (type == "response.output_item.done") {
      is_open = false;
      item["status"] = at(event, "/item/status");
      EXPECT_EQ(items[index], at(event, "/item"));
      continue;
    }
    EXPECT_EQ(at(event, "/item_id"), item["id"]);
    const bool has_parts = item.contains("content");
    if (has_parts) {
      EXPECT_EQ(at(event, "/content_index"), Value(0));
    }
    if (type == "response.content_part.added") {
      item["content"].if_array()->push_back(at(event, "/part"));
      continue;
    }
    json::Object& holder = has_parts ? *(*item["content"].if_array())[0].if_object() : item;
    if (type == "response.content_part.done") {
      EXPECT_EQ(Value(holder), at(event, "/part"));
      continue;
    }
    const std::string key = has_parts                                ? "text"
                            : item["type"] == Value("function_call") ? "arguments"
                                                                     : "input";
    if (type.ends_with(".delta")) {
      EXPECT_FALSE(text(at(event, "/delta")).empty());
      holder[key] = text(holder[key]) + text(at(event, "/delta"));
      if (item["type"] != Value("message")) continue;
      for (const Value& token : *at(event, "/logprobs").if_array()) {
        holder["logprobs"].if_array()->push_back(token);
      }
    } else {
      EXPECT_EQ(holder[key], at(event, "/" + key)) << type;
    }
  }
  EXPECT_FALSE(is_open);
  return items;
}

struct Logged {
  ChatEvent event;
  std::vector<TokenLogprob> logprobs = {};
};

struct Both {
  std::vector<Value> sent;
  Value whole;
};

/// The same events as a stream and as a whole, which must be equal.
Both encode(const std::vector<Logged>& events, const message::Finish& finish) {
  ResponsesEncoder streaming(responses_encode_head());
  ResponsesEncoder keeping(responses_encode_head());
  std::string wire;
  std::string early;
  for (const Logged& logged : events) {
    streaming.add(0, logged.event, logged.logprobs, early);
    keeping.keep(0, logged.event, logged.logprobs);
  }
  streaming.add(0, finish, {}, early);
  keeping.keep(0, finish, {});
  streaming.begin(wire);  // a stream may be opened after its first events
  wire += early;
  streaming.end(kResponsesEncodeUsage, wire);
  Both both{responses_encode_events_of(wire), keeping.whole(kResponsesEncodeUsage)};
  const Value& last = both.sent.back();
  EXPECT_EQ(json::to_string(at(last, "/response")), json::to_string(both.whole));
  EXPECT_EQ(text(at(last, "/type")), "response." + text(at(both.whole, "/status")));
  EXPECT_EQ(Value(responses_encode_fold(both.sent)), at(both.whole, "/output"));
  return both;
}

struct ResponsesEncodeRow {
  std::string_view name;
  std::vector<Logged> events;
  message::Finish finish;
  std::string_view output;
  std::string_view types;  // of the events between the first two and the last
};

void PrintTo(const ResponsesEncodeRow& row, std::ostream* os) {
  *os << row.name;
}

const ResponsesEncodeRow kResponsesEncodeRows[] = {
    {"Nothing", {}, {}, "[]", ""},
    {"Text",
     {{ContentDelta{"Hi "}}, {ContentDelta{"\"you\"\n"}}},
     {},
     R"([{"id":"msg_R_0","type":"message","status":"completed","role":"assistant","content":
         [{"type":"output_text","text":"Hi \"you\"\n","annotations":[],"logprobs":[]}]}])",
     "output_item.added content_part.added output_text.delta output_text.delta output_text.done "
     "content_part.done output_item.done "},
    {"Logprobs",
     {{ContentDelta{"a"}, {{.bytes = "a", .logprob = -0.5, .top = {{"b", -1.0}}}}}},
     {},
     R"([{"id":"msg_R_0","type":"message","status":"completed","role":"assistant","content":
         [{"type":"output_text","text":"a","annotations":[],"logprobs":
           [{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":
             [{"token":"b","logprob":-1.0,"bytes":[98]}]}]}]}])",
     "output_item.added content_part.added output_text.delta output_text.done content_part.done "
     "output_item.done "},
    {"ThoughtAndCall",
     {{ReasoningDelta{"hm"}},
      {CallBegin{0, "call_a", "f"}},
      {CallArguments{0, "{\"n\""}},
      {CallArguments{0, ": 1.50}"}},
      {CallEnd{0}}},
     {.reason = FinishReason::tool_calls},
     R"([{"id":"rs_R_0","type":"reasoning","status":"completed","summary":[],"content":
         [{"type":"reasoning_text","text":"hm"}]},
        {"id":"fc_R_1","type":"function_call","status":"completed","call_id":"call_a","name":"f",
         "arguments":"{\"n\": 1.50}"}])",
     "output_item.added content_part.added reasoning_text.delta reasoning_text.done "
     "content_part.done output_item.done output_item.added function_call_arguments.delta "
     "function_call_arguments.delta function_call_arguments.done output_item.done "},
    {"CustomCall",
     {{CallBegin{0, "call_a", "sh"}},
      {CallArguments{0, "{\"input\": \"a\\"}},
      {CallArguments{0, "nb\"}"}},
      {CallEnd{0}}},
     {.reason = FinishReason::tool_calls},
     R"([{"id":"ctc_R_0","type":"custom_tool_call","status":"completed","call_id":"call_a",
         "name":"sh","input":"a\nb"}])",
     "output_item.added custom_tool_call_input.delta custom_tool_call_input.delta "
     "custom_tool_call_input.done output_item.done "},
    {"TextBetweenCalls",
     {{CallBegin{0, "a", "f"}},
      {CallEnd{0}},
      {ContentDelta{"and"}},
      {CallBegin{1, "b", "f"}},
      {CallEnd{1}}},
     {.reason = FinishReason::tool_calls},
     R"([{"id":"fc_R_0","type":"function_call","status":"completed","call_id":"a","name":"f",
          "arguments":""},
         {"id":"msg_R_1","type":"message","status":"completed","role":"assistant","content":
          [{"type":"output_text","text":"and","annotations":[],"logprobs":[]}]},
         {"id":"fc_R_2","type":"function_call","status":"completed","call_id":"b","name":"f",
          "arguments":""}])",
     "output_item.added function_call_arguments.done output_item.done output_item.added "
     "content_part.added output_text.delta output_text.done content_part.done output_item.done "
     "output_item.added function_call_arguments.done output_item.done "},
    {"CutText",
     {{ContentDelta{"a"}}},
     {.reason = FinishReason::length},
     R"([{"id":"msg_R_0","type":"message","status":"incomplete","role":"assistant","content":
         [{"type":"output_text","text":"a","annotations":[],"logprobs":[]}]}])",
     "output_item.added content_part.added output_text.delta output_text.done content_part.done "
     "output_item.done "},
    {"CutCall",
     {{CallBegin{0, "a", "f"}}, {CallArguments{0, "{\"s\": \"x"}}, {CallEnd{0, true}}},
     {.reason = FinishReason::length},
     R"([{"id":"fc_R_0","type":"function_call","status":"incomplete","call_id":"a","name":"f",
         "arguments":"{\"s\": \"x"}])",
     "output_item.added function_call_arguments.delta function_call_arguments.done "
     "output_item.done "},
};

class EncodedResponses : public ::testing::TestWithParam<ResponsesEncodeRow> {};

TEST_P(EncodedResponses, AreTheSameAsAStreamAndAsAWhole) {
  const ResponsesEncodeRow& row = GetParam();
  const auto [sent, whole] = encode(row.events, row.finish);
  EXPECT_EQ(at(whole, "/output"), *json::parse(row.output)) << json::to_string(whole);
  std::string types;
  for (std::size_t i = 2; i + 1 < sent.size(); ++i) {
    types += text(at(sent[i], "/type")).substr(std::string_view("response.").size()) + " ";
  }
  EXPECT_EQ(types, row.types);
  const bool is_cut = row.finish.reason == FinishReason::length;
  EXPECT_EQ(at(whole, "/status"), Value(is_cut ? "incomplete" : "completed"));
  EXPECT_EQ(json::to_string(at(whole, "/incomplete_details")),
            is_cut ? R"({"reason":"max_output_tokens"})" : "null");
  EXPECT_EQ(at(whole, "/completed_at"), is_cut ? Value() : Value(7));
}

INSTANTIATE_TEST_SUITE_P(Table, EncodedResponses, ::testing::ValuesIn(kResponsesEncodeRows),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(ResponsesEncoder, SaysWhatTheResponseIs) {
  const Value whole = encode({{ContentDelta{"a"}}}, {}).whole;
  json::Object rest = *whole.if_object();
  rest["output"] = Value();
  EXPECT_EQ(json::to_string(rest),
            R"({"id":"resp_R","object":"response","created_at":5,"status":"completed",)"
            R"("completed_at":7,"error":null,"incomplete_details":null,"output":null,)"
            R"("usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":3,)"
            R"("cache_write_tokens":0},"output_tokens":4,"output_tokens_details":)"
            R"({"reasoning_tokens":2},"total_tokens":14},"model":"m","store":true,)"
            R"("tenon":{"guarantee":null,"repairs":[],"format":"hermes"}})");
}

// Calls have the client's name of the tool, not the model's.
TEST(ResponsesEncoder, TellsCallsAsTheClientKnowsThem) {
  const struct {
    std::string_view name;
    CalledAs called_as;
    std::string_view arguments;
    std::string_view item;  // without id and status
  } rows[] = {
      {"rail__seats",
       {.name_space = "rail", .name = "seats"},
       R"({"day": "mon"})",
       R"({"type":"function_call","call_id":"c","namespace":"rail","name":"seats",)"
       R"("arguments":"{\"day\": \"mon\"}"})"},
      {"local_shell",
       {.name_space = {}, .name = "local_shell", .tool = client_tool_of_responses("local_shell")},
       R"({"command": ["ls"]})",
       R"({"type":"local_shell_call","call_id":"c",)"
       R"("action":{"type":"exec","command":["ls"],"env":{}}})"},
      {"apply_patch",
       {.name_space = {}, .name = "apply_patch", .tool = client_tool_of_responses("apply_patch")},
       R"({"type": "delete_file", "path": "a)",
       R"({"type":"apply_patch_call","call_id":"c",)"
       R"("operation":{"type":"delete_file","path":"a"}})"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    ResponseHead head = responses_encode_head();
    head.called_as = {{std::string(row.name), row.called_as}};
    ResponsesEncoder stream(head);
    ResponsesEncoder whole(head);
    std::string wire;
    stream.begin(wire);
    const ChatEvent events[] = {CallBegin{0, "c", std::string(row.name)},
                                CallArguments{0, std::string(row.arguments)}, CallEnd{0},
                                message::Finish{.reason = FinishReason::tool_calls}};
    for (const ChatEvent& event : events) {
      stream.add(0, event, {}, wire);
      whole.keep(0, event, {});
    }
    stream.end(kResponsesEncodeUsage, wire);
    const std::vector<Value> told = responses_encode_events_of(wire);
    const Value last = at(told.back(), "/response/output/0");
    EXPECT_EQ(last, at(whole.whole(kResponsesEncodeUsage), "/output/0"));
    json::Object item = *last.if_object();
    item.erase("id");
    item.erase("status");
    EXPECT_EQ(json::to_string(item), row.item);
  }
}

TEST(ResponsesEncoder, BeginsWithNothingWritten) {
  ResponsesEncoder streaming(responses_encode_head());
  std::string wire;
  streaming.begin(wire);
  const std::vector<Value> sent = responses_encode_events_of(wire);
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(at(sent[0], "/type"), Value("response.created"));
  EXPECT_EQ(at(sent[1], "/type"), Value("response.in_progress"));
  for (const Value& event : sent) {
    EXPECT_EQ(at(event, "/response/status"), Value("in_progress"));
    EXPECT_EQ(at(event, "/response/output"), Value(json::Array()));
  }
}

TEST(ResponsesEncoder, AStreamThatFailsSaysSoAndHasWhatThereWas) {
  ResponsesEncoder streaming(responses_encode_head());
  std::string wire;
  streaming.begin(wire);
  streaming.add(0, ContentDelta{"a"}, {}, wire);
  streaming.keep_alive(wire);
  streaming.add(0, message::Finish{.reason = FinishReason::error}, {}, wire);
  streaming.fail({.message = "gone", .param = {}, .code = "engine_error"}, wire);
  const Value last = responses_encode_events_of(wire).back();
  EXPECT_EQ(at(last, "/type"), Value("response.failed"));
  EXPECT_EQ(at(last, "/response/status"), Value("failed"));
  EXPECT_EQ(json::to_string(at(last, "/response/error")),
            R"({"code":"server_error","message":"gone"})");
  EXPECT_EQ(at(last, "/response/output/0/status"), Value("incomplete"));
  EXPECT_EQ(at(last, "/response/output/0/content/0/text"), Value("a"));
}

TEST(ResponsesEncoder, IsKeptOnceItIsWhole) {
  for (const bool can : {true, false}) {
    std::vector<Value> kept;
    ResponseHead chosen = responses_encode_head();
    chosen.keep = [&](const Value& response) {
      kept.push_back(response);
      return can;
    };
    ResponsesEncoder streaming(chosen);
    EXPECT_TRUE(streaming.ends_slowly());
    std::string wire;
    streaming.begin(wire);
    streaming.add(0, ContentDelta{"a"}, {}, wire);
    streaming.add(0, message::Finish{}, {}, wire);
    EXPECT_TRUE(kept.empty());
    streaming.end(kResponsesEncodeUsage, wire);
    ASSERT_EQ(kept.size(), 1U);
    EXPECT_EQ(at(kept[0], "/status"), Value("completed"));
    EXPECT_EQ(at(responses_encode_events_of(wire).back(), "/response/store"), Value(can));
  }
  EXPECT_FALSE(ResponsesEncoder(responses_encode_head()).ends_slowly());
}

// ---- any log

std::vector<Logged> random_log(std::mt19937& random, message::Finish& finish) {
  const auto below = [&](std::size_t most) { return random() % most; };
  const std::string_view kTexts[] = {"a", " ", "\"", "\n", "\xc3\xa9", "{}", "data: \n\n"};
  const auto some_text = [&] { return std::string(kTexts[below(std::size(kTexts))]); };
  std::vector<Logged> log;
  std::uint32_t calls = 0;
  for (std::size_t stretch = below(6); stretch > 0; --stretch) {
    const std::size_t kind = below(4);
    if (kind == 3) {
      log.push_back({message::Diagnostic{"mended_arguments", some_text()}});
    } else if (kind == 2) {
      const bool is_custom = below(2) == 0;
      log.push_back({CallBegin{calls, "call_" + std::to_string(calls), is_custom ? "sh" : "f"}});
      std::string arguments =
          is_custom ? message::arguments_of(some_text() + some_text()) : R"({"a": [1, "b"]})";
      const bool is_cut = stretch == 1 && below(3) == 0;
      // Events are cut between characters.
      const auto end_of = [&](std::size_t size) {
        while (size < arguments.size() && (arguments[size] & 0xC0) == 0x80) ++size;
        return size;
      };
      if (is_cut) arguments.resize(end_of(below(arguments.size())));
      while (!arguments.empty()) {
        const std::size_t size = end_of(1 + below(arguments.size()));
        log.push_back({CallArguments{calls, arguments.substr(0, size)}});
        arguments.erase(0, size);
      }
      log.push_back({CallEnd{calls++, is_cut}});
      finish.reason = is_cut ? FinishReason::length : FinishReason::tool_calls;
    } else {
      for (std::size_t pieces = 1 + below(4); pieces > 0; --pieces) {
        const std::string said = some_text();
        if (kind == 0) log.push_back({ReasoningDelta{said}});
        if (kind == 1) log.push_back({ContentDelta{said}, {{.bytes = said, .logprob = -1.0}}});
      }
    }
  }
  if (below(4) == 0) finish.reason = FinishReason::length;
  return log;
}

TEST(ResponsesEncoder, AnyLogIsTheSameAsAStreamAndAsAWholeAndCanBeReadAgain) {
  const int rounds = is_long_test() ? 10'000 : 300;
  std::mt19937 random(8);
  for (int round = 0; round < rounds; ++round) {
    message::Finish finish;
    const std::vector<Logged> log = random_log(random, finish);
    message::Fold fold;
    for (const Logged& logged : log) fold.add(logged.event);
    const Value whole = encode(log, finish).whole;
    // A client may send back what it gets, and decoding that must give the same messages.
    const FindResponse find = [&](const std::string&) -> Result<Value, ApiError> {
      return Value(json::Object{{"input", json::Array()}, {"response", whole}});
    };
    const Value again =
        json::Object{{"model", "m"}, {"previous_response_id", "resp_R"}, {"input", "go on"}};
    const auto decoded = decode_response(again, "resp_S", find);
    ASSERT_TRUE(decoded) << decoded.error().message << " " << json::to_string(whole);
    std::string said;
    std::string thought;
    std::vector<std::string> ids;
    for (const message::Message& message : decoded->chat.messages) {
      if (message.role != message::Role::assistant) continue;
      said += message.text();
      thought += message.reasoning;
      for (const auto& call : message.tool_calls) ids.push_back(call.id);
    }
    EXPECT_EQ(said, fold.message().text());
    EXPECT_EQ(thought, fold.message().reasoning);
    EXPECT_EQ(ids.size(), fold.message().tool_calls.size());
    if (testing::Test::HasFailure()) FAIL() << "round " << round << json::to_string(whole);
  }
}

}  // namespace
}  // namespace tenon::api
