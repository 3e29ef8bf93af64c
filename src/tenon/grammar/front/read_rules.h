#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/grammar/rules/rules.h"

namespace tenon::grammar {

enum class Syntax : std::uint8_t {
  gbnf,            ///< gbnf.h
  lark,            ///< lark.h
  regex,           ///< A pattern of ECMA-262 that must match the whole text.
  structural_tag,  ///< structural_tag.h
};

/// The syntax with this name: the enumerator's name, or "ebnf", which is read as GBNF.
[[nodiscard]] std::optional<Syntax> syntax_named(std::string_view name);

/// Reads a grammar. Fails with `invalid` and the place, with `unsupported` and the name of the
/// feature, or with `limit_exceeded`.
[[nodiscard]] Expected<Rules> read_rules(std::string_view source, Syntax syntax);

}  // namespace tenon::grammar
