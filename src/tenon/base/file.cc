#include "tenon/base/file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

namespace tenon {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

Unexpected failure(const std::filesystem::path& path, int number) {
  return Unexpected(
      Error{Errc::unavailable, path.string() + ": " + std::generic_category().message(number)});
}

}  // namespace

Expected<std::string> read_file(const std::filesystem::path& path, std::size_t max_bytes) {
  // "e" is O_CLOEXEC: programs that we start do not inherit the file.
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rbe"));
  if (!file) return failure(path, errno);

  constexpr std::size_t kLeastStep = 4096;
  std::string bytes;
  std::size_t size = 0;
  while (true) {
    bytes.resize(size + std::max(size, kLeastStep));  // doubled: linear in all
    const std::size_t got = std::fread(bytes.data() + size, 1, bytes.size() - size, file.get());
    size += got;
    // The size is not asked for before: pipes and files of /proc have none.
    if (size > max_bytes) {
      return Unexpected(Error{Errc::limit_exceeded, path.string() + ": larger than " +
                                                        std::to_string(max_bytes) + " bytes"});
    }
    if (std::ferror(file.get()) != 0) return failure(path, errno);  // for example, a directory
    if (got == 0) break;
  }
  bytes.resize(size);
  bytes.shrink_to_fit();
  return bytes;
}

}  // namespace tenon
