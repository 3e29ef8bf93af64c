#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "tenon/base/expected.h"
#include "tenon/regex/code_points.h"
#include "tenon/regex/expr.h"
#include "tenon/regex/spelling.h"
#include "tenon/regex/syntax.h"

/// Translates patterns to languages.
namespace tenon::regex {

/// How a character of a set is encoded in bytes. No encoding of a character may begin with the
/// encoding of another; a character may have several. utf8_spelling is one such function. Another
/// gives the inside of a JSON string, by which a `pattern` becomes a language of JSON text with its
/// escapes.
using Spelling = std::function<Expr(ExprSet&, const CodePointSet&)>;

enum class Extent : std::uint8_t {
  part,   ///< Texts some part of which matches: JSON Schema's `pattern`.
  whole,  ///< Texts that match from beginning to end.
};

/// The texts that `syntax` matches, among texts encoded by `spelling`. For other bytes the language
/// has no meaning; if they can occur, intersect it with repeat(any character).
///
///     ExprSet exprs(limits);
///     const Expected<Expr> name = language_of(exprs, *parse("^[a-z]+(?!.*--)", dialect, budget),
///                                             Extent::part);
///
/// Anchors, word boundaries, looks ahead and behind are exact, also in loops. Greedy and lazy
/// quantifiers give the same language. Fails with Errc::unsupported at a possessive quantifier or
/// atomic group, at "$" or a look ahead inside a look behind, and at more than
/// ExprSet::kMaxConditions different looks behind; fails with Errc::limit_exceeded.
[[nodiscard]] Expected<Expr> language_of(ExprSet& exprs, const Syntax& syntax, Extent extent,
                                         const Spelling& spelling = utf8_spelling);

/// The texts of `parts` one after the other. Rounds of equal parts become one counted repetition,
/// as if the author had written `(\w{1,8}\s?){100}` and not a hundred copies: the states of a
/// repetition are ranges of counts, and those of copies are sets of places.
[[nodiscard]] Expr concat_all(ExprSet& exprs, std::span<const Expr> parts);

}  // namespace tenon::regex
