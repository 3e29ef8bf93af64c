#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/chat/ask.h"
#include "tenon/chat/model.h"
#include "tenon/engine/engine.h"
#include "tenon/format/format.h"
#include "tenon/grammar/machine/vocab_index.h"
#include "tenon/message/message.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::chat {

/// Fails if a tool's parameters can be in no request: they are not a schema, or no object fits
/// them. A keyword that no grammar can enforce is not an error.
[[nodiscard]] Status check_parameters(const message::Tool& tool);

/// Makes the grammars of answers from requests, for one model. The same tools have the same
/// grammar, which is compiled once and kept while there is room. Thread-safe.
///
///     Constraints constraints(format, engine.tokenizer(), {});
///     const auto constraint = constraints.of(request, prompt_tail);
///     if (constraint) generate.grammar = constraint->grammar;
///
/// An answer is text and calls as format::tool_grammar() describes them: calls of the tools that
/// tool_choice allows, with arguments that their schemas allow, and at most one call if the request
/// wants no parallel ones. `strict: false` lifts a tool's schema. With a response format the text
/// is that JSON; a continuation is nothing else. A keyword that no grammar can enforce is left out,
/// which is logged. For an upstream the grammar is printed with markers as text; if that allows
/// more than the schemas, all tools are reported as not fully constrained.
class Constraints {
 public:
  struct Options {
    engine::ConstrainedBy constrained_by = engine::ConstrainedBy::masks;  ///< Must not be `none`.
    message::ArgumentOrder argument_order = message::ArgumentOrder::schema;
    message::Bounds bounds = message::Bounds::usual;
    std::size_t cache_bytes = kGrammarCacheBytes;
    /// The format with calls in other forms (format::with_fallbacks, held), for answers that may
    /// have such calls (Ask::masked_other_forms) and are constrained by masks; null: the model has
    /// no such format.
    std::shared_ptr<const format::Format> with_others;
    bool required_in_others = false;  ///< ModelOptions::required_in_other_forms
    bool reasoning = true;            ///< As in format::ToolGrammarOptions.
    /// Tokens that end a turn, besides the tokenizer's own. No answer ends inside a call.
    std::vector<vocab::TokenId> ends;
    /// An index that is shared; its vocabulary then knows the ends. Null: one is made.
    std::shared_ptr<grammar::VocabIndex> index;
  };

  /// `tokenizer` must outlive it and every grammar. `format` may be null: then there are no calls.
  Constraints(std::shared_ptr<const format::Format> format, const vocab::Tokenizer& tokenizer,
              Options options);

  /// `prompt_tail` as in format::ParseOptions. Without tools and response format there is no
  /// grammar. Refuses an invalid schema and one that no value fits (param `tools` or
  /// `response_format`).
  [[nodiscard]] Result<Constraint, Refusal> of(const Ask& ask, std::string_view prompt_tail) const;
  [[nodiscard]] Result<Constraint, Refusal> of(const message::ChatRequest& request,
                                               std::string_view prompt_tail) const {
    return of(Ask(request), prompt_tail);
  }

  /// Whether an answer to such a prompt can have a section of reasoning.
  [[nodiscard]] bool may_reason(std::string_view prompt_tail) const;
  [[nodiscard]] GrammarCounts counts() const;

 private:
  struct Shared;
  struct Printing;
  [[nodiscard]] const Expected<std::shared_ptr<Shared>>& shared() const;

  const std::shared_ptr<const format::Format> format_;
  const vocab::Tokenizer& tokenizer_;
  const Options options_;
  mutable std::mutex mutex_;                                         // guards shared_
  mutable std::optional<Expected<std::shared_ptr<Shared>>> shared_;  // no value: not needed yet
  const std::shared_ptr<Printing> printing_;                         // for upstreams; else null
};

}  // namespace tenon::chat
