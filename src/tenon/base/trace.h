#pragma once

#include <string>
#include <string_view>

/// W3C Trace Context (Recommendation of 23 November 2021): which trace a request is part of.
namespace tenon::trace {

/// What stands in the fields `traceparent` and `tracestate`; "" where there is none.
struct Context {
  std::string parent;
  std::string state;

  /// 32 hexadecimal digits, fit for a log line; "" without a parent.
  [[nodiscard]] std::string_view trace_id() const;

  bool operator==(const Context&) const = default;
};

/// What a request's fields say, bounded. A parent that is not valid is none, and neither has a
/// state then; a state that is not valid, or over 512 characters, is none. A parent of a later
/// version is read as the version 00 that we know: "00-TRACE-PARENT-FLAGS".
[[nodiscard]] Context read(std::string_view parent, std::string_view state);

/// While it lives, what this thread asks of other servers is part of `context`, which outlives it.
class Scope {
 public:
  explicit Scope(const Context& context);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const Context* const outer_;
};
/// Of this thread; empty outside of every Scope.
[[nodiscard]] const Context& current();

}  // namespace tenon::trace
