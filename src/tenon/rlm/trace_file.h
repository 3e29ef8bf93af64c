#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"

namespace tenon::rlm {

/// A file of JSON lines for what happens in runs, each with the `time` (seconds, to the
/// millisecond) at which it came. One thread at a time.
class TraceFile {
 public:
  enum class Mode : std::uint8_t { append, replace };
  /// A file that is not there is made, readable for its owner alone. Fails with Errc::unavailable,
  /// naming it and the reason.
  [[nodiscard]] static Expected<std::shared_ptr<TraceFile>> open(const std::filesystem::path& file,
                                                                 Mode mode = Mode::append);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  /// The line is in the file when this returns. Where it cannot be written that is logged, once.
  void add(const json::Object& event);

 private:
  TraceFile(std::filesystem::path file, int descriptor);

  const std::filesystem::path file_;
  const int descriptor_;
  bool has_failed_ = false;
};

}  // namespace tenon::rlm
