#include "tenon/chat/audit.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <unistd.h>

#include "tenon/base/log.h"
#include "tenon/base/utf8.h"
#include "tenon/json/value.h"

namespace tenon::chat {
namespace {

std::string time_text(std::chrono::system_clock::time_point at) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(at);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace

std::string_view audit_decision_name(AuditDecision decision) {
  constexpr std::string_view kNames[] = {"not_needed", "asked", "approved", "refused",
                                         "no_decision"};
  return kNames[static_cast<std::size_t>(decision)];
}

std::string audit_line(const AuditEntry& entry, std::chrono::system_clock::time_point now) {
  json::Object line{{"time", time_text(now)},
                    {"owner", utf8::sanitized(entry.owner)},
                    {"request", entry.request},
                    {"model", utf8::sanitized(entry.model)},
                    {"server", utf8::sanitized(entry.server)},
                    {"tool", utf8::sanitized(entry.tool)},
                    {"arguments", utf8::sanitized(log::content(entry.arguments))},
                    {"decision", audit_decision_name(entry.decision)}};
  if (entry.result) {
    line.set("result_bytes", std::uint64_t{entry.result->bytes});
    line.set("is_error", entry.result->is_error);
    line.set("ms", std::int64_t{entry.result->took.count()});
  }
  return json::to_string(line);
}

Expected<std::shared_ptr<AuditLog>> AuditLog::open(const std::string& path) {
  int file = -1;
  if (!path.empty()) {
    file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) {
      return Unexpected(
          Error{Errc::unavailable, path + " cannot be written: " + std::strerror(errno)});
    }
  }
  return std::shared_ptr<AuditLog>(new AuditLog(file));
}

AuditLog::~AuditLog() {
  if (file_ >= 0) ::close(file_);
}

void AuditLog::write(const AuditEntry& entry) {
  std::string line = audit_line(entry, std::chrono::system_clock::now());
  if (file_ < 0) return log::info("audit " + line);
  line += '\n';
  // One write, so that lines of several processes do not mix.
  const bool is_written = ::write(file_, line.data(), line.size()) == std::ssize(line);
  if (!is_written && !has_failed_.exchange(true)) {
    log::error(std::string("the audit log cannot be written: ") + std::strerror(errno));
  }
}

}  // namespace tenon::chat
