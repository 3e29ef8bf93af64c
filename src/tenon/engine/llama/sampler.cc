#include "tenon/engine/llama/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

// How a token is chosen
//
// sample() changes the row of logits in the order that the header states, then choose() takes one
// of three ways, all without sorting the vocabulary:
//  - Temperature 0 or top_k 1: the largest logit.
//  - No top_k, top_p or min_p: draw_from_all() sums the weights, exp((logit - largest) /
//    temperature), in blocks of 64, finds the block that the random number falls into, then the
//    token in it.
//  - Else draw_from_best() collects the few tokens that the limits can leave (find_candidates),
//    takes them from a heap in falling order until the limits cut, and draws from those.
// The logits are read four at a time, by vector instructions that every x86-64 and ARM processor
// has. exp() is a polynomial of ours with the same rounding for one number and for four, so a seed
// gives the same token on every machine. If a mask leaves fewer than one token in kFewLegal, the
// legal tokens are copied into a short row of their own (take_legal), and the work is proportional
// to them.
namespace tenon::engine {
namespace {

using Candidate = SamplerScratch::Candidate;

// Four floats side by side: SSE2 and NEON have this, so every build can use it.
constexpr std::size_t kLanes = 4;
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
using Bits = std::uint32_t __attribute__((vector_size(kLanes * sizeof(std::uint32_t))));

// A weight below exp(-40) counts as zero: 2^18 such tokens together stay below 2^-39.
constexpr float kLeastExponent = -40.0F;
constexpr std::size_t kBlock = 64;  // tokens whose weights are summed as one; a multiple of kLanes

Floats load(const float* from) {
  Floats lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

Floats all(float value) {
  return Floats{value, value, value, value};
}

/// exp(x) for x in [kLeastExponent, 0], 0 for anything less and for NaN; relative error < 2e-7.
/// 2^n times a polynomial on [-ln2/2, ln2/2], with the coefficients of the Cephes library's expf.
/// The same arithmetic serves single values and lanes, so both give the same bits.
Floats exp_lanes(Floats x) {
  const Floats least = all(kLeastExponent);
  const Floats clamped = x >= least ? x : least;  // a NaN compares false
  const Floats shifter = all(12582912.0F);        // 1.5 * 2^23: adding it rounds to a whole number
  const Floats shifted = clamped * 1.44269504088896341F + shifter;
  const Floats n = shifted - shifter;
  const Floats r = (clamped - n * 0.693359375F) - n * -2.12194440e-4F;
  Floats p = all(1.9875691500E-4F);
  p = p * r + 1.3981999507E-3F;
  p = p * r + 8.3334519073E-3F;
  p = p * r + 4.1665795894E-2F;
  p = p * r + 1.6666665459E-1F;
  p = p * r + 5.0000001201E-1F;
  p = p * r * r + r + 1.0F;
  Bits bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits << 23) + 0x3F800000U;  // keeps n, the low bits of `shifted`; shifts the rest out
  Floats scale;
  std::memcpy(&scale, &bits, sizeof scale);
  const Floats zero = all(0.0F);
  return x >= least ? p * scale : zero;
}

float exp_one(float x) {
  return exp_lanes(all(x))[0];
}

constexpr std::size_t kStride = 4 * kLanes;

Floats larger(Floats best, Floats x) {
  return x > best ? x : best;  // a NaN in `x` does not count
}

/// The largest number in `row`; NaNs do not count. -inf for an empty row.
float largest_of(std::span<const float> row) {
  // Several in parallel: with one, each comparison would wait for the one before it.
  Floats best[4];
  for (Floats& one : best) one = all(-std::numeric_limits<float>::infinity());
  std::size_t i = 0;
  for (; i + kStride <= row.size(); i += kStride) {
    for (std::size_t part = 0; part < 4; ++part) {
      best[part] = larger(best[part], load(&row[i + part * kLanes]));
    }
  }
  const Floats most = larger(larger(best[0], best[1]), larger(best[2], best[3]));
  float largest = -std::numeric_limits<float>::infinity();
  for (std::size_t lane = 0; lane < kLanes; ++lane) largest = std::max(largest, most[lane]);
  for (; i < row.size(); ++i) largest = row[i] > largest ? row[i] : largest;
  return largest;
}

/// Sum of exp((row[i] - largest) * inverse_temperature).
double sum_weights(std::span<const float> row, float largest, float inverse_temperature) {
  Floats sum = all(0.0F);
  std::size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    sum += exp_lanes((load(&row[i]) - largest) * inverse_temperature);
  }
  double total = 0.0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) total += static_cast<double>(sum[lane]);
  for (; i < row.size(); ++i) {
    total += static_cast<double>(exp_one((row[i] - largest) * inverse_temperature));
  }
  return total;
}

/// The order of candidates: likelier first, then the lower id.
struct Likelier {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  }
};

/// True if one of kStride numbers is at least `least`.
bool reaches(const float* numbers, float least) {
  Floats best = load(numbers);
  for (std::size_t i = kLanes; i < kStride; i += kLanes) {
    const Floats x = load(numbers + i);
    best = x > best || best != best ? x : best;  // a NaN in `best` is replaced
  }
  bool any = false;
  for (std::size_t lane = 0; lane < kLanes; ++lane) any = any || best[lane] >= least;
  return any;
}

/// The first index at which `row` has `largest`.
TokenId index_of(std::span<const float> row, float largest) {
  std::size_t i = 0;
  while (i + kStride <= row.size() && !reaches(&row[i], largest)) i += kStride;
  while (row[i] != largest) ++i;
  return static_cast<TokenId>(i);
}

/// Calls `take(i)` for each i with row[i] >= least(), in order. Most tokens are far below, so
/// kStride of them are tested at once (128 k logits, top_k 157 us -> 74 us, min_p 286 us -> 54 us;
/// engine_bench, AMD EPYC, SSE2, 2026-11).
template <class Least, class Take>
void for_each_above(std::span<const float> row, const Least& least, const Take& take) {
  std::size_t i = 0;
  while (i < row.size()) {
    if (i + kStride <= row.size() && !reaches(&row[i], least())) {
      i += kStride;
      continue;
    }
    const std::size_t end = std::min(i + kStride, row.size());
    for (; i < end; ++i) {
      if (row[i] >= least()) take(i);  // a NaN compares false
    }
  }
}

/// The `count` best tokens of `row`, unordered, in `best`: a heap whose front is the worst of them.
void keep_best(std::span<const float> row, std::size_t count, std::vector<Candidate>& best) {
  best.clear();
  const Likelier likelier;
  const auto least = [&] {
    return best.size() < count ? -std::numeric_limits<float>::infinity() : best.front().logit;
  };
  for_each_above(row, least, [&](std::size_t i) {
    const Candidate candidate{static_cast<TokenId>(i), row[i], 0.0F};
    if (best.size() == count) {
      if (candidate.logit == best.front().logit)
        return;  // in a tie the lower id, taken first, stays
      std::pop_heap(best.begin(), best.end(), likelier);
      best.pop_back();
    }
    best.push_back(candidate);
    std::push_heap(best.begin(), best.end(), likelier);
  });
}

/// The tokens of `row` whose logit is at least `least`, in `kept`.
void keep_above(std::span<const float> row, float least, std::vector<Candidate>& kept) {
  kept.clear();
  for_each_above(
      row, [least] { return least; },
      [&](std::size_t i) { kept.push_back({static_cast<TokenId>(i), row[i], 0.0F}); });
}

/// If fewer than one token in so many is legal, a list of the legal ones is faster.
constexpr std::size_t kFewLegal = 8;

bool has_few(std::span<const std::uint32_t> mask, std::size_t tokens) {
  const std::size_t most = tokens / kFewLegal;
  std::size_t count = 0;
  for (std::size_t i = 0; i < mask.size() && count <= most; ++i) {
    if (mask[i] != 0) count += static_cast<std::size_t>(std::popcount(mask[i]));
  }
  return count <= most;
}

/// Puts the legal tokens into scratch.legal and returns their logits.
std::span<float> take_legal(std::span<const float> logits, std::span<const std::uint32_t> mask,
                            SamplerScratch& scratch) {
  scratch.legal.clear();
  scratch.legal_logits.clear();
  for (std::size_t i = 0; i < mask.size(); ++i) {
    for (std::uint32_t word = mask[i]; word != 0; word &= word - 1) {
      const std::size_t id = i * 32 + static_cast<std::size_t>(std::countr_zero(word));
      scratch.legal.push_back(static_cast<TokenId>(id));
      scratch.legal_logits.push_back(logits[id]);
    }
  }
  return scratch.legal_logits;
}

void forbid_illegal(std::span<const std::uint32_t> mask, std::span<float> logits) {
  for (std::size_t i = 0; i < mask.size(); ++i) {
    // The last word may have more bits than there are tokens.
    const std::size_t behind = logits.size() - std::min(logits.size(), i * 32);
    const std::uint32_t tokens = behind >= 32 ? ~0U : (1U << behind) - 1;
    for (std::uint32_t word = ~mask[i] & tokens; word != 0; word &= word - 1) {
      logits[i * 32 + static_cast<std::size_t>(std::countr_zero(word))] =
          -std::numeric_limits<float>::infinity();
    }
  }
}

void fill_raw(std::span<const float> row, float largest, std::size_t top_count,
              SamplerScratch& scratch, RawLogprobs& logprobs) {
  scratch.raw.assign(row.begin(), row.end());
  const double log_total = std::log(sum_weights(row, largest, 1.0F)) + static_cast<double>(largest);
  logprobs.chosen = -log_total;  // the chosen token's logit is added when it is known
  logprobs.top.clear();
  if (top_count == 0) return;
  keep_best(row, top_count, scratch.candidates);
  std::sort(scratch.candidates.begin(), scratch.candidates.end(), Likelier());
  for (const Candidate& best : scratch.candidates) {
    logprobs.top.emplace_back(best.id, static_cast<double>(best.logit) - log_total);
  }
}

}  // namespace

Sampler::Sampler(const message::Sampling& sampling, std::size_t vocab_size, std::uint64_t seed)
    : temperature_(static_cast<float>(sampling.temperature.value_or(1.0))),
      top_p_(sampling.top_p.value_or(1.0)),
      top_k_(static_cast<std::size_t>(sampling.top_k.value_or(0))),
      min_p_(sampling.min_p.value_or(0.0)),
      presence_(static_cast<float>(sampling.presence_penalty.value_or(0.0))),
      frequency_(static_cast<float>(sampling.frequency_penalty.value_or(0.0))),
      repetition_(static_cast<float>(sampling.repetition_penalty.value_or(1.0))),
      state_(seed) {
  if (top_k_ >= vocab_size) top_k_ = 0;
  for (const auto& [id, bias] : sampling.logit_bias) {
    bias_.emplace_back(id, static_cast<float>(bias));
  }
  if (presence_ != 0.0F || frequency_ != 0.0F || repetition_ != 1.0F) {
    seen_counts_.resize(vocab_size);
    seen_.reserve(vocab_size);
  }
}

void Sampler::see_prompt(std::span<const TokenId> prompt) {
  if (seen_counts_.empty() || repetition_ == 1.0F) return;
  for (const TokenId id : prompt) {
    std::uint32_t& count = seen_counts_[static_cast<std::size_t>(id)];
    if (count == 0) seen_.push_back(id);
    count |= kInPrompt;
  }
}

void Sampler::see_answer(TokenId id) {
  if (seen_counts_.empty()) return;
  std::uint32_t& count = seen_counts_[static_cast<std::size_t>(id)];
  if (count == 0) seen_.push_back(id);
  ++count;
}

void Sampler::take_instead(TokenId chosen, TokenId instead, const SamplerScratch& scratch,
                           RawLogprobs* logprobs) {
  if (logprobs != nullptr) {
    logprobs->chosen += static_cast<double>(scratch.raw[static_cast<std::size_t>(instead)]) -
                        static_cast<double>(scratch.raw[static_cast<std::size_t>(chosen)]);
  }
  if (!seen_counts_.empty() && --seen_counts_[static_cast<std::size_t>(chosen)] == 0) {
    seen_.pop_back();  // sample() noted this token last
  }
  see_answer(instead);
}

void Sampler::adjust(std::span<float> logits) const {
  for (const auto& [id, bias] : bias_) logits[static_cast<std::size_t>(id)] += bias;
  for (const TokenId id : seen_) {
    float& logit = logits[static_cast<std::size_t>(id)];
    const std::uint32_t in_answer = seen_counts_[static_cast<std::size_t>(id)] & ~kInPrompt;
    logit = logit > 0.0F ? logit / repetition_ : logit * repetition_;
    if (in_answer > 0) logit -= presence_ + frequency_ * static_cast<float>(in_answer);
  }
}

// Raw log probabilities come first, from the logits as the model gave them; then bias and
// penalties, then the mask. So a client sees what the model thinks of tokens that the grammar
// forbids.
std::optional<TokenId> Sampler::sample(std::span<float> logits, SamplerScratch& scratch,
                                       std::span<const std::uint32_t> mask, RawLogprobs* logprobs,
                                       std::size_t top_count) {
  if (logprobs != nullptr) {
    const float largest = largest_of(logits);
    if (!std::isfinite(largest)) return std::nullopt;
    fill_raw(logits, largest, top_count, scratch, *logprobs);
  }
  if (!bias_.empty() || !seen_.empty()) adjust(logits);
  const bool is_few = !mask.empty() && has_few(mask, logits.size());
  std::span<float> row = logits;
  if (is_few) {
    row = take_legal(logits, mask, scratch);
  } else if (!mask.empty()) {
    forbid_illegal(mask, row);
  }
  std::optional<TokenId> id = choose(row, scratch);
  if (!id) return std::nullopt;
  if (is_few) id = scratch.legal[static_cast<std::size_t>(*id)];
  if (logprobs != nullptr) {
    logprobs->chosen += static_cast<double>(scratch.raw[static_cast<std::size_t>(*id)]);
  }
  see_answer(*id);
  return id;
}

/// Returns an index into `logits`; nullopt if no logit is finite.
std::optional<TokenId> Sampler::choose(std::span<const float> logits, SamplerScratch& scratch) {
  const float largest = largest_of(logits);
  if (!std::isfinite(largest)) return std::nullopt;
  if (temperature_ == 0.0F || top_k_ == 1) {
    return index_of(logits, largest);
  }
  if (top_k_ == 0 && top_p_ >= 1.0 && min_p_ <= 0.0) return draw_from_all(logits, largest, scratch);
  return draw_from_best(logits, largest, scratch);
}

/// Draws without sorting: sums per block, then the block that the draw falls into, then the token.
TokenId Sampler::draw_from_all(std::span<const float> logits, float largest,
                               SamplerScratch& scratch) {
  const float inverse = 1.0F / temperature_;
  scratch.blocks.clear();
  double total = 0.0;
  for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const auto block = logits.subspan(begin, std::min(kBlock, logits.size() - begin));
    scratch.blocks.push_back(sum_weights(block, largest, inverse));
    total += scratch.blocks.back();
  }
  double rest = uniform() * total;
  std::size_t block = 0;
  while (block + 1 < scratch.blocks.size() && rest >= scratch.blocks[block]) {
    rest -= scratch.blocks[block++];
  }
  // Rounding may carry `rest` past the last token of positive weight; then that token is taken.
  TokenId last = 0;
  const std::size_t end = std::min((block + 1) * kBlock, logits.size());
  for (std::size_t i = block * kBlock; i < end; ++i) {
    const auto weight = static_cast<double>(exp_one((logits[i] - largest) * inverse));
    if (weight <= 0.0) continue;
    last = static_cast<TokenId>(i);
    if (rest < weight) return last;
    rest -= weight;
  }
  if (exp_one((logits[static_cast<std::size_t>(last)] - largest) * inverse) > 0.0F) return last;
  return index_of(logits, largest);
}

/// Puts the tokens that top_k, top_p and min_p may leave, with their weights, into `candidates`,
/// and a few more because of rounding. Returns the total weight, of which top_p is a share.
double Sampler::find_candidates(std::span<const float> logits, float largest,
                                std::vector<Candidate>& candidates) const {
  const float inverse = 1.0F / temperature_;
  double total = 0.0;
  if (top_k_ > 0) {
    keep_best(logits, top_k_, candidates);
  } else {
    // Without top_p the total is not needed.
    total = top_p_ < 1.0 ? sum_weights(logits, largest, inverse)
                         : std::numeric_limits<double>::infinity();
    // All tokens with a weight below (1 - top_p) * total / n weigh less than (1 - top_p) * total
    // together, so the others hold the whole nucleus.
    const double least_weight = std::max(
        min_p_, top_p_ < 1.0 ? (1.0 - top_p_) * total / static_cast<double>(logits.size()) : 0.0);
    const double least_exponent =
        least_weight > 0.0 ? std::log(least_weight) : static_cast<double>(kLeastExponent);
    const double least = static_cast<double>(largest) +
                         static_cast<double>(temperature_) * (least_exponent * 1.0001 - 0.001);
    keep_above(logits, static_cast<float>(least), candidates);
  }
  for (Candidate& candidate : candidates) {
    candidate.weight = exp_one((candidate.logit - largest) * inverse);
    if (top_k_ > 0) total += static_cast<double>(candidate.weight);
  }
  return total;
}

TokenId Sampler::draw_from_best(std::span<const float> logits, float largest,
                                SamplerScratch& scratch) {
  std::vector<Candidate>& candidates = scratch.candidates;
  const double total = find_candidates(logits, largest, candidates);

  // A heap gives the best tokens in order, and is read only as far as needed.
  const auto worse = [likelier = Likelier()](const Candidate& a, const Candidate& b) {
    return likelier(b, a);
  };
  std::make_heap(candidates.begin(), candidates.end(), worse);
  double kept = 0.0;
  std::size_t count = 0;
  auto heap_end = candidates.end();
  while (heap_end != candidates.begin()) {
    const auto weight = static_cast<double>(candidates.front().weight);
    const bool is_in = count == 0 || (kept < top_p_ * total && weight >= min_p_ && weight > 0.0);
    if (!is_in) break;
    kept += weight;
    ++count;
    std::pop_heap(candidates.begin(), heap_end--, worse);
  }

  double rest = uniform() * kept;
  auto chosen = candidates.end();  // the best one stands last
  for (std::size_t i = 0; i < count; ++i) {
    --chosen;
    if (rest < static_cast<double>(chosen->weight)) break;
    rest -= static_cast<double>(chosen->weight);
  }
  return chosen->id;
}

/// SplitMix64 (Steele, Lea, Flood 2014): one word of state, passes BigCrush; its top 53 bits.
double Sampler::uniform() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1.0p-53;
}

}  // namespace tenon::engine
