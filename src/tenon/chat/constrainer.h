#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/chat/ask.h"
#include "tenon/chat/constraint.h"
#include "tenon/chat/model.h"
#include "tenon/engine/engine.h"
#include "tenon/format/calls_as_json.h"

namespace tenon::chat {

/// How a model's engine constrains answers. There is one kind for engines that take grammars (as
/// masks or printed), one for those that take JSON Schemas alone, and one for those that take
/// neither. Thread-safe.
class Constrainer {
 public:
  virtual ~Constrainer() = default;

  /// What constrains the answer; empty: nothing does, and calls are validated when they come.
  /// Refuses what the engine cannot do. `prompt_tail` as in Constraints::of().
  [[nodiscard]] virtual Result<Constraint, Refusal> of(const Ask& ask,
                                                       std::string_view prompt_tail) const = 0;

  /// Whether markers are text for the engine and must be for the parser: a printed grammar allows a
  /// marker in any spelling.
  [[nodiscard]] virtual bool has_text_markers() const { return false; }
  /// Whether the answer is a document from its first token on, which no reasoning comes before.
  [[nodiscard]] virtual bool is_document(const Ask& /*ask*/) const { return false; }
  /// Where only JSON can be constrained: how a demanded call, which must then be the whole answer,
  /// is written around its JSON. That text goes into the prompt. Nothing: calls are not constrained
  /// that way.
  [[nodiscard]] virtual std::optional<format::CallsAsJson> demanded_call(const Ask& /*ask*/) const {
    return std::nullopt;
  }
  [[nodiscard]] virtual GrammarCounts counts() const { return {}; }
};

/// What a Constrainer is made from.
struct ConstrainerParts {
  std::string model;  ///< Its name, for refusals.
  const engine::Capabilities& engine;
  const vocab::Tokenizer& tokenizer;
  std::shared_ptr<const format::Format> format;  ///< Null: there are no calls.
};

/// The one for the engine. The engine and its tokenizer must outlive it. `options` are for engines
/// that take grammars.
[[nodiscard]] std::unique_ptr<const Constrainer> make_constrainer(ConstrainerParts parts,
                                                                  Constraints::Options options);

}  // namespace tenon::chat
