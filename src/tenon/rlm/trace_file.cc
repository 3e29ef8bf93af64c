#include "tenon/rlm/trace_file.h"

#include <cerrno>
#include <chrono>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "tenon/base/log.h"

namespace tenon::rlm {

// Only the owner may read it (0600), because it holds prompts and answers.
Expected<std::shared_ptr<TraceFile>> TraceFile::open(const std::filesystem::path& file, Mode mode) {
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (mode == Mode::append ? O_APPEND : O_TRUNC);
  const int descriptor = ::open(file.c_str(), flags, 0600);
  if (descriptor < 0) {
    return Unexpected(
        Error{Errc::unavailable, file.string() + ": " + std::generic_category().message(errno)});
  }
  return std::shared_ptr<TraceFile>(new TraceFile(file, descriptor));
}

TraceFile::TraceFile(std::filesystem::path file, int descriptor)
    : file_(std::move(file)), descriptor_(descriptor) {}

TraceFile::~TraceFile() {
  ::close(descriptor_);
}

void TraceFile::add(const json::Object& event) {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  json::Object line{{"time", static_cast<double>(now.count()) / 1000}};
  for (const json::Member& member : event) line.set(member.key, member.value);
  const std::string text = json::to_string(line) + "\n";
  std::string_view left = text;
  // write() may take a part only, and signals interrupt it.
  while (!left.empty()) {
    const ssize_t count = write(descriptor_, left.data(), left.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      if (!std::exchange(has_failed_, true)) {
        log::error("rlm: " + file_.string() + ": " + std::generic_category().message(errno));
      }
      return;
    }
    left.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace tenon::rlm
