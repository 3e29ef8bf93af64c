#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/machine/scanner.h"

namespace tenon::grammar {

/// A set of numbers: those within the bounds that are a multiple of each of `multiples` and of none
/// of `no_multiples`, and equal to none of `excluded`. All numbers are texts (RFC 8259).
struct NumberSet {
  struct Bound {
    std::string value;
    bool exclusive = false;
    auto operator<=>(const Bound&) const = default;
  };
  std::optional<Bound> minimum;
  std::optional<Bound> maximum;
  std::vector<std::string> multiples;     ///< Above zero; "1" means integers.
  std::vector<std::string> no_multiples;  ///< Above zero.
  std::vector<std::string> excluded;
  std::optional<std::vector<std::string>> values;  ///< If given: equal to one of these.
  /// Integers have no ".0", as draft 4 and most tools require.
  bool integers_are_spelled = false;
  /// False: 190 digits are usual instead of 21 and 17.
  bool is_bounded = true;

  /// Whether the value of `text`, a number, is in the set. Exact.
  [[nodiscard]] bool contains(const std::string& text) const;
  /// Decided by the bounds and multiples only.
  [[nodiscard]] bool holds_rules(const std::string& text) const;
  auto operator<=>(const NumberSet&) const = default;
};

/// Fails with limit_exceeded if a bound or a multiple is longer, written without an exponent, than
/// the numbers written here. The message needs a subject before it.
[[nodiscard]] Status check_places(std::string_view number);
/// Fails with limit_exceeded if the common multiple is too large, or the list of forbidden ones.
[[nodiscard]] Status check_steps(const NumberSet& set);

/// Whether each multiple of `of` is one of `step`; false also if that takes long to find out.
[[nodiscard]] bool is_implied_step(const std::string& step, const std::string& of);
/// Leaves out the `no_multiples` that follow from others, as 2 does from 0.5.
void drop_implied_steps(NumberSet& set);

/// An upper bound on the size of the set, if it is small.
[[nodiscard]] std::optional<std::uint64_t> most_values(const NumberSet& set);

/// Different numbers of a set; unless `is_all` there may be more.
struct SomeNumbers {
  std::vector<std::string> numbers;
  bool is_all = false;
  std::size_t tried = 0;  ///< The amount of work.
};
/// Up to `most` numbers; fewer if there are no more, or if they lie far apart.
[[nodiscard]] SomeNumbers some_numbers(const NumberSet& set, std::size_t most);

/// The numbers of a set, as JSON. Numbers are written in decimals, or as `d.ddde-dd` with one digit
/// before the point and at most three in the exponent; with multiples in decimals only; those of a
/// list with at most one zero that has no meaning. There are at most 21 digits before the point and
/// 17 after it (and 6 leading zeros in the fraction of a number below 1), or as many as the bounds
/// and multiples have and two more. Where exponents are allowed that leaves out no double, and no
/// text that json.dumps or JSON.stringify write, except for integers of more than 16 digits that
/// are written as floats.
///
/// A prefix is dead if nothing that follows can lead into the set. That is decided by arithmetic on
/// the prefix, exactly, for sets that pass the two checks above.
///
/// One scanner can read the set without any excluded numbers, which are found by their texts
/// (number_trie.h). Sets that differ in one number share all states except those on the way to it,
/// so one more exclusion costs the same, however many there are.
///
///     const auto scanner = make_number_scanner({.multiples = {"1"}});
///     const auto less = scanner->without(NumberScanner::kWhole, "137");
///     scanner->start_of(less);   // reads neither 137 nor 137.0, which start() reads
class NumberScanner : public Scanner {
 public:
  /// A set of excluded numbers. Equal sets have equal numbers.
  using Less = std::uint32_t;
  static constexpr Less kWhole = 0;  ///< Excludes only the numbers of NumberSet::excluded.

  /// The set with `number` added, which may be written in any way and need not be in the set of
  /// numbers.
  [[nodiscard]] virtual Less without(Less less, const std::string& number) = 0;
  /// kDead: all numbers are excluded.
  [[nodiscard]] virtual State start_of(Less less) = 0;
};
[[nodiscard]] std::shared_ptr<NumberScanner> make_number_scanner(NumberSet set);

}  // namespace tenon::grammar
