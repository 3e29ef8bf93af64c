// Vectors of 16 floats, their narrow form, and the turns that make operands of tiles (tiles.h) from
// rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "tiles.h"
#include <immintrin.h>

namespace kernel {

constexpr int kTile = 1024;  // bytes

inline int round_up(int n, int to) {
  return (n + to - 1) / to * to;
}

/// Memory on a boundary of 64 bytes, that only grows and is not cleared.
template <class T>
class Buffer {
 public:
  T* room(std::size_t count) {
    if (count > count_) {
      data_.reset(
          static_cast<T*>(std::aligned_alloc(64, (count * sizeof(T) + 4095) / 4096 * 4096)));
      if (!data_) throw std::bad_alloc();
      count_ = count;
    }
    return data_.get();
  }
  T* get() const { return data_.get(); }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t count_ = 0;
};

inline __m512 from_bf16(__m256i v) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
}
inline __m512 load(const bf16* p) {
  return from_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline __m512 load(const float* p) {
  return _mm512_loadu_ps(p);
}
inline __m256i to_bf16(__m512 v) {
  return (__m256i)_mm512_cvtneps_pbh(v);
}
inline void store(bf16* p, __m512 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_bf16(v));
}
inline void store(float* p, __m512 v) {
  _mm512_storeu_ps(p, v);
}
inline __m512 all(float v) {
  return _mm512_set1_ps(v);
}

/// Pairs (a[i], b[i]) of bfloat16.
inline __m512i pairs(__m256i a, __m256i b) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(a), _mm512_slli_epi32(_mm512_cvtepu16_epi32(b), 16));
}

/// 32 values in order.
inline __m512i bf16_of(__m512 first, __m512 second) {
  return (__m512i)_mm512_cvtne2ps_pbh(second, first);
}

inline __m512i pairs(__m512 a, __m512 b) {
  alignas(64) static constexpr std::uint16_t kOrder[32] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), bf16_of(a, b));
}

/// e^x within 7e-6 of it, relatively (4e-6 above -20); 0 far below: 2^n times a polynomial that
/// fits 2^f, f in [-1/2, 1/2].
inline __m512 exp16(__m512 x) {
  const __m512 y = _mm512_mul_ps(x, all(1.44269504f));
  const __m512 n = _mm512_roundscale_ps(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 f = _mm512_sub_ps(y, n);
  __m512 p = all(9.570096663e-03f);
  p = _mm512_fmadd_ps(p, f, all(5.591785991e-02f));
  p = _mm512_fmadd_ps(p, f, all(2.402474496e-01f));
  p = _mm512_fmadd_ps(p, f, all(6.931218148e-01f));
  p = _mm512_fmadd_ps(p, f, all(9.999992614e-01f));
  return _mm512_scalef_ps(p, n);
}

/// 1 / x within 1e-7 of it, relatively: an estimate and a step of Newton's. A division takes four
/// times as long.
inline __m512 inverse(__m512 x) {
  const __m512 r = _mm512_rcp14_ps(x);
  return _mm512_mul_ps(r, _mm512_fnmadd_ps(x, r, all(2.0f)));
}

/// Transposes 16 x 16 units of 32 bits: pairs of bfloat16, or floats.
inline void transpose(__m512i r[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 4) {
    const __m512i a = _mm512_unpacklo_epi32(r[i], r[i + 1]),
                  b = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    const __m512i c = _mm512_unpacklo_epi32(r[i + 2], r[i + 3]),
                  d = _mm512_unpackhi_epi32(r[i + 2], r[i + 3]);
    t[i] = _mm512_unpacklo_epi64(a, c);
    t[i + 1] = _mm512_unpackhi_epi64(a, c);
    t[i + 2] = _mm512_unpacklo_epi64(b, d);
    t[i + 3] = _mm512_unpackhi_epi64(b, d);
  }
  // t[4 j + i] has columns i, i + 4, i + 8, i + 12 of rows 4 j to 4 j + 3
  for (int i = 0; i < 4; ++i) {
    const __m512i a = _mm512_shuffle_i32x4(t[i], t[4 + i], 0x88),
                  b = _mm512_shuffle_i32x4(t[8 + i], t[12 + i], 0x88);
    const __m512i c = _mm512_shuffle_i32x4(t[i], t[4 + i], 0xdd),
                  d = _mm512_shuffle_i32x4(t[8 + i], t[12 + i], 0xdd);
    r[i] = _mm512_shuffle_i32x4(a, b, 0x88);
    r[8 + i] = _mm512_shuffle_i32x4(a, b, 0xdd);
    r[4 + i] = _mm512_shuffle_i32x4(c, d, 0x88);
    r[12 + i] = _mm512_shuffle_i32x4(c, d, 0xdd);
  }
}

inline void store_tile(char* tile, const __m512i rows[16]) {
  for (int i = 0; i < 16; ++i) _mm512_store_si512(tile + 64 * i, rows[i]);
}

/// Right operand: 32 rows of 16 values become pairs of rows.
inline void pair_rows(const bf16* from, std::size_t stride, __m512i rows[16]) {
  for (int i = 0; i < 16; ++i) {
    const bf16* p = from + 2 * i * stride;
    rows[i] = pairs(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
                    _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + stride)));
  }
}

/// Right operand whose sum runs along the rows of `from`: 16 rows of 32 values, transposed by
/// pairs.
inline void turn_rows(const bf16* from, std::size_t stride, char* tile) {
  __m512i rows[16];
  for (int i = 0; i < 16; ++i) rows[i] = _mm512_loadu_si512(from + i * stride);
  transpose(rows);
  store_tile(tile, rows);
}

/// Activations [tokens][columns] as a right operand of a sum over tokens, tiled
/// [columns/16][tokens/32].
inline void tile_right(const bf16* from, std::size_t stride, int tokens, int columns, char* to) {
  __m512i rows[16];
  for (int t = 0; t < tokens / 32; ++t) {
    for (int c = 0; c < columns / 16; ++c) {
      pair_rows(from + 32 * t * stride + 16 * c, stride, rows);
      store_tile(to + (static_cast<std::size_t>(c) * (tokens / 32) + t) * kTile, rows);
    }
  }
}

/// The same as a left operand: each column is a row of the result.
inline void tile_left(const bf16* from, std::size_t stride, int tokens, int columns, char* to) {
  __m512i rows[16];
  for (int t = 0; t < tokens / 32; ++t) {
    for (int c = 0; c < columns / 16; ++c) {
      pair_rows(from + 32 * t * stride + 16 * c, stride, rows);
      transpose(rows);
      store_tile(to + (static_cast<std::size_t>(c) * (tokens / 32) + t) * kTile, rows);
    }
  }
}

}  // namespace kernel
