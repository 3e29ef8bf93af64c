#include "tenon/base/span.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::trace {
namespace {

class Kept final : public SpanSink {
 public:
  bool samples(std::string_view, const Context& parent) const override {
    return parent.parent.empty() || parent.parent.back() == '1';
  }
  bool takes_contents() const override { return false; }
  void ended(SpanData span) override { spans.push_back(std::move(span)); }
  SpanCounts counts() const override { return {}; }
  std::vector<SpanData> spans;
};

class SpanTest : public testing::Test {
 protected:
  void TearDown() override { set_span_sink(nullptr); }
  std::shared_ptr<Kept> listen() {
    auto sink = std::make_shared<Kept>();
    set_span_sink(sink);
    return sink;
  }
};

TEST_F(SpanTest, WithoutASinkASpanIsEmptyAndChangesNoContext) {
  Span span("a", SpanKind::internal);
  span.set("key", "value");
  span.fail("why");
  EXPECT_FALSE(span);
  const Context outer = read("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "");
  const Scope scope(outer);
  const SpanScope within(span);
  EXPECT_EQ(current(), outer);
  EXPECT_EQ(current_span(), nullptr);
}

TEST_F(SpanTest, AChildHasTheTraceOfItsParentAndItsOwnId) {
  const auto sink = listen();
  const Context outer = read("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=1");
  {
    Span parent("parent", SpanKind::server, outer);
    const SpanScope within(parent);
    Span child("child", SpanKind::client);
    child.set("n", std::int64_t{1});
    child.set("n", std::int64_t{2});
    EXPECT_EQ(current_span(), &parent);
  }
  ASSERT_EQ(sink->spans.size(), 2U);
  const SpanData& child = sink->spans[0];
  const SpanData& parent = sink->spans[1];
  EXPECT_EQ(parent.trace_id, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(parent.parent_id, "b7ad6b7169203331");
  EXPECT_EQ(parent.state, "a=1");
  EXPECT_TRUE(parent.is_sampled);
  EXPECT_EQ(child.trace_id, parent.trace_id);
  EXPECT_EQ(child.parent_id, parent.id);
  EXPECT_NE(child.id, parent.id);
  EXPECT_LE(parent.begin_ns, child.begin_ns);
  EXPECT_LE(child.end_ns, parent.end_ns);
  ASSERT_EQ(child.attributes.size(), 1U);
  EXPECT_EQ(std::get<std::int64_t>(child.attributes[0].second), 2);
}

TEST_F(SpanTest, WithoutAParentATraceBegins) {
  const auto sink = listen();
  {
    Span span("a", SpanKind::internal);
  }
  {
    Span span("b", SpanKind::internal);
  }
  ASSERT_EQ(sink->spans.size(), 2U);
  EXPECT_EQ(sink->spans[0].parent_id, "");
  EXPECT_EQ(sink->spans[0].trace_id.size(), 32U);
  EXPECT_EQ(sink->spans[0].id.size(), 16U);
  EXPECT_NE(sink->spans[0].trace_id, sink->spans[1].trace_id);
}

TEST_F(SpanTest, TheContextTellsWhetherItIsSampledAndIsAValidOne) {
  listen();
  const Context outer = read("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", "");
  const Span off("a", SpanKind::server, outer);
  EXPECT_TRUE(off.context().parent.ends_with("-00"));
  const Span on("a", SpanKind::server, Context{});
  EXPECT_TRUE(on.context().parent.ends_with("-01"));
  EXPECT_EQ(read(on.context().parent, ""), on.context());
}

TEST_F(SpanTest, ItEndsOnceAlsoWhenItIsMoved) {
  const auto sink = listen();
  Span span("a", SpanKind::internal);
  span.fail("timeout", "it took too long");
  Span other = std::move(span);
  other.end();
  other.end();
  Span third("b", SpanKind::internal);
  third = Span();
  ASSERT_EQ(sink->spans.size(), 2U);
  EXPECT_TRUE(sink->spans[0].has_failed);
  EXPECT_EQ(sink->spans[0].message, "it took too long");
  EXPECT_EQ(sink->spans[0].text("error.type"), "timeout");
  EXPECT_EQ(sink->spans[1].name, "b");
}

}  // namespace
}  // namespace tenon::trace
