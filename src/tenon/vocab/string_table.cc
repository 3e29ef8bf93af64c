#include "tenon/vocab/string_table.h"

#include <algorithm>
#include <bit>

#include "tenon/base/hash.h"

namespace tenon::vocab {

StringTable::StringTable(std::span<const std::string_view> strings,
                         const std::vector<bool>& findable) {
  std::size_t bytes = 0;
  for (const std::string_view each : strings) bytes += each.size();
  text_.reserve(bytes);
  ends_.reserve(strings.size());
  for (const std::string_view each : strings) {
    text_ += each;
    ends_.push_back(static_cast<std::uint32_t>(text_.size()));
    max_length_ = std::max(max_length_, each.size());
  }

  const auto count = static_cast<std::size_t>(std::count(findable.begin(), findable.end(), true));
  if (count == 0) return;
  slots_.resize(std::bit_ceil(2 * count));
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t id = 0; id < strings.size(); ++id) {
    if (!findable[id]) continue;
    std::size_t slot = keyed_hash(strings[id]) & mask;
    // Stops at an equal text, too: the first one stays.
    while (slots_[slot] != 0 && (*this)[slots_[slot] - 1] != strings[id]) slot = (slot + 1) & mask;
    if (slots_[slot] == 0) slots_[slot] = static_cast<std::uint32_t>(id + 1);
  }
}

// A text longer than every token is not even hashed.
std::optional<TokenId> StringTable::find(std::string_view text) const {
  if (slots_.empty() || text.size() > max_length_) return std::nullopt;
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = keyed_hash(text) & mask; slots_[slot] != 0; slot = (slot + 1) & mask) {
    const std::uint32_t id = slots_[slot] - 1;
    if ((*this)[id] == text) return static_cast<TokenId>(id);
  }
  return std::nullopt;
}

}  // namespace tenon::vocab
