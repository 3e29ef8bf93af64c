#pragma once

#include <memory>
#include <string_view>

#include "tenon/regex/code_points.h"

/// What Unicode says about characters, from ICU. Thread-safe.
namespace tenon::regex {

/// The characters that have a property: ("L", ""), ("Script", "Greek"), ("White_Space", ""). Names
/// and values may be written in any of the ways that Unicode allows (UAX 44, 5.9). A script may be
/// named alone. Null if Unicode knows no such property or value.
[[nodiscard]] std::shared_ptr<const CodePointSet> characters_with(std::string_view property,
                                                                  std::string_view value = {});

/// `set` and every character that differs from one of its characters only in case.
[[nodiscard]] CodePointSet case_closed(const CodePointSet& set);

}  // namespace tenon::regex
