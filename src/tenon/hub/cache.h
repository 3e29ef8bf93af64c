#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/expected.h"

namespace tenon::hub {

/// A GGUF file in the cache.
struct CachedFile {
  std::string path;                ///< The path inside the repository.
  std::filesystem::path location;  ///< The file on this machine.
  std::uint64_t size = 0;
};

/// The cache of the hub's own client, in the same layout, so that each finds what the other
/// fetched:
///
///     models--OWNER--REPO/blobs/HASH                     the bytes, by their hash
///     models--OWNER--REPO/blobs/HASH.incomplete          the part that has been fetched
///     models--OWNER--REPO/snapshots/COMMIT/PATH          a link to a blob
///     models--OWNER--REPO/refs/REVISION                  the commit that a branch or tag stood for
///     .locks/models--OWNER--REPO/HASH.lock               held while a blob is fetched
///
/// Source: https://huggingface.co/docs/hub/local-cache. It has no state except the folder's name.
/// Repositories, revisions, commits, hashes and paths must have passed hub::parse_hub_name() and
/// hub::append_files().
class Cache {
 public:
  explicit Cache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] std::filesystem::path blob(const std::string& repository,
                                           const std::string& hash) const;
  [[nodiscard]] std::filesystem::path incomplete(const std::string& repository,
                                                 const std::string& hash) const;
  [[nodiscard]] std::filesystem::path lock(const std::string& repository,
                                           const std::string& hash) const;
  [[nodiscard]] std::filesystem::path pointer(const std::string& repository,
                                              const std::string& commit,
                                              const std::string& path) const;

  /// The commit that `revision` named when the hub was last asked; if it is a commit that is here,
  /// `revision` itself.
  [[nodiscard]] std::optional<std::string> commit_of(const std::string& repository,
                                                     const std::string& revision) const;
  /// The complete GGUF files of a commit, in the order of their paths.
  [[nodiscard]] std::vector<CachedFile> files(const std::string& repository,
                                              const std::string& commit) const;
  /// All repositories of models: "OWNER/REPO".
  [[nodiscard]] std::vector<std::string> repositories() const;
  /// The commits that have at least one file here.
  [[nodiscard]] std::vector<std::string> commits(const std::string& repository) const;

  /// Makes `path` of a commit point to a blob that is here. Fails with `unavailable` if the file
  /// system does.
  [[nodiscard]] Status link(const std::string& repository, const std::string& commit,
                            const std::string& path, const std::string& hash) const;
  /// Notes which commit `revision` names; does nothing if `revision` is the commit itself.
  [[nodiscard]] Status set_commit(const std::string& repository, const std::string& revision,
                                  const std::string& commit) const;

 private:
  [[nodiscard]] std::filesystem::path repository_folder(const std::string& repository) const;

  std::filesystem::path folder_;
};

/// Whether `text` is a commit's name: 40 hexadecimal digits in lower case.
[[nodiscard]] bool is_commit(std::string_view text);

}  // namespace tenon::hub
