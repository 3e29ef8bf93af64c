#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/format/detect.h"

namespace tenon::config {

/// The format that a user or a file names for a model, before anything is detected.
struct DeclaredFormat {
  std::shared_ptr<const format::Format> format;  ///< Null: none is named.
  std::string where;                             ///< The flag or the file that names it.
};

/// The format called `name`; if that is "", the one that genai_config.json in `folder` names. It
/// takes the markers that files of the folder give.
[[nodiscard]] Expected<DeclaredFormat> declared_format(const std::string& folder,
                                                       const std::string& name);

/// The format that response_template in the folder's tokenizer_config.json describes. Null if there
/// is no such template, or, with a warning, if a definition cannot express it.
[[nodiscard]] std::shared_ptr<const format::Format> imported_format(const std::string& folder);

/// The ids of `eos_token_id`, one or a list, in the folder's generation_config.json; empty without
/// it. Values that are not ids are left out with a warning.
[[nodiscard]] std::vector<std::int32_t> declared_ends(const std::string& folder);

/// `path` if it is a folder or "", else the folder of that file. The functions above find nothing
/// in the folder "".
[[nodiscard]] std::string folder_of(const std::string& path);

}  // namespace tenon::config
