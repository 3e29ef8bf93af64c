#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tenon/hub/transfer.h"

/// What people see while a model is fetched.
namespace tenon::app {

/// Writes to stderr: on a terminal one line that is overwritten and then removed; otherwise a line
/// when a file begins, ends or is delayed, and every ten seconds.
[[nodiscard]] hub::Progress fetch_view();

/// That line, in at most `width` columns: how much of the file is here, how fast it comes, and how
/// long the rest takes. `fresh` bytes have come in the time `since`.
[[nodiscard]] std::string fetch_line(const hub::Event& event, std::uint64_t fresh,
                                     std::chrono::nanoseconds since, std::size_t width);

/// "491 MB": three digits in a unit of a thousand.
[[nodiscard]] std::string shown_size(std::uint64_t bytes);

}  // namespace tenon::app
