// Attention within a tree, block by block, without what its tokens do not see.
//
// It works on S^T, keys by queries, so that the sums of a softmax run over vectors of queries, and
// the products of the backward pass need no transposed copy of the weights; those are made again
// from their sums (Dao, FlashAttention-2, 2023).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "products.h"

namespace kernel {

constexpr int kHead = 32;       // width of a head: one row of a tile
constexpr int kBlock = 32;      // rows and columns of a block of four tiles
constexpr int kMaxTree = 2048;  // tokens

/// What the tokens of a tree see: [0, prefix) up to themselves, and [first, themselves].
struct Sight {
  const int* first;  // [tokens], within the tree; 0 for those of the prefix
  int prefix, tokens;
};

/// Queries q0 to q0 + 31, and which blocks of 32 keys some of them see.
struct Queries {
  __m512i at[2], first[2];
  int prefix;
  int count = 0;
  int key[kMaxTree / kBlock];
  bool whole[kMaxTree / kBlock];  // all of them see all of it

  Queries(const Sight& sight, int q0) : prefix(sight.prefix) {
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (int h = 0; h < 2; ++h) {
      at[h] = _mm512_add_epi32(lanes, _mm512_set1_epi32(q0 + 16 * h));
      first[h] = _mm512_loadu_si512(sight.first + q0 + 16 * h);
    }
    const auto [least, most] = std::minmax_element(sight.first + q0, sight.first + q0 + kBlock);
    for (int k = 0; k <= q0; k += kBlock) {
      if (k >= prefix && k + kBlock <= *least) continue;
      key[count] = k;
      whole[count++] = k < q0 && (k + kBlock <= prefix || k >= *most);
    }
  }

  /// Hides what of block b is not seen, and raises `most` to the scores that are.
  void raise(int b, float* scores, __m512 most[2]) const {
    for (int i = 0; i < kBlock; ++i, scores += kBlock) {
      for (int h = 0; h < 2; ++h) {
        __m512 x = load(scores + 16 * h);
        if (!whole[b]) {
          x = _mm512_mask_blend_ps(sees(h, key[b] + i), all(-1e30f), x);
          store(scores + 16 * h, x);
        }
        most[h] = _mm512_max_ps(most[h], x);
      }
    }
  }

  __mmask16 sees(int half, int k) const {
    const __mmask16 past = _mm512_cmple_epi32_mask(_mm512_set1_epi32(k), at[half]);
    return k < prefix ? past : past & _mm512_cmpge_epi32_mask(_mm512_set1_epi32(k), first[half]);
  }
};

/// [32 columns d][32 queries] to a row of 32 values for each query.
inline void rows_from_columns(const float* columns, __m512 scale0, __m512 scale1, bf16* to,
                              std::size_t stride) {
  for (int h = 0; h < 2; ++h) {
    const __m512 scale = h ? scale1 : scale0;
    __m512i r[16];
    for (int i = 0; i < 16; ++i) {
      r[i] = pairs(_mm512_mul_ps(load(columns + 2 * i * kBlock + 16 * h), scale),
                   _mm512_mul_ps(load(columns + (2 * i + 1) * kBlock + 16 * h), scale));
    }
    transpose(r);
    for (int i = 0; i < 16; ++i) _mm512_storeu_si512(to + (16 * h + i) * stride, r[i]);
  }
}

inline void rows_from_columns(const float* columns, float* to, std::size_t stride) {
  for (int h = 0; h < 2; ++h) {
    for (int half = 0; half < 2; ++half) {
      __m512i r[16];
      for (int i = 0; i < 16; ++i)
        r[i] = _mm512_castps_si512(load(columns + (16 * half + i) * kBlock + 16 * h));
      transpose(r);
      for (int i = 0; i < 16; ++i)
        store(to + (16 * h + i) * stride + 16 * half, _mm512_castsi512_ps(r[i]));
    }
  }
}

/// 32 x 32 keys or values of one head, from [tokens][stride], as left operand of a sum over tokens:
/// two tiles for each 32 tokens.
inline void turn_keys(const bf16* from, std::size_t stride, int tokens, char* to) {
  __m512i rows[16];
  for (int t = 0; t < tokens; t += 32) {
    for (int half = 0; half < 2; ++half) {
      pair_rows(from + t * stride + 16 * half, stride, rows);
      transpose(rows);
      store_tile(to + (t / 32 * 2 + half) * kTile, rows);
    }
  }
}

/// Weights e^(score - most) of a block of scores as a right operand of a sum over keys.
inline void weigh(const float* scores, const __m512 most[2], __m512 sum[2], char* weights) {
  for (int i = 0; i < kBlock; i += 2, scores += 2 * kBlock) {
    for (int h = 0; h < 2; ++h) {
      const __m512 first = exp16(_mm512_sub_ps(load(scores + 16 * h), most[h]));
      const __m512 second = exp16(_mm512_sub_ps(load(scores + kBlock + 16 * h), most[h]));
      sum[h] = _mm512_add_ps(sum[h], _mm512_add_ps(first, second));
      _mm512_store_si512(weights + h * kTile + i / 2 * 64, pairs(first, second));
    }
  }
}

/// Weights of block b once more, from the logarithms of their sums, and the slopes of its scores:
/// both as left operands, keys by queries, and the slopes as a right operand of a sum over keys.
inline void weigh_back(const Queries& see, int b, const float* scores, const float* slopes,
                       const float* sums, const float* dots, char* weights, char* score_slopes,
                       char* score_pairs) {
  const __m512 sum[2] = {load(sums), load(sums + 16)}, dot[2] = {load(dots), load(dots + 16)};
  for (int i = 0; i < kBlock; i += 2) {
    __m512 d[2][2];  // [row][half]
    for (int r = 0; r < 2; ++r) {
      __m512 w[2];
      for (int h = 0; h < 2; ++h) {
        const int at = (i + r) * kBlock + 16 * h;
        w[h] = exp16(_mm512_sub_ps(load(scores + at), sum[h]));
        if (!see.whole[b]) w[h] = _mm512_maskz_mov_ps(see.sees(h, see.key[b] + i + r), w[h]);
        d[r][h] = _mm512_mul_ps(w[h], _mm512_sub_ps(load(slopes + at), dot[h]));
      }
      _mm512_store_si512(weights + (i + r) * 64, bf16_of(w[0], w[1]));
      _mm512_store_si512(score_slopes + (i + r) * 64, bf16_of(d[r][0], d[r][1]));
    }
    for (int h = 0; h < 2; ++h) {
      _mm512_store_si512(score_pairs + h * kTile + i / 2 * 64, pairs(d[0][h], d[1][h]));
    }
  }
}

struct Scratch {
  Buffer<float> scores;
  Buffer<char> values_turned, keys_turned;
  alignas(64) char queries[2 * kTile], slopes[2 * kTile], query_pairs[2 * kTile],
      slope_pairs[2 * kTile];
  alignas(64) char weights[2 * kTile], score_slopes[2 * kTile], score_pairs[2 * kTile];
  alignas(64) float out[kBlock * kBlock];
};

/// 32 rows of keys or values times the queries or slopes in `right`.
inline void score(const bf16* rows, std::size_t stride, const char* right, float* to) {
  block_set(reinterpret_cast<const char*>(rows), stride * 32, stride * 2, 0, right, kTile, 0, 1, to,
            kBlock);
}

/// Attention of one tree and one group of query heads on one head of keys and values; all are rows
/// of `stride`. `out` [tokens][out_stride]; `sums` [group][sums_stride] takes the logarithm of the
/// sum of each softmax.
inline void attend(const Sight& sight, const bf16* q, const bf16* k, const bf16* v,
                   std::size_t stride, int group, bf16* out, std::size_t out_stride, float* sums,
                   std::size_t sums_stride, Scratch& s) {
  float* scores = s.scores.room(static_cast<std::size_t>(sight.tokens) * kBlock);
  char* turned = s.values_turned.room(static_cast<std::size_t>(sight.tokens) / 32 * 2 * kTile);
  turn_keys(v, stride, sight.tokens, turned);
  for (int q0 = 0; q0 < sight.tokens; q0 += kBlock) {
    const Queries see(sight, q0);
    for (int g = 0; g < group; ++g) {
      for (int h = 0; h < 2; ++h) {
        turn_rows(q + (q0 + 16 * h) * stride + g * kHead, stride, s.queries + h * kTile);
      }
      __m512 most[2] = {all(-1e30f), all(-1e30f)};
      for (int b = 0; b < see.count; ++b) {
        float* block = scores + b * kBlock * kBlock;
        score(k + see.key[b] * stride, stride, s.queries, block);
        see.raise(b, block, most);
      }
      __m512 sum[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
      Sum4 mixed;
      mixed.clear();
      for (int b = 0; b < see.count; ++b) {
        weigh(scores + b * kBlock * kBlock, most, sum, s.weights);
        const char* values = turned + see.key[b] / 32 * 2 * kTile;
        mixed.add(values, values + kTile, 64, s.weights, s.weights + kTile);
      }
      mixed.store(s.out, kBlock);
      rows_from_columns(s.out, inverse(sum[0]), inverse(sum[1]), out + q0 * out_stride + g * kHead,
                        out_stride);
      for (int h = 0; h < 2; ++h) {
        alignas(64) float m[16], l[16];
        store(m, most[h]);
        store(l, sum[h]);
        for (int i = 0; i < 16; ++i) {
          sums[g * sums_stride + q0 + 16 * h + i] = m[i] + std::log(l[i]);
        }
      }
    }
  }
}

/// Slopes of the same: dq [tokens][dq_stride] is written, dk and dv [tokens][32] are added to.
/// `dots` is the product of each row of `out` with its slope, laid out as `sums`.
inline void attend_back(const Sight& sight, const bf16* q, const bf16* k, const bf16* v,
                        std::size_t stride, int group, const bf16* slope, std::size_t slope_stride,
                        const float* sums, const float* dots, std::size_t sums_stride, float* dq,
                        std::size_t dq_stride, float* dk, float* dv, Scratch& s) {
  float* scores = s.scores.room(2 * kBlock * kBlock);
  float* slopes = scores + kBlock * kBlock;
  char* turned = s.keys_turned.room(static_cast<std::size_t>(sight.tokens) / 32 * 2 * kTile);
  turn_keys(k, stride, sight.tokens, turned);
  __m512i rows[16];
  for (int q0 = 0; q0 < sight.tokens; q0 += kBlock) {
    const Queries see(sight, q0);
    for (int g = 0; g < group; ++g) {
      const bf16* query = q + q0 * stride + g * kHead;
      const bf16* back = slope + q0 * slope_stride + g * kHead;
      for (int h = 0; h < 2; ++h) {
        turn_rows(query + 16 * h * stride, stride, s.queries + h * kTile);
        turn_rows(back + 16 * h * slope_stride, slope_stride, s.slopes + h * kTile);
        pair_rows(query + 16 * h, stride, rows);
        store_tile(s.query_pairs + h * kTile, rows);
        pair_rows(back + 16 * h, slope_stride, rows);
        store_tile(s.slope_pairs + h * kTile, rows);
      }
      const float* at = sums + g * sums_stride + q0;
      const float* dot = dots + g * sums_stride + q0;
      std::memset(s.out, 0, sizeof s.out);
      for (int b = 0; b < see.count; ++b) {
        const int key = see.key[b];
        score(k + key * stride, stride, s.queries, scores);
        score(v + key * stride, stride, s.slopes, slopes);
        weigh_back(see, b, scores, slopes, at, dot, s.weights, s.score_slopes, s.score_pairs);
        block_add(s.weights, kTile, 64, 0, s.slope_pairs, kTile, 0, 1, dv + key * kHead, kHead);
        block_add(s.score_slopes, kTile, 64, 0, s.query_pairs, kTile, 0, 1, dk + key * kHead,
                  kHead);
        block_add(turned + key / 32 * 2 * kTile, kTile, 64, 0, s.score_pairs, kTile, 0, 1, s.out,
                  kBlock);
      }
      rows_from_columns(s.out, dq + q0 * dq_stride + g * kHead, dq_stride);
    }
  }
}

}  // namespace kernel
