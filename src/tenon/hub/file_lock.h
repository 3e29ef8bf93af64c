#pragma once

#include <filesystem>
#include <functional>
#include <utility>

#include "tenon/base/expected.h"

namespace tenon::hub {

/// A lock that other processes see, the hub's own client among them: flock(2) on a file, which is
/// made, with its folders, and stays. Held until destroyed, or until the process ends.
class FileLock {
 public:
  /// Waits for as long as another has it; `on_wait`, which may be empty, is called once before.
  /// Fails with `unavailable` where the system does.
  [[nodiscard]] static Expected<FileLock> acquire(const std::filesystem::path& file,
                                                  const std::function<void()>& on_wait);
  FileLock(FileLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int file) : file_(file) {}

  int file_;  // -1: moved from
};

}  // namespace tenon::hub
