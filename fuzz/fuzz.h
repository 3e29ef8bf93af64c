#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

/// What the fuzz targets share. Each states promises of a header and ends the program where one
/// does not hold.
namespace tenon::fuzz {

/// Unlike assert, in every build.
inline void promise(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Cuts `text` into pieces whose sizes follow from `seed`, and hands each to `feed`.
template <typename Feed>
void in_pieces(std::string_view text, std::uint32_t seed, const Feed& feed) {
  while (!text.empty()) {
    seed = seed * 1664525 + 1013904223;
    const std::size_t size = 1 + (seed >> 24) % 7;
    feed(text.substr(0, size));
    text.remove_prefix(size < text.size() ? size : text.size());
  }
}

}  // namespace tenon::fuzz

/// libFuzzer's entry point, which every target defines.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
