#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenon/chat/call_check.h"
#include "tenon/chat/responder.h"
#include "tenon/chat/turn.h"
#include "tenon/message/message.h"

/// What all kinds of models read from a request.
namespace tenon::chat {

[[nodiscard]] Failure<Refusal> refuse(Errc code, std::string message, std::string param,
                                      std::string stable_code);

[[nodiscard]] bool offers_tools(const message::ChatRequest& request);
/// The tools that the answer may call; pointers into the request.
[[nodiscard]] std::vector<const message::Tool*> callable_tools(const message::ChatRequest& request);
/// Checks the tools' schemas, if no grammar is made from them and nothing else looks at them.
[[nodiscard]] Result<void, Refusal> check_schemas(const message::ChatRequest& request);
/// Checks the response format's schema in the same way.
[[nodiscard]] Result<void, Refusal> check_response_schema(const message::ChatRequest& request);

/// Where calls in other forms than the model's own count in an answer.
enum class OtherForms : std::uint8_t {
  nowhere,
  first,  ///< Before all words.
  anywhere,
};
/// By what the user asks for (format::asked_for). `nowhere`, too, if the question or a tool's
/// result has what looks like a call, since the answer may quote it.
[[nodiscard]] OtherForms other_forms(const message::ChatRequest& request);
/// The same for an answer that a mask constrains: other forms come only if the answer may be text
/// or calls, or, with `where_required` (ModelOptions::required_in_other_forms), must be calls.
[[nodiscard]] OtherForms masked_other_forms(const message::ChatRequest& request,
                                            bool where_required);

[[nodiscard]] bool repairs_arguments(const message::ChatRequest& request,
                                     const ModelOptions& options);
/// A check for calls of the request's tools.
[[nodiscard]] std::unique_ptr<CallCheck> make_check(const message::ChatRequest& request,
                                                    const ModelOptions& options,
                                                    std::shared_ptr<CompiledSchemas> schemas);
/// Sets the members of `turn` that come from the request, except the tools' schemas if they are set
/// already. `is_constrained`: a mask constrains the answer, so no call is of an unknown tool.
void take_request(const message::ChatRequest& request, const ModelOptions& options,
                  bool is_constrained, TurnOptions& turn);

/// The Answer through which the client controls the turn.
[[nodiscard]] std::unique_ptr<Answer> answer_of(std::shared_ptr<Turn> turn,
                                                std::size_t prompt_tokens = 0);

/// A model whose engine takes messages (engine::Takes::messages).
[[nodiscard]] std::shared_ptr<Model> make_message_model(
    ModelOptions options, std::shared_ptr<engine::Engine> engine,
    const std::shared_ptr<const format::Format>& format);

}  // namespace tenon::chat
