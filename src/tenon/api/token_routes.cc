// Text to tokens and back.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tenon/api/routes.h"
#include "tenon/api/token_request.h"
#include "tenon/base/patience.h"
#include "tenon/base/utf8.h"

namespace tenon::api {
namespace {

// Text stays text, unless `parse_special` asks for control tokens.
void answer_tokens(Call& call, const chat::Model& model, const TokenizeRequest& request) {
  if (!has_prompts(model, call)) return;
  std::vector<vocab::TokenId> ids;
  const engine::Engine& engine = *model.engine();
  const auto controls = request.parse_special ? vocab::Controls::on : vocab::Controls::off;
  const Status done = engine.tokenizer().encode(request.content, controls, /*at_start=*/true, ids);
  // The tokenizer gives up at the request's time limit, and this tells that from other failures.
  if (!done && patience::Clock::now() >= patience::current().deadline) {
    return respond_error(call, time_is_up());
  }
  if (!done) return respond_error(call, from_refusal(chat::refusal_of(done.error(), "content")));
  json::Array tokens;
  for (const vocab::TokenId id : ids) tokens.emplace_back(id);
  respond_json(
      call, json::Object{{"tokens", std::move(tokens)},
                         {"count", static_cast<std::uint64_t>(ids.size())},
                         {"max_model_len", std::uint64_t{engine.capabilities().context_tokens}}});
}

// Ids to text: cut characters become U+FFFD.
void answer_text(Call& call, const chat::Model& model, const DetokenizeRequest& request) {
  if (!has_prompts(model, call)) return;
  const vocab::Tokenizer& tokenizer = model.engine()->tokenizer();
  std::string bytes;
  for (std::size_t i = 0; i < request.tokens.size(); ++i) {
    const vocab::TokenId id = request.tokens[i];
    if (static_cast<std::size_t>(id) >= tokenizer.size()) {
      const std::string path = at("tokens", i);
      return respond_error(call, invalid_value(path, path + ": the model has tokens 0 to " +
                                                         std::to_string(tokenizer.size() - 1)));
    }
    bytes += tokenizer.bytes(id);
    if (patience::current().is_over()) return respond_error(call, time_is_up());
  }
  respond_json(call, json::Object{{"content", utf8::sanitized(bytes)}});
}

// The model may be left out where the server has one.
template <class Request, class Answer>
void convert(ServiceParts& parts, Call& call, Result<Request, ApiError> request, Answer answer) {
  if (!request) return respond_error(call, request.error());
  const auto name = parts.door.model_or_only(request->model);
  if (!name) return respond_error(call, name.error());
  parts.door.enter(*name, call,
                   [request = *std::move(request), answer](Call& own, chat::Model& model) {
                     answer(own, model, request);
                   });
}

void tokenize(ServiceParts& parts, Call& call) {
  convert(parts, call, body_of(call).and_then(decode_tokenize), answer_tokens);
}

void detokenize(ServiceParts& parts, Call& call) {
  convert(parts, call, body_of(call).and_then(decode_detokenize), answer_text);
}

}  // namespace

std::vector<Route> token_routes(ServiceParts& parts) {
  return routes_of(parts, {{"POST", "/tokenize", tokenize}, {"POST", "/detokenize", detokenize}});
}

}  // namespace tenon::api
