#include "tenon/api/chat_encode.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/http/sse.h"

namespace tenon::api {
namespace {

using message::ChatEvent;
using message::FinishReason;

ChatCompletionHead chat_encode_head(bool usage_field = false) {
  return {.id = "chatcmpl-1",
          .created = 7,
          .model = "m\"n",
          .fingerprint = "fp",
          .format = "hermes",
          .usage_field = usage_field};
}

std::string chunk(std::string_view delta, std::string_view finish = "null",
                  std::string_view tail = "") {
  return R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m\"n",)"
         R"("system_fingerprint":"fp","choices":[{"index":0,"delta":{)" +
         std::string(delta) + R"(},"logprobs":null,"finish_reason":)" + std::string(finish) + "}]" +
         std::string(tail) + "}\n\n";
}

struct Golden {
  std::string_view name;
  ChatEvent event;
  std::string wire;
};

const Golden kGolden[] = {
    {"Content", message::ContentDelta{"a\n\"\u00e9"}, chunk("\"content\":\"a\\n\\\"\u00e9\"")},
    {"Reasoning", message::ReasoningDelta{"hm"}, chunk(R"("reasoning_content":"hm")")},
    {"CallBegin", message::CallBegin{1, "call_x", "f"},
     chunk(R"("tool_calls":[{"index":1,"id":"call_x","type":"function",)"
           R"("function":{"name":"f","arguments":""}}])")},
    {"CallArguments", message::CallArguments{1, "{\"a\""},
     chunk(R"("tool_calls":[{"index":1,"function":{"arguments":"{\"a\""}}])")},
    {"CallEnd", message::CallEnd{1}, ""},
    {"Diagnostic", message::Diagnostic{"x", "y"}, ""},
    {"Stop", message::Finish{.reason = FinishReason::stop},
     chunk("", R"("stop")", R"(,"tenon":{"guarantee":null,"repairs":[],"format":"hermes"})")},
    {"Length", message::Finish{.reason = FinishReason::length},
     chunk("", R"("length")", R"(,"tenon":{"guarantee":null,"repairs":[],"format":"hermes"})")},
    {"Cancelled", message::Finish{.reason = FinishReason::cancelled}, ""},
    {"Error", message::Finish{.reason = FinishReason::error}, ""},
};

TEST(ChunkEncoder, tool_calling_EventsHaveTheirWireForm) {
  for (const Golden& test : kGolden) {
    SCOPED_TRACE(test.name);
    std::string out;
    ChunkEncoder(chat_encode_head(), 0).add(test.event, {}, out);
    EXPECT_EQ(out, test.wire);
  }
}

// The input comes as it is generated, without the arguments around it.
TEST(ChunkEncoder, tool_calling_CustomCallsHaveAnInput) {
  ChatCompletionHead custom = chat_encode_head();
  custom.custom_tools = {"run"};
  ChunkEncoder encoder(custom, 0);
  const struct {
    ChatEvent event;
    std::string wire;
  } steps[] = {
      {message::CallBegin{0, "call_x", "run"},
       chunk(R"("tool_calls":[{"index":0,"id":"call_x","type":"custom",)"
             R"("custom":{"name":"run","input":""}}])")},
      {message::CallArguments{0, "{\"in"}, ""},
      {message::CallArguments{0, "put\": \"a\\"},
       chunk(R"("tool_calls":[{"index":0,"custom":{"input":"a"}}])")},
      {message::CallArguments{0, "nb\"}"},
       chunk(R"("tool_calls":[{"index":0,"custom":{"input":"\nb"}}])")},
      {message::CallEnd{0}, ""},
      {message::CallBegin{1, "call_y", "f"},
       chunk(R"("tool_calls":[{"index":1,"id":"call_y","type":"function",)"
             R"("function":{"name":"f","arguments":""}}])")},
      {message::CallArguments{1, "{}"},
       chunk(R"("tool_calls":[{"index":1,"function":{"arguments":"{}"}}])")},
      {message::CallEnd{1}, ""},
      {message::CallBegin{2, "call_z", "run"},
       chunk(R"("tool_calls":[{"index":2,"id":"call_z","type":"custom",)"
             R"("custom":{"name":"run","input":""}}])")},
      {message::CallArguments{2, R"({"code": 1})"}, ""},
      {message::CallEnd{2},
       chunk(R"("tool_calls":[{"index":2,"custom":{"input":"{\"code\": 1}"}}])")},
  };
  for (const auto& step : steps) {
    std::string out;
    encoder.add(step.event, {}, out);
    EXPECT_EQ(out, step.wire);
  }
}

// The whole answer made from the events of these choices.
json::Value whole(const ChatCompletionHead& head,
                  const std::vector<std::vector<ChatEvent>>& choices) {
  ChatCompletionEncoder encoder(head, {.choices = static_cast<unsigned>(choices.size())});
  for (unsigned i = 0; i < choices.size(); ++i) {
    for (const ChatEvent& event : choices[i]) encoder.keep(i, event, {});
  }
  return encoder.whole({.prompt_tokens = 1, .completion_tokens = 2});
}

// The call of a request that had `functions`.
TEST(Completion, tool_calling_FunctionCallsStandAlone) {
  ChatCompletionHead old = chat_encode_head();
  old.has_functions = true;
  ChunkEncoder encoder(old, 0);
  std::string out;
  const std::vector<ChatEvent> events = {
      message::CallBegin{0, "call_x", "f"}, message::CallArguments{0, "{\"a\": 1}"},
      message::CallEnd{0}, message::Finish{.reason = message::FinishReason::tool_calls}};
  for (const ChatEvent& event : events) encoder.add(event, {}, out);
  for (const char* part : {R"("delta":{"function_call":{"name":"f","arguments":""}})",
                           R"("delta":{"function_call":{"arguments":"{\"a\": 1}"}})",
                           R"("finish_reason":"function_call")"}) {
    EXPECT_NE(out.find(part), std::string::npos) << part << " in " << out;
  }
  const json::Value answer = whole(old, {events});
  EXPECT_EQ(json::to_string(*json::at_pointer(answer, "/choices/0/message/function_call")),
            R"({"name":"f","arguments":"{\"a\": 1}"})");
  EXPECT_EQ(json::at_pointer(answer, "/choices/0/message/tool_calls"), nullptr);
  EXPECT_EQ(*json::at_pointer(answer, "/choices/0/finish_reason"), json::Value("function_call"));
}

TEST(Completion, tool_calling_CustomCallsHaveAnInput) {
  ChatCompletionHead custom = chat_encode_head();
  custom.custom_tools = {"run"};
  const json::Value out =
      whole(custom, {{message::CallBegin{0, "call_x", "run"},
                      message::CallArguments{0, R"({"input": "say \"a\""})"}, message::CallEnd{0},
                      message::Finish{.reason = FinishReason::tool_calls}}});
  EXPECT_EQ(json::to_string(*json::at_pointer(out, "/choices/0/message/tool_calls")),
            R"([{"id":"call_x","type":"custom","custom":{"name":"run","input":"say \"a\""}}])");
}

// A stream and a whole answer tell the messages that a client goes on with alike.
TEST(Completion, tool_calling_ApprovalsHaveTheMessagesOfTheAnswer) {
  ChatCompletionHead custom = chat_encode_head();
  custom.custom_tools = {"run"};
  message::ApprovalsWanted wanted;
  wanted.calls.push_back(
      {.call = {.id = "call_y", .name = "near_f", .arguments = "{}"}, .tool = {"near", "f"}});
  wanted.messages.push_back(
      {.role = message::Role::assistant,
       .tool_calls = {{.id = "call_x", .name = "run", .arguments = R"({"input": "a\nb"})"}}});
  const std::vector<ChatEvent> events = {
      wanted, message::Finish{.reason = message::FinishReason::tool_calls}};
  constexpr std::string_view kCalls =
      R"([{"id":"call_x","type":"custom","custom":{"name":"run","input":"a\nb"}}])";
  const json::Value answer = whole(custom, {events});
  const json::Value* const kept =
      json::at_pointer(answer, "/tenon/approvals/messages/0/tool_calls");
  ASSERT_NE(kept, nullptr) << json::to_string(answer);
  EXPECT_EQ(json::to_string(*kept), kCalls);
  ChunkEncoder encoder(custom, 0);
  std::string out;
  for (const ChatEvent& event : events) encoder.add(event, {}, out);
  EXPECT_NE(out.find(kCalls), std::string::npos) << out;
}

TEST(ChunkEncoder, BeginsWithTheRole) {
  std::string out;
  ChunkEncoder(chat_encode_head(), 0).begin(out);
  EXPECT_EQ(out, chunk(R"("role":"assistant","content":null)"));
}

TEST(ChunkEncoder, SaysHowACallIsGuaranteed) {
  ChunkEncoder encoder(chat_encode_head(), 0);
  std::string out;
  encoder.add(message::CallBegin{0, "id", "f"}, {}, out);
  out.clear();
  encoder.add(message::Finish{.reason = FinishReason::tool_calls}, {}, out);
  EXPECT_EQ(out, chunk("", R"("tool_calls")",
                       R"(,"tenon":{"guarantee":"unenforced","repairs":[],"format":"hermes"})"));
}

TEST(ChunkEncoder, SaysWhatWasNotTakenAsWritten) {
  ChunkEncoder encoder(chat_encode_head(), 0);
  std::string out;
  encoder.add(message::Diagnostic{"unknown_tool", "there is no 'g'"}, {}, out);
  EXPECT_EQ(out, "");
  encoder.add(message::Finish{.reason = FinishReason::stop}, {}, out);
  EXPECT_EQ(out, chunk("", R"("stop")",
                       R"(,"tenon":{"guarantee":null,"repairs":[{"code":"unknown_tool",)"
                       R"("message":"there is no 'g'"}],"format":"hermes"})"));
}

TEST(ChunkEncoder, LeavesRoomForTheUsageIfItWillCome) {
  std::string out;
  ChunkEncoder(chat_encode_head(/*usage_field=*/true), 0).add(message::ContentDelta{"x"}, {}, out);
  EXPECT_EQ(out, chunk(R"("content":"x")", "null", R"(,"usage":null)"));
  out.clear();
  append_usage_chunk(chat_encode_head(),
                     {.prompt_tokens = 3, .completion_tokens = 4, .cached_tokens = 1}, out);
  EXPECT_EQ(out,
            R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,)"
            R"("model":"m\"n","system_fingerprint":"fp","choices":[],"usage":{"prompt_tokens":3,)"
            R"("completion_tokens":4,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":1},)"
            R"("completion_tokens_details":{"reasoning_tokens":0}}})"
            "\n\n");
}

TEST(ChunkEncoder, WritesLogprobsAsBytes) {
  const std::vector<message::TokenLogprob> logprobs = {
      {.bytes = "\xc3", .logprob = -0.5, .top = {{"\xc3", -0.5}, {"a", -2}}}};
  std::string out;
  ChunkEncoder(chat_encode_head(), 0).add(message::ContentDelta{"\u00e9"}, logprobs, out);
  const std::string expected =
      "\"logprobs\":{\"content\":[{\"token\":\"\ufffd\",\"logprob\":-0.5,\"bytes\":[195],"
      "\"top_logprobs\":[{\"token\":\"\ufffd\",\"logprob\":-0.5,\"bytes\":[195]},"
      "{\"token\":\"a\",\"logprob\":-2.0,\"bytes\":[97]}]}],\"refusal\":null}";
  EXPECT_NE(out.find(expected), std::string::npos) << out;
}

json::Value completion(const std::vector<ChatEvent>& events) {
  return whole(chat_encode_head(), {events});
}

TEST(Completion, tool_calling_ContentIsNullBesideCalls) {
  const json::Value out =
      completion({message::CallBegin{0, "id", "f"}, message::CallArguments{0, "{}"},
                  message::CallEnd{0}, message::Finish{.reason = FinishReason::tool_calls}});
  EXPECT_EQ(json::to_string(*json::at_pointer(out, "/choices/0")),
            R"({"index":0,"message":{"role":"assistant","content":null,"refusal":null,)"
            R"("tool_calls":[{"id":"id","type":"function","function":{"name":"f",)"
            R"("arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"})");
  EXPECT_EQ(json::to_string(*out.find("tenon")),
            R"({"guarantee":"unenforced","repairs":[],"format":"hermes"})");
}

TEST(Completion, tool_calling_GuaranteeIsTheWeakestOfTheCalls) {
  using message::Guarantee;
  struct Row {
    std::vector<std::pair<bool, Guarantee>> choices;  // has a call
    json::Value guarantee;
    bool is_json = false;  // was asked for
  };
  const Row rows[] = {
      {{{true, Guarantee::masked}}, "masked"},
      {{{true, Guarantee::masked}, {true, Guarantee::unenforced}}, "unenforced"},
      {{{true, Guarantee::masked}, {false, Guarantee::unenforced}}, "masked"},
      {{{false, Guarantee::masked}}, nullptr},
      {{{false, Guarantee::masked}}, "masked", true},
      {{{false, Guarantee::masked}, {false, Guarantee::unenforced}}, "unenforced", true},
  };
  for (const Row& row : rows) {
    std::vector<std::vector<ChatEvent>> choices;
    for (const auto& [has_call, guarantee] : row.choices) {
      std::vector<ChatEvent>& choice = choices.emplace_back();
      if (has_call) choice = {message::CallBegin{0, "id", "f"}, message::CallEnd{0}};
      choice.emplace_back(message::Finish{.guarantee = guarantee});
    }
    ChatCompletionHead of = chat_encode_head();
    of.is_json = row.is_json;
    const json::Value out = whole(of, choices);
    EXPECT_EQ(*json::at_pointer(out, "/tenon/guarantee"), row.guarantee);
  }
}

// The same as what its stream adds up to.
TEST(Completion, ContentIsNullWhereNothingWasSaid) {
  const json::Value out = completion({message::Finish{.reason = FinishReason::length}});
  EXPECT_EQ(json::to_string(*json::at_pointer(out, "/choices/0/message")),
            R"({"role":"assistant","content":null,"refusal":null})");
  EXPECT_EQ(*json::at_pointer(out, "/choices/0/finish_reason"), json::Value("length"));
  EXPECT_EQ(*json::at_pointer(out, "/usage/total_tokens"), json::Value(3));
}

TEST(Completion, ReasoningStandsBesideTheContent) {
  const json::Value out = completion({message::ReasoningDelta{"hm"}, message::ContentDelta{"yes"},
                                      message::Finish{.reason = FinishReason::stop}});
  EXPECT_EQ(*json::at_pointer(out, "/choices/0/message/reasoning_content"), json::Value("hm"));
  EXPECT_EQ(*json::at_pointer(out, "/choices/0/message/content"), json::Value("yes"));
}

}  // namespace
}  // namespace tenon::api
