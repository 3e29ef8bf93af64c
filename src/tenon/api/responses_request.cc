#include "tenon/api/responses_request.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/api/client_tools.h"
#include "tenon/api/compaction.h"
#include "tenon/api/left_out_content.h"
#include "tenon/http/client.h"
#include "tenon/json/members.h"

// How a request is decoded
//
// As in chat_request.cc: kResponsesFields is the table of all fields, each with its handler. What
// is special here:
//  - A conversation is a list of items, not messages. item() reads one by its type; assistant()
//    joins what the model has said, called and thought in a row into one message.
//  - Earlier items may be in the store and not in the request: previous() and conversation() read
//    all items of a kept response or conversation, reference() a single item, whose id contains
//    that of its response. found() asks the store once for each id; the number of responses,
//    references and bytes is bounded, because a short request may refer to the same large item many
//    times.
//  - Every item that the model reads is also kept with an id (keep), so that the response can be
//    continued later; out_.input has them in order.
// The table's order is the order of the conversation: instructions, earlier items, then the input.

namespace tenon::api {
namespace {

using json::Kind;
using json::Value;
using message::ContentPart;
using message::Message;
using message::Role;
using message::Tool;
using message::ToolMode;

// Responses whose items one request may refer to; each is read from the store.
constexpr std::size_t kMaxReferred = 32;
// How many items it may refer to; each reference is a copy.
constexpr std::size_t kMaxReferences = 1024;
constexpr std::size_t kMaxReferenceBytes = std::size_t{32} << 20;
constexpr std::size_t kMaxMetadata = 16;

// What the ids of responses begin with; an item's id contains the rest of it, see item_id().
constexpr std::string_view kResponse = "resp_";

// What `include` may name. Only the reasoning and the log probabilities change the answer; the
// others ask for parts of hosted tools and images, which answers of this server never have.
constexpr std::string_view kIncludable[] = {"file_search_call.results",
                                            "web_search_call.results",
                                            "web_search_call.action.sources",
                                            "message.input_image.image_url",
                                            "computer_call_output.output.image_url",
                                            "code_interpreter_call.outputs",
                                            "reasoning.encrypted_content",
                                            "message.output_text.logprobs"};

// The model's name for a tool of a namespace: "crm" and "find" become "crm__find".
std::string name_within(std::string_view name_space, std::string_view name) {
  constexpr std::string_view kJoint = "__";
  if (name_space.empty()) return std::string(name);
  std::string joined(name_space);
  if (!joined.ends_with(kJoint)) joined += kJoint;
  return joined.append(name);
}

// Whether its id says that it is an item of a response's output, see item_id().
bool names_output(const Value& item) {
  const Value* id = present(item, "id");
  const std::string* name = id == nullptr ? nullptr : id->if_string();
  if (name == nullptr) return false;
  return !std::string_view(*name).substr(name->rfind('_') + 1).starts_with("in");
}

// Whether it is a message of the assistant, a call or reasoning, also a call of a hosted tool, or a
// reference to one.
bool is_made_by_model(const Value& item) {
  if (item.if_object() == nullptr) return false;
  const Value* role = present(item, "role");
  if (role != nullptr) return *role == Value("assistant");
  const Value* type = present(item, "type");
  const std::string* name = type == nullptr ? nullptr : type->if_string();
  if (type == nullptr || (name != nullptr && *name == "item_reference")) return names_output(item);
  return name != nullptr && (name->ends_with("_call") || *name == "reasoning" ||
                             *name == "mcp_list_tools" || *name == "mcp_approval_request");
}

/// Reads one request.
class ResponsesDecoder : public RequestReader {
 public:
  ResponsesDecoder(const std::string& id, const FindResponse& find, const DecodeOptions& options)
      : RequestReader(options),
        id_(id),
        find_(find),
        unseal_(options.unseal),
        is_all_past_(options.is_all_past) {}
  Result<ResponsesRequest, ApiError> run(const Value& body);
  Result<ConversationRequest, ApiError> run_conversation(const Value& body);

  // One handler per field of the request, called for values that are not null.
  bool instructions(const Value& value);
  bool previous(const Value& value);
  bool input(const Value& value);
  bool tools(const Value& value) { return tool_list(value, "tools", &ResponsesDecoder::tool); }
  bool tool_choice(const Value& value);
  bool parallel(const Value& value) {
    return boolean(value, "parallel_tool_calls", chat_.parallel_tool_calls);
  }
  bool stream(const Value& value) { return boolean(value, "stream", out_.stream); }
  bool stream_options(const Value& value);
  bool store(const Value& value) { return boolean(value, "store", out_.store); }
  bool metadata(const Value& value);
  bool max_output_tokens(const Value& value) { return token_limit(value, "max_output_tokens"); }
  bool top_logprobs(const Value& value);
  bool include(const Value& value);
  bool text(const Value& value);
  bool reasoning(const Value& value);
  bool background(const Value& value);
  bool truncation(const Value& value) {
    out_.truncates = value == Value("auto");
    return one_of(value, "truncation", {"auto", "disabled"});
  }
  bool stop(const Value& value) { return stops(value, "stop"); }
  bool enable_thinking(const Value& value) {
    return RequestReader::enable_thinking(value, "enable_thinking");
  }
  // An empty list asks for nothing, so it is accepted even by strict servers.
  bool context_management(const Value& value) {
    if (value.if_array() != nullptr && value.if_array()->empty()) return true;
    return leave_out("context_management", "ask for truncation or /v1/responses/compact");
  }
  bool conversation(const Value& value);
  // Codex sends it with every request, so that strict servers take it too.
  bool client_metadata(const Value& value) {
    return kind(value, Kind::object, "client_metadata") &&
           (refuses_unknown_ || leave_out("client_metadata", "this server keeps no telemetry"));
  }
  bool moderation(const Value&) { return refuse("moderation", "this server does not moderate"); }
  bool personality(const Value&) { return refuse("personality", "say it in instructions"); }
  bool prompt(const Value&) { return refuse("prompt", "this server keeps no prompt templates"); }

 private:
  using Texts = std::vector<std::string>;

  // Each of these reads one item, or a member of one, and appends what it says to chat_. `path` is
  // the item's place in the request, for errors.
  bool items(const json::Array& items, const std::string& path);
  bool summary(const Value& value, const std::string& path);
  bool item(const Value& value, const std::string& path);
  bool item_of(std::string_view type, const Value& value, const std::string& path);
  bool said(const Value& value, const std::string& path);
  bool call(const Value& value, const std::string& path, bool is_custom);
  bool result(const Value& value, const std::string& path);
  bool thought(const Value& value, const std::string& path);
  bool reference(const Value& value, const std::string& path);
  bool caller(const Value& value, const std::string& path, std::optional<std::string>& code_id);
  bool grammar_fits(const Tool& tool, const std::string& path);
  bool program(const Value& value, const std::string& path);
  bool program_output(const Value& value, const std::string& path);
  bool client_call(const ClientTool& tool, const Value& value, const std::string& path);
  bool client_result(const Value& value, const std::string& path);
  bool listed_tools(const Value& value, const std::string& path);
  bool server_call(const Value& value, const std::string& path);
  bool asked_approval(const Value& value, const std::string& path);
  bool approval(const Value& value, const std::string& path);
  bool call_of_server(const Value& value, const std::string& path, message::ToolCall& call);
  bool name_of_call(const Value& value, const std::string& path, std::string& out);
  // Which parts are allowed depends on the kind of item.
  enum class Parts : std::uint8_t { asked, said, past };
  bool texts(const Value& value, const std::string& path, Parts kind, Texts& out);
  bool word(const Value& value, const std::string& path, std::string_view& out);
  Message& assistant(bool says_more);
  void keep(Value item, std::string_view type);
  struct Found {
    Value response;                                  // null: there is no such response
    std::map<std::string_view, const Value*> items;  // its items, by id
  };
  const Found* found(const std::string& id, const std::string& path);
  bool tool(const Value& value, const std::string& path, Tool& out);
  bool tool_within(std::string_view name_space, const Value& value, const std::string& path,
                   Tool& out);
  bool name_space(const Value& value, const std::string& path);
  bool choose(const Value& value, const std::string& path);
  bool text_format(const Value& value);
  bool finish();
  json::Object echo_of(const Value& body) const;

  const std::string& id_;
  const FindResponse& find_;
  std::map<std::string, Found> found_;  // results of find_
  std::size_t references_ = 0;
  std::size_t reference_bytes_ = 0;
  const std::function<std::optional<std::string>(std::string_view)>& unseal_;
  const bool is_all_past_;
  bool is_past_ = false;          // the present item stands before an earlier answer
  std::set<std::string> listed_;  // labels of servers whose tools were told before
  bool has_read_ = false;         // there is something for the model to read
  ResponsesRequest out_;
};

using enum Effect;

// In the order of the conversation: instructions, earlier items, the input. tools comes before
// tool_choice, which names tools.
constexpr auto kOwnResponsesFields = std::to_array<Field<ResponsesDecoder>>({
    {{"model", honoured, false, "#ModelName"}, &ResponsesDecoder::model},
    {{"instructions", honoured, false, "#String"}, &ResponsesDecoder::instructions},
    {{"previous_response_id", honoured, false, "#String"}, &ResponsesDecoder::previous},
    {{"conversation", honoured, false, "#ConversationName"}, &ResponsesDecoder::conversation},
    {{"input", honoured, true, "#Input"}, &ResponsesDecoder::input},
    {{"tools", honoured, false, "#ResponsesTools"}, &ResponsesDecoder::tools},
    {{"tool_choice", honoured, false, "#ResponsesToolChoice"}, &ResponsesDecoder::tool_choice},
    {{"parallel_tool_calls", honoured, false, "#Boolean"}, &ResponsesDecoder::parallel},
    {{"text", honoured, false, "#TextOptions"}, &ResponsesDecoder::text},
    {{"reasoning", honoured, false, "#Reasoning"}, &ResponsesDecoder::reasoning},
    {{"max_output_tokens", honoured, false, "#TokenLimit"}, &ResponsesDecoder::max_output_tokens},
    {{"temperature", honoured, false, "#Temperature"}, &ResponsesDecoder::temperature},
    {{"top_p", honoured, false, "#Probability"}, &ResponsesDecoder::top_p},
    {{"top_k", honoured, false, "#TopK"}, &ResponsesDecoder::top_k},
    {{"min_p", honoured, false, "#Probability"}, &ResponsesDecoder::min_p},
    {{"presence_penalty", honoured, false, "#Penalty"}, &ResponsesDecoder::presence_penalty},
    {{"frequency_penalty", honoured, false, "#Penalty"}, &ResponsesDecoder::frequency_penalty},
    {{"repetition_penalty", honoured, false, "#RepetitionPenalty"},
     &ResponsesDecoder::repetition_penalty},
    {{"seed", honoured, false, "#Seed"}, &ResponsesDecoder::seed},
    {{"logit_bias", honoured, false, "#LogitBias"}, &ResponsesDecoder::logit_bias},
    {{"stop", honoured, false, "#Stop"}, &ResponsesDecoder::stop},
    {{"enable_thinking", honoured, false, "#Boolean"}, &ResponsesDecoder::enable_thinking},
    {{"include", honoured, false, "#Include"}, &ResponsesDecoder::include},
    {{"top_logprobs", honoured, false, "#TopLogprobs"}, &ResponsesDecoder::top_logprobs},
    {{"stream", honoured, false, "#Boolean"}, &ResponsesDecoder::stream},
    {{"stream_options", honoured, false, "#NoPadding"}, &ResponsesDecoder::stream_options},
    {{"store", honoured, false, "#Boolean"}, &ResponsesDecoder::store},
    {{"metadata", honoured, false, "#Metadata"}, &ResponsesDecoder::metadata},
    {{"chat_template_kwargs", honoured, false, "#TemplateKwargs"},
     &ResponsesDecoder::template_kwargs},
    {{"tenon", honoured, false, "#Tenon"}, &ResponsesDecoder::tenon},
    {{"rlm", honoured, false, "#Rlm"}, &ResponsesDecoder::rlm},
    {{"background", honoured, false, "#Boolean"}, &ResponsesDecoder::background},
    {{"context_management", without_effect, false, "{}"}, &ResponsesDecoder::context_management},
    {{"moderation", refused}, &ResponsesDecoder::moderation},
    {{"personality", refused}, &ResponsesDecoder::personality},
    {{"prompt", refused}, &ResponsesDecoder::prompt},
    {{"truncation", honoured, false, "#Truncation"}, &ResponsesDecoder::truncation},
    {{"access_programs", without_effect}, nullptr, Kind::object},
    {{"client_metadata", without_effect, false, R"({"type": "object"})"},
     &ResponsesDecoder::client_metadata},
    {{"image", without_effect}, nullptr, Kind::object},
    {{"max_tool_calls", without_effect, false, "#Number"}, nullptr, Kind::number},
    {{"prompt_cache_key", without_effect}, nullptr, Kind::string},
    {{"background_options", without_effect}, nullptr, Kind::object},
    {{"prompt_cache_options", without_effect}, nullptr, Kind::object},
    {{"prompt_cache_retention", without_effect}, nullptr, Kind::string},
    {{"safety_identifier", without_effect}, nullptr, Kind::string},
    {{"service_tier", without_effect}, nullptr, Kind::string},
    {{"user", without_effect}, nullptr, Kind::string},
});
constexpr auto kResponsesFields = joined(kOwnResponsesFields, kTextFields<ResponsesDecoder>);

bool ResponsesDecoder::word(const Value& value, const std::string& path, std::string_view& out) {
  if (!kind(value, Kind::string, path)) return false;
  out = *value.if_string();
  return true;
}

// ---- what the model reads

bool ResponsesDecoder::instructions(const Value& value) {
  Message message{.role = Role::system};
  if (!string(value, "instructions", message.content.emplace())) return false;
  if (!message.content->empty()) chat_.messages.push_back(std::move(message));
  return true;
}

// Reads the response's own input and output; its input includes what came before it, so a chain of
// responses is one look-up and not one for each.
bool ResponsesDecoder::previous(const Value& value) {
  const std::string path = "previous_response_id";
  std::string id;
  if (!string(value, path, id)) return false;
  const Found* kept = found(id, path);
  if (kept == nullptr) return false;
  if (kept->response.is_null()) {
    return fail("previous_response_not_found", path,
                "there is no response " + shown(id) +
                    " here: it was not stored, or it was deleted, or it is too old");
  }
  // Everything in a kept response was answered, so content that the model cannot read is left out
  // of it instead of ending the session.
  is_past_ = true;
  for (const std::string_view list : {"/input", "/response/output"}) {
    const Value* items = json::at_pointer(kept->response, list);
    if (items == nullptr || items->if_array() == nullptr) continue;
    for (std::size_t i = 0; i < items->if_array()->size(); ++i) {
      if (!item((*items->if_array())[i], at(path, i))) return false;
    }
  }
  is_past_ = false;
  return true;
}

// The conversation's id, or an object with it.
bool ResponsesDecoder::conversation(const Value& value) {
  const std::string path = "conversation";
  std::string& id = out_.conversation;
  const bool is_read = value.if_object() == nullptr
                           ? string(value, path, id)
                           : only(value, path, {"id"}) && required_string(value, path, "id", id);
  if (!is_read) return false;
  // The instructions fill only the messages, so both are filled only after previous_response_id.
  if (!chat_.messages.empty() && !out_.input.empty()) {
    return fail("invalid_value", path,
                "conversation and previous_response_id both say what stands before the input: "
                "leave one out");
  }
  const auto kept = id.starts_with("conv_") ? find_(id) : Result<Value, ApiError>(Value());
  if (!kept) {
    if (!error_) error_ = kept.error();
    return false;
  }
  const Value* list = kept->if_object() == nullptr ? nullptr : kept->find("items");
  if (list == nullptr || list->if_array() == nullptr) {
    return fail(
        "invalid_value", path,
        "there is no conversation " + shown(id) + " here: it was deleted, or it is too old");
  }
  if (!items(*list->if_array(), path)) return false;
  // What follows is new to the conversation, and is added to it once the answer is there.
  out_.first_new = out_.input.size();
  return true;
}

// Null after fail(). The store is asked once for each id.
const ResponsesDecoder::Found* ResponsesDecoder::found(const std::string& id,
                                                       const std::string& path) {
  if (const auto known = found_.find(id); known != found_.end()) return &known->second;
  if (!at_most(kMaxReferred, found_.size() + 1, path, "responses referred to")) return nullptr;
  auto kept = id.starts_with(kResponse) ? find_(id) : Value();
  if (!kept) {
    if (!error_) error_ = std::move(kept.error());
    return nullptr;
  }
  // The items are views and pointers into the response, which stays where it is: elements of a
  // std::map do not move.
  Found& found = found_[id];
  found.response = *std::move(kept);
  for (const std::string_view list : {"/response/output", "/input"}) {
    const Value* items = json::at_pointer(found.response, list);
    if (items == nullptr || items->if_array() == nullptr) continue;
    for (const Value& each : *items->if_array()) {
      const Value* name = present(each, "id");
      if (name != nullptr && name->if_string() != nullptr) {
        found.items.emplace(*name->if_string(), &each);
      }
    }
  }
  return &found;
}

bool ResponsesDecoder::input(const Value& value) {
  if (const std::string* all = value.if_string()) {
    return item(json::Object{{"type", "message"}, {"role", "user"}, {"content", *all}}, "input");
  }
  if (value.if_array() == nullptr) {
    return fail("invalid_type", "input", "input must be a string or an array of items");
  }
  // previous_response_id may have set it; the input itself must say something, too.
  has_read_ = false;
  if (!items(*value.if_array(), "input")) return false;
  if (has_read_ || value.if_array()->empty()) return true;
  return fail("invalid_value", "input", "input must have at least one item that can be read");
}

bool ResponsesDecoder::items(const json::Array& items, const std::string& path) {
  std::size_t answered = 0;  // number of items up to the last one that the model made
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (is_made_by_model(items[i])) answered = i + 1;
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    is_past_ = is_all_past_ || i < answered;
    if (!item(items[i], at(path, i))) return false;
  }
  is_past_ = false;
  return true;
}

// A model's summary of a conversation that became too long, which the client keeps.
bool ResponsesDecoder::summary(const Value& value, const std::string& path) {
  std::string sealed;
  if (!required_string(value, path, "encrypted_content", sealed)) return false;
  const auto text = unseal_ ? unseal_(sealed) : std::nullopt;
  if (!text) {
    return fail("invalid_value", in(path, "encrypted_content"),
                in(path, "encrypted_content") +
                    " was not made by this server, or its key is gone: send the messages");
  }
  chat_.messages.push_back({.role = Role::user, .content = text_of_summary(*text)});
  has_read_ = true;
  return true;
}

// A message or a reference may come without its type: `{"role": "user", "content": "Hi"}` and
// `{"id": "msg_..."}`. References are not kept themselves, but the items that they name are, since
// reference() calls item() for each.
bool ResponsesDecoder::item(const Value& value, const std::string& path) {
  if (!kind(value, Kind::object, path)) return false;
  std::string_view type = "message";
  if (const Value* given = present(value, "type")) {
    if (!word(*given, in(path, "type"), type)) return false;
  } else if (present(value, "role") == nullptr) {
    if (present(value, "id") == nullptr) {
      // It is missing, so this call reports the error.
      required(value, path, "type");
      return false;
    }
    type = "item_reference";
  }
  if (type == "item_reference") return reference(value, path);
  if (!item_of(type, value, path)) return false;
  keep(value, type);
  return true;
}

// Reads an item that is no reference. The statuses are those of all kinds of items, because a
// client sends back items of hosted tools as it got them.
bool ResponsesDecoder::item_of(std::string_view type, const Value& value, const std::string& path) {
  if (const Value* id = present(value, "id")) {
    if (!kind(*id, Kind::string, in(path, "id"))) return false;
  }
  if (const Value* status = present(value, "status")) {
    if (!one_of(*status, in(path, "status"),
                {"in_progress", "completed", "incomplete", "failed", "searching", "interpreting",
                 "generating", "calling"})) {
      return false;
    }
  }
  if (type == "compaction" || type == "compaction_summary") return summary(value, path);
  if (type == "message") return said(value, path);
  if (type == "function_call") return call(value, path, /*is_custom=*/false);
  if (type == "custom_tool_call") return call(value, path, /*is_custom=*/true);
  if (type == "function_call_output" || type == "custom_tool_call_output") {
    return result(value, path);
  }
  if (type == "program") return program(value, path);
  if (type == "program_output") return program_output(value, path);
  if (type == "reasoning") return thought(value, path);
  if (type == "mcp_list_tools") return listed_tools(value, path);
  // Without a label it is the work of some other server: it is left out, as below.
  if (type == "mcp_call" && present(value, "server_label") != nullptr) {
    return server_call(value, path);
  }
  if (type == "mcp_approval_request") return asked_approval(value, path);
  if (type == "mcp_approval_response") return approval(value, path);
  if (const ClientTool* tool = client_tool_of_call(type)) return client_call(*tool, value, path);
  if (client_tool_of_result(type) != nullptr) return client_result(value, path);
  // Most likely the work of another server's tools: it is left out, and the session goes on.
  return leave_out(path, "items of type " + shown(type) +
                             " are not read; messages, reasoning, item references, and calls of "
                             "the client's tools with their outputs are");
}

// The assistant's message that the present item belongs to. Text after text begins a new one; text
// after calls does not, because the calls' results must follow them at once.
Message& ResponsesDecoder::assistant(bool says_more) {
  const bool follows = !chat_.messages.empty() && chat_.messages.back().role == Role::assistant;
  const bool has_said = follows && says_more && chat_.messages.back().content &&
                        chat_.messages.back().tool_calls.empty();
  if (!follows || has_said) chat_.messages.push_back({.role = Role::assistant});
  return chat_.messages.back();
}

bool ResponsesDecoder::said(const Value& value, const std::string& path) {
  if (!only(value, path, {"type", "role", "content", "id", "status", "phase"})) return false;
  const Value* role = required(value, path, "role");
  if (role == nullptr ||
      !one_of(*role, in(path, "role"), {"user", "assistant", "system", "developer"})) {
    return false;
  }
  const Role speaker = *message::role_from_name(*role->if_string());
  has_read_ = true;
  const Value* content = required(value, path, "content");
  Texts parts;
  if (content == nullptr || !texts(*content, in(path, "content"),
                                   speaker == Role::assistant ? Parts::said
                                   : is_past_                 ? Parts::past
                                                              : Parts::asked,
                                   parts)) {
    return false;
  }
  if (speaker == Role::assistant) {
    std::optional<std::string>& text = assistant(/*says_more=*/true).content;
    if (!text) text.emplace();
    for (const std::string& part : parts) *text += part;
    return true;
  }
  Message& message = chat_.messages.emplace_back();
  message.role = speaker;
  // Several parts stay apart, as templates may set something between them.
  if (parts.size() > 1) {
    for (std::string& part : parts) message.parts.push_back({.text = std::move(part)});
  } else {
    message.content = parts.empty() ? "" : std::move(parts[0]);
  }
  return true;
}

// Reads a string, or parts of text.
bool ResponsesDecoder::texts(const Value& value, const std::string& path, Parts kind_of_parts,
                             Texts& out) {
  if (const std::string* all = value.if_string()) {
    out.push_back(*all);
    return true;
  }
  if (value.if_array() == nullptr) {
    return fail("invalid_type", path, path + " must be a string or an array of parts");
  }
  const json::Array& parts = *value.if_array();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string where = at(path, i);
    if (!kind(parts[i], Kind::object, where)) return false;
    const Value* given = required(parts[i], where, "type");
    std::string_view type;
    if (given == nullptr || !word(*given, in(where, "type"), type)) return false;
    const bool is_refusal = type == "refusal" && kind_of_parts == Parts::said;
    if (type != "input_text" && type != "output_text" && !is_refusal) {
      if (kind_of_parts != Parts::asked) {
        out.push_back(left_out_text(type, parts[i]));
        leave_out(where, "the model takes text only");
        continue;
      }
      return fail("invalid_value", in(where, "type"),
                  in(where, "type") + " " + shown(type) +
                      " is not supported here: the model takes text only, as \"input_text\" or "
                      "\"output_text\"");
    }
    // Other members of an answer's part mean nothing to the model; `parsed` is added by the SDK.
    if (!only(parts[i], where,
              {"type", is_refusal ? "refusal" : "text", "annotations", "logprobs", "parsed",
               "prompt_cache_breakpoint"})) {
      return false;
    }
    const std::string_view key = is_refusal ? "refusal" : "text";
    if (!required_string(parts[i], where, key, out.emplace_back())) return false;
  }
  return true;
}

// `caller` says who has called the tool: the model, or code of an item `program`.
bool ResponsesDecoder::caller(const Value& value, const std::string& path,
                              std::optional<std::string>& code_id) {
  const Value* given = present(value, "caller");
  if (given == nullptr) return true;
  const std::string where = in(path, "caller");
  if (!kind(*given, Kind::object, where) || !only(*given, where, {"type", "caller_id"}))
    return false;
  const std::string_view type = required_word(*given, where, "type", {"direct", "program"});
  if (type.empty() || type == "direct") return !type.empty();
  return required_string(*given, where, "caller_id", code_id.emplace());
}

// `{"type": "program", "call_id", "code", "fingerprint"}`: code that the model has written.
bool ResponsesDecoder::program(const Value& value, const std::string& path) {
  if (!only(value, path, {"type", "id", "call_id", "code", "fingerprint", "status"})) return false;
  message::ToolCall call{.id = {}, .name = std::string(kProgram), .arguments = {}};
  std::string code;
  if (!required_string(value, path, "call_id", call.id)) return false;
  if (!required_string(value, path, "code", code)) return false;
  call.arguments = json::to_string(json::Object{{"code", std::move(code)}});
  if (!add_code(call.id, path)) return false;
  has_read_ = true;
  assistant(/*says_more=*/false).tool_calls.push_back(std::move(call));
  return true;
}

// `{"type": "program_output", "call_id", "result"}`
bool ResponsesDecoder::program_output(const Value& value, const std::string& path) {
  if (!only(value, path, {"type", "id", "call_id", "result", "status"})) return false;
  Message message{.role = Role::tool, .content = ""};
  if (!required_string(value, path, "call_id", message.tool_call_id)) return false;
  if (!required_string(value, path, "result", *message.content)) return false;
  has_read_ = true;
  place_result(std::move(message));
  return true;
}

// `{"type": "function_call", "call_id", "name", "arguments"}`, or a custom call with `input`
// instead. Arguments may also be an object, as some clients send them back. An input becomes the
// arguments `{"input": "..."}`, which is how the model calls a custom tool.
bool ResponsesDecoder::call(const Value& value, const std::string& path, bool is_custom) {
  const std::string_view what = is_custom ? "input" : "arguments";
  if (!only(value, path,
            {"type", "id", "call_id", "name", what, "status", "caller", "namespace", "async",
             "created_by", "parsed_arguments"})) {
    return false;
  }
  message::ToolCall call;
  std::optional<std::string> code_id;
  std::string said;
  if (!caller(value, path, code_id)) return false;
  if (!required_string(value, path, "call_id", call.id)) return false;
  if (!name_of_call(value, path, call.name)) return false;
  if (const Value* object = present(value, what); object != nullptr && object->if_object()) {
    said = json::to_string(*object);
  } else if (!required_string(value, path, what, said)) {
    return false;
  }
  call.arguments = is_custom ? message::arguments_of(said) : std::move(said);
  has_read_ = true;
  if (code_id) return add_code_call(*std::move(code_id), std::move(call), path);
  assistant(/*says_more=*/false).tool_calls.push_back(std::move(call));
  return true;
}

// The model's name for the called tool.
bool ResponsesDecoder::name_of_call(const Value& value, const std::string& path, std::string& out) {
  std::string name_space;
  if (!required_string(value, path, "name", out)) return false;
  if (!optional_string(value, path, "namespace", name_space)) return false;
  out = name_within(name_space, out);
  return true;
}

// A call of a tool that the client runs and that has a type of its own, such as `local_shell_call`.
// For the model it is a call of a function.
bool ResponsesDecoder::client_call(const ClientTool& tool, const Value& value,
                                   const std::string& path) {
  message::ToolCall call;
  call.name = tool.name;
  if (!required_string(value, path, "call_id", call.id)) return false;
  const Value* member = required(value, path, tool.call_member, Kind::object);
  if (member == nullptr) return false;
  call.arguments = arguments_of_item(tool, *member->if_object());
  has_read_ = true;
  assistant(/*says_more=*/false).tool_calls.push_back(std::move(call));
  return true;
}

// The output is a text, or JSON that the model reads as it is. The result of `apply_patch` may have
// only a status.
bool ResponsesDecoder::client_result(const Value& value, const std::string& path) {
  Message message{.role = Role::tool};
  const std::string_view key = present(value, "call_id") == nullptr ? "id" : "call_id";
  if (!required_string(value, path, key, message.tool_call_id)) return false;
  const Value* output = present(value, "output");
  if (output == nullptr) output = present(value, "status");
  const std::string* text = output == nullptr ? nullptr : output->if_string();
  message.content = text != nullptr ? *text : output == nullptr ? "" : json::to_string(*output);
  has_read_ = true;
  chat_.messages.push_back(std::move(message));
  return true;
}

// The server is asked for its tools itself, so this item is not read. It only says that the client
// has seen the list, so that the answer does not repeat it.
bool ResponsesDecoder::listed_tools(const Value& value, const std::string& path) {
  if (!only(value, path, {"type", "id", "server_label", "tools", "error", "status"})) return false;
  std::string label;
  if (!required_string(value, path, "server_label", label)) return false;
  if (present(value, "error") == nullptr) listed_.insert(std::move(label));
  return true;
}

// Reads the members that a call and a request for its approval share.
bool ResponsesDecoder::call_of_server(const Value& value, const std::string& path,
                                      message::ToolCall& call) {
  std::string server;
  std::string tool;
  if (!optional_string(value, path, "id", call.id)) return false;
  // Results need a call to refer to. The number of items that were read is different for each item.
  if (call.id.empty()) call.id = "mcp_" + std::to_string(out_.input.size());
  if (!required_string(value, path, "server_label", server)) return false;
  if (!required_string(value, path, "name", tool)) return false;
  if (!required_string(value, path, "arguments", call.arguments)) return false;
  add_server_call(call, std::move(server), std::move(tool));
  return true;
}

// A call that the server of tools has answered: one item has both the call and its result, which
// become a call of the assistant and a message of role `tool`.
bool ResponsesDecoder::server_call(const Value& value, const std::string& path) {
  if (!only(value, path,
            {"type", "id", "server_label", "name", "arguments", "output", "error", "status",
             "approval_request_id"})) {
    return false;
  }
  message::ToolCall call;
  std::string approved;
  if (!call_of_server(value, path, call)) return false;
  if (!optional_string(value, path, "approval_request_id", approved)) return false;
  Message message{.role = Role::tool, .content = ""};
  // The call stands in the request for its approval, if that is there.
  if (!approved.empty() && has_call(approved)) {
    message.tool_call_id = approved;
  } else {
    message.tool_call_id = call.id;
    assistant(/*says_more=*/false).tool_calls.push_back(std::move(call));
  }
  const Value* const error = present(value, "error");
  const Value* const output = present(value, "output");
  if (error != nullptr) {
    const Value* text = json::at_pointer(*error, "/content/0/text");
    if (text == nullptr) text = error;
    message.content = text->if_string() != nullptr ? *text->if_string() : json::to_string(*text);
    message.extra.set("is_error", true);
  } else if (output == nullptr) {
    message.content = "Error: the call was not run";
    message.extra.set("is_error", true);
  } else if (!string(*output, in(path, "output"), *message.content)) {
    return false;
  }
  has_read_ = true;
  place_result(std::move(message));
  return true;
}

// An earlier answer ended with this call, because the user must allow it first. It stands in the
// history as a call; approval() below, or a server_call() that names it, says what became of it.
bool ResponsesDecoder::asked_approval(const Value& value, const std::string& path) {
  if (!only(value, path, {"type", "id", "server_label", "name", "arguments", "status"})) {
    return false;
  }
  message::ToolCall call;
  if (!call_of_server(value, path, call)) return false;
  has_read_ = true;
  assistant(/*says_more=*/false).tool_calls.push_back(std::move(call));
  return true;
}

// The user's word on a call that an answer has ended with; the call itself stands in an earlier
// item.
bool ResponsesDecoder::approval(const Value& value, const std::string& path) {
  if (!only(value, path, {"type", "id", "approval_request_id", "approve", "reason", "status"})) {
    return false;
  }
  message::Decision decision;
  if (!required_string(value, path, "approval_request_id", decision.call_id)) return false;
  const Value* const approves = required(value, path, "approve");
  if (approves == nullptr || !boolean(*approves, in(path, "approve"), decision.approves)) {
    return false;
  }
  if (!optional_string(value, path, "reason", decision.reason)) return false;
  has_read_ = true;
  return add_decision(std::move(decision), path);
}

// `{"type": "function_call_output", "call_id", "output"}`. Parts that are not text are left out,
// since the tool has run and cannot answer otherwise.
bool ResponsesDecoder::result(const Value& value, const std::string& path) {
  if (!only(value, path,
            {"type", "id", "call_id", "name", "output", "status", "caller", "namespace",
             "created_by"})) {
    return false;
  }
  Message message{.role = Role::tool};
  std::optional<std::string> code_id;
  if (!caller(value, path, code_id)) return false;
  if (!required_string(value, path, "call_id", message.tool_call_id)) return false;
  if (!optional_string(value, path, "name", message.name)) return false;
  const Value* output = required(value, path, "output");
  Texts parts;
  if (output != nullptr && output->if_object() != nullptr) {  // as the tool returned it
    parts.push_back(json::to_string(*output));
  } else if (output == nullptr || !texts(*output, in(path, "output"), Parts::past, parts)) {
    return false;
  }
  if (parts.size() > 1) {
    for (std::string& part : parts) message.parts.push_back({.text = std::move(part)});
  } else {
    message.content = parts.empty() ? "" : std::move(parts[0]);
  }
  has_read_ = true;
  // What code has called is not told to the model, but to the code.
  if (!take_code_result(message)) chat_.messages.push_back(std::move(message));
  return true;
}

// Reads the reasoning's text, or else what the client keeps of it, or else its summary.
bool ResponsesDecoder::thought(const Value& value, const std::string& path) {
  if (!only(value, path, {"type", "id", "summary", "content", "encrypted_content", "status"})) {
    return false;
  }
  std::string text;
  for (const std::string key : {"content", "summary"}) {
    const Value* list = present(value, key);
    if (list == nullptr) continue;
    const std::string where = in(path, key);
    if (!kind(*list, Kind::array, where)) return false;
    // The summary repeats the content in short, so it counts only where there is no content. Both
    // are checked.
    const bool counts = text.empty();
    for (std::size_t i = 0; i < list->if_array()->size(); ++i) {
      const Value& part = (*list->if_array())[i];
      std::string piece;
      if (!kind(part, Kind::object, at(where, i))) return false;
      if (!only(part, at(where, i), {"type", "text"})) return false;
      if (!required_string(part, at(where, i), "text", piece)) return false;
      if (counts) text += piece;
    }
  }
  std::string sealed;
  if (!optional_string(value, path, "encrypted_content", sealed)) return false;
  // What we encrypted for the client is the whole text, so it goes before the summary. Another
  // server's encrypted text cannot be read; then the summary stays.
  if (present(value, "content") == nullptr && !sealed.empty() && unseal_) {
    text = unseal_(sealed).value_or(text);
  }
  if (text.empty()) return true;
  has_read_ = true;
  assistant(/*says_more=*/false).reasoning += text;
  return true;
}

// An item's id contains the id of its response: "msg_abc_0" is an item of "resp_abc".
bool ResponsesDecoder::reference(const Value& value, const std::string& path) {
  if (!only(value, path, {"type", "id"})) return false;
  std::string id;
  if (!required_string(value, path, "id", id)) return false;
  const std::size_t begin = id.find('_');
  const std::size_t end = id.rfind('_');
  if (begin != std::string::npos && begin < end) {
    const std::string response = std::string(kResponse) + id.substr(begin + 1, end - begin - 1);
    const Found* kept = found(response, in(path, "id"));
    if (kept == nullptr) return false;
    if (const auto known = kept->items.find(id); known != kept->items.end()) {
      // The request has a few bytes for each reference, however large the item is, so the copies
      // are bounded by number and by size.
      if (!at_most(kMaxReferences, ++references_, "input", "references")) return false;
      reference_bytes_ += json::to_string(*known->second).size();
      if (!at_most(kMaxReferenceBytes, reference_bytes_, "input", "bytes referred to"))
        return false;
      // An answer came after this item.
      const bool was_past = std::exchange(is_past_, true);
      if (!item(*known->second, path)) return false;
      is_past_ = was_past;
      return true;
    }
  }
  return fail("item_not_found", in(path, "id"),
              "there is no item " + shown(id) +
                  " here: its response was not stored, or it was deleted, or it is too old");
}

// Keeps the item in the form in which it is listed later: with id and status, and content in parts.
void ResponsesDecoder::keep(Value item, std::string_view type) {
  json::Object& object = *item.if_object();
  json::Object kept{{"id", nullptr}, {"type", type}};
  for (json::Member& member : std::vector<json::Member>(object.members())) {
    if (!member.value.is_null()) kept.set(member.key, std::move(member.value));
  }
  // The id of `kept` stands first, and a client's own id has replaced the null by now. "in" marks
  // input: names_output() tells it from output by that.
  if (kept.find("id")->is_null()) {
    kept.set("id", item_id(type, id_, "in" + std::to_string(out_.input.size())));
  }
  const bool has_status =
      type != "reasoning" && type != "mcp_list_tools" && !type.starts_with("mcp_approval");
  if (!kept.contains("status") && has_status) kept.set("status", "completed");
  if (type == "message" && kept.find("content")->if_string() != nullptr) {
    const bool is_answer = *kept.find("role") == Value("assistant");
    json::Object part{{"type", is_answer ? "output_text" : "input_text"},
                      {"text", *kept.find("content")}};
    if (is_answer) part.set("annotations", json::Array());
    kept.set("content", json::Array{std::move(part)});
  }
  if (type == "reasoning" && !kept.contains("summary")) kept.set("summary", json::Array());
  out_.input.emplace_back(std::move(kept));
}

// ---- tools

bool ResponsesDecoder::tool(const Value& value, const std::string& path, Tool& out) {
  if (!kind(value, Kind::object, path)) return false;
  const Value* given = required(value, path, "type");
  std::string_view type;
  if (given == nullptr || !word(*given, in(path, "type"), type)) return false;
  if (type == "namespace") return name_space(value, path);
  // Shell tools say where they run: only the client's own machine is possible here.
  if (const ClientTool* known = client_tool_of_responses(type)) {
    const Value* environment = present(value, "environment");
    const Value* where = environment == nullptr ? nullptr : json::at_pointer(*environment, "/type");
    if (where != nullptr && *where != Value("local")) return leave_out(path, kRunsNoTools);
    out = function_of(*known, std::string(known->name));
    out_.called_as[out.name] = {.name_space = {}, .name = out.name, .tool = known};
    return true;
  }
  return tool_within("", value, path, out);
}

// `{"type": "namespace", "name", "description", "tools": [...]}`: its tools become the request's.
bool ResponsesDecoder::name_space(const Value& value, const std::string& path) {
  std::string name;
  if (!required_string(value, path, "name", name)) return false;
  const Value* tools = required(value, path, "tools", Kind::array);
  if (tools == nullptr) return false;
  const json::Array& items = *tools->if_array();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string where = at(in(path, "tools"), i);
    Tool tool;
    if (!kind(items[i], Kind::object, where)) return false;
    if (!at_most(kMaxTools, chat_.tools.size() + 1, "tools", "tools")) return false;
    if (!tool_within(name, items[i], where, tool)) return false;
    if (!tool.name.empty()) chat_.tools.push_back(std::move(tool));
  }
  return true;
}

// Reads a tool of the list, or of a namespace if `name_space` is not empty; its name then becomes
// `NAMESPACE__NAME`, and called_as remembers both parts for the answer. It leaves `out.name` empty
// for a tool that is left out.
bool ResponsesDecoder::tool_within(std::string_view name_space, const Value& value,
                                   const std::string& path, Tool& out) {
  std::string_view type;
  const Value* given = required(value, path, "type");
  if (given == nullptr || !word(*given, in(path, "type"), type)) return false;
  std::string own_name;
  if (type == "mcp" && name_space.empty()) return mcp_tool(value, path);
  if (is_tool_search(value)) return true;
  if (type == "programmatic_tool_calling") {
    return only(value, path, {"type"}) && code_tool(path, std::string(kProgram), std::string(type));
  }
  if (is_hosted_tool(value)) return leave_out(path, kRunsNoTools);
  if (!name_space.empty()) {
    if (!required_string(value, path, "name", own_name)) return false;
    const std::string name = name_within(name_space, own_name);
    Value renamed = value;
    renamed.if_object()->set("name", name);
    out_.called_as[name] = {.name_space = std::string(name_space), .name = own_name};
    return tool_within("", renamed, path, out);
  }
  if (type == "function") {
    return only(value, path,
                {"type", "name", "description", "parameters", "strict", "allowed_callers", "async",
                 "defer_loading", "output_schema"}) &&
           flat_function_tool(value, path, "parameters", out) &&
           callers(value, path, out.for_model, out.for_code);
  }
  if (type == "custom") {
    return only(value, path,
                {"type", "name", "description", "format", "allowed_callers", "async",
                 "defer_loading"}) &&
           custom_tool(value, path, /*nests_grammar=*/false, out) && deferral(value, path, out) &&
           callers(value, path, out.for_model, out.for_code) && grammar_fits(out, path);
  }
  return fail("invalid_value", in(path, "type"),
              in(path, "type") + " " + shown(type) +
                  " is not known: tools with parameters have the type function");
}

// A mask holds what the model writes itself; what code computes is held by schemas alone.
bool ResponsesDecoder::grammar_fits(const Tool& tool, const std::string& path) {
  if (!tool.for_code || !tool.grammar) return true;
  const std::string where = in(path, "allowed_callers");
  return fail("invalid_value", where,
              where +
                  " cannot have \"programmatic\": no grammar is checked where code calls a "
                  "tool, so leave it or format out");
}

// A word, `{"type": "allowed_tools", "mode", "tools"}`, or one tool that must be called.
bool ResponsesDecoder::tool_choice(const Value& value) {
  if (const std::string* word = value.if_string()) return choice_word(*word);
  const std::string path = "tool_choice";
  if (!kind(value, Kind::object, path)) return false;
  const Value* type = required(value, path, "type");
  if (type == nullptr) return false;
  if (*type != Value("allowed_tools")) {
    chat_.tool_choice.mode = ToolMode::required;
    return choose(value, path);
  }
  if (!only(value, path, {"type", "mode", "tools"})) return false;
  return allowed_tools(value, path, &ResponsesDecoder::choose);
}

// `{"type": "function", "name"}`, or `custom`, naming one of the request's tools.
bool ResponsesDecoder::choose(const Value& value, const std::string& path) {
  const Value* type = required(value, path, "type");
  std::string_view name;
  if (type == nullptr || !word(*type, in(path, "type"), name)) return false;
  // `{"type": "shell"}`: the type is the name.
  if (const ClientTool* known = client_tool_of_responses(name)) {
    const Value named(json::Object{{"name", known->name}});
    return chosen_name(named, path, /*is_custom=*/false);
  }
  if (name == "mcp" && calls_servers()) return chosen_server(value, path);
  if (!one_of(*type, in(path, "type"), {"function", "custom"})) return false;
  if (!only(value, path, {"type", "name", "namespace"})) return false;
  std::string wanted;
  if (!name_of_call(value, path, wanted)) return false;
  const Value named(json::Object{{"name", wanted}});
  return chosen_name(named, path, /*is_custom=*/*type == Value("custom"));
}

// ---- the rest

bool ResponsesDecoder::text(const Value& value) {
  if (!kind(value, Kind::object, "text")) return false;
  if (!only(value, "text", {"format", "verbosity"})) return false;
  if (const Value* given = present(value, "verbosity")) {
    if (!one_of(*given, "text.verbosity", {"low", "medium", "high"})) return false;
  }
  const Value* format = present(value, "format");
  return format == nullptr || text_format(*format);
}

bool ResponsesDecoder::text_format(const Value& value) {
  const std::string path = "text.format";
  if (!kind(value, Kind::object, path)) return false;
  const Value* type = required(value, path, "type");
  if (type == nullptr || !one_of(*type, in(path, "type"), {"text", "json_object", "json_schema"})) {
    return false;
  }
  if (*type == Value("json_schema")) {
    return only(value, path, {"type", "name", "description", "schema", "strict"}) &&
           answer_schema(value, path);
  }
  if (*type == Value("json_object")) {
    chat_.response_format.kind = message::ResponseFormat::Kind::json;
  }
  return only(value, path, {"type"});
}

// Only the effort has an effect. The others are checked, so that a mistake is found, and then
// ignored: this server does not summarise reasoning, and how much of it a prompt repeats is the
// template's decision.
bool ResponsesDecoder::reasoning(const Value& value) {
  if (!kind(value, Kind::object, "reasoning")) return false;
  if (!only(value, "reasoning", {"effort", "summary", "generate_summary", "context", "mode"})) {
    return false;
  }
  for (const std::string key : {"summary", "generate_summary"}) {
    const Value* given = present(value, key);
    if (given == nullptr) continue;
    if (!one_of(*given, in("reasoning", key), {"auto", "concise", "detailed"})) return false;
  }
  if (const Value* context = present(value, "context")) {
    if (!one_of(*context, "reasoning.context", {"auto", "current_turn", "all_turns"})) return false;
  }
  if (const Value* mode = present(value, "mode"); mode != nullptr && *mode != Value("standard")) {
    return refuse("reasoning.mode", "models think in one way here");
  }
  const Value* given = present(value, "effort");
  return given == nullptr || effort_and_thinking(*given, "reasoning.effort");
}

// The number of names is bounded by those that exist; a name may come twice.
bool ResponsesDecoder::include(const Value& value) {
  if (!kind(value, Kind::array, "include")) return false;
  const json::Array& items = *value.if_array();
  if (!at_most(std::size(kIncludable), items.size(), "include", "names")) return false;
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::string_view name;
    if (!word(items[i], at("include", i), name)) return false;
    if (std::find(std::begin(kIncludable), std::end(kIncludable), name) == std::end(kIncludable)) {
      return fail("invalid_value", at("include", i),
                  at("include", i) + ": " + shown(name) + " is nothing that a response has");
    }
    if (name == "message.output_text.logprobs") chat_.logprobs = true;
    if (name == "reasoning.encrypted_content") out_.wants_sealed = true;
  }
  return true;
}

bool ResponsesDecoder::top_logprobs(const Value& value) {
  if (!RequestReader::top_logprobs(value)) return false;
  if (chat_.top_logprobs == 0 || chat_.logprobs) return true;
  return fail("invalid_value", "top_logprobs",
              "top_logprobs needs \"message.output_text.logprobs\" in include");
}

bool ResponsesDecoder::stream_options(const Value& value) {
  if (!kind(value, Kind::object, "stream_options")) return false;
  if (!only(value, "stream_options", {"include_obfuscation"})) return false;
  const Value* given = present(value, "include_obfuscation");
  bool is_padded = false;
  if (given == nullptr) return true;
  if (!boolean(*given, "stream_options.include_obfuscation", is_padded)) return false;
  return !is_padded || refuse("stream_options.include_obfuscation", "events are not padded");
}

bool ResponsesDecoder::metadata(const Value& value) {
  if (!kind(value, Kind::object, "metadata")) return false;
  if (!at_most(kMaxMetadata, value.if_object()->size(), "metadata", "entries")) return false;
  for (const json::Member& member : *value.if_object()) {
    if (!kind(member.value, Kind::string, in("metadata", member.key))) return false;
  }
  return true;
}

bool ResponsesDecoder::background(const Value& value) {
  return boolean(value, "background", out_.background);
}

// Checks what depends on several fields.
bool ResponsesDecoder::finish() {
  for (const message::Decision& decision : chat_.decisions) {
    if (has_call(decision.call_id)) continue;
    return fail("invalid_value", "input",
                "input approves or refuses " + shown(decision.call_id) +
                    ", but no item asks for that approval: send that item too, or "
                    "previous_response_id");
  }
  if (!decisions_differ()) return false;
  if (chat_.messages.empty() || out_.input.empty()) {
    return fail("invalid_value", "input", "input must have at least one item that can be read");
  }
  if (out_.background && !out_.store) {
    return fail("invalid_value", "background",
                "background needs store: the client comes back to the response");
  }
  for (message::HostedServer& server : chat_.servers) {
    // The answer lists the tools of a server only if an earlier one has not done so.
    server.is_listed = listed_.contains(server.label);
  }
  chat_.can_approve = true;
  return choice_fits_tools() && code_fits();
}

// The members of the response that repeat the request, with OpenAI's defaults for what was left
// out.
json::Object ResponsesDecoder::echo_of(const Value& body) const {
  const auto given = [&](std::string_view key, Value otherwise) {
    const Value* value = present(body, key);
    return value == nullptr ? std::move(otherwise) : *value;
  };
  const auto part = [&](std::string_view key, std::string_view member, Value otherwise) {
    const Value* value = present(body, key);
    const Value* inner = value == nullptr ? nullptr : present(*value, member);
    return inner == nullptr ? std::move(otherwise) : *inner;
  };
  Value tools = given("tools", json::Array());
  for (Value& tool : *tools.if_array()) {
    // What is stored and shown must have no secrets.
    if (*tool.find("type") == Value("mcp")) {
      for (const std::string_view secret : {"headers", "authorization"}) {
        tool.if_object()->erase(secret);
      }
      Value* const url = tool.find("server_url");
      if (url != nullptr && url->if_string() != nullptr) {
        *url = http::without_secrets(*url->if_string());
      }
    }
    if (*tool.find("type") != Value("function")) continue;
    // Required in the SDK's type of a function, null if the request had none.
    for (const std::string key : {"parameters", "strict"}) {
      if (!tool.if_object()->contains(key)) tool.if_object()->set(key, Value());
    }
  }
  Value format = part("text", "format", json::Object{{"type", "text"}});
  json::Object* const schema = format.if_object();
  if (schema != nullptr && !schema->contains("description") &&
      json::text_in(*schema, "type") == "json_schema") {
    schema->set("description", Value());
  }
  json::Object text{{"format", std::move(format)}};
  if (Value verbosity = part("text", "verbosity", {}); !verbosity.is_null()) {
    text.set("verbosity", std::move(verbosity));
  }
  json::Object reasoning{{"effort", part("reasoning", "effort", {})},
                         {"summary", part("reasoning", "summary", {})}};
  json::Object echo{{"background", out_.background},
                    {"instructions", given("instructions", {})},
                    {"max_output_tokens", given("max_output_tokens", {})},
                    {"max_tool_calls", given("max_tool_calls", {})},
                    {"metadata", given("metadata", json::Object())},
                    {"model", chat_.model},
                    {"parallel_tool_calls", chat_.parallel_tool_calls},
                    {"previous_response_id", given("previous_response_id", {})},
                    {"prompt_cache_key", given("prompt_cache_key", {})},
                    {"reasoning", std::move(reasoning)},
                    {"safety_identifier", given("safety_identifier", {})},
                    {"presence_penalty", given("presence_penalty", 0)},
                    {"frequency_penalty", given("frequency_penalty", 0)},
                    {"service_tier", "default"},
                    {"store", out_.store},
                    {"temperature", given("temperature", 1)},
                    {"text", std::move(text)},
                    {"tool_choice", given("tool_choice", "auto")},
                    {"tools", std::move(tools)},
                    {"top_logprobs", chat_.top_logprobs},
                    {"top_p", given("top_p", 1)},
                    {"truncation", given("truncation", "disabled")},
                    {"user", given("user", {})}};
  if (!out_.conversation.empty()) {
    echo.set("conversation", json::Object{{"id", out_.conversation}});
  }
  return echo;
}

Result<ResponsesRequest, ApiError> ResponsesDecoder::run(const Value& body) {
  const bool is_right = read(body, kResponsesFields) && finish();
  if (is_right) out_.echo = echo_of(body);
  return outcome(is_right, out_);
}

// The body of `POST /v1/conversations`, and of adding items to one. No table: it has two members.
Result<ConversationRequest, ApiError> ResponsesDecoder::run_conversation(const Value& body) {
  const auto read_all = [&] {
    if (!kind(body, Kind::object, "") || !only(body, "", {"items", "metadata"})) return false;
    if (const Value* list = present(body, "items")) {
      if (!kind(*list, Kind::array, "items")) return false;
      if (!items(*list->if_array(), "items")) return false;
    }
    const Value* given = present(body, "metadata");
    return given == nullptr || metadata(*given);
  };
  if (!read_all()) return Failure<ApiError>(*std::move(error_));
  ConversationRequest out{.items = std::move(out_.input), .left_out = std::move(left_out_)};
  if (const Value* given = present(body, "metadata")) {
    out.metadata = *given->if_object();
    out.has_metadata = true;
  }
  return out;
}

}  // namespace

std::span<const FieldInfo> responses_fields() {
  return infos_of<kResponsesFields>();
}

Result<ResponsesRequest, ApiError> decode_response(const Value& body, const std::string& id,
                                                   const FindResponse& find,
                                                   const DecodeOptions& options) {
  return ResponsesDecoder(id, find, options).run(body);
}

Result<ConversationRequest, ApiError> decode_conversation(const Value& body, const std::string& id,
                                                          const DecodeOptions& options) {
  // Items of a conversation may not refer to others, so the store is not asked.
  const FindResponse nothing = [](const std::string&) { return Result<Value, ApiError>(Value()); };
  return ResponsesDecoder(id, nothing, options).run_conversation(body);
}

// "msg_abc_0" for the first item of "resp_abc"; types without a row get "item_abc_0".
std::string item_id(std::string_view type, std::string_view response, const std::string& place) {
  constexpr std::pair<std::string_view, std::string_view> kPrefixes[] = {
      {"message", "msg_"},
      {"function_call", "fc_"},
      {"function_call_output", "fco_"},
      {"custom_tool_call", "ctc_"},
      {"custom_tool_call_output", "ctco_"},
      {"local_shell_call", "lsh_"},
      {"shell_call", "sh_"},
      {"apply_patch_call", "apc_"},
      {"compaction", "cmp_"},
      {"mcp_list_tools", "mcpl_"},
      {"mcp_call", "mcp_"},
      {"mcp_approval_request", "mcpr_"},
      {"mcp_approval_response", "mcpa_"},
      {"program", "prog_"},
      {"program_output", "progo_"},
      {"reasoning", "rs_"}};
  std::string id = "item_";
  for (const auto& [name, prefix] : kPrefixes) {
    if (name == type) id = prefix;
  }
  if (response.starts_with(kResponse)) response.remove_prefix(kResponse.size());
  return id + std::string(response) + "_" + place;
}

}  // namespace tenon::api
