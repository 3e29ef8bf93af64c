#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/chat/responder.h"
#include "tenon/engine/engine.h"
#include "tenon/format/format.h"
#include "tenon/grammar/vocab_index.h"
#include "tenon/message/message.h"
#include "tenon/vocab/tokenizer.h"

namespace tenon::chat {

/// What is wrong with the parameters of a tool, so that no request may have it: they are no schema,
/// or no object fits them. What no grammar can enforce is no fault.
[[nodiscard]] Status check_parameters(const message::Tool& tool);

/// From requests to the grammars of their answers, for one model. The same tools have the same
/// grammar, which is compiled once and kept while there is room. Thread-safe.
///
///     Constraints constraints(format, engine.tokenizer(), {});
///     const auto constraint = constraints.of(request, prompt_tail);
///     if (constraint) generate.grammar = constraint->grammar;
///
/// An answer is text and calls as format::tool_grammar() has them: calls of the tools that
/// tool_choice allows, with arguments that their schemas take, and one at most where the request
/// wants no parallel ones. `strict: false` lifts a tool's schema. With a response format the text
/// is that JSON; a continuation is nothing else. A keyword that no grammar can enforce is left out,
/// which is logged. For an engine elsewhere the grammar is printed with markers as text; where
/// it takes more than a schema then, no tool is told to be held in full.
class Constraints {
 public:
  struct Options {
    engine::Holding holding = engine::Holding::masks;  ///< Not none.
    message::ArgumentOrder argument_order = message::ArgumentOrder::schema;
    std::size_t cache_bytes = kGrammarCacheBytes;
    /// The format with calls in other forms (format::with_fallbacks, held), for answers that may
    /// have some (takes_other_forms) and are held by masks; null: the model has no such format.
    std::shared_ptr<const format::Format> with_others;
    bool required_in_others = false;  ///< ModelOptions::required_in_other_forms
    bool reasoning = true;            ///< As in format::ToolGrammarOptions.
    /// Tokens that end a turn, beside the tokenizer's own. No answer ends inside a call.
    std::vector<vocab::TokenId> ends;
    /// Shared with others, and then the ends are its vocabulary's; null: one is made.
    std::shared_ptr<grammar::VocabIndex> index;
  };

  /// `tokenizer` outlives it and every grammar. `format` may be null: then there are no calls.
  Constraints(std::shared_ptr<const format::Format> format, const vocab::Tokenizer& tokenizer,
              Options options);

  /// `prompt_tail` is that of format::ParseOptions. Without tools and response format there is no
  /// grammar. Refuses what no answer can be: a schema that is none, or that no value fits (param
  /// `tools` or `response_format`).
  [[nodiscard]] Result<Constraint, Refusal> of(const message::ChatRequest& request,
                                               std::string_view prompt_tail) const;

  [[nodiscard]] GrammarCounts counts() const;

 private:
  struct Shared;
  struct Printing;
  [[nodiscard]] const Expected<std::shared_ptr<Shared>>& shared() const;

  const std::shared_ptr<const format::Format> format_;
  const vocab::Tokenizer& tokenizer_;
  const Options options_;
  mutable std::mutex mutex_;                                         // guards what follows
  mutable std::optional<Expected<std::shared_ptr<Shared>>> shared_;  // null: nobody has asked
  const std::shared_ptr<Printing> printing_;                         // of engines elsewhere
};

}  // namespace tenon::chat
