#pragma once

#include <memory>
#include <string>

#include "tenon/base/expected.h"
#include "tenon/format/format.h"
#include "tenon/json/value.h"

/// What the files in a model's folder say of its tool-call format, after they have been read.
namespace tenon::format {

/// `tool_call_format` of a genai_config.json: the format with that name, or null if there is no
/// such member. Fails as named() does.
[[nodiscard]] Expected<std::shared_ptr<const Format>> format_of_genai_config(
    const json::Value& config);

/// The content of a new genai_config.json: all members of `old` (null: there is no file), and the
/// format if there is one.
[[nodiscard]] json::Object with_format(const json::Value& old, const Format* format);

/// The format with this model's texts for its special markers. special_tokens_map.json comes first,
/// then tokenizer_config.json (null: no such file), where a marker's key is its own text without
/// brackets and bars (`start_function_call` for `<start_function_call>`). A file counts if it has
/// the markers that begin and end a call. If neither file names any marker, returns the format
/// itself; if one names some, but not those two, fails with "missing required tokens".
[[nodiscard]] Expected<std::shared_ptr<const Format>> with_markers_of(
    std::shared_ptr<const Format> format, const json::Value& special_tokens_map,
    const json::Value& tokenizer_config);

}  // namespace tenon::format
