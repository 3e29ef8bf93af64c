#pragma once

#include "tenon/base/expected.h"
#include "tenon/grammar/rules.h"
#include "tenon/regex/code_points.h"
#include "tenon/regex/expr.h"

/// Grammars whose texts stand within other texts, and are written there in a way of their own.
namespace tenon::grammar {

enum class Spelling : std::uint8_t {
  plain,    ///< As they are.
  in_json,  ///< Between the quotes of a JSON string, each character as json::append_quoted() has
            ///< it.
  copied,   ///< As they are, and so are tokens and JSON schemas: nothing is refused but
            ///< node::Later.
};

/// Copies `grammar` into `rules` and returns the copy of its root, which reads the same texts, but
/// spelled so. What cannot be spelled (NUL in JSON) is left out. Spelling character by character
/// keeps what is regular regular, and each text has one spelling: so it commutes with `Both` and,
/// within all spelled texts, with `Complement`, and no other node has to know of it. Fails with
/// `unsupported` at tokens and JSON schemas, which have no characters to spell, but for `copied`.
///
///     const auto lark = read_rules(R"(start: "say \"" /[a-z]+/ "\"")", Syntax::lark);
///     const auto text = add_spelled(rules, *lark, Spelling::in_json);   // say \"hello\"
[[nodiscard]] Expected<NodeId> add_spelled(Rules& rules, const Rules& grammar, Spelling spelling);

/// One character of `set` between the quotes of a JSON string: a regex::Spelling.
[[nodiscard]] regex::Expr json_spelling(regex::ExprSet& exprs, const regex::CodePointSet& set);

}  // namespace tenon::grammar
