#pragma once

#include <memory>

#include "tenon/grammar/machine/machine.h"
#include "tenon/grammar/machine/scanner.h"
#include "tenon/regex/expr.h"

namespace tenon::grammar {

/// The texts of `language`, as they are. The scanners of a machine share `exprs`; if its limits are
/// reached the machine fails. The machine must outlive the scanner. `is_covered`: see node::Lexeme.
/// Whether a state of such a lexeme is live is decided from its structure only, because a search
/// would cost more than everything else, and the lexeme that covers it has made that search.
[[nodiscard]] std::shared_ptr<Scanner> make_regex_scanner(Machine& machine,
                                                          std::shared_ptr<regex::ExprSet> exprs,
                                                          regex::Expr language,
                                                          bool is_covered = false);

}  // namespace tenon::grammar
