#include "tenon/hub/cache.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <system_error>

#include <unistd.h>

#include "tenon/base/failure.h"
#include "tenon/base/file.h"

// The paths of the hub's own cache, and the few changes that Tenon makes in it. Other programs read
// and write the same folders at the same time, so a file or link gets its name only when it is
// whole, by a rename.

namespace tenon::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModels = "models--";
constexpr std::string_view kSeparator = "--";
constexpr std::size_t kMaxRefBytes = 1024;
constexpr std::string_view kCacheTag =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This folder is a cache of models; see https://bford.info/cachedir/.\n";

Unexpected failed(std::string_view doing, const fs::path& path, const std::error_code& error) {
  return unavailable("cannot " + std::string(doing) + " " + path.string() + ": " + error.message());
}

// A name beside `path` that no other thread or process writes to.
fs::path fresh_name(const fs::path& path) {
  static std::atomic<unsigned> count{0};
  return path.string() + "." + std::to_string(::getpid()) + "." + std::to_string(count++) + ".tmp";
}

// Writes to a temporary file and renames it, so that other processes never see half of the text.
Status write_whole(const fs::path& path, std::string_view text) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) return failed("make the folder", path.parent_path(), error);
  const fs::path fresh = fresh_name(path);
  if (std::ofstream file(fresh, std::ios::binary); !(file << text << std::flush)) {
    return failed("write", fresh, std::error_code(errno, std::generic_category()));
  }
  fs::rename(fresh, path, error);
  if (error) return failed("write", path, error);
  return {};
}

}  // namespace

bool is_commit(std::string_view text) {
  return text.size() == 40 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

fs::path Cache::repository_folder(const std::string& repository) const {
  // "owner/repo" lies in "models--owner--repo".
  std::string name(kModels);
  const std::size_t slash = repository.find('/');
  name += repository.substr(0, slash);
  if (slash != std::string::npos) name += std::string(kSeparator) + repository.substr(slash + 1);
  return folder_ / name;
}

fs::path Cache::blob(const std::string& repository, const std::string& hash) const {
  return repository_folder(repository) / "blobs" / hash;
}

fs::path Cache::incomplete(const std::string& repository, const std::string& hash) const {
  return repository_folder(repository) / "blobs" / (hash + ".incomplete");
}

fs::path Cache::lock(const std::string& repository, const std::string& hash) const {
  return folder_ / ".locks" / repository_folder(repository).filename() / (hash + ".lock");
}

fs::path Cache::pointer(const std::string& repository, const std::string& commit,
                        const std::string& path) const {
  return repository_folder(repository) / "snapshots" / commit / path;
}

std::optional<std::string> Cache::commit_of(const std::string& repository,
                                            const std::string& revision) const {
  const fs::path folder = repository_folder(repository);
  std::error_code error;
  if (auto text = read_file(folder / "refs" / revision, kMaxRefBytes)) {
    while (!text->empty() && text->back() == '\n') text->pop_back();
    if (is_commit(*text)) return *std::move(text);
  }
  if (is_commit(revision) && fs::is_directory(folder / "snapshots" / revision, error)) {
    return revision;
  }
  return std::nullopt;
}

std::vector<CachedFile> Cache::files(const std::string& repository,
                                     const std::string& commit) const {
  std::vector<CachedFile> files;
  const fs::path folder = repository_folder(repository) / "snapshots" / commit;
  std::error_code error;
  // Links to folders are not followed, so this ends.
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code broken;  // a link whose blob was removed is not a file
    const fs::path& path = entry->path();
    if (path.extension() != ".gguf" || !entry->is_regular_file(broken) || broken) continue;
    const std::uint64_t size = entry->file_size(broken);
    if (broken) continue;
    files.push_back(
        {.path = path.lexically_relative(folder).generic_string(), .location = path, .size = size});
  }
  std::ranges::sort(files, {}, &CachedFile::path);
  return files;
}

std::vector<std::string> Cache::repositories() const {
  std::vector<std::string> repositories;
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (!name.starts_with(kModels)) continue;
    name.erase(0, kModels.size());
    // The first "--": owners and repositories have none in their names.
    if (const std::size_t at = name.find(kSeparator); at != std::string::npos) {
      name.replace(at, kSeparator.size(), "/");
    }
    repositories.push_back(std::move(name));
  }
  std::ranges::sort(repositories);
  return repositories;
}

std::vector<std::string> Cache::commits(const std::string& repository) const {
  std::vector<std::string> commits;
  std::error_code error;
  for (fs::directory_iterator entry(repository_folder(repository) / "snapshots", error), end;
       !error && entry != end; entry.increment(error)) {
    if (is_commit(entry->path().filename().string())) {
      commits.push_back(entry->path().filename().string());
    }
  }
  std::ranges::sort(commits);
  return commits;
}

Status Cache::link(const std::string& repository, const std::string& commit,
                   const std::string& path, const std::string& hash) const {
  const fs::path from = pointer(repository, commit, path);
  const fs::path to = blob(repository, hash);
  std::error_code error;
  // It is linked already.
  if (fs::equivalent(from, to, error) && !error) return {};
  fs::create_directories(from.parent_path(), error);
  if (error) return failed("make the folder", from.parent_path(), error);
  // Relative, as the hub's own client writes it, so that the cache can be moved.
  const fs::path target = to.lexically_relative(from.parent_path());
  const fs::path fresh = fresh_name(from);
  fs::remove(fresh, error);  // what a process of the same number left
  fs::create_symlink(target, fresh, error);
  if (error) {
    // On a file system without links the blob itself is moved there, as the hub's own client does.
    fs::rename(to, from, error);
    if (error) return failed("make the link", from, error);
    return {};
  }
  fs::rename(fresh, from, error);
  if (error) return failed("make the link", from, error);
  return {};
}

Status Cache::set_commit(const std::string& repository, const std::string& revision,
                         const std::string& commit) const {
  std::error_code error;
  if (!fs::exists(folder_ / "CACHEDIR.TAG", error)) {
    // Backup programs skip folders with this file. A failure to write it does no harm.
    static_cast<void>(write_whole(folder_ / "CACHEDIR.TAG", kCacheTag));
  }
  if (revision == commit) return {};
  return write_whole(repository_folder(repository) / "refs" / revision, commit);
}

}  // namespace tenon::hub
