#include "tenon/config/files.h"

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <system_error>

#include <dlfcn.h>
#include <link.h>

#include "tenon/base/file.h"

namespace tenon::config {
namespace fs = std::filesystem;

// For configurations, templates and the like; model files are not read by it.
Expected<std::string> read_file(const std::string& path) {
  constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
  return tenon::read_file(path, kMaxBytes);
}

Expected<std::string> read_input(const std::string& path) {
  if (path != "-") return read_file(path);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

std::string input_name(const std::string& path) {
  return path == "-" ? "stdin" : path;
}

Expected<json::Value> read_json(const std::string& path, std::string_view advice) {
  const auto text = read_input(path);
  if (!text) return Unexpected(text.error());
  auto value = json::parse(*text);
  if (!value) {
    return Unexpected(Error{value.error().code,
                            input_name(path) + ": " + value.error().message + std::string(advice)});
  }
  return value;
}

std::string resolved(std::string_view path, std::string_view folder) {
  return path.empty() || folder.empty() ? std::string(path) : (fs::path(folder) / path).string();
}

// Where programs keep what is not configuration and not a cache, by the XDG base directory
// specification. A relative path there must be ignored, says the specification.
std::string state_folder() {
  const char* const state = std::getenv("XDG_STATE_HOME");
  const char* const home = std::getenv("HOME");
  if (state != nullptr && *state == '/') return (fs::path(state) / "tenon").string();
  if (home == nullptr || *home != '/') return {};
  return (fs::path(home) / ".local" / "state" / "tenon").string();
}

namespace {

// The file of the shared library that contains this code; "" if it is linked into the program. The
// Python package is such a library, and has the bundled model beside it.
fs::path own_library() {
  Dl_info ignored{};
  void* found = nullptr;
  const auto* const here = reinterpret_cast<const void*>(&bundled_model);
  if (::dladdr1(here, &ignored, &found, RTLD_DL_LINKMAP) == 0) return {};
  const char* const path = static_cast<const link_map*>(found)->l_name;
  std::error_code failure;
  return *path == '\0' ? fs::path() : fs::canonical(path, failure);
}

}  // namespace

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
  // build/<preset>/bin/tenon stands three folders below models/. An installed bin/tenon stands
  // beside share/. A library of ours stands in lib/, or in the folder of a package with models/.
  for (const fs::path& file : {own_library(), fs::read_symlink("/proc/self/exe", failure)}) {
    fs::path folder = file.parent_path();
    for (int up = 0; up < 4 && !folder.empty(); ++up, folder = folder.parent_path()) {
      for (const fs::path& place : {folder / "models", folder / "share" / "tenon" / "models"}) {
        if (std::string found = look(place); !found.empty()) return found;
      }
    }
  }
  return Unexpected(
      Error{Errc::invalid, "the bundled model is not there (tried " + tried +
                               "): name a GGUF file with --model or TENON_MODEL_PATH"});
}

}  // namespace tenon::config
