#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "tenon/api/background.h"
#include "tenon/api/call.h"
#include "tenon/api/call_runner.h"
#include "tenon/api/fields.h"
#include "tenon/api/kept_conversations.h"
#include "tenon/api/kept_responses.h"
#include "tenon/api/live_answers.h"
#include "tenon/api/metrics.h"
#include "tenon/api/model_door.h"
#include "tenon/api/prompt_prints.h"
#include "tenon/api/request_reader.h"
#include "tenon/api/seal.h"
#include "tenon/api/service.h"
#include "tenon/base/clock.h"

namespace tenon::api {

/// What the handlers of all dialects use. It outlives them.
struct ServiceParts {
  explicit ServiceParts(ServiceOptions chosen)
      : options(std::move(chosen)),
        kept(options.store),
        conversations(kept.store()),
        seal(kept.store()) {}
  ~ServiceParts() {
    door.stop_loading();
    runner.stop();
    door.stop_upstream_workers();
  }
  ServiceParts(const ServiceParts&) = delete;
  ServiceParts& operator=(const ServiceParts&) = delete;

  const ServiceOptions options;  ///< Without its access, which Service keeps.
  const std::int64_t started = unix_time();
  const std::string fingerprint = "fp_tenon_" + options.version;
  const KeptResponses kept;
  KeptConversations conversations;
  const Seal seal;
  const std::shared_ptr<PromptPrints> prints = std::make_shared<PromptPrints>();
  Background background;
  Metrics metrics;
  CallRunner runner{{.max_waiting = options.max_waiting, .time_limit = options.time_limit}};
  ModelDoor door{runner, options.pairs};
  std::atomic<bool> is_ready = false;  ///< The door has its models.
  LiveAnswers answers{runner, metrics, options.recorder};
};

/// Reads the body with `decode(value, DecodeOptions)`, whose result has a `chat`. The model may be
/// left out if there is only one.
template <class Decode>
auto decoded(const ServiceParts& parts, const Call& call, const Decode& decode) {
  auto request = body_of(call).and_then([&](const json::Value& value) {
    return decode(value, DecodeOptions{.refuses_unknown_fields = parts.options.refuses_unknown,
                                       .servers = &parts.options.mcp_allow});
  });
  if (!request || !request->chat.model.empty()) return request;
  auto name = parts.door.model_or_only("");
  if (!name) return decltype(request)(Failure<ApiError>(std::move(name.error())));
  request->chat.model = *std::move(name);
  return request;
}

/// Calls `use(call, model, request)` once the model is there: ModelDoor::enter.
template <class Request, class Use>
void with_model(ServiceParts& parts, Call& call, Request request, Use use) {
  const std::string name = request.chat.model;
  // std::function must be copyable, which a request need not be.
  auto shared = std::make_shared<Request>(std::move(request));
  parts.door.enter(
      name, call,
      [shared = std::move(shared), use = std::move(use)](Call& own, chat::Model& model) {
        leave_out_code(shared->chat, shared->left_out, model);
        use(own, model, *shared);
      });
}

/// The name of the format in which the model writes tool calls; "" if it has none.
[[nodiscard]] std::string format_name(const chat::Model& model);
/// False: the call has been answered with an error, because there is no tokenizer.
[[nodiscard]] bool has_prompts(const chat::Model& model, Call& call);
/// `how`, and the way to open what the server has sealed for this call's owner.
[[nodiscard]] DecodeOptions with_seal(const ServiceParts& parts, const Call& call,
                                      DecodeOptions how);
/// Answers with the number of tokens of the prompt. `members` come before it in the answer, and
/// errors name fields as the dialect does (`names`).
void respond_count(Call& call, chat::Model& model, const message::ChatRequest& chat,
                   json::Object members, std::span<const FieldName> names);

}  // namespace tenon::api
