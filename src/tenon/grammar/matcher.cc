#include "tenon/grammar/matcher.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace tenon::grammar {

using vocab::Token;
using vocab::TokenId;

Expected<std::shared_ptr<Grammar>> Grammar::make(std::unique_ptr<Machine> machine, FrameId root,
                                                 std::shared_ptr<VocabIndex> index) {
  std::shared_ptr<Grammar> grammar(new Grammar(std::move(machine), std::move(index)));
  grammar->start_ = grammar->machine_->start(root);
  if (grammar->machine_->error()) return Unexpected(*grammar->machine_->error());
  if (grammar->start_ == 0) {
    return Unexpected(Error{Errc::unsatisfiable, "nothing at all fits the grammar"});
  }
  return grammar;
}

std::size_t Grammar::memory_bytes() const {
  const std::lock_guard lock(mutex_);
  return machine_->memory_bytes() + masks_.memory_bytes();
}

Matcher::Matcher(std::shared_ptr<Grammar> grammar)
    : grammar_(std::move(grammar)), states_{grammar_->start_} {}

StateId Matcher::step(StateId state, std::string_view bytes) {
  for (const char c : bytes) {
    state = grammar_->machine_->step(state, static_cast<std::uint8_t>(c));
    if (state == 0) break;
  }
  return state;
}

bool Matcher::accept(TokenId token) {
  const vocab::Vocab& vocab = grammar_->index_->vocab();
  if (finished_ || token < 0 || static_cast<std::size_t>(token) >= vocab.size()) return false;
  const std::lock_guard lock(grammar_->mutex_);
  if (std::ranges::find(vocab.ends(), token) != vocab.ends().end()) {
    if (!grammar_->machine_->is_accepting(states_.back())) return false;
    states_.push_back(states_.back());
    finished_ = true;
    return true;
  }
  if (vocab.kind(token) != Token::Kind::text) return false;
  const StateId next = step(states_.back(), vocab.bytes(token));
  if (next == 0) return false;
  states_.push_back(next);
  return true;
}

bool Matcher::accept_bytes(std::string_view bytes) {
  if (finished_) return false;
  const std::lock_guard lock(grammar_->mutex_);
  const StateId next = step(states_.back(), bytes);
  if (next == 0) return false;
  states_.push_back(next);
  return true;
}

std::size_t Matcher::validate_draft(std::span<const TokenId> tokens) {
  const std::size_t before = accepted_count();
  std::size_t valid = 0;
  while (valid < tokens.size() && accept(tokens[valid])) ++valid;
  rollback(accepted_count() - before);
  return valid;
}

void Matcher::rollback(std::size_t count) {
  assert(count <= accepted_count());
  if (count == 0) return;
  states_.resize(states_.size() - std::min(count, accepted_count()));
  finished_ = false;  // an end token is accepted last
}

Status Matcher::fill_mask(std::span<std::uint32_t> mask) {
  assert(mask.size() == mask_words(grammar_->index_->vocab().size()));
  if (finished_) {
    std::ranges::fill(mask, 0U);
    return {};
  }
  const std::lock_guard lock(grammar_->mutex_);
  grammar_->masks_.fill(states_.back(), mask);
  if (grammar_->machine_->error()) return Unexpected(*grammar_->machine_->error());
  return {};
}

bool Matcher::is_accepting() const {
  const std::lock_guard lock(grammar_->mutex_);
  return !finished_ && grammar_->machine_->is_accepting(states_.back());
}

std::string Matcher::forced_bytes(std::size_t max_bytes) {
  const std::lock_guard lock(grammar_->mutex_);
  std::string forced;
  if (finished_) return forced;
  StateId state = states_.back();
  while (forced.size() < max_bytes && !grammar_->machine_->is_accepting(state)) {
    StateId only = 0;
    unsigned byte_of_only = 0;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const StateId next = grammar_->machine_->step(state, static_cast<std::uint8_t>(byte));
      if (next == 0) continue;
      if (only != 0) return forced;
      only = next;
      byte_of_only = byte;
    }
    if (only == 0) break;
    forced += static_cast<char>(byte_of_only);
    state = only;
  }
  return forced;
}

}  // namespace tenon::grammar
