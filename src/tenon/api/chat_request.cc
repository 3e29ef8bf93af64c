#include "tenon/api/chat_request.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/api/left_out_content.h"
#include "tenon/api/request_reader.h"
#include "tenon/message/build.h"
#include "tenon/schema/tool.h"

// How a request is decoded
//
// kChatFields is a table of all fields: name, effect, JSON Schema of the values (for openapi.json),
// and a handler, a method of ChatDecoder. read() (request_reader.h) takes the fields in the order
// of the table and calls the handlers; a field that is not in the table is left out and reported,
// or refused. Handlers that dialects share are in RequestReader; this file has those of Chat
// Completions. finish() then checks what depends on several fields. Every handler returns false
// after fail(), which keeps the first error with the path of the value. What does not change
// whether the answer is right, for example an image in an earlier turn, is left out with a
// diagnostic (leave_out), so that sessions go on; nothing is dropped in silence.

namespace tenon::api {
namespace {

using json::Kind;
using json::Value;
using message::ArgumentOrder;
using message::Message;
using message::Role;
using message::Tool;
using message::ToolMode;

/// Reads one request.
class ChatDecoder : public RequestReader {
 public:
  using RequestReader::RequestReader;
  Result<ChatCompletionRequest, ApiError> run(const Value& body);
  // For callers that have one tool, or the calls of one message, and no request: the C interface.
  Result<Tool, ApiError> one_tool(const Value& value, const std::string& path) {
    Tool out;
    if (!tool(value, path, out)) return Failure<ApiError>(*std::move(error_));
    return out;
  }
  Result<std::vector<message::ToolCall>, ApiError> calls(const Value& value,
                                                         const std::string& path) {
    Message out{.role = Role::assistant};
    if (!tool_calls(value, path, out)) return Failure<ApiError>(*std::move(error_));
    return std::move(out.tool_calls);
  }

  // One handler per field of the request, called for values that are not null.
  bool messages(const Value& value);
  bool tools(const Value& value) { return tool_list(value, "tools", &ChatDecoder::tool); }
  bool tool_choice(const Value& value);
  bool parallel(const Value& value) {
    return boolean(value, "parallel_tool_calls", chat_.parallel_tool_calls);
  }
  bool stream(const Value& value) { return boolean(value, "stream", out_.stream); }
  bool stream_options(const Value& value) {
    return RequestReader::stream_options(value, out_.include_usage);
  }
  bool n(const Value& value) { return choices(value, "n", out_.choices); }
  bool continues_message(const Value& value) {
    return boolean(value, "continue_final_message", continues_message_);
  }
  bool generation_prompt(const Value& value) {
    bool adds = true;
    if (!boolean(value, "add_generation_prompt", adds)) return false;
    adds_generation_prompt_ = adds;
    return true;
  }
  bool max_tokens(const Value& value) { return token_limit(value, "max_tokens"); }
  bool max_completion_tokens(const Value& value) {
    return token_limit(value, "max_completion_tokens");
  }
  bool stop(const Value& value) { return stops(value, "stop"); }
  bool logprobs(const Value& value) { return boolean(value, "logprobs", chat_.logprobs); }
  bool reasoning_effort(const Value& value) {
    return effort_and_thinking(value, "reasoning_effort");
  }
  bool return_token_ids(const Value& value) {
    return boolean(value, "return_token_ids", out_.token_ids);
  }
  bool prompt_token_ids(const Value& value) {
    return token_ids(value, "prompt_token_ids", chat_.prompt_token_ids);
  }
  bool modalities(const Value& value);
  bool functions(const Value& value);
  bool function_call(const Value& value);
  bool audio(const Value&) { return refuse("audio", "this server answers in text only"); }
  bool web_search(const Value&) {
    return leave_out("web_search_options", "this server does not search the web");
  }
  bool moderation(const Value&) { return refuse("moderation", "this server does not moderate"); }
  bool enable_thinking(const Value& value) {
    return RequestReader::enable_thinking(value, "enable_thinking");
  }

 private:
  bool decode_message(const Value& value, const std::string& path, Message& out);
  bool content(const Value& value, const std::string& path, Message& out);
  bool content_part(const Value& value, const std::string& path, Message& out);
  bool tool_calls(const Value& value, const std::string& path, Message& out);
  bool tool_call(const Value& value, const std::string& path, message::ToolCall& out);
  bool arguments(const Value& function, const std::string& path, message::ToolCall& out);
  bool custom_call(const Value& value, const std::string& path, message::ToolCall& out);
  static bool hosted_call(const Value& value, const std::string& type, message::ToolCall& out);
  bool earlier_call(const Value& value, const std::string& path, Message& out);
  bool tool(const Value& value, const std::string& path, Tool& out);
  bool function(const Value& value, const std::string& path, Tool& out);
  bool bare_function(const Value& value, const std::string& path, Tool& out);
  bool kind_of_tool(const Value* type, const std::string& path, bool& is_custom);
  bool custom_tool(const Value& value, const std::string& path, Tool& out);
  bool choice_object(const Value& value);
  bool choose(const Value& value, const std::string& path);
  bool continue_message();
  bool finish();

  ChatCompletionRequest out_;
  std::size_t answered_ = 0;      // number of messages up to the assistant's last one
  std::size_t place_ = 0;         // index of the present message
  std::string function_call_id_;  // of the last `function_call` whose result has not come
  unsigned function_calls_ = 0;
  bool continues_message_ = false;
  std::optional<bool> adds_generation_prompt_;
};

using enum Effect;

// tools comes before tool_choice, because tool_choice names tools.
constexpr auto kOwnChatFields = std::to_array<Field<ChatDecoder>>({
    {{"model", honoured, false, "#ModelName"}, &ChatDecoder::model},
    {{"messages", honoured, true, "#ChatMessages"}, &ChatDecoder::messages},
    {{"tools", honoured, false, "#ChatTools"}, &ChatDecoder::tools},
    {{"tool_choice", honoured, false, "#ChatToolChoice"}, &ChatDecoder::tool_choice},
    {{"functions", honoured, false, "#Functions"}, &ChatDecoder::functions},
    {{"function_call", honoured, false, "#FunctionCallChoice"}, &ChatDecoder::function_call},
    {{"parallel_tool_calls", honoured, false, "#Boolean"}, &ChatDecoder::parallel},
    {{"stream", honoured, false, "#Boolean"}, &ChatDecoder::stream},
    {{"stream_options", honoured, false, "#StreamOptions"}, &ChatDecoder::stream_options},
    {{"n", honoured, false, "#Choices"}, &ChatDecoder::n},
    {{"max_tokens", honoured, false, "#TokenLimit"}, &ChatDecoder::max_tokens},
    {{"max_completion_tokens", honoured, false, "#TokenLimit"},
     &ChatDecoder::max_completion_tokens},
    {{"stop", honoured, false, "#Stop"}, &ChatDecoder::stop},
    {{"temperature", honoured, false, "#Temperature"}, &ChatDecoder::temperature},
    {{"top_p", honoured, false, "#Probability"}, &ChatDecoder::top_p},
    {{"top_k", honoured, false, "#TopK"}, &ChatDecoder::top_k},
    {{"min_p", honoured, false, "#Probability"}, &ChatDecoder::min_p},
    {{"presence_penalty", honoured, false, "#Penalty"}, &ChatDecoder::presence_penalty},
    {{"frequency_penalty", honoured, false, "#Penalty"}, &ChatDecoder::frequency_penalty},
    {{"repetition_penalty", honoured, false, "#RepetitionPenalty"},
     &ChatDecoder::repetition_penalty},
    {{"seed", honoured, false, "#Seed"}, &ChatDecoder::seed},
    {{"logit_bias", honoured, false, "#LogitBias"}, &ChatDecoder::logit_bias},
    {{"logprobs", honoured, false, "#Boolean"}, &ChatDecoder::logprobs},
    {{"top_logprobs", honoured, false, "#TopLogprobs"}, &ChatDecoder::top_logprobs},
    {{"continue_final_message", honoured, false, "#Boolean"}, &ChatDecoder::continues_message},
    {{"add_generation_prompt", honoured, false, "#Boolean"}, &ChatDecoder::generation_prompt},
    {{"reasoning_effort", honoured, false, "#Effort"}, &ChatDecoder::reasoning_effort},
    {{"enable_thinking", honoured, false, "#Boolean"}, &ChatDecoder::enable_thinking},
    {{"thinking_token_budget", honoured, false, "#ThinkingBudget"},
     &ChatDecoder::thinking_token_budget},
    {{"return_token_ids", honoured, false, "#Boolean"}, &ChatDecoder::return_token_ids},
    {{"prompt_token_ids", honoured, false, "#TokenIds"}, &ChatDecoder::prompt_token_ids},
    {{"chat_template_kwargs", honoured, false, "#TemplateKwargs"}, &ChatDecoder::template_kwargs},
    {{"response_format", honoured, false, "#ResponseFormat"}, &ChatDecoder::response_format},
    {{"tenon", honoured, false, "#Tenon"}, &ChatDecoder::tenon},
    {{"rlm", honoured, false, "#Rlm"}, &ChatDecoder::rlm},
    {{"modalities", refused, false, "#Modalities"}, &ChatDecoder::modalities},
    {{"audio", refused}, &ChatDecoder::audio},
    {{"web_search_options", without_effect, false, R"({"type": "object"})"},
     &ChatDecoder::web_search},
    {{"moderation", refused}, &ChatDecoder::moderation},
    {{"metadata", without_effect}, nullptr, Kind::object},
    {{"prediction", without_effect}, nullptr, Kind::object},
    {{"prompt_cache_key", without_effect}, nullptr, Kind::string},
    {{"prompt_cache_options", without_effect}, nullptr, Kind::object},
    {{"prompt_cache_retention", without_effect}, nullptr, Kind::string},
    {{"safety_identifier", without_effect}, nullptr, Kind::string},
    {{"service_tier", without_effect}, nullptr, Kind::string},
    {{"store", without_effect}, nullptr, Kind::boolean},
    {{"user", without_effect}, nullptr, Kind::string},
    {{"verbosity", without_effect}, nullptr, Kind::string},
});
constexpr auto kChatFields = joined(kOwnChatFields, kTextFields<ChatDecoder>);

// ---- messages

// Reads the messages in two passes: how old a message is decides what may be left out of it, and
// that is known once the assistant's last one is.
bool ChatDecoder::messages(const Value& value) {
  if (!kind(value, Kind::array, "messages")) return false;
  const json::Array& items = *value.if_array();
  if (items.empty()) {
    return fail("invalid_value", "messages", "messages must have at least one message");
  }
  chat_.messages.resize(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Value* role = items[i].if_object() == nullptr ? nullptr : present(items[i], "role");
    if (role != nullptr && *role == Value("assistant")) answered_ = i + 1;
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    place_ = i;
    if (!decode_message(items[i], at("messages", i), chat_.messages[i])) return false;
  }
  return true;
}

bool ChatDecoder::decode_message(const Value& value, const std::string& path, Message& out) {
  if (!kind(value, Kind::object, path)) return false;
  const Value* role = required(value, path, "role");
  if (role == nullptr) return false;
  if (!kind(*role, Kind::string, in(path, "role"))) return false;
  // `{"role": "function", "name", "content"}` is the result of an earlier `function_call`, from
  // before there were ids.
  const bool is_function = *role == Value("function");
  const std::optional<Role> known =
      is_function ? Role::tool : message::role_from_name(*role->if_string());
  if (!known) {
    return fail("invalid_value", in(path, "role"),
                in(path, "role") + " must be system, developer, user, assistant or tool, not " +
                    shown(*role->if_string()));
  }
  out.role = *known;
  if (is_function) out.tool_call_id = std::exchange(function_call_id_, {});
  for (const json::Member& member : *value.if_object()) {
    const std::string where = in(path, member.key);
    if (member.key == "role" || member.value.is_null()) continue;
    bool is_right = true;
    if (member.key == "content") {
      is_right = content(member.value, where, out);
    } else if (member.key == "name") {
      is_right = string(member.value, where, out.name);
    } else if (member.key == "tool_calls") {
      is_right = tool_calls(member.value, where, out);
    } else if (member.key == "tool_call_id") {
      is_right = string(member.value, where, out.tool_call_id);
    } else if (member.key == "reasoning_content" || member.key == "reasoning") {
      is_right = string(member.value, where, out.reasoning);
    } else if (member.key == "function_call") {
      is_right = earlier_call(member.value, where, out);
    } else if (member.key == "audio") {
      is_right = leave_out(where, "the model takes text only");
    } else {
      // A template may read members that we do not know.
      out.extra.set(member.key, member.value);
    }
    if (!is_right) return false;
  }
  // An assistant that only calls has no content; a tool may have returned nothing.
  const bool may_be_silent = out.role == Role::assistant || out.role == Role::tool;
  return may_be_silent || required(value, path, "content") != nullptr;
}

// A text, or parts of text, which stay apart: templates may join them in their own way.
bool ChatDecoder::content(const Value& value, const std::string& path, Message& out) {
  if (const std::string* text = value.if_string()) {
    out.content = *text;
    return true;
  }
  const json::Array* items = value.if_array();
  if (items == nullptr && out.role == Role::tool) {  // a result as the tool returned it
    out.content = json::to_string(value);
    return true;
  }
  if (items == nullptr) {
    return fail("invalid_type", path,
                path + " must be a string or an array of parts, not " +
                    std::string(json::kind_name(value.kind())));
  }
  for (std::size_t i = 0; i < items->size(); ++i) {
    if (!content_part((*items)[i], at(path, i), out)) return false;
  }
  if (items->empty()) out.content = "";
  return true;
}

bool ChatDecoder::content_part(const Value& value, const std::string& path, Message& out) {
  if (!kind(value, Kind::object, path)) return false;
  const Value* type = required(value, path, "type");
  if (type == nullptr) return false;
  if (!kind(*type, Kind::string, in(path, "type"))) return false;
  const std::string& name = *type->if_string();
  // An earlier refusal of the assistant is text that it wrote.
  const std::string key = name == "refusal" ? "refusal" : "text";
  if (name != "text" && name != "refusal") {
    // In a result, or in a message that was answered already, it is left out: the session goes on.
    if (out.role == Role::tool || place_ < answered_) {
      out.parts.push_back({.text = left_out_text(name, value)});
      return leave_out(path, "the model takes text only");
    }
    return fail("invalid_value", in(path, "type"),
                in(path, "type") + " " + shown(name) +
                    " is not supported: the model takes parts of type text only");
  }
  const Value* text = required(value, path, key);
  if (text == nullptr) return false;
  message::ContentPart part;
  if (!string(*text, in(path, key), part.text)) return false;
  // As with messages, other members reach the template; a refusal becomes another kind of part.
  const bool is_plain = value.if_object()->size() == 2;
  if (name == "refusal" && !only(value, path, {"type", "refusal"})) return false;
  if (name == "text" && !is_plain) part.raw = value;
  out.parts.push_back(std::move(part));
  return true;
}

bool ChatDecoder::tool_calls(const Value& value, const std::string& path, Message& out) {
  if (!kind(value, Kind::array, path)) return false;
  const json::Array& items = *value.if_array();
  if (!items.empty() && out.role != Role::assistant) {
    return fail("invalid_value", path, path + " belongs to messages of the assistant");
  }
  out.tool_calls.resize(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!tool_call(items[i], at(path, i), out.tool_calls[i])) return false;
  }
  return true;
}

// Reads `{"id", "type": "function", "function": {"name", "arguments"}}`, a custom call or a hosted
// one. The type may be missing. An id may, too; results then answer calls in their order.
bool ChatDecoder::tool_call(const Value& value, const std::string& path, message::ToolCall& out) {
  if (!kind(value, Kind::object, path)) return false;
  // Clients that send back what they have read include the index of the stream, and OpenAI's SDK
  // the parsed arguments; neither adds information.
  const Value* type = present(value, "type");
  const std::string* word = type == nullptr ? nullptr : type->if_string();
  const Value* id = present(value, "id");
  if (id != nullptr && !string(*id, in(path, "id"), out.id)) return false;
  const bool is_hosted = word != nullptr && *word != "function" && *word != "custom";
  if (is_hosted && present(value, "function") == nullptr) return hosted_call(value, *word, out);
  bool is_custom = false;
  if (!is_hosted && !kind_of_tool(type, path, is_custom)) return false;
  if (!only(value, path, {"type", "id", "index", is_custom ? "custom" : "function"})) return false;
  if (is_custom) return custom_call(value, path, out);
  const Value* function = required(value, path, "function", Kind::object);
  const std::string where = in(path, "function");
  if (function == nullptr) return false;
  if (!only(*function, where, {"name", "arguments", "parsed_arguments"})) return false;
  if (!required_string(*function, where, "name", out.name)) return false;
  return arguments(*function, where, out);
}

// `{"type": "web_search", "web_search": {...}}`: what another server ran. To the model it is a call
// of a tool with the type's name.
bool ChatDecoder::hosted_call(const Value& value, const std::string& type, message::ToolCall& out) {
  out.name = message::is_tool_name(type) ? type : "hosted_tool";
  const Value* given = present(value, type);
  out.arguments =
      given != nullptr && given->if_object() != nullptr ? json::to_string(*given) : "{}";
  return true;
}

// Arguments are JSON in a text, or the object itself.
bool ChatDecoder::arguments(const Value& function, const std::string& path,
                            message::ToolCall& out) {
  const Value* given = present(function, "arguments");
  if (given == nullptr || given->if_object() == nullptr) {
    return optional_string(function, path, "arguments", out.arguments);
  }
  out.arguments = json::to_string(*given);
  return true;
}

// `{"name", "arguments"}` of an assistant. Its result is the next message of role `function`; only
// the order says that they belong together.
bool ChatDecoder::earlier_call(const Value& value, const std::string& path, Message& out) {
  if (!kind(value, Kind::object, path)) return false;
  if (out.role != Role::assistant) {
    return fail("invalid_value", path, path + " belongs to messages of the assistant");
  }
  if (!only(value, path, {"name", "arguments"})) return false;
  message::ToolCall& call = out.tool_calls.emplace_back();
  function_call_id_ = call.id = "call_function_" + std::to_string(++function_calls_);
  if (!required_string(value, path, "name", call.name)) return false;
  return arguments(value, path, call);
}

// `{"type": "custom", "custom": {"name", "input"}}`: to the model it is a call of a function.
bool ChatDecoder::custom_call(const Value& value, const std::string& path, message::ToolCall& out) {
  const Value* custom = required(value, path, "custom", Kind::object);
  const std::string where = in(path, "custom");
  if (custom == nullptr) return false;
  if (!only(*custom, where, {"name", "input"})) return false;
  if (!required_string(*custom, where, "name", out.name)) return false;
  std::string input;
  if (!required_string(*custom, where, "input", input)) return false;
  out.arguments = message::arguments_of(input);
  return true;
}

// ---- tools

bool ChatDecoder::tool(const Value& value, const std::string& path, Tool& out) {
  if (!kind(value, Kind::object, path)) return false;
  if (const Value* given = present(value, "type"); given != nullptr && *given == Value("mcp")) {
    return mcp_tool(value, path);
  }
  if (is_tool_search(value)) return true;
  if (is_hosted_tool(value)) return leave_out(path, kRunsNoTools);
  const Value* type = required(value, path, "type");
  bool is_custom = false;
  if (type == nullptr) return false;
  if (!kind_of_tool(type, path, is_custom)) return false;
  if (is_custom) return custom_tool(value, path, out) && deferral(value, path, out);
  const std::string where = in(path, "function");
  if (present(value, "function") == nullptr && present(value, "name") != nullptr) {
    return fail("missing_required_parameter", where,
                where +
                    " is required: name, description and parameters stand in it, not beside "
                    "type as they do in Responses and Messages");
  }
  const Value* inside = required(value, path, "function");
  if (inside == nullptr || !function(*inside, where, out) || !deferral(value, path, out)) {
    return false;
  }
  out.raw = value;  // as it came, so that the template sees its other members
  // `defer_loading` is said to us, not to the model.
  out.raw.if_object()->erase("defer_loading");
  out.raw.find("function")->if_object()->erase("defer_loading");
  return true;
}

bool ChatDecoder::function(const Value& value, const std::string& path, Tool& out) {
  if (!kind(value, Kind::object, path)) return false;
  if (!function_tool(value, path, "parameters", out)) return false;
  // Some clients write `required` beside the parameters.
  if (present(value, "required") == nullptr) return true;
  auto parameters = schema::tool_parameters(value);
  if (!parameters) {
    return fail("invalid_value", in(path, "required"), path + ": " + parameters.error().message);
  }
  out.parameters = *std::move(parameters);
  return true;
}

// The kind of a tool or call by its `type`; null means a function.
bool ChatDecoder::kind_of_tool(const Value* type, const std::string& path, bool& is_custom) {
  is_custom = type != nullptr && *type == Value("custom");
  if (type == nullptr || is_custom || *type == Value("function")) return true;
  return fail("invalid_value", in(path, "type"),
              in(path, "type") + " must be function or custom: other tools are not supported");
}

// `{"type": "custom", "custom": {"name", "description", "format"}}`
bool ChatDecoder::custom_tool(const Value& value, const std::string& path, Tool& out) {
  if (!only(value, path, {"type", "custom"})) return false;
  const Value* custom = required(value, path, "custom", Kind::object);
  const std::string where = in(path, "custom");
  return custom != nullptr && only(*custom, where, {"name", "description", "format"}) &&
         RequestReader::custom_tool(*custom, where, /*nests_grammar=*/true, out);
}

bool ChatDecoder::tool_choice(const Value& value) {
  const std::string* word = value.if_string();
  return word == nullptr ? choice_object(value) : choice_word(*word);
}

// `{"type": "function", "function": {"name"}}`, or `{"type": "allowed_tools", "allowed_tools":
// {"mode", "tools"}}`.
bool ChatDecoder::choice_object(const Value& value) {
  if (value.if_object() == nullptr) {
    return fail("invalid_type", "tool_choice",
                "tool_choice must be a string or an object, not " +
                    std::string(json::kind_name(value.kind())));
  }
  const std::string_view type =
      required_word(value, "tool_choice", "type", {"function", "custom", "allowed_tools"});
  if (type.empty()) return false;
  if (type != "allowed_tools") {
    chat_.tool_choice.mode = ToolMode::required;
    return choose(value, "tool_choice");
  }
  if (!only(value, "tool_choice", {"type", "allowed_tools"})) return false;
  const Value* allowed = required(value, "tool_choice", "allowed_tools", Kind::object);
  const std::string path = "tool_choice.allowed_tools";
  return allowed != nullptr && only(*allowed, path, {"mode", "tools"}) &&
         allowed_tools(*allowed, path, &ChatDecoder::choose);
}

// `{"type": "function", "function": {"name"}}`, or the same with `custom`, naming one of the
// request's tools.
bool ChatDecoder::choose(const Value& value, const std::string& path) {
  bool is_custom = false;
  if (!kind_of_tool(present(value, "type"), path, is_custom)) return false;
  const std::string_view member = is_custom ? "custom" : "function";
  if (!only(value, path, {"type", member})) return false;
  const Value* function = required(value, path, member, Kind::object);
  const std::string where = in(path, member);
  if (function == nullptr) return false;
  if (!only(*function, where, {"name"})) return false;
  return chosen_name(*function, where, is_custom);
}

// ---- sampling and the rest

bool ChatDecoder::modalities(const Value& value) {
  if (!kind(value, Kind::array, "modalities")) return false;
  const json::Array& items = *value.if_array();
  const bool text_only = std::all_of(items.begin(), items.end(),
                                     [](const Value& item) { return item == Value("text"); });
  return text_only || refuse("modalities", "this server answers in text only");
}

// The form of tools before there were several kinds of them.
bool ChatDecoder::functions(const Value& value) {
  if (!kind(value, Kind::array, "functions")) return false;
  out_.has_functions = !value.if_array()->empty();
  if (out_.has_functions && !chat_.tools.empty()) {
    return fail("invalid_value", "functions", "functions and tools cannot both be given");
  }
  return tool_list(value, "functions", &ChatDecoder::bare_function);
}

// A function of the earlier form is put into the form of tools, since templates read `raw`.
bool ChatDecoder::bare_function(const Value& value, const std::string& path, Tool& out) {
  if (!function(value, path, out)) return false;
  json::Object own = *value.if_object();
  own.erase("defer_loading");
  out.raw = json::Object{{"type", "function"}, {"function", std::move(own)}};
  return true;
}

// The choice for `functions`. "none" without functions asks for nothing.
bool ChatDecoder::function_call(const Value& value) {
  if (value == Value("auto")) return true;
  if (value == Value("none")) {
    if (out_.has_functions) chat_.tool_choice.mode = ToolMode::none;
    return true;
  }
  if (!kind(value, Kind::object, "function_call")) return false;
  chat_.tool_choice.mode = ToolMode::required;
  return only(value, "function_call", {"name"}) &&
         chosen_name(value, "function_call", /*is_custom=*/false, "function_call");
}

// The answer continues the last message, as in vLLM and SGLang.
bool ChatDecoder::continue_message() {
  if (!continues_message_) {
    // The two fields of vLLM contradict each other unless exactly one is set, so each combination
    // has its own error.
    if (adds_generation_prompt_.value_or(true)) return true;
    return fail("invalid_value", "add_generation_prompt",
                "add_generation_prompt: false is only taken beside continue_final_message: true");
  }
  if (adds_generation_prompt_.value_or(false)) {
    return fail("invalid_value", "continue_final_message",
                "continue_final_message and add_generation_prompt cannot both be true");
  }
  const Message& last = chat_.messages.back();
  if (last.role != Role::assistant || !last.tool_calls.empty()) {
    return fail("invalid_value", "continue_final_message",
                "continue_final_message needs a last message of the assistant's without calls");
  }
  if (!last.reasoning.empty()) {
    return fail("invalid_value", "continue_final_message",
                "the message that the answer goes on from cannot have reasoning");
  }
  return take_prefill("continue_final_message",
                      "a message cannot be gone on from where response_format holds the answer");
}

// Checks what depends on several fields.
bool ChatDecoder::finish() {
  // An approval continues one answer with its id and its list of calls. Several choices, or the
  // form without ids, cannot say which call is meant.
  chat_.can_approve = out_.choices == 1 && !out_.has_functions;
  if (out_.has_functions) chat_.parallel_tool_calls = false;  // an answer has room for one call
  if (!choice_fits_tools()) return false;
  if (chat_.top_logprobs > 0 && !chat_.logprobs) {
    return fail("invalid_value", "top_logprobs", "top_logprobs needs logprobs: true");
  }
  // Each choice would run the calls that the decisions allow.
  if (!chat_.decisions.empty() && out_.choices > 1) {
    return fail("invalid_value", "n", "n must be 1 beside tenon.approvals");
  }
  if (out_.token_ids) chat_.tells_tokens = true;
  if (!chat_.prompt_token_ids.empty() && !chat_.previous_token_ids.empty()) {
    return fail("invalid_value", "prompt_token_ids",
                "prompt_token_ids and tenon.previous_token_ids cannot both be given");
  }
  if (continues_message_ && !chat_.prompt_token_ids.empty()) {
    return fail("invalid_value", "prompt_token_ids",
                "prompt_token_ids already end where the answer goes on, so they cannot be given "
                "beside continue_final_message");
  }
  return decisions_fit() && usage_fits_stream(out_.include_usage, out_.stream) &&
         continue_message();
}

Result<ChatCompletionRequest, ApiError> ChatDecoder::run(const Value& body) {
  return outcome(read(body, kChatFields) && finish(), out_);
}

}  // namespace

std::span<const FieldInfo> chat_completion_fields() {
  return infos_of<kChatFields>();
}

Result<ChatCompletionRequest, ApiError> decode_chat_completion(const Value& body,
                                                               const DecodeOptions& options) {
  return ChatDecoder(options).run(body);
}

Result<Tool, ApiError> decode_tool(const Value& tool, const std::string& path) {
  return ChatDecoder({.refuses_unknown_fields = true}).one_tool(tool, path);
}

Result<std::vector<message::ToolCall>, ApiError> decode_tool_calls(const Value& calls,
                                                                   const std::string& path) {
  return ChatDecoder({.refuses_unknown_fields = true}).calls(calls, path);
}

}  // namespace tenon::api
