// Products of matrices from tiles.
//
// "Tiled [N/16][K/32]" is an operand whose tiles lie one after another: as a left operand, row i of
// a tile is output row i and 32 values of the sum; as a right one, row i is the pair of summands 2i
// and 2i + 1, for 16 output columns.
#pragma once

#include <cstddef>
#include <vector>

#include "vectors.h"

namespace kernel {

/// What a block of four tiles is multiplied from: two tile rows of the left operand.
struct Left {
  const char* tiles;
  std::size_t row_bytes;  // from a row of a tile to the next
  std::size_t next;       // to the next 32 summands
  std::size_t next_rows;  // to the next 16 rows
};

inline Left rows_of(const bf16* p, std::size_t stride) {
  return {reinterpret_cast<const char*>(p), stride * 2, 64, stride * 32};
}

inline Left tiles_of(const char* p, int summands) {
  return {p, 64, kTile, static_cast<std::size_t>(summands) / 32 * kTile};
}

/// Adds rows x columns sums over `summands` of `left` and tiled `right` into c. All are multiples
/// of 32.
inline void add_products(Left left, const char* right, int rows, int columns, int summands,
                         float* c, std::size_t stride) {
  const int steps = summands / 32;
  for (int i = 0; i < rows / 32; ++i) {
    const char* a = left.tiles + 2 * i * left.next_rows;
    for (int j = 0; j < columns / 32; ++j) {
      const char* b = right + static_cast<std::size_t>(2 * j) * steps * kTile;
      float* out = c + 32 * i * stride + 32 * j;
      block_add(a, left.next_rows, left.row_bytes, left.next, b,
                static_cast<std::size_t>(steps) * kTile, kTile, steps, out, stride);
    }
  }
}

/// Writes them instead.
inline void products(Left left, const char* right, int rows, int columns, int summands, float* c,
                     std::size_t stride) {
  const int steps = summands / 32;
  for (int j = 0; j < columns / 32; ++j) {
    const char* b = right + static_cast<std::size_t>(2 * j) * steps * kTile;
    for (int i = 0; i < rows / 32; ++i) {
      const char* a = left.tiles + 2 * i * left.next_rows;
      float* out = c + 32 * i * stride + 32 * j;
      block_set(a, left.next_rows, left.row_bytes, left.next, b,
                static_cast<std::size_t>(steps) * kTile, kTile, steps, out, stride);
    }
  }
}

/// A matrix [out][in] as right operand of x W^T and of dy W.
struct Weights {
  Buffer<char> forward, backward;
  int out = 0, in = 0;

  /// Puts `rows` more rows behind those that are there; `begin` first.
  void begin(int all_out, int all_in) {
    out = all_out;
    in = all_in;
    forward.room(static_cast<std::size_t>(out) * in * 2);
    backward.room(static_cast<std::size_t>(out) * in * 2);
  }
  void put(int from_row, int rows, const float* w) {
    std::vector<bf16> narrow(static_cast<std::size_t>(rows) * in);
    for (std::size_t i = 0; i < narrow.size(); i += 16) store(narrow.data() + i, load(w + i));
    for (int n = 0; n < rows / 16; ++n) {
      for (int k = 0; k < in / 32; ++k) {
        turn_rows(
            narrow.data() + static_cast<std::size_t>(16 * n) * in + 32 * k, in,
            forward.get() + (static_cast<std::size_t>(from_row / 16 + n) * (in / 32) + k) * kTile);
      }
    }
    __m512i tile[16];
    for (int n = 0; n < in / 16; ++n) {
      for (int k = 0; k < rows / 32; ++k) {
        pair_rows(narrow.data() + static_cast<std::size_t>(32 * k) * in + 16 * n, in, tile);
        store_tile(
            backward.get() + (static_cast<std::size_t>(n) * (out / 32) + from_row / 32 + k) * kTile,
            tile);
      }
    }
  }
};

}  // namespace kernel
