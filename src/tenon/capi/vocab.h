#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon.h>

#include "tenon/base/expected.h"
#include "tenon/chat/constraint.h"
#include "tenon/format/format.h"
#include "tenon/grammar/machine/grammar_cache.h"
#include "tenon/vocab/tokenizer.h"
#include "tenon/vocab/vocab.h"

namespace tenon::capi {

/// What the handles of a vocabulary, its grammars and its parsers share. Thread-safe.
class Vocabulary {
 public:
  /// `more_ends`: besides the tokenizer's own. Fails as Vocab::of does.
  [[nodiscard]] static Expected<std::shared_ptr<const Vocabulary>> make(
      std::shared_ptr<const vocab::Tokenizer> tokenizer, std::vector<vocab::TokenId> more_ends);

  /// The tokenizer; one that was made from tokens alone refuses to encode.
  [[nodiscard]] const vocab::Tokenizer& tokenizer() const { return *tokenizer_; }
  [[nodiscard]] const std::shared_ptr<const vocab::Tokenizer>& shared_tokenizer() const {
    return tokenizer_;
  }
  [[nodiscard]] const vocab::Vocab& tokens() const { return *tokens_; }
  [[nodiscard]] bool has(vocab::TokenId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < tokens_->size();
  }

  /// Fails with `invalid` if no token ends a text: then there can be no grammars.
  [[nodiscard]] Status check_ends() const;
  /// The grammar for a `request` of tenon_grammar_compile().
  [[nodiscard]] Expected<std::shared_ptr<grammar::Grammar>> grammar_of(
      std::string_view request) const;
  /// The grammars for calls in `format`. They live as long as this object.
  [[nodiscard]] std::shared_ptr<const chat::Constraints> constraints_of(
      const std::shared_ptr<const format::Format>& format) const;

 private:
  Vocabulary(std::shared_ptr<const vocab::Tokenizer> tokenizer,
             std::shared_ptr<const vocab::Vocab> tokens)
      : tokenizer_(std::move(tokenizer)), tokens_(std::move(tokens)) {}

  [[nodiscard]] const std::shared_ptr<grammar::VocabIndex>& index() const;

  const std::shared_ptr<const vocab::Tokenizer> tokenizer_;
  const std::shared_ptr<const vocab::Vocab> tokens_;
  // Made with the first grammar: the index of 128,000 tokens takes 40 ms and 13 MB.
  mutable std::once_flag index_made_;
  mutable std::shared_ptr<grammar::VocabIndex> index_;
  mutable std::unique_ptr<grammar::GrammarCache> cache_;  // made with the index
  mutable std::mutex mutex_;                              // guards constraints_
  mutable std::list<
      std::pair<std::shared_ptr<const format::Format>, std::shared_ptr<const chat::Constraints>>>
      constraints_;  // the one that was asked for last comes first
};

}  // namespace tenon::capi

struct tenon_vocab {
  std::shared_ptr<const tenon::capi::Vocabulary> vocabulary;
};
