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
  grammar->start_ = grammar->machine_->answer(grammar->machine_->start(root), "");
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
    : grammar_(std::move(grammar)), points_{{grammar_->start_, 0}} {}

// Under the grammar's lock. `beside`: where the token as a whole has led.
bool Matcher::advance(std::string_view bytes, StateId beside) {
  Machine& machine = *grammar_->machine_;
  StateId state = points_.back().state;
  const std::size_t before = text_.size();
  text_ += bytes;
  const std::string_view text = text_;
  for (std::size_t i = 0; i < bytes.size() && state != 0; ++i) {
    state = machine.step(state, static_cast<std::uint8_t>(bytes[i]));
    if (machine.has_questions(state)) state = machine.answer(state, text.substr(0, before + i + 1));
  }
  if (beside != 0) state = machine.united(state, machine.answer(beside, text));
  if (state == 0) {
    text_.resize(before);
    return false;
  }
  points_.push_back({state, text_.size()});
  return true;
}

bool Matcher::accept(TokenId token) {
  const vocab::Vocab& vocab = grammar_->index_->vocab();
  if (finished_ || token < 0 || static_cast<std::size_t>(token) >= vocab.size()) return false;
  const std::lock_guard lock(grammar_->mutex_);
  Machine& machine = *grammar_->machine_;
  const StateId state = points_.back().state;
  const StateId beside = machine.step_token(state, token);
  if (vocab.kind(token) == Token::Kind::text) {
    if (advance(vocab.bytes(token), beside)) return true;
  } else if (beside != 0) {
    points_.push_back({machine.answer(beside, text_), text_.size()});
    return true;
  }
  const bool is_end = std::ranges::find(vocab.ends(), token) != vocab.ends().end();
  if (!is_end || !machine.is_accepting(state)) return false;
  points_.push_back(points_.back());
  finished_ = true;
  return true;
}

bool Matcher::accept_bytes(std::string_view bytes) {
  if (finished_) return false;
  const std::lock_guard lock(grammar_->mutex_);
  return advance(bytes, 0);
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
  points_.resize(points_.size() - std::min(count, accepted_count()));
  text_.resize(points_.back().text_size);
  finished_ = false;  // an end token is accepted last
}

Status Matcher::fill_mask(std::span<std::uint32_t> mask) {
  assert(mask.size() == mask_words(grammar_->index_->vocab().size()));
  if (finished_) {
    std::ranges::fill(mask, 0U);
    return {};
  }
  const std::lock_guard lock(grammar_->mutex_);
  grammar_->masks_.fill(points_.back().state, text_, mask);
  if (grammar_->machine_->error()) return Unexpected(*grammar_->machine_->error());
  return {};
}

bool Matcher::is_accepting() const {
  const std::lock_guard lock(grammar_->mutex_);
  return !finished_ && grammar_->machine_->is_accepting(points_.back().state);
}

std::string Matcher::forced_bytes(std::size_t max_bytes) {
  const std::lock_guard lock(grammar_->mutex_);
  std::string forced;
  if (finished_) return forced;
  Machine& machine = *grammar_->machine_;
  StateId state = points_.back().state;
  std::string text = text_;
  while (forced.size() < max_bytes && !machine.is_accepting(state) &&
         !machine.waits_for_token(state)) {
    StateId only = 0;
    char byte_of_only = 0;
    for (unsigned byte = 0; byte < 256; ++byte) {
      StateId next = machine.step(state, static_cast<std::uint8_t>(byte));
      if (machine.has_questions(next)) {
        next = machine.answer(next, text + static_cast<char>(byte));
      }
      if (next == 0) continue;
      if (only != 0) return forced;
      only = next;
      byte_of_only = static_cast<char>(byte);
    }
    if (only == 0) break;
    forced += byte_of_only;
    text += byte_of_only;
    state = only;
  }
  return forced;
}

}  // namespace tenon::grammar
