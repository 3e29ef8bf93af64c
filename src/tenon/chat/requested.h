#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tenon/chat/call_check.h"
#include "tenon/chat/responder.h"
#include "tenon/chat/turn.h"
#include "tenon/message/message.h"

/// What models of all kinds ask of a request.
namespace tenon::chat {

[[nodiscard]] Failure<Refusal> refuse(Errc code, std::string message, std::string param,
                                      std::string stable_code);

[[nodiscard]] bool offers_tools(const message::ChatRequest& request);
/// Those that the answer may call; they live in the request.
[[nodiscard]] std::vector<const message::Tool*> callable_tools(const message::ChatRequest& request);
/// For tools that no grammar is made of: nothing else looks at their schemas.
[[nodiscard]] Result<void, Refusal> check_schemas(const message::ChatRequest& request);
/// The same of the response format's.
[[nodiscard]] Result<void, Refusal> check_response_schema(const message::ChatRequest& request);

/// The answer may be text that shows calls: the user has asked for some (format::asks_about_calls),
/// or a tool's result has what looks like one, which the answer may quote. Only calls in the
/// model's own form are calls then.
[[nodiscard]] bool wants_calls_as_text(const message::ChatRequest& request);
/// A mask lets calls in other forms than the model's own come: the answer may be text or calls, or
/// (`where_required`, ModelOptions::required_in_other_forms) must be calls.
[[nodiscard]] bool takes_other_forms(const message::ChatRequest& request, bool where_required);

[[nodiscard]] bool mends(const message::ChatRequest& request, const ModelOptions& options);
/// For calls of the request's tools.
[[nodiscard]] std::unique_ptr<CallCheck> make_check(const message::ChatRequest& request,
                                                    const ModelOptions& options,
                                                    std::shared_ptr<CompiledSchemas> schemas);
/// Sets of `turn` what it has of the request, but for the tools' schemas where it has them already.
/// `is_held`: a mask holds the answer, so that no call
/// is of another tool.
void take_request(const message::ChatRequest& request, const ModelOptions& options, bool is_held,
                  TurnOptions& turn);

/// A turn as who asked for it has it.
[[nodiscard]] std::unique_ptr<Answer> answer_of(std::shared_ptr<Turn> turn,
                                                std::size_t prompt_tokens = 0);

/// A model whose engine takes messages (engine::Takes::messages).
[[nodiscard]] std::shared_ptr<Model> make_message_model(
    ModelOptions options, std::shared_ptr<engine::Engine> engine,
    const std::shared_ptr<const format::Format>& format);

}  // namespace tenon::chat
