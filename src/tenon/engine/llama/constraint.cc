#include "tenon/engine/llama/constraint.h"

#include <exception>
#include <string>
#include <utility>

#include "tenon/base/log.h"
#include "tenon/grammar/token_set.h"

namespace tenon::engine {
namespace {

// Of one stretch. A longer one comes in several.
constexpr std::size_t kForcedBytes = 1024;

}  // namespace

Constraint::Constraint(std::shared_ptr<grammar::Grammar> grammar, const vocab::Tokenizer& tokenizer)
    : matcher_(std::move(grammar)),
      tokenizer_(tokenizer),
      mask_(grammar::mask_words(tokenizer.size())) {}

void Constraint::accept(TokenId token) {
  has_mask_ = false;
  if (is_free_ || matcher_.accept(token)) return;
  give_up(matcher_.error().value_or(
      Error{Errc::unsupported, "token " + std::to_string(token) + " cannot come here"}));
}

void Constraint::take_forced(std::vector<TokenId>& tokens, std::size_t most) {
  tokens.clear();
  while (!is_free_ && tokens.size() < most) {
    const auto forced = matcher_.forced_tokens(tokenizer_, kForcedBytes);
    if (!forced) return give_up(forced.error());
    if (forced->empty()) return;
    for (const TokenId token : *forced) {
      // A token that does not spell what was forced is left to the mask.
      if (tokens.size() == most || !matcher_.accept(token)) return;
      has_mask_ = false;
      tokens.push_back(token);
    }
  }
}

bool Constraint::is_complete() {
  return !is_free_ && matcher_.is_complete();
}

void Constraint::prepare_mask() {
  if (has_mask_ || is_free_) return;
  const auto begin = std::chrono::steady_clock::now();
  try {
    if (const Status filled = matcher_.fill_mask(mask_); !filled) return give_up(filled.error());
    has_mask_ = true;
  } catch (const std::exception& error) {  // no memory, on a thread where nobody else would see it
    give_up({Errc::limit_exceeded, error.what()});
  }
  mask_time_ += std::chrono::steady_clock::now() - begin;
}

std::span<const std::uint32_t> Constraint::mask() const {
  if (is_free_) return {};
  return mask_;
}

void Constraint::give_up(const Error& error) {
  is_free_ = true;
  log::warn("an answer is not held to its grammar any more: " + error.message);
}

}  // namespace tenon::engine
