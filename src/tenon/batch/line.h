#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"

/// The members of a line, for all commands.
namespace tenon::batch {

/// "member: what", of Errc::invalid.
[[nodiscard]] Error wrong_member(std::string_view member, std::string_view what);

/// The index in `words` of the string `member`; `otherwise` if it is missing.
[[nodiscard]] Expected<std::size_t> chosen(const json::Object& request, std::string_view member,
                                           std::span<const std::string_view> words,
                                           std::size_t otherwise);
/// The boolean `member`; `otherwise` if it is missing or null.
[[nodiscard]] Expected<bool> flag(const json::Object& request, std::string_view member,
                                  bool otherwise);

}  // namespace tenon::batch
