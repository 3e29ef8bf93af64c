#include "tenon/base/span.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>

#include "tenon/base/hex.h"
#include "tenon/base/ids.h"

// Spans cost next to nothing while no sink is set: a Span then has no data, and each call returns
// at once. With a sink, a span is one object of its own, which end() moves to the sink. The span of
// a thread is a pointer that SpanScope sets and puts back, so spans nest as blocks of code do.
namespace tenon::trace {
namespace {

// The flag spares requests the lock while nothing receives spans, which is the usual case.
std::atomic<bool> has_sink = false;
std::mutex sink_mutex;
std::shared_ptr<SpanSink>& sink_place() {
  static std::shared_ptr<SpanSink> sink;  // guarded by sink_mutex
  return sink;
}

thread_local Span* this_span = nullptr;  // set by SpanScope

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Ids as W3C Trace Context writes them: lower-case hexadecimal, two digits for each byte.
template <std::size_t kBytes>
std::string random_hex() {
  std::array<unsigned char, kBytes> bytes{};
  fill_random(bytes.data(), bytes.size());
  bytes[0] |= 1U;  // an id is not all zeros
  std::string text;
  for (const unsigned char byte : bytes) append_hex(text, byte);
  return text;
}

}  // namespace

const SpanValue* SpanData::find(std::string_view key) const {
  const auto found = std::ranges::find(attributes, key, [](const auto& one) { return one.first; });
  return found == attributes.end() ? nullptr : &found->second;
}

std::string_view SpanData::text(std::string_view key) const {
  const SpanValue* const value = find(key);
  const auto* const text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? std::string_view() : *text;
}

void set_span_sink(std::shared_ptr<SpanSink> sink) {
  const std::lock_guard lock(sink_mutex);
  has_sink = sink != nullptr;
  // The old sink is destroyed by the parameter, after the lock is released.
  sink_place().swap(sink);
}

std::shared_ptr<SpanSink> span_sink() {
  if (!has_sink.load(std::memory_order_relaxed)) return nullptr;
  const std::lock_guard lock(sink_mutex);
  return sink_place();
}

// Without a sink a span is empty: `data_` stays null and all other members check for that first.
Span::Span(std::string name, SpanKind kind, const Context& parent) : sink_(span_sink()) {
  if (sink_ == nullptr) return;
  data_ = std::make_unique<SpanData>();
  const std::string_view outer = parent.parent;  // "00-TRACE-SPAN-FLAGS"
  data_->trace_id = outer.empty() ? random_hex<16>() : std::string(parent.trace_id());
  data_->id = random_hex<8>();
  // The text ends in "-SPAN-FLAGS": 16 and 2 digits with their dash.
  if (!outer.empty()) data_->parent_id = outer.substr(outer.size() - 19, 16);
  data_->state = parent.state;
  // The sink decides by trace, so all spans of a trace are kept or none.
  data_->is_sampled = sink_->samples(data_->trace_id, parent);
  data_->name = std::move(name);
  data_->kind = kind;
  data_->begin_ns = now_ns();
  context_ = {
      .parent = "00-" + data_->trace_id + "-" + data_->id + (data_->is_sampled ? "-01" : "-00"),
      .state = parent.state};
}

Span& Span::operator=(Span&& other) noexcept {
  if (this == &other) return *this;
  // Else the span that was here before would be lost.
  end();
  sink_ = std::move(other.sink_);
  context_ = std::move(other.context_);
  data_ = std::move(other.data_);
  return *this;
}

bool Span::takes_contents() const {
  return sink_ != nullptr && data_->is_sampled && sink_->takes_contents();
}

std::string_view Span::text(std::string_view key) const {
  return sink_ == nullptr ? std::string_view() : data_->text(key);
}

void Span::put(std::string_view key, SpanValue value) {
  if (sink_ == nullptr) return;
  auto& all = data_->attributes;
  // A span has few attributes, so a search is as good as a map.
  const auto found = std::ranges::find(all, key, [](const auto& one) { return one.first; });
  if (found != all.end()) {
    found->second = std::move(value);
  } else {
    all.emplace_back(key, std::move(value));
  }
}

void Span::set(std::string_view key, std::string_view value) {
  put(key, std::string(value));
}

void Span::rename(std::string name) {
  if (sink_ != nullptr) data_->name = std::move(name);
}

void Span::fail(std::string_view type, std::string_view message) {
  if (sink_ == nullptr) return;
  data_->has_failed = true;
  data_->message = message;
  set("error.type", type);
}

void Span::end() {
  if (sink_ == nullptr) return;
  const auto sink = std::exchange(sink_, nullptr);
  // The system's clock may be set back meanwhile.
  data_->end_ns = std::max(now_ns(), data_->begin_ns);
  sink->ended(std::move(*std::exchange(data_, nullptr)));
}

// An empty span changes nothing: calls inside still belong to the span outside.
SpanScope::SpanScope(Span& span) : outer_(this_span), scope_(span ? span.context() : current()) {
  if (span) this_span = &span;
}

SpanScope::~SpanScope() {
  this_span = outer_;
}

Span* current_span() {
  return this_span;
}

}  // namespace tenon::trace
