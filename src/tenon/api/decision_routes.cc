// Decisions, in both of their forms.

#include <memory>
#include <string>
#include <utility>

#include "tenon/api/decisions.h"
#include "tenon/api/routes.h"

namespace tenon::api {
namespace {

// The log probability of every token of a forced option is needed, which only an engine with masks
// in this process tells.
void answer_decisions(ServiceParts& parts, Call& call, chat::Model& model,
                      DecisionRequest& request) {
  const engine::Capabilities& engine = model.capabilities();
  const bool tells_tokens = engine.takes == engine::Takes::tokens && !engine.is_remote;
  if (model.takes_rlm() || !tells_tokens || engine.constrained_by != engine::ConstrainedBy::masks) {
    return respond_error(
        call, {.message =
                   "decisions need an embedded model, which can be constrained to each option; the "
                   "engine of " +
                   json::quoted(model.name()) + " is '" + engine.kind + "'",
               .param = "model",
               .code = "unsupported_parameter"});
  }
  auto encoder = std::make_unique<DecisionEncoder>(request);
  std::vector<message::ChatRequest> requests = requests_of(request, model.engine()->tokenizer());
  const auto choices = static_cast<unsigned>(requests.size());
  parts.answers.start(call, model,
                      {.encoder = std::move(encoder),
                       .chat = std::move(request.chat),
                       .requests = std::move(requests),
                       .choices = choices,
                       .left_out = std::move(request.left_out)});
}

template <class Decode>
void decide(ServiceParts& parts, Call& call, const Decode& decode) {
  auto request = decoded(parts, call, decode);
  if (!request) return respond_error(call, request.error());
  with_model(parts, call, *std::move(request), [&parts](auto& own, auto& model, auto& asked) {
    answer_decisions(parts, own, model, asked);
  });
}

void decisions(ServiceParts& parts, Call& call) {
  decide(parts, call, decode_decisions);
}

void system_one(ServiceParts& parts, Call& call) {
  decide(parts, call, decode_system_one);
}

}  // namespace

std::vector<Route> decision_routes(ServiceParts& parts) {
  return routes_of(parts,
                   {{"POST", "/v1/decisions", decisions}, {"POST", "/v1/systemone", system_one}});
}

}  // namespace tenon::api
