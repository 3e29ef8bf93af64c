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
/// What messages call it: the path, or "stdin" for "-".
[[nodiscard]] std::string input_name(const std::string& path);
/// The JSON document in a file, or in stdin for "-". Where it is no JSON, the error ends in
/// `advice`.
[[nodiscard]] Expected<json::Value> read_json(const std::string& path,
                                              std::string_view advice = {});

/// `path` as seen from `folder`: itself if it is absolute or `folder` is "".
[[nodiscard]] std::string resolved(std::string_view path, std::string_view folder);

/// Where Tenon keeps what the user did not give a place: $XDG_STATE_HOME/tenon, else
/// ~/.local/state/tenon. It need not be there. "": there is no such place.
[[nodiscard]] std::string state_folder();

/// The model that comes with Tenon: $TENON_MODEL_PATH, else models/tenon-tiny.gguf in a folder
/// above the library or the program that has this code, else where `make install` puts it. Fails
/// naming the places that were tried.
[[nodiscard]] Expected<std::string> bundled_model();

}  // namespace tenon::config
