#include "tenon/chat/constrainer.h"

#include <utility>

#include "tenon/json/value.h"

namespace tenon::chat {
namespace {

using engine::ConstrainedBy;
using message::ArgumentOrder;

/// Says of a field of the request that another kind of engine is needed for it.
Failure<Refusal> needs_other_engine(const ConstrainerParts& parts, const std::string& param,
                                    const std::string& taking = "grammars") {
  return refuse_field(Errc::unsupported, param,
                      " needs an engine that can be held to " + taking + "; that of '" +
                          parts.model + "' is '" + parts.engine.kind + "'",
                      "unsupported_parameter");
}

/// By masks, or by grammars that are printed for an upstream.
class ByGrammars final : public Constrainer {
 public:
  ByGrammars(ConstrainerParts parts, Constraints::Options options)
      : parts_(std::move(parts)),
        is_masked_(options.constrained_by == ConstrainedBy::masks),
        constraints_(parts_.format, parts_.tokenizer, std::move(options)) {}

  Result<Constraint, Refusal> of(const Ask& ask, std::string_view prompt_tail) const override {
    // Printed grammars cannot express these.
    if (!is_masked_ && ask.request.close_calls == true) {
      return needs_other_engine(parts_, "tenon.close_calls", "masks");
    }
    if (!is_masked_ && ask.request.argument_order == ArgumentOrder::any) {
      return needs_other_engine(parts_, "tenon.argument_order", "masks");
    }
    return constraints_.of(ask, prompt_tail);
  }
  bool has_text_markers() const override { return !is_masked_; }
  GrammarCounts counts() const override { return constraints_.counts(); }

 private:
  const ConstrainerParts parts_;
  const bool is_masked_;
  const Constraints constraints_;
};

/// Not at all: only what needs no constraint is not refused.
class ByNothing : public Constrainer {
 public:
  explicit ByNothing(ConstrainerParts parts) : parts_(std::move(parts)) {}

  Result<Constraint, Refusal> of(const Ask& ask, std::string_view /*prompt_tail*/) const override {
    if (!ask.is_any_text() && !is_document(ask)) {
      return needs_other_engine(parts_, "response_format");
    }
    if (ask.request.argument_order == ArgumentOrder::schema) {
      return needs_other_engine(parts_, "tenon.argument_order");
    }
    if (ask.request.close_calls == true) return needs_other_engine(parts_, "tenon.close_calls");
    if (auto checked = check_schemas(ask); !checked) {
      return Failure<Refusal>(std::move(checked.error()));
    }
    return Constraint();
  }

 protected:
  [[nodiscard]] const ConstrainerParts& parts() const { return parts_; }

 private:
  const ConstrainerParts parts_;
};

/// By JSON Schemas alone, which hold for the whole answer.
class BySchemas final : public ByNothing {
 public:
  using ByNothing::ByNothing;

  Result<Constraint, Refusal> of(const Ask& ask, std::string_view prompt_tail) const override {
    Result<Constraint, Refusal> nothing = ByNothing::of(ask, prompt_tail);
    // The checks of ByNothing hold here as well; then a document gets its schema.
    return nothing && is_document(ask) ? schema_of(ask) : std::move(nothing);
  }
  bool is_document(const Ask& ask) const override { return ask.is_json(); }
  std::optional<format::CallsAsJson> demanded_call(const Ask& ask) const override {
    const bool is_due = parts().engine.takes == engine::Takes::text && ask.demands_call &&
                        ask.request.prefill.empty();
    if (!is_due) return std::nullopt;
    return format::calls_as_json(*parts().format, ask.tools, ask.request.parallel_tool_calls);
  }

 private:
  [[nodiscard]] Result<Constraint, Refusal> schema_of(const Ask& ask) const {
    const std::string param = "response_format";
    if (ask.offers_tools) {
      return refuse_field(Errc::unsupported, param,
                          " beside tools needs an engine that can be held to grammars; that of '" +
                              parts().model + "' is '" + parts().engine.kind +
                              "': leave out one of them, or send tool_choice 'none'",
                          "unsupported_parameter");
    }
    if (!ask.request.prefill.empty()) {
      return refuse_field(Errc::unsupported, param,
                          " cannot hold the rest of an answer that has begun already",
                          "unsupported_parameter");
    }
    if (auto checked = check_response_schema(ask); !checked) {
      return Failure<Refusal>(std::move(checked.error()));
    }
    const json::Value& schema = ask.request.response_format.schema;
    Constraint constraint;
    constraint.printed = std::make_shared<const std::string>(
        schema.is_null() ? R"("json")" : json::to_string(schema));
    return constraint;
  }
};

}  // namespace

std::unique_ptr<const Constrainer> make_constrainer(ConstrainerParts parts,
                                                    Constraints::Options options) {
  options.constrained_by = parts.engine.constrained_by;
  switch (options.constrained_by) {
    case ConstrainedBy::none:
      return std::make_unique<ByNothing>(std::move(parts));
    case ConstrainedBy::json_schema:
      return std::make_unique<BySchemas>(std::move(parts));
    case ConstrainedBy::masks:
    case ConstrainedBy::gbnf:
    case ConstrainedBy::ebnf:
      break;
  }
  return std::make_unique<ByGrammars>(std::move(parts), std::move(options));
}

}  // namespace tenon::chat
