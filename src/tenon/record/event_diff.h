#pragma once

#include <span>
#include <string>
#include <vector>

#include "tenon/json/value.h"

namespace tenon::record {

/// Read::events as lines that two answers can be compared by: one for each line of content and
/// reasoning, for the begin, the arguments and the end of each call, for each diagnostic and each
/// end of a choice. How texts were cut into tokens, times and ids make no difference; choices come
/// one after the other.
[[nodiscard]] std::vector<std::string> event_lines(std::span<const json::Value> events);

/// What turns `was` into `is`: lines that both have begin with two spaces, those that only one has
/// with "- " or "+ ". Three common lines stay around each difference; "..." stands for others. "":
/// they are equal. Takes at most some 100 ms; texts with very many differences come as one block
/// that replaces another.
[[nodiscard]] std::string difference(std::span<const std::string> was,
                                     std::span<const std::string> is);

}  // namespace tenon::record
