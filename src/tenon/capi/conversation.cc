#include "tenon/chat/conversation.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/api/answer_parts.h"
#include "tenon/api/chat_request.h"
#include "tenon/base/cancel.h"
#include "tenon/base/failure.h"
#include "tenon/capi/format.h"
#include "tenon/capi/handle.h"
#include "tenon/capi/service.h"
#include "tenon/capi/tools.h"
#include "tenon/chat/converse.h"
#include "tenon/chat/mcp_source.h"
#include "tenon/chat/toolbox.h"
#include "tenon/config/tools.h"
#include "tenon/json/lines.h"
#include "tenon/json/value.h"
#include "tenon/mcp/servers.h"
#include "tenon/message/build.h"

// Conversations and toolboxes in C
//
// Each function of tenon.h turns texts into the types of chat/ and results back into JSON text. A
// question is read like a Chat Completions request (begun_by, request_with), so it has the same
// shapes and the same errors as on the server. ask() runs converse() (chat/converse.h) with the
// caller's toolbox and limits. Two things are kept beside the chat::Conversation: the model, by
// name, so that each answer looks it up and loads it if needed; and `made`, the results of calls
// that the toolbox has run while other calls of the same turn still wait for the caller. The model
// has not seen those, so they are saved with the conversation and sent with the rest. A tool call
// in C may end on another thread, long after it began: tenon_tool_call holds two references, the
// toolbox's, which waits for its end, and the caller's, which tenon_tool_call_end() gives up.

struct tenon_toolbox {
  tenon::chat::Toolbox tools;
};

struct tenon_conversation {
  tenon_conversation(std::shared_ptr<tenon::config::Instance> of, tenon::chat::Conversation begun)
      : instance(std::move(of)), talk(std::move(begun)) {}
  // A branch has a lock and a cancellation of its own; the messages are shared
  // (chat::Conversation).
  tenon_conversation(const tenon_conversation& other)
      : instance(other.instance), talk(other.talk), made(other.made) {}
  tenon_conversation& operator=(const tenon_conversation&) = delete;
  ~tenon_conversation() = default;

  const std::shared_ptr<tenon::config::Instance> instance;  // must outlive the use of its models
  tenon::chat::Conversation talk;
  // Results of calls that were run here and that the model has not got, since other calls wait.
  std::vector<tenon::chat::ToolResult> made;
  std::mutex mutex;
  tenon::CancelToken cancel;  // for the present question; guarded by mutex
};

/// A run of a tool. It has two references: the toolbox's, which waits for its end, and the
/// caller's, which ends it.
struct tenon_tool_call {
  tenon_tool_call(const tenon::json::Object& given, tenon::chat::ToolContext of)
      : arguments(tenon::json::to_string(given)), context(std::move(of)) {}

  const std::string arguments;
  const tenon::chat::ToolContext context;
  std::mutex mutex;
  std::condition_variable ended;
  std::shared_ptr<tenon_tool_call> self;  // the caller's; this and the next are guarded by mutex
  std::optional<tenon::chat::ToolOutput> output;
};

namespace tenon::capi {
namespace {

using chat::ToolResult;

// A member that is a number from `least` to `most`; no value if it is absent.
Expected<std::optional<double>> number_member(const json::Object& object, std::string_view member,
                                              double least, double most, bool is_whole) {
  const json::Value* const value = object.find(member);
  if (value == nullptr || value->is_null()) return std::optional<double>();
  const json::Number* const number = value->if_number();
  const double found = number == nullptr ? -1 : number->to_double();
  if (number == nullptr || found < least || found > most || (is_whole && !number->is_integer())) {
    const auto text = [](double limit) { return std::to_string(static_cast<std::int64_t>(limit)); };
    return invalid(std::string(member) + " must be " + (is_whole ? "a whole number" : "a number") +
                   " from " + text(least) + " to " + text(most));
  }
  return std::optional<double>(found);
}

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
}

// ---- questions

struct Begun {
  std::shared_ptr<chat::Responder> responder;  // the model, by name
  chat::Conversation::Options options;
};

// The name of a tool, or of a choice that names one, in the form of Chat Completions; "" if it has
// no name of that form.
std::string_view name_in(const json::Value& tool) {
  for (const std::string_view kind : {"function", "custom"}) {
    const json::Value* const name = json::at_pointer(tool, "/" + std::string(kind) + "/name");
    if (name != nullptr && name->if_string() != nullptr) return *name->if_string();
  }
  return {};
}

// The tools that a choice names, or one that stands for any: `"required"` becomes a function "any",
// so that the decoder, which refuses a required call without tools, lets it through.
json::Array chosen_in(const json::Value& choice) {
  if (choice == json::Value("required")) {
    return {json::Object{{"type", "function"}, {"function", json::Object{{"name", "any"}}}}};
  }
  const json::Value* const allowed = json::at_pointer(choice, "/allowed_tools/tools");
  if (allowed != nullptr && allowed->if_array() != nullptr) return *allowed->if_array();
  return choice.if_object() == nullptr ? json::Array() : json::Array{choice};
}

// A choice may name tools of a toolbox, which comes with the question: stand-ins are added to the
// end of the request's tools while it is decoded, and check_choice() looks for the real ones at
// each question. Returns how many were added.
std::size_t add_chosen_tools(json::Object& members) {
  const json::Value* const choice = members.find("tool_choice");
  if (choice == nullptr) return 0;
  const json::Array chosen = chosen_in(*choice);
  json::Value& tools = members["tools"];
  if (tools.is_null()) tools = json::Array();
  json::Array* const list = tools.if_array();
  if (list == nullptr || (*choice == json::Value("required") && !list->empty())) return 0;
  std::size_t added = 0;
  for (const json::Value& tool : chosen) {
    const std::string_view name = name_in(tool);
    if (name.empty() || std::ranges::find(*list, name, name_in) != list->end()) continue;
    list->push_back(tool);
    ++added;
  }
  return added;
}

// A conversation from a Chat Completions request, whose messages are its beginning.
Expected<Begun> begun_by(config::Instance& instance, tenon_text text) {
  auto body = capi::view(text).empty() ? json::Value(json::Object()) : json_in(text, "request");
  if (!body) return Unexpected(std::move(body.error()));
  json::Object* const members = body->if_object();
  if (members == nullptr) return invalid("request: must be a JSON object");
  for (const std::string_view member : {"n", "stream", "stream_options"}) {
    if (!members->contains(member)) continue;
    return invalid("request: " + std::string(member) +
                   " is not for conversations, whose answers are one and come as events");
  }
  const auto name = string_member(*members, "model");
  if (!name) return Unexpected(name.error());
  auto responder = instance.responder(*name);
  if (!responder) return Unexpected(std::move(responder.error()));

  // The decoder requires a model and a message, which may be missing here.
  if (name->empty()) members->set("model", "model");
  json::Value& messages = (*members)["messages"];
  if (messages.is_null()) messages = json::Array();
  if (json::Array* const list = messages.if_array()) {
    list->emplace_back(message::to_json(message::user("?")));
  }
  const std::size_t elsewhere = add_chosen_tools(*members);
  auto decoded = api::decode_chat_completion(*body, {.refuses_unknown_fields = true});
  if (!decoded) return invalid("request: " + decoded.error().message);
  decoded->chat.messages.pop_back();
  decoded->chat.tools.resize(decoded->chat.tools.size() - elsewhere);
  return Begun{*std::move(responder), {.request = std::move(decoded->chat)}};
}

struct Limits {
  std::size_t rounds = chat::ConverseOptions{}.max_rounds;
  std::chrono::milliseconds time{0};  // 0: no limit
};

Expected<Limits> limits_in(tenon_text text) {
  const auto members = object_in(text, "limits", {"max_rounds", "max_time_s"});
  if (!members) return Unexpected(members.error());
  const auto rounds = number_member(*members, "max_rounds", 1, 1'000'000, /*is_whole=*/true);
  if (!rounds) return Unexpected(rounds.error());
  const auto seconds = number_member(*members, "max_time_s", 0, 1'000'000, /*is_whole=*/false);
  if (!seconds) return Unexpected(seconds.error());
  Limits limits;
  if (*rounds) limits.rounds = static_cast<std::size_t>(**rounds);
  if (*seconds) limits.time = milliseconds_of(**seconds);
  return limits;
}

// `[{"tool_call_id": "c1", "content": "4 files", "is_error": false}]`. Content that is not a text
// is read as JSON, which the model sees as it is.
Expected<std::vector<ToolResult>> results_of(const json::Value& list) {
  if (list.if_array() == nullptr) return invalid("results: must be a list");
  std::vector<ToolResult> results;
  for (const json::Value& item : *list.if_array()) {
    const json::Object* const members = item.if_object();
    if (members == nullptr) return invalid("results: each must be an object");
    const Status known = json::check_members(*members, {"tool_call_id", "content", "is_error"});
    if (!known) return invalid("results: " + known.error().message);
    auto id = string_member(*members, "tool_call_id");
    if (!id) return invalid("results: " + id.error().message);
    const json::Value* const content = members->find("content");
    const json::Value* const is_error = members->find("is_error");
    if (id->empty() || content == nullptr) {
      return invalid("results: each must have tool_call_id and content");
    }
    if (is_error != nullptr && is_error->if_bool() == nullptr) {
      return invalid("results: is_error must be true or false");
    }
    results.push_back({.tool_call_id = *std::move(id),
                       .output = content->if_string() != nullptr ? *content->if_string()
                                                                 : json::to_string(*content),
                       .is_error = is_error != nullptr && *is_error->if_bool()});
  }
  return results;
}

Expected<std::vector<ToolResult>> results_in(tenon_text text) {
  auto list = json_in(text, "results");
  if (!list) return Unexpected(std::move(list.error()));
  return results_of(*list);
}

json::Value results_json(const std::vector<ToolResult>& results) {
  json::Array told;
  for (const ToolResult& result : results) {
    json::Object one{{"tool_call_id", result.tool_call_id}, {"content", result.output}};
    if (result.is_error) one.set("is_error", true);
    told.emplace_back(std::move(one));
  }
  return told;
}

// Results of waiting calls that were run before the conversation was saved.
Expected<std::vector<ToolResult>> saved_results(const json::Value& saved,
                                                const std::vector<message::ToolCall>& waiting) {
  const json::Value* const list = saved.find("results");
  if (list == nullptr) return std::vector<ToolResult>();
  auto results = results_of(*list);
  if (!results) return invalid("the conversation: " + results.error().message);
  std::set<std::string_view> known;
  for (const ToolResult& result : *results) {
    const bool waits =
        std::ranges::find(waiting, result.tool_call_id, &message::ToolCall::id) != waiting.end();
    if (!waits || !known.insert(result.tool_call_id).second) {
      return invalid("the conversation: results: no call waits for that of " +
                     json::quoted(result.tool_call_id));
    }
  }
  return results;
}

// ---- results

// What an answer of Chat Completions has besides its choices.
std::string finish_text(const message::Finish& finish) {
  json::Object told{{"usage", api::encode_usage(finish.usage)}};
  json::Object about{{"guarantee", message::guarantee_name(finish.guarantee)}};
  if (!finish.format.empty()) about.set("format", finish.format);
  told.set("tenon", std::move(about));
  if (!finish.stop_sequence.empty()) told.set("stop_sequence", finish.stop_sequence);
  if (!finish.rlm.empty()) told.set("rlm", finish.rlm);
  return json::to_string(told);
}

// The calls in the form of Chat Completions.
json::Value calls_json(const std::vector<message::ToolCall>& calls) {
  if (calls.empty()) return json::Array();
  json::Object told =
      message::to_json(message::Message{.role = message::Role::assistant, .tool_calls = calls});
  return std::move(told["tool_calls"]);
}

// The calls that have no result yet.
std::vector<message::ToolCall> left_of(std::vector<message::ToolCall> calls,
                                       const std::vector<ToolResult>& made) {
  std::erase_if(calls, [&](const message::ToolCall& call) {
    return std::ranges::find(made, call.id, &ToolResult::tool_call_id) != made.end();
  });
  return calls;
}

std::vector<message::ToolCall> waiting_in(const tenon_conversation& conversation) {
  return left_of(conversation.talk.pending_calls(), conversation.made);
}

// The turn as tenon.h describes it for tenon_conversation_send(): the last answer, with the usage
// of all rounds.
std::string turn_text(const chat::Report& report) {
  const chat::ConversationTurn& turn = report.turn;
  json::Array diagnostics;
  for (const message::Diagnostic& one : turn.diagnostics) {
    diagnostics.emplace_back(json::Object{{"code", one.code}, {"message", one.message}});
  }
  json::Object told{
      {"content", turn.content ? json::Value(*turn.content) : json::Value()},
      {"reasoning_content", turn.reasoning.empty() ? json::Value() : json::Value(turn.reasoning)},
      {"tool_calls", calls_json(left_of(turn.tool_calls, report.results))},
      {"finish_reason", message::finish_reason_name(turn.finish.reason)},
      {"usage", api::encode_usage(report.usage)},
      {"rounds", static_cast<std::uint64_t>(report.rounds)},
      {"diagnostics", std::move(diagnostics)}};
  if (!turn.finish.rlm.empty()) told.set("rlm", turn.finish.rlm);
  return json::to_string(told);
}

// One turn without a toolbox, in the form that converse() returns.
chat::Report report_of(Result<chat::ConversationTurn, chat::Refusal> turn) {
  chat::Report report{.rounds = 1};
  if (!turn) {
    report.rounds = 0;
    report.end = chat::Report::End::refused;
    report.refusal = std::move(turn.error());
    return report;
  }
  report.turn = *std::move(turn);
  report.usage = report.turn.finish.usage;
  return report;
}

struct Asking {
  tenon_toolbox* tools;     // null: the caller runs all calls
  tenon_text limits;        // JSON, see limits_in()
  tenon_event_fn on_event;  // may be null
  void* user;
};

// Fails if the tools that must or may be called do not exist.
Status check_choice(const message::ChatRequest& request, const tenon_toolbox* toolbox) {
  const message::ToolChoice& choice = request.tool_choice;
  if (choice.mode != message::ToolMode::required && choice.allowed.empty()) return {};
  const chat::ToolSet offered = toolbox == nullptr ? chat::ToolSet() : toolbox->tools.tools();
  for (const std::string& name : choice.allowed) {
    if (offered.has(name) ||
        std::ranges::find(request.tools, name, &message::Tool::name) != request.tools.end()) {
      continue;
    }
    return invalid("tool_choice names '" + name +
                   "', which is no tool of the request, and none of the toolbox");
  }
  if (!request.tools.empty() || !offered.list().empty()) return {};
  return invalid("tool_choice demands a call, but neither request nor toolbox has tools");
}

/// Asks with `what`, a message or results, and sets `turn`.
template <class What>
Status ask(tenon_conversation& conversation, What what, const Asking& asking, tenon_string** turn) {
  const auto limits = limits_in(asking.limits);
  if (!limits) return Unexpected(limits.error());
  // The conversation would not accept a new message before the results of the open calls.
  if constexpr (std::is_same_v<What, message::Message>) {
    if (!conversation.made.empty() && waiting_in(conversation).empty()) {
      return invalid(
          "tools have run, and the model has not been told of it, since that failed: submit no "
          "results ([]) to go on, or dismiss the calls");
    }
  }
  if (Status checked = check_choice(conversation.talk.request(), asking.tools); !checked) {
    return checked;
  }
  // A new token for each question: a cancellation that came late must not end the next one.
  const CancelToken cancel;
  {
    const std::lock_guard lock(conversation.mutex);
    conversation.cancel = cancel;
  }
  const auto on_event = [&](const message::ChatEvent& event) {
    if (asking.on_event == nullptr) return;
    tenon_event told = event_of(event);
    // The event views this text, which lives until the callback has returned.
    std::string text;
    if (const auto* const finish = std::get_if<message::Finish>(&event)) {
      text = finish_text(*finish);
      told.text = text_of(text);
    }
    if (asking.on_event(asking.user, &told) != 0) cancel.cancel();
  };
  chat::Report report;
  // With a toolbox there are several rounds, and the limits are for all of them; without one there
  // is a single turn, whose calls the caller runs.
  if (asking.tools != nullptr) {
    report = chat::converse(conversation.talk, std::move(what), asking.tools->tools,
                            {.on_event = on_event,
                             .cancel = cancel,
                             .max_rounds = limits->rounds,
                             .time_limit = limits->time});
  } else {
    chat::AskOptions options{.on_event = on_event, .cancel = cancel};
    if (limits->time.count() > 0) {
      options.deadline = std::chrono::steady_clock::now() + limits->time;
    }
    if constexpr (std::is_same_v<What, message::Message>) {
      report = report_of(conversation.talk.send_message(std::move(what), options));
    } else {
      report = report_of(conversation.talk.submit_tool_results(what, options));
    }
  }
  const bool has_turned = report.rounds > 0;
  // Only a question that has changed the conversation replaces the results that were kept before.
  if (has_turned) conversation.made = report.results;
  if (report.refusal) {
    Error error = std::move(report.refusal->error);
    if (has_turned) {
      error.message += " (tools have run before: submit no results, [], to go on from there)";
    }
    return Unexpected(std::move(error));
  }
  *turn = new_string(turn_text(report));
  return {};
}

// ---- tools

// `{"type": "function", "function": {...}}`, or the function alone: `{"name", "parameters"}`.
Expected<message::Tool> tool_in(tenon_text text) {
  auto tool = json_in(text, "tool");
  if (!tool) return Unexpected(std::move(tool.error()));
  if (tool->find("name") != nullptr && tool->find("type") == nullptr) {
    tool = json::Object{{"type", "function"}, {"function", std::move(*tool)}};
  }
  return tool_of(*tool);
}

// The C function as a tool. It may return at once and end its call later, on any thread, so this
// waits for the end. A cancelled question or the time limit ends the wait within kMoment; the call
// object stays valid for the caller until it ends it.
chat::ToolFunction runs(std::string name, tenon_tool_fn function, void* user) {
  return [name = std::move(name), function, user](
             const json::Object& arguments,
             const chat::ToolContext& context) -> Expected<chat::ToolOutput> {
    constexpr std::chrono::milliseconds kMoment{10};
    const auto call = std::make_shared<tenon_tool_call>(arguments, context);
    {
      const std::lock_guard lock(call->mutex);
      call->self = call;
    }
    function(user, call.get(), text_of(name), text_of(call->arguments));
    std::unique_lock lock(call->mutex);
    while (!call->output && !context.is_over()) call->ended.wait_for(lock, kMoment);
    if (call->output) return *std::move(call->output);
    return Unexpected(Error{Errc::unavailable, "it has not ended in time"});
  };
}

}  // namespace
}  // namespace tenon::capi

namespace capi = tenon::capi;
namespace chat = tenon::chat;
namespace json = tenon::json;
namespace message = tenon::message;
using tenon::Errc;
using tenon::Error;
using tenon::Status;
using tenon::Unexpected;

tenon_error* tenon_conversation_new(tenon_service* service, tenon_text request,
                                    tenon_conversation** conversation) {
  capi::clear(conversation);
  return capi::guarded({{service, "service"}, {conversation, "conversation"}}, [&]() -> Status {
    auto begun = capi::begun_by(*service->instance, request);
    if (!begun) return Unexpected(std::move(begun.error()));
    *conversation = new tenon_conversation(
        service->instance,
        chat::Conversation(std::move(begun->responder), std::move(begun->options)));
    return {};
  });
}

// The messages come from `saved`, everything else (tools, sampling) from `request`, which is not
// saved.
tenon_error* tenon_conversation_restore(tenon_service* service, tenon_text request,
                                        tenon_text saved, tenon_conversation** conversation) {
  capi::clear(conversation);
  return capi::guarded({{service, "service"}, {conversation, "conversation"}}, [&]() -> Status {
    auto begun = capi::begun_by(*service->instance, request);
    if (!begun) return Unexpected(std::move(begun.error()));
    const auto kept = capi::json_in(saved, "saved");
    if (!kept) return Unexpected(kept.error());
    auto talk = chat::Conversation::from_json(*kept, std::move(begun->responder),
                                              std::move(begun->options));
    if (!talk) return Unexpected(std::move(talk.error()));
    auto results = capi::saved_results(*kept, talk->pending_calls());
    if (!results) return Unexpected(std::move(results.error()));
    auto made = std::make_unique<tenon_conversation>(service->instance, *std::move(talk));
    made->made = *std::move(results);
    *conversation = made.release();
    return {};
  });
}

tenon_error* tenon_conversation_copy(const tenon_conversation* conversation,
                                     tenon_conversation** copy) {
  capi::clear(copy);
  return capi::guarded({{conversation, "conversation"}, {copy, "copy"}}, [&]() -> Status {
    *copy = new tenon_conversation(*conversation);
    return {};
  });
}

void tenon_conversation_free(tenon_conversation* conversation) {
  delete conversation;
}

tenon_error* tenon_conversation_send(tenon_conversation* conversation, tenon_text text,
                                     tenon_toolbox* tools, tenon_text limits,
                                     tenon_event_fn on_event, void* user, tenon_string** turn) {
  capi::clear(turn);
  return capi::guarded({{conversation, "conversation"}, {turn, "turn"}}, [&]() -> Status {
    const auto value = capi::json_in(text, "message");
    if (!value) return Unexpected(value.error());
    auto said = message::message_from_json(*value);
    if (!said) return tenon::invalid("message: " + said.error().message);
    return capi::ask(*conversation, *std::move(said), {tools, limits, on_event, user}, turn);
  });
}

tenon_error* tenon_conversation_submit(tenon_conversation* conversation, tenon_text text,
                                       tenon_toolbox* tools, tenon_text limits,
                                       tenon_event_fn on_event, void* user, tenon_string** turn) {
  capi::clear(turn);
  return capi::guarded({{conversation, "conversation"}, {turn, "turn"}}, [&]() -> Status {
    auto results = capi::results_in(text);
    if (!results) return Unexpected(std::move(results.error()));
    // Together with the results that were made before, these must answer all calls of the turn.
    results->insert(results->end(), conversation->made.begin(), conversation->made.end());
    return capi::ask(*conversation, *std::move(results), {tools, limits, on_event, user}, turn);
  });
}

tenon_error* tenon_conversation_pending(const tenon_conversation* conversation,
                                        tenon_string** calls) {
  capi::clear(calls);
  return capi::guarded({{conversation, "conversation"}, {calls, "calls"}}, [&]() -> Status {
    *calls = capi::new_string(json::to_string(capi::calls_json(capi::waiting_in(*conversation))));
    return {};
  });
}

tenon_error* tenon_conversation_dismiss(tenon_conversation* conversation, tenon_text why) {
  return capi::guarded({{conversation, "conversation"}}, [&]() -> Status {
    conversation->talk.dismiss_calls(capi::view(why), conversation->made);
    conversation->made.clear();
    return {};
  });
}

void tenon_conversation_cancel(tenon_conversation* conversation) {
  if (conversation == nullptr) return;
  const std::lock_guard lock(conversation->mutex);
  conversation->cancel.cancel();
}

void tenon_conversation_reset(tenon_conversation* conversation) {
  if (conversation == nullptr) return;
  static_cast<void>(capi::guarded_or(0, [&] {
    conversation->talk.reset();
    conversation->made.clear();
    return 0;
  }));
}

tenon_error* tenon_conversation_save(const tenon_conversation* conversation, tenon_string** saved) {
  capi::clear(saved);
  return capi::guarded({{conversation, "conversation"}, {saved, "saved"}}, [&]() -> Status {
    json::Object kept = conversation->talk.to_json();
    if (!conversation->made.empty()) kept.set("results", capi::results_json(conversation->made));
    *saved = capi::new_string(json::to_string(kept));
    return {};
  });
}

tenon_error* tenon_toolbox_new(tenon_text text, tenon_toolbox** toolbox) {
  capi::clear(toolbox);
  return capi::guarded({{toolbox, "toolbox"}}, [&]() -> Status {
    const auto members =
        capi::object_in(text, "options", {"max_concurrent", "time_limit_s", "max_result_bytes"});
    if (!members) return Unexpected(members.error());
    const auto concurrent =
        capi::number_member(*members, "max_concurrent", 1, 1024, /*is_whole=*/true);
    if (!concurrent) return Unexpected(concurrent.error());
    const auto seconds =
        capi::number_member(*members, "time_limit_s", 0, 1'000'000, /*is_whole=*/false);
    if (!seconds) return Unexpected(seconds.error());
    const auto bytes =
        capi::number_member(*members, "max_result_bytes", 1, 1 << 30, /*is_whole=*/true);
    if (!bytes) return Unexpected(bytes.error());
    chat::Toolbox::Options options;
    if (*concurrent) options.max_concurrent = static_cast<std::size_t>(**concurrent);
    if (*seconds) options.time_limit = capi::milliseconds_of(**seconds);
    if (*bytes) options.max_result_bytes = static_cast<std::size_t>(**bytes);
    *toolbox = new tenon_toolbox{.tools = chat::Toolbox(options)};
    return {};
  });
}

void tenon_toolbox_free(tenon_toolbox* toolbox) {
  delete toolbox;
}

tenon_error* tenon_toolbox_add(tenon_toolbox* toolbox, tenon_text text, tenon_tool_fn function,
                               void* user) {
  return capi::guarded({{toolbox, "toolbox"}}, [&]() -> Status {
    if (function == nullptr) return tenon::invalid("function is NULL");
    auto tool = capi::tool_in(text);
    if (!tool) return Unexpected(std::move(tool.error()));
    std::string name = tool->name;
    return toolbox->tools.add(*std::move(tool), capi::runs(std::move(name), function, user));
  });
}

tenon_error* tenon_toolbox_add_mcp(tenon_toolbox* toolbox, tenon_text text, tenon_text folder) {
  return capi::guarded({{toolbox, "toolbox"}}, [&]() -> Status {
    const auto config = capi::json_in(text, "servers");
    if (!config) return Unexpected(config.error());
    auto entries = tenon::mcp::read_servers(*config);
    if (!entries) return tenon::invalid("servers: " + entries.error().message);
    // A program cannot be told of what is left out, so a faulty entry is an error here.
    for (const tenon::mcp::ServerEntry& entry : *entries) {
      if (entry.fault) return tenon::invalid("servers: " + entry.fault->message);
    }
    for (tenon::mcp::ServerEntry& entry : *entries) {
      if (entry.is_disabled) continue;
      // A server that is a program runs in the caller's folder, unless its entry names one.
      if (entry.config.folder.empty()) entry.config.folder = capi::view(folder);
      toolbox->tools.add(
          chat::mcp_source(std::move(entry.config),
                           {.version = TENON_VERSION, .tokens = tenon::config::tokens_file()}));
    }
    return {};
  });
}

tenon_error* tenon_toolbox_tools(const tenon_toolbox* toolbox, tenon_string** tools) {
  capi::clear(tools);
  return capi::guarded({{toolbox, "toolbox"}, {tools, "tools"}}, [&]() -> Status {
    json::Array list;
    const chat::ToolSet set = toolbox->tools.tools();
    for (const message::Tool& tool : set.list()) list.push_back(tool.raw);
    *tools = capi::new_string(json::to_string(list));
    return {};
  });
}

void tenon_tool_call_end(tenon_tool_call* call, tenon_text result, int is_error) {
  if (call == nullptr) return;
  std::shared_ptr<tenon_tool_call> own;
  const std::lock_guard lock(call->mutex);
  // The caller's reference goes when `own` is destroyed, after the lock has been released: members
  // of one scope are destroyed in reverse order. A second end finds no reference and does nothing.
  own.swap(call->self);
  if (own == nullptr) return;
  static_cast<void>(capi::guarded_or(0, [&] {
    call->output =
        chat::ToolOutput{.text = std::string(capi::view(result)), .is_error = is_error != 0};
    return 0;
  }));
  call->ended.notify_all();
}

int tenon_tool_call_is_cancelled(const tenon_tool_call* call) {
  return call != nullptr && call->context.is_over() ? 1 : 0;
}
