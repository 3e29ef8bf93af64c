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
  std::string path;  ///< Inside the repository, with slashes. It never leads out of the folder.
  std::uint64_t size = 0;
  std::string sha256;   ///< Hash of the bytes; "" if the hub does not tell it, as for small files.
  std::string git_oid;  ///< SHA-1 of the bytes as a git blob; set only if `sha256` is "".

  /// The name of the file's blob in the hub's cache.
  [[nodiscard]] const std::string& blob() const { return sha256.empty() ? git_oid : sha256; }
};

/// Appends the GGUF files of one page of /api/models/REPO/tree/COMMIT. Fails with `invalid`, naming
/// the entry, if the document is not such a page, if a path could lead out of the folder, if a size
/// or a hash is malformed, or if a path comes twice.
[[nodiscard]] Status append_files(const json::Value& page, std::vector<RemoteFile>& files);

/// The quantisation in a file's name, in upper case: "Q4_K_M", "IQ2_XXS", "UD-Q4_K_XL", "BF16",
/// "MXFP4"; "" if the name has no quantisation.
[[nodiscard]] std::string quantisation_of(std::string_view path);

/// A model among the files: one file, or all shards of a model in their order.
struct Choice {
  std::string quantisation;
  std::vector<RemoteFile> files;
};

/// Chooses the model that is called `wanted`: a quantisation, or a file's path or name. The case of
/// a quantisation does not matter, "FP16" means "F16", and a name without "UD-" also means the one
/// with it if there is no other. "" chooses the only model, or else the first quantisation of
/// kPreferred that exists. Projectors ("mmproj") and importance matrices ("imatrix") are not
/// models. Fails with `invalid`, listing what `where` has, if there is no such model, if there are
/// several, or if a shard is missing.
[[nodiscard]] Expected<Choice> choose(const std::vector<RemoteFile>& files, std::string_view wanted,
                                      std::string_view where);

/// Best first: 4 bits with more for the important weights, which costs little quality; then more
/// bits; then fewer.
inline constexpr std::string_view kPreferred[] = {
    "Q4_K_M", "UD-Q4_K_XL", "Q4_K_L", "Q4_K_XL", "Q4_K_S", "IQ4_NL", "IQ4_XS", "MXFP4",
    "Q4_0",   "Q4_1",       "Q5_K_M", "Q5_K_S",  "Q5_0",   "Q5_1",   "Q6_K",   "Q8_0",
    "Q3_K_L", "Q3_K_M",     "Q3_K_S", "IQ3_M",   "Q2_K",   "BF16",   "F16",    "F32"};

/// A shard's place in its model, from a name like "model-00002-of-00003.gguf".
struct Shard {
  std::string stem;  ///< "model"; for a file that is a whole model, its path without ".gguf".
  std::uint32_t number = 1;  ///< From 1.
  std::uint32_t count = 1;
};
[[nodiscard]] Shard shard_of(std::string_view path);

}  // namespace tenon::hub
