#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// What tokenizers need of Unicode, from ICU. Texts must be valid UTF-8. Thread-safe.
namespace tenon::vocab {

enum class NormalForm : std::uint8_t { nfc, nfd, nfkc, nfkd };

/// `text` in a normal form of UAX 15.
[[nodiscard]] std::string normalized(std::string_view text, NormalForm form);

/// Each character in lower case by itself, regardless of its neighbours.
[[nodiscard]] std::string lowercase(std::string_view text);

/// Where the grapheme clusters of `text` (UAX 29) end.
[[nodiscard]] std::vector<std::size_t> grapheme_ends(std::string_view text);

/// White_Space; letters, marks, digits and joining punctuation, like Rust's \w.
[[nodiscard]] bool is_space(char32_t character);
[[nodiscard]] bool is_word(char32_t character);

}  // namespace tenon::vocab
