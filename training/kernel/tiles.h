// Blocks of 32 x 32 sums of products of bfloat16 in AMX, four tiles of 16 x 16.
//
// A block is made from two tiles of a left operand, `a` and `a + a_rows`, and two of a right one,
// `b` and `b + b_columns` (layouts: products.h), over `steps` of 32 summands, which lie `a_next`
// and `b_next` bytes apart. Rows of a left tile are `a_row` bytes apart, those of a right tile 64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kernel {

struct bf16 {
  std::uint16_t bits;
};

/// Asks the kernel for the tile registers; false if there are none.
inline bool tiles_begin() {
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

/// Eight tiles of 16 rows of 64 bytes; others may have changed them since.
inline void tiles_configure() {
  struct alignas(64) {
    std::uint8_t palette = 1, start = 0, reserved[14] = {};
    std::uint16_t bytes[16] = {};
    std::uint8_t rows[16] = {};
  } config;
  for (int i = 0; i < 8; ++i) config.bytes[i] = 64, config.rows[i] = 16;
  // GCC 12 takes it for a read of eight bytes (GCC bug 114098).
  __asm__ volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
}

/// 32 x 32 sums in the registers 0 to 3. The compiler does not know what a tile is loaded from, so
/// stores before a load are kept before it by `sync`, and those behind it behind.
struct Sum4 {
  static void sync() { __asm__ volatile("" ::: "memory"); }
  static void clear() {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  static void load(const float* c, std::size_t stride) {
    sync();
    _tile_loadd(0, c, stride * 4);
    _tile_loadd(1, c + 16, stride * 4);
    _tile_loadd(2, c + 16 * stride, stride * 4);
    _tile_loadd(3, c + 16 * stride + 16, stride * 4);
    sync();
  }
  static void add(const char* a0, const char* a1, std::size_t a_row, const char* b0,
                  const char* b1) {
    sync();
    _tile_loadd(4, a0, a_row);
    _tile_loadd(6, b0, 64);
    _tile_loadd(7, b1, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a1, a_row);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    sync();
  }
  static void store(float* c, std::size_t stride) {
    _tile_stored(0, c, stride * 4);
    _tile_stored(1, c + 16, stride * 4);
    _tile_stored(2, c + 16 * stride, stride * 4);
    _tile_stored(3, c + 16 * stride + 16, stride * 4);
  }
};

inline void block_steps(Sum4& sum, const char* a, std::size_t a_rows, std::size_t a_row,
                        std::size_t a_next, const char* b, std::size_t b_columns,
                        std::size_t b_next, int steps) {
  for (int i = 0; i < steps; ++i, a += a_next, b += b_next)
    sum.add(a, a + a_rows, a_row, b, b + b_columns);
}

/// c = the sums.
inline void block_set(const char* a, std::size_t a_rows, std::size_t a_row, std::size_t a_next,
                      const char* b, std::size_t b_columns, std::size_t b_next, int steps, float* c,
                      std::size_t stride) {
  Sum4 sum;
  sum.clear();
  block_steps(sum, a, a_rows, a_row, a_next, b, b_columns, b_next, steps);
  sum.store(c, stride);
}

/// c += the sums.
inline void block_add(const char* a, std::size_t a_rows, std::size_t a_row, std::size_t a_next,
                      const char* b, std::size_t b_columns, std::size_t b_next, int steps, float* c,
                      std::size_t stride) {
  Sum4 sum;
  sum.load(c, stride);
  block_steps(sum, a, a_rows, a_row, a_next, b, b_columns, b_next, steps);
  sum.store(c, stride);
}

}  // namespace kernel
