#pragma once

#include "tenon/base/expected.h"
#include "tenon/grammar/rules/rules.h"
#include "tenon/regex/code_points.h"
#include "tenon/regex/expr.h"

/// Grammars whose texts are part of other texts, in which characters are written differently.
namespace tenon::grammar {

enum class Spelling : std::uint8_t {
  plain,    ///< As they are.
  in_json,  ///< Inside the quotes of a JSON string, each character as json::append_quoted() writes
            ///< it.
  copied,   ///< As they are, and so are tokens and JSON schemas: nothing is refused but
            ///< node::Later.
};

/// Copies `grammar` into `rules` and returns the copy of its root, which reads the same texts in
/// the other notation. Characters that cannot be written (NUL in JSON) are left out. Because each
/// character is translated by itself, regular parts stay regular, and because each text has one
/// notation, the translation commutes with `Both` and, among translated texts, with `Complement`;
/// so other nodes need not know of it. Fails with `unsupported` at tokens and JSON schemas, whose
/// characters are not known, except with `copied`.
///
///     const auto lark = read_rules(R"(start: "say \"" /[a-z]+/ "\"")", Syntax::lark);
///     const auto text = add_spelled(rules, *lark, Spelling::in_json);   // say \"hello\"
[[nodiscard]] Expected<NodeId> add_spelled(Rules& rules, const Rules& grammar, Spelling spelling);

/// One character of `set` inside the quotes of a JSON string: a regex::Spelling.
[[nodiscard]] regex::Expr json_spelling(regex::ExprSet& exprs, const regex::CodePointSet& set);

}  // namespace tenon::grammar
