#pragma once

namespace tenon {

/// Whether the program runs with sanitizers, with which it takes some ten times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kHasSanitizers = true;
#elif defined(__has_feature)
inline constexpr bool kHasSanitizers =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kHasSanitizers = false;
#endif

/// What a test waits for where the program itself takes at most so many seconds of CPU time.
inline constexpr double with_sanitizers(double seconds) {
  return kHasSanitizers ? 10 * seconds : seconds;
}

}  // namespace tenon
