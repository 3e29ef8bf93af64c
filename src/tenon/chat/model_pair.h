#pragma once

#include <optional>
#include <string_view>

namespace tenon::chat {

/// The two models of a recursive model that a request names itself.
struct ModelPair {
  std::string_view root, sub;  ///< Of the name that was taken apart.
};

/// Takes "root:sub" apart where both are names that `is_part` knows. Names may have colons in them:
/// the first place at which both are known counts.
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
