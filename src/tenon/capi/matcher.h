#pragma once

#include <memory>
#include <string>
#include <utility>

#include <tenon.h>

#include "tenon/capi/vocab.h"
#include "tenon/grammar/machine/matcher.h"

struct tenon_grammar {
  std::shared_ptr<const tenon::capi::Vocabulary> vocabulary;  // must outlive the grammar
  std::shared_ptr<tenon::grammar::Grammar> grammar;
};

/// A matcher of a tenon_grammar, or of a grammar for the caller's engine. Members that must outlive
/// the grammar are declared first.
struct tenon_matcher {
  tenon_matcher(const std::shared_ptr<tenon::grammar::Grammar>& grammar,
                std::shared_ptr<const tenon::capi::Vocabulary> of)
      : tenon_matcher(grammar, of->shared_tokenizer()) {
    vocabulary = std::move(of);
  }
  tenon_matcher(const std::shared_ptr<tenon::grammar::Grammar>& grammar,
                std::shared_ptr<const tenon::vocab::Tokenizer> of)
      : tokenizer(std::move(of)), vocab_size(grammar->index().vocab().size()), matcher(grammar) {}

  std::shared_ptr<const tenon::capi::Vocabulary> vocabulary;  // null: not from a tenon_grammar
  std::shared_ptr<const tenon::vocab::Tokenizer> tokenizer;
  std::size_t vocab_size;
  tenon::grammar::Matcher matcher;
  std::string forced;
  std::string error;  // why the last call could not tell; "": it could
};
