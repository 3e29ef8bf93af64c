#include "tenon/config/user_formats.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "tenon/config/failure.h"
#include "tenon/config/files.h"
#include "tenon/format/format.h"
#include "tenon/format/registry.h"

namespace tenon::config {
namespace {

namespace fs = std::filesystem;

/// `names`: the formats in earlier files of the same folder, each with its file.
Status load_file(const std::string& path, std::map<std::string, std::string>& names) {
  const auto text = read_file(path);
  if (!text) return at_fault(text.error());
  auto format = format::compile(*text, path);
  if (!format) return at_fault(format.error());
  const std::string& name = format::info(**format).name;
  if (const auto [other, is_new] = names.try_emplace(name, path); !is_new) {
    return invalid(path + ": 'name' is that of the format in " + other->second + ": '" + name +
                   "'");
  }
  if (Status registered = format::register_format(*std::move(format)); !registered) {
    return at_fault(registered.error());
  }
  return {};
}

Expected<std::vector<std::string>> files_of(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".toml") files.push_back(entry->path().string());
  }
  if (error) return invalid(folder + ": " + error.message());
  if (files.empty()) return invalid(folder + ": there is no *.toml in this folder");
  // The order of a folder differs between file systems, and errors should not.
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

// Each path is a file or a folder of *.toml. A later path may replace a format of an earlier one;
// two files of one folder may not have the same name.
Status load_formats(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    std::error_code ignored;
    std::vector<std::string> files = {path};
    if (fs::is_directory(path, ignored)) {
      auto found = files_of(path);
      if (!found) return Unexpected(found.error());
      files = *std::move(found);
    }
    std::map<std::string, std::string> names;
    for (const std::string& file : files) {
      if (auto loaded = load_file(file, names); !loaded) return loaded;
    }
  }
  return {};
}

}  // namespace tenon::config
