#include "user_formats.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "files.h"

#include "tenon/format/format.h"

namespace tenon::app {
namespace {

namespace fs = std::filesystem;

/// `names`: of the formats in the files of the same folder before it, each with its file.
OrComplaint<void> load_file(const std::string& path, std::map<std::string, std::string>& names) {
  const auto text = read_file(path);
  if (!text) return complaint(kBadInput, text.error().message);
  auto format = format::compile(*text, path);
  if (!format) return complaint(kBadInput, format.error().message);
  const std::string& name = format::info(**format).name;
  if (const auto [other, is_new] = names.try_emplace(name, path); !is_new) {
    return complaint(kBadInput, path + ": 'name' is that of the format in " + other->second +
                                    ": '" + name + "'");
  }
  if (Status registered = format::register_format(*std::move(format)); !registered) {
    return complaint(kBadInput, registered.error().message);
  }
  return {};
}

OrComplaint<std::vector<std::string>> files_of(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".toml") files.push_back(entry->path().string());
  }
  if (error) return complaint(kBadInput, folder + ": " + error.message());
  if (files.empty()) return complaint(kBadInput, folder + ": there is no *.toml in this folder");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

OrComplaint<void> load_formats(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    std::error_code ignored;
    std::vector<std::string> files = {path};
    if (fs::is_directory(path, ignored)) {
      auto found = files_of(path);
      if (!found) return Failure<Complaint>(found.error());
      files = *std::move(found);
    }
    std::map<std::string, std::string> names;
    for (const std::string& file : files) {
      if (auto loaded = load_file(file, names); !loaded) return loaded;
    }
  }
  return {};
}

}  // namespace tenon::app
