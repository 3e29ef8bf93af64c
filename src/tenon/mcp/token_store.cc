#include "tenon/mcp/token_store.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tenon/base/descriptor.h"
#include "tenon/base/ids.h"
#include "tenon/json/members.h"
#include "tenon/json/value.h"

// The file has all grants: {"version": 1, "grants": {"https://host/mcp": {...}}}. It is read and
// written whole. A new text is written beside it and renamed, so a reader without the lock sees the
// old file or the new one; who changes it holds the lock of alone() between reading and writing, so
// no change of another process is lost.

namespace tenon::mcp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxStoreBytes = std::size_t{4} << 20;
constexpr mode_t kOwnerOnly = 0600;
constexpr mode_t kOwnersFolder = 0700;

Unexpected store_failed(const std::filesystem::path& file, const std::string& what, int error) {
  return Unexpected(Error{Errc::unavailable, what + " " + file.string() + ": " +
                                                 std::generic_category().message(error) +
                                                 "; XDG_STATE_HOME names another folder"});
}

Expected<std::string> all_of(const std::filesystem::path& file, int descriptor) {
  std::string bytes;
  std::array<char, 4096> piece{};
  while (bytes.size() <= kMaxStoreBytes) {
    const ssize_t count = ::read(descriptor, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return store_failed(file, "cannot read", errno);
    if (count == 0) return bytes;
    bytes.append(piece.data(), static_cast<std::size_t>(count));
  }
  return Unexpected(Error{Errc::limit_exceeded, file.string() + " is too large for logins"});
}

// The file's object of grants; empty if there is no file.
Expected<json::Object> read_grants(const std::filesystem::path& file) {
  const Descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (opened.get() < 0 && errno == ENOENT) return json::Object{};
  if (opened.get() < 0) return store_failed(file, "cannot read", errno);
  struct stat state{};
  if (::fstat(opened.get(), &state) != 0) return store_failed(file, "cannot read", errno);
  // Checked on the open file, so that no other file can take its place in between.
  if ((state.st_mode & 077U) != 0 || state.st_uid != ::geteuid()) {
    return Unexpected(
        Error{Errc::unavailable, file.string() + " has logins, and others can read or change it: " +
                                     "make it yours alone (chmod 600)"});
  }
  auto bytes = all_of(file, opened.get());
  if (!bytes) return Unexpected(std::move(bytes.error()));
  auto parsed = json::parse(*bytes);
  json::Value* const grants = parsed ? parsed->find("grants") : nullptr;
  if (grants == nullptr || grants->if_object() == nullptr) {
    return Unexpected(Error{Errc::invalid, file.string() + " is no file of logins: remove it, and "
                                                           "log in again"});
  }
  return std::move(*grants->if_object());
}

Status write_grants(const std::filesystem::path& file, json::Object grants) {
  const std::filesystem::path next = file.string() + random_id(".", 8);
  {
    const Descriptor opened(
        ::open(next.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerOnly));
    if (opened.get() < 0) return store_failed(next, "cannot write", errno);
    const std::string bytes =
        json::to_string(json::Object{{"version", 1}, {"grants", std::move(grants)}}) + "\n";
    std::string_view left = bytes;
    while (!left.empty()) {
      const ssize_t count = ::write(opened.get(), left.data(), left.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        const int error = errno;
        ::unlink(next.c_str());
        return store_failed(next, "cannot write", error);
      }
      left.remove_prefix(static_cast<std::size_t>(count));
    }
    // Otherwise the rename could reach the disk before the bytes, and a loss of power leave an
    // empty file.
    (void)::fsync(opened.get());
  }
  if (::rename(next.c_str(), file.c_str()) == 0) return {};
  const int error = errno;
  ::unlink(next.c_str());
  return store_failed(file, "cannot write", error);
}

Grant grant_of(const json::Value& told) {
  return {.issuer = json::text_in(told, "issuer"),
          .client_id = json::text_in(told, "client_id"),
          .client_secret = json::text_in(told, "client_secret"),
          .client_auth = json::text_in(told, "client_auth"),
          .redirect_port = static_cast<std::uint16_t>(json::number_in(told, "redirect_port")),
          .scope = json::text_in(told, "scope"),
          .access_token = json::text_in(told, "access_token"),
          .refresh_token = json::text_in(told, "refresh_token")};
}

json::Object told_of(const Grant& grant) {
  return {{"issuer", grant.issuer},
          {"client_id", grant.client_id},
          {"client_secret", grant.client_secret},
          {"client_auth", grant.client_auth},
          {"redirect_port", static_cast<std::int64_t>(grant.redirect_port)},
          {"scope", grant.scope},
          {"access_token", grant.access_token},
          {"refresh_token", grant.refresh_token}};
}

// Makes the file's folder, and opens the file beside it that processes lock. The file itself cannot
// be locked, since each change replaces it by another one.
Expected<int> open_lock(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::path folder = file.parent_path();
  std::filesystem::create_directories(folder.parent_path(), error);
  if (::mkdir(folder.c_str(), kOwnersFolder) != 0 && errno != EEXIST) {
    return store_failed(folder, "cannot make", errno);
  }
  const std::string name = file.string() + ".lock";
  const int opened = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kOwnerOnly);
  if (opened < 0) return store_failed(name, "cannot lock", errno);
  return opened;
}

}  // namespace

Status TokenStore::alone(Clock::time_point deadline, const CancelToken& cancel,
                         const std::function<Status()>& work) const {
  constexpr std::chrono::milliseconds kMoment{20};
  if (file_.empty()) return work();
  const auto lock = open_lock(file_);
  if (!lock) return Unexpected(lock.error());
  const Descriptor held(*lock);
  // A blocking flock() could not be given up at the deadline.
  while (::flock(held.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return store_failed(file_, "cannot lock", errno);
    if (Clock::now() >= deadline || cancel.is_cancelled()) {
      return Unexpected(Error{
          Errc::unavailable, "another process does not let go of the logins in " + file_.string()});
    }
    std::this_thread::sleep_for(kMoment);
  }
  return work();
}

Expected<std::optional<Grant>> TokenStore::find(const std::string& url) const {
  if (file_.empty()) return std::optional<Grant>();
  auto grants = read_grants(file_);
  if (!grants) return Unexpected(std::move(grants.error()));
  const json::Value* const told = grants->find(url);
  return told == nullptr ? std::nullopt : std::optional(grant_of(*told));
}

Status TokenStore::keep(const std::string& url, const Grant& grant) const {
  if (file_.empty()) return {};
  auto grants = read_grants(file_);
  if (!grants) return Unexpected(std::move(grants.error()));
  grants->set(url, told_of(grant));
  return write_grants(file_, *std::move(grants));
}

Expected<bool> TokenStore::forget(const std::string& url) const {
  if (file_.empty()) return false;
  auto grants = read_grants(file_);
  if (!grants) return Unexpected(std::move(grants.error()));
  if (!grants->contains(url)) return false;
  grants->erase(url);
  if (Status written = write_grants(file_, *std::move(grants)); !written) {
    return Unexpected(std::move(written.error()));
  }
  return true;
}

}  // namespace tenon::mcp
