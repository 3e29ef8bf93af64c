#pragma once

#include <string>
#include <string_view>

/// W3C Trace Context (Recommendation of 23 November 2021): which trace a request is part of.
namespace tenon::trace {

/// The fields `traceparent` and `tracestate` of a request; "" if absent.
struct Context {
  std::string parent;
  std::string state;

  /// 32 hexadecimal digits, fit for a log line; "" without a parent.
  [[nodiscard]] std::string_view trace_id() const;

  bool operator==(const Context&) const = default;
};

/// Reads a request's fields, within limits. An invalid parent counts as absent, and then the state
/// does, too; a state that is invalid or over 512 characters counts as absent. A parent of a later
/// version is read as version 00, which we know: "00-TRACE-PARENT-FLAGS".
[[nodiscard]] Context read(std::string_view parent, std::string_view state);

/// While it lives, requests of this thread to other servers are part of `context`, which outlives
/// it.
class Scope {
 public:
  explicit Scope(const Context& context);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const Context* const outer_;
};
/// The context of this thread; empty outside of every Scope.
[[nodiscard]] const Context& current();

}  // namespace tenon::trace
