#pragma once

#include <cstdint>
#include <functional>

#include "tenon/base/expected.h"
#include "tenon/regex/code_points.h"
#include "tenon/regex/expr.h"
#include "tenon/regex/spelling.h"
#include "tenon/regex/syntax.h"

/// From patterns to languages.
namespace tenon::regex {

/// How one character of a set is written in bytes. No spelling of a character begins another
/// character's; one character may have several. utf8_spelling is one, the inside of a JSON string
/// another, by which a `pattern` becomes a language of JSON text with its escapes.
using Spelling = std::function<Expr(ExprSet&, const CodePointSet&)>;

enum class Extent : std::uint8_t {
  part,   ///< Texts of which some part matches: JSON Schema's `pattern`.
  whole,  ///< Texts that match from beginning to end.
};

/// The texts that `syntax` matches, among texts that are spelled by `spelling`: what the language
/// says about other bytes means nothing, so where they can occur intersect it with repeat(any
/// character).
///
///     ExprSet exprs(limits);
///     const Expected<Expr> name = language_of(exprs, *parse("^[a-z]+(?!.*--)", dialect, budget),
///                                             Extent::part);
///
/// Anchors, word boundaries, looks ahead and behind are exact, in loops too. Greedy and lazy are
/// one language. Fails with Errc::unsupported at a possessive quantifier or atomic group, at "$" or
/// a look ahead inside a look behind, at more than ExprSet::kMaxConditions different looks behind,
/// and with Errc::limit_exceeded.
[[nodiscard]] Expected<Expr> language_of(ExprSet& exprs, const Syntax& syntax, Extent extent,
                                         const Spelling& spelling = utf8_spelling);

}  // namespace tenon::regex
