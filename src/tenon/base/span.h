#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/base/trace.h"

/// Spans: what was done for a request, from when to when. Layers make them; the application decides
/// who takes them. Without a sink (the default) a Span is empty and costs a load.
///
///     trace::Span span("execute_tool add", trace::SpanKind::internal);   // a child of current()
///     span.set("gen_ai.tool.name", "add");
///     {
///       const trace::SpanScope scope(span);  // requests of this thread are its children
///       if (Status done = run(); !done) span.fail("tool_error", done.error().message);
///     }                                      // ~Span ends it
namespace tenon::trace {

/// With the numbers of OTLP's Span.SpanKind.
enum class SpanKind : std::uint8_t { internal = 1, server = 2, client = 3 };

using SpanValue = std::variant<std::string, std::int64_t, double, bool, std::vector<std::string>>;

/// A span that has ended.
struct SpanData {
  std::string trace_id;   ///< 32 hexadecimal digits.
  std::string id;         ///< 16.
  std::string parent_id;  ///< "": it is the trace's first.
  std::string state;      ///< The field `tracestate`.
  bool is_sampled = false;
  std::string name;
  SpanKind kind = SpanKind::internal;
  std::int64_t begin_ns = 0;  ///< Since 1970.
  std::int64_t end_ns = 0;
  /// The keys live as long as the program.
  std::vector<std::pair<std::string_view, SpanValue>> attributes;
  bool has_failed = false;
  std::string message;  ///< Why it has failed; "" where the attribute `error.type` says enough.

  /// Null: there is no such attribute.
  [[nodiscard]] const SpanValue* find(std::string_view key) const;
  [[nodiscard]] std::string_view text(std::string_view key) const;
};

/// What a sink has done with sampled spans.
struct SpanCounts {
  std::uint64_t exported = 0;
  std::uint64_t dropped = 0;  ///< There was no room for them.
  std::uint64_t failed = 0;   ///< The receiver did not take them.
};

/// Takes spans. Thread-safe; nothing here blocks.
class SpanSink {
 public:
  virtual ~SpanSink() = default;
  /// Whether a trace that begins here, or goes on from a client's span, is sampled.
  [[nodiscard]] virtual bool samples(std::string_view trace_id, const Context& parent) const = 0;
  /// Whether spans may have texts of messages, calls and results.
  [[nodiscard]] virtual bool takes_contents() const = 0;
  virtual void ended(SpanData span) = 0;
  [[nodiscard]] virtual SpanCounts counts() const = 0;
};

/// Null: spans are not taken. Spans that began before keep their sink.
void set_span_sink(std::shared_ptr<SpanSink> sink);
[[nodiscard]] std::shared_ptr<SpanSink> span_sink();

/// One span; used by one thread at a time.
class Span {
 public:
  Span() = default;
  /// Begins a child of `parent`, or a trace of its own if that is empty.
  Span(std::string name, SpanKind kind, const Context& parent = current());
  Span(Span&& other) noexcept = default;
  Span& operator=(Span&& other) noexcept;
  ~Span() { end(); }

  /// False: it is not taken, or it has ended, and the calls below do nothing.
  explicit operator bool() const { return sink_ != nullptr; }
  [[nodiscard]] bool takes_contents() const;
  /// For what is done within it; empty if it is not taken.
  [[nodiscard]] const Context& context() const { return context_; }
  [[nodiscard]] std::string_view text(std::string_view key) const;

  /// `key` lives as long as the program. A later value replaces an earlier one.
  void set(std::string_view key, std::string_view value);
  void set(std::string_view key, const char* value) { set(key, std::string_view(value)); }
  void set(std::string_view key, std::int64_t value) { put(key, value); }
  void set(std::string_view key, double value) { put(key, value); }
  void set(std::string_view key, bool value) { put(key, value); }
  void set(std::string_view key, std::vector<std::string> value) { put(key, std::move(value)); }
  void rename(std::string name);
  /// It has failed; `type` is a stable name (`error.type`).
  void fail(std::string_view type, std::string_view message = "");
  void end();

 private:
  void put(std::string_view key, SpanValue value);

  std::shared_ptr<SpanSink> sink_;
  Context context_;
  std::unique_ptr<SpanData> data_;
};

/// While it lives, `span` is the one of this thread, and requests to other servers are part of it.
/// An empty span changes nothing.
class SpanScope {
 public:
  explicit SpanScope(Span& span);
  ~SpanScope();
  SpanScope(const SpanScope&) = delete;
  SpanScope& operator=(const SpanScope&) = delete;

 private:
  Span* const outer_;
  const Scope scope_;
};
/// Null: this thread is in no SpanScope.
[[nodiscard]] Span* current_span();

}  // namespace tenon::trace
