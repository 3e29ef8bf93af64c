#include "tenon/api/completion_encode.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/http/sse.h"
#include "tenon/json/value.h"

namespace tenon::api {
namespace {

using json::Value;
using message::ContentDelta;
using message::FinishReason;
using message::TokenLogprob;

constexpr message::Usage kCompletionEncodeUsage{
    .prompt_tokens = 10, .completion_tokens = 4, .cached_tokens = 3};

/// The log of one answer: (event, tokens after it).
using Log = std::vector<std::pair<message::ChatEvent, std::vector<TokenLogprob>>>;

CompletionHead completion_encode_head() {
  return {.id = "cmpl-1", .created = 7, .model = "m", .fingerprint = "fp", .echoes = {}};
}

TokenLogprob token(std::string bytes, double logprob = -0.5) {
  return {.bytes = bytes, .logprob = logprob, .top = {{bytes, logprob}, {"z", -2.0}}};
}

Log said(std::string text, double logprob = -0.5, FinishReason reason = FinishReason::stop) {
  return {{ContentDelta{text}, {token(text, logprob)}}, {message::Finish{.reason = reason}, {}}};
}

Value whole_of(const CompletionHead& head, const std::vector<Log>& answers) {
  CompletionEncoder encoder(head);
  for (unsigned i = 0; i < answers.size(); ++i) {
    for (const auto& [event, logprobs] : answers[i]) encoder.keep(i, event, logprobs);
  }
  return encoder.whole(kCompletionEncodeUsage);
}

/// A whole answer made by adding up the chunks of a stream.
Value folded_of(const CompletionHead& head, const std::vector<Log>& answers) {
  CompletionEncoder encoder(head);
  std::string wire;
  encoder.begin(wire);
  for (unsigned i = 0; i < answers.size(); ++i) {
    for (const auto& [event, logprobs] : answers[i]) encoder.add(i, event, logprobs, wire);
  }
  encoder.end(kCompletionEncodeUsage, wire);
  http::SseDecoder decoder;
  std::vector<http::SseEvent> events;
  EXPECT_TRUE(decoder.feed(wire, events));
  EXPECT_EQ(events.back().data, "[DONE]");
  events.pop_back();
  Value folded;
  std::map<std::string, json::Object> choices;
  for (const http::SseEvent& event : events) {
    const Value chunk = json::parse(event.data).value_or(Value());
    for (const Value& piece : *chunk.find("choices")->if_array()) {
      json::Object& choice = choices[json::to_string(*piece.find("index"))];
      const std::string before = choice.contains("text") ? *choice["text"].if_string() : "";
      const Value tokens = choice.contains("logprobs") ? choice["logprobs"] : Value();
      choice = *piece.if_object();
      choice["text"] = before + *piece.find("text")->if_string();
      if (tokens.is_null()) continue;
      const Value more = choice["logprobs"];
      choice["logprobs"] = tokens;
      if (more.is_null()) continue;
      json::Object& lists = *choice["logprobs"].if_object();
      for (const json::Member& list : *more.if_object()) {
        json::Array& all = *lists[list.key].if_array();
        const json::Array& items = *list.value.if_array();
        all.insert(all.end(), items.begin(), items.end());
      }
    }
    const Value* usage = chunk.find("usage");
    EXPECT_EQ(usage != nullptr, head.include_usage);
    if (folded.is_null()) {
      folded = chunk;
    } else if (usage != nullptr && !usage->is_null()) {
      folded.if_object()->set("usage", *usage);
    }
  }
  json::Array list;
  for (auto& [index, choice] : choices) list.emplace_back(std::move(choice));
  folded.if_object()->set("choices", std::move(list));
  return folded;
}

Value without(Value document, std::string_view key) {
  document.if_object()->erase(key);
  return document;
}

struct CompletionEncodeRow {
  std::string_view name;
  CompletionHead head;
  std::vector<Log> answers;
};

TEST(CompletionEncoder, AStreamAddsUpToTheWhole) {
  CompletionHead two = completion_encode_head();
  two.choices = two.candidates = 2;
  CompletionHead echoing = completion_encode_head();
  echoing.prompts = 2;
  echoing.echoes = {"one ", "two "};
  CompletionHead scored = completion_encode_head();
  scored.logprobs = true;
  const CompletionEncodeRow kRows[] = {
      {"Text", completion_encode_head(), {said("hi")}},
      {"Nothing", completion_encode_head(), {{{message::Finish{}, {}}}}},
      {"Cut", completion_encode_head(), {said("hi", -1, FinishReason::length)}},
      {"Choices", two, {said("a"), said("b")}},
      {"Echo", echoing, {said("a"), said("b")}},
      {"Logprobs",
       scored,
       {{{ContentDelta{"ab"}, {token("a"), token("b")}},
         {ContentDelta{"é"}, {token("\xc3"), token("\xa9")}},
         {message::Finish{}, {token("</s>")}}}}},
      {"TokensWithoutText",
       scored,
       {{{message::Diagnostic{"c", "m"}, {token("a")}}, said("b")[0], {message::Finish{}, {}}}}},
  };
  for (CompletionEncodeRow row : kRows) {
    row.head.include_usage = true;
    const Value whole = without(whole_of(row.head, row.answers), "tenon");
    const Value folded = without(folded_of(row.head, row.answers), "tenon");
    EXPECT_EQ(json::to_string(folded), json::to_string(whole)) << row.name;
  }
}

TEST(CompletionEncoder, HasTheShapeOfOpenAisApi) {
  EXPECT_EQ(
      json::to_string(whole_of(completion_encode_head(), {said("hi", -1, FinishReason::length)})),
      R"({"id":"cmpl-1","object":"text_completion","created":7,"model":"m",)"
      R"("system_fingerprint":"fp","choices":[{"text":"hi","index":0,"logprobs":null,)"
      R"("finish_reason":"length"}],"usage":{"prompt_tokens":10,"completion_tokens":4,)"
      R"("total_tokens":14,"prompt_tokens_details":{"cached_tokens":3},)"
      R"("completion_tokens_details":{"reasoning_tokens":0}},)"
      R"("tenon":{"guarantee":null,"repairs":[],"format":null}})");
}

TEST(CompletionEncoder, TellsTokensWhereTheyStand) {
  CompletionHead scored = completion_encode_head();
  scored.logprobs = true;
  TokenLogprob unlikely = token("\xc3", -7);
  unlikely.top = {{"x", -0.1}};
  const Log log = {{ContentDelta{"aé!"}, {token("a"), unlikely, token("\xa9!")}},
                   {message::Finish{}, {}}};
  EXPECT_EQ(json::to_string(*json::at_pointer(whole_of(scored, {log}), "/choices/0/logprobs")),
            R"({"tokens":["a","bytes:\\xc3","bytes:\\xa9\\x21"],)"
            R"("token_logprobs":[-0.5,-7.0,-0.5],)"
            R"("top_logprobs":[{"a":-0.5,"z":-2.0},{"x":-0.1,"bytes:\\xc3":-7.0},)"
            R"({"bytes:\\xa9\\x21":-0.5,"z":-2.0}],"text_offset":[0,1,1]})");
}

TEST(CompletionEncoder, TakesTheLikeliestOfEachPrompt) {
  CompletionHead best = completion_encode_head();
  best.prompts = 2;
  best.candidates = 3;
  best.choices = 2;
  const Value whole = whole_of(best, {said("a", -3), said("b", -1), said("c", -2),  //
                                      said("d", -1), said("e", -1), said("f", -0.5)});
  std::string texts;
  for (const Value& choice : *whole.find("choices")->if_array()) {
    texts += *choice.find("text")->if_string();
    EXPECT_TRUE(choice.find("logprobs")->is_null()) << "they were not asked for";
  }
  EXPECT_EQ(texts, "bcfd");
}

TEST(CompletionEncoder, SpeaksOfTheGuaranteeOfAResponseFormat) {
  CompletionHead json_head = completion_encode_head();
  json_head.is_json = true;
  const Log log = {{ContentDelta{"[]"}, {}},
                   {message::Finish{.guarantee = message::Guarantee::masked}, {}}};
  EXPECT_EQ(*json::at_pointer(whole_of(json_head, {log}), "/tenon/guarantee"), Value("masked"));
  EXPECT_EQ(*json::at_pointer(folded_of(json_head, {log}), "/choices/0/text"), Value("[]"));
}

TEST(CompletionEncoder, AFailureIsAnEventAndTheEnd) {
  CompletionEncoder encoder(completion_encode_head());
  std::string wire;
  encoder.fail(internal_error(), wire);
  EXPECT_TRUE(wire.starts_with("data: {\"error\":"));
  EXPECT_TRUE(wire.ends_with("data: [DONE]\n\n"));
}

}  // namespace
}  // namespace tenon::api
