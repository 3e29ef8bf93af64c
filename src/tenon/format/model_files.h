#pragma once

#include <memory>
#include <string>

#include "tenon/base/expected.h"
#include "tenon/format/format.h"
#include "tenon/json/value.h"

/// What the files in a model's folder say of its tool-call format, once they are read.
namespace tenon::format {

/// `tool_call_format` of a genai_config.json: the format of that name, or null where it names none.
/// Fails as named() does.
[[nodiscard]] Expected<std::shared_ptr<const Format>> format_of_genai_config(
    const json::Value& config);

/// What a new genai_config.json holds: all that `old` (null: there is none) does, and the format,
/// where there is one.
[[nodiscard]] json::Object with_format(const json::Value& old, const Format* format);

/// The format with the texts that this model has for its special markers: special_tokens_map.json
/// goes first, then tokenizer_config.json (null: there is none), where a marker's key is its own
/// text without brackets and bars (`start_function_call` for `<start_function_call>`). A file
/// counts if it has the markers that begin and end a call. The format itself where neither names
/// any; if one names some, but none those two, it fails with "missing required tokens".
[[nodiscard]] Expected<std::shared_ptr<const Format>> with_markers_of(
    std::shared_ptr<const Format> format, const json::Value& special_tokens_map,
    const json::Value& tokenizer_config);

}  // namespace tenon::format
