#pragma once

#include <optional>
#include <string_view>

namespace tenon::chat {

/// The two models of a recursive model that a request names by itself.
struct ModelPair {
  std::string_view root, sub;  ///< Views of the name that was split.
};

/// Splits "root:sub" if `is_part` knows both names. Names may contain colons: the first colon that
/// leaves two known names counts.
///
///     auto pair = split_pair("qwen:small", [&](auto name) { return models.has_single(name); });
template <class IsPart>
[[nodiscard]] std::optional<ModelPair> split_pair(std::string_view name, const IsPart& is_part) {
  for (std::size_t at = name.find(':'); at != name.npos; at = name.find(':', at + 1)) {
    const ModelPair pair{name.substr(0, at), name.substr(at + 1)};
    if (is_part(pair.root) && is_part(pair.sub)) return pair;
  }
  return std::nullopt;
}

}  // namespace tenon::chat
