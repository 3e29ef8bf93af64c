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
      mask_words_(grammar::mask_words(tokenizer.size())),
      masks_(mask_words_) {}

void Constraint::accept(TokenId token) {
  go_past(token);
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
      go_past(token);
      tokens.push_back(token);
    }
  }
}

bool Constraint::is_complete() {
  return !is_free_ && matcher_.is_complete();
}

void Constraint::expect(std::vector<TokenId>& draft) {
  draft.resize(is_free_ ? 0 : matcher_.validate_draft(draft));
  draft_ = draft;
  masks_made_ = place_ = 0;
}

// The masks that are made already are those behind what has been accepted.
void Constraint::go_past(TokenId token) {
  if (place_ < draft_.size() && token == draft_[place_]) {
    ++place_;
    return;
  }
  draft_.clear();
  masks_made_ = place_ = 0;
}

void Constraint::prepare_mask() {
  if (has_mask()) return;
  const auto begin = std::chrono::steady_clock::now();
  draft_.erase(draft_.begin(), draft_.begin() + static_cast<std::ptrdiff_t>(place_));
  masks_made_ = place_ = 0;
  std::size_t accepted = 0;
  try {
    masks_.resize((draft_.size() + 1) * mask_words_);
    while (true) {
      const std::span<std::uint32_t> mask(&masks_[masks_made_ * mask_words_], mask_words_);
      const Status filled = matcher_.fill_mask(mask);
      if (!filled && masks_made_ == 0) give_up(filled.error());
      if (!filled) break;  // behind a guess: where it comes true, the error comes again
      ++masks_made_;
      if (accepted == draft_.size() || !matcher_.accept(draft_[accepted])) break;
      ++accepted;
    }
  } catch (const std::exception& error) {  // no memory, on a thread where nobody else would see it
    give_up({Errc::limit_exceeded, error.what()});
  }
  matcher_.rollback(accepted);
  mask_time_ += std::chrono::steady_clock::now() - begin;
}

std::span<const std::uint32_t> Constraint::mask() const {
  if (is_free_) return {};
  return std::span(masks_).subspan(place_ * mask_words_, mask_words_);
}

void Constraint::give_up(const Error& error) {
  is_free_ = true;
  log::warn("an answer is not held to its grammar any more: " + error.message);
}

}  // namespace tenon::engine
