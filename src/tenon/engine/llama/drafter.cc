#include "tenon/engine/llama/drafter.h"

#include <algorithm>
#include <bit>

namespace tenon::engine {
namespace {

constexpr double kOldHope = 0.9;    // weight of the guesses before the last
constexpr double kFirstHope = 0.5;  // hope returns to it slowly, so that guesses are tried again
constexpr double kForgets = 0.02;
constexpr double kOldBatch = 0.98;

}  // namespace

void Drafter::guess(std::span<const TokenId> tokens, std::size_t most,
                    std::vector<TokenId>& draft) {
  draft.clear();
  if (tokens.size() < 2) return;
  // Without the last token: the pair at the end must find its earlier place, and not itself.
  note(tokens.first(tokens.size() - 1));
  const std::size_t end = ends_[place_of(tokens[tokens.size() - 2], tokens.back())];
  // The place in the table may belong to another pair, so the tokens are compared.
  if (end != 0 && tokens[end - 1] == tokens.back() &&
      tokens[end - 2] == tokens[tokens.size() - 2]) {
    const std::size_t count = std::min({length_, most, tokens.size() - end});
    draft.assign(tokens.begin() + static_cast<std::ptrdiff_t>(end),
                 tokens.begin() + static_cast<std::ptrdiff_t>(end + count));
  }
}

void Drafter::learn(std::size_t drafted, std::size_t accepted) {
  const double share = static_cast<double>(accepted) / static_cast<double>(drafted);
  hope_ = kOldHope * hope_ + (1.0 - kOldHope) * share;
  length_ = std::min(accepted == drafted ? 2 * drafted : accepted + 1, kMost);
}

void Drafter::forget() {
  hope_ += kForgets * (kFirstHope - hope_);
}

void Drafter::note(std::span<const TokenId> tokens) {
  if (2 * tokens.size() > ends_.size()) grow(tokens);
  for (; noted_ < tokens.size(); ++noted_) {
    if (noted_ == 0) continue;
    ends_[place_of(tokens[noted_ - 1], tokens[noted_])] = static_cast<std::uint32_t>(noted_ + 1);
  }
}

// A hash table of a power of two with one pair in each place, at least twice as many places as
// tokens. It is filled anew from the first token on, which costs a constant for each token in the
// long run.
void Drafter::grow(std::span<const TokenId> tokens) {
  ends_.assign(std::bit_ceil(2 * tokens.size() + 64), 0);
  noted_ = 0;
}

// If two pairs fall into one place, the later one stays.
std::size_t Drafter::place_of(TokenId first, TokenId second) const {
  const std::uint64_t pair = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(first)) << 32) |
                             static_cast<std::uint32_t>(second);
  return static_cast<std::size_t>((pair * 0x9E3779B97F4A7C15U) >> 32) & (ends_.size() - 1);
}

// Sums for a least-squares line through (tokens, seconds), in which older batches weigh less.
void BatchCost::learn(std::size_t tokens, double seconds) {
  const auto n = static_cast<double>(tokens);
  for (double* sum : {&weight_, &tokens_, &seconds_, &squares_, &products_}) *sum *= kOldBatch;
  weight_ += 1.0;
  tokens_ += n;
  seconds_ += seconds;
  squares_ += n * n;
  products_ += n * seconds;
}

bool BatchCost::is_worth(double hope, std::size_t runs) const {
  const double spread = weight_ * squares_ - tokens_ * tokens_;
  if (weight_ < 4.0 || spread < 0.01 * weight_ * weight_) return true;  // sizes are all alike
  const double per_token = std::max((weight_ * products_ - tokens_ * seconds_) / spread, 0.0);
  const double fixed = std::max((seconds_ - per_token * tokens_) / weight_, 0.0);
  const auto n = static_cast<double>(std::max<std::size_t>(runs, 1));
  // A token of a run costs (fixed + per_token * n) / n seconds in a batch for n runs; a guess that
  // comes true saves that, and each guess costs per_token.
  return hope * (fixed + per_token * n) / n > per_token;
}

}  // namespace tenon::engine
