#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/base/expected.h"

namespace tenon::chat {

/// What became of a call that the server runs.
enum class AuditDecision : std::uint8_t {
  not_needed,  ///< It ran without being asked for.
  asked,       ///< The client was asked whether it may run.
  approved,
  refused,
  undecided,  ///< The client has not decided, or could not be asked; the call did not run.
};

[[nodiscard]] std::string_view audit_decision_name(AuditDecision decision);

struct AuditEntry {
  std::string_view owner;    ///< Whose key the request had; "": it had none.
  std::string_view request;  ///< The request's id.
  std::string_view model;
  std::string_view server;  ///< "": a tool of this machine.
  std::string_view tool;
  std::string_view arguments;  ///< Written only where the log may have contents.
  AuditDecision decision = AuditDecision::not_needed;
  struct Result {
    std::size_t bytes = 0;
    bool is_error = false;
    std::chrono::milliseconds took{0};
  };
  std::optional<Result> result{};  ///< Absent: it did not run.
};

/// Who had which tool run, and who allowed it: one line of JSON for each call and decision.
/// Thread-safe.
class AuditLog {
 public:
  /// Appends to the file, which only its owner can read; it is made if it is missing. "": lines of
  /// the log at level info, which begin with "audit ". Fails with `unavailable`.
  [[nodiscard]] static Expected<std::shared_ptr<AuditLog>> open(const std::string& path);
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  /// A failure to write is logged once.
  void write(const AuditEntry& entry);

 private:
  explicit AuditLog(int file) : file_(file) {}
  const int file_;  // -1: the log
  std::atomic<bool> has_failed_ = false;
};

/// The line for `entry`, without its end.
[[nodiscard]] std::string audit_line(const AuditEntry& entry,
                                     std::chrono::system_clock::time_point now);

}  // namespace tenon::chat
