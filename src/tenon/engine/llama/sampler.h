#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tenon/message/message.h"
#include "tenon/vocab/tokenizer.h"

/// From logits to a token. This is our own code so that a seed means the same with every engine
/// version, and so that the work is proportional to the legal tokens if a mask leaves few.
namespace tenon::engine {

using vocab::TokenId;

/// Buffers for sampling, shared by all runs of one engine thread. They grow to the vocabulary's
/// size once; after that no token allocates.
struct SamplerScratch {
  struct Candidate {
    TokenId id;
    float logit;
    float weight;  // exp((logit - largest logit) / temperature)
  };
  std::vector<Candidate> candidates;
  std::vector<double> blocks;       // sums of weights
  std::vector<float> raw;           // the row as the model gave it, for log probabilities
  std::vector<TokenId> legal;       // if a mask leaves few tokens: these,
  std::vector<float> legal_logits;  // and their logits
};

/// Log probabilities of one position, under the model's own distribution: before temperature,
/// bias and penalties.
struct RawLogprobs {
  double chosen = 0.0;
  std::vector<std::pair<TokenId, double>> top;  ///< Likeliest first.
};

/// The sampling state of one run.
///
///     Sampler sampler(request.sampling, vocab_size, seed);
///     sampler.see_prompt(prompt);
///     while (auto id = sampler.sample(logits, scratch)) ...
///
/// The steps, in order: logit_bias; repetition penalty (tokens of prompt and answer), presence and
/// frequency penalty (tokens of the answer), as in vLLM; the mask; temperature; top_k; top_p;
/// min_p. Ties go to the lower id. The result depends on the logits, the parameters, the seed and
/// the tokens so far. It does not depend on other runs nor, on x86-64 and ARM, on the machine,
/// because the exponential is our own arithmetic. Reference for the order:
/// vllm/v1/sample/sampler.py; for top_p after top_k: HF logits processors.
class Sampler {
 public:
  /// `sampling` must have passed check_request().
  Sampler(const message::Sampling& sampling, std::size_t vocab_size, std::uint64_t seed);

  void see_prompt(std::span<const TokenId> prompt);
  /// Notes a token of the answer that sample() did not choose.
  void see_answer(TokenId id);

  /// Call it after sample(), with the same arguments: `instead` comes in place of `chosen`.
  void take_instead(TokenId chosen, TokenId instead, const SamplerScratch& scratch,
                    RawLogprobs* logprobs);

  /// Chooses a token and notes it. `logits` ([vocab_size]) is overwritten. `mask` has a bit for
  /// each token (grammar::mask_words), set if it may be chosen; empty: all may. `logprobs`, if not
  /// null, is filled with the `top_count` likeliest tokens, including illegal ones. nullopt: no
  /// logit is finite.
  [[nodiscard]] std::optional<TokenId> sample(std::span<float> logits, SamplerScratch& scratch,
                                              std::span<const std::uint32_t> mask = {},
                                              RawLogprobs* logprobs = nullptr,
                                              std::size_t top_count = 0);

 private:
  void adjust(std::span<float> logits) const;
  std::optional<TokenId> choose(std::span<const float> logits, SamplerScratch& scratch);
  TokenId draw_from_all(std::span<const float> logits, float largest, SamplerScratch& scratch);
  double find_candidates(std::span<const float> logits, float largest,
                         std::vector<SamplerScratch::Candidate>& candidates) const;
  TokenId draw_from_best(std::span<const float> logits, float largest, SamplerScratch& scratch);
  double uniform();  // in [0, 1)

  // Bits of seen_counts_: how often the answer has the token, and whether the prompt has it.
  static constexpr std::uint32_t kInPrompt = std::uint32_t{1} << 31;

  float temperature_;
  double top_p_;
  std::size_t top_k_;  // 0: all
  double min_p_;
  float presence_;
  float frequency_;
  float repetition_;
  std::vector<std::pair<TokenId, float>> bias_;
  std::vector<std::uint32_t> seen_counts_;  // [vocab_size], or empty without penalties
  std::vector<TokenId> seen_;               // the tokens with a count
  std::uint64_t state_;
};

}  // namespace tenon::engine
