#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tenon/chat/call_check.h"
#include "tenon/chat/model_options.h"
#include "tenon/chat/refusal.h"
#include "tenon/chat/turn.h"
#include "tenon/message/message.h"

namespace tenon::chat {

/// Where calls in other forms than the model's own count in an answer.
enum class OtherForms : std::uint8_t {
  nowhere,
  first,  ///< Before all words.
  anywhere,
};

/// What a request asks of a model, resolved once: everything behind it reads this and not the rules
/// of the request's fields. Does not change; refers to the request, which must outlive it.
struct Ask {
  explicit Ask(const message::ChatRequest& request, const ModelOptions& options = {});

  const message::ChatRequest& request;
  const std::vector<const message::Tool*> tools;  ///< Those that the answer may call.
  const bool offers_tools;
  const bool demands_call;                        ///< The answer must have a call.
  const message::ResponseFormat::Kind text_kind;  ///< What its text must be.
  /// By what the user asks for (format::asked_for). `nowhere`, too, if the question or a tool's
  /// result has what looks like a call, since the answer may quote it.
  const OtherForms other_forms;
  const bool repairs;  ///< Arguments are repaired.
  const std::uint32_t max_tokens;
  const std::optional<std::uint32_t> max_reasoning_tokens;  ///< Absent: any number.
  const std::uint32_t max_calls;                            ///< 0: any number.

  [[nodiscard]] bool is_json() const { return text_kind == message::ResponseFormat::Kind::json; }
  [[nodiscard]] bool is_any_text() const {
    return text_kind == message::ResponseFormat::Kind::text;
  }
  /// The same for an answer that a mask constrains: other forms come only if the answer may be text
  /// or calls, or, with `where_required` (ModelOptions::required_in_other_forms), must be calls.
  [[nodiscard]] OtherForms masked_other_forms(bool where_required) const;
};

/// What an answer says whose engine cannot limit its reasoning.
[[nodiscard]] message::Diagnostic reasoning_unlimited(const std::string& engine);

/// Checks the tools' schemas, if no grammar is made from them and nothing else looks at them.
[[nodiscard]] Result<void, Refusal> check_schemas(const Ask& ask);
/// Checks the response format's schema in the same way.
[[nodiscard]] Result<void, Refusal> check_response_schema(const Ask& ask);

/// A check for calls of the request's tools.
[[nodiscard]] std::unique_ptr<CallCheck> make_check(const Ask& ask, const ModelOptions& options,
                                                    std::shared_ptr<CompiledSchemas> schemas);
/// Sets the members of `turn` that come from the request, except the tools' schemas if they are set
/// already. `is_constrained`: a mask constrains the answer, so no call is of an unknown tool.
void take_request(const Ask& ask, const ModelOptions& options, bool is_constrained,
                  TurnOptions& turn);

}  // namespace tenon::chat
