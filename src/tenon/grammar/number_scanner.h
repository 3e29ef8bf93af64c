#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/scanner.h"

namespace tenon::grammar {

/// A set of numbers: what is within the bounds, a multiple of each of `multiples`, of none of
/// `no_multiples`, and equal to none of `excluded`. All are numbers as text (RFC 8259).
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
  /// Integers without ".0", as draft 4 and most tools want them.
  bool integers_are_spelled = false;

  /// Whether the value of `text`, a number, belongs to the set. Exact.
  [[nodiscard]] bool contains(const std::string& text) const;
  /// By the bounds and multiples alone.
  [[nodiscard]] bool holds_rules(const std::string& text) const;
  auto operator<=>(const NumberSet&) const = default;
};

/// Fails with limit_exceeded where a bound or a multiple has more places before or after the point
/// than the numbers that are written here; the message wants a subject.
[[nodiscard]] Status check_places(std::string_view number);
/// Fails with limit_exceeded where the multiples together are too much.
[[nodiscard]] Status check_steps(const NumberSet& set);

/// How many numbers the set holds at most, where they are few.
[[nodiscard]] std::optional<std::uint64_t> most_values(const NumberSet& set);

/// Numbers of a set, all of them different; unless `is_all` there may be others.
struct SomeNumbers {
  std::vector<std::string> numbers;
  bool is_all = false;
  std::size_t tried = 0;  ///< How much work it was.
};
/// Up to `most` of them; fewer if there are no more, or if they lie far apart.
[[nodiscard]] SomeNumbers some_numbers(const NumberSet& set, std::size_t most);

/// The numbers of a set, as JSON. Numbers are spelled in decimals, or as `d.ddde-dd` with one digit
/// before the point and at most three in the exponent; where multiples are asked for, in decimals
/// alone; those of a list have one zero at most that says nothing. There are at most 21 digits
/// before the point and 17 behind it (and 6 zeros that begin the fraction of a number below 1), or
/// as many as the bounds and multiples have and two more. That leaves out no double where there are
/// exponents, and no spelling that json.dumps or JSON.stringify write but for integers of more than
/// 16 digits that are written as floats.
///
/// A prefix is dead if nothing that follows can lead into the set; that is decided by arithmetic on
/// the prefix, exactly, for sets that the two checks above let pass.
///
/// One scanner reads the set less any numbers, which are found by how they are spelled
/// (number_trie.h): sets that differ in one number share all states but those on the way to it, so
/// that one more costs the same however many there are.
///
///     const auto scanner = make_number_scanner({.multiples = {"1"}});
///     const auto less = scanner->without(NumberScanner::kWhole, "137");
///     scanner->start_of(less);   // reads neither 137 nor 137.0, which start() reads
class NumberScanner : public Scanner {
 public:
  /// A set of numbers that are left out. Equal sets have equal numbers.
  using Less = std::uint32_t;
  static constexpr Less kWhole = 0;  ///< No number but those of NumberSet::excluded.

  /// The same and `number`, which may be spelled in any way, and need not be in the set.
  [[nodiscard]] virtual Less without(Less less, const std::string& number) = 0;
  /// kDead: no number is left.
  [[nodiscard]] virtual State start_of(Less less) = 0;
};
[[nodiscard]] std::shared_ptr<NumberScanner> make_number_scanner(NumberSet set);

}  // namespace tenon::grammar
