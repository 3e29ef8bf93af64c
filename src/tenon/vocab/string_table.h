#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/vocab/tokenizer.h"

namespace tenon::vocab {

/// The texts of a vocabulary's tokens, one after the other, and a hash table from text to id.
/// Immutable. A token needs 4 bytes beside its text, and 8 more if it can be found.
class StringTable {
 public:
  StringTable() = default;
  /// If `findable[i]` is true, find() finds `strings[i]`; of equal strings it finds the first. All
  /// strings together must be less than 4 GiB.
  StringTable(std::span<const std::string_view> strings, const std::vector<bool>& findable);

  [[nodiscard]] std::size_t size() const { return ends_.size(); }
  [[nodiscard]] std::string_view operator[](std::size_t id) const {
    const std::size_t begin = id == 0 ? 0 : ends_[id - 1];
    return std::string_view(text_).substr(begin, ends_[id] - begin);
  }
  [[nodiscard]] std::optional<TokenId> find(std::string_view text) const;
  [[nodiscard]] std::size_t max_length() const { return max_length_; }

 private:
  std::string text_;
  std::vector<std::uint32_t> ends_;
  std::vector<std::uint32_t> slots_;  // 1 + id, or 0; a power of two, at most half used
  std::size_t max_length_ = 0;
};

}  // namespace tenon::vocab
