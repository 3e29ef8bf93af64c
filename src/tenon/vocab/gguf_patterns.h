#pragma once

#include <array>
#include <string_view>

namespace tenon::vocab {

/// How the tokenizers that GGUF files name in `tokenizer.ggml.pre` cut a text.
struct GgufPattern {
  std::array<std::string_view, 6> patterns;  ///< Each isolates its matches; "" for none.
  bool prefers_whole = false;                ///< As ignore_merges in a tokenizer.json.
  bool adds_bos = false;                     ///< Where the file does not say.
};

/// Null for a name that is not known. "" and "default" are the name of files older than the key.
[[nodiscard]] const GgufPattern* find_gguf_pattern(std::string_view name);

}  // namespace tenon::vocab
