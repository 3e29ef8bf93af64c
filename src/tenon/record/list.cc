#include "tenon/record/list.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tenon/base/descriptor.h"
#include "tenon/record/folder.h"
#include "tenon/record/recorder.h"

namespace tenon::record {
namespace {

namespace fs = std::filesystem;

// What stands before the request in the first line fits into this, and nearly every last line.
constexpr std::size_t kEndBytes = 8192;
// Every last line fits into this, whatever its texts need as JSON.
constexpr std::size_t kLongestEnd = 64 * 1024;

// A file to read from any place. Links are not followed, and only a regular file is good: a name
// comes from a client of the inspector.
class File {
 public:
  explicit File(const std::string& path)
      : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) {
    struct stat about{};
    if (!file_.is_open() || ::fstat(file_.get(), &about) != 0 || !S_ISREG(about.st_mode)) return;
    size_ = static_cast<std::uint64_t>(about.st_size);
    is_good_ = true;
  }

  [[nodiscard]] bool is_good() const { return is_good_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] bool is_being_written() const { return record::is_being_written(file_.get()); }
  /// At most `size` bytes from `at` on.
  [[nodiscard]] std::string read(std::uint64_t at, std::size_t size) const {
    std::string bytes(size, '\0');
    std::size_t done = 0;
    while (done < size) {
      const ssize_t got =
          ::pread(file_.get(), bytes.data() + done, size - done, static_cast<off_t>(at + done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      done += static_cast<std::size_t>(got);
    }
    bytes.resize(done);
    return bytes;
  }

 private:
  const Descriptor file_;
  std::uint64_t size_ = 0;
  bool is_good_ = false;
};

Unexpected not_a_name() {
  return Unexpected(
      Error{Errc::invalid, "a recording has a name like 2026-11-30/101500-042-ID.jsonl"});
}

// The first line without the request, which may be large and comes last.
std::optional<json::Object> heading_of(const File& file) {
  std::string begin = file.read(0, kEndBytes);
  begin.resize(std::min(begin.find('\n'), begin.size()));
  if (const std::size_t request = begin.find(",\"request\":"); request != std::string::npos) {
    begin.resize(request);
    begin += '}';
  }
  auto line = json::parse(begin);
  if (!line || line->if_object() == nullptr || line->find("recording") == nullptr) {
    return std::nullopt;
  }
  return std::move(*line->if_object());
}

// The whole lines at the end of the file that fit into its last `size` bytes.
std::string tail_of(const File& file, std::size_t size) {
  const std::uint64_t at = file.size() - std::min<std::uint64_t>(file.size(), size);
  std::string tail = file.read(at, size);
  return at == 0 ? tail : tail.substr(std::min(tail.find('\n'), tail.size()));
}

// The line `end` or `cut`; nothing if the last line is another one, or not whole.
std::optional<json::Object> ending_of(const File& file) {
  std::string tail = tail_of(file, kEndBytes);
  if (tail.size() < 2) tail = tail_of(file, kLongestEnd);
  std::string_view rest = tail;
  if (!rest.ends_with('\n')) return std::nullopt;
  rest.remove_suffix(1);
  auto line = json::parse(rest.substr(rest.rfind('\n') + 1));  // npos + 1 is 0
  if (!line || line->if_object() == nullptr) return std::nullopt;
  if (line->find("end") == nullptr && line->find("cut") == nullptr) return std::nullopt;
  return std::move(*line->if_object());
}

// The first and the last line as one object; nothing for a file that is no recording.
std::optional<json::Value> summary_of(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  const File file(path);
  if (!file.is_good()) return std::nullopt;
  auto summary = heading_of(file);
  if (!summary) return std::nullopt;
  summary->set("name", name);
  auto ending = ending_of(file);
  const auto has_end = [&] { return ending && ending->find("end") != nullptr; };
  const bool is_live = !has_end() && file.is_being_written();
  // It may have ended between the two: the end is there once the lock is gone.
  if (!has_end() && !is_live) ending = ending_of(File(path));
  summary->set("live", is_live);
  if (ending) {
    for (const json::Member& member : *ending) {
      const bool is_status = member.key == "end";
      summary->set(is_status ? "status" : member.key == "at" ? "us" : member.key, member.value);
    }
  }
  return json::Value(*std::move(summary));
}

}  // namespace

Expected<Listed> list_recordings(const std::string& folder, std::string_view before,
                                 std::size_t limit) {
  if (!before.empty() && !is_name(before)) return not_a_name();
  std::error_code error;
  const std::vector<std::string> days = entries_of(folder, error);
  if (error) return Unexpected(Error{Errc::unavailable, folder + ": " + error.message()});
  Listed listed;
  for (const std::string& day : days) {
    // A folder that goes away meanwhile has no more recordings.
    std::error_code ignored;
    for (const std::string& file : entries_of(fs::path(folder) / day, ignored)) {
      const std::string name = day + "/" + file;
      if (!is_name(name) || (!before.empty() && name >= before)) continue;
      if (listed.recordings.size() == limit) {
        listed.has_more = true;
        return listed;
      }
      if (auto summary = summary_of(folder, name)) listed.recordings.push_back(*std::move(summary));
    }
  }
  return listed;
}

Expected<std::string> read_recorded(const std::string& folder, std::string_view name,
                                    std::uint64_t from) {
  if (!is_name(name)) return not_a_name();
  const File file(folder + "/" + std::string(name));
  if (!file.is_good()) {
    return Unexpected(Error{Errc::unavailable, "there is no such recording: it may be too old"});
  }
  if (from >= file.size()) return std::string();
  // A file may be a little larger than kMaxFileBytes (Recording::State::add).
  const std::uint64_t rest = std::min<std::uint64_t>(file.size() - from, kMaxFileBytes * 2);
  return file.read(from, static_cast<std::size_t>(rest));
}

}  // namespace tenon::record
