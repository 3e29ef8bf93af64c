#include "tenon/hub/file_lock.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "tenon/base/failure.h"

namespace tenon::hub {
namespace {

constexpr unsigned kMode = 0664;  // as the hub's client has it: users of a group can share a cache

int lock(int file, int how) {
  int result = 0;
  do {
    result = ::flock(file, how);
  } while (result != 0 && errno == EINTR);
  return result;
}

}  // namespace

Expected<FileLock> FileLock::acquire(const std::filesystem::path& file,
                                     const std::function<void()>& on_wait) {
  const auto failed = [&file](int error) {
    return unavailable("cannot lock " + file.string() + ": " +
                       std::generic_category().message(error) +
                       "; HF_HUB_CACHE names another folder");
  };
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (error) return failed(error.value());
  Descriptor opened(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode));
  if (!opened.is_open()) return failed(errno);
  const int descriptor = opened.get();
  FileLock held(std::move(opened));
  // Tried without waiting first, so that on_wait is called only if there is a reason to wait.
  if (lock(descriptor, LOCK_EX | LOCK_NB) == 0) return held;
  if (errno != EWOULDBLOCK) return failed(errno);
  if (on_wait) on_wait();
  if (lock(descriptor, LOCK_EX) != 0) return failed(errno);
  return held;
}

}  // namespace tenon::hub
