#pragma once

#include <functional>
#include <iosfwd>
#include <memory>

#include "tenon/base/expected.h"
#include "tenon/grammar/json/json_frames.h"
#include "tenon/grammar/machine/vocab_index.h"
#include "tenon/grammar/rules/rules.h"
#include "tenon/json/value.h"
#include "tenon/vocab/tokenizer.h"

/// The command `tenon mask --batch`: JSON lines in, JSON lines out.
namespace tenon::batch {

/// Each line is an object with
///
///     schema, or grammar and syntax   as requested_rules() has them;
///     tools, format       or these, beside them tool_choice?, parallel_tool_calls?: calls
///     whitespace?, property_order?, lenient?   of a schema or tools; whitespace is "any"
///     tests               [{"text"}]
///     walks?              [{"seed", "most"}]: texts of tokens that masks allow, chosen at random,
///     of
///                         at most so many tokens
///     special?            true: names of control tokens in the texts are these tokens, as they
///                         always are with `tools`; else they are text
///
/// and is answered with `{"compile_us", "first_mask_us", "tests": [{"accepted", "at"}], "mask_us":
/// [...]}`, with `walks` also "walks": [{"text", "ended"}], with `lenient` also "relaxed", as
/// json::answer_lines does. A text is accepted if each
/// of its tokens, and the end token after them, is in the mask made before it; `at` is the byte of
/// the first token that is not. Times are CPU time of this thread; `mask_us` has one entry for each
/// mask of the whole vocabulary.
class MaskBatch {
 public:
  MaskBatch(std::shared_ptr<const vocab::Tokenizer> tokenizer,
            std::shared_ptr<grammar::VocabIndex> index)
      : tokenizer_(std::move(tokenizer)), index_(std::move(index)) {}

  /// Returns the command's exit status: 0, however many lines failed, because each line reports its
  /// own error.
  int run(std::istream& in, std::ostream& out);
  /// Answers one line.
  [[nodiscard]] Expected<json::Object> answer(const json::Object& request);

 private:
  [[nodiscard]] Expected<grammar::Rules> rules_of(const json::Object& request) const;

  std::shared_ptr<const vocab::Tokenizer> tokenizer_;
  std::shared_ptr<grammar::VocabIndex> index_;
};

}  // namespace tenon::batch
