#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/json/value.h"
#include "tenon/schema/schema.h"

/// The sentences of violations. Each completes "The value ..."; long values are cut. Not for other
/// layers.
namespace tenon::schema::sentences {

[[nodiscard]] std::string nothing_fits();
[[nodiscard]] std::string wrong_type(const json::Value& value, Types types);
[[nodiscard]] std::string none_of(const json::Value& value, const Enumeration& allowed);
/// `relation` is "at least " or the like.
[[nodiscard]] std::string beyond(const json::Number& number, std::string_view relation,
                                 const json::Number& bound);
[[nodiscard]] std::string not_multiple(const json::Number& number, const json::Number& divisor);
[[nodiscard]] std::string wrong_count(std::string_view thing, std::uint64_t count,
                                      std::string_view relation, std::uint64_t bound);
[[nodiscard]] std::string no_match(std::string_view text, std::string_view pattern);
[[nodiscard]] std::string not_format(std::string_view text, std::string_view format);
[[nodiscard]] std::string equal(std::pair<std::size_t, std::size_t> items);
/// `because` names the member that requires it, or is null.
[[nodiscard]] std::string missing(std::string_view name, const std::string* because);
[[nodiscard]] std::string of_name(std::string_view name, std::string_view sentence);
[[nodiscard]] std::string fits_forbidden();
[[nodiscard]] std::string no_branch(std::size_t branches, std::string_view keyword);
[[nodiscard]] std::string two_branches(std::size_t first, std::size_t second);

}  // namespace tenon::schema::sentences
