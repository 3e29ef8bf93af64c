#include "tenon/api/messages_request.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/api/client_tools.h"
#include "tenon/api/left_out_content.h"
#include "tenon/message/build.h"

// How a request is decoded
//
// As in chat_request.cc: kMessagesFields is the table of all fields, each with its handler. What is
// special here: a message is a list of blocks, and results of tools are blocks of user messages.
// They become messages of role `tool` of their own (user_blocks, tool_result), with the text
// between them in its place, so that below this layer a conversation looks the same in all
// dialects. is_past_ says that the present block stands before an answer of the assistant, or in a
// result: content that cannot be read is then left out with a text in its place, because the
// session must go on; in a new message it is refused. context_management only becomes ContextEdits
// here; messages_routes.cc applies them.

namespace tenon::api {
namespace {

using json::Kind;
using json::Value;
using message::ContentPart;
using message::Message;
using message::ResponseFormat;
using message::Role;
using message::Tool;
using message::ToolMode;

constexpr std::string_view kCodeName = "code_execution";

/// Reads one request.
class MessagesDecoder : public RequestReader {
 public:
  using RequestReader::RequestReader;
  Result<MessagesRequest, ApiError> run(const Value& body, bool counts_only);

  // One handler per field of the request, called for values that are not null.
  bool messages(const Value& value);
  bool system(const Value& value);
  bool max_tokens(const Value& value) { return token_limit(value, "max_tokens"); }
  bool tools(const Value& value) { return tool_list(value, "tools", &MessagesDecoder::tool); }
  bool tool_choice(const Value& value);
  bool stream(const Value& value) { return boolean(value, "stream", out_.stream); }
  bool stop_sequences(const Value& value) {
    return kind(value, Kind::array, "stop_sequences") && stops(value, "stop_sequences");
  }
  bool thinking(const Value& value);
  bool output_config(const Value& value);
  // The earlier name of `output_config.format`.
  bool earlier_format(const Value& value) { return output_format(value, "output_format"); }
  // Code of each run begins anew, so the container of an earlier answer has nothing to find again.
  bool container(const Value& value) {
    return (chat_.code && value.if_string() != nullptr) ||
           leave_out("container", "this server has no containers with files or skills");
  }
  bool compaction(const Value&) { return refuse("compaction", "nothing is ever cut or summed up"); }
  // This code tells the SDKs that they must send all messages each time.
  bool thread(const Value&) {
    return fail("thread_unsupported_request", "thread",
                "thread is not supported: this server keeps no messages, send them all");
  }
  // For fields of which any kind of value is ignored.
  bool any(const Value&) { return true; }
  bool context_management(const Value& value);
  bool diagnostics(const Value& value);
  bool mcp_servers(const Value& value) { return mcp_server_list(value, "mcp_servers"); }

 private:
  using Parts = std::vector<ContentPart>;

  bool decode_message(const Value& value, const std::string& path);
  bool user_blocks(const json::Array& blocks, const std::string& path);
  bool assistant_blocks(const json::Array& blocks, const std::string& path, Message& out);
  bool tool_use(const Value& block, const std::string& path, Message& out);
  bool caller(const Value& block, const std::string& path, std::optional<std::string>& code_id);
  bool tool_result(const Value& block, const std::string& path);
  bool mcp_use(const Value& block, const std::string& path, Message& out);
  bool mcp_result(const Value& block, const std::string& path);
  bool result_content(const Value& block, const std::string& path, Message& out);
  bool block_type(const Value& block, const std::string& path, std::string_view& type);
  bool text_blocks(const Value& value, const std::string& path, Parts& parts);
  bool text_block(const Value& block, std::string_view type, const std::string& path, Parts& parts);
  bool text(const Value& block, std::string_view key, const std::string& path, Parts& parts);
  bool document(const Value& block, const std::string& path, Parts& parts);
  bool tool(const Value& value, const std::string& path, Tool& out);
  bool runs_code(const Value& value, const std::string& path);
  bool code_use(const Value& block, const std::string& path, Message& out);
  bool code_result(const Value& block, const std::string& path);
  bool output_format(const Value& value, const std::string& path);
  bool edit(const Value& value, const std::string& path);
  bool uses_edit(const Value& value, const std::string& path, ContextEdit& out);
  bool thinking_edit(const Value& value, const std::string& path, ContextEdit& out);
  bool counted(const Value& value, const std::string& path,
               std::initializer_list<std::string_view> types, std::uint64_t& out);
  bool finish(bool counts_only);

  bool other_block(const Value& block, std::string_view type, const std::string& path,
                   Parts& parts);

  MessagesRequest out_;
  // The present block stands before an answer of the assistant, or in the result of a tool: the
  // session must go on, whatever it contains.
  bool is_past_ = false;
};

using enum Effect;

// mcp_servers comes before tools, whose toolsets name servers, tools before tool_choice, which
// names tools, and system before messages, which follow it.
constexpr auto kOwnMessagesFields = std::to_array<Field<MessagesDecoder>>({
    {{"model", honoured, false, "#ModelName"}, &MessagesDecoder::model},
    {{"system", honoured, false, "#System"}, &MessagesDecoder::system},
    {{"messages", honoured, true, "#AnthropicMessages"}, &MessagesDecoder::messages},
    {{"max_tokens", honoured, false, "#TokenLimit"}, &MessagesDecoder::max_tokens},
    {{"mcp_servers", honoured, false, "#McpServers"}, &MessagesDecoder::mcp_servers},
    {{"tools", honoured, false, "#AnthropicTools"}, &MessagesDecoder::tools},
    {{"tool_choice", honoured, false, "#AnthropicToolChoice"}, &MessagesDecoder::tool_choice},
    {{"stream", honoured, false, "#Boolean"}, &MessagesDecoder::stream},
    {{"stop_sequences", honoured, false, "#StopSequences"}, &MessagesDecoder::stop_sequences},
    {{"temperature", honoured, false, "#Temperature"}, &MessagesDecoder::temperature},
    {{"top_p", honoured, false, "#Probability"}, &MessagesDecoder::top_p},
    {{"top_k", honoured, false, "#TopK"}, &MessagesDecoder::top_k},
    {{"thinking", honoured, false, "#Thinking"}, &MessagesDecoder::thinking},
    {{"output_config", honoured, false, "#OutputConfig"}, &MessagesDecoder::output_config},
    {{"output_format", honoured, false, "#OutputFormat"}, &MessagesDecoder::earlier_format},
    {{"chat_template_kwargs", honoured, false, "#TemplateKwargs"},
     &MessagesDecoder::template_kwargs},
    {{"context_management", honoured, false, "#ContextManagement"},
     &MessagesDecoder::context_management},
    {{"diagnostics", honoured}, &MessagesDecoder::diagnostics, Kind::object},
    {{"tenon", honoured, false, "#Tenon"}, &MessagesDecoder::tenon},
    {{"rlm", honoured, false, "#Rlm"}, &MessagesDecoder::rlm},
    {{"container", without_effect, false, "{}"}, &MessagesDecoder::container},
    {{"compaction", refused}, &MessagesDecoder::compaction},
    {{"thread", refused}, &MessagesDecoder::thread},
    {{"billing_policy", without_effect}, nullptr, Kind::object},
    {{"cache_control", without_effect}, nullptr, Kind::object},
    {{"fallback_credit_token", without_effect, false, "{}"}, &MessagesDecoder::any},
    {{"fallbacks", without_effect, false, "{}"}, &MessagesDecoder::any},
    {{"inference_geo", without_effect}, nullptr, Kind::string},
    {{"metadata", without_effect}, nullptr, Kind::object},
    {{"service_tier", without_effect}, nullptr, Kind::string},
    {{"speed", without_effect}, nullptr, Kind::string},
});
constexpr auto kMessagesFields = joined(kOwnMessagesFields, kTextFields<MessagesDecoder>);

// ---- messages

bool MessagesDecoder::system(const Value& value) {
  Message message{.role = Role::system};
  if (const std::string* all = value.if_string()) {
    message.content = *all;
  } else if (!text_blocks(value, "system", message.parts)) {
    return false;
  }
  if (!message.text().empty()) chat_.messages.push_back(std::move(message));
  return true;
}

// Two passes: what may be left out of a message depends on whether an answer follows it.
bool MessagesDecoder::messages(const Value& value) {
  if (!kind(value, Kind::array, "messages")) return false;
  const json::Array& items = *value.if_array();
  if (items.empty()) {
    return fail("invalid_value", "messages", "messages must have at least one message");
  }
  std::size_t answered = 0;  // number of messages up to the assistant's last one
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Value* role = items[i].if_object() == nullptr ? nullptr : present(items[i], "role");
    if (role != nullptr && *role == Value("assistant")) answered = i + 1;
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    is_past_ = i < answered;
    if (!decode_message(items[i], at("messages", i))) return false;
  }
  return true;
}

bool MessagesDecoder::decode_message(const Value& value, const std::string& path) {
  if (!kind(value, Kind::object, path)) return false;
  if (!only(value, path, {"role", "content"})) return false;
  const std::string_view role = required_word(value, path, "role", {"user", "assistant", "system"});
  const Value* content = role.empty() ? nullptr : required(value, path, "content");
  if (content == nullptr) return false;
  const std::string where = in(path, "content");
  Message message;
  message.role = *message::role_from_name(role);
  if (const std::string* all = content->if_string()) {
    message.content = *all;
  } else if (content->if_array() == nullptr) {
    return fail("invalid_type", where, where + " must be a string or an array of blocks");
  } else if (message.role == Role::user) {
    return user_blocks(*content->if_array(), where);
  } else if (message.role == Role::system) {
    if (!text_blocks(*content, where, message.parts)) return false;
  } else {
    const std::size_t before = message_count() + chat_.code_calls.size();
    if (!assistant_blocks(*content->if_array(), where, message)) return false;
    // It had calls of code alone, or its end was the result of a server's tool.
    const bool is_empty =
        message.parts.empty() && message.tool_calls.empty() && message.reasoning.empty();
    if (is_empty && message_count() + chat_.code_calls.size() > before) return true;
  }
  chat_.messages.push_back(std::move(message));
  return true;
}

// Results of tools become messages of their own; text between them stays in its place.
bool MessagesDecoder::user_blocks(const json::Array& blocks, const std::string& path) {
  const std::size_t before = chat_.messages.size();
  bool has_results = false;
  Message message;
  const auto flush = [&] {
    if (!message.parts.empty()) chat_.messages.push_back(std::exchange(message, Message{}));
  };
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::string where = at(path, i);
    std::string_view type;
    if (!block_type(blocks[i], where, type)) return false;
    if (type == "tool_result") {
      flush();
      has_results = true;
      if (!tool_result(blocks[i], where)) return false;
    } else if (!text_block(blocks[i], type, where, message.parts)) {
      return false;
    }
  }
  flush();
  // Even if all blocks are empty, the message exists.
  if (chat_.messages.size() == before && !has_results) {
    chat_.messages.push_back({.role = Role::user, .content = ""});
  }
  return true;
}

// A server's tool has run within the answer, so its result ends the message with the call; what
// the model wrote then is a message of its own.
bool MessagesDecoder::assistant_blocks(const json::Array& blocks, const std::string& path,
                                       Message& out) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::string where = at(path, i);
    std::string_view type;
    if (!block_type(blocks[i], where, type)) return false;
    bool is_right = true;
    if (type == "tool_use") {
      is_right = tool_use(blocks[i], where, out);
    } else if (type == "mcp_tool_use") {
      is_right = mcp_use(blocks[i], where, out);
    } else if (type == "server_tool_use" && present(blocks[i], "name") != nullptr &&
               *present(blocks[i], "name") == Value(kCodeName)) {
      is_right = code_use(blocks[i], where, out);
    } else if (type == "mcp_tool_result" || type == "code_execution_tool_result") {
      if (!out.parts.empty() || !out.tool_calls.empty() || !out.reasoning.empty()) {
        chat_.messages.push_back(std::exchange(out, Message{.role = Role::assistant}));
      }
      is_right =
          type == "mcp_tool_result" ? mcp_result(blocks[i], where) : code_result(blocks[i], where);
    } else if (type == "mcp_tool_listing") {  // the server is asked itself
      continue;
    } else if (type == "thinking") {
      std::string said;
      is_right = required_string(blocks[i], where, "thinking", said) &&
                 only(blocks[i], where, {"type", "thinking", "signature", "cache_control"});
      out.reasoning += said;
    } else if (type != "redacted_thinking") {  // encrypted by another server, so it is skipped
      is_right = text_block(blocks[i], type, where, out.parts);
    }
    if (!is_right) return false;
  }
  return true;
}

bool MessagesDecoder::tool_use(const Value& block, const std::string& path, Message& out) {
  if (!only(block, path,
            {"type", "id", "name", "input", "cache_control", "caller", "toolset_name"})) {
    return false;
  }
  message::ToolCall call;
  if (!required_string(block, path, "id", call.id)) return false;
  if (!required_string(block, path, "name", call.name)) return false;
  // Some clients send back the text that the input's pieces made.
  const Value* input = required(block, path, "input");
  const std::string* text = input == nullptr ? nullptr : input->if_string();
  const auto object = text == nullptr ? Expected<Value>(Value()) : json::parse(*text);
  const bool is_text = object && object->if_object() != nullptr;
  if (input == nullptr || !(is_text || kind(*input, Kind::object, in(path, "input")))) return false;
  call.arguments = json::to_string(is_text ? *object : *input);
  std::optional<std::string> code_id;
  if (!caller(block, path, code_id)) return false;
  if (code_id) return add_code_call(*std::move(code_id), std::move(call), path);
  out.tool_calls.push_back(std::move(call));
  return true;
}

// `{"type": "direct"}`, or `{"type": "code_execution_20260120", "tool_id"}` for a call of code.
bool MessagesDecoder::caller(const Value& block, const std::string& path,
                             std::optional<std::string>& code_id) {
  const Value* const given = present(block, "caller");
  if (given == nullptr) return true;
  const std::string where = in(path, "caller");
  std::string type;
  if (!kind(*given, Kind::object, where) || !only(*given, where, {"type", "tool_id"}) ||
      !required_string(*given, where, "type", type)) {
    return false;
  }
  if (type == "direct") return true;
  if (is_code_type(type)) return required_string(*given, where, "tool_id", code_id.emplace());
  return fail(
      "invalid_value", in(where, "type"),
      in(where, "type") + " must be direct or like code_execution_20260120, not " + shown(type));
}

// Code that the model has written in an earlier answer.
bool MessagesDecoder::code_use(const Value& block, const std::string& path, Message& out) {
  if (!only(block, path, {"type", "id", "name", "input", "cache_control", "caller"})) return false;
  message::ToolCall call;
  if (!required_string(block, path, "id", call.id)) return false;
  if (!required_string(block, path, "name", call.name)) return false;
  const Value* input = required(block, path, "input", Kind::object);
  if (input == nullptr || !add_code(call.id, path)) return false;
  call.arguments = json::to_string(*input);
  out.tool_calls.push_back(std::move(call));
  return true;
}

// `{"content": {"type": "code_execution_result", "stdout", "stderr", "return_code"}}`, or an error
// in its place.
bool MessagesDecoder::code_result(const Value& block, const std::string& path) {
  if (!only(block, path, {"type", "tool_use_id", "content", "cache_control"})) return false;
  Message message{.role = Role::tool, .content = ""};
  if (!required_string(block, path, "tool_use_id", message.tool_call_id)) return false;
  const Value* const content = required(block, path, "content", Kind::object);
  if (content == nullptr) return false;
  const std::string where = in(path, "content");
  std::string_view type;
  if (!block_type(*content, where, type)) return false;
  if (type == "code_execution_result") {
    std::string out;
    std::string err;
    if (!required_string(*content, where, "stdout", out)) return false;
    if (!required_string(*content, where, "stderr", err)) return false;
    message.content = message::code_output(out, err);
    const Value* const status = present(*content, "return_code");
    if (status != nullptr && *status != Value(0)) message.extra.set("is_error", true);
  } else {
    message.content = left_out_text(type, *content);
  }
  place_result(std::move(message));
  return true;
}

// A call of a server of tools, which ran within an earlier answer.
bool MessagesDecoder::mcp_use(const Value& block, const std::string& path, Message& out) {
  if (!only(block, path, {"type", "id", "name", "server_name", "input", "cache_control"})) {
    return false;
  }
  message::ToolCall call;
  std::string server;
  if (!required_string(block, path, "id", call.id)) return false;
  if (!required_string(block, path, "name", call.name)) return false;
  if (!required_string(block, path, "server_name", server)) return false;
  const Value* input = required(block, path, "input", Kind::object);
  if (input == nullptr) return false;
  call.arguments = json::to_string(*input);
  add_server_call(call, std::move(server), std::move(call.name));
  out.tool_calls.push_back(std::move(call));
  return true;
}

// Unlike a client's result it may come late: behind text, or in a later message after an approval.
bool MessagesDecoder::mcp_result(const Value& block, const std::string& path) {
  if (!only(block, path, {"type", "tool_use_id", "content", "is_error", "cache_control"})) {
    return false;
  }
  Message message{.role = Role::tool, .content = ""};
  if (!result_content(block, path, message)) return false;
  place_result(std::move(message));
  return true;
}

bool MessagesDecoder::tool_result(const Value& block, const std::string& path) {
  if (!only(block, path,
            {"type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"})) {
    return false;
  }
  Message message{.role = Role::tool, .content = ""};
  if (!result_content(block, path, message)) return false;
  // What code has called is not told to the model, but to the code.
  if (!take_code_result(message)) chat_.messages.push_back(std::move(message));
  return true;
}

// Reads `tool_use_id`, `content` and `is_error`.
bool MessagesDecoder::result_content(const Value& block, const std::string& path,
                                     Message& message) {
  if (!required_string(block, path, "tool_use_id", message.tool_call_id)) return false;
  if (const Value* content = present(block, "content")) {
    if (const std::string* all = content->if_string()) {
      message.content = *all;
    } else {
      // The content of a result is not new to the session, whatever the message is.
      const bool was_past = std::exchange(is_past_, true);
      if (!text_blocks(*content, in(path, "content"), message.parts)) return false;
      is_past_ = was_past;
    }
    // Either the text or the parts are set, never both.
    if (!message.parts.empty()) message.content.reset();
  }
  if (const Value* failed = present(block, "is_error")) {
    bool has_failed = false;
    if (!boolean(*failed, in(path, "is_error"), has_failed)) return false;
    if (has_failed) message.extra.set("is_error", true);
  }
  return true;
}

// ---- blocks

bool MessagesDecoder::block_type(const Value& block, const std::string& path,
                                 std::string_view& type) {
  if (!kind(block, Kind::object, path)) return false;
  const Value* given = required(block, path, "type", Kind::string);
  if (given == nullptr) return false;
  type = *given->if_string();
  return true;
}

bool MessagesDecoder::text_blocks(const Value& value, const std::string& path, Parts& parts) {
  if (!kind(value, Kind::array, path)) return false;
  const json::Array& blocks = *value.if_array();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    std::string_view type;
    if (!block_type(blocks[i], at(path, i), type)) return false;
    if (!text_block(blocks[i], type, at(path, i), parts)) return false;
  }
  return true;
}

// Reads any block that is text, also a document's or a search result's.
bool MessagesDecoder::text_block(const Value& block, std::string_view type, const std::string& path,
                                 Parts& parts) {
  if (type == "text") {
    return text(block, "text", path, parts) &&
           only(block, path, {"type", "text", "cache_control", "citations"});
  }
  if (type == "document") {
    return document(block, path, parts) &&
           only(block, path, {"type", "source", "title", "context", "cache_control", "citations"});
  }
  if (type == "search_result") {
    if (!only(block, path, {"type", "title", "source", "content", "cache_control", "citations"})) {
      return false;
    }
    if (!text(block, "title", path, parts) || !text(block, "source", path, parts)) return false;
    const Value* content = required(block, path, "content");
    return content != nullptr && text_blocks(*content, in(path, "content"), parts);
  }
  return other_block(block, type, path, parts);
}

bool MessagesDecoder::other_block(const Value& block, std::string_view type,
                                  const std::string& path, Parts& parts) {
  // The tool's definition is in `tools`; the model reads its name.
  if (type == "tool_reference" && is_past_) {
    std::string name;
    if (!required_string(block, path, "tool_name", name)) return false;
    parts.push_back({.text = "[tool: " + name + ']'});
    return true;
  }
  if (is_past_) {
    parts.push_back({.text = left_out_text(type, block)});
    return leave_out(path, "the model takes text and calls of the request's tools");
  }
  return fail("invalid_value", in(path, "type"),
              in(path, "type") + " " + shown(type) +
                  " is not supported here: the model takes text and calls of the request's tools");
}

bool MessagesDecoder::text(const Value& block, std::string_view key, const std::string& path,
                           Parts& parts) {
  ContentPart part;
  if (!required_string(block, path, key, part.text)) return false;
  parts.push_back(std::move(part));
  return true;
}

// A document's title, context and text become parts of text, in this order. PDFs and images cannot
// be read: they are left out of an earlier message and refused in a new one.
bool MessagesDecoder::document(const Value& block, const std::string& path, Parts& parts) {
  for (const std::string_view key : {"title", "context"}) {
    if (present(block, key) != nullptr && !text(block, key, path, parts)) return false;
  }
  const Value* source = required(block, path, "source");
  const std::string where = in(path, "source");
  std::string_view type;
  if (source == nullptr || !block_type(*source, where, type)) return false;
  if (type == "text") return text(*source, "data", where, parts);
  if (type != "content" && is_past_) {
    parts.push_back({.text = left_out_text("document", block)});
    return leave_out(path, "documents are text or content");
  }
  if (type != "content") {
    return fail(
        "invalid_value", in(where, "type"),
        in(where, "type") + " " + shown(type) + " is not supported: documents are text or content");
  }
  const Value* content = required(*source, where, "content");
  if (content == nullptr) return false;
  if (content->if_string() != nullptr) return text(*source, "content", where, parts);
  return text_blocks(*content, in(where, "content"), parts);
}

// ---- tools

// Types name tools that the client runs by Anthropic's definition ("bash_20250124"), sets of a
// server's tools, and hosted tools. Without a type it is the client's own, with an input_schema.
bool MessagesDecoder::tool(const Value& value, const std::string& path, Tool& out) {
  if (!kind(value, Kind::object, path)) return false;
  if (const Value* type = present(value, "type"); type != nullptr && *type != Value("custom")) {
    if (!kind(*type, Kind::string, in(path, "type"))) return false;
    if (const ClientTool* known = client_tool_of_messages(*type->if_string())) {
      std::string name(known->name);
      if (!optional_string(value, path, "name", name) || !is_tool_name(name, in(path, "name"))) {
        return false;
      }
      out = function_of(*known, std::move(name));
      return true;
    }
    if (*type == Value("mcp_toolset")) return mcp_toolset(value, path);
    if (is_tool_search(value)) return true;
    if (type->if_string()->starts_with("code_execution_")) return runs_code(value, path);
    if (is_hosted_tool(value)) return leave_out(path, kRunsNoTools);
    return fail("invalid_value", in(path, "type"),
                in(path, "type") + " " + shown(*type->if_string()) +
                    " is not known: tools with an input_schema have the type custom, or none");
  }
  if (!only(value, path,
            {"type", "name", "description", "input_schema", "strict", "cache_control",
             "defer_loading", "eager_input_streaming", "input_examples", "allowed_callers"})) {
    return false;
  }
  return flat_function_tool(value, path, "input_schema", out) &&
         callers(value, path, out.for_model, out.for_code) &&
         required(value, path, "input_schema") != nullptr;
}

// `{"type": "code_execution_20260120", "name": "code_execution"}`, of any date: the same is run.
bool MessagesDecoder::runs_code(const Value& value, const std::string& path) {
  if (!only(value, path,
            {"type", "name", "allowed_callers", "cache_control", "defer_loading", "strict"})) {
    return false;
  }
  bool for_model = true;
  bool for_code = false;
  if (!callers(value, path, for_model, for_code)) return false;
  if (!for_model) {
    const std::string where = in(path, "allowed_callers");
    return fail("invalid_value", where, where + " must have \"direct\": the model begins its code");
  }
  const std::string& type = *value.find("type")->if_string();
  if (!is_code_type(type)) {
    const std::string where = in(path, "type");
    return fail("invalid_value", where,
                where + " " + shown(type) +
                    " is not known: code is run by types like "
                    "code_execution_20260120");
  }
  // Later requests have calls of it by this name alone.
  const Value* const name = present(value, "name");
  if (name != nullptr && !one_of(*name, in(path, "name"), {kCodeName})) return false;
  return code_tool(path, std::string(kCodeName), type);
}

bool MessagesDecoder::tool_choice(const Value& value) {
  if (!kind(value, Kind::object, "tool_choice")) return false;
  const std::string_view type =
      required_word(value, "tool_choice", "type", {"auto", "any", "tool", "none"});
  if (type.empty()) return false;
  const bool is_named = type == "tool";
  if (type == "any" || is_named) chat_.tool_choice.mode = ToolMode::required;
  if (type == "none") chat_.tool_choice.mode = ToolMode::none;
  // "type" is there anyway; it stands for a member that this kind does not have.
  const std::string_view of_named = is_named ? "name" : "type";
  if (!only(value, "tool_choice", {"type", of_named, "disable_parallel_tool_use"})) return false;
  if (const Value* single = present(value, "disable_parallel_tool_use")) {
    bool is_single = false;
    if (!boolean(*single, "tool_choice.disable_parallel_tool_use", is_single)) return false;
    chat_.parallel_tool_calls = !is_single;
  }
  if (!is_named) return true;
  std::string wanted;
  if (!required_string(value, "tool_choice", "name", wanted)) return false;
  if (std::ranges::find(chat_.tools, wanted, &Tool::name) == chat_.tools.end()) {
    return fail(
        "invalid_value", "tool_choice.name",
        "tool_choice names " + shown(wanted) + ", which is no tool that the model can call");
  }
  chat_.tool_choice.allowed.push_back(std::move(wanted));
  return true;
}

// ---- the rest

// The template decides whether the model thinks; its reasoning ends at the budget.
bool MessagesDecoder::thinking(const Value& value) {
  if (!kind(value, Kind::object, "thinking")) return false;
  if (!only(value, "thinking", {"type", "budget_tokens", "display"})) return false;
  const std::string_view type = required_word(value, "thinking", "type",
                                              {"enabled", "disabled", "adaptive", "between_tools"});
  if (type.empty()) return false;
  if (const Value* budget = present(value, "budget_tokens")) {
    std::int64_t tokens = 0;
    if (!integer(*budget, "thinking.budget_tokens", 1, std::numeric_limits<std::int32_t>::max(),
                 tokens)) {
      return false;
    }
    // An adaptive model decides by itself, so a budget beside "adaptive" has no effect.
    if (type == "enabled") chat_.max_reasoning_tokens = static_cast<std::uint32_t>(tokens);
  }
  if (const Value* display = present(value, "display")) {
    if (!one_of(*display, "thinking.display", {"summarized", "omitted"})) return false;
    out_.omits_thinking = *display == Value("omitted");
  }
  if (type == "enabled" || type == "disabled") {
    chat_.template_kwargs.set("enable_thinking", type == "enabled");
  }
  return true;
}

bool MessagesDecoder::output_config(const Value& value) {
  if (!kind(value, Kind::object, "output_config")) return false;
  if (!only(value, "output_config", {"effort", "format"})) return false;
  if (const Value* given = present(value, "effort")) {
    if (!effort(*given, "output_config.effort")) return false;
  }
  const Value* format = present(value, "format");
  return format == nullptr || output_format(*format, "output_config.format");
}

// Anthropic's format is always strict: the answer fits the schema or ends at max_tokens.
bool MessagesDecoder::output_format(const Value& value, const std::string& path) {
  if (!kind(value, Kind::object, path)) return false;
  if (!only(value, path, {"type", "schema"})) return false;
  if (required_word(value, path, "type", {"json_schema"}).empty()) return false;
  const Value* schema = required(value, path, "schema", Kind::object);
  if (schema == nullptr) return false;
  chat_.response_format = {.kind = ResponseFormat::Kind::json, .schema = *schema, .strict = true};
  return true;
}

bool MessagesDecoder::context_management(const Value& value) {
  const std::string path = "context_management";
  constexpr std::size_t kMaxEdits = 4;  // for each the prompt is tokenised once more
  if (!kind(value, Kind::object, path) || !only(value, path, {"edits"})) return false;
  const Value* edits = present(value, "edits");
  if (edits == nullptr) return true;
  const std::string where = in(path, "edits");
  if (!kind(*edits, Kind::array, where)) return false;
  const json::Array& items = *edits->if_array();
  if (!at_most(kMaxEdits, items.size(), where, "edits")) return false;
  out_.edits.emplace();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!edit(items[i], at(where, i))) return false;
  }
  return true;
}

bool MessagesDecoder::diagnostics(const Value& value) {
  const std::string path = "diagnostics";
  if (!kind(value, Kind::object, path) || !only(value, path, {"previous_message_id"})) return false;
  out_.previous_id.emplace();
  return optional_string(value, path, "previous_message_id", *out_.previous_id);
}

// Reads one edit of `context_management.edits`. Types have a date: another one may mean something
// else, so it is left out and reported.
bool MessagesDecoder::edit(const Value& value, const std::string& path) {
  std::string_view type;
  if (!block_type(value, path, type)) return false;
  const bool is_of_uses = type == "clear_tool_uses_20250919";
  if (!is_of_uses && type != "clear_thinking_20251015") {
    return leave_out(
        path, "edits are clear_tool_uses_20250919 and clear_thinking_20251015, not " + shown(type));
  }
  ContextEdit& edit = out_.edits->emplace_back();
  edit.type = type;
  return is_of_uses ? uses_edit(value, path, edit) : thinking_edit(value, path, edit);
}

// `{"type", "value"}`
bool MessagesDecoder::counted(const Value& value, const std::string& path,
                              std::initializer_list<std::string_view> types, std::uint64_t& out) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  std::int64_t count = 0;
  if (!kind(value, Kind::object, path) || !only(value, path, {"type", "value"})) return false;
  if (required_word(value, path, "type", types).empty()) return false;
  const Value* number = required(value, path, "value");
  if (number == nullptr || !integer(*number, in(path, "value"), 0, kMost, count)) return false;
  out = static_cast<std::uint64_t>(count);
  return true;
}

// `{"trigger": {"type": "input_tokens", "value": 30000}, "keep": {"type": "tool_uses", "value":
// 3}}` and what may be left alone. What is missing keeps the defaults of ContextEdit.
bool MessagesDecoder::uses_edit(const Value& value, const std::string& path, ContextEdit& out) {
  if (!only(value, path,
            {"type", "trigger", "keep", "clear_at_least", "exclude_tools", "clear_tool_inputs"})) {
    return false;
  }
  if (const Value* trigger = present(value, "trigger")) {
    const std::string where = in(path, "trigger");
    if (!counted(*trigger, where, {"input_tokens", "tool_uses"}, out.trigger)) return false;
    out.triggers_by_uses = *trigger->find("type") == Value("tool_uses");
  }
  const Value* keep = present(value, "keep");
  if (keep != nullptr && !counted(*keep, in(path, "keep"), {"tool_uses"}, out.keep)) return false;
  const Value* least = present(value, "clear_at_least");
  if (least != nullptr &&
      !counted(*least, in(path, "clear_at_least"), {"input_tokens"}, out.at_least_tokens)) {
    return false;
  }
  const Value* stay = present(value, "exclude_tools");
  if (stay != nullptr && !tool_names(*stay, in(path, "exclude_tools"), out.excluded)) return false;
  const Value* inputs = present(value, "clear_tool_inputs");
  if (inputs == nullptr) return true;
  const std::string where = in(path, "clear_tool_inputs");
  if (inputs->if_array() != nullptr) return tool_names(*inputs, where, out.input_tools);
  return boolean(*inputs, where, out.clears_all_inputs);
}

// `{"keep": {"type": "thinking_turns", "value": 2}}`, or "all", as a word or as the type.
bool MessagesDecoder::thinking_edit(const Value& value, const std::string& path, ContextEdit& out) {
  out.kind = ContextEdit::Kind::thinking;
  out.keep = 1;
  if (!only(value, path, {"type", "keep"})) return false;
  const Value* keep = present(value, "keep");
  if (keep == nullptr) return true;
  const Value* type = keep->if_object() == nullptr ? keep : present(*keep, "type");
  out.keeps_all = type != nullptr && *type == Value("all");
  return out.keeps_all || counted(*keep, in(path, "keep"), {"thinking_turns"}, out.keep);
}

// Checks what depends on several fields.
bool MessagesDecoder::finish(bool counts_only) {
  if (!counts_only && !chat_.max_tokens) {
    return fail("missing_required_parameter", "max_tokens", "max_tokens is required");
  }
  if (!toolsets_fit() || !choice_fits_tools() || !decisions_fit() || !code_fits()) return false;
  const Message& last = chat_.messages.back();
  if (last.role != Role::assistant || !last.tool_calls.empty()) return true;
  return take_prefill(
      "messages",
      "messages end with the assistant's own words, which cannot be gone on from where "
      "output_config.format holds the answer");
}

Result<MessagesRequest, ApiError> MessagesDecoder::run(const Value& body, bool counts_only) {
  // Anthropic's clients know the ids of calls by this prefix.
  chat_.call_id_prefix = "toolu_";
  chat_.can_approve = true;
  return outcome(read(body, kMessagesFields) && finish(counts_only), out_);
}

}  // namespace

std::span<const FieldInfo> messages_fields() {
  return infos_of<kMessagesFields>();
}

Result<MessagesRequest, ApiError> decode_messages(const Value& body, const DecodeOptions& options) {
  return MessagesDecoder(options).run(body, /*counts_only=*/false);
}

Result<MessagesRequest, ApiError> decode_count_tokens(const Value& body,
                                                      const DecodeOptions& options) {
  return MessagesDecoder(options).run(body, /*counts_only=*/true);
}

}  // namespace tenon::api
