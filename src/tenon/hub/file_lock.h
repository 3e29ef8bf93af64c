#pragma once

#include <filesystem>
#include <functional>
#include <utility>

#include "tenon/base/descriptor.h"
#include "tenon/base/expected.h"

namespace tenon::hub {

/// A lock between processes, also with the hub's own client: flock(2) on a file. The file and its
/// folders are made, and stay. The lock is held until destruction, or until the process ends.
class FileLock {
 public:
  /// Waits as long as another process has the lock; `on_wait`, which may be empty, is called once
  /// before. Fails with `unavailable` if the file system does.
  [[nodiscard]] static Expected<FileLock> acquire(const std::filesystem::path& file,
                                                  const std::function<void()>& on_wait);

 private:
  explicit FileLock(Descriptor file) : file_(std::move(file)) {}

  Descriptor file_;
};

}  // namespace tenon::hub
