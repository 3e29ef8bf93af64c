#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/format/detect.h"

namespace tenon::config {

/// What is said of a model's format before anything is detected.
struct DeclaredFormat {
  std::shared_ptr<const format::Format> format;  ///< Null: nothing is.
  std::string where;                             ///< The flag, or the file that says it.
};

/// The format called `name`; where that is "", the one that genai_config.json in `folder` names.
/// With the markers that the files in the folder give it.
[[nodiscard]] Expected<DeclaredFormat> declared_format(const std::string& folder,
                                                       const std::string& name);

/// What the response_template in the folder's tokenizer_config.json says; null where there is none,
/// or where a definition cannot say it, which a warning says.
[[nodiscard]] std::shared_ptr<const format::Format> imported_format(const std::string& folder);

/// The ids of `eos_token_id` in the folder's generation_config.json, one or a list; none where
/// there is none. What is no id is left out with a warning.
[[nodiscard]] std::vector<std::int32_t> declared_ends(const std::string& folder);

/// `path`, if it is a folder, else the folder of that file.
[[nodiscard]] std::string folder_of(const std::string& path);

}  // namespace tenon::config
