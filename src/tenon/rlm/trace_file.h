#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"

namespace tenon::rlm {

/// A file of JSON lines with the events of runs, each with its `time` (seconds, to the
/// millisecond). For one thread at a time.
class TraceFile {
 public:
  enum class Mode : std::uint8_t { append, replace };
  /// Creates the file if it is missing, readable for its owner only. Fails with Errc::unavailable,
  /// naming the file and the reason.
  [[nodiscard]] static Expected<std::shared_ptr<TraceFile>> open(const std::filesystem::path& file,
                                                                 Mode mode = Mode::append);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  /// The line is in the file when this returns. If it cannot be written, that is logged once.
  void add(const json::Object& event);

 private:
  TraceFile(std::filesystem::path file, int descriptor);

  const std::filesystem::path file_;
  const int descriptor_;
  bool has_failed_ = false;
};

}  // namespace tenon::rlm
