#pragma once

#include <array>
#include <string_view>

namespace tenon::vocab {

/// How a tokenizer that a GGUF file names in `tokenizer.ggml.pre` cuts a text.
struct GgufPattern {
  std::array<std::string_view, 6> patterns;  ///< Each isolates its matches; "": no pattern.
  bool prefers_whole = false;                ///< Like ignore_merges in a tokenizer.json.
  bool adds_bos = false;                     ///< If the file does not say.
};

/// Null for an unknown name. "" and "default" are for files older than the key.
[[nodiscard]] const GgufPattern* find_gguf_pattern(std::string_view name);

}  // namespace tenon::vocab
