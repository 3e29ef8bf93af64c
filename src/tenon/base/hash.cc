#include "tenon/base/hash.h"

#include <bit>
#include <cstddef>
#include <cstring>

#include "tenon/base/ids.h"

// Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012), with one round per word and
// three at the end, as Python and Rust use it for their tables.
namespace tenon {
namespace {

struct State {
  std::uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }

  void absorb(std::uint64_t word) {
    v3 ^= word;
    round();
    v0 ^= word;
  }
};

// Reads little-endian on every machine.
std::uint64_t load(const char* bytes, std::size_t count) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < count; ++i) {
    word |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return word;
}

struct Key {
  std::uint64_t k0 = 0;
  std::uint64_t k1 = 0;
};

Key random_key() {
  unsigned char bytes[sizeof(Key)];
  fill_random(bytes, sizeof bytes);
  Key key;
  std::memcpy(&key, bytes, sizeof bytes);
  return key;
}

}  // namespace

std::uint64_t siphash13(std::string_view text, std::uint64_t key0, std::uint64_t key1) {
  // "somepseudorandomlygeneratedbytes", as the paper has it.
  State state{key0 ^ 0x736f6d6570736575U, key1 ^ 0x646f72616e646f6dU, key0 ^ 0x6c7967656e657261U,
              key1 ^ 0x7465646279746573U};
  const std::size_t whole = text.size() & ~std::size_t{7};
  for (std::size_t i = 0; i < whole; i += 8) state.absorb(load(text.data() + i, 8));
  // The last word: what is left of the text, and the length in the top byte.
  state.absorb(load(text.data() + whole, text.size() - whole) | std::uint64_t{text.size() & 0xff}
                                                                    << 56);
  state.v2 ^= 0xff;
  for (int i = 0; i < 3; ++i) state.round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

std::uint64_t keyed_hash(std::string_view text) {
  // One key for the process, so that hashes are the same within it and differ from run to run.
  static const Key key = random_key();
  return siphash13(text, key.k0, key.k1);
}

}  // namespace tenon
