#pragma once

#include <iosfwd>
#include <memory>

#include "tenon/base/expected.h"
#include "tenon/grammar/vocab_index.h"
#include "tenon/json/value.h"
#include "tenon/vocab/tokenizer.h"

/// The command `tenon mask --batch` without the command line: JSON lines in, JSON lines out.
namespace tenon::grammar {

/// For each line an object with
///
///     schema              beside it draft?, documents?, assert_format? as `tenon validate` has
///     whitespace?         "any" (default), "spaced", "compact"
///     property_order?     "any" (default), "schema"
///     tests               [{"text"}]
///
/// answers `{"compile_us", "first_mask_us", "tests": [{"accepted", "at"}], "mask_us": [...]}`, in
/// the manner of json::answer_lines. A text is accepted if each of its tokens, and the end token
/// after them, is in the mask made before it; `at` is the byte at which the first one is not. Times
/// are CPU time of this thread; `mask_us` has one entry for each mask of the whole vocabulary.
class MaskBatch {
 public:
  MaskBatch(std::shared_ptr<const vocab::Tokenizer> tokenizer, std::shared_ptr<VocabIndex> index)
      : tokenizer_(std::move(tokenizer)), index_(std::move(index)) {}

  /// Returns the command's exit status: 0, however many lines failed; each says so itself.
  int run(std::istream& in, std::ostream& out);
  /// One line of it.
  [[nodiscard]] Expected<json::Object> answer(const json::Object& request);

 private:
  std::shared_ptr<const vocab::Tokenizer> tokenizer_;
  std::shared_ptr<VocabIndex> index_;
};

}  // namespace tenon::grammar
