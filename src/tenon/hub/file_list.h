#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"

namespace tenon::hub {

/// A GGUF file of a repository.
struct RemoteFile {
  std::string path;  ///< Inside the repository, with slashes. It never leaves the folder.
  std::uint64_t size = 0;
  std::string sha256;   ///< Of its bytes; "": the hub does not say it, as for small files.
  std::string git_oid;  ///< SHA-1 of its bytes as git's blob; only where `sha256` is "".

  /// What the hub's cache calls it.
  [[nodiscard]] const std::string& blob() const { return sha256.empty() ? git_oid : sha256; }
};

/// Appends the GGUF files of one page of /api/models/REPO/tree/COMMIT. Fails with `invalid`, naming
/// the entry, where it is not such a page, where a path could leave a folder, where a size or a
/// hash is not one, and where a path comes twice.
[[nodiscard]] Status append_files(const json::Value& page, std::vector<RemoteFile>& files);

/// The quantisation in a file's name, in upper case: "Q4_K_M", "IQ2_XXS", "UD-Q4_K_XL", "BF16",
/// "MXFP4"; "" where there is none.
[[nodiscard]] std::string quantisation_of(std::string_view path);

/// A model among the files: one of them, or all shards of one in their order.
struct Choice {
  std::string quantisation;
  std::vector<RemoteFile> files;
};

/// Chooses the model that is called `wanted`: a quantisation (in any case; "FP16" is "F16"; without
/// "UD-" it means that one, too, where there is no other), or a file's path or name. "" chooses the
/// only model, or else the first quantisation of kPreferred that there is. Projectors
/// ("mmproj") and importance matrices ("imatrix") are no models. Fails with `invalid`, naming what
/// there is in `where`, if there is no such model, if there are several, or if a shard is missing.
[[nodiscard]] Expected<Choice> choose(const std::vector<RemoteFile>& files, std::string_view wanted,
                                      std::string_view where);

/// Best first: 4 bits with important weights in more, which costs little quality; then more bits;
/// then fewer.
inline constexpr std::string_view kPreferred[] = {
    "Q4_K_M", "UD-Q4_K_XL", "Q4_K_L", "Q4_K_XL", "Q4_K_S", "IQ4_NL", "IQ4_XS", "MXFP4",
    "Q4_0",   "Q4_1",       "Q5_K_M", "Q5_K_S",  "Q5_0",   "Q5_1",   "Q6_K",   "Q8_0",
    "Q3_K_L", "Q3_K_M",     "Q3_K_S", "IQ3_M",   "Q2_K",   "BF16",   "F16",    "F32"};

/// A shard's place in its model, from a name like "model-00002-of-00003.gguf".
struct Shard {
  std::string stem;  ///< "model"; of a file that is a whole model: its path without ".gguf".
  std::uint32_t number = 1;  ///< From 1.
  std::uint32_t count = 1;
};
[[nodiscard]] Shard shard_of(std::string_view path);

}  // namespace tenon::hub
