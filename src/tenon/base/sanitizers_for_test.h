#pragma once

namespace tenon {

/// Whether the program was built with sanitizers, which make it about ten times slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kHasSanitizers = true;
#elif defined(__has_feature)
inline constexpr bool kHasSanitizers =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kHasSanitizers = false;
#endif

/// The time limit of a test whose program takes at most `seconds` of CPU time without sanitizers.
inline constexpr double with_sanitizers(double seconds) {
  return kHasSanitizers ? 10 * seconds : seconds;
}

}  // namespace tenon
