// The gradient of `model.Model` over a micro-batch of trees, for one core.
//
// What PyTorch spends its time on: ablations.md, "Time". Here every product is made of AMX tiles of
// 16 x 16 sums over 32 pairs of bfloat16, a tree is attended to block by block, and all that stands
// between two products is done while it is in the cache. Sums, norms and the residual stream are
// float32, as in `model.py`, which is the reference: `check_model.py` holds the two against each
// other. Activations are row-major, a row for each token.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "attention.h"
#include "products.h"
#include "vectors.h"

namespace kernel {
namespace {

/// n = x / rms(x); h = n w. Returns 1 / rms(x).
float norm(const float* x, const float* w, int width, float eps, bf16* n, bf16* h) {
  __m512 sum = _mm512_setzero_ps();
  for (int i = 0; i < width; i += 16) sum = _mm512_fmadd_ps(load(x + i), load(x + i), sum);
  const float scale = 1.0f / std::sqrt(_mm512_reduce_add_ps(sum) / width + eps);
  for (int i = 0; i < width; i += 16) {
    const __m512 v = _mm512_mul_ps(load(x + i), all(scale));
    store(n + i, v);
    store(h + i, _mm512_mul_ps(v, load(w + i)));
  }
  return scale;
}

/// Adds the slope of x to dx and that of w to dw, from dh.
void norm_back(const float* dh, const bf16* n, float scale, const float* w, int width, float* dx,
               float* dw) {
  __m512 sum = _mm512_setzero_ps();
  for (int i = 0; i < width; i += 16) {
    const __m512 slope = load(dh + i), v = load(n + i);
    store(dw + i, _mm512_fmadd_ps(slope, v, load(dw + i)));
    sum = _mm512_fmadd_ps(_mm512_mul_ps(slope, load(w + i)), v, sum);
  }
  const __m512 mean = all(_mm512_reduce_add_ps(sum) / width);
  for (int i = 0; i < width; i += 16) {
    const __m512 direct = _mm512_mul_ps(load(dh + i), load(w + i));
    store(dx + i,
          _mm512_fmadd_ps(_mm512_fnmadd_ps(mean, load(n + i), direct), all(scale), load(dx + i)));
  }
}

/// Rows of a matrix.
template <class T>
struct Rows {
  T* data;
  std::size_t stride;

  T* operator[](std::size_t row) const { return data + row * stride; }
};

template <class T>
Rows<T> rows_in(Buffer<T>& buffer, std::size_t rows, std::size_t columns) {
  return {buffer.room(rows * columns), columns};
}

/// Parameters, or sums of their slopes, as they lie in `model.Model`.
struct Layer {
  float *attn_norm, *ffn_norm, *q, *k, *q_bias, *k_bias, *v, *o, *gate, *up, *down;
};

/// The same outside of the layers: rows of embeddings and of spellings, and the last norm.
struct Outer {
  float *base, *flags, *norm;
};

struct Shape {
  std::int32_t width, layers, heads, kv_heads, hidden;
  float eps;
};

struct Batch {
  using Ints = const std::int32_t*;
  std::int32_t trees, tokens, wanted, classes;
  Ints tree_starts;              // [trees + 1], multiples of 32
  Ints prefixes;                 // [trees], tokens that all of a tree see
  Ints bases, flags, positions;  // [tokens]
  Ints firsts;                   // [tokens], where a branch begins within its tree; 0 in the prefix
  Ints at;                       // [wanted], tokens whose successor is a target, each once
  Ints labels;                   // [wanted], classes
  const float* weights;          // [wanted]
  Ints class_bases, class_flags;  // [classes]
  const float* class_bias;        // [classes]
};

/// What the backward pass needs of a layer, a row for each token.
struct Kept {
  Buffer<bf16> n1, qkv, mixed, n2, gate_up;
  Buffer<float> scale1, scale2, sums;
};

constexpr int kChunk = 64;  // tokens between two passes over a matrix; they stay in the cache

__m512 sigmoid(__m512 x) {
  // Of less than -80, e^-x would be too large for the estimate of an inverse.
  const __m512 e = exp16(_mm512_sub_ps(all(0.0f), _mm512_max_ps(x, all(-80.0f))));
  return inverse(_mm512_add_ps(all(1.0f), e));
}

void add_to(float* sum, __m512 v) {
  store(sum, _mm512_add_ps(load(sum), v));
}

struct Net {
  Shape shape;
  int width, kv, qkv, gate_up;     // columns: stream; keys; queries, keys and values; gate and up
  std::vector<float> frequencies;  // [kHead / 2]
  std::vector<Weights> w_qkv, w_o, w_up, w_down;
  std::vector<Kept> kept;
  // Of the batch, the layer or the chunk at hand.
  Buffer<float> x, dx, wide, dq, dk, dv, dots, logits, dtable, turn;
  Buffer<bf16> normed, act, narrow_dx, d_gate_up, d_qkv, d_mixed, states, table, slope;
  Buffer<char> left, right, table_forward, table_backward;
  Scratch scratch;

  void pack(const Layer* layers) {
    for (int l = 0; l < shape.layers; ++l) {
      const Layer& p = layers[l];
      w_qkv[l].begin(qkv, width);
      w_qkv[l].put(0, width, p.q);
      w_qkv[l].put(width, kv, p.k);
      w_qkv[l].put(width + kv, kv, p.v);
      w_o[l].begin(width, width);
      w_o[l].put(0, width, p.o);
      w_up[l].begin(gate_up, width);
      w_up[l].put(0, shape.hidden, p.gate);
      w_up[l].put(shape.hidden, shape.hidden, p.up);
      w_down[l].begin(width, shape.hidden);
      w_down[l].put(0, width, p.down);
    }
  }

  int gradient(const Batch& b, const Layer* layers, const Outer& outer, const Layer* sums,
               const Outer& outer_sums, double& loss) {
    make_turns(b);
    const auto xs = rows_in(x, b.tokens, width);
    for (int t = 0; t < b.tokens; ++t) embed(outer, b.bases[t], b.flags[t], xs[t]);
    for (int l = 0; l < shape.layers; ++l) {
      project(b, layers[l], l);
      attend_trees(b, l);
      feed(b, layers[l], l);
    }
    const int right_ones = classify(b, outer, outer_sums, loss);
    for (int l = shape.layers - 1; l >= 0; --l) {
      feed_back(b, layers[l], sums[l], l);
      mix_back(b, sums[l], l);
      attend_trees_back(b, l);
      project_back(b, layers[l], sums[l], l);
    }
    const auto dxs = rows_in(dx, b.tokens, width);
    for (int t = 0; t < b.tokens; ++t) embed_back(dxs[t], b.bases[t], b.flags[t], outer_sums);
    return right_ones;
  }

  template <class T>
  void embed(const Outer& outer, int base, int flag, T* to) const {
    const Rows<float> bases{outer.base, stride()}, flags{outer.flags, stride()};
    for (int i = 0; i < width; i += 16) {
      store(to + i, _mm512_add_ps(load(bases[base] + i), load(flags[flag] + i)));
    }
  }

  void embed_back(const float* from, int base, int flag, const Outer& sums) const {
    const Rows<float> bases{sums.base, stride()}, flags{sums.flags, stride()};
    for (int i = 0; i < width; i += 16) {
      add_to(bases[base] + i, load(from + i));
      add_to(flags[flag] + i, load(from + i));
    }
  }

  std::size_t stride() const { return static_cast<std::size_t>(width); }

  /// [tokens][2][kHead]: cosines, and sines with their signs, so that x is turned to
  /// x cos + swapped(x) sin.
  void make_turns(const Batch& b) {
    const auto turns = rows_in(turn, b.tokens, 2 * kHead);
    for (int t = 0; t < b.tokens; ++t) {
      float *cosines = turns[t], *sines = turns[t] + kHead;
      for (int i = 0; i < kHead / 2; ++i) {
        const float angle = static_cast<float>(b.positions[t]) * frequencies[i];
        cosines[2 * i] = cosines[2 * i + 1] = std::cos(angle);
        sines[2 * i + 1] = std::sin(angle);
        sines[2 * i] = -sines[2 * i + 1];
      }
    }
  }

  /// The half of a head's row that begins at column i, turned; back with `direction` -1.
  static __m512 turned(__m512 v, const float* turns, int i, float direction) {
    turns += i % kHead;
    const __m512 sines = _mm512_mul_ps(load(turns + kHead), all(direction));
    return _mm512_fmadd_ps(v, load(turns), _mm512_mul_ps(_mm512_permute_ps(v, 0xb1), sines));
  }

  static float query_scale() { return 1.0f / std::sqrt(static_cast<float>(kHead)); }

  /// Calls f(first, count) for the chunks of a batch.
  template <class F>
  static void by_chunks(const Batch& b, F f) {
    for (int t = 0; t < b.tokens; t += kChunk) f(t, std::min(kChunk, b.tokens - t));
  }

  /// Queries, keys and values of a layer.
  void project(const Batch& b, const Layer& p, int l) {
    Kept& k = kept[l];
    const auto xs = rows_in(x, b.tokens, width);
    const auto n1 = rows_in(k.n1, b.tokens, width), rows = rows_in(k.qkv, b.tokens, qkv);
    const auto h = rows_in(normed, kChunk, width);
    const auto made = rows_in(wide, kChunk, qkv), turns = rows_in(turn, b.tokens, 2 * kHead);
    float* scales = k.scale1.room(b.tokens);
    by_chunks(b, [&](int t0, int count) {
      for (int t = 0; t < count; ++t) {
        scales[t0 + t] = norm(xs[t0 + t], p.attn_norm, width, shape.eps, n1[t0 + t], h[t]);
      }
      products(rows_of(h[0], h.stride), w_qkv[l].forward.get(), count, qkv, width, made[0], qkv);
      for (int t = 0; t < count; ++t) {
        for (int i = 0; i < width; i += 16) {
          const __m512 v = _mm512_mul_ps(_mm512_add_ps(load(made[t] + i), load(p.q_bias + i)),
                                         all(query_scale()));
          store(rows[t0 + t] + i, turned(v, turns[t0 + t], i, 1.0f));
        }
        for (int i = 0; i < kv; i += 16) {
          const __m512 v = _mm512_add_ps(load(made[t] + width + i), load(p.k_bias + i));
          store(rows[t0 + t] + width + i, turned(v, turns[t0 + t], i, 1.0f));
          store(rows[t0 + t] + width + kv + i, load(made[t] + width + kv + i));
        }
      }
    });
  }

  /// Calls f(sight, first token, first query head, head of keys) for each tree and head of keys.
  template <class F>
  void by_heads(const Batch& b, F f) {
    for (int tree = 0; tree < b.trees; ++tree) {
      const int begin = b.tree_starts[tree];
      const Sight sight{b.firsts + begin, b.prefixes[tree], b.tree_starts[tree + 1] - begin};
      for (int head = 0; head < shape.kv_heads; ++head) f(sight, begin, head * group(), head);
    }
  }

  int group() const { return shape.heads / shape.kv_heads; }

  void attend_trees(const Batch& b, int l) {
    Kept& k = kept[l];
    const auto rows = rows_in(k.qkv, b.tokens, qkv), mixed = rows_in(k.mixed, b.tokens, width);
    const auto sums = rows_in(k.sums, shape.heads, b.tokens);
    by_heads(b, [&](const Sight& sight, int begin, int query, int head) {
      const bf16* keys = rows[begin] + width + head * kHead;
      attend(sight, rows[begin] + query * kHead, keys, keys + kv, rows.stride, group(),
             mixed[begin] + query * kHead, mixed.stride, sums[query] + begin, sums.stride, scratch);
    });
  }

  /// What attention has mixed joins the stream, and the feed-forward part of a layer.
  void feed(const Batch& b, const Layer& p, int l) {
    Kept& k = kept[l];
    const auto xs = rows_in(x, b.tokens, width);
    const auto mixed = rows_in(k.mixed, b.tokens, width), n2 = rows_in(k.n2, b.tokens, width);
    const auto rows = rows_in(k.gate_up, b.tokens, gate_up), h = rows_in(normed, kChunk, width);
    const auto acts = rows_in(act, kChunk, shape.hidden);
    const auto made = rows_in(wide, kChunk, gate_up);
    float* scales = k.scale2.room(b.tokens);
    by_chunks(b, [&](int t0, int count) {
      add_products(rows_of(mixed[t0], mixed.stride), w_o[l].forward.get(), count, width, width,
                   xs[t0], width);
      for (int t = 0; t < count; ++t) {
        scales[t0 + t] = norm(xs[t0 + t], p.ffn_norm, width, shape.eps, n2[t0 + t], h[t]);
      }
      products(rows_of(h[0], h.stride), w_up[l].forward.get(), count, gate_up, width, made[0],
               gate_up);
      for (int t = 0; t < count; ++t) {
        for (int i = 0; i < shape.hidden; i += 16) {
          const __m512 gate = load(made[t] + i), up = load(made[t] + shape.hidden + i);
          store(rows[t0 + t] + i, gate);
          store(rows[t0 + t] + shape.hidden + i, up);
          store(acts[t] + i, _mm512_mul_ps(_mm512_mul_ps(gate, sigmoid(gate)), up));
        }
      }
      add_products(rows_of(acts[0], acts.stride), w_down[l].forward.get(), count, width,
                   shape.hidden, xs[t0], width);
    });
  }

  /// Loss, and the slopes of the stream (into dx), of the embedding and of the last norm. Returns
  /// how many targets are the likeliest.
  int classify(const Batch& b, const Outer& outer, const Outer& sums, double& loss) {
    const int wanted = round_up(b.wanted, kBlock), classes = round_up(b.classes, kBlock);
    const auto xs = rows_in(x, b.tokens, width), dxs = rows_in(dx, b.tokens, width);
    const auto h = rows_in(states, wanted, width), n = rows_in(normed, wanted, width);
    const auto rows = rows_in(table, classes, width), slopes = rows_in(slope, wanted, classes);
    std::vector<float> scales(wanted);
    std::memset(static_cast<void*>(h[0]), 0, wanted * stride() * sizeof(bf16));
    for (int i = 0; i < b.wanted; ++i) {
      scales[i] = norm(xs[b.at[i]], outer.norm, width, shape.eps, n[i], h[i]);
    }
    std::memset(static_cast<void*>(rows[0]), 0, classes * stride() * sizeof(bf16));
    for (int i = 0; i < b.classes; ++i) embed(outer, b.class_bases[i], b.class_flags[i], rows[i]);
    char* forward = table_forward.room(classes * stride() * sizeof(bf16));
    for (int c = 0; c < classes / 16; ++c) {
      for (int i = 0; i < width / 32; ++i) {
        turn_rows(rows[16 * c] + 32 * i, width, forward + (c * (width / 32) + i) * kTile);
      }
    }
    const int right_ones = softmax(b, h, forward, slopes, loss);

    char* backward = table_backward.room(classes * stride() * sizeof(bf16));
    tile_right(rows[0], width, classes, width, backward);
    const auto dh = rows_in(wide, kBlock, width);
    std::memset(dxs[0], 0, b.tokens * stride() * sizeof(float));
    for (int t0 = 0; t0 < wanted; t0 += kBlock) {
      products(rows_of(slopes[t0], classes), backward, kBlock, width, classes, dh[0], width);
      for (int t = t0; t < std::min(t0 + kBlock, b.wanted); ++t) {
        norm_back(dh[t - t0], n[t], scales[t], outer.norm, width, dxs[b.at[t]], sums.norm);
      }
    }
    const auto d_rows = rows_in(dtable, classes, width);
    std::memset(d_rows[0], 0, classes * stride() * sizeof(float));
    add_matrix(slopes, 0, classes, as_right(h, width, wanted), width, wanted, d_rows[0]);
    for (int i = 0; i < b.classes; ++i)
      embed_back(d_rows[i], b.class_bases[i], b.class_flags[i], sums);
    return right_ones;
  }

  /// Slopes of the logits of states h over classes tiled in `forward`.
  int softmax(const Batch& b, Rows<bf16> h, const char* forward, Rows<bf16> slopes, double& loss) {
    const int classes = static_cast<int>(slopes.stride);
    const auto logit = rows_in(logits, kBlock, classes);
    int right_ones = 0;
    for (int t = 0; t < round_up(b.wanted, kBlock); ++t) {
      if (t % kBlock == 0) {
        products(rows_of(h[t], width), forward, kBlock, classes, width, logit[0], classes);
      }
      if (t >= b.wanted) {
        std::memset(static_cast<void*>(slopes[t]), 0, slopes.stride * sizeof(bf16));
        continue;
      }
      float* row = logit[t % kBlock];
      for (int i = 0; i < b.classes; ++i) row[i] += b.class_bias[i];
      std::fill(row + b.classes, row + classes, -1e30f);
      const float right_logit = row[b.labels[t]], most = *std::max_element(row, row + classes);
      right_ones += right_logit == most;
      __m512 parts = _mm512_setzero_ps();
      for (int i = 0; i < classes; i += 16) {
        const __m512 e = exp16(_mm512_sub_ps(load(row + i), all(most)));
        store(row + i, e);
        parts = _mm512_add_ps(parts, e);
      }
      const float total = _mm512_reduce_add_ps(parts), weight = b.weights[t];
      loss += weight * (std::log(total) + most - right_logit);
      row[b.labels[t]] -= total;
      for (int i = 0; i < classes; i += 16) {
        store(slopes[t] + i, _mm512_mul_ps(load(row + i), all(weight / total)));
      }
    }
    return right_ones;
  }

  /// Adds sums over tokens of dy, from a column on, and y to a matrix [rows][columns] of slopes.
  void add_matrix(Rows<bf16> dy, int column, int rows, const char* tiled_y, int columns, int tokens,
                  float* to) {
    char* tiled = left.room(static_cast<std::size_t>(tokens) * rows * sizeof(bf16));
    tile_left(dy[0] + column, dy.stride, tokens, rows, tiled);
    add_products(tiles_of(tiled, tokens), tiled_y, rows, columns, tokens, to, columns);
  }

  const char* as_right(Rows<bf16> y, int columns, int tokens) {
    char* tiled = right.room(static_cast<std::size_t>(tokens) * columns * sizeof(bf16));
    tile_right(y[0], y.stride, tokens, columns, tiled);
    return tiled;
  }

  /// dx as it is now, for products: of rows t0 to t0 + count - 1.
  void narrow(Rows<float> dxs, Rows<bf16> to, int t0, int count) const {
    for (int t = t0; t < t0 + count; ++t) {
      for (int i = 0; i < width; i += 16) store(to[t] + i, load(dxs[t] + i));
    }
  }

  /// Through a norm: dx from the slope of what it gave, which is made again as h.
  void through_norm(const float* dh, const bf16* n, float scale, const float* w, float* dx_row,
                    float* dw, bf16* h) const {
    norm_back(dh, n, scale, w, width, dx_row, dw);
    for (int i = 0; i < width; i += 16) store(h + i, _mm512_mul_ps(load(n + i), load(w + i)));
  }

  void feed_back(const Batch& b, const Layer& p, const Layer& sums, int l) {
    Kept& k = kept[l];
    const auto dxs = rows_in(dx, b.tokens, width);
    const auto dys = rows_in(narrow_dx, b.tokens, width), h = rows_in(normed, b.tokens, width);
    const auto rows = rows_in(k.gate_up, b.tokens, gate_up), n2 = rows_in(k.n2, b.tokens, width);
    const auto acts = rows_in(act, b.tokens, shape.hidden);
    const auto slopes = rows_in(d_gate_up, b.tokens, gate_up);
    const auto made = rows_in(wide, kChunk, std::max(shape.hidden, width));
    by_chunks(b, [&](int t0, int count) {
      narrow(dxs, dys, t0, count);
      products(rows_of(dys[t0], dys.stride), w_down[l].backward.get(), count, shape.hidden, width,
               made[0], made.stride);
      for (int t = 0; t < count; ++t) {
        for (int i = 0; i < shape.hidden; i += 16) {
          const __m512 gate = load(rows[t0 + t] + i), up = load(rows[t0 + t] + shape.hidden + i);
          const __m512 d = load(made[t] + i), part = sigmoid(gate),
                       silu = _mm512_mul_ps(gate, part);
          store(acts[t0 + t] + i, _mm512_mul_ps(silu, up));
          store(slopes[t0 + t] + shape.hidden + i, _mm512_mul_ps(d, silu));
          // The slope of silu is part (1 + gate (1 - part)) = part + silu (1 - part).
          const __m512 bend = _mm512_fmadd_ps(silu, _mm512_sub_ps(all(1.0f), part), part);
          store(slopes[t0 + t] + i, _mm512_mul_ps(_mm512_mul_ps(d, up), bend));
        }
      }
      products(rows_of(slopes[t0], slopes.stride), w_up[l].backward.get(), count, width, gate_up,
               made[0], made.stride);
      for (int t = 0; t < count; ++t) {
        through_norm(made[t], n2[t0 + t], k.scale2.get()[t0 + t], p.ffn_norm, dxs[t0 + t],
                     sums.ffn_norm, h[t0 + t]);
      }
    });
    add_matrix(dys, 0, width, as_right(acts, shape.hidden, b.tokens), shape.hidden, b.tokens,
               sums.down);
    const char* tiled = as_right(h, width, b.tokens);
    add_matrix(slopes, 0, shape.hidden, tiled, width, b.tokens, sums.gate);
    add_matrix(slopes, shape.hidden, shape.hidden, tiled, width, b.tokens, sums.up);
  }

  /// Slopes of what attention has mixed, and their products with it for each head.
  void mix_back(const Batch& b, const Layer& sums, int l) {
    const auto dxs = rows_in(dx, b.tokens, width), made = rows_in(wide, kChunk, width);
    const auto dys = rows_in(narrow_dx, b.tokens, width),
               slopes = rows_in(d_mixed, b.tokens, width);
    const auto mixed = rows_in(kept[l].mixed, b.tokens, width);
    const auto dot = rows_in(dots, shape.heads, b.tokens);
    by_chunks(b, [&](int t0, int count) {
      narrow(dxs, dys, t0, count);
      products(rows_of(dys[t0], dys.stride), w_o[l].backward.get(), count, width, width, made[0],
               made.stride);
      for (int t = 0; t < count; ++t) {
        for (int head = 0; head < shape.heads; ++head) {
          __m512 parts = _mm512_setzero_ps();
          for (int i = head * kHead; i < (head + 1) * kHead; i += 16) {
            const __m512 d = load(made[t] + i);
            store(slopes[t0 + t] + i, d);
            parts = _mm512_fmadd_ps(d, load(mixed[t0 + t] + i), parts);
          }
          dot[head][t0 + t] = _mm512_reduce_add_ps(parts);
        }
      }
    });
    add_matrix(dys, 0, width, as_right(mixed, width, b.tokens), width, b.tokens, sums.o);
  }

  void attend_trees_back(const Batch& b, int l) {
    Kept& k = kept[l];
    const auto rows = rows_in(k.qkv, b.tokens, qkv), slopes = rows_in(d_mixed, b.tokens, width);
    const auto sums = rows_in(k.sums, shape.heads, b.tokens);
    const auto dot = rows_in(dots, shape.heads, b.tokens);
    const auto dqs = rows_in(dq, b.tokens, width);
    const std::size_t head_size = static_cast<std::size_t>(b.tokens) * kHead;
    const auto dks = rows_in(dk, shape.kv_heads, head_size),
               dvs = rows_in(dv, shape.kv_heads, head_size);
    std::memset(dks[0], 0, shape.kv_heads * head_size * sizeof(float));
    std::memset(dvs[0], 0, shape.kv_heads * head_size * sizeof(float));
    by_heads(b, [&](const Sight& sight, int begin, int query, int head) {
      const bf16* keys = rows[begin] + width + head * kHead;
      attend_back(sight, rows[begin] + query * kHead, keys, keys + kv, rows.stride, group(),
                  slopes[begin] + query * kHead, slopes.stride, sums[query] + begin,
                  dot[query] + begin, sums.stride, dqs[begin] + query * kHead, dqs.stride,
                  dks[head] + begin * kHead, dvs[head] + begin * kHead, scratch);
    });
  }

  void project_back(const Batch& b, const Layer& p, const Layer& sums, int l) {
    Kept& k = kept[l];
    const auto dxs = rows_in(dx, b.tokens, width), dqs = rows_in(dq, b.tokens, width);
    const std::size_t head_size = static_cast<std::size_t>(b.tokens) * kHead;
    const auto dks = rows_in(dk, shape.kv_heads, head_size),
               dvs = rows_in(dv, shape.kv_heads, head_size);
    const auto slopes = rows_in(d_qkv, b.tokens, qkv), h = rows_in(normed, b.tokens, width);
    const auto n1 = rows_in(k.n1, b.tokens, width);
    const auto made = rows_in(wide, kChunk, width), turns = rows_in(turn, b.tokens, 2 * kHead);
    by_chunks(b, [&](int t0, int count) {
      for (int t = t0; t < t0 + count; ++t) {
        for (int i = 0; i < width; i += 16) {
          const __m512 d =
              _mm512_mul_ps(turned(load(dqs[t] + i), turns[t], i, -1.0f), all(query_scale()));
          store(slopes[t] + i, d);
          add_to(sums.q_bias + i, d);
        }
        for (int i = 0; i < kv; i += 16) {
          const int at = t * kHead + i % kHead;
          const __m512 d = turned(load(dks[i / kHead] + at), turns[t], i, -1.0f);
          store(slopes[t] + width + i, d);
          add_to(sums.k_bias + i, d);
          store(slopes[t] + width + kv + i, load(dvs[i / kHead] + at));
        }
      }
      products(rows_of(slopes[t0], slopes.stride), w_qkv[l].backward.get(), count, width, qkv,
               made[0], made.stride);
      for (int t = 0; t < count; ++t) {
        through_norm(made[t], n1[t0 + t], k.scale1.get()[t0 + t], p.attn_norm, dxs[t0 + t],
                     sums.attn_norm, h[t0 + t]);
      }
    });
    const char* tiled = as_right(h, width, b.tokens);
    add_matrix(slopes, 0, width, tiled, width, b.tokens, sums.q);
    add_matrix(slopes, width, kv, tiled, width, b.tokens, sums.k);
    add_matrix(slopes, width + kv, kv, tiled, width, b.tokens, sums.v);
  }
};

}  // namespace

// Without memory these end the program.
extern "C" {

/// A network for one thread that lives as long as the process, or null where the shape or the
/// processor does not suit.
/// `frequencies` [16].
Net* native_net(const Shape* shape, const float* frequencies) noexcept {
  const bool suits = shape->width == shape->heads * kHead && shape->hidden % kBlock == 0 &&
                     shape->heads % shape->kv_heads == 0;
  if (!suits || !tiles_begin()) return nullptr;
  auto net = std::make_unique<Net>();
  net->shape = *shape;
  net->width = shape->width;
  net->kv = shape->kv_heads * kHead;
  net->qkv = net->width + 2 * net->kv;
  net->gate_up = 2 * shape->hidden;
  net->frequencies.assign(frequencies, frequencies + kHead / 2);
  for (auto* weights : {&net->w_qkv, &net->w_o, &net->w_up, &net->w_down}) {
    weights->resize(shape->layers);
  }
  net->kept.resize(shape->layers);
  return net.release();
}

/// Takes the weights of the layers as they are now.
void native_pack(Net* net, const Layer* layers) noexcept {
  net->pack(layers);
}

/// Adds the slopes of the summed loss to `sums` and `outer_sums`; `loss` takes the loss. Returns
/// how many targets are the likeliest, or -1 where a tree has more than kMaxTree tokens.
int native_gradient(Net* net, const Batch* batch, const Layer* layers, const Outer* outer,
                    const Layer* sums, const Outer* outer_sums, double* loss) noexcept {
  for (int i = 0; i < batch->trees; ++i) {
    if (batch->tree_starts[i + 1] - batch->tree_starts[i] > kMaxTree) return -1;
  }
  tiles_configure();
  const unsigned mode = _mm_getcsr();
  _mm_setcsr(mode | 0x8040);  // what is too small for a normalised float is slow, and is 0 here
  *loss = 0;
  const int right = net->gradient(*batch, layers, *outer, sums, *outer_sums, *loss);
  _mm_setcsr(mode);
  return right;
}

}  // extern "C"

}  // namespace kernel
