#pragma once

#include <string>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"

namespace tenon::config {

/// The bytes of a file of at most 64 MiB. Errors name the path and the reason.
[[nodiscard]] Expected<std::string> read_file(const std::string& path);
/// The same, or all of stdin for "-".
[[nodiscard]] Expected<std::string> read_input(const std::string& path);
/// The name of the input in messages: the path, or "stdin" for "-".
[[nodiscard]] std::string input_name(const std::string& path);
/// The JSON document in a file, or in stdin for "-". If the text is not JSON, the error ends in
/// `advice`.
[[nodiscard]] Expected<json::Value> read_json(const std::string& path,
                                              std::string_view advice = {});

/// `path` relative to `folder`; `path` itself if it is absolute or `folder` is "".
[[nodiscard]] std::string resolved(std::string_view path, std::string_view folder);

/// Where Tenon keeps its files by default: $XDG_STATE_HOME/tenon, else ~/.local/state/tenon. The
/// folder may not exist yet. "": there is no such place.
[[nodiscard]] std::string state_folder();

/// The model that comes with Tenon: $TENON_MODEL_PATH, else models/tenon-tiny.gguf in a folder
/// above the library or program that has this code, else where `make install` puts it. Fails with
/// the places that were tried.
[[nodiscard]] Expected<std::string> bundled_model();

}  // namespace tenon::config
