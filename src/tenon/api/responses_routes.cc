// OpenAI's Responses: made, kept, followed, counted and compacted.

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "tenon/api/compaction.h"
#include "tenon/api/context_edits.h"
#include "tenon/api/kept_query.h"
#include "tenon/api/responses_encode.h"
#include "tenon/api/responses_request.h"
#include "tenon/api/routes.h"
#include "tenon/base/ids.h"
#include "tenon/base/log.h"

namespace tenon::api {
namespace {

using json::Value;
using Keep = std::function<bool(const Value& response)>;

// Looks up what a request refers to, among what the client's key owns. A replay (`options.found`)
// has the documents of its recording, which come first. What it finds it puts into `found`, too, if
// answers are recorded.
FindResponse finder(const ServiceParts& parts, const Call& call, json::Object* found = nullptr) {
  return [&parts, found,
          owner = call.key.name()](const std::string& id) -> Result<json::Value, ApiError> {
    if (const Value* known = parts.options.found.find(id)) return *known;
    auto kept =
        id.starts_with("conv_") ? parts.conversations.find(owner, id) : parts.kept.find(owner, id);
    const bool is_recorded = found != nullptr && parts.options.recorder != nullptr;
    if (is_recorded && kept && !kept->is_null()) found->set(id, *kept);
    return kept;
  };
}

std::function<std::string(std::string_view)> sealer(const ServiceParts& parts, const Call& call) {
  return [&parts, owner = std::string(call.key.name())](std::string_view text) {
    return parts.seal.close(owner, text);
  };
}

// A function that stores the response and adds new items to its conversation; null if neither is
// asked for. The items are copied now, since the request is gone by the time of the answer. A
// conversation that a replay has found is not changed.
Keep keeper(ServiceParts& parts, const Call& call, const std::string& id,
            const ResponsesRequest& request) {
  const std::string owner(call.key.name());
  Keep store;
  if (request.store) store = parts.kept.keeper(owner, id, request.input);
  if (request.conversation.empty() || parts.options.found.contains(request.conversation)) {
    return store;
  }
  json::Array own(request.input.begin() + static_cast<std::ptrdiff_t>(request.first_new),
                  request.input.end());
  return [&parts, owner, name = request.conversation, own = std::move(own),
          store = std::move(store)](const Value& response) {
    const Value* status = response.find("status");
    // A failed or cancelled response says nothing, so the conversation stays as it was.
    const bool is_answer =
        status != nullptr && (*status == Value("completed") || *status == Value("incomplete"));
    if (is_answer) {
      json::Array items = own;
      const Value* output = response.find("output");
      if (output != nullptr && output->if_array() != nullptr) {
        items.insert(items.end(), output->if_array()->begin(), output->if_array()->end());
      }
      if (const auto added = parts.conversations.add(owner, name, items); !added) {
        log::error("the conversation " + name + " lacks a response: " + added.error().message);
      }
    }
    return store && store(response);
  };
}

// Leaves the oldest messages out if the prompt does not fit into the model's context with room for
// the answer. An upstream that makes the prompt itself says by itself what does not fit.
void truncate(const chat::Model& model, ResponsesRequest& request) {
  const std::uint32_t context = model.capabilities().context_tokens;
  if (context == 0 || model.engine() == nullptr) return;
  const std::uint32_t answer = std::min(request.chat.max_tokens.value_or(context / 4), context / 4);
  const auto fits = [&](const message::ChatRequest& chat) {
    const auto prepared = model.prepare(chat);
    // Another error is no reason to cut; the answer will report it.
    if (!prepared) return prepared.error().code != "context_length_exceeded";
    return prepared->tokens.size() + answer <= context;
  };
  if (fits(request.chat)) return;
  const std::size_t dropped = drop_oldest(request.chat, fits);
  if (dropped == 0) return;
  request.left_out.push_back(
      {.code = std::string(kLeftOut),
       .message = "input is left out: its oldest " + std::to_string(dropped) +
                  " messages, which do not fit into the model's context (truncation: auto)",
       .path = "input"});
}

// Answers the client at once with the response as it begins, or lets it follow the events. The run
// takes the place of the client's exchange, so the answer is made as if a client read its stream.
// The order matters: the run is found by its id before it begins, and is removed again if it is
// refused.
void answer_in_background(ServiceParts& parts, Call& call, chat::Model& model, Asked asked,
                          const std::string& id, Keep keep) {
  if (!parts.background.has_room()) return respond_error(call, overloaded());
  std::string begun;
  asked.encoder->begin(begun);
  auto run = std::make_shared<BackgroundRun>(response_begun_in(begun), std::move(keep),
                                             parts.runner.quick());
  const std::shared_ptr<http::Exchange> client = std::exchange(call.exchange, run);
  const std::string owner(call.key.name());
  // The events are what is kept, so the answer is a stream even if the client wants none.
  const bool is_stream = std::exchange(asked.stream, true);
  add_left_out(call, asked.left_out);
  std::vector<http::Header> headers = call.headers;
  parts.background.add(owner, id, run);
  parts.answers.start(call, model, std::move(asked));
  if (auto refusal = run->refusal()) {
    parts.background.remove(owner, id);
    return client->respond(*std::move(refusal));
  }
  if (!is_stream) {
    return client->respond({.headers = std::move(headers), .body = json::to_string(run->state())});
  }
  headers.push_back({"cache-control", "no-cache"});
  headers.push_back({"x-accel-buffering", "no"});
  static_cast<void>(run->follow(client, std::move(headers), -1));
}

void answer_response(ServiceParts& parts, Call& call, chat::Model& model, const std::string& id,
                     ResponsesRequest& request) {
  request.echo.set("model", request.chat.model);  // the request may lack it
  if (request.truncates) truncate(model, request);
  Keep keep = keeper(parts, call, id, request);
  ResponseHead head{.id = id,
                    .created_at = unix_time(),
                    .echo = std::move(request.echo),
                    .format = format_name(model),
                    .custom_tools = custom_names(request.chat.tools),
                    .called_as = std::move(request.called_as),
                    .logprobs = request.chat.logprobs,
                    .is_json = wants_json(request.chat),
                    .keep = keep,
                    .now = unix_time};
  if (request.wants_sealed) head.seal = sealer(parts, call);
  Asked asked{.encoder = std::make_unique<ResponsesEncoder>(std::move(head)),
              .chat = std::move(request.chat),
              .stream = request.stream,
              .left_out = std::move(request.left_out),
              .found = std::move(request.found)};
  if (!request.background) return parts.answers.start(call, model, std::move(asked));
  answer_in_background(parts, call, model, std::move(asked), id, std::move(keep));
}

void responses(ServiceParts& parts, Call& call) {
  const std::string id = random_id("resp_");
  json::Object found;
  auto request = decoded(parts, call, [&](const Value& value, const DecodeOptions& how) {
    return decode_response(value, id, finder(parts, call, &found), with_seal(parts, call, how));
  });
  if (!request) return respond_error(call, request.error());
  request->found = std::move(found);
  with_model(parts, call, *std::move(request), [&parts, id](auto& own, auto& model, auto& asked) {
    answer_response(parts, own, model, id, asked);
  });
}

// Asks the model for a summary of the conversation. The history is cut to what fits: first by a
// guess of bytes per token, then, if the prompt can be counted, by halves.
void compact_for(ServiceParts& parts, Call& call, chat::Model& model, const std::string& id,
                 ResponsesRequest& request) {
  constexpr std::uint32_t kSummaryTokens = 1024;
  constexpr std::uint32_t kUnknownContext = 32'768;
  constexpr std::size_t kBytesPerToken = 3;
  const std::uint32_t told = model.capabilities().context_tokens;
  const std::uint32_t context = told == 0 ? kUnknownContext : told;
  const std::uint32_t most = std::min(kSummaryTokens, std::max(context / 4, 1U));
  std::size_t bytes = (context - most) * kBytesPerToken;
  message::ChatRequest asked = summary_request(request.chat, bytes, most);
  // If the text has short tokens, it is shortened further.
  for (int tries = 0; tries < 8 && model.engine() != nullptr; ++tries) {
    const auto prepared = model.prepare(asked);
    const bool is_too_long = prepared ? prepared->tokens.size() + most > context
                                      : prepared.error().code == "context_length_exceeded";
    if (!is_too_long) break;
    bytes /= 2;
    asked = summary_request(request.chat, bytes, most);
  }
  CompactionHead head{.id = id,
                      .created_at = unix_time(),
                      .format = format_name(model),
                      .kept_items = {},
                      .seal = sealer(parts, call)};
  // The user's own messages stay as they are beside the summary, as at OpenAI.
  for (Value& item : request.input) {
    const Value* role = present(item, "role");
    if (role != nullptr && *role == Value("user")) head.kept_items.push_back(std::move(item));
  }
  parts.answers.start(call, model,
                      {.encoder = std::make_unique<CompactionEncoder>(std::move(head)),
                       .chat = std::move(asked),
                       .left_out = std::move(request.left_out)});
}

void compact(ServiceParts& parts, Call& call) {
  const std::string id = random_id("resp_");
  auto request = decoded(parts, call, [&](const Value& value, DecodeOptions how) {
    // The whole conversation is history here: content that cannot be read is left out of it.
    how.is_all_past = true;
    return decode_response(value, id, finder(parts, call), with_seal(parts, call, std::move(how)));
  });
  if (!request) return respond_error(call, request.error());
  with_model(parts, call, *std::move(request), [&parts, id](auto& own, auto& model, auto& asked) {
    compact_for(parts, own, model, id, asked);
  });
}

void input_tokens(ServiceParts& parts, Call& call) {
  auto request = decoded(parts, call, [&](const Value& value, const DecodeOptions& how) {
    return decode_response(value, "resp_", finder(parts, call), with_seal(parts, call, how));
  });
  if (!request) return respond_error(call, request.error());
  with_model(parts, call, *std::move(request), [](auto& own, auto& model, auto& asked) {
    add_left_out(own, asked.left_out);
    respond_count(own, model, asked.chat, {{"object", "response.input_tokens"}}, kResponsesNames);
  });
}

// A response that is under way, or was until lately, can be followed from any of its events on:
// with `?stream=true&starting_after=5` by the events after number 5. Without a stream it is told as
// it is.
void get_response(ServiceParts& parts, Call& call) {
  const std::string owner(call.key.name());
  const std::string_view query = call.exchange->request().query;
  const auto run = parts.background.find(owner, call.tail);
  if (run == nullptr) return respond_result(call, parts.kept.get(owner, call.tail, query));
  const auto fields =
      fields_of_query(query, {"include", "include_obfuscation", "starting_after", "stream"});
  if (!fields) return respond_error(call, fields.error());
  bool is_stream = false;
  std::int64_t after = -1;
  for (const auto& [name, value] : *fields) {
    if (name == "stream") is_stream = value == "true";
    if (name != "starting_after") continue;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), after);
    if (error != std::errc() || end != value.data() + value.size() || after < 0) {
      return respond_error(call, invalid_value(name, name + " must be an integer from 0 on"));
    }
  }
  if (!is_stream) {
    Value ended = run->ended();
    if (ended.is_null()) return respond_json(call, run->state());
    // The store may have dropped it already.
    auto stored = parts.kept.get(owner, call.tail, "");
    return respond_json(call, stored ? *stored : ended);
  }
  std::vector<http::Header> headers = call.headers;
  headers.push_back({"cache-control", "no-cache"});
  headers.push_back({"x-accel-buffering", "no"});
  if (!run->follow(call.exchange, std::move(headers), after)) {
    return respond_error(
        call, invalid_value("starting_after", "the events behind it are not kept any more"));
  }
  call.running.ended(200);
  call.key.leave();
}

void list_input_items(ServiceParts& parts, Call& call) {
  respond_result(call,
                 parts.kept.list_input(call.key.name(), call.tail, call.exchange->request().query));
}

// A run that is still under way is stopped and not stored.
void delete_response(ServiceParts& parts, Call& call) {
  const std::string owner(call.key.name());
  const auto run = parts.background.find(owner, call.tail);
  auto erased = parts.kept.erase(owner, call.tail);
  if (run == nullptr) return respond_result(call, erased);
  static_cast<void>(run->cancel(/*is_kept=*/false));
  parts.background.remove(owner, call.tail);
  respond_json(call, json::Object{{"id", call.tail}, {"object", "response"}, {"deleted", true}});
}

void cancel_response(ServiceParts& parts, Call& call) {
  const std::string owner(call.key.name());
  if (const auto run = parts.background.find(owner, call.tail)) {
    return respond_json(call, run->cancel(/*is_kept=*/true));
  }
  respond_result(call, parts.kept.cancel(owner, call.tail));
}

}  // namespace

std::vector<Route> responses_routes(ServiceParts& parts) {
  return routes_of(parts, {{"POST", "/v1/responses", responses},
                           {"POST", "/v1/responses/input_tokens", input_tokens},
                           {"GET", "/v1/responses/{id}", get_response},
                           {"DELETE", "/v1/responses/{id}", delete_response},
                           {"GET", "/v1/responses/{id}/input_items", list_input_items},
                           {"POST", "/v1/responses/{id}/cancel", cancel_response},
                           {"POST", "/v1/responses/compact", compact}});
}

}  // namespace tenon::api
