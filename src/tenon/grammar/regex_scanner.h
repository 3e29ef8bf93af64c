#pragma once

#include <memory>

#include "tenon/grammar/machine.h"
#include "tenon/grammar/scanner.h"
#include "tenon/regex/expr.h"

namespace tenon::grammar {

/// The texts of `language`, as they are. `exprs` is shared by the scanners of a machine; where its
/// limits are reached the machine fails. The machine outlives the scanner. `is_covered`: see
/// node::Lexeme. Whether a state of such a lexeme is live is known from its structure alone: a
/// search costs more than all the rest, and what covers the lexeme has made it.
[[nodiscard]] std::shared_ptr<Scanner> make_regex_scanner(Machine& machine,
                                                          std::shared_ptr<regex::ExprSet> exprs,
                                                          regex::Expr language,
                                                          bool is_covered = false);

}  // namespace tenon::grammar
