#include "tenon/api/messages_encode.h"

#include <array>
#include <chrono>
#include <ctime>
#include <utility>
#include <variant>

#include "tenon/http/sse.h"

// How a message is written
//
// An answer is a list of blocks: text, thinking, calls of the client's tools, and calls of servers
// with their results. One block is open at a time; open_ says which kind, and an event of another
// kind closes it. A stream gets the block's start, its deltas and its stop, each with the block's
// index, and nothing is kept. For a whole answer `out` is null: the blocks are kept with their text
// and written by whole(). Log probabilities have no place in this dialect.

namespace tenon::api {
namespace {

using message::ChatEvent;
using message::FinishReason;

// Clients send thinking back only if it has a signature. The signature is never checked.
constexpr std::string_view kSignature = "tenon";

// As Anthropic's own ids of such calls begin.
std::string server_call_id(const std::string& id) {
  return id.starts_with("toolu_") ? "mcp" + id : id;
}

// "2026-11-30T18:00:00Z"
std::string utc_time(std::chrono::system_clock::time_point when) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(when);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::string code_call_id(const std::string& id) {
  return id.starts_with("toolu_") ? "srv" + id : id;
}

// In our usage cached tokens are part of the prompt; in this dialect they are beside the input.
json::Object messages_usage_of(const message::Usage& counts) {
  json::Object details{{"thinking_tokens", std::uint64_t{counts.reasoning_tokens}}};
  return json::Object{{"input_tokens", std::uint64_t{counts.prompt_tokens - counts.cached_tokens}},
                      {"cache_creation_input_tokens", std::uint64_t{0}},
                      {"cache_read_input_tokens", std::uint64_t{counts.cached_tokens}},
                      {"output_tokens", std::uint64_t{counts.completion_tokens}},
                      {"output_tokens_details", std::move(details)}};
}

}  // namespace

void MessagesEncoder::begin(std::string& out) {
  append_event("message_start", {{"message", message({}, nullptr)}}, out);
}

void MessagesEncoder::add(unsigned, const ChatEvent& event,
                          const std::vector<message::TokenLogprob>&, std::string& out) {
  add_event(event, &out);
}

void MessagesEncoder::keep(unsigned, const ChatEvent& event,
                           const std::vector<message::TokenLogprob>&) {
  add_event(event, nullptr);
}

// `out` is null for a whole answer, whose blocks are kept.
void MessagesEncoder::add_event(const ChatEvent& event, std::string* out) {
  note_.add(event);
  if (add_server_event(event, out)) return;
  if (const auto* content = std::get_if<message::ContentDelta>(&event)) {
    add_text(Kind::text, content->text, out);
  } else if (const auto* reasoning = std::get_if<message::ReasoningDelta>(&event)) {
    if (!head_.omits_thinking) add_text(Kind::thinking, reasoning->text, out);
  } else if (const auto* begin = std::get_if<message::CallBegin>(&event)) {
    has_code_ = has_code_ || !begin->code_id.empty();
    open({.kind = Kind::tool_use,
          .id = begin->id,
          .name = begin->name,
          .text = {},
          .code_id = begin->code_id},
         out);
  } else if (const auto* arguments = std::get_if<message::CallArguments>(&event)) {
    add_text(Kind::tool_use, arguments->text, out);
  } else if (std::holds_alternative<message::CallEnd>(event)) {
    close(out);
  } else if (const auto* finish = std::get_if<message::Finish>(&event)) {
    finish_ = *finish;
    close(out);
  }
}

// Reads the events of servers of tools; false for all others. The list of a server's tools is read
// and dropped, since the answer has no block for it. A call that waits for an approval is written
// without a result, and the answer ends with "pause_turn".
bool MessagesEncoder::add_server_event(const ChatEvent& event, std::string* out) {
  if (const auto* begin = std::get_if<message::ServerCallBegin>(&event)) {
    if (begin->was_approved) return true;  // it stands in the answer before this one
    const bool is_code = begin->tool.server == message::kCodeServer;
    has_code_ = has_code_ || is_code;
    open({.kind = Kind::server_call,
          .id = is_code ? code_call_id(begin->id) : server_call_id(begin->id),
          .name = begin->tool.tool,
          .text = {},
          .server = begin->tool.server},
         out);
  } else if (const auto* arguments = std::get_if<message::ServerCallArguments>(&event)) {
    if (open_ == Kind::server_call) add_text(Kind::server_call, arguments->text, out);
  } else if (const auto* result = std::get_if<message::ServerCallResult>(&event)) {
    const bool is_code = result->error_output.has_value();
    has_code_ = has_code_ || is_code;
    open({.kind = Kind::server_result,
          .id = is_code ? code_call_id(result->id) : server_call_id(result->id),
          .name = {},
          .text = result->output,
          .is_error = result->is_error,
          .error_output = result->error_output},
         out);
    close(out);
  } else if (const auto* wanted = std::get_if<message::ApprovalsWanted>(&event)) {
    waits_ = true;
    for (const auto& one : wanted->calls) {
      open({.kind = Kind::server_call,
            .id = server_call_id(one.call.id),
            .name = one.tool.tool,
            .text = {},
            .server = one.tool.server},
           out);
      add_text(Kind::server_call, one.call.arguments, out);
      close(out);
    }
  } else {
    return std::holds_alternative<message::ServerTools>(event);
  }
  return true;
}

json::Object MessagesEncoder::result_of(const Block& block) {
  if (block.error_output) {
    json::Object content{{"type", "code_execution_result"},
                         {"stdout", block.text},
                         {"stderr", *block.error_output},
                         {"return_code", block.is_error ? 1 : 0},
                         {"content", json::Array()}};
    return json::Object{{"type", "code_execution_tool_result"},
                        {"tool_use_id", block.id},
                        {"content", std::move(content)}};
  }
  json::Object text{{"type", "text"}, {"text", block.text}};
  return json::Object{{"type", "mcp_tool_result"},
                      {"tool_use_id", block.id},
                      {"is_error", block.is_error},
                      {"content", json::Array{std::move(text)}}};
}

// The block of a call, the client's or a server's. Where code may call tools, it says who calls.
json::Object MessagesEncoder::call_of(const Block& block, json::Value input) const {
  const bool is_code = block.server == message::kCodeServer;
  const bool is_server = block.kind == Kind::server_call;
  json::Object call{{"type", is_code     ? "server_tool_use"
                             : is_server ? "mcp_tool_use"
                                         : "tool_use"},
                    {"id", block.id},
                    {"name", block.name}};
  if (is_server && !is_code) call.set("server_name", block.server);
  call.set("input", std::move(input));
  if (!head_.code_type.empty() && (is_code || !is_server)) call.set("caller", caller_of(block));
  return call;
}

json::Object MessagesEncoder::caller_of(const Block& block) const {
  if (block.code_id.empty()) return {{"type", "direct"}};
  return {{"type", head_.code_type}, {"tool_id", code_call_id(block.code_id)}};
}

// Nothing is kept for it: code runs anew when it goes on. Clients expect one and send it back.
json::Value MessagesEncoder::container() const {
  constexpr std::chrono::hours kLife{24};
  return json::Object{{"id", "container_" + head_.id},
                      {"expires_at", utc_time(std::chrono::system_clock::now() + kLife)}};
}

void MessagesEncoder::add_text(Kind kind, std::string_view text, std::string* out) {
  if (text.empty()) return;
  if (open_ != kind) open({.kind = kind, .id = {}, .name = {}, .text = {}}, out);
  if (out == nullptr) {
    blocks_.back().text += text;
  } else {
    append_delta(kind, text, *out);
  }
}

// Begins a block. In a stream its `content_block` has all members, with empty text or input, which
// the deltas fill.
void MessagesEncoder::open(Block block, std::string* out) {
  close(out);
  open_ = block.kind;
  ++opened_;
  if (out == nullptr) {
    blocks_.push_back(std::move(block));
    return;
  }
  json::Object start;
  if (block.kind == Kind::text) start = {{"type", "text"}, {"text", ""}};
  if (block.kind == Kind::thinking) {
    start = {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}};
  }
  if (block.kind == Kind::tool_use || block.kind == Kind::server_call) {
    start = call_of(block, json::Object());
  }
  if (block.kind == Kind::server_result) start = result_of(block);
  append_event("content_block_start",
               {{"index", std::uint64_t{opened_ - 1}}, {"content_block", std::move(start)}}, *out);
}

void MessagesEncoder::close(std::string* out) {
  const Kind closed = std::exchange(open_, Kind::none);
  if (closed == Kind::none || out == nullptr) return;
  const std::uint64_t index = opened_ - 1;
  if (closed == Kind::thinking) {
    json::Object delta{{"type", "signature_delta"}, {"signature", kSignature}};
    append_event("content_block_delta", {{"index", index}, {"delta", std::move(delta)}}, *out);
  }
  append_event("content_block_stop", {{"index", index}}, *out);
}

// This event comes for each token, so it is written without a tree of values.
void MessagesEncoder::append_delta(Kind kind, std::string_view text, std::string& out) const {
  std::string data = R"({"type":"content_block_delta","index":)" + std::to_string(opened_ - 1);
  if (kind == Kind::text) data += R"(,"delta":{"type":"text_delta","text":)";
  if (kind == Kind::thinking) data += R"(,"delta":{"type":"thinking_delta","thinking":)";
  if (kind == Kind::tool_use || kind == Kind::server_call)
    data += R"(,"delta":{"type":"input_json_delta","partial_json":)";
  json::append_quoted(data, text);
  data += "}}";
  http::append_sse(out, data, "content_block_delta");
}

void MessagesEncoder::end(const message::Usage& usage, std::string& out) {
  if (head_.ended) head_.ended(usage);
  json::Object delta{{"stop_reason", stop_reason()}, {"stop_sequence", stop_sequence()}};
  if (has_code_) delta.set("container", container());
  json::Object event{{"delta", std::move(delta)}, {"usage", messages_usage_of(usage)}};
  if (!head_.context_management.is_null()) {
    event.set("context_management", head_.context_management);
  }
  event.set("tenon", note_.encode());
  append_event("message_delta", event, out);
  append_event("message_stop", {}, out);
}

void MessagesEncoder::fail(const ApiError& error, std::string& out) {
  http::append_sse(out, json::to_string(to_json(error, Dialect::anthropic, head_.request_id)),
                   "error");
}

void MessagesEncoder::keep_alive(std::string& out) {
  append_event("ping", {}, out);
}

// The kept blocks as a message. Arguments become an object here; in a stream they are text, and the
// client parses it.
json::Value MessagesEncoder::whole(const message::Usage& usage) {
  if (head_.ended) head_.ended(usage);
  json::Array content;
  for (Block& block : blocks_) {
    if (block.kind == Kind::text) {
      content.emplace_back(json::Object{{"type", "text"}, {"text", std::move(block.text)}});
    } else if (block.kind == Kind::thinking) {
      content.emplace_back(json::Object{
          {"type", "thinking"}, {"thinking", std::move(block.text)}, {"signature", kSignature}});
    } else if (block.kind == Kind::server_result) {
      content.emplace_back(result_of(block));
    } else {
      content.emplace_back(call_of(block, call_input(block.text)));
    }
  }
  json::Value answer = message(std::move(content), &usage);
  if (has_code_) answer.if_object()->set("container", container());
  if (!head_.context_management.is_null()) {
    answer.if_object()->set("context_management", head_.context_management);
  }
  answer.if_object()->set("tenon", note_.encode());
  return answer;
}

// Without `usage` the message has just begun, and its usage is the prompt alone.
json::Value MessagesEncoder::message(json::Array content, const message::Usage* usage) const {
  const bool is_over = usage != nullptr;
  const message::Usage begun{.prompt_tokens = static_cast<std::uint32_t>(prompt_tokens_)};
  json::Object out{{"id", head_.id},
                   {"type", "message"},
                   {"role", "assistant"},
                   {"model", head_.model},
                   {"content", std::move(content)},
                   {"stop_reason", is_over ? stop_reason() : json::Value()},
                   {"stop_sequence", is_over ? stop_sequence() : json::Value()},
                   {"usage", messages_usage_of(is_over ? *usage : begun)}};
  if (head_.diagnostics) out.set("diagnostics", *head_.diagnostics);
  return out;
}

// A pause tells the client that the answer goes on once it sends its approvals.
json::Value MessagesEncoder::stop_reason() const {
  switch (finish_.reason) {
    case FinishReason::length:
      return "max_tokens";
    case FinishReason::tool_calls:
      return waits_ ? "pause_turn" : "tool_use";
    default:
      return finish_.stop_sequence.empty() ? "end_turn" : "stop_sequence";
  }
}

json::Value MessagesEncoder::stop_sequence() const {
  const bool has_stopped = finish_.reason == FinishReason::stop && !finish_.stop_sequence.empty();
  return has_stopped ? json::Value(finish_.stop_sequence) : json::Value();
}

}  // namespace tenon::api
