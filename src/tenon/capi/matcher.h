#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tenon.h>

#include "tenon/capi/vocab.h"
#include "tenon/grammar/machine/mask_pool.h"
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

/// Masks of batches. What it needs for one is kept for the next.
struct tenon_mask_pool {
  explicit tenon_mask_pool(std::size_t threads);
  /// Fills `rows`, whose masks are rows of `masks`: that of matchers[i] is row row_of[i], or row i
  /// if `row_of` is null. Fails with `invalid` if a matcher or a row is missing or occurs twice.
  [[nodiscard]] tenon::Status take(std::span<tenon_matcher* const> matchers,
                                   std::span<std::uint32_t> masks, std::size_t mask_rows,
                                   const std::size_t* row_of);

  tenon::grammar::MaskPool pool;
  std::mutex mutex;  // guards what follows: batches take turns
  std::vector<tenon::grammar::MaskRow> rows;
  std::vector<bool> is_taken;        // each row of the masks
  std::vector<tenon_matcher*> seen;  // the matchers, sorted
};
