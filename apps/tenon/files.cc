#include "files.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace tenon::app {
namespace fs = std::filesystem;

Expected<std::string> read_file(const std::string& path) {
  std::error_code failure;
  if (fs::is_directory(path, failure)) {
    return Unexpected(Error{Errc::invalid, path + ": it is a folder"});
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  // An empty file sets failbit of `text`; only `file` tells of a failure to read.
  if (!file.is_open() || file.bad()) {
    return Unexpected(
        Error{Errc::invalid, path + ": " + (errno == 0 ? "cannot be read" : std::strerror(errno))});
  }
  return std::move(text).str();
}

std::string resolved(std::string_view path, std::string_view folder) {
  return path.empty() || folder.empty() ? std::string(path) : (fs::path(folder) / path).string();
}

Expected<std::string> bundled_model() {
  if (const char* chosen = std::getenv("TENON_MODEL_PATH"); chosen != nullptr && *chosen != '\0') {
    return std::string(chosen);
  }
  constexpr std::string_view kName = "tenon-tiny.gguf";
  std::string tried;
  std::error_code failure;
  const auto look = [&](const fs::path& place) {
    const fs::path file = place / kName;
    tried += (tried.empty() ? "" : ", ") + file.string();
    return fs::is_regular_file(file, failure) ? file.string() : std::string();
  };
  // build/<preset>/bin/tenon stands three folders below models/, an installed bin/tenon beside
  // share/.
  const fs::path program = fs::read_symlink("/proc/self/exe", failure);
  fs::path folder = program.parent_path();
  for (int up = 0; up < 4 && !folder.empty(); ++up, folder = folder.parent_path()) {
    if (std::string found = look(folder / "models"); !found.empty()) return found;
    if (std::string found = look(folder / "share" / "tenon" / "models"); !found.empty())
      return found;
  }
  return Unexpected(
      Error{Errc::invalid, "the bundled model is not there (tried " + tried +
                               "): name a GGUF file with --model or TENON_MODEL_PATH"});
}

}  // namespace tenon::app
