#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string_view>

namespace tenon {

/// Whether `make test-long` runs the test: then it may take minutes.
inline bool is_long_test() {
  const char* value = std::getenv("TENON_LONG");  // NOLINT(concurrency-mt-unsafe): never set here
  return value != nullptr && *value != '\0';
}

/// What TENON_PROOF=5 says, which makes a run try other cases of the long proofs; 0 unless it is a
/// number.
inline std::uint32_t proof_seed() {
  const char* value = std::getenv("TENON_PROOF");  // NOLINT(concurrency-mt-unsafe): never set here
  return value == nullptr ? 0 : static_cast<std::uint32_t>(std::strtoul(value, nullptr, 10));
}

/// Which cases of a proof a run tries: every case in `make test-long`, else one of each `of`
/// neighbours, chosen by proof_seed().
class Sample {
 public:
  explicit Sample(std::uint32_t of) : of_(is_long_test() ? 1 : of), random_(proof_seed()) {}

  /// Asked once for each case.
  bool takes_next() {
    if (at_ == 0) chosen_ = random_() % of_;
    const bool is_chosen = at_ == chosen_;
    at_ = (at_ + 1) % of_;
    return is_chosen;
  }

 private:
  std::uint32_t of_;
  std::uint32_t at_ = 0;
  std::uint_fast32_t chosen_ = 0;
  std::mt19937 random_;
};

}  // namespace tenon
