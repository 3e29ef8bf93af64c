// Blocks of 32 x 32 sums of products of bfloat16, four tiles of 16 x 16: by AMX, or by AVX-512
// where there is none.
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

#ifdef __AMX_BF16__

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
  __asm__ volatile("" : : "r"(&config) : "memory");  // GCC before 14 has it read only eight bytes
  _tile_loadconfig(&config);
}

/// 32 x 32 sums in the registers 0 to 3. The compiler does not know what a tile is loaded from, so
/// what was stored has to be told.
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
  }
  static void store(float* c, std::size_t stride) {
    _tile_stored(0, c, stride * 4);
    _tile_stored(1, c + 16, stride * 4);
    _tile_stored(2, c + 16 * stride, stride * 4);
    _tile_stored(3, c + 16 * stride + 16, stride * 4);
  }
};

#else

inline bool tiles_begin() {
  return true;
}
inline void tiles_configure() {}

/// 32 x 32 sums in memory; 16 x 16 of them in registers at a time.
struct Sum4 {
  alignas(64) float sums[32][32];

  void clear() { std::memset(sums, 0, sizeof sums); }
  void load(const float* c, std::size_t stride) {
    for (int i = 0; i < 32; ++i) std::memcpy(sums[i], c + i * stride, 128);
  }
  void add(const char* a0, const char* a1, std::size_t a_row, const char* b0, const char* b1) {
    const char *a[2] = {a0, a1}, *b[2] = {b0, b1};
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 2; ++j) add_tile(a[i], a_row, b[j], &sums[16 * i][16 * j]);
    }
  }
  void store(float* c, std::size_t stride) const {
    for (int i = 0; i < 32; ++i) std::memcpy(c + i * stride, sums[i], 128);
  }

 private:
  static void add_tile(const char* a, std::size_t a_row, const char* b, float* c) {
    __m512 sum[16];
    for (int r = 0; r < 16; ++r) sum[r] = _mm512_load_ps(c + 32 * r);
    for (int k = 0; k < 16; ++k) {
      const auto right = (__m512bh)_mm512_loadu_si512(b + 64 * k);
      for (int r = 0; r < 16; ++r) {
        std::int32_t pair;
        std::memcpy(&pair, a + r * a_row + 4 * k, 4);
        sum[r] = _mm512_dpbf16_ps(sum[r], (__m512bh)_mm512_set1_epi32(pair), right);
      }
    }
    for (int r = 0; r < 16; ++r) _mm512_store_ps(c + 32 * r, sum[r]);
  }
};

#endif

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
