#include "tenon/chat/spans.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenon/message/event.h"

namespace tenon::chat {
namespace {

class Kept final : public trace::SpanSink {
 public:
  explicit Kept(bool contents) : contents_(contents) {}
  bool samples(std::string_view, const trace::Context&) const override { return true; }
  bool takes_contents() const override { return contents_; }
  void ended(trace::SpanData span) override { spans.push_back(std::move(span)); }
  trace::SpanCounts counts() const override { return {}; }
  std::vector<trace::SpanData> spans;

 private:
  const bool contents_;
};

class Events final : public message::ChatSink {
 public:
  void on_event(const message::ChatEvent& event,
                const std::vector<message::TokenLogprob>&) override {
    events.push_back(event);
  }
  std::vector<message::ChatEvent> events;
};

class NoAnswer final : public Answer {
 public:
  void cancel() override {}
  void pause() override {}
  void resume() override {}
};

class SpansTest : public testing::Test {
 protected:
  void TearDown() override { trace::set_span_sink(nullptr); }

  static message::ChatRequest request() {
    message::ChatRequest request{.model = "m"};
    request.messages.push_back({.role = message::Role::user, .content = "a secret"});
    request.max_tokens = 9;
    request.sampling.temperature = 0.5;
    return request;
  }
  // Runs an answer of these events; none: it is refused.
  std::vector<trace::SpanData> run(bool contents, const std::vector<message::ChatEvent>& events,
                                   bool is_remote = false) {
    const auto kept = std::make_shared<Kept>(contents);
    trace::set_span_sink(kept);
    (void)start_in_span(
        request(), {"m", "vllm", is_remote}, sink_,
        [&](const std::shared_ptr<message::ChatSink>& sink)
            -> Result<std::unique_ptr<Answer>, Refusal> {
          within_ = trace::current();
          if (events.empty()) {
            return Failure<Refusal>(Refusal{.error = {Errc::limit_exceeded, "too long"}});
          }
          for (const auto& event : events) sink->on_event(event, {});
          return std::make_unique<NoAnswer>();
        });
    return kept->spans;
  }

  const std::shared_ptr<Events> sink_ = std::make_shared<Events>();
  trace::Context within_;
};

message::Finish finish(message::FinishReason reason) {
  return {.reason = reason,
          .usage = {.prompt_tokens = 7, .completion_tokens = 3, .cached_tokens = 2},
          .error = {Errc::unavailable, "it said a secret"}};
}

TEST_F(SpansTest, AnAnswerIsASpanWithItsUsage) {
  const auto spans = run(false, {message::ContentDelta{"hi"}, finish(message::FinishReason::stop)});
  ASSERT_EQ(spans.size(), 1U);
  const trace::SpanData& span = spans[0];
  EXPECT_EQ(span.name, "chat m");
  EXPECT_EQ(span.kind, trace::SpanKind::internal);
  EXPECT_EQ(span.text("gen_ai.provider.name"), "tenon");
  EXPECT_EQ(std::get<std::int64_t>(*span.find("gen_ai.usage.input_tokens")), 7);
  EXPECT_EQ(std::get<std::int64_t>(*span.find("gen_ai.usage.cache_read.input_tokens")), 2);
  EXPECT_EQ(std::get<std::int64_t>(*span.find("gen_ai.request.max_tokens")), 9);
  EXPECT_NE(span.find("gen_ai.response.time_to_first_chunk"), nullptr);
  EXPECT_FALSE(span.has_failed);
  EXPECT_EQ(within_.trace_id(), span.trace_id);
  EXPECT_EQ(sink_->events.size(), 2U);
}

TEST_F(SpansTest, AnotherServersAnswerIsAClientSpan) {
  const auto spans = run(false, {finish(message::FinishReason::stop)}, true);
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(spans[0].kind, trace::SpanKind::client);
  EXPECT_EQ(spans[0].text("gen_ai.provider.name"), "vllm");
}

TEST_F(SpansTest, TextsAreInItOnlyIfTheyAreWanted) {
  for (const bool contents : {false, true}) {
    const auto spans =
        run(contents, {message::CallBegin{0, "c1", "add"}, message::CallArguments{0, R"({"a": 1})"},
                       message::CallEnd{0, false}, finish(message::FinishReason::error)});
    ASSERT_EQ(spans.size(), 1U);
    const trace::SpanData& span = spans[0];
    EXPECT_EQ(span.text("error.type"), "unavailable");
    EXPECT_EQ(span.message, contents ? "it said a secret" : "");
    EXPECT_EQ(
        span.text("gen_ai.input.messages"),
        contents ? R"([{"role":"user","parts":[{"type":"text","content":"a secret"}]}])" : "");
    EXPECT_EQ(span.text("gen_ai.output.messages"),
              contents ? R"([{"role":"assistant","parts":[{"type":"tool_call","id":"c1",)"
                         R"("name":"add","arguments":{"a":1}}],"finish_reason":"error"}])"
                       : "");
  }
}

TEST_F(SpansTest, ARefusalAndALostAnswerHaveFailed) {
  auto spans = run(false, {});
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(spans[0].text("error.type"), "limit_exceeded");
  spans = run(false, {message::ContentDelta{"hi"}});
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(spans[0].text("error.type"), "cancelled");
}

TEST_F(SpansTest, WithoutATakerTheSinkIsPassedOn) {
  (void)start_in_span(request(), {"m", "llama", false}, sink_,
                      [&](const std::shared_ptr<message::ChatSink>& sink)
                          -> Result<std::unique_ptr<Answer>, Refusal> {
                        EXPECT_EQ(sink, sink_);
                        return std::make_unique<NoAnswer>();
                      });
}

}  // namespace
}  // namespace tenon::chat
