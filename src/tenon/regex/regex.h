#pragma once

#include <memory>
#include <string_view>

#include "tenon/base/budget.h"
#include "tenon/base/expected.h"

namespace tenon::regex {

/// A pattern of ECMA-262 in unicode mode, as in JSON Schema's `pattern`.
///
///     const auto pattern = Regex::compile("^[a-z]+(?!.*--)$");
///     if (!pattern) return Unexpected(pattern.error());
///     const Expected<bool> holds = (*pattern)->contains_match(text);
///
/// It does not backtrack: the time is linear in the text for every pattern. It is as lenient as
/// browsers are without the flag `u` (Annex B): "\-", a lone "{" or "]". Back references are
/// refused with Errc::unsupported. May be shared between threads.
class Regex {
 public:
  /// Fails with Errc::invalid and the place in the pattern, Errc::unsupported, or
  /// Errc::limit_exceeded. Limits that are not set have a bound here. The limits on steps and bytes
  /// also apply to each later search.
  [[nodiscard]] static Expected<std::shared_ptr<const Regex>> compile(std::string_view pattern,
                                                                      const Limits& limits = {});
  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  /// Whether some part of `utf8`, which must be valid UTF-8, matches; anchors match at the ends of
  /// `utf8`. Fails with Errc::limit_exceeded.
  [[nodiscard]] Expected<bool> contains_match(std::string_view utf8) const;

 private:
  struct Impl;
  explicit Regex(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::regex
